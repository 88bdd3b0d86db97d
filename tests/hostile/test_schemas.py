"""Large Avro schemas are refused, or handled a little at a time; very many are refused."""

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
# Topics, and versions that somebody tries to give the schema of each.
CHURNED = 50 if LONG else 4
VERSIONS = 40 if LONG else 10


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


def documented(version: int, size: int) -> bytes:
    """A definition of so many bytes, which is soon compared."""
    field = {"name": "f", "type": "string", "default": f"{version}".ljust(size - 200)}
    return json.dumps({"type": "record", "name": "R", "fields": [field]}).encode()


def test_versions_without_end_are_refused(tmp_path: Path) -> None:
    """They stayed in memory for good: 250 MB of them, once somebody had sent as much."""
    command = limited(memory_bytes=MEMORY_BYTES)
    with BrokerProcess(tmp_path, command=command) as broker, Asker(broker.url) as asker:
        with Probe(broker) as probe:
            for topic in range(CHURNED):
                name = f"{TOPIC}-{topic}"
                asker.ask([pb.CommandProducer(topic=name, producer_id=topic, request_id=topic)])
                made = asker.ask(
                    [
                        pb.CommandGetOrCreateSchema(
                            request_id=version,
                            topic=name,
                            schema=pb.Schema(
                                name="s",
                                type=SchemaType.Avro,
                                schema_data=documented(version, 250_000),
                            ),
                        )
                        for version in range(VERSIONS)
                    ]
                )
                taken = [one for one in made if not one.HasField("error_code")]
                assert 0 < len(taken) < VERSIONS
        probe.check()
