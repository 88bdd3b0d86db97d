"""Lanes of a redrive: letters that were not stored are never taken for stored. Without a JVM."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import httpx
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.tables import Tables, path_of

import magnetar
from magnetar.errors import MagnetarError, SettingsError
from magnetar.schema import StringSchema
from magnetar.spark.connect import drop_clients
from magnetar.spark.pipelines.letter.ordered_sender import Lanes
from magnetar.spark.pipelines.letter.target import Target

SCHEMA = pa.schema(
    {
        "number": pa.int64(),
        "lane": pa.int32(),
        "topic": pa.string(),
        "message_id": pa.binary(),
        "value": pa.binary(),
        "key": pa.binary(),
        "ordering_key": pa.binary(),
        "event_ms": pa.int64(),
        "schema_version": pa.int64(),
        "properties": pa.string(),
        "target": pa.string(),
        "came_from": pa.int32(),
    }
)


def letters(
    topic: str, values: list[bytes], versions: Sequence[int | None] = ()
) -> "pa.RecordBatch":
    rows: list[dict[str, Any]] = [
        {
            **dict.fromkeys(SCHEMA.names),
            "number": number,
            "lane": 0,
            "topic": f"{topic}-DLQ",
            "message_id": b"%d" % number,
            "value": value,
            "properties": json.dumps({"n": str(number)}),
            "target": topic,
            "came_from": -1,
        }
        for number, value in enumerate(values)
    ]
    for row, version in zip(rows, versions, strict=False):
        row["schema_version"] = version
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


@pytest.fixture(autouse=True)
def clients_are_closed() -> Iterator[None]:
    yield
    drop_clients()


def send(
    target: Target, topic: str, values: list[bytes], versions: Sequence[int | None] = ()
) -> list[bool]:
    """Which of the letters this run has sent."""
    lanes = Lanes(target.options(), "run", {topic: [topic]}, rate=0)
    batches = list(lanes.send(iter([letters(topic, values, versions)])))
    return [fresh for batch in batches for fresh in batch.column("fresh").to_pylist()]


def test_a_letter_that_the_topic_refuses_is_refused_again(
    target: Target, topic: str, tables: Tables, rest: httpx.Client
) -> None:
    values = [b"a", b"b" * 200_000, b"c"]
    rest.put(path_of(topic)).raise_for_status()
    target.rest().deduplicate(topic)
    rest.post(f"{path_of(topic)}/maxMessageSize", json=20_000).raise_for_status()
    for _ in range(2):
        with pytest.raises(MagnetarError, match="takes 20000"):
            send(target, topic, values)
        assert tables.values() == ["a"], "those behind it wait"
    rest.delete(f"{path_of(topic)}/maxMessageSize").raise_for_status()
    assert send(target, topic, values) == [False, True, True]
    assert send(target, topic, values) == [False] * 3
    assert [len(value) for value in tables.values()] == [1, 200_000, 1]


@settings(
    max_examples=10,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(st.sampled_from([0, 1, 50_000, 127_000, 200_000]), min_size=1, max_size=12))
def test_letters_of_any_size_go_once_and_in_their_order(
    target: Target, topic: str, tables: Tables, rest: httpx.Client, sizes: list[int]
) -> None:
    own = f"{topic}-{abs(hash(tuple(sizes)))}"
    rest.put(path_of(own))
    target.rest().deduplicate(own)
    values = [b"x" * size for size in sizes]
    before = [len(value) for value in tables.values(topic=own)]
    send(target, own, values)
    assert send(target, own, values) == [False] * len(values)
    assert [len(value) for value in tables.values(topic=own)] == (before or sizes)


def test_letters_keep_their_order_though_they_need_several_producers(
    target: Target, topic: str, tables: Tables, rest: httpx.Client, client: magnetar.Client
) -> None:
    rest.put(path_of(topic)).raise_for_status()
    target.rest().deduplicate(topic)
    client.create_producer(f"{topic}-DLQ", schema=StringSchema()).close()
    sizes = [1, 5_000_000, 2, 3, 4]
    values = [b"x" * size for size in sizes]
    send(target, topic, values, [None, None, None, 0, None])
    assert [len(value) for value in tables.values()] == sizes


def test_a_topic_that_does_not_deduplicate_is_refused(
    target: Target, topic: str, tables: Tables, rest: httpx.Client
) -> None:
    """The broker would not know what it has."""
    rest.put(path_of(topic)).raise_for_status()
    with pytest.raises(SettingsError, match="does not deduplicate"):
        send(target, topic, [b"a"])
    assert tables.values() == []
