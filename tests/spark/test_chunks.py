"""Messages in chunks are whole: in every split, over micro-batches, however producers interleave.

Without a JVM. Where chunks must lie in a certain way they are published entry by entry.
"""

import asyncio
import itertools
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable
from support.broker_process import BrokerProcess
from support.tables import SMALL_LEDGER, Tables, path_of, publish_raws, rows_of, trim

import magnetar
from magnetar.errors import InvalidMessage
from magnetar.spark.stream import StreamReader

ALL = ReadAllAvailable()
_numbers = itertools.count()

Entry = tuple[bytes, dict[str, Any]]


def chunks(text: str, count: int) -> list[Entry]:
    """A message of `count` chunks, which says `text` in each of them; of one, it is not chunked."""
    body = text.encode()
    if count == 1:
        return [(body, {})]
    shared = {"uuid": text, "num_chunks_from_msg": count, "total_chunk_msg_size": count * len(body)}
    return [(body, {**shared, "chunk_id": number}) for number in range(count)]


def interleaved(counts: list[int], turns: list[int]) -> list[Entry]:
    """Messages of so many chunks each; whose turn it is follows from `turns`."""
    left = [chunks(f"m{number}", count) for number, count in enumerate(counts)]
    found: list[Entry] = []
    for turn in itertools.chain(turns, itertools.repeat(0)):
        left = [entries for entries in left if entries]
        if not left:
            return found
        found.append(left[turn % len(left)].pop(0))
    raise AssertionError("turns never end")


def whole(counts: list[int]) -> list[bytes]:
    return sorted(b"m%d" % number * count for number, count in enumerate(counts))


