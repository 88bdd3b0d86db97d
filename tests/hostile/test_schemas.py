"""Large Avro schemas are refused, or handled a little at a time."""

import json
from pathlib import Path

from hostile.asker import LONG, Asker
from hostile.limited import limited
from hostile.probe import MEMORY_BYTES, Probe
from support.broker_process import BrokerProcess

from magnetar.model import SchemaType
from magnetar.protocol import pulsar_pb2 as pb

TOPIC = "persistent://public/default/formed"
ROUNDS = 5 if LONG else 2


def definition(size: int, version: int) -> bytes:
    """A record of about so many bytes; those of other versions have another field."""
    fields: list[object] = [{"name": f"v{version}", "type": ["null", "int"], "default": None}]
    length = 0
    while length < size:
        field = {
            "name": f"field_{len(fields)}",
            "type": ["null", {"type": "array", "items": "string"}],
            "default": None,
        }
        fields.append(field)
        length += len(json.dumps(field)) + 2
    return json.dumps({"type": "record", "name": "Big", "fields": fields}).encode()


def producer(number: int, data: bytes) -> pb.CommandProducer:
    command = pb.CommandProducer(
        topic=TOPIC, producer_id=number, request_id=number, producer_name=f"p{number}"
    )
    command.schema.name = "s"
    command.schema.type = SchemaType.Avro.value
    command.schema.schema_data = data
    return command


def consumer(number: int, data: bytes) -> pb.CommandSubscribe:
    command = pb.CommandSubscribe(
        topic=TOPIC, subscription=f"s{number}", subType=1, consumer_id=number, request_id=number
    )
    command.schema.name = "s"
    command.schema.type = SchemaType.Avro.value
    command.schema.schema_data = data
    return command


def test_schemas_of_100_kilobytes_are_compared_while_others_are_served(tmp_path: Path) -> None:
    command = limited(memory_bytes=MEMORY_BYTES)
    with BrokerProcess(tmp_path, command=command) as broker, Asker(broker.url) as asker:
        with Probe(broker) as probe:
            for round in range(ROUNDS):
                data = definition(100_000, round)
                (made,) = asker.ask([producer(round, data)])
                assert isinstance(made, pb.CommandProducerSuccess), made
                assert int.from_bytes(made.schema_version, "big") == round
                (joined,) = asker.ask([consumer(round, data)])
                assert isinstance(joined, pb.CommandSuccess), joined
        probe.check()


def test_schemas_of_900_kilobytes_are_refused(tmp_path: Path) -> None:
    command = limited(memory_bytes=MEMORY_BYTES)
    with BrokerProcess(tmp_path, command=command) as broker, Asker(broker.url) as asker:
        with Probe(broker) as probe:
            for round in range(ROUNDS):
                (refused,) = asker.ask([producer(round, definition(900_000, round))])
                assert isinstance(refused, pb.CommandError), refused
                assert "schema_size_max" in refused.message
        probe.check()
