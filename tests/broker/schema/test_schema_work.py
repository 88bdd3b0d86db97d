"""Large schemas are looked at a little at a time, and what one costs is bounded."""

import json
from collections.abc import Generator

import pytest
from support.wire_client import WireClient
from support.world import ManualHost, World

from magnetar.broker.schema.avro_resolution import (
    RESOLVE_STEPS_MAX,
    read_problem,
    read_problem_steps,
)
from magnetar.broker.schema.avro_type import TYPES_A_STEP, parse_avro, parse_steps
from magnetar.broker.schema.schema_compatibility import SchemaInfo
from magnetar.broker.schema.schema_work import STEPS_AT_ONCE, WAITING_BYTES_MAX, SchemaWork
from magnetar.errors import BrokerError
from magnetar.model import SchemaType, ServerError
from magnetar.protocol import encode
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.storage.disk.memory_disk import MemoryDisk

MANY = 20 * STEPS_AT_ONCE


def record(fields: int, extra: str = "") -> dict[str, object]:
    names = [*[f"f{number}" for number in range(fields)], *([extra] if extra else [])]
    return {
        "type": "record",
        "name": "R",
        "fields": [{"name": name, "type": ["null", "int"], "default": None} for name in names],
    }


LARGE = TYPES_A_STEP * STEPS_AT_ONCE * 5


def with_schema(command: pb.CommandProducer | pb.CommandSubscribe, data: bytes) -> None:
    command.schema.name = ""
    command.schema.type = SchemaType.Avro.value
    command.schema.schema_data = data


def ask_producer(client: WireClient, id: int, data: bytes, topic: str = "t") -> int:
    command = pb.CommandProducer(topic=topic, producer_id=id, request_id=client.next_request_id())
    with_schema(command, data)
    client.session.receive(encoded(command))
    return command.request_id


def encoded(command: pb.CommandProducer | pb.CommandSubscribe | pb.CommandCloseProducer) -> bytes:
    return encode(command)


def data(fields: int, extra: str = "") -> bytes:
    return json.dumps(record(fields, extra)).encode()


# ---- The queue -------------------------------------------------------------------


def steps(count: int, log: list[str], name: str) -> Generator[None, None, str]:
    for _ in range(count):
        log.append(name)
        yield
    return name


def test_short_work_is_done_at_once() -> None:
    host = ManualHost(MemoryDisk(), 0)
    work = SchemaWork(host)
    got: list[str] = []
    work.run("t", steps(STEPS_AT_ONCE - 1, [], "a"), 1).then(got.append, lambda error: None)
    assert got == ["a"]
    assert not host.soon
    assert len(work) == 0


def test_topics_take_turns_and_work_of_one_topic_is_done_in_order() -> None:
    host = ManualHost(MemoryDisk(), 0)
    work = SchemaWork(host)
    log: list[str] = []
    got: list[str] = []
    for topic, name in (("t", "first"), ("t", "second"), ("u", "other")):
        work.run(topic, steps(MANY, log, name), 1).then(got.append, lambda error: None)
    assert len(work) == 2
    turns = 0
    while host.soon:
        host.soon.popleft()()
        turns += 1
    assert got == ["first", "other", "second"] or got == ["other", "first", "second"]
    assert log.index("second") > len(log) - 1 - log[::-1].index("first")
    assert turns >= 3 * MANY // STEPS_AT_ONCE - 3
    assert len(work) == 0


def test_a_definition_that_does_not_fit_the_limit_of_all_is_to_be_tried_again() -> None:
    host = ManualHost(MemoryDisk(), 0)
    work = SchemaWork(host)
    work.run("t", steps(MANY, [], "a"), WAITING_BYTES_MAX)
    errors: list[Exception] = []
    work.run("u", steps(MANY, [], "b"), 1).then(lambda name: None, errors.append)
    (error,) = errors
    assert isinstance(error, BrokerError)
    assert error.code == ServerError.TooManyRequests
    while host.soon:
        host.soon.popleft()()
    got: list[str] = []
    work.run("u", steps(1, [], "b"), 1).then(got.append, errors.append)
    assert got == ["b"]


