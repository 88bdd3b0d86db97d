"""The blocking door over a broker: what its threads may do, and what they must not."""

import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext
from queue import SimpleQueue
from typing import Any

import pulsar
import pytest
from client.conftest import (
    QUIET_MS,
    WAIT_MS,
    WAIT_S,
    Engine,
    client_threads,
    datas,
    payloads,
)
from support.waiting import wait_until

import magnetar
from magnetar import (
    AlreadyClosed,
    ConsumerBatchReceivePolicy,
    ConsumerType,
    InitialPosition,
    MessageId,
    OperationNotSupported,
    ProducerQueueIsFull,
    Result,
    Timeout,
    TopicNotFound,
)
from magnetar.client.door.blocking import Client, Consumer, Producer
from magnetar.schema import Schema, SchemaType

Earliest = InitialPosition.Earliest


def publish(producer: Producer, contents: list[bytes]) -> None:
    for content in contents:
        producer.send_async(content, None)
    producer.flush()


def receive(consumer: Any, count: int) -> list[Any]:
    return [consumer.receive(WAIT_MS) for _ in range(count)]


def on_loop_thread(client: Client, call: Any) -> Any:
    """What a call raises or returns on the client's own thread."""
    found: list[Any] = []
    done = threading.Event()

    def work() -> None:
        try:
            found.append(call())
        except BaseException as error:
            found.append(error)
        done.set()

    client._engine.on_loop(work)
    assert done.wait(WAIT_S)
    return found[0]


