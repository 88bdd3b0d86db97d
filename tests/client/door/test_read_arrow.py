"""Topics and backlogs as Arrow tables, without Spark, from both brokers."""

import asyncio
import gc
import re
import subprocess
import sys
import textwrap
import threading
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from client.conftest import Engine, client_threads, payloads
from support.waiting import wait_until

import magnetar
from magnetar.errors import (
    InvalidMessage,
    OperationNotSupported,
    SettingsError,
    TopicNotFound,
)
from magnetar.schema import AvroSchema, Integer, JsonSchema, Record, String
from magnetar.spark.source import MagnetarDataSource

EARLIEST = magnetar.InitialPosition.Earliest
SHARED = magnetar.ConsumerType.Shared


class Order(Record):
    name = String()
    amount = Integer()


def send(
    client: magnetar.Client, topic: str, contents: list[bytes], *, batch: int = 1, **options: Any
) -> list[magnetar.MessageId]:
    """Publishes in batches of a size; returns the ids."""
    ids: list[magnetar.MessageId] = []
    producer = client.create_producer(
        topic,
        batching_enabled=batch > 1,
        batching_max_messages=max(batch, 2),
        batching_max_publish_delay_ms=60_000,
        block_if_queue_full=True,
        **options,
    )
    for content in contents:
        producer.send_async(content, lambda result, id: ids.append(id), partition_key="k")
    producer.flush()
    producer.close()
    # Callbacks run on a thread of their own.
    wait_until(lambda: len(ids) == len(contents), lambda: f"{len(ids)} of {len(contents)} ids")
    return ids


def values(table: "pa.Table") -> list[Any]:
    found: list[Any] = table.column("value").to_pylist()
    return found


# ---- What a table has --------------------------------------------------------


@pytest.mark.both_engines
@pytest.mark.parametrize("batch", [1, 4])
def test_a_topic_is_a_table(
    engine: Engine, client: magnetar.Client, topic: str, batch: int
) -> None:
    ids = send(client, topic, payloads(10), batch=batch)
    table = magnetar.read_arrow(topic, engine.url)
    assert values(table) == payloads(10)
    assert table.column("key").to_pylist() == [b"k"] * 10
    assert table.column("topic").unique().to_pylist() == [topic]
    found = [magnetar.MessageId.deserialize(one) for one in table.column("message_id").to_pylist()]
    assert found == ids


def test_the_columns_are_those_of_the_spark_source(
    engine: Engine, client: magnetar.Client, topic: str
) -> None:
    send(client, topic, payloads(1))
    source = MagnetarDataSource({"serviceUrl": engine.url, "topic": topic, "badRecords": "column"})
    table = magnetar.read_arrow(topic, engine.url, bad_records="column")
    assert table.schema.names == source.schema().names


def test_only_the_columns_that_are_asked_for(
    engine: Engine, client: magnetar.Client, topic: str
) -> None:
    send(client, topic, payloads(2))
    table = magnetar.read_arrow(topic, engine.url, columns=["entry_id", "value"])
    assert table.schema.names == ["entry_id", "value"]
    assert table.column("entry_id").to_pylist() == [0, 1]


@pytest.mark.both_engines
def test_an_empty_topic_is_an_empty_table(
    engine: Engine, client: magnetar.Client, topic: str
) -> None:
    client.create_producer(topic).close()
    table = magnetar.read_arrow(topic, engine.url)
    assert (table.num_rows, table.schema.field("value").type) == (0, pa.binary())


@pytest.mark.both_engines
def test_partitions_come_one_after_the_other(
    engine: Engine, client: magnetar.Client, topic: str
) -> None:
    engine.make_partitions(topic, 3)
    producer = client.create_producer(topic)
    for content in payloads(9):
        producer.send(content)
    producer.close()
    table = magnetar.read_arrow(topic, engine.url)
    assert sorted(values(table)) == payloads(9)
    assert table.column("partition").to_pylist() == [0] * 3 + [1] * 3 + [2] * 3


@pytest.mark.both_engines
def test_large_messages_are_whole(engine: Engine, client: magnetar.Client, topic: str) -> None:
    large = bytes(range(256)) * 24_000
    send(client, topic, [b"before", large, b"behind"], chunking_enabled=True)
    table = magnetar.read_arrow(topic, engine.url, columns=["value"])
    assert values(table) == [b"before", large, b"behind"]


