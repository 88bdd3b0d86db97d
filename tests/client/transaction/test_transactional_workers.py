"""Transactional workers: what a function publishes is seen exactly when its message is acked."""

import asyncio
import threading
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from client.conftest import (
    WAIT_MS,
    WAIT_S,
    Engine,
    datas,
    nothing_comes,
    payloads,
    receive,
    send_all,
    through_proxy,
    until,
)
from support.waiting import wait_until

import magnetar
from magnetar import (
    AsyncWork,
    ConsumerDeadLetterPolicy,
    ConsumerType,
    InitialPosition,
    Message,
    SettingsError,
    ThreadWork,
    Timeout,
    TransactionsDisabledError,
    UsageError,
    WorkerState,
)
from magnetar.client.door import aio
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.schema import JsonSchema, StringSchema

SOON: dict[str, Any] = {"negative_ack_redelivery_delay_ms": 50}


async def send(client: aio.Client, topic: str, contents: list[bytes], **fields: Any) -> None:
    producer = await client.create_producer(topic)
    await send_all(producer, contents, **fields)
    await producer.close()


async def outputs_of(client: aio.Client, topic: str) -> aio.Consumer:
    return await client.subscribe(
        f"{topic}-out", "r", initial_position=InitialPosition.Earliest, receiver_queue_size=100
    )


async def all_of(consumer: aio.Consumer, at_least: int) -> Counter[bytes]:
    """What comes until nothing does; fails if it is too little."""
    got = datas(await receive(consumer, at_least))
    while True:
        try:
            got.append((await consumer.receive(400)).data())
        except Timeout:
            return Counter(got)


async def nothing_is_left(client: aio.Client, topic: str) -> None:
    consumer = await client.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
    await nothing_comes(consumer)
    await consumer.close()


@dataclass
class Greeting:
    name: str


# ---- Done once ---------------------------------------------------------------


async def test_what_failing_calls_published_is_never_seen_and_the_rest_is_once(
    coordinated: Engine, topic: str
) -> None:
    tries: Counter[bytes] = Counter()

    @magnetar.worker(topic, subscription="s", concurrency=8, transactional=True, **SOON)
    async def work(data: bytes, work: AsyncWork) -> None:
        tries[data] += 1
        await work.send(f"{topic}-out", b"a-" + data)
        await work.send(f"{topic}-out", b"b-" + data, partition_key=data.decode())
        if int(data[-1:]) % 3 == 0 and tries[data] < 3:
            raise ValueError("not this time")

    async with aio.Client(coordinated.url) as client:
        await send(client, topic, payloads(20))
        reader = await outputs_of(client, topic)
        async with work.running(client):
            await until(lambda: work.health().handled == 20, lambda: repr(work.health()))
        wanted = Counter([b"%c-%b" % (x, one) for one in payloads(20) for x in b"ab"])
        assert await all_of(reader, 40) == wanted
        await nothing_is_left(client, topic)
    # 0, 3, 6 and 9 of each ten failed twice.
    assert work.health().failed == 16


def test_a_worker_on_threads_does_each_message_once(coordinated: Engine, topic: str) -> None:
    tries: Counter[bytes] = Counter()
    lock = threading.Lock()

    @magnetar.worker(topic, subscription="s", concurrency=4, transactional=True, **SOON)
    def work(data: bytes, message: Message, work: ThreadWork) -> None:
        with lock:
            tries[data] += 1
            now = tries[data]
        assert message.data() == data
        for kind in (b"a-", b"b-"):
            work.send(f"{topic}-out", kind + data)
        if int(data[-1:]) % 3 == 0 and now < 2:
            raise ValueError("not this time")

    with magnetar.Client(coordinated.url) as client:
        producer = client.create_producer(topic)
        for content in payloads(10):
            producer.send(content)
        reader = client.subscribe(f"{topic}-out", "r", initial_position=InitialPosition.Earliest)
        with work.running(client):
            wait_until(lambda: work.health().handled == 10, lambda: repr(work.health()))
        got = Counter(reader.receive(WAIT_MS).data() for _ in range(20))
        assert got == Counter([b"%c-%b" % (x, one) for one in payloads(10) for x in b"ab"])
        again = client.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
        for consumer in (reader, again):
            with pytest.raises(Timeout):
                consumer.receive(150)
    assert work.health().failed == 4


