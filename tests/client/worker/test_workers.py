"""Workers over a broker, on a loop and on threads: what they handle, and how they end."""

import asyncio
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from client.conftest import WAIT_MS, WAIT_S, Engine, payloads, receive, send_all, until
from support.waiting import wait_until

import magnetar
from magnetar import (
    AsyncWorker,
    ConsumerDeadLetterPolicy,
    ConsumerType,
    Message,
    SettingsError,
    ThreadWorker,
    UsageError,
    WorkerState,
)
from magnetar.client.door import aio
from magnetar.client.door.blocking import Client
from magnetar.schema import Integer, Record

SOON: dict[str, Any] = {"negative_ack_redelivery_delay_ms": 50}


class Order(Record):
    number = Integer()


async def send(client: aio.Client, topic: str, contents: list[bytes], **fields: Any) -> None:
    producer = await client.create_producer(topic)
    await send_all(producer, contents, **fields)
    await producer.close()


# ---- On a loop ---------------------------------------------------------------


async def test_a_worker_handles_what_was_sent_before_and_after_it_started(
    engine: Engine, topic: str
) -> None:
    seen: list[bytes] = []

    @magnetar.worker(topic, subscription="s")
    async def note(data: bytes) -> None:
        seen.append(data)

    async with aio.Client(engine.url) as client:
        await send(client, topic, payloads(3))
        async with note.running(client):
            await until(lambda: note.health().running, lambda: repr(note))
            await send(client, topic, payloads(2, first=3))
            await until(lambda: note.health().handled == 5, lambda: repr(note.health()))
        assert sorted(seen) == payloads(5)
        assert note.health().state is WorkerState.STOPPED
        await nothing_is_left(client, topic)


async def nothing_is_left(client: aio.Client, topic: str) -> None:
    """Sends a last message, which is the first that another consumer gets."""
    consumer = await client.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
    await send(client, topic, [b"last"])
    assert (await receive(consumer, 1))[0].data() == b"last"