def test_several_topics_and_patterns(engine: Engine, client: magnetar.Client, topic: str) -> None:
    for name in ("a", "b"):
        send(client, f"{topic}-{name}", [name.encode()])
    both = magnetar.read_arrow([f"{topic}-b", f"{topic}-a"], engine.url)
    assert values(both) == [b"b", b"a"]
    matching = magnetar.read_arrow(re.compile(f"{topic}-[ab]"), engine.url)
    assert values(matching) == [b"a", b"b"]


# ---- From where to where -----------------------------------------------------


@pytest.mark.both_engines
def test_ids_divide_a_topic_within_batches(
    engine: Engine, client: magnetar.Client, topic: str
) -> None:
    ids = send(client, topic, payloads(12), batch=4)
    for at in range(12):
        before = magnetar.read_arrow(topic, engine.url, end=ids[at])
        behind = magnetar.read_arrow(topic, engine.url, start=ids[at])
        assert (values(before), values(behind)) == (payloads(at), payloads(12 - at, at))
    text = f"{ids[5].ledger_id()}:{ids[5].entry_id()}:{ids[5].batch_index()}"
    assert values(magnetar.read_arrow(topic, engine.url, start=text)) == payloads(7, 5)


@pytest.mark.both_engines
def test_times_divide_a_topic(engine: Engine, client: magnetar.Client, topic: str) -> None:
    send(client, topic, payloads(3))
    table = magnetar.read_arrow(topic, engine.url, columns=["publish_time"])
    last = table.column("publish_time").to_pylist()[-1]
    # Two messages of one millisecond are on the same side of it.
    wait_until(
        lambda: (datetime.now(UTC) - last).total_seconds() > 0.002, lambda: "the clock stands"
    )
    send(client, topic, payloads(2, 3))
    times = magnetar.read_arrow(topic, engine.url).column("publish_time").to_pylist()
    assert values(magnetar.read_arrow(topic, engine.url, start=times[3])) == payloads(2, 3)
    ms = int(times[3].timestamp() * 1000)
    assert values(magnetar.read_arrow(topic, engine.url, end=ms)) == payloads(3)


def test_words_and_a_place_for_each_partition(
    engine: Engine, client: magnetar.Client, topic: str
) -> None:
    ids = send(client, f"{topic}-a", payloads(4))
    send(client, f"{topic}-b", [b"b"])
    topics = [f"{topic}-a", f"{topic}-b"]
    assert magnetar.read_arrow(topics, engine.url, start="latest").num_rows == 0
    some = magnetar.read_arrow(topics, engine.url, start={f"{topic}-a": ids[2]})
    assert values(some) == [*payloads(2, 2), b"b"]
    with pytest.raises(SettingsError, match="one id for several topic partitions"):
        magnetar.read_arrow(topics, engine.url, start=ids[2])
    everything = magnetar.read_arrow(
        topics, engine.url, start=magnetar.MessageId.earliest, end=magnetar.MessageId.latest
    )
    assert everything.num_rows == 5


def test_a_table_has_what_was_there_when_it_began(
    engine: Engine, client: magnetar.Client, topic: str
) -> None:
    send(client, topic, payloads(3))
    with magnetar.scan_arrow(topic, engine.url) as reader:
        send(client, topic, payloads(2, 3))
        assert values(reader.read_all()) == payloads(3)


# ---- Backlogs ----------------------------------------------------------------


def test_a_backlog_is_exactly_what_is_not_acked(
    engine: Engine, client: magnetar.Client, topic: str
) -> None:
    client.subscribe(topic, "s", SHARED, initial_position=EARLIEST).close()
    send(client, topic, payloads(40), batch=8)
    consumer = client.subscribe(topic, "s", SHARED, ack_receipt_enabled=True)
    received = [consumer.receive(30_000) for _ in range(40)]
    consumer.acknowledge([one for i, one in enumerate(received) if i % 3 == 0])
    consumer.close()
    for _ in range(2):  # to read it changes nothing
        table = magnetar.read_arrow(topic, engine.url, admin_url=engine.http_url, subscription="s")
        assert values(table) == [one for i, one in enumerate(payloads(40)) if i % 3]