async def test_values_are_sent_by_schemas_and_a_producer_serves_many_calls(
    coordinated: Engine, topic: str
) -> None:
    @magnetar.worker(
        topic,
        subscription="s",
        transactional=True,
        transaction_timeout=timedelta(seconds=30),
        output_options={"producer_name": "only-one"},
    )
    async def work(name: str, work: AsyncWork) -> None:
        # Were each call to make a producer, the second would find its name taken.
        await work.send(f"{topic}-out", f"hello {name}", schema=StringSchema())
        await work.send(f"{topic}-json", Greeting(name), schema=JsonSchema(Greeting))

    async with aio.Client(coordinated.url) as client, work.running(client):
        reader = await outputs_of(client, topic)
        await send(client, topic, [b"ann", b"bo"])
        assert Counter(datas(await receive(reader, 2))) == Counter([b"hello ann", b"hello bo"])


async def test_producers_of_the_same_client_may_take_part(coordinated: Engine, topic: str) -> None:
    async with aio.Client(coordinated.url) as client:
        producer = await client.create_producer(f"{topic}-out")

        @magnetar.worker(topic, subscription="s", transactional=True, **SOON)
        async def work(data: bytes, work: AsyncWork) -> None:
            producer.send(data, transaction=work)
            if work_is_new.is_set():
                return
            work_is_new.set()
            raise ValueError("once more")

        work_is_new = asyncio.Event()
        reader = await outputs_of(client, topic)
        async with work.running(client):
            await send(client, topic, [b"m"])
            assert await all_of(reader, 1) == Counter([b"m"])


@pytest.mark.parametrize("kind", [ConsumerType.KeyShared, ConsumerType.Failover], ids=str)
async def test_outputs_keep_the_order_that_the_subscription_keeps(
    coordinated: Engine, topic: str, kind: ConsumerType
) -> None:
    @magnetar.worker(topic, subscription="s", concurrency=8, consumer_type=kind, transactional=True)
    async def work(data: bytes, work: AsyncWork) -> None:
        for _ in range(40 - 5 * int(data)):
            await asyncio.sleep(0)
        await work.send(f"{topic}-out", data)

    async with aio.Client(coordinated.url) as client:
        numbers = [b"%d" % n for n in range(8)]
        await send(client, topic, numbers, partition_key="alice")
        reader = await outputs_of(client, topic)
        async with work.running(client):
            assert datas(await receive(reader, 8)) == numbers


# ---- It fails ----------------------------------------------------------------


async def test_a_letter_of_a_call_that_failed_is_one_with_the_ack_of_its_message(
    coordinated: Engine, topic: str
) -> None:
    seen: list[tuple[bytes, bool]] = []
    policy = ConsumerDeadLetterPolicy(2, f"{topic}-dead", initial_subscription_name="people")

    @magnetar.worker(
        topic,
        subscription="s",
        transactional=True,
        retry_after=timedelta(milliseconds=20),
        dead_letter_policy=policy,
    )
    async def work(data: bytes, message: Message, work: AsyncWork) -> None:
        seen.append((data, message.topic_name() == topic))
        await work.send(f"{topic}-out", data)
        if data == b"bad":
            raise ValueError("never")

    async with aio.Client(coordinated.url) as client:
        people = await client.subscribe(f"{topic}-dead", "people")
        reader = await outputs_of(client, topic)
        async with work.running(client):
            await send(client, topic, [b"bad", b"good"])
            assert datas(await receive(people, 1)) == [b"bad"]
            assert await all_of(reader, 1) == Counter([b"good"])
        await nothing_comes(people)
        await nothing_is_left(client, topic)
    # As it was sent, and by the retry topic twice.
    assert [first for data, first in seen if data == b"bad"] == [True, False, False]


