"""Enums have the names of the official client and the numbers of the wire."""

from enum import IntEnum

import pulsar
import pytest
from google.protobuf.descriptor import EnumDescriptor
from support.schema import enum_of

from magnetar import model
from magnetar.protocol import pulsar_pb2 as pb

OFFICIAL = [
    model.ConsumerType,
    model.InitialPosition,
    model.CompressionType,
    model.ProducerAccessMode,
    model.KeySharedMode,
    model.RegexSubscriptionMode,
]

WIRE: dict[type[IntEnum], EnumDescriptor] = {
    model.ConsumerType: enum_of("SubType", pb.CommandSubscribe),
    model.InitialPosition: enum_of("InitialPosition", pb.CommandSubscribe),
    model.CompressionType: enum_of("CompressionType"),
    model.ProducerAccessMode: enum_of("ProducerAccessMode"),
    model.KeySharedMode: enum_of("KeySharedMode"),
    model.RegexSubscriptionMode: (enum_of("Mode", pb.CommandGetTopicsOfNamespace)),
    model.AckType: enum_of("AckType", pb.CommandAck),
    model.ValidationError: enum_of("ValidationError", pb.CommandAck),
    model.SchemaType: enum_of("Type", pb.Schema),
    model.ServerError: enum_of("ServerError"),
}


@pytest.mark.parametrize("ours", OFFICIAL, ids=lambda e: e.__name__)
def test_names_and_numbers_are_the_official_clients(ours: type[IntEnum]) -> None:
    theirs = getattr(pulsar, ours.__name__)
    assert {m.name: m.value for m in ours} == {n: int(v) for n, v in theirs.__members__.items()}


@pytest.mark.parametrize("ours", WIRE, ids=lambda e: e.__name__)
def test_numbers_are_those_of_the_wire(ours: type[IntEnum]) -> None:
    assert [m.value for m in ours] == [v.number for v in WIRE[ours].values]


@pytest.mark.parametrize("ours", [e for e in WIRE if e not in OFFICIAL], ids=lambda e: e.__name__)
def test_names_that_only_the_wire_knows_are_pulsars(ours: type[IntEnum]) -> None:
    assert [m.name for m in ours] == [v.name for v in WIRE[ours].values]
