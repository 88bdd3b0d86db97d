"""How senders hear what became of their messages: an entry at a time, each exactly once."""

import asyncio
import threading
from functools import partial
from typing import Any

import pytest
from client.conftest import WAIT_MS, WAIT_S, Engine

from magnetar.client.door import aio
from magnetar.client.door.blocking import Client
from magnetar.client.errors import Result
from magnetar.client.option.options import ProducerOptions
from magnetar.client.producer.core import ProducerCore
from magnetar.client.producer.outgoing import Done, Outgoing
from magnetar.errors import AlreadyClosed, InvalidMessageIdError
from magnetar.model import ConsumerType, MessageId
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import CommandSendReceipt

Call = tuple[list[Any], Exception | None, list[MessageId]]


class Settled:
    """What a core said to its `settle`."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def __call__(self, dones: list[Any], error: Exception | None, ids: list[MessageId]) -> None:
        self.calls.append((dones, error, ids))


def never(error: Exception | None, id: MessageId | None) -> None:
    raise AssertionError("told twice")


def make_core(settled: Settled, **options: Any) -> ProducerCore:
    core = ProducerCore(
        ProducerOptions(**options), "t", 1, now_ms=lambda: 0, write=lambda parts, hurried: None
    )
    core.tell = settled
    core.connected("p", -1, b"", 5 << 20)
    return core


def receipt(sequence_id: int, entry_id: int) -> CommandSendReceipt:
    return CommandSendReceipt(1, sequence_id, MessageIdData(7, entry_id))


# ---- The core ----------------------------------------------------------------


def test_a_batch_is_told_of_at_once_with_the_id_of_each() -> None:
    settled = Settled()
    core = make_core(settled, batching_enabled=True, batching_max_messages=3)
    dones: list[Done | None] = [never, None, never]
    for done in dones:
        core.send(Outgoing(b"m", done))
    assert core.receipt(receipt(0, 4))
    ids = [MessageId(-1, 7, 4, index, batch_size=3) for index in range(3)]
    assert settled.calls == [(dones, None, ids)]
    assert [id.batch_size() for id in settled.calls[0][2]] == [3, 3, 3]


def test_a_message_alone_has_no_index() -> None:
    settled = Settled()
    core = make_core(settled)
    core.send(Outgoing(b"m", never))
    assert core.receipt(receipt(0, 4))
    assert settled.calls == [([never], None, [MessageId(-1, 7, 4)])]


def test_what_nobody_asked_about_is_not_told() -> None:
    settled = Settled()
    core = make_core(settled)
    core.send(Outgoing(b"m"))
    core.send(Outgoing(b"m"))
    assert core.receipt(receipt(0, 4))
    core.close(AlreadyClosed("over"))
    assert settled.calls == []


def test_what_is_given_up_is_told_with_its_error_and_no_ids() -> None:
    settled = Settled()
    core = make_core(settled, batching_enabled=True, batching_max_messages=2)
    for _ in range(3):
        core.send(Outgoing(b"m", never))
    error = AlreadyClosed("over")
    core.close(error)
    assert settled.calls == [([never, never], error, []), ([never], error, [])]


def test_what_waits_for_the_first_connection_is_told_too() -> None:
    settled = Settled()
    core = ProducerCore(
        ProducerOptions(), "t", 1, now_ms=lambda: 0, write=lambda parts, hurried: None
    )
    core.tell = settled
    core.send(Outgoing(b"m", never))
    error = AlreadyClosed("over")
    core.close(error)
    assert settled.calls == [([never], error, [])]


def test_what_settling_raises_goes_where_it_goes_for_one() -> None:
    def settle(dones: list[Any], error: Exception | None, ids: list[MessageId]) -> None:
        raise ValueError("not today")

    core = make_core(Settled())
    core.tell = settle
    problems: list[Exception] = []
    core.callback_failed = problems.append
    core.send(Outgoing(b"m", never))
    assert core.receipt(receipt(0, 4))
    assert [str(problem) for problem in problems] == ["not today"]
    assert core.pending_messages == 0


def test_send_says_when_something_falls_due_sooner() -> None:
    core = make_core(Settled(), batching_enabled=True, batching_max_messages=3)
    assert [core.send(Outgoing(b"m")) for _ in range(6)] == [True, False, True] * 2


# ---- The doors ---------------------------------------------------------------


def test_send_does_not_wait_for_a_callback_that_takes_long(client: Client, topic: str) -> None:
    """Both are in one batch, and the callback waits for what comes after its own message."""
    producer = client.create_producer(
        topic, batching_enabled=True, batching_max_publish_delay_ms=60_000
    )
    sent = threading.Event()
    told: list[tuple[Result, MessageId]] = []

    def callback(result: Result, id: MessageId) -> None:
        assert sent.wait(WAIT_S)
        told.append((result, id))

    producer.send_async(b"first", callback)
    second = producer.send(b"second")
    sent.set()
    producer.send_async(b"third", None)
    producer.flush()
    client.close()
    assert second.batch_index() == 1
    assert [(how, which.batch_index()) for how, which in told] == [(Result.Ok, 0)]


def test_a_callback_may_send(client: Client, topic: str) -> None:
    producer = client.create_producer(topic)
    ids: list[MessageId] = []
    done = threading.Event()

    def callback(result: Result, id: MessageId) -> None:
        ids.append(producer.send(b"second"))
        done.set()

    producer.send_async(b"first", callback)
    assert done.wait(WAIT_S)
    assert ids[0].entry_id() == 1


def _note(
    told: list[tuple[int, Result, MessageId]], number: int, result: Result, id: MessageId
) -> None:
    told.append((number, result, id))


def test_callbacks_come_in_order_each_with_its_own_id(client: Client, topic: str) -> None:
    producer = client.create_producer(
        topic, batching_enabled=True, batching_max_messages=7, block_if_queue_full=True
    )
    told: list[tuple[int, Result, MessageId]] = []
    for number in range(100):
        producer.send_async(b"%d" % number, partial(_note, told, number))
    producer.flush()
    client.close()
    assert [number for number, _, _ in told] == list(range(100))
    assert {result for _, result, _ in told} == {Result.Ok}
    ids = [id for _, _, id in told]
    assert ids == sorted(set(ids))
    assert ids[-1].batch_size() == 100 % 7


def test_callbacks_of_what_was_given_up_get_a_result_and_no_id(engine: Engine, topic: str) -> None:
    told: list[tuple[Result, MessageId | None]] = []
    client = Client(engine.url)
    producer = client.create_producer(
        topic, batching_enabled=True, batching_max_publish_delay_ms=60_000
    )
    for _ in range(3):
        producer.send_async(b"m", lambda result, id: told.append((result, id)))
    client.shutdown()
    assert [id for _, id in told] == [None, None, None]
    assert Result.Ok not in [result for result, _ in told]


async def test_futures_of_a_batch_have_their_ids_and_one_may_be_cancelled(
    engine: Engine, topic: str
) -> None:
    async with aio.Client(engine.url) as client:
        producer = await client.create_producer(
            topic, batching_enabled=True, batching_max_publish_delay_ms=60_000
        )
        first, second, third = [producer.send(b"m") for _ in range(3)]
        second.cancel()
        await producer.flush()
        ids = await asyncio.gather(first, third)
        assert [id.batch_index() for id in ids] == [0, 2]


# ---- Acks of messages, the short way -----------------------------------------


@pytest.mark.parametrize("first_acks_too", [True, False])
def test_a_message_can_be_acked_by_another_consumer_of_its_subscription(
    client: Client, topic: str, first_acks_too: bool
) -> None:
    options: dict[str, Any] = {"consumer_type": ConsumerType.Shared}
    first = client.subscribe(topic, "s", **options)
    producer = client.create_producer(topic, batching_enabled=True)
    for _ in range(3):
        producer.send_async(b"m", None)
    producer.flush()
    messages = [first.receive(WAIT_MS) for _ in range(3)]
    if first_acks_too:
        first.acknowledge(messages.pop(0))
    second = client.subscribe(topic, "s", **options)
    for message in messages:
        second.acknowledge(message)
    assert second.stats().messages_acked == len(messages)
    assert first.stats().messages_acked == 3 - len(messages)


def test_a_message_of_a_partition_that_is_not_ours_is_refused(
    engine: Engine, client: Client, topic: str
) -> None:
    engine.make_partitions(topic, 2)
    one = client.subscribe(f"{topic}-partition-0", "s")
    other = client.subscribe(f"{topic}-partition-1", "s")
    client.create_producer(f"{topic}-partition-0").send(b"m")
    message = one.receive(WAIT_MS)
    with pytest.raises(InvalidMessageIdError, match="partition 0"):
        other.acknowledge(message)
    one.acknowledge(message)