async def test_what_was_redelivered_too_often_is_put_aside(coordinated: Engine, topic: str) -> None:
    policy = ConsumerDeadLetterPolicy(2, f"{topic}-dead", initial_subscription_name="people")

    @magnetar.worker(topic, subscription="s", transactional=True, dead_letter_policy=policy, **SOON)
    async def work(data: bytes, work: AsyncWork) -> None:
        await work.send(f"{topic}-out", data)
        raise ValueError("never")

    async with aio.Client(coordinated.url) as client:
        people = await client.subscribe(f"{topic}-dead", "people")
        reader = await outputs_of(client, topic)
        async with work.running(client):
            await send(client, topic, [b"bad"])
            assert datas(await receive(people, 1)) == [b"bad"]
        await nothing_comes(reader)
    assert work.health().failed == 3


async def test_a_message_whose_output_is_refused_fails_as_if_its_function_had(
    coordinated: Engine, topic: str
) -> None:
    policy = ConsumerDeadLetterPolicy(1, f"{topic}-dead", initial_subscription_name="people")

    @magnetar.worker(
        topic,
        subscription="s",
        transactional=True,
        dead_letter_policy=policy,
        output_options={"batching_enabled": False},
        **SOON,
    )
    async def work(data: bytes, work: AsyncWork) -> None:
        await work.send(f"{topic}-out", b"beside " + data)
        if data == b"large":
            await work.send(f"{topic}-out", bytes(6 * 1024 * 1024))

    async with aio.Client(coordinated.url) as client:
        people = await client.subscribe(f"{topic}-dead", "people")
        reader = await outputs_of(client, topic)
        async with work.running(client):
            await send(client, topic, [b"large", b"small"])
            assert datas(await receive(people, 1)) == [b"large"]
            assert await all_of(reader, 1) == Counter([b"beside small"])


async def test_a_call_that_takes_too_long_is_done_again(coordinated: Engine, topic: str) -> None:
    calls = 0

    @magnetar.worker(topic, subscription="s", transactional=True, transaction_timeout=0.5, **SOON)
    async def work(data: bytes, message: Message, work: AsyncWork) -> None:
        nonlocal calls
        calls += 1
        await work.send(f"{topic}-out", b"%d" % calls)
        if calls == 1:
            # Until the time of the transaction is over.
            await until(lambda: work._transaction.core.late, lambda: work.state)

    async with aio.Client(coordinated.url) as client:
        reader = await outputs_of(client, topic)
        async with work.running(client):
            await send(client, topic, [b"m"])
            assert await all_of(reader, 1) == Counter([b"2"])
            await until(lambda: work.health().handled == 1, lambda: repr(work.health()))
        await nothing_is_left(client, topic)
    assert work.health().last_failure is not None
    assert "500 ms" in work.health().last_failure


async def test_a_stop_without_grace_publishes_nothing_of_what_it_gives_up(
    coordinated: Engine, topic: str
) -> None:
    inside = asyncio.Event()

    @magnetar.worker(topic, subscription="s", transactional=True)
    async def work(data: bytes, work: AsyncWork) -> None:
        await work.send(f"{topic}-out", data)
        inside.set()
        await asyncio.Event().wait()

    async with aio.Client(coordinated.url) as client:
        reader = await outputs_of(client, topic)
        await send(client, topic, [b"m"])
        task = asyncio.create_task(work.run(client))
        await inside.wait()
        work.stop(0)
        await task
        assert work.health().given_up == 1
        again = await client.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
        assert datas(await receive(again, 1)) == [b"m"]
        await nothing_comes(reader)


def test_a_thread_that_was_given_up_commits_nothing(coordinated: Engine, topic: str) -> None:
    inside, gate, left = threading.Event(), threading.Event(), threading.Event()

    @magnetar.worker(topic, subscription="s", transactional=True, grace_s=0)
    def work(data: bytes, work: ThreadWork) -> None:
        work.send(f"{topic}-out", data)
        inside.set()
        assert gate.wait(WAIT_S)
        left.set()

    with magnetar.Client(coordinated.url) as client:
        reader = client.subscribe(f"{topic}-out", "r", initial_position=InitialPosition.Earliest)
        client.create_producer(topic).send(b"m")
        with work.running(client):
            assert inside.wait(WAIT_S)
            work.stop(0)
        again = client.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
        assert again.receive(WAIT_MS).data() == b"m"
        gate.set()
        assert left.wait(WAIT_S)
        with pytest.raises(Timeout):
            reader.receive(400)