async def test_one_bad_message_is_logged_and_tried_again_while_others_go_on(
    engine: Engine, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    tries: list[bytes] = []

    @magnetar.worker(topic, subscription="s", **SOON)
    async def work(data: bytes) -> None:
        tries.append(data)
        if data == b"bad" and tries.count(b"bad") < 3:
            raise ValueError("not this one")

    async with aio.Client(engine.url) as client, work.running(client):
        await send(client, topic, [b"bad", b"good"])
        await until(lambda: work.health().handled == 2, lambda: repr(work.health()))
    health = work.health()
    assert (health.failed, health.last_failure) == (2, "ValueError: not this one")
    assert tries.count(b"bad") == 3
    assert "work failed on" in caplog.text
    assert "not this one" in caplog.text


async def test_a_value_that_cannot_be_decoded_fails_like_the_function_and_is_put_aside(
    engine: Engine, topic: str
) -> None:
    numbers: list[int] = []
    policy = ConsumerDeadLetterPolicy(1, f"{topic}-dead", initial_subscription_name="people")

    @magnetar.worker(topic, subscription="s", dead_letter_policy=policy, **SOON)
    async def work(order: Order) -> None:
        numbers.append(order.number)

    async with aio.Client(engine.url) as client, work.running(client):
        await until(lambda: work.health().running, lambda: repr(work))
        # Without a schema, as a program would that has none.
        await send(client, topic, [b"{broken", b'{"number": 7}'])
        people = await client.subscribe(f"{topic}-dead", "people")
        assert (await receive(people, 1))[0].data() == b"{broken"
        await until(lambda: numbers == [7], lambda: str(numbers))
    assert work.health().failed == 2


async def test_no_more_messages_are_in_hand_than_the_concurrency_says(
    engine: Engine, topic: str
) -> None:
    inside = 0
    most = 0
    gate = asyncio.Event()

    @magnetar.worker(topic, subscription="s", concurrency=4)
    async def work(data: bytes) -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await gate.wait()
        inside -= 1

    async with aio.Client(engine.url) as client, work.running(client):
        await send(client, topic, payloads(12))
        await until(lambda: inside == 4, lambda: str(inside))
        gate.set()
        await until(lambda: work.health().handled == 12, lambda: repr(work.health()))
    assert most == 4


@pytest.mark.parametrize(
    "kind", [ConsumerType.KeyShared, ConsumerType.Exclusive, ConsumerType.Failover], ids=str
)
async def test_messages_stay_in_order_where_the_subscription_keeps_one(
    engine: Engine, topic: str, kind: ConsumerType
) -> None:
    ended: list[bytes] = []

    @magnetar.worker(topic, subscription="s", concurrency=8, consumer_type=kind)
    async def work(data: bytes) -> None:
        # The first would end last if the others did not wait for it.
        for _ in range(40 - 5 * int(data)):
            await asyncio.sleep(0)
        ended.append(data)

    async with aio.Client(engine.url) as client:
        await send(client, topic, [b"%d" % n for n in range(8)], partition_key="alice")
        async with work.running(client):
            await until(lambda: len(ended) == 8, lambda: str(ended))
    assert ended == [b"%d" % n for n in range(8)]


async def test_a_stop_lets_what_is_in_hand_be_finished(engine: Engine, topic: str) -> None:
    inside, gate = asyncio.Event(), asyncio.Event()

    @magnetar.worker(topic, subscription="s")
    async def work(data: bytes) -> None:
        inside.set()
        await gate.wait()

    async with aio.Client(engine.url) as client:
        await send(client, topic, payloads(2))
        task = asyncio.create_task(work.run(client))
        await inside.wait()
        work.stop()
        assert work.health().state is WorkerState.DRAINING
        gate.set()
        await task
        assert (work.health().handled, work.health().given_up) == (1, 0)
        again = await client.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
        assert (await receive(again, 1))[0].data() == payloads(2)[1]


async def test_what_a_stop_does_not_wait_for_comes_again(engine: Engine, topic: str) -> None:
    inside = asyncio.Event()
    cancelled: list[bytes] = []

    @magnetar.worker(topic, subscription="s")
    async def work(data: bytes) -> None:
        inside.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(data)
            raise

    async with aio.Client(engine.url) as client:
        await send(client, topic, [b"job"])
        task = asyncio.create_task(work.run(client))
        await inside.wait()
        work.stop()
        work.stop(0)
        await task
        assert cancelled == [b"job"]
        assert (work.health().given_up, work.health().in_hand) == (1, 0)
        again = await client.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
        assert (await receive(again, 1))[0].data() == b"job"


@pytest.mark.parametrize("stopping", [True, False], ids=["stopping", "running"])
async def test_a_cancelled_run_gives_back_what_is_in_hand(
    engine: Engine, topic: str, stopping: bool
) -> None:
    inside = asyncio.Event()

    @magnetar.worker(topic, subscription="s", consumer_type=ConsumerType.KeyShared, concurrency=2)
    async def work(data: bytes) -> None:
        inside.set()
        await asyncio.Event().wait()

    async with aio.Client(engine.url) as client:
        await send(client, topic, [b"job", b"behind"], partition_key="k")
        task = asyncio.create_task(work.run(client))
        await until(lambda: work.health().in_hand == 2, lambda: repr(work.health()))
        if stopping:
            work.stop()
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert work.health().state is WorkerState.STOPPED
        assert (work.health().given_up, work.health().in_hand) == (2, 0)
        again = await client.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
        assert {one.data() for one in await receive(again, 2)} == {b"job", b"behind"}


async def test_a_worker_waits_for_a_subscription_that_another_one_holds(
    engine: Engine, topic: str
) -> None:
    @magnetar.worker(topic, subscription="s", consumer_type=ConsumerType.Exclusive)
    async def work(data: bytes) -> None:
        pass

    async with aio.Client(engine.url) as client, aio.Client(engine.url) as other:
        holder = await other.subscribe(topic, "s")
        async with work.running(client):
            await until(lambda: work.health().attempts > 0, lambda: repr(work.health()))
            assert not work.health().running
            await holder.close()
            await until(lambda: work.health().running, lambda: repr(work.health()))
            assert work.health().attempts == 0


async def test_a_worker_starts_before_its_broker(engine: Engine, topic: str) -> None:
    @magnetar.worker(topic, subscription="s")
    async def work(data: bytes) -> None:
        pass

    # Nobody listens on port 1.
    async with (
        aio.Client("pulsar://127.0.0.1:1", operation_timeout_seconds=1) as client,
        work.running(client),
    ):
        await until(lambda: work.health().attempts > 0, lambda: repr(work.health()))
        assert work.health().alive
        assert work.health().last_failure is not None
    assert work.health().state is WorkerState.STOPPED


async def test_a_worker_that_is_refused_fails_and_says_why(engine: Engine, topic: str) -> None:
    @magnetar.worker(topic.replace("/default/", "/nowhere/"), subscription="s")
    async def work(data: bytes) -> None:
        pass

    async with aio.Client(engine.url) as client:
        with pytest.raises(magnetar.MagnetarError):
            await work.run(client)
    assert work.health().state is WorkerState.FAILED
    assert work.health().last_failure is not None


async def test_a_worker_that_failed_beside_a_block_raises_at_its_end(
    engine: Engine, topic: str
) -> None:
    @magnetar.worker(topic.replace("/default/", "/nowhere/"), subscription="s")
    async def work(data: bytes) -> None:
        pass

    async with aio.Client(engine.url) as client:
        with pytest.raises(magnetar.MagnetarError):
            async with work.running(client):
                await until(lambda: not work.health().alive, lambda: repr(work.health()))


async def test_a_terminated_topic_ends_its_worker(engine: Engine, topic: str) -> None:
    @magnetar.worker(topic, subscription="s")
    async def work(data: bytes) -> None:
        pass

    async with aio.Client(engine.url) as client:
        await send(client, topic, payloads(3))
        engine.rest("POST", f"{topic.replace('://', '/')}/terminate")
        await work.run(client)
    assert (work.health().handled, work.health().state) == (3, WorkerState.STOPPED)


async def test_a_worker_runs_once_at_a_time_and_as_often_as_one_likes(
    engine: Engine, topic: str
) -> None:
    @magnetar.worker(topic, subscription="s")
    async def work(data: bytes) -> None:
        pass

    async with aio.Client(engine.url) as client:
        for _ in range(2):
            async with work.running(client):
                with pytest.raises(UsageError, match="runs already"):
                    await work.run(client)


async def test_with_retry_after_a_failed_message_comes_by_the_retry_topic(
    engine: Engine, topic: str
) -> None:
    rounds: list[str] = []

    @magnetar.worker(topic, subscription="s", retry_after=timedelta(milliseconds=1))
    async def work(message: Message) -> None:
        rounds.append(message.properties().get("RECONSUMETIMES", "0"))
        if len(rounds) < 3:
            raise ValueError("again")

    async with aio.Client(engine.url) as client:
        await send(client, topic, [b"job"])
        async with work.running(client):
            await until(lambda: work.health().handled == 1, lambda: repr(work.health()))
    assert rounds == ["0", "1", "2"]


# ---- On threads --------------------------------------------------------------


def test_threads_handle_messages_at_the_same_time(client: Client, topic: str) -> None:
    together = threading.Barrier(3)

    @magnetar.worker(topic, subscription="s", concurrency=3)
    def work(data: bytes) -> None:
        together.wait(WAIT_S)

    producer = client.create_producer(topic)
    for content in payloads(3):
        producer.send(content)
    with work.running(client):
        wait_until(lambda: work.health().handled == 3, lambda: repr(work.health()))
        assert work.health().running
    assert work.health().state is WorkerState.STOPPED


def test_a_function_that_raises_on_a_thread_gets_its_message_again(
    client: Client, topic: str
) -> None:
    tries: list[str] = []

    @magnetar.worker(topic, subscription="s", **SOON)
    def work(text: str, message: Message) -> None:
        tries.append(f"{text}{message.redelivery_count()}")
        if len(tries) < 2:
            raise ValueError("again")

    client.create_producer(topic).send(b"job")
    with work.running(client):
        wait_until(lambda: work.health().handled == 1, lambda: repr(work.health()))
    assert tries == ["job0", "job1"]
    assert work.health().failed == 1


def test_a_key_stays_in_order_on_threads(client: Client, topic: str) -> None:
    ended: list[bytes] = []
    first = threading.Event()

    @magnetar.worker(topic, subscription="s", concurrency=4, consumer_type=ConsumerType.KeyShared)
    def work(data: bytes) -> None:
        if data == b"other":
            first.set()
        elif not ended:
            assert first.wait(WAIT_S)  # the other key is handled meanwhile
        ended.append(data)

    producer = client.create_producer(topic)
    for content in (b"0", b"1", b"2"):
        producer.send(content, partition_key="alice")
    producer.send(b"other", partition_key="bob")
    with work.running(client):
        wait_until(lambda: work.health().handled == 4, lambda: repr(work.health()))
    assert [data for data in ended if data != b"other"] == [b"0", b"1", b"2"]


@contextmanager
def busy(client: Client, topic: str) -> Iterator[tuple[ThreadWorker, threading.Event]]:
    """A worker with a message in hand, which ends when its event is set."""
    inside, gate = threading.Event(), threading.Event()

    @magnetar.worker(topic, subscription="s")
    def work(data: bytes) -> None:
        inside.set()
        assert gate.wait(WAIT_S)

    client.create_producer(topic).send(b"job")
    thread = threading.Thread(target=work.run, args=[client])
    thread.start()
    try:
        assert inside.wait(WAIT_S)
        yield work, gate
    finally:
        gate.set()
        work.stop()
        thread.join()


def test_a_stop_waits_for_threads(client: Client, topic: str) -> None:
    with busy(client, topic) as (work, gate):
        work.stop()
        wait_until(lambda: work.health().state is WorkerState.DRAINING, lambda: repr(work))
        gate.set()
        wait_until(lambda: not work.health().alive, lambda: repr(work))
    assert (work.health().handled, work.health().given_up) == (1, 0)


def test_what_a_thread_has_not_finished_in_time_comes_again(client: Client, topic: str) -> None:
    with busy(client, topic) as (work, _gate):
        work.stop(0)
        wait_until(lambda: work.health().state is WorkerState.STOPPED, lambda: repr(work))
        assert (work.health().handled, work.health().given_up) == (0, 1)
        consumer = client.subscribe(topic, "s", ConsumerType.Shared)
        assert consumer.receive(WAIT_MS).data() == b"job"


def test_threads_wait_for_a_subscription_that_another_one_holds(client: Client, topic: str) -> None:
    @magnetar.worker(topic, subscription="s", consumer_type=ConsumerType.Exclusive)
    def work(data: bytes) -> None:
        pass

    holder = client.subscribe(topic, "s")
    with work.running(client):
        wait_until(lambda: work.health().attempts > 0, lambda: repr(work.health()))
        holder.close()
        wait_until(lambda: work.health().running, lambda: repr(work.health()))


def test_a_worker_on_threads_that_is_refused_fails_and_says_why(client: Client, topic: str) -> None:
    @magnetar.worker(topic.replace("/default/", "/nowhere/"), subscription="s")
    def work(data: bytes) -> None:
        pass

    with pytest.raises(magnetar.MagnetarError):
        work.run(client)
    assert work.health().state is WorkerState.FAILED
    with pytest.raises(magnetar.MagnetarError), work.running(client):
        wait_until(lambda: not work.health().alive, lambda: repr(work.health()))


def test_a_worker_whose_block_raises_is_stopped_too(client: Client, topic: str) -> None:
    @magnetar.worker(topic, subscription="s")
    def work(data: bytes) -> None:
        pass

    with pytest.raises(KeyError), work.running(client):
        raise KeyError
    assert work.health().state is WorkerState.STOPPED


# ---- As a program ------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_run_ends_by_a_signal_after_what_is_in_hand(
    client: Client, engine: Engine, topic: str, number: signal.Signals
) -> None:
    finished: list[str] = []

    @magnetar.worker(topic, subscription="loop")
    async def on_loop(data: bytes) -> None:
        signal.raise_signal(number)
        await asyncio.sleep(0.05)
        finished.append("loop")

    @magnetar.worker(topic, subscription="threads")
    def on_threads(data: bytes) -> None:
        pass

    client.create_producer(topic).send(b"job")
    before = signal.getsignal(number)
    magnetar.run(on_loop, on_threads, url=engine.url)
    assert finished == ["loop"]
    assert signal.getsignal(number) is before
    assert on_loop.health().state is on_threads.health().state is WorkerState.STOPPED