@pytest.mark.both_engines
def test_a_backlog_that_cannot_be_told_is_refused(
    engine: Engine, client: magnetar.Client, topic: str
) -> None:
    send(client, topic, payloads(1))
    with pytest.raises(OperationNotSupported, match="is the broker Magnetar"):
        magnetar.read_arrow(topic, engine.url, admin_url=engine.http_url, subscription="none")


# ---- Values ------------------------------------------------------------------


@pytest.mark.both_engines
@pytest.mark.parametrize("schema", [JsonSchema(Order), AvroSchema(Order)])
def test_values_by_the_topics_schema(
    engine: Engine, client: magnetar.Client, topic: str, schema: Any
) -> None:
    producer = client.create_producer(topic, schema=schema)
    producer.send(Order(name="tea", amount=3))
    producer.close()
    table = magnetar.read_arrow(topic, engine.url, values="topic")
    assert values(table) == [{"name": "tea", "amount": 3}]
    assert isinstance(values(magnetar.read_arrow(topic, engine.url))[0], bytes)


def test_text_is_checked_and_bad_values_fail_or_are_named(
    engine: Engine, client: magnetar.Client, topic: str
) -> None:
    send(client, topic, [b"tea", b"\xff"])
    with pytest.raises(InvalidMessage, match="set bad_records to null or column"):
        magnetar.read_arrow(topic, engine.url, values="string")
    table = magnetar.read_arrow(topic, engine.url, values="string", bad_records="column")
    assert values(table) == ["tea", None]
    assert "not what the schema describes" in table.column("bad_record").to_pylist()[1]


def test_values_of_a_topic_without_a_schema_are_refused(
    engine: Engine, client: magnetar.Client, topic: str
) -> None:
    send(client, topic, [b"tea"])
    with pytest.raises(SettingsError, match="values"):
        magnetar.read_arrow(topic, engine.url, values="topic")


# ---- Readers -----------------------------------------------------------------


def test_a_reader_gives_batches_and_ends_its_thread(
    engine: Engine, client: magnetar.Client, topic: str
) -> None:
    send(client, topic, payloads(25))
    before = client_threads()
    with magnetar.scan_arrow(topic, engine.url, rows_per_batch=10) as reader:
        assert [batch.num_rows for batch in reader] == [10, 10, 5]
    wait_until(lambda: client_threads() == before, lambda: str(client_threads()))


def test_a_reader_that_is_dropped_ends_its_thread(
    engine: Engine, client: magnetar.Client, topic: str
) -> None:
    send(client, topic, payloads(25))
    before = client_threads()
    reader = magnetar.scan_arrow(topic, engine.url, rows_per_batch=10)
    assert reader.read_next_batch().num_rows == 10
    del reader
    gc.collect()
    wait_until(lambda: client_threads() == before, lambda: str(client_threads()))


def test_a_reader_that_was_never_read_ends_its_thread(
    engine: Engine, client: magnetar.Client, topic: str
) -> None:
    send(client, topic, payloads(1))
    before = client_threads()
    reader = magnetar.scan_arrow(topic, engine.url)
    # It has a consumer there that asks where the topic ends.
    assert len(engine.stats(topic)["subscriptions"]) == 1
    del reader
    gc.collect()
    wait_until(lambda: client_threads() == before, lambda: str(client_threads()))
    wait_until(lambda: not engine.stats(topic)["subscriptions"], lambda: "it is still connected")


def test_a_reader_that_fails_ends_its_thread(
    engine: Engine, client: magnetar.Client, topic: str
) -> None:
    send(client, topic, [b"\xff"])
    before = client_threads()
    reader = magnetar.scan_arrow(topic, engine.url, values="string")
    with pytest.raises(InvalidMessage):
        reader.read_all()
    wait_until(lambda: client_threads() == before, lambda: str(client_threads()))


async def test_a_table_is_read_where_a_loop_runs_as_in_a_notebook(
    engine: Engine, topic: str
) -> None:
    with magnetar.Client(engine.url) as client:
        await asyncio.to_thread(send, client, topic, payloads(3))
        assert values(magnetar.read_arrow(topic, engine.url)) == payloads(3)
        await asyncio.to_thread(client.close)


