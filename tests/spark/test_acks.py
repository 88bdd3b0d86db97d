"""Acks behind a stream: beside applications, inside of batches, over a broker's restart.

Without a JVM: a reader and a listener are called as Spark calls them.
"""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable
from support.broker_process import BrokerProcess
from support.tables import Tables, backlog_of, texts

import magnetar
from magnetar.client.door.bulk import BulkClient
from magnetar.errors import ConsumerBusy
from magnetar.spark.acks import ack_offsets
from magnetar.spark.connect import drop_clients
from magnetar.spark.listener import AckListener
from magnetar.spark.plan.offsets import Offsets
from magnetar.spark.stream import StreamReader

Publish = Callable[..., None]
ALL = ReadAllAvailable()
EARLIEST = magnetar.InitialPosition.Earliest
TOPIC = "persistent://public/default/acks"


def rest_of(broker: BrokerProcess) -> httpx.Client:
    return httpx.Client(base_url=f"{broker.http_url}/admin/v2", timeout=30)


# ---- Beside applications -----------------------------------------------------


def test_an_application_keeps_its_turn(
    publish: Publish, client: magnetar.Client, topic: str, tables: Tables, rest: httpx.Client
) -> None:
    consumer = client.subscribe(
        topic, "app", magnetar.ConsumerType.Failover, initial_position=EARLIEST
    )
    publish(topic, texts(10), batch=4)
    received = [consumer.receive(30_000).data().decode() for _ in range(10)]
    assert received == texts(10)
    reader = tables.stream(subscription="app", maxRowsPerTrigger="6")
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    reader.latestOffset(end, ALL)
    assert backlog_of(rest, topic, "app") == 4
    with pytest.raises(magnetar.Timeout):
        consumer.receive(300)
    publish(topic, ["next"])
    assert consumer.receive(30_000).data() == b"next"
    consumer.close()


@pytest.mark.parametrize("kind", ["Shared", "Exclusive", "KeyShared"])
def test_an_application_that_cannot_share_is_named(
    client: magnetar.Client, topic: str, tables: Tables, kind: str
) -> None:
    consumer = client.subscribe(topic, "app", magnetar.ConsumerType[kind])
    with pytest.raises(ConsumerBusy, match=r"app on .*a subscription of its own"):
        tables.stream(subscription="app").initialOffset()
    consumer.close()
    tables.stream(subscription="app").initialOffset()


# ---- Inside of batches -------------------------------------------------------


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(rows=st.integers(0, 30))
def test_acks_end_at_any_index(
    broker: BrokerProcess, client: magnetar.Client, rest: httpx.Client, rows: int
) -> None:
    topic = f"{TOPIC}-index"
    bulk = BulkClient(broker.url)
    subscription = f"to-{rows}"
    client.subscribe(topic, subscription, initial_position=EARLIEST).close()
    if not bulk.call(_has_messages(bulk, topic)):
        producer = client.create_producer(
            topic,
            batching_enabled=True,
            batching_max_messages=7,
            batching_max_publish_delay_ms=9999,
        )
        for text in texts(30):
            producer.send_async(text.encode(), None)
        producer.flush()
        producer.close()
    with bulk.entries(topic, (-1, -1), None) as entries:
        ledger = int(entries.next(1)[0].ledger_id)
    entry, index = divmod(rows, 7)
    size = 2 if entry == 4 else 7
    if index == size:
        entry, index = entry + 1, 0
    offsets = Offsets({topic: (ledger, entry, index)}, {topic: size})
    for _ in range(2):  # an ack that is sent again changes nothing
        bulk.call(ack_offsets(bulk.aio, subscription, offsets))
    assert backlog_of(rest, topic, subscription) == 30 - rows
    client.subscribe(topic, subscription).unsubscribe()
    bulk.close()


async def _has_messages(bulk: BulkClient, topic: str) -> bool:
    async with await bulk.aio.create_reader(topic, magnetar.MessageId.earliest) as reader:
        return await reader.has_message_available()


# ---- Over a restart of the broker --------------------------------------------


@pytest.fixture
def own(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker to be killed, with ten messages."""
    with BrokerProcess(tmp_path / "data") as process:
        with magnetar.Client(process.url) as client:
            producer = client.create_producer(TOPIC)
            for text in texts(10):
                producer.send(text.encode())
        yield process
        drop_clients()


def committed(own: BrokerProcess, **more: str) -> tuple[StreamReader, dict[str, Any]]:
    """A reader, and the end of a micro-batch that Spark has just committed."""
    options = {"serviceUrl": own.url, "topic": TOPIC, "subscription": "s", **more}
    reader = Tables(options).stream(startingOffsets="earliest")
    start = reader.initialOffset()
    return reader, reader.latestOffset(start, ALL)


def progress(reader: StreamReader, end: dict[str, Any]) -> Any:
    """What Spark tells a listener of."""
    said = SimpleNamespace(
        latestOffset=json.dumps(reader.reportLatestOffset()), endOffset=json.dumps(end)
    )
    other = SimpleNamespace(latestOffset=None, endOffset="7")
    return SimpleNamespace(progress=SimpleNamespace(sources=[other, said]))


def listener(**options: str) -> AckListener:
    streams = SimpleNamespace(removeListener=lambda listener: None)
    return AckListener(SimpleNamespace(streams=streams), options)  # type: ignore[arg-type]


def in_background(work: Callable[[], object]) -> "threading.Thread":
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_a_reader_acks_when_the_broker_is_back(own: BrokerProcess) -> None:
    reader, end = committed(own)
    with rest_of(own) as rest:
        assert backlog_of(rest, TOPIC, "s") == 10
        own.kill()
        acking = in_background(lambda: reader.commit(end))
        own.restart()
        acking.join(60)
        assert not acking.is_alive()
        assert backlog_of(rest, TOPIC, "s") == 0


def test_a_listener_acks_when_the_broker_is_back(own: BrokerProcess) -> None:
    reader, end = committed(own)
    event = progress(reader, end)
    own.kill()
    with listener() as attached, rest_of(own) as rest:
        attached.onQueryStarted(None)
        attached.onQueryProgress(event)
        own.restart()
        assert attached.wait()
        attached.onQueryIdle(None)
        attached.onQueryTerminated(None)
        assert backlog_of(rest, TOPIC, "s") == 0


def test_acks_that_a_listener_could_not_send_come_with_the_next(
    own: BrokerProcess, caplog: pytest.LogCaptureFixture
) -> None:
    reader, end = committed(own)
    event = progress(reader, end)
    own.kill()
    with listener(operationTimeoutSeconds="1") as attached:
        attached.onQueryProgress(event)
        assert attached.wait()
        assert "acks of s are late" in caplog.text
        own.restart()
    with rest_of(own) as rest:
        assert backlog_of(rest, TOPIC, "s") == 0, "the last chance is when it is closed"


def test_what_nobody_acked_is_acked_by_the_next_run(own: BrokerProcess) -> None:
    """Without a listener, of a query that was killed after its last commit."""
    _, end = committed(own)
    drop_clients()
    own.kill()
    own.restart()
    reader, _ = committed(own)
    # Spark goes on from its checkpoint, and asks what there is behind it.
    restarted = StreamReader(reader._options, reader._schema)
    assert restarted.latestOffset(end, ALL) == end
    with rest_of(own) as rest:
        assert backlog_of(rest, TOPIC, "s") == 0
