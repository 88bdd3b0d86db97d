"""Every request of the protocol is answered, whatever it asks about: nobody is left waiting.

The requests are those of the descriptor, so one that is added is walked as well.
"""

from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
from support.wire_client import Shared, WireClient
from support.world import FULL, World

from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import CommandAck, CommandAckResponse
from magnetar.protocol import pulsar_pb2 as pb

# What a broker says with a request's id.
ANSWERS = {
    "CommandAckResponse",
    "CommandError",
    "CommandProducerSuccess",
    "CommandSuccess",
    "CommandWatchTopicListSuccess",
    "CommandWithdrawn",
}
NOBODY = 99


def requests() -> list[str]:
    """The names of all commands that have an answer."""
    fields = [field.message_type for field in pb.BaseCommand.DESCRIPTOR.fields]
    named = [
        kind.name for kind in fields if kind is not None and "request_id" in kind.fields_by_name
    ]
    return [name for name in named if name not in ANSWERS and not name.endswith("Response")]


def handled() -> list[str]:
    """Those that this broker knows; ACK has a way of its own."""
    world = World()
    known = {*world.connect().session._handlers, "CommandAck"}
    world.close()
    return [name for name in requests() if name in known]


def filled(name: str, **known: object) -> Any:
    """A command with what is known in its place, and something in all that it must have."""
    command = getattr(pb, name)()
    for field in command.DESCRIPTOR.fields:
        if field.name in known:
            setattr(command, field.name, known[field.name])
        elif field.is_required:
            _fill(command, field)
    return command


def _fill(command: Any, field: FieldDescriptor) -> None:
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        text = "x" if field.type == FieldDescriptor.TYPE_STRING else b""
        setattr(command, field.name, text)
    elif field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        part = getattr(command, field.name)
        part.SetInParent()
        for inner in part.DESCRIPTOR.fields:
            if inner.is_required:
                _fill(part, inner)
    else:
        setattr(command, field.name, NOBODY if field.name.endswith("_id") else 0)


def ask(client: WireClient, name: str, **known: object) -> Any:
    """The answer to a request, None if there is none."""
    if name == "CommandAck":
        ack = CommandAck(NOBODY, 0, [MessageIdData(1, 1)], request_id=7)
        client.say(ack)
        found = client.take(CommandAckResponse)
        return found[0] if found else None
    return client.request_or_refusal(filled(name, **known))


def test_the_broker_knows_every_request_of_the_protocol() -> None:
    assert len(requests()) >= 22
    # WITHDRAW is ours, and sent only where it is known.
    assert set(requests()) - set(handled()) <= {"CommandWithdraw"}


PLACES = {
    "an unknown tenant": ("persistent://nobody/none/t", "nobody/none"),
    "an unknown namespace": ("persistent://public/none/t", "public/none"),
    "an unknown topic": ("persistent://public/default/none", "public/default"),
    "a name that is none": ("a/b", "a/b/c/d"),
    "an empty name": ("", ""),
    "a partition that is not there": ("persistent://public/default/p-partition-7", "public"),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", handled())
def test_a_request_about_what_is_not_there_is_answered(name: str, place: str) -> None:
    topic, namespace = PLACES[place]
    world = World(auto_create_topics=False)
    client = world.connect()
    answer = ask(client, name, topic=topic, namespace=namespace)
    assert answer is not None, f"{name} about {place}"
    assert not client.hung_up
    world.close()


@pytest.mark.parametrize("name", handled())
def test_a_request_is_answered_while_the_disk_takes_nothing(name: str) -> None:
    world = World()
    client = world.connect()
    client.producer("t")
    client.subscribe("t", "sub", Shared, consumer_id=NOBODY)
    world.fail_disk(FULL)
    topic = "persistent://public/default/new"
    assert ask(client, name, topic=topic, namespace="public/default") is not None
    assert not client.hung_up
    world.close()