def test_a_reader_may_be_read_by_any_thread(
    engine: Engine, client: magnetar.Client, topic: str
) -> None:
    send(client, topic, payloads(25))
    reader = magnetar.scan_arrow(topic, engine.url, rows_per_batch=10)
    rows: list[int] = []
    for _ in range(3):
        thread = threading.Thread(target=lambda: rows.append(reader.read_next_batch().num_rows))
        thread.start()
        thread.join()
    assert rows == [10, 10, 5]
    reader.close()


def test_pandas_takes_a_table(engine: Engine, client: magnetar.Client, topic: str) -> None:
    send(client, topic, [b"tea", b"coffee"])
    frame = magnetar.read_arrow(topic, engine.url, values="string").to_pandas()
    assert list(frame["value"]) == ["tea", "coffee"]


@pytest.mark.parametrize("name", ["polars", "duckdb"])
def test_polars_and_duckdb_take_a_table(
    engine: Engine, client: magnetar.Client, topic: str, name: str
) -> None:
    library = pytest.importorskip(name)
    send(client, topic, [b"tea", b"coffee"])
    table = magnetar.read_arrow(topic, engine.url, values="string", columns=["value", "key"])
    if name == "polars":
        assert list(library.from_arrow(table)["value"]) == ["tea", "coffee"]
    else:
        reader = magnetar.scan_arrow(topic, engine.url, values="string", columns=["value"])
        assert library.from_arrow(table).count("*").fetchone() == (2,)
        assert library.from_arrow(reader).count("*").fetchone() == (2,)


# ---- What is wrong with a call -----------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"values": "json"}, "values: 'json' is not one of bytes, string, topic"),
        ({"bad_records": "drop"}, "bad_records: 'drop' is not one of"),
        ({"on_data_loss": "no"}, "on_data_loss: 'no' is not one of"),
        ({"rows_per_batch": 0}, "rows_per_batch: 0 is less than 1"),
        ({"subscription": "s"}, "admin_url: missing"),
        ({"subscription": "s", "admin_url": "http://x", "end": 5}, "end: a backlog has its own"),
        ({"columns": ["payload"]}, "columns: no column payload; there are value, key"),
        ({"start": "yesterday"}, "start: 'yesterday' is not a message id"),
        ({"start": -1}, "start: -1 is not a time"),
        ({"start": True}, "start: True is neither a position nor a time"),
        ({"end": datetime(2026, 1, 1)}, "end: 2026-01-01 00:00:00 has no time zone"),
    ],
)
def test_a_wrong_argument_is_named(
    engine: Engine, client: magnetar.Client, topic: str, arguments: dict[str, Any], reason: str
) -> None:
    send(client, topic, [b"tea"])
    with pytest.raises(SettingsError, match=re.escape(reason)):
        magnetar.read_arrow(topic, engine.url, **arguments)


def test_a_topic_that_is_not_there_is_not_made(engine: Engine, topic: str) -> None:
    with pytest.raises(TopicNotFound):
        magnetar.read_arrow(topic, engine.url)
    with pytest.raises(TopicNotFound, match="no topic matches"):
        magnetar.read_arrow(re.compile(f"{topic}-.*"), engine.url)
    with pytest.raises(SettingsError, match="name one or more"):
        magnetar.read_arrow([], engine.url)


def test_without_pyarrow_the_error_says_what_to_install() -> None:
    program = """
        import sys
        sys.modules["pyarrow"] = None
        import magnetar
        try:
            magnetar.read_arrow("orders")
        except magnetar.OperationNotSupported as error:
            print(error)
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True
    )
    assert "pip install 'pyarrow>=18'" in ran.stdout, ran.stderr


def test_a_program_may_end_with_a_reader_half_read(
    engine: Engine, client: magnetar.Client, topic: str
) -> None:
    send(client, topic, payloads(25))
    program = f"""
        import magnetar
        reader = magnetar.scan_arrow({topic!r}, {engine.url!r}, rows_per_batch=10)
        print(reader.read_next_batch().num_rows)
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "10\n", "")