def test_a_fault_of_who_waited_holds_up_nobody_else() -> None:
    host = ManualHost(MemoryDisk(), 0)
    host.faults = []
    work = SchemaWork(host)

    def fail(name: str) -> None:
        raise RuntimeError("a bug")

    got: list[str] = []
    work.run("t", steps(MANY, [], "a"), 1).then(fail, lambda error: None)
    work.run("t", steps(MANY, [], "b"), 1).then(got.append, lambda error: None)
    while host.soon:
        host.soon.popleft()()
    assert got == ["b"]
    assert len(host.faults) == 1


# ---- Steps -----------------------------------------------------------------------


@pytest.mark.parametrize("fields", [1000, 4000])
def test_the_steps_of_parsing_and_comparing_grow_with_the_size_alone(fields: int) -> None:
    parsing = parse_steps(record(fields))
    assert len(list(parsing)) == pytest.approx(3 * fields / TYPES_A_STEP, rel=0.1)
    old, new = parse_avro(record(fields)), parse_avro(record(fields, "more"))
    comparing = len(list(read_problem_steps(reader=new, writer=old)))
    assert comparing == pytest.approx(6 * fields / 100, rel=0.2)


def test_enums_are_compared_in_time_that_grows_with_their_symbols_alone() -> None:
    symbols = [f"S{number}" for number in range(20_000)]
    one = {"type": "enum", "name": "E", "symbols": symbols}
    fields = [{"name": "f", "type": one}]
    fields += [{"name": f"g{number}", "type": "E"} for number in range(2000)]
    many = parse_avro({"type": "record", "name": "R", "fields": fields})
    other = parse_avro(
        {"type": "record", "name": "R", "fields": [{"name": "f", "type": one}, *fields[1:]]}
    )
    # Each pair of enums once, though two thousand fields have it.
    assert len(list(read_problem_steps(reader=many, writer=other))) < 100
    less = {"type": "enum", "name": "E", "symbols": symbols[:1]}
    problem = read_problem(reader=parse_avro(less), writer=parse_avro(one))
    assert problem is not None
    assert "S1, S2" in problem
    assert len(problem) < 300


def test_comparing_wide_unions_of_records_ends() -> None:
    def union(names: str) -> list[object]:
        return [
            {
                "type": "record",
                "name": f"{names}{number}",
                "fields": [{"name": f"{names}{number}", "type": "int"}],
            }
            for number in range(1000)
        ]

    # Whatever is written, it is the last that can read it.
    reader = [*union("a"), {"type": "record", "name": "Any", "fields": []}]
    with pytest.raises(BrokerError, match="too large"):
        read_problem(reader=parse_avro(reader), writer=parse_avro(union("b")))
    assert RESOLVE_STEPS_MAX <= 100_000


def test_a_reason_does_not_repeat_a_long_definition() -> None:
    with pytest.raises(BrokerError) as refused:
        parse_avro({"type": "record", "name": "R", "fields": [["x" * 100_000]]})
    assert len(refused.value.reason) < 2000


# ---- Sessions --------------------------------------------------------------------


def test_a_producer_with_a_large_schema_is_answered_when_it_was_compared() -> None:
    world = World()
    client = world.connect()
    client.producer("t")
    before = len(world.host.soon)
    request = ask_producer(client, 70, data(LARGE))
    assert len(world.host.soon) == before + 1, "more was done than a few steps"
    assert len(world.broker.schema_work) == 1
    world.settle()
    answer = client.answer(request)
    assert isinstance(answer, pb.CommandProducerSuccess)
    assert answer.schema_version == bytes(8)
    request = ask_producer(client, 71, data(LARGE, "more"))
    world.settle()
    assert client.answer(request).schema_version == (1).to_bytes(8, "big")


