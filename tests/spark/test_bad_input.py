"""What is wrong from the outside: no permission, no broker, no schema, nothing to read.

Each is one clear error that says what is wrong and what to do; and whatever is run again
after it loses nothing and doubles nothing. Without a JVM; what options may be is in
plan/test_options.py, what positions may be in test_reading.py.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructType
from support.broker_process import BrokerProcess
from support.interrupted import Interrupted
from support.tables import SMALL_LEDGER, Tables, rows_of, trim
from support.tokens import OTHER_SECRET, token

import magnetar
from magnetar.arrow.loss import DataLossError
from magnetar.errors import (
    AuthenticationError,
    AuthorizationError,
    ConnectError,
    InvalidMessage,
    MagnetarError,
    SettingsError,
    Timeout,
    TopicNotFound,
)
from magnetar.schema import Integer, JsonSchema, Record
from magnetar.spark.connect import drop_clients
from magnetar.spark.plan.options import WriteOptions
from magnetar.spark.publish import TaskId, publish
from magnetar.spark.skip import SkipWriter
from magnetar.spark.source import MagnetarDataSource

Publish = Callable[..., None]
ALL = ReadAllAvailable()
# Where a broker that asks for tokens has a message.
TOPIC = "persistent://public/default/guarded"
IDS = StructType().add("topic", StringType()).add("message_id", BinaryType())


class Point(Record):
    x = Integer()


def values(count: int) -> list[bytes]:
    return [b"%05d" % i for i in range(count)]


def batch(values: list[bytes]) -> "pa.RecordBatch":
    return pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary())})


# ---- Permission --------------------------------------------------------------


def as_role(guarded: BrokerProcess, auth: str) -> dict[str, str]:
    given = {"serviceUrl": guarded.url, "adminUrl": guarded.http_url, "topic": TOPIC}
    return {**given, "authToken": auth} if auth else given


@pytest.mark.parametrize(
    ("auth", "kind", "said"),
    [
        ("", AuthenticationError, "token"),
        (token("reader", secret=OTHER_SECRET), AuthenticationError, "token"),
        (token("nobody"), AuthorizationError, "nobody"),
    ],
)
def test_no_permission_to_read(
    guarded: BrokerProcess, auth: str, kind: type[Exception], said: str
) -> None:
    tables = Tables(as_role(guarded, auth))
    with pytest.raises(kind, match=said):
        tables.values()
    with pytest.raises(kind, match=said):
        tables.stream(subscription="s").initialOffset()


def test_who_may_consume_may_read_and_not_write(guarded: BrokerProcess) -> None:
    options = as_role(guarded, token("reader"))
    assert Tables(options).values() == ["v0"]
    for delivery in ("atLeastOnce", "exactlyOnce"):
        sink = WriteOptions({**options, "delivery": delivery})
        with pytest.raises(AuthorizationError, match="reader"):
            publish(sink, TaskId("q", 0, 0, 0), iter([batch(values(3))]))
    assert Tables(options).values() == ["v0"]


def test_no_permission_to_skip(guarded: BrokerProcess) -> None:
    given = as_role(guarded, token("nobody"))
    del given["topic"]
    writer = SkipWriter({**given, "operation": "skip", "subscription": "s"}, IDS, False)
    ids = pa.RecordBatch.from_pylist(
        [{"topic": TOPIC, "message_id": magnetar.MessageId(-1, 1, 1).serialize()}]
    )
    with pytest.raises(AuthorizationError, match="HTTP 403"):
        writer.commit([writer.write(iter([ids]))])


# ---- Topics and schemas ------------------------------------------------------


def test_topics_that_are_missing(options: dict[str, str], topic: str) -> None:
    with pytest.raises(TopicNotFound, match=topic):
        Tables(options).values()
    with pytest.raises(TopicNotFound, match=topic):
        Tables(options).stream().initialOffset()
    given = {k: v for k, v in options.items() if k != "topic"}
    pattern = Tables({**given, "topicsPattern": f"{topic}-none.*"})
    assert pattern.values() == [], "of a pattern none may be there yet"
    with pytest.raises(TopicNotFound, match="no topic matches"):
        pattern.read(valueSchema="topic")
    drop_clients()


def test_a_schema_that_does_not_fit(
    publish: Publish, client: magnetar.Client, topic: str, tables: Tables, options: dict[str, str]
) -> None:
    client.create_producer(topic, schema=JsonSchema(Point)).send(Point(x=1))
    wanted = StructType().add("value", StructType().add("x", StructType().add("y", IntegerType())))
    reader = MagnetarDataSource(options).reader(wanted)
    with pytest.raises(InvalidMessage, match=r"not what the schema describes.*badRecords"):
        [rows_of(reader.read(split)) for split in reader.partitions()]
    with pytest.raises(SettingsError, match="value cannot be int"):
        MagnetarDataSource(options).reader(StructType().add("value", IntegerType()))
    plain = f"{topic}-plain"
    publish(plain, ["text"])
    with pytest.raises(SettingsError, match=r"has no schema to decode by.*read bytes"):
        tables.read(topic=plain, valueSchema="topic")


# ---- What was trimmed --------------------------------------------------------


def test_a_stream_whose_place_was_trimmed(
    publish: Publish, topic: str, tables: Tables, rest: httpx.Client
) -> None:
    """A checkpoint that is older than what the topic keeps, and no subscription that kept it."""
    publish(topic, ["first"])
    fails, warns = (
        tables.stream(startingOffsets="earliest", onDataLoss=what) for what in ("fail", "warn")
    )
    start = fails.initialOffset()
    ledger = start["topics"][topic]["l"]
    publish(topic, [f"v{i}" for i in range(SMALL_LEDGER)])
    trim(rest, topic)
    end = tables.stream().initialOffset()
    with pytest.raises(DataLossError, match=rf"{topic} lost its entries from {ledger}:0 up to"):
        [rows_of(fails.read(split)) for split in fails.partitions(start, end)]
    left = [row for split in warns.partitions(start, end) for row in rows_of(warns.read(split))]
    assert [row["value"] for row in left] == [f"v{SMALL_LEDGER - 1}".encode()]


# ---- A broker that goes away -------------------------------------------------


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data") as process:
        yield process
        drop_clients()


def mortal_options(mortal: BrokerProcess, **more: str) -> dict[str, str]:
    given = {"serviceUrl": mortal.url, "adminUrl": mortal.http_url, "topic": TOPIC}
    return {**given, "operationTimeoutSeconds": "2", **more}


def test_nobody_listens(mortal: BrokerProcess) -> None:
    mortal.kill()
    with pytest.raises(ConnectError, match=f"cannot connect to {mortal.url[9:]}"):
        Tables(mortal_options(mortal)).values()
    mortal.restart()


def test_a_read_fails_when_its_broker_stays_away_and_succeeds_when_it_is_run_again(
    publish: Publish,
    client: magnetar.Client,
    topic: str,
    broker: BrokerProcess,
    options: dict[str, str],
) -> None:
    # A subscription keeps what is there while no reader is connected.
    client.subscribe(topic, "keep").close()
    texts = [value.decode() for value in values(1000)]
    publish(topic, texts, batch=5)
    with Interrupted(broker.url) as proxy:
        given = {**options, "serviceUrl": proxy.url, "operationTimeoutSeconds": "2"}
        reader = Tables(given)._reader("value binary", {"rowsPerBatch": "20"})
        splits = reader.partitions()
        proxy.after(30, proxy.refuse)
        with pytest.raises((ConnectError, Timeout), match=f"{topic}|{proxy.url[9:]}"):
            [rows_of(reader.read(split)) for split in splits]
        proxy.refuse(False)
        # Spark runs the task again, maybe in the same process.
        again = [row["value"].decode() for split in splits for row in rows_of(reader.read(split))]
        drop_clients()
    assert again == texts


@pytest.mark.parametrize("back", [True, False])
def test_a_sink_whose_broker_is_killed(
    mortal: BrokerProcess, checkpoint: str, monkeypatch: pytest.MonkeyPatch, back: bool
) -> None:
    """It is back in time, or the task fails and is run again: once each, one way or the other."""
    import magnetar.spark.publish as module

    monkeypatch.setattr("magnetar.spark.sink_rows.TURN", 100)
    send = module._Sending.send
    turns = 0

    async def send_and_kill(self: Any, rows: Any) -> None:
        nonlocal turns
        turns += 1
        await send(self, rows)
        if turns == 4:
            mortal.kill()
            if back:
                mortal.restart()

    options = mortal_options(mortal, checkpointLocation=checkpoint, batchingMaxMessages="30")
    options["operationTimeoutSeconds"] = "30" if back else "2"
    sink, rows = WriteOptions(options), [batch(values(1000))]
    with monkeypatch.context() as patch:
        patch.setattr(module._Sending, "send", send_and_kill)
        if back:
            publish(sink, TaskId("q", 0, 0, 0), iter(rows))
        else:
            with pytest.raises(MagnetarError, match=rf"{TOPIC}|cannot connect"):
                publish(sink, TaskId("q", 0, 0, 0), iter(rows))
            mortal.restart()
    publish(sink, TaskId("q", 0, 0, 1), iter(rows))
    assert Tables(mortal_options(mortal)).values() == [value.decode() for value in values(1000)]
