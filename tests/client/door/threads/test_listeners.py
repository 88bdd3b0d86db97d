"""Listeners: which thread calls them, when, and what a message costs until it is done with."""

import threading
import time
from typing import Any

import pytest
from client.conftest import QUIET_MS, WAIT_S, make_engine, path_of, payloads
from support.waiting import wait_until

from magnetar.broker.setting.settings import BrokerSettings
from magnetar.client.consumer.message import Message
from magnetar.client.door.blocking import Client, Consumer, Reader
from magnetar.errors import AlreadyClosed, BrokerMetadataError
from magnetar.model import ConsumerType, MessageId
from magnetar.testing.embedded import EmbeddedBroker


def publish(client: Client, topic: str, contents: list[bytes]) -> None:
    producer = client.create_producer(topic)
    for content in contents:
        producer.send_async(content, None)
    producer.flush()


class Calls:
    """A listener that notes its messages and its thread."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.threads: set[threading.Thread] = set()

    def __call__(self, consumer: object, message: Message) -> None:
        self.got.append(message.data())
        self.threads.add(threading.current_thread())

    def wait(self, contents: list[bytes]) -> None:
        wait_until(lambda: self.got == contents, lambda: str(self.got))


def listen_to(client: Client, topics: list[str]) -> list[Calls]:
    """A listener for each, which has got something."""
    calls = []
    for topic in topics:
        calls.append(Calls())
        client.subscribe(topic, "s", message_listener=calls[-1])
        publish(client, topic, payloads(250))
    for one in calls:
        one.wait(payloads(250))
        assert len(one.threads) == 1
    return calls


def test_all_listeners_of_a_client_share_a_thread(magnetar_client: Client, topic: str) -> None:
    calls = listen_to(magnetar_client, [f"{topic}-{number}" for number in range(3)])
    assert len(set[Any]().union(*(one.threads for one in calls))) == 1


def test_more_threads_are_used_in_turn(magnetar_broker: EmbeddedBroker, topic: str) -> None:
    with Client(magnetar_broker.url, message_listener_threads=2) as client:
        calls = listen_to(client, [f"{topic}-{number}" for number in range(4)])
        assert len(set[Any]().union(*(one.threads for one in calls))) == 2


def test_a_listener_that_waits_leaves_other_threads_alone(
    magnetar_broker: EmbeddedBroker, topic: str
) -> None:
    let_go = threading.Event()
    with Client(magnetar_broker.url, message_listener_threads=2) as client:
        client.subscribe(topic, "s", message_listener=lambda *_: let_go.wait(WAIT_S))
        other = Calls()
        client.subscribe(topic, "t", message_listener=other)
        try:
            publish(client, topic, payloads(3))
            other.wait(payloads(3))
        finally:
            let_go.set()


def test_permits_go_back_after_the_call(magnetar_broker: EmbeddedBroker, topic: str) -> None:
    entered, let_go = threading.Semaphore(0), threading.Semaphore(0)

    def listen(consumer: Consumer, message: Message) -> None:
        entered.release()
        assert let_go.acquire(timeout=WAIT_S)

    with Client(magnetar_broker.url) as client:
        consumer = client.subscribe(topic, "s", receiver_queue_size=1, message_listener=listen)
        publish(client, topic, payloads(3))
        for _ in range(3):
            assert entered.acquire(timeout=WAIT_S)
            stats = consumer.stats()
            assert (stats.available_permits, stats.unreturned_permits) == (0, 1)
            assert stats.queue_length == 0
            let_go.release()
        wait_until(lambda: consumer.stats().available_permits == 1, lambda: str(consumer.stats()))


def test_without_a_queue_a_listener_has_one_message_at_a_time(
    magnetar_broker: EmbeddedBroker, topic: str
) -> None:
    entered, let_go = threading.Semaphore(0), threading.Semaphore(0)
    other = Calls()

    def listen(consumer: Consumer, message: Message) -> None:
        entered.release()
        assert let_go.acquire(timeout=WAIT_S)
        consumer.acknowledge(message)

    with Client(magnetar_broker.url, message_listener_threads=2) as client:
        shared: dict[str, Any] = {"consumer_type": ConsumerType.Shared, "receiver_queue_size": 0}
        consumer = client.subscribe(topic, "s", message_listener=listen, **shared)
        publish(client, topic, payloads(1))
        assert entered.acquire(timeout=WAIT_S)
        assert consumer.stats().available_permits == 0
        # What comes while it is busy is for another.
        client.subscribe(topic, "s", message_listener=other, **shared)
        publish(client, topic, payloads(3, 1))
        other.wait(payloads(3, 1))
        let_go.release()
        wait_until(lambda: consumer.stats().available_permits == 1, lambda: str(consumer.stats()))


def test_a_pause_ends_what_a_turn_has_left(magnetar_client: Client, topic: str) -> None:
    got: list[bytes] = []

    def listen(consumer: Consumer, message: Message) -> None:
        got.append(message.data())
        if len(got) == 3:
            consumer.pause_message_listener()

    publish(magnetar_client, topic, [b"before"])
    consumer = magnetar_client.subscribe(topic, "s", message_listener=listen)
    publish(magnetar_client, topic, payloads(10))
    wait_until(lambda: len(got) == 3, lambda: str(got))
    time.sleep(QUIET_MS / 1000)
    assert got == payloads(3)
    consumer.resume_message_listener()
    wait_until(lambda: len(got) == 10, lambda: str(got))


def test_closing_waits_for_the_call_and_no_other_comes(
    magnetar_broker: EmbeddedBroker, topic: str
) -> None:
    entered = threading.Event()
    let_go = threading.Event()
    got: list[bytes] = []

    def listen(consumer: Consumer, message: Message) -> None:
        entered.set()
        assert let_go.wait(WAIT_S)
        got.append(message.data())

    with Client(magnetar_broker.url) as client:
        consumer = client.subscribe(topic, "s", message_listener=listen)
        publish(client, topic, payloads(5))
        assert entered.wait(WAIT_S)
        closing = threading.Thread(target=consumer.close)
        closing.start()
        closing.join(QUIET_MS / 1000)
        assert closing.is_alive()
        let_go.set()
        closing.join(WAIT_S)
        assert not closing.is_alive()
        assert got == payloads(1)


def test_a_listener_may_close_another_of_its_thread(magnetar_client: Client, topic: str) -> None:
    closed = threading.Event()
    victim = magnetar_client.subscribe(topic, "s", message_listener=Calls())

    def listen(consumer: Consumer, message: Message) -> None:
        victim.close()
        closed.set()

    magnetar_client.subscribe(topic, "t", message_listener=listen)
    publish(magnetar_client, topic, payloads(1))
    assert closed.wait(WAIT_S)


def test_a_reader_with_a_listener_leaves_its_messages_behind(
    magnetar_client: Client, topic: str
) -> None:
    got: list[bytes] = []

    def listen(reader: Reader, message: Message) -> None:
        got.append(message.data())

    publish(magnetar_client, topic, payloads(5))
    reader = magnetar_client.create_reader(topic, MessageId.earliest, reader_listener=listen)
    wait_until(lambda: got == payloads(5), lambda: str(got))
    wait_until(
        lambda: not reader.has_message_available(), lambda: "messages that were read are left"
    )


def test_a_table_view_does_not_wait_for_listeners(magnetar_client: Client, topic: str) -> None:
    let_go, entered = threading.Event(), threading.Event()

    def listen(consumer: Consumer, message: Message) -> None:
        entered.set()
        let_go.wait(WAIT_S)

    magnetar_client.subscribe(topic, "s", message_listener=listen)
    try:
        with magnetar_client.create_table_view(topic) as view:
            producer = magnetar_client.create_producer(topic)
            producer.send(b"1", partition_key="a")
            assert entered.wait(WAIT_S)
            producer.send(b"2", partition_key="a")
            wait_until(lambda: view.get("a") == b"2", lambda: str(view))
    finally:
        let_go.set()


def test_a_reader_may_be_closed_by_its_listener(magnetar_client: Client, topic: str) -> None:
    got: list[bytes] = []
    closed = threading.Event()

    def listen(reader: Reader, message: Message) -> None:
        got.append(message.data())
        reader.close()
        closed.set()

    publish(magnetar_client, topic, payloads(3))
    magnetar_client.create_reader(topic, MessageId.earliest, reader_listener=listen)
    assert closed.wait(WAIT_S)
    # A problem of the listener's thread would fail the test.
    time.sleep(QUIET_MS / 1000)
    assert got == payloads(1)


def test_shutdown_does_not_wait_for_listeners_that_wait_for_the_client(
    magnetar_broker: EmbeddedBroker, topic: str
) -> None:
    entered = threading.Event()
    found: list[Exception] = []
    client = Client(magnetar_broker.url)
    other = client.subscribe(f"{topic}-other", "s")

    def listen(consumer: Consumer, message: Message) -> None:
        entered.set()
        try:
            other.receive()
        except AlreadyClosed as error:
            found.append(error)

    client.subscribe(topic, "s", message_listener=listen)
    publish(client, topic, payloads(1))
    assert entered.wait(WAIT_S)
    ends = threading.Thread(target=client.shutdown, daemon=True)
    ends.start()
    ends.join(WAIT_S)
    assert not ends.is_alive()
    assert len(found) == 1


def test_a_listener_goes_on_if_its_consumer_may_not_unsubscribe(
    magnetar_client: Client, topic: str
) -> None:
    calls = Calls()
    consumer = magnetar_client.subscribe(topic, "s", ConsumerType.Shared, message_listener=calls)
    other = magnetar_client.subscribe(topic, "s", ConsumerType.Shared)
    with pytest.raises(BrokerMetadataError, match="other consumers"):
        consumer.unsubscribe()
    other.close()
    publish(magnetar_client, topic, payloads(3))
    calls.wait(payloads(3))
    consumer.unsubscribe()


def test_a_listener_goes_on_with_the_topics_that_are_left(topic: str) -> None:
    with make_engine(BrokerSettings(auto_create_topics=False), kind="ours") as engine:
        topics = [f"{topic}-a", f"{topic}-b"]
        for name in topics:
            engine.rest("PUT", path_of(name))
        with Client(engine.url) as client:
            calls = Calls()
            consumer = client.subscribe(topics, "s", message_listener=calls)
            engine.rest("DELETE", path_of(topics[1]), params={"force": "true"})
            gone = consumer._consumer.parts[topics[1]]
            wait_until(lambda: gone.failure is not None, lambda: "it is still there")
            publish(client, topics[0], payloads(3))
            calls.wait(payloads(3))