def test_two_that_bring_a_new_schema_at_once_get_one_version() -> None:
    world = World()
    client, other = world.connect(), world.connect()
    client.producer("t")
    first = ask_producer(client, 70, data(LARGE))
    second = ask_producer(other, 70, data(LARGE))
    world.settle()
    assert client.answer(first).schema_version == other.answer(second).schema_version == bytes(8)
    assert len(world.broker.schemas.history("public/default/t")) == 1


def test_a_producer_that_is_closed_while_its_schema_is_compared_is_none() -> None:
    world = World()
    client = world.connect()
    client.producer("t")
    request = ask_producer(client, 70, data(LARGE))
    close = pb.CommandCloseProducer(producer_id=70, request_id=client.next_request_id())
    client.session.receive(encoded(close))
    world.settle()
    refused = client.answer(request)
    assert isinstance(refused, pb.CommandError)
    assert refused.error == ServerError.ServiceNotReady
    assert len(world.topic("t").producers) == 1


def test_who_leaves_while_its_schema_is_compared_leaves_nothing() -> None:
    world = World()
    client = world.connect()
    client.producer("t")
    ask_producer(client, 70, data(LARGE))
    subscribe = pb.CommandSubscribe(
        topic="t", subscription="s", subType=1, consumer_id=70, request_id=99
    )
    with_schema(subscribe, data(LARGE, "other"))
    client.session.receive(encoded(subscribe))
    client.session.lost()
    world.settle()
    assert world.topic("t").admission.empty
    assert "s" not in world.topic("t").subscriptions


def test_a_consumer_with_a_large_schema_joins_when_it_was_compared() -> None:
    world = World()
    client = world.connect()
    request = ask_producer(client, 70, data(LARGE))
    world.settle()
    assert isinstance(client.answer(request), pb.CommandProducerSuccess)
    consumer = client.subscribe("t", "s", 1)
    for extra in ("new", ""):
        subscribe = pb.CommandSubscribe(
            topic="t",
            subscription="s",
            subType=1,
            consumer_id=80 + len(extra),
            request_id=client.next_request_id(),
        )
        with_schema(subscribe, data(LARGE, extra))
        client.session.receive(encoded(subscribe))
        world.settle()
        assert isinstance(client.answer(subscribe.request_id), pb.CommandSuccess)
    consumer.close()
    assert len(world.subscription("t", "s").consumers) == 2


def test_a_consumer_whose_schema_does_not_fit_is_refused() -> None:
    world = World()
    client = world.connect()
    request = ask_producer(client, 70, data(2))
    world.settle()
    assert isinstance(client.answer(request), pb.CommandProducerSuccess)
    subscribe = pb.CommandSubscribe(
        topic="t", subscription="s", subType=1, consumer_id=80, request_id=client.next_request_id()
    )
    with_schema(subscribe, b'"int"')
    client.session.receive(encoded(subscribe))
    world.settle()
    refused = client.answer(subscribe.request_id)
    assert refused.error == ServerError.IncompatibleSchema
    # Of a consumer that was refused nothing is left: its id is free.
    with_schema(subscribe, data(2))
    client.session.receive(encoded(subscribe))
    world.settle()
    assert isinstance(client.answer(subscribe.request_id), pb.CommandSuccess)


def test_a_schema_beyond_the_setting_is_refused_and_says_how_to_go_on() -> None:
    world = World(schema_size_max=1000)
    client = world.connect()
    request = ask_producer(client, 70, data(1000))
    world.settle()
    refused = client.answer(request)
    assert refused.error == ServerError.NotAllowedError
    assert "raise schema_size_max" in refused.message


def test_what_was_parsed_is_forgotten_when_others_are_used() -> None:
    world = World()
    schemas = world.broker.schemas
    infos = [SchemaInfo(SchemaType.Avro, data(2000, f"x{number}")) for number in range(6)]
    for number, info in enumerate(infos):
        schemas.put(f"public/default/t{number}", info)
    parsed = [info for info in infos if info._is_parsed]
    assert 0 < len(parsed) < len(infos)
    assert infos[-1] in parsed
