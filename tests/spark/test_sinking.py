"""What a task of a sink publishes, once, in one process and without a JVM."""

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructType
from support.broker_process import BrokerProcess
from support.interrupted import Interrupted
from support.tables import Tables, path_of

import magnetar
from magnetar.errors import MagnetarError, SettingsError, Timeout
from magnetar.spark.connect import drop_clients
from magnetar.spark.digests import DigestMismatchError, Digests, RefusedError
from magnetar.spark.plan.options import WriteOptions
from magnetar.spark.publish import TaskId, publish
from magnetar.spark.sink import StreamWriter, Written, check_sink


@pytest.fixture
def sink(options: dict[str, str], checkpoint: str, tables: Tables) -> WriteOptions:
    """`tables` closes the clients of this process."""
    return WriteOptions({**options, "checkpointLocation": checkpoint})


def batch(values: list[bytes | None], **columns: Any) -> "pa.RecordBatch":
    return pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary()), **columns})


def task(batch_id: int = 0, number: int = 0, attempt: int = 0) -> TaskId:
    return TaskId("query", batch_id, number, attempt)


VALUES: list[bytes | None] = [b"c", b"a", b"b", b"a"]


def test_a_second_run_publishes_nothing_more(sink: WriteOptions, tables: Tables) -> None:
    assert publish(sink, task(), iter([batch(VALUES)])) == 4
    assert tables.values() == ["a", "a", "b", "c"], "in the order of what they hold"
    # In another order, in other record batches: the same rows.
    again = [batch(VALUES[2:]), batch(VALUES[:2])]
    assert publish(sink, task(attempt=1), iter(again)) == 4
    assert tables.values() == ["a", "a", "b", "c"]
    publish(sink, task(batch_id=1), iter([batch(VALUES)]))
    assert len(tables.values()) == 8


@pytest.mark.parametrize("keyed", [False, True])
def test_a_run_that_was_cut_short_is_completed(
    sink: WriteOptions, tables: Tables, monkeypatch: pytest.MonkeyPatch, keyed: bool
) -> None:
    import magnetar.spark.publish as module

    values: list[bytes | None] = [b"%03d" % i for i in range(300)]
    columns = {"key": [f"{i:03}" for i in range(300)]} if keyed else {}
    rows = [batch(values, **columns)]
    send = module._Sending.send
    turns = 0

    async def send_some(self: Any, rows: Any) -> None:
        nonlocal turns
        turns += 1
        if turns == 3:
            await self.flush()
            raise ConnectionError("the executor is gone")
        await send(self, rows)

    with monkeypatch.context() as patch:
        patch.setattr("magnetar.spark.sink_rows.TURN", 70)
        patch.setattr(module._Sending, "send", send_some)
        with pytest.raises(ConnectionError):
            publish(sink, task(), iter(rows))
    assert len(tables.values()) == 140
    publish(sink, task(attempt=1), iter(rows))
    assert tables.values() == [f"{i:03}" for i in range(300)]
    numbers = [row["sequence_id"] for row in tables.read("sequence_id long")]
    assert numbers == list(range(300))