def read(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[bytes]:
    splits = reader.partitions(start, end)
    return [row["value"] for split in splits for row in rows_of(reader.read(split))]


def by_micro_batches(tables: Tables, **options: str) -> list[list[bytes]]:
    reader = tables.stream(startingOffsets="earliest", **options)
    at = reader.initialOffset()
    found: list[list[bytes]] = []
    while (end := reader.latestOffset(at, reader.getDefaultReadLimit())) != at:
        found.append(read(reader, at, end))
        at = end
    return found


@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    counts=st.lists(st.integers(1, 5), min_size=1, max_size=6),
    turns=st.lists(st.integers(0, 5), max_size=30),
    limit=st.integers(1, 4),
)
def test_interleaved_chunks_are_whole_wherever_a_cut_is(
    broker: BrokerProcess,
    options: dict[str, str],
    tables: Tables,
    counts: list[int],
    turns: list[int],
    limit: int,
) -> None:
    topic = f"{options['topic']}-chunks-{next(_numbers)}"
    # One that its producer gave up is nobody's.
    given_up = chunks("gone", 3)[:2]
    entries = [given_up[0], *interleaved(counts, turns), given_up[1]]
    asyncio.run(publish_raws(broker.url, topic, entries))
    for splits in ("1", "2", "50"):
        rows = tables.read("value binary", topic=topic, minPartitions=splits)
        assert sorted(row["value"] for row in rows) == whole(counts)
    for name in ("maxEntriesPerTrigger", "maxRowsPerTrigger"):
        parts = by_micro_batches(tables, topic=topic, **{name: str(limit)})
        assert sorted(value for part in parts for value in part) == whole(counts)
        # The last message that is whole is the end; what was given up behind it is no message.
        assert len(parts) == -(-(len(entries) - 1) // limit)


def test_chunks_of_real_producers_in_every_split(
    client: magnetar.Client, topic: str, tables: Tables
) -> None:
    producers = [
        client.create_producer(topic, chunking_enabled=True, chunk_max_message_size=200)
        for _ in range(2)
    ]
    bodies = [bytes([65 + i]) * 1000 for i in range(6)]
    for i, body in enumerate(bodies):
        producers[i % 2].send_async(body, None)
        producers[(i + 1) % 2].send_async(b"small %d" % i, None)
    for producer in producers:
        producer.flush()
    expected = sorted([*bodies, *(b"small %d" % i for i in range(6))])
    for wanted in ("1", "3", "20"):
        rows = tables.read("value binary", minPartitions=wanted)
        assert sorted(row["value"] for row in rows) == expected


# ---- Acks --------------------------------------------------------------------


def left_to_ack(rest: httpx.Client, topic: str) -> int:
    """In entries, of which each chunk is one."""
    stats = rest.get(f"{path_of(topic)}/stats").raise_for_status().json()
    found: int = stats["subscriptions"]["s"]["msgBacklog"]
    return found


@pytest.mark.parametrize("limits", [{}, {"maxEntriesPerTrigger": "4"}])
def test_a_message_is_acked_when_it_was_read_as_a_whole(
    broker: BrokerProcess,
    topic: str,
    tables: Tables,
    rest: httpx.Client,
    limits: dict[str, str],
) -> None:
    first, second, third = chunks("large", 3)
    asyncio.run(publish_raws(broker.url, topic, [(b"a", {}), first, second]))
    reader = tables.stream(
        startingOffsets="earliest", subscription="s", discoveryIntervalMs="0", **limits
    )
    limit = reader.getDefaultReadLimit()
    start = reader.initialOffset()
    end = reader.latestOffset(start, limit)
    assert read(reader, start, end) == [b"a"]
    reader.commit(end)
    assert left_to_ack(rest, topic) == 2, "two chunks are not acked"
    asyncio.run(publish_raws(broker.url, topic, [(b"b", {}), third]))
    # Another process goes on from the checkpoint.
    reader = tables.stream(startingOffsets="earliest", subscription="s", **limits)
    last = reader.latestOffset(end, limit)
    assert left_to_ack(rest, topic) == 4
    assert read(reader, end, last) == [b"b", b"large" * 3]
    assert reader.latestOffset(last, limit) == last
    assert left_to_ack(rest, topic) == 0


def test_first_chunks_outlive_their_ledger(
    broker: BrokerProcess, topic: str, tables: Tables, rest: httpx.Client
) -> None:
    """They are all that is left of a ledger that is trimmed as soon as it is acked."""
    first, second = chunks("large", 2)
    small: Entry = (b"small", {})
    asyncio.run(publish_raws(broker.url, topic, [*[small] * (SMALL_LEDGER - 1), first]))
    reader = tables.stream(startingOffsets="earliest", subscription="s")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    reader.commit(end)
    asyncio.run(publish_raws(broker.url, topic, [second]))
    trim(rest, topic)
    reader = tables.stream(startingOffsets="earliest", subscription="s")
    last = reader.latestOffset(end, ALL)
    assert last["topics"][topic]["l"] > end["topics"][topic]["l"]
    assert read(reader, end, last) == [b"large" * 2]
    reader.commit(last)
    assert left_to_ack(rest, topic) == 0


def test_a_message_that_was_given_up_holds_nothing_for_long(
    broker: BrokerProcess,
    topic: str,
    tables: Tables,
    rest: httpx.Client,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import magnetar.spark.driver as module

    monkeypatch.setattr(module, "CHUNKS_SPAN_MAX", 10)
    monkeypatch.setattr(module, "CHUNKS_REACH", 5)
    small: Entry = (b"small", {})
    asyncio.run(publish_raws(broker.url, topic, [chunks("gone", 2)[0], small]))
    reader = tables.stream(startingOffsets="earliest", subscription="s")
    at = reader.latestOffset(reader.initialOffset(), ALL)
    reader.commit(at)
    assert left_to_ack(rest, topic) == 2
    for held in (True, False):
        asyncio.run(publish_raws(broker.url, topic, [small] * 6))
        reader = tables.stream(startingOffsets="earliest", subscription="s")
        at = reader.latestOffset(at, ALL)
        reader.commit(at)
        assert (left_to_ack(rest, topic) > 0) == held


def test_a_message_whose_first_chunks_are_gone(
    broker: BrokerProcess, topic: str, tables: Tables
) -> None:
    asyncio.run(publish_raws(broker.url, topic, [*chunks("large", 3)[1:], (b"next", {})]))
    with pytest.raises(InvalidMessage, match=r"has 2 of its 3 chunks.*badRecords"):
        tables.values()
    rows = tables.read(badRecords="column")
    assert [row["value"] for row in rows] == [None, b"next"]
    assert "has 2 of its 3 chunks" in rows[0]["bad_record"]