async def test_a_commit_that_nobody_hears_of_is_neither_lost_nor_done_twice(
    coordinated: Engine, topic: str
) -> None:
    calls = 0

    @magnetar.worker(topic, subscription="s", transactional=True, **SOON)
    async def work(data: bytes, work: AsyncWork) -> None:
        nonlocal calls
        calls += 1
        await work.send(f"{topic}-out", data)

    async with (
        aio.Client(coordinated.url) as direct,
        through_proxy(coordinated, operation_timeout_seconds=1) as (proxy, client),
    ):
        reader = await outputs_of(direct, topic)
        passes_all = proxy.passes
        lost: list[object] = []

        def passes(command: pb.BaseCommand) -> bool:
            if not command.HasField("endTxnResponse") or not calls:
                return True  # that of the transaction which the worker begins with
            lost.append(command)
            proxy.cut()
            return False

        proxy.passes = passes
        async with work.running(client):
            await send(direct, topic, [b"m"])
            await until(lambda: work.health().failed == 1, lambda: repr(work.health()))
            proxy.passes = passes_all
            await send(direct, topic, [b"n"])
            assert await all_of(reader, 2) == Counter([b"m", b"n"])
            await until(lambda: work.health().handled == 1, lambda: repr(work.health()))
        assert lost
        assert calls == 2, "m was not handed out again"
        await nothing_is_left(direct, topic)


# ---- Mistakes ----------------------------------------------------------------


async def test_where_there_are_no_transactions_a_transactional_worker_fails_and_says_so(
    engine: Engine, topic: str
) -> None:
    @magnetar.worker(topic, subscription="s", transactional=True)
    async def work(data: bytes) -> None: ...

    @magnetar.worker(topic, subscription="s", transactional=True)
    def on_threads(data: bytes) -> None: ...

    async with aio.Client(engine.url) as client:
        with pytest.raises(TransactionsDisabledError):
            await work.run(client)
    assert work.health().state is WorkerState.FAILED

    def run() -> None:
        with magnetar.Client(engine.url) as client:
            on_threads.run(client)

    with pytest.raises(TransactionsDisabledError):
        await asyncio.to_thread(run)


async def test_a_function_does_not_end_the_transaction_of_its_worker(
    coordinated: Engine, topic: str
) -> None:
    problems: list[UsageError] = []

    @magnetar.worker(topic, subscription="s", transactional=True)
    async def work(data: bytes, work: AsyncWork) -> None:
        for end in (work.commit, work.abort):
            with pytest.raises(UsageError, match="ends its transactions itself") as raised:
                await end()
            problems.append(raised.value)
        with pytest.raises(UsageError, match="part of its own"):
            await work.send(f"{topic}-out", data, transaction=work)

    async with aio.Client(coordinated.url) as client, work.running(client):
        await send(client, topic, [b"m"])
        await until(lambda: work.health().handled == 1, lambda: repr(work.health()))
    assert len(problems) == 2


def publishes(data: bytes, work: ThreadWork) -> None: ...
async def publishes_too(data: bytes, work: AsyncWork) -> None: ...
def of_the_loop(data: bytes, work: AsyncWork) -> None: ...
async def of_threads(data: bytes, work: ThreadWork) -> None: ...
def work_alone(work: ThreadWork) -> None: ...


@pytest.mark.parametrize("function", [publishes, publishes_too])
def test_work_without_transactions_is_refused_where_it_is_decorated(function: Any) -> None:
    with pytest.raises(UsageError, match="add transactional=True"):
        magnetar.worker("orders", subscription="s")(function)


@pytest.mark.parametrize("function", [of_the_loop, of_threads, work_alone])
def test_work_of_the_other_kind_is_refused_where_it_is_decorated(function: Any) -> None:
    with pytest.raises(UsageError, match="AsyncWork"):
        magnetar.worker("orders", subscription="s", transactional=True)(function)


@pytest.mark.parametrize(
    "options",
    [
        {"transactional": 1},
        {"transaction_timeout": 5},
        {"output_options": {"batching_enabled": True}},
        {"transactional": True, "transaction_timeout": 0},
        {"transactional": True, "output_options": {"batching_max_messages": -1}},
    ],
)
def test_options_of_transactions_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        magnetar.worker("orders", subscription="s", **options)(lambda data: None)