def test_nothing_overtakes_rows_that_a_broker_did_not_answer(
    options: dict[str, str],
    checkpoint: str,
    broker: BrokerProcess,
    tables: Tables,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows that were given up would else count as stored: the broker has later numbers."""
    import magnetar.spark.publish as module

    rows = [batch([b"%03d" % i for i in range(600)])]
    send = module._Sending.send
    turns = 0
    with Interrupted(broker.url) as proxy:

        async def send_some(self: Any, rows: Any) -> None:
            nonlocal turns
            turns += 1
            if turns == 3:
                await self.flush()
                proxy.refuse()
                await send(self, rows)
                with contextlib.suppress(Timeout):
                    await self.flush()
                proxy.refuse(False)
                await self._producer._part.when_connected()
            else:
                await send(self, rows)

        given = {**options, "serviceUrl": proxy.url, "checkpointLocation": checkpoint}
        slow = WriteOptions({**given, "operationTimeoutSeconds": "2", "batchingMaxMessages": "30"})
        with monkeypatch.context() as patch:
            patch.setattr("magnetar.spark.sink_rows.TURN", 100)
            patch.setattr(module._Sending, "send", send_some)
            with pytest.raises(MagnetarError, match="no receipt"):
                publish(slow, task(), iter(rows))
        drop_clients()
    publish(
        WriteOptions({**options, "checkpointLocation": checkpoint}), task(attempt=1), iter(rows)
    )
    assert tables.values() == [f"{i:03}" for i in range(600)]


def delayed(topic: str, rest: httpx.Client) -> "list[pa.RecordBatch]":
    """Three rows, of which the topic refuses the second."""
    policy = {"active": True, "tickTime": 1000, "maxDeliveryDelayInMillis": 60_000}
    rest.put(path_of(topic))
    rest.post(f"{path_of(topic)}/delayedDelivery", json=policy).raise_for_status()
    later = int(time.time() + 3600) * 1_000_000
    times = pa.array([None, later, None], pa.timestamp("us", tz="UTC"))
    return [batch([b"a", b"b", b"c"], deliver_at=times)]


def test_rows_that_a_topic_refused_are_never_taken_for_sent(
    sink: WriteOptions,
    topic: str,
    tables: Tables,
    rest: httpx.Client,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a policy that came too late rows behind them may be stored, with numbers above theirs."""
    import magnetar.spark.publish as module

    rows = delayed(topic, rest)
    monkeypatch.setattr(module._Limits, "entry_rows", lambda *_: 0)
    with pytest.raises(MagnetarError, match="max allowed delivery delay"):
        publish(sink, task(), iter(rows))
    for attempt in (1, 2):
        with pytest.raises(RefusedError, match=r"micro-batch 0 .* max allowed delivery delay"):
            publish(sink, task(attempt=attempt), iter(rows))
    # The last may have been on its way, or not yet.
    assert tables.values() in (["a"], ["a", "c"])


def test_rows_that_a_topic_refused_before_the_broker_went_silent(
    options: dict[str, str],
    checkpoint: str,
    topic: str,
    broker: BrokerProcess,
    rest: httpx.Client,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import magnetar.spark.publish as module

    rows = delayed(topic, rest)
    monkeypatch.setattr(module._Limits, "entry_rows", lambda *_: 0)
    with Interrupted(broker.url) as proxy:
        proxy._proxy.passes = lambda command: (
            not (command.HasField("send_receipt") and command.send_receipt.sequence_id == 2)
        )
        given = {**options, "serviceUrl": proxy.url, "checkpointLocation": checkpoint}
        slow = WriteOptions({**given, "operationTimeoutSeconds": "1"})
        with pytest.raises(MagnetarError):
            publish(slow, task(), iter(rows))
        drop_clients()
    with pytest.raises(RefusedError):
        publish(WriteOptions(given | options), task(attempt=1), iter(rows))


@pytest.mark.parametrize("why", ["delay", "size"])
def test_an_executor_that_dies_when_a_row_is_refused(
    sink: WriteOptions,
    topic: str,
    tables: Tables,
    rest: httpx.Client,
    monkeypatch: pytest.MonkeyPatch,
    why: str,
) -> None:
    """Nothing was written down, and yet no row counts as sent; once it is taken all are there."""
    policy = "delayedDelivery" if why == "delay" else "maxMessageSize"
    if why == "delay":
        rows = delayed(topic, rest)
    else:
        rest.put(path_of(topic)).raise_for_status()
        rest.post(f"{path_of(topic)}/maxMessageSize", json=20_000).raise_for_status()
        rows = [batch([b"a", b"b" * 50_000, b"c"])]

    def die(*_: object) -> None:
        raise ConnectionError("the executor is gone")

    with monkeypatch.context() as patch:
        patch.setattr(Digests, "refuse", die)
        for attempt in range(2):
            with pytest.raises(MagnetarError, match=r"max allowed delivery delay|takes 20000"):
                publish(sink, task(attempt=attempt), iter(rows))
            assert tables.values() == ["a"], "those behind it wait"
    rest.delete(f"{path_of(topic)}/{policy}").raise_for_status()
    publish(sink, task(attempt=2), iter(rows))
    assert [value[0] for value in tables.values()] == ["a", "b", "c"]


def test_a_second_run_waits_for_the_first_to_be_gone(
    sink: WriteOptions, topic: str, tables: Tables, client: magnetar.Client
) -> None:
    """A worker whose executor was killed may go on for a while."""
    first = client.create_producer(topic, producer_name="spark-query-0")
    closing = threading.Timer(1.0, first.close)
    closing.start()
    publish(sink, task(), iter([batch(VALUES)]))
    closing.join()
    assert tables.values() == ["a", "a", "b", "c"]


def test_partitions_that_were_added_since_a_run_was_cut_short(
    sink: WriteOptions, topic: str, tables: Tables, rest: httpx.Client
) -> None:
    rest.put(f"{path_of(topic)}/partitions", json=2).raise_for_status()
    rows = [batch([b"%03d" % i for i in range(50)])]
    publish(sink, task(), iter(rows))
    rest.post(f"{path_of(topic)}/partitions", json=3).raise_for_status()
    publish(sink, task(attempt=1), iter(rows))
    assert sorted(tables.values()) == [f"{i:03}" for i in range(50)]
    publish(sink, task(batch_id=1), iter(rows))
    assert {row["partition"] for row in tables.read("partition int")} == {0, 1, 2}


def test_rows_that_are_slow_to_come_are_no_reason_to_fail(
    options: dict[str, str], tables: Tables
) -> None:
    """A sink hears nothing of its broker while Spark makes rows."""
    sink = WriteOptions({**options, "delivery": "atLeastOnce", "operationTimeoutSeconds": "1"})

    def slowly() -> Iterator["pa.RecordBatch"]:
        for value in (b"a", b"b"):
            yield batch([value])
            time.sleep(1.2)

    assert publish(sink, task(), slowly()) == 2
    assert tables.values() == ["a", "b"]


def test_what_is_refused_is_not_taken_for_sent(
    options: dict[str, str], topic: str, tables: Tables, rest: httpx.Client
) -> None:
    """Most messages do not tell of their fate, and each must count."""
    sink = WriteOptions({**options, "delivery": "atLeastOnce"})
    publish(sink, task(), iter([batch(VALUES)]))
    rest.post(f"{path_of(topic)}/terminate").raise_for_status()
    with pytest.raises(MagnetarError, match="terminated"):
        publish(sink, task(), iter([batch(VALUES)]))
    assert len(tables.values()) == 4


def test_rows_that_are_only_values_and_others_are_numbered_alike_in_every_partition(
    sink: WriteOptions, topic: str, tables: Tables, rest: httpx.Client
) -> None:
    rest.put(f"{path_of(topic)}/partitions", json=3).raise_for_status()
    values: list[bytes | None] = [b"%03d" % i for i in range(100)]
    publish(sink, task(), iter([batch(values[50:]), batch(values[:50])]))
    publish(sink, task(attempt=1), iter([batch(values)]))
    publish(sink, task(number=1), iter([batch([*values, None])]))
    rows = tables.read("value binary, partition int, producer string, sequence_id long")
    assert len(rows) == 201
    for number in range(2):
        own = [row for row in rows if row["producer"] == f"spark-query-{number}"]
        assert {row["partition"] for row in own} == {0, 1, 2}
        for partition in range(3):
            numbers = [row["sequence_id"] for row in own if row["partition"] == partition]
            assert numbers == list(range(len(numbers)))


def test_other_rows_in_a_second_run_fail_and_send_nothing(
    sink: WriteOptions, tables: Tables
) -> None:
    publish(sink, task(), iter([batch(VALUES)]))
    with pytest.raises(DigestMismatchError, match=r"micro-batch 0 .* other rows"):
        publish(sink, task(attempt=1), iter([batch([b"c", b"a", b"b", b"x"])]))
    assert len(tables.values()) == 4


def test_without_a_place_for_digests_a_second_run_is_refused(
    options: dict[str, str], tables: Tables
) -> None:
    sink = WriteOptions(options)
    publish(sink, task(), iter([batch(VALUES)]))
    with pytest.raises(SettingsError, match="checkpointLocation: missing: this task is run again"):
        publish(sink, task(attempt=1), iter([batch(VALUES)]))


def test_deduplication_is_set_or_verified(
    options: dict[str, str], topic: str, tables: Tables, rest: httpx.Client
) -> None:
    refuses = WriteOptions({**options, "deduplication": "verify"})
    with pytest.raises(SettingsError, match=f"deduplication on {topic}, and it is off"):
        publish(refuses, task(), iter([batch(VALUES)]))
    assert tables.values() == []
    publish(WriteOptions(options), task(), iter([batch(VALUES)]))
    policy = rest.get(f"{path_of(topic)}/deduplicationEnabled", params={"applied": "true"})
    assert policy.json() is True
    publish(refuses, task(batch_id=1), iter([batch(VALUES)]))
    assert len(tables.values()) == 8


def test_deduplication_that_is_switched_off(
    sink: WriteOptions, topic: str, tables: Tables, rest: httpx.Client
) -> None:
    """It is switched on again for what comes; of what was sent the broker knows nothing more."""
    policy = f"{path_of(topic)}/deduplicationEnabled"
    for number in range(2):
        publish(sink, task(batch_id=number), iter([batch(VALUES)]))
        assert rest.get(policy).json() is True
        rest.delete(policy).raise_for_status()
    with pytest.raises(SettingsError, match="was switched off since this task was first run"):
        publish(sink, task(batch_id=1, attempt=1), iter([batch(VALUES)]))
    assert len(tables.values()) == 8


def test_every_column_arrives(
    options: dict[str, str], topic: str, tables: Tables, broker: BrokerProcess
) -> None:
    times = pa.array([1_000_000, None], pa.timestamp("us", tz="UTC"))
    rows = batch(
        [b"x", None],
        key=["k", None],
        ordering_key=pa.array([b"o", None], pa.binary()),
        event_time=times,
        deliver_at=times,
        properties=pa.array([[("b", "2"), ("a", "1")], None], pa.map_(pa.string(), pa.string())),
        topic=[None, f"{topic}-other"],
    )
    publish(WriteOptions({**options, "delivery": "atLeastOnce"}), task(), iter([rows]))
    (row,) = tables.read()
    assert (row["value"], row["key"], row["ordering_key"]) == (b"x", b"k", b"o")
    assert row["event_time"].timestamp() == 1.0
    assert dict(row["properties"]) == {"a": "1", "b": "2"}
    (other,) = tables.read(topic=f"{topic}-other")
    assert (other["value"], other["key"], other["event_time"]) == (None, None, None)


def test_partitions_are_chosen_by_key(
    sink: WriteOptions, topic: str, tables: Tables, rest: httpx.Client, client: magnetar.Client
) -> None:
    rest.put(f"{path_of(topic)}/partitions", json=3).raise_for_status()
    keys = [f"k{i}" for i in range(12)]
    publish(sink, task(), iter([batch([k.encode() for k in keys], key=keys)]))
    ours = {row["value"]: row["partition"] for row in tables.read("value binary, partition int")}
    rest.put(f"{path_of(topic)}-peer/partitions", json=3).raise_for_status()
    producer = client.create_producer(f"{topic}-peer")
    for key in keys:
        producer.send(key.encode(), partition_key=key)
    rows = tables.read("value binary, partition int", topic=f"{topic}-peer")
    assert ours == {row["value"]: row["partition"] for row in rows}


def test_large_values_are_chunked(sink: WriteOptions, tables: Tables) -> None:
    large = b"x" * (6 << 20)
    publish(sink, task(), iter([batch([large, b"small"])]))
    publish(sink, task(attempt=1), iter([batch([large, b"small"])]))
    assert sorted(len(row["value"]) for row in tables.read("value binary")) == [5, 6 << 20]


def test_digests_are_kept_and_forgotten(tmp_path: Path) -> None:
    for location in (str(tmp_path / "a"), f"file:{tmp_path}/b", f"file://{tmp_path}/c"):
        digests = Digests(location, "q")
        assert digests.claim(3, 0, "x", {"t": 2}) is None
        assert digests.claim(3, 0, "x", {"t": 3}) == {"t": 2}
        digests.claim(4, 7, "y", {})
        assert (digests.tasks(3), digests.tasks(4), digests.tasks(5)) == ({0}, {7}, set())
        digests.forget_before(4)
        assert (digests.tasks(3), digests.tasks(4)) == (set(), {7})
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b", "c"}
    with pytest.raises(SettingsError, match="cannot be kept there"):
        Digests("nowhere://x", "q")


def test_a_commit_finds_tasks_that_it_does_not_know(
    options: dict[str, str], checkpoint: str
) -> None:
    schema = StructType().add("value", BinaryType())
    given = {**options, "checkpointLocation": checkpoint}
    writer = StreamWriter(given, schema, False)
    digests = Digests(checkpoint, "q")
    digests.claim(5, 0, "x", {})
    digests.claim(5, 1, "y", {})
    writer.commit([Written("q", 0, 1), Written("q", 1, 1), None], 5)
    writer.abort([None], 5)
    with pytest.raises(DigestMismatchError, match=r"other tasks than the first time \(\[1\]"):
        writer.commit([Written("q", 0, 1)], 5)
    writer.commit([], 5)
    with pytest.raises(SettingsError, match="checkpointLocation: missing"):
        StreamWriter(options, schema, False)


def test_rows_that_cannot_be_sent(options: dict[str, str]) -> None:
    sink = WriteOptions(options)
    plain = StructType().add("value", BinaryType())
    bad: list[tuple[StructType, bool, str]] = [
        (plain, True, "cannot be overwritten"),
        (StructType().add("value", BinaryType()).add("color", StringType()), False, "no column"),
        (StructType().add("key", StringType()), False, "no column `value`"),
        (StructType().add("value", IntegerType()), False, "value is int, not binary or string"),
    ]
    for schema, overwrite, said in bad:
        with pytest.raises(SettingsError, match=said):
            check_sink(sink, schema, overwrite)
    del options["topic"]
    with pytest.raises(SettingsError, match="topic: missing"):
        check_sink(WriteOptions(options), plain, False)