def test_send_returns_an_id_and_receive_a_message(client: Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    id = producer.send(b"hello", properties={"a": "b"}, partition_key="k", event_timestamp=5)
    message = consumer.receive(WAIT_MS)
    assert (message.data(), message.message_id()) == (b"hello", id)
    assert (message.properties(), message.event_timestamp()) == ({"a": "b"}, 5)
    consumer.acknowledge(message)
    assert (producer.topic(), consumer.topic()) == (topic, topic)
    assert consumer.subscription_name() == "s"
    assert producer.is_connected()
    assert consumer.is_connected()
    with pytest.raises(Timeout, match="20 ms"):
        consumer.receive(20)


def test_one_message_does_not_wait_for_its_batch(client: Client, topic: str) -> None:
    producer = client.create_producer(
        topic, batching_enabled=True, batching_max_publish_delay_ms=60_000
    )
    assert producer.send(b"x").batch_size() == 1


def test_callbacks_come_in_order_and_may_block(client: Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, batching_enabled=True)
    answers: list[tuple[Any, MessageId]] = []
    done = threading.Event()

    def answered(result: Any, id: MessageId) -> None:
        answers.append((result, id))
        if len(answers) == 10:
            producer.send(b"from the callback")
            producer.flush()
            done.set()

    for content in payloads(10):
        producer.send_async(content, answered)
    assert done.wait(WAIT_S)
    got = receive(consumer, 11)
    assert datas(got) == [*payloads(10), b"from the callback"]
    assert [id for _, id in answers] == [m.message_id() for m in got[:10]]
    assert {result for result, _ in answers} == {Result.Ok}


def test_a_callback_that_fails_hurts_no_other(
    client: Client, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", told.append)
    producer = client.create_producer(topic)
    done = threading.Event()
    producer.send_async(b"a", lambda result, id: 1 / 0)
    producer.send_async(b"b", lambda result, id: done.set())
    assert done.wait(WAIT_S)
    assert told[0].exc_type is ZeroDivisionError


def test_a_listener_gets_messages_and_may_block(client: Client, topic: str) -> None:
    other = client.create_producer(topic + "-out")
    collector = client.subscribe(topic + "-out", "s")

    def pass_on(consumer: Consumer, message: Any) -> None:
        other.send(b"seen " + message.data())
        consumer.acknowledge(message)

    client.subscribe(topic, "s", message_listener=pass_on)
    publish(client.create_producer(topic), payloads(5))
    assert datas(receive(collector, 5)) == [b"seen " + data for data in payloads(5)]


def test_a_listener_can_be_paused_and_closed_by_itself(client: Client, topic: str) -> None:
    got: list[bytes] = []
    closed = threading.Event()

    def take(consumer: Consumer, message: Any) -> None:
        got.append(message.data())
        consumer.acknowledge(message)
        if message.data() == b"last":
            consumer.close()
            closed.set()

    consumer = client.subscribe(topic, "s", message_listener=take)
    producer = client.create_producer(topic)
    producer.send(b"one")
    wait_until(lambda: got == [b"one"], lambda: str(got))
    consumer.pause_message_listener()
    producer.send(b"two")
    time.sleep(QUIET_MS / 1000)
    assert got == [b"one"]
    consumer.resume_message_listener()
    producer.send(b"last")
    assert closed.wait(WAIT_S)
    assert got == [b"one", b"two", b"last"]
    with pytest.raises(AlreadyClosed):
        consumer.receive()


def test_blocking_calls_on_the_clients_own_thread_are_refused(client: Client, topic: str) -> None:
    producer = client.create_producer(topic)
    consumer = client.subscribe(topic, "s", ack_receipt_enabled=True)
    producer.send(b"x")
    message = consumer.receive(WAIT_MS)
    calls = [
        lambda: producer.send(b"y"),
        producer.flush,
        producer.close,
        lambda: consumer.receive(WAIT_MS),
        lambda: consumer.acknowledge(message),
        lambda: consumer.seek(message.message_id()),
        consumer.batch_receive,
        consumer.close,
        lambda: client.create_producer(topic),
        lambda: client.subscribe(topic, "t"),
        client.close,
    ]
    for call in calls:
        assert isinstance(on_loop_thread(client, call), OperationNotSupported)
    assert on_loop_thread(client, lambda: producer.send_async(b"y", None)) is None
    assert consumer.receive(WAIT_MS).data() == b"y"


def test_a_full_queue_refuses_or_blocks(client: Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    options: dict[str, Any] = {
        "max_pending_messages": 5,
        "batching_enabled": True,
        "batching_max_publish_delay_ms": 60_000,
    }
    refusing = client.create_producer(topic, **options)
    with client._lock:  # no receipt is taken meanwhile
        for _ in range(5):
            refusing.send_async(b"x", None)
        with pytest.raises(ProducerQueueIsFull):
            refusing.send_async(b"x", None)
    refusing.flush()
    blocking = client.create_producer(topic, block_if_queue_full=True, **options)
    publish(blocking, payloads(200))
    assert datas(receive(consumer, 205))[5:] == payloads(200)


@pytest.mark.parametrize("library", [pulsar, magnetar], ids=["official", "ours"])
def test_callbacks_are_told_what_was_not_taken(library: Any, engine: Engine, topic: str) -> None:
    told: SimpleQueue[str] = SimpleQueue()

    def settle(result: Any, _: Any) -> None:
        told.put(result.name)

    client = library.Client(engine.url)
    producer = client.create_producer(
        topic,
        max_pending_messages=1,
        batching_enabled=True,
        batching_max_publish_delay_ms=60_000,
    )
    with getattr(client, "_lock", nullcontext()):  # no receipt is taken meanwhile
        producer.send_async(b"first", settle)
        producer.send_async(b"second", settle)
    producer.flush()
    # In any order: nothing says that the thread of the receipt comes after the one that refuses.
    both = sorted(told.get(timeout=WAIT_S) for _ in range(2))
    assert both == ["Ok", "ProducerQueueIsFull"]
    producer.send_async(b"x" * (6 << 20), settle)
    assert told.get(timeout=WAIT_S) == "MessageTooBig"
    producer.close()
    producer.send_async(b"third", settle)
    assert told.get(timeout=WAIT_S) == "AlreadyClosed"
    client.close()
    producer.send_async(b"fourth", settle)
    assert told.get(timeout=WAIT_S) == "AlreadyClosed"


def test_threads_may_share_a_producer_and_a_consumer(client: Client, topic: str) -> None:
    producer = client.create_producer(topic, batching_enabled=True, block_if_queue_full=True)
    consumer = client.subscribe(topic, "s", ConsumerType.Shared)
    got: list[bytes] = []

    def send(number: int) -> None:
        for content in payloads(500, 500 * number):
            producer.send_async(content, None)

    def take() -> None:
        while len(got) < 2000:
            try:
                message = consumer.receive(50)
            except Timeout:
                continue
            got.append(message.data())
            consumer.acknowledge(message)

    threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
    threads += [threading.Thread(target=take) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert sorted(got) == payloads(2000)
    stats = producer.stats()
    # Nothing overtook anything: nobody had to begin anew.
    assert stats.messages_stored == 2000
    assert stats.entries_written <= 2000


def test_batches_closed_by_time_and_by_size_keep_their_order(client: Client, topic: str) -> None:
    """The loop closes batches by time while a thread closes others by size."""
    consumer = client.subscribe(topic, "s", receiver_queue_size=20_000)
    producer = client.create_producer(
        topic,
        batching_enabled=True,
        batching_max_messages=20,
        batching_max_publish_delay_ms=1,
        block_if_queue_full=True,
    )
    connections = client._engine._pool._open.values()
    before = list(connections)
    publish(producer, payloads(10_000))
    assert datas(receive(consumer, 10_000)) == payloads(10_000)
    assert list(connections) == before


def test_batch_receive_and_queueless_consumers(client: Client, topic: str) -> None:
    consumer = client.subscribe(
        topic, "s", batch_receive_policy=ConsumerBatchReceivePolicy(5, -1, 200)
    )
    without_queue = client.subscribe(topic, "t", receiver_queue_size=0)
    publish(client.create_producer(topic), payloads(8))
    assert datas(consumer.batch_receive()) == payloads(5)
    assert datas(consumer.batch_receive()) == payloads(3, 5)
    assert consumer.batch_receive() == []
    assert datas(receive(without_queue, 8)) == payloads(8)


def test_batch_receive_takes_nothing_while_another_thread_works_on_the_consumer(
    client: Client, topic: str
) -> None:
    consumer = client.subscribe(
        topic, "s", batch_receive_policy=ConsumerBatchReceivePolicy(2, -1, -1)
    )
    publish(client.create_producer(topic), payloads(2))
    wait_until(lambda: consumer.stats().queue_length == 2, lambda: str(consumer.stats()))
    got: list[Any] = []
    taking = threading.Thread(target=lambda: got.extend(consumer.batch_receive()))
    with client._lock:
        taking.start()
        taking.join(QUIET_MS / 1000)
        assert consumer.stats().queue_length == 2
    taking.join(WAIT_S)
    assert datas(got) == payloads(2)


def test_a_reader_may_be_told_how_to_treat_messages_in_chunks(client: Client, topic: str) -> None:
    """One that is larger than it takes is refused, and the next comes."""
    producer = client.create_producer(topic, chunking_enabled=True, chunk_max_message_size=100)
    producer.send(bytes(1000))
    producer.send(b"small")
    reader = client.create_reader(topic, MessageId.earliest, max_message_size_total=500)
    assert reader.read_next(WAIT_MS).data() == b"small"


def test_acks_and_seeks(client: Client, engine: Engine, topic: str) -> None:
    consumer = client.subscribe(
        topic,
        "s",
        ConsumerType.Shared,
        negative_ack_redelivery_delay_ms=100,
        ack_receipt_enabled=True,
    )
    publish(client.create_producer(topic), payloads(5))
    got = receive(consumer, 5)
    consumer.acknowledge(got[:3])
    consumer.negative_acknowledge(got[3])
    assert datas(receive(consumer, 1)) == payloads(1, 3)
    consumer.redeliver_unacknowledged_messages()
    assert sorted(datas(receive(consumer, 2))) == payloads(2, 3)
    consumer.seek(MessageId.earliest)
    assert sorted(datas(receive(consumer, 5))) == payloads(5)
    consumer.seek(0)
    assert sorted(datas(receive(consumer, 5))) == payloads(5)
    assert consumer.get_last_message_id() == got[-1].message_id()
    consumer.unsubscribe()
    assert engine.stats(topic)["subscriptions"] == {}


def test_a_table_view_follows_its_topic(client: Client, topic: str) -> None:
    producer = client.create_producer(topic)
    producer.send(b"1", partition_key="a")
    producer.send(b"2", partition_key="b")
    producer.send(b"3", partition_key="a")
    seen: list[tuple[str, Any]] = []
    with client.create_table_view(topic) as view:
        assert (len(view), view.get("a"), view.get("b"), view.get("c")) == (2, b"3", b"2", None)
        view.for_each_and_listen(lambda key, value: seen.append((key, value)))
        assert sorted(seen) == [("a", b"3"), ("b", b"2")]
        producer.send(b"4", partition_key="c")
        producer.send(None, partition_key="b")
        wait_until(lambda: view.get("b") is None, lambda: str(seen))
        assert (len(view), view.get("c")) == (2, b"4")
    assert ("c", b"4") in seen


class Numbers(Schema[Any]):
    """A schema of the application's own, which raises what it likes."""

    def __init__(self) -> None:
        super().__init__(bytes, SchemaType.NONE, None, "BYTES")

    def decode(self, data: bytes) -> Any:
        return int(data)


def test_a_table_view_has_the_others_if_a_value_cannot_be_decoded(
    client: Client, topic: str
) -> None:
    producer = client.create_producer(topic)
    for content, key in ((b"1", "a"), (b"one", "b")):
        producer.send(content, partition_key=key)
    with client.create_table_view(topic, schema=Numbers()) as view:
        assert (len(view), view.get("a")) == (2, 1)
        with pytest.raises(ValueError, match="one"):
            view.get("b")
        producer.send(b"two", partition_key="a")
        producer.send(b"2", partition_key="b")
        wait_until(lambda: "'b': 2" in str(view), lambda: str(view))
        assert view.get("b") == 2
        with pytest.raises(ValueError, match="two"):
            view.get("a")


def test_a_listener_of_a_table_view_that_fails_hurts_no_other(
    client: Client, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    problems: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", problems.append)
    seen: list[tuple[str, Any]] = []

    def fail(key: str, value: Any) -> None:
        raise ValueError(key)

    with client.create_table_view(topic) as view:
        view.for_each_and_listen(fail)
        view.for_each_and_listen(lambda key, value: seen.append((key, value)))
        client.create_producer(topic).send(b"1", partition_key="a")
        wait_until(lambda: seen == [("a", b"1")], lambda: str(seen))
    assert [problem.exc_type for problem in problems] == [ValueError]


# ---- Closing -----------------------------------------------------------------


@pytest.fixture
def waiting(engine: Engine, topic: str) -> Iterator[tuple[Client, list[Any], threading.Thread]]:
    """A client, and a thread that waits for a message that never comes."""
    client = Client(engine.url)
    consumer = client.subscribe(topic, "s")
    found: list[Any] = []

    def wait() -> None:
        try:
            found.append(consumer.receive())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    wait_until(lambda: consumer._waiting == 1, lambda: "nobody waits")
    yield client, found, thread
    client.close()


@pytest.mark.parametrize("how", ["close", "shutdown"])
def test_closing_ends_all_threads_and_who_waits_is_told(
    waiting: tuple[Client, list[Any], threading.Thread], topic: str, how: str
) -> None:
    client, found, thread = waiting
    client.create_producer(topic + "-other").send_async(b"x", lambda result, id: None)
    getattr(client, how)()
    thread.join(WAIT_S)
    assert isinstance(found[0], AlreadyClosed)
    assert client_threads() == []
    getattr(client, how)()
    with pytest.raises(AlreadyClosed, match="closed"):
        client.create_producer(topic)


def test_closing_sends_what_is_open_and_acks_what_is_acked(engine: Engine, topic: str) -> None:
    with Client(engine.url) as client:
        producer = client.create_producer(
            topic, batching_enabled=True, batching_max_publish_delay_ms=60_000
        )
        consumer = client.subscribe(topic, "s", acknowledgement_group_time_ms=60_000)
        results: list[Any] = []
        for content in payloads(5):
            producer.send_async(content, lambda result, id: results.append(result))
        producer.close()
        for message in receive(consumer, 4):
            consumer.acknowledge(message)
    assert results == [Result.Ok] * 5
    with Client(engine.url) as client:
        consumer = client.subscribe(topic, "s")
        assert datas(receive(consumer, 1)) == payloads(1, 4)


def test_a_client_may_be_closed_by_a_callback(engine: Engine, topic: str) -> None:
    client = Client(engine.url)
    done = threading.Event()

    def answered(result: Any, id: MessageId) -> None:
        client.close()
        done.set()

    client.create_producer(topic).send_async(b"x", answered)
    assert done.wait(WAIT_S)
    wait_until(lambda: client_threads() == [], lambda: str(client_threads()))


def test_shutdown_fails_what_is_on_its_way(engine: Engine, topic: str) -> None:
    client = Client(engine.url)
    producer = client.create_producer(
        topic, batching_enabled=True, batching_max_publish_delay_ms=60_000
    )
    results: list[Any] = []
    producer.send_async(b"x", lambda result, id: results.append(result))
    client.shutdown()
    assert results == [Result.AlreadyClosed]


def test_shutdown_is_no_error_to_be_logged(
    engine: Engine, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = Client(engine.url)
    client.create_producer(topic)
    client.subscribe(topic, "s")
    client.shutdown()
    assert caplog.text == ""


def test_what_a_broker_refuses_is_raised(client: Client) -> None:
    with pytest.raises(TopicNotFound):
        client.create_producer("persistent://nobody/nothing/topic")
    with pytest.raises(TopicNotFound):
        client.subscribe("persistent://nobody/nothing/topic", "s")


def test_the_old_switch_for_batch_index_acks_warns_once(client: Client, topic: str) -> None:
    with pytest.warns(UserWarning, match="batch_index_ack_enabled has no effect"):
        client.subscribe(topic, "s", batch_index_ack_enabled=True)
    client.subscribe(topic, "t", batch_index_ack_enabled=False)


# ---- The lock ----------------------------------------------------------------


class Guarded:
    """A core that notes which of its methods are called without the client's lock."""

    def __init__(self, client: Client, core: Any, calls: set[str]) -> None:
        self._client = client
        self._core = core
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._core, name)
        if not callable(found):
            return found

        def call(*arguments: Any, **options: Any) -> Any:
            if not self._client._lock._is_owned():  # type: ignore[attr-defined]
                self._calls.add(name)
            return found(*arguments, **options)

        return call


def test_a_consumers_core_is_worked_on_with_the_lock(
    client: Client, engine: Engine, topic: str
) -> None:
    without: set[str] = set()
    producer = client.create_producer(topic, batching_enabled=True)
    consumer = client.subscribe(
        topic,
        "s",
        ConsumerType.Shared,
        unacked_messages_timeout_ms=1000,
        negative_ack_redelivery_delay_ms=10,
        ack_receipt_enabled=True,
        start_message_id_inclusive=True,
    )
    (part,) = consumer._consumer.parts.values()
    part.core = Guarded(client, part.core, without)  # type: ignore[assignment]
    publish(producer, payloads(10))
    ids = []
    for message in receive(consumer, 10):
        ids.append(message.message_id())
        consumer.negative_acknowledge(message)
    consumer.acknowledge(receive(consumer, 10))
    engine.unload(topic)
    publish(producer, payloads(10))
    consumer.acknowledge(receive(consumer, 10))
    consumer.seek(ids[0])
    consumer.acknowledge(receive(consumer, 20))
    consumer.redeliver_unacknowledged_messages()
    consumer.close()
    producer.close()
    assert without == set()