def test_a_second_signal_gives_up_what_is_in_hand(
    client: Client, engine: Engine, topic: str
) -> None:
    @magnetar.worker(topic, subscription="s")
    async def work(data: bytes) -> None:
        signal.raise_signal(signal.SIGTERM)
        await until(lambda: not work.health().running, lambda: repr(work))
        signal.raise_signal(signal.SIGTERM)
        await asyncio.Event().wait()

    client.create_producer(topic).send(b"job")
    magnetar.run(work, url=engine.url)
    assert work.health().given_up == 1


def test_run_ends_with_the_error_of_a_worker_that_failed(engine: Engine, topic: str) -> None:
    @magnetar.worker(topic.replace("/default/", "/nowhere/"), subscription="s")
    def refused(data: bytes) -> None:
        pass

    @magnetar.worker(topic, subscription="s")
    async def work(data: bytes) -> None:
        pass

    with pytest.raises(magnetar.MagnetarError):
        magnetar.run(work, refused, url=engine.url)
    assert work.health().state is WorkerState.STOPPED


def test_run_finds_its_broker_in_the_environment(
    client: Client, engine: Engine, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAGNETAR_URL", engine.url)

    @magnetar.worker(topic, subscription="s")
    def work(data: bytes) -> None:
        work.stop()

    client.create_producer(topic).send(b"job")
    magnetar.run(work)
    assert work.health().handled == 1


# ---- Mistakes ----------------------------------------------------------------


def test_a_decorated_function_can_be_called_and_knows_what_it_is() -> None:
    @magnetar.worker("orders", subscription="s")
    def double(number: bytes) -> bytes:
        """Twice."""
        return number * 2

    @magnetar.worker(re.compile("orders-.*"), subscription="s")
    async def triple(number: bytes) -> bytes:
        return number * 3

    assert isinstance(double, ThreadWorker)
    assert isinstance(triple, AsyncWorker)
    assert double(b"1") == b"11"
    assert asyncio.run(triple(b"1")) == b"111"
    assert (double.__doc__, double.name) == ("Twice.", "double")
    assert repr(double) == "<ThreadWorker double of 'orders': idle>"
    double.stop()
    triple.stop()
    assert not double.health().alive


def nothing() -> None: ...
def three(a: bytes, b: bytes, c: bytes) -> None: ...
def two_messages(a: Message, b: Message) -> None: ...
def unknown(a: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821
def number(a: int) -> None: ...


@pytest.mark.parametrize("function", [nothing, three, two_messages, unknown, number])
def test_a_function_that_cannot_be_a_worker_is_refused_where_it_is_decorated(
    function: Any,
) -> None:
    with pytest.raises(UsageError):
        magnetar.worker("orders", subscription="s")(function)


@pytest.mark.parametrize(
    "options", [{"concurrency": 0}, {"grace_s": -1}, {"receiver_queue_size": -1}]
)
def test_a_bad_option_of_a_worker_is_refused_where_it_is_decorated(
    options: dict[str, Any],
) -> None:
    with pytest.raises(SettingsError):
        magnetar.worker("orders", subscription="s", **options)(lambda data: None)


def test_run_wants_workers() -> None:
    with pytest.raises(UsageError, match="needs a worker"):
        magnetar.run()
    with pytest.raises(UsageError, match="is no worker"):
        magnetar.run(print)  # type: ignore[arg-type]
