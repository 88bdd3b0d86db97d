"""Races that Apache Pulsar lost once, or loses still, each by hand on the simulator.

Numbers are of apache/pulsar's issues and pull requests. A scene says what happens in which
order; everything else is left to the seed, so each runs under several. Real broker, real
client. Scenes that need no time and no network are in tests/ack, tests/broker and
tests/client.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from datetime import timedelta
from typing import Any

import pytest

from magnetar.broker.setting.settings import BrokerSettings
from magnetar.client.consumer.message import Message
from magnetar.client.option.options import ConsumerDeadLetterPolicy
from magnetar.errors import MagnetarError, Timeout
from magnetar.model import ConsumerType, InitialPosition, MessageId
from magnetar.testing import CHECKERS, RecordedConsumer, Simulation, check
from magnetar.testing.checker.checkers import delivered
from magnetar.testing.checker.history import (
    AckAnswered,
    AckCame,
    LineEnded,
    Quiet,
    SkipAsked,
    Skipped,
    place_of,
)

TOPIC = "persistent://public/default/t"
SEEDS = range(4)
SETTINGS: dict[str, Any] = {
    "segment_bytes": 1 << 20,
    "watermark_bytes": 0,
    "delayed_delivery_tick_ms": 100,
}
# How long one waits to see that nothing comes, in virtual time.
QUIET_MS = 5000
# Acks that are not sent unless somebody asks for it.
NEVER_MS = 600_000


class Scene:
    """A broker and a topic, and the few words that scenes are told in."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.broker = simulation.broker
        self.network = simulation.loop.network
        self.client = simulation.client(operation_timeout_seconds=10)

    async def publish(self, *batches: str, **options: Any) -> None:
        """Each text is a batch of its letters."""
        producer = await self.client.create_producer(
            TOPIC,
            batching_enabled=True,
            batching_max_publish_delay_ms=NEVER_MS,
            batching_max_messages=1000,
        )
        for batch in batches:
            for letter in batch:
                producer.send(letter.encode(), **options)
            await producer.flush()
        await producer.close()

    async def subscribe(
        self, type: ConsumerType = ConsumerType.Shared, **options: Any
    ) -> RecordedConsumer:
        client = options.pop("client", self.client)
        found = await client.subscribe(
            TOPIC,
            "s",
            consumer_type=type,
            initial_position=InitialPosition.Earliest,
            **{"acknowledgement_group_time_ms": 0, **options},
        )
        assert isinstance(found, RecordedConsumer)
        return found

    async def take(self, consumer: RecordedConsumer, count: int) -> dict[str, Message]:
        """The next messages, by their letter."""
        found: dict[str, Message] = {}
        for _ in range(count):
            message = await consumer.receive(timeout_millis=60_000)
            found[message.data().decode()] = message
        return found

    async def rest(self, consumer: RecordedConsumer) -> str:
        """The letters of all that still comes, in the order in which it does."""
        letters = ""
        while True:
            try:
                message = await consumer.receive(timeout_millis=QUIET_MS)
            except Timeout:
                return letters
            letters += message.data().decode()

    async def cut(self) -> None:
        """Breaks every connection, and waits until clients are back."""
        self.cut_now()
        await asyncio.sleep(2)

    def cut_now(self) -> None:
        """Breaks every connection; nobody has noticed yet."""
        for connection in list(self.network.connections.values()):
            connection.cut()

    async def crash(self, *, power_loss: bool = True) -> None:
        self.broker.crash(power_loss=power_loss)
        await asyncio.sleep(0.1)
        await self.broker.start()

    def counts(self) -> tuple[int, int, int]:
        """Unacked messages and entries of the subscription, and what consumers hold."""
        subscription = self.broker.subscription(TOPIC, "s")
        assert subscription.dispatcher is not None
        cursor = subscription.cursor
        held = subscription.dispatcher.unacked_count()
        return cursor.unacked_messages(), cursor.unacked_entries(), held


Story = Callable[[Scene], Coroutine[Any, Any, None]]


def play(story: Story, seed: int, **settings: Any) -> Simulation:
    async def main() -> None:
        await simulation.broker.start()
        scene = Scene(simulation)
        await story(scene)
        simulation.history.add(Quiet())
        await scene.client.close()

    with Simulation(seed, settings=BrokerSettings(**SETTINGS | settings)) as simulation:
        simulation.run(main())
    check(simulation.history, [checker for checker in CHECKERS if checker is not delivered])
    return simulation


def scene(story: Story) -> Callable[[int], None]:
    """Makes a test of a story, under several seeds."""
    return scene_with()(story)


def scene_with(**settings: Any) -> Callable[[Story], Callable[[int], None]]:
    """The same with a broker of other settings."""

    def make(story: Story) -> Callable[[int], None]:
        @pytest.mark.parametrize("seed", SEEDS)
        def test(seed: int) -> None:
            play(story, seed, **settings)

        test.__doc__ = story.__doc__
        return test

    return make


def letters(count: int) -> str:
    """So many different ones."""
    return "".join(chr(ord("0") + n) for n in range(count))


async def _quietly(work: Awaitable[object]) -> None:
    """An ack that may fail with its connection."""
    try:
        await work
    except MagnetarError:
        return


# ---- Batches, and what is left of them ---------------------------------------


@scene
async def test_14982_20585_26475_what_is_acked_of_a_batch_stays_so_through_unload(s: Scene) -> None:
    consumer = await s.subscribe(ack_receipt_enabled=True)
    await s.publish("abcd")
    got = await s.take(consumer, 4)
    await consumer.acknowledge([got["a"], got["b"]])
    await s.broker.unload(TOPIC)
    assert sorted(await s.rest(consumer)) == ["c", "d"]
    await consumer.close()
    assert sorted(await s.rest(await s.subscribe())) == ["c", "d"]


@scene
async def test_26498_an_ack_behind_mark_delete_survives_kill_9(s: Scene) -> None:
    consumer = await s.subscribe(ConsumerType.Exclusive, ack_receipt_enabled=True)
    await s.publish("x", "ab")
    got = await s.take(consumer, 3)
    await consumer.acknowledge(got["x"])
    await consumer.acknowledge(got["a"])
    await s.crash(power_loss=s.simulation.seed % 2 == 0)
    assert await s.rest(consumer) == "b"


@scene
async def test_23840_ack_odd_nack_even_kill_the_consumer(s: Scene) -> None:
    async def work() -> None:
        client = s.simulation.client()
        consumer = await s.subscribe(
            client=client, ack_receipt_enabled=True, negative_ack_redelivery_delay_ms=50
        )
        for _ in range(6):
            message = await consumer.receive()
            if ord(message.data()) % 2:
                await consumer.acknowledge(message)
                acked.append(message.data().decode())
            else:
                consumer.negative_acknowledge(message)
        await asyncio.sleep(1000)

    acked: list[str] = []
    await (await s.subscribe()).close()
    await s.publish("abcdefgh", "ijkl")
    program = s.simulation.program("worker", work)
    await asyncio.sleep(s.simulation.loop.random_for("scene").random() * 0.3)
    program.crash(silent=False)
    rest = await s.rest(await s.subscribe())
    assert not set(rest) & set(acked)
    assert set(rest) | set(acked) == set("abcdefghijkl")
    assert len(rest) == len(set(rest))


@scene
async def test_23436_exactly_the_refused_index_comes_back(s: Scene) -> None:
    consumer = await s.subscribe(negative_ack_redelivery_delay_ms=100)
    await s.publish("abc")
    got = await s.take(consumer, 3)
    await consumer.acknowledge(got["a"])
    consumer.negative_acknowledge(got["b"])
    await consumer.acknowledge(got["c"])
    assert await s.rest(consumer) == "b"


@scene
async def test_23943_a_redelivery_leaves_neighbours_in_the_queue(s: Scene) -> None:
    consumer = await s.subscribe(negative_ack_redelivery_delay_ms=50)
    await s.publish("a", "b", "c")
    got = await s.take(consumer, 1)
    consumer.negative_acknowledge(got["a"])
    await asyncio.sleep(1)
    assert sorted(await s.rest(consumer)) == ["a", "b", "c"]


@scene
async def test_18454_18486_a_batch_that_comes_again_before_its_ack_was_sent(s: Scene) -> None:
    consumer = await s.subscribe(acknowledgement_group_time_ms=NEVER_MS)
    await s.publish("abcd")
    got = await s.take(consumer, 3)
    await consumer.acknowledge([got["a"], got["c"]])  # gathers
    await s.cut()
    assert sorted(await s.rest(consumer)) == ["b", "d"]


@scene
async def test_22352_22353_24725_25208_acks_of_one_batch_at_the_same_time(s: Scene) -> None:
    consumer = await s.subscribe(ack_receipt_enabled=True)
    await s.publish("abcdefgh")
    got = await s.take(consumer, 8)
    async with asyncio.TaskGroup() as group:
        for letter in "hbfdac":
            group.create_task(consumer.acknowledge(got[letter]))
    assert s.counts() == (2, 1, 2)
    await s.cut()
    assert sorted(await s.rest(consumer)) == ["e", "g"]


@scene
async def test_26125_26135_what_is_acked_in_the_last_round_is_no_dead_letter(s: Scene) -> None:
    dead_letters = "persistent://public/default/dead"
    policy = ConsumerDeadLetterPolicy(2, dead_letter_topic=dead_letters)
    consumer = await s.subscribe(
        dead_letter_policy=policy, negative_ack_redelivery_delay_ms=50, ack_receipt_enabled=True
    )
    dead = await s.client.subscribe(dead_letters, "dead", initial_position=InitialPosition.Earliest)
    await s.publish("abc")
    got = await s.take(consumer, 3)
    await consumer.acknowledge(got["a"])
    for _ in range(2):
        for letter in "bc":
            consumer.negative_acknowledge(got[letter])
        got = await s.take(consumer, 2)
    await consumer.acknowledge([got["b"], got["c"]])
    assert await s.rest(consumer) == ""
    with pytest.raises(Timeout):
        await dead.receive(timeout_millis=QUIET_MS)
    assert s.counts() == (0, 0, 0)


@scene
async def test_read_7_a_key_is_free_when_its_batch_is_acked_in_parts(s: Scene) -> None:
    one = await s.subscribe(ConsumerType.KeyShared, ack_receipt_enabled=True)
    await s.publish("abc", partition_key="k")
    got = await s.take(one, 3)
    other = await s.subscribe(ConsumerType.KeyShared, client=s.simulation.client())
    for letter in "cab":
        await one.acknowledge(got[letter])
    await one.close()
    await s.publish("d", partition_key="k")
    assert await s.rest(other) == "d"


# ---- Cumulative acks ---------------------------------------------------------


@scene
async def test_7683_a_cumulative_ack_that_the_network_lost_is_sent_again(s: Scene) -> None:
    consumer = await s.subscribe(ConsumerType.Exclusive, acknowledgement_group_time_ms=50)
    await s.publish(*"abcdefghij")
    got = await s.take(consumer, 10)
    await consumer.acknowledge_cumulative(got["j"])
    s.cut_now()
    assert await s.rest(consumer) == ""
    await asyncio.sleep(1)
    assert s.counts()[0] == 0


@scene
async def test_13945_10478_a_gathered_cumulative_ack_loses_nothing_in_a_reconnect(
    s: Scene,
) -> None:
    consumer = await s.subscribe(ConsumerType.Failover, acknowledgement_group_time_ms=NEVER_MS)
    await s.publish(*"abcdef")
    got = await s.take(consumer, 3)
    await consumer.acknowledge_cumulative(got["c"])
    await s.cut()
    assert await s.rest(consumer) == "def"


@scene
async def test_8997_4931_a_cumulative_ack_inside_a_batch_goes_on_behind_it(s: Scene) -> None:
    consumer = await s.subscribe(ConsumerType.Exclusive, ack_receipt_enabled=True)
    await s.publish("abcd", "efgh")
    got = await s.take(consumer, 6)
    both = [consumer.acknowledge_cumulative(got[letter]) for letter in "bf"]
    await asyncio.gather(*both)
    await s.cut()
    assert await s.rest(consumer) == "gh"


@scene
async def test_18042_a_late_lower_cumulative_ack_takes_nothing_back(s: Scene) -> None:
    consumer = await s.subscribe(ConsumerType.Exclusive, ack_receipt_enabled=True)
    await s.publish("abcd")
    got = await s.take(consumer, 4)
    await consumer.acknowledge_cumulative(got["c"])
    await consumer.acknowledge_cumulative(got["a"])
    await s.crash()
    assert await s.rest(consumer) == "d"


@scene
async def test_25047_24938_25089_single_and_cumulative_acks_in_one_batch(s: Scene) -> None:
    consumer = await s.subscribe(ConsumerType.Exclusive, ack_receipt_enabled=True)
    await s.publish("abcd", "ef")
    got = await s.take(consumer, 6)
    await consumer.acknowledge(got["e"])
    await consumer.acknowledge(got["c"])
    await consumer.acknowledge_cumulative(got["b"])
    assert s.counts()[:2] == (2, 2)
    await consumer.acknowledge(got["d"])
    await consumer.acknowledge_cumulative(got["f"])
    assert s.counts()[:2] == (0, 0)
    await s.crash()
    assert await s.rest(consumer) == ""


@scene
async def test_read_1_a_cumulative_ack_keeps_what_was_acked_behind_it(s: Scene) -> None:
    consumer = await s.subscribe(ConsumerType.Exclusive, ack_receipt_enabled=True)
    await s.publish("abcd")
    got = await s.take(consumer, 4)
    await consumer.acknowledge(got["d"])
    await consumer.acknowledge_cumulative(got["b"])
    await s.crash(power_loss=s.simulation.seed % 2 == 0)
    assert await s.rest(consumer) == "c"


@scene
async def test_read_4_a_cumulative_ack_is_confirmed_when_it_is_durable(s: Scene) -> None:
    consumer = await s.subscribe(ConsumerType.Exclusive, ack_receipt_enabled=True)
    await s.publish(*"abcd")
    got = await s.take(consumer, 4)
    ack = asyncio.create_task(consumer.acknowledge_cumulative(got["c"]))
    await asyncio.sleep(s.simulation.loop.random_for("scene").random() * 0.02)
    confirmed = ack.done()
    await s.crash()
    await _quietly(ack)
    assert await s.rest(consumer) in (("d",) if confirmed else ("d", "abcd"))


@scene_with(ledger_entries_max=2)
async def test_25110_25165_acks_beside_the_deletion_of_ledgers(s: Scene) -> None:
    options = {"ack_receipt_enabled": True, "auto_retry_acknowledgement": True}
    consumer = await s.subscribe(ConsumerType.Exclusive, **options)
    sent = letters(30)
    await s.publish(*sent)
    got = await s.take(consumer, 30)
    for first in range(0, 30, 3):
        acks = [consumer.acknowledge(got[letter]) for letter in sent[first + 1 : first + 3]]
        await asyncio.gather(consumer.acknowledge_cumulative(got[sent[first]]), *acks)
        if first % 9 == 0:
            await s.crash(power_loss=first % 2 == 0)
    assert await s.rest(consumer) == ""
    assert s.counts()[0] == 0


# ---- Answers -----------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_23261_every_ack_is_answered_while_the_topic_is_unloaded(seed: int) -> None:
    async def story(s: Scene) -> None:
        consumer = await s.subscribe(ack_receipt_enabled=True)
        await s.publish(*letters(60))
        unloading: list[asyncio.Task[None]] = []
        async with asyncio.timeout(300), asyncio.TaskGroup() as group:
            for number in range(60):
                message = await consumer.receive()
                group.create_task(_quietly(consumer.acknowledge(message)))
                if number % 20 == 10:
                    unloading.append(asyncio.create_task(s.broker.unload(TOPIC)))
        await asyncio.gather(*unloading)

    history = play(story, seed).history
    ended = {fact.line for fact in history.of(LineEnded)}
    asked = {(f.line, f.request) for f in history.of(AckCame) if f.line not in ended}
    assert asked <= {(fact.line, fact.request) for fact in history.of(AckAnswered)}


@scene
async def test_21958_after_acks_and_unloads_at_a_high_rate_nothing_is_left(s: Scene) -> None:
    consumer = await s.subscribe(ConsumerType.Shared, auto_retry_acknowledgement=True)
    sent = letters(60)
    await s.publish(*[sent[n : n + 4] for n in range(0, 60, 4)])
    seen = 0
    while s.counts()[0]:
        try:
            message = await consumer.receive(timeout_millis=1000)
        except Timeout:
            continue
        await consumer.acknowledge(message)
        seen += 1
        if seen % 15 == 0:
            await s.broker.unload(TOPIC)
            await asyncio.sleep(0.2)
            await consumer.get_last_message_id()  # it is back
    await asyncio.sleep(1)
    assert s.counts() == (0, 0, 0)


@scene
async def test_read_5_closing_while_disconnected_leaves_nobody_waiting(s: Scene) -> None:
    consumer = await s.subscribe(ack_receipt_enabled=True)
    await s.publish("a")
    message = await consumer.receive()
    s.broker.crash(power_loss=True)
    ack = asyncio.create_task(_quietly(consumer.acknowledge(message)))
    await asyncio.sleep(0.1)
    async with asyncio.timeout(60):
        await consumer.close()
        await ack
    await s.broker.start()


# ---- Seeks -------------------------------------------------------------------


@scene
async def test_11825_nothing_before_the_place_comes_after_a_seek_into_a_batch(s: Scene) -> None:
    consumer = await s.subscribe(ConsumerType.Exclusive, start_message_id_inclusive=True)
    await s.publish("abcd", "ef")
    got = await s.take(consumer, 3)
    await consumer.seek(got["c"].message_id())
    assert await s.rest(consumer) == "cdef"
    await s.cut()
    assert await s.rest(consumer) == "cdef"


@scene
async def test_26304_a_seek_is_not_lost_to_an_ack_beside_it(s: Scene) -> None:
    consumer = await s.subscribe(ConsumerType.Exclusive, ack_receipt_enabled=True)
    await s.publish(*"abcdef")
    got = await s.take(consumer, 6)
    acks = [asyncio.create_task(_quietly(consumer.acknowledge(got[x]))) for x in "abc"]
    await consumer.seek(MessageId.earliest)
    await asyncio.gather(*acks)
    # What was acked before the seek is not acked any more.
    assert (await s.rest(consumer))[-6:] == "abcdef"


@scene
async def test_read_6_acks_from_before_a_seek_do_not_come_after_it(s: Scene) -> None:
    consumer = await s.subscribe(ConsumerType.Exclusive, acknowledgement_group_time_ms=200)
    await s.publish("abcd")
    got = await s.take(consumer, 4)
    s.cut_now()
    await consumer.acknowledge([got["a"], got["b"]])
    await consumer.seek(MessageId.earliest)
    assert await s.rest(consumer) == "abcd"
    await asyncio.sleep(1)
    await s.cut()
    assert await s.rest(consumer) == "abcd"


# ---- Keys, delays, limits, skips ---------------------------------------------


@scene
async def test_22709_key_shared_goes_on_after_restarts_under_load(s: Scene) -> None:
    async def work() -> None:
        client = s.simulation.client(operation_timeout_seconds=10)
        consumer = await s.subscribe(
            ConsumerType.KeyShared, client=client, auto_retry_acknowledgement=True
        )
        async for message in consumer:
            await asyncio.sleep(0.01)
            await consumer.acknowledge(message)

    await (await s.subscribe(ConsumerType.KeyShared)).close()
    for number in range(3):
        s.simulation.program(f"worker {number}", work)
    sent = letters(60)
    for number in range(4):
        await s.publish(*sent[number * 15 : number * 15 + 15], partition_key=f"k{number}")
        await s.crash(power_loss=number % 2 == 0)
    async with asyncio.timeout(300):
        while not (s.broker.up and _is_loaded(s) and s.counts()[0] == 0):  # noqa: ASYNC110
            await asyncio.sleep(0.5)


def _is_loaded(s: Scene) -> bool:
    if not s.broker.is_loaded(TOPIC):
        return False
    return s.broker.subscription(TOPIC, "s").dispatcher is not None


@scene
async def test_20099_delayed_messages_come_once_after_an_unload(s: Scene) -> None:
    consumer = await s.subscribe()
    await s.publish(*"abc", deliver_after=timedelta(seconds=3))
    await asyncio.sleep(0.5)
    await s.broker.unload(TOPIC)
    assert sorted(await s.rest(consumer)) == ["a", "b", "c"]


@scene_with(max_unacked_per_consumer=1)
async def test_22657_a_consumer_is_not_blocked_with_nothing_unacked(s: Scene) -> None:
    consumer = await s.subscribe(ack_receipt_enabled=True)
    await s.publish("abc", "def", "ghi")
    for _ in range(9):
        message = await consumer.receive(timeout_millis=60_000)
        await consumer.acknowledge(message)
    await asyncio.sleep(1)
    assert s.counts() == (0, 0, 0)


@scene
async def test_13383_14288_17003_23796_unacked_is_exact_whoever_acks(s: Scene) -> None:
    one = await s.subscribe(negative_ack_redelivery_delay_ms=100, ack_receipt_enabled=True)
    await s.publish("abcd")
    got = await s.take(one, 4)
    await one.acknowledge(got["a"])
    assert s.counts() == (3, 1, 3)
    one.negative_acknowledge(got["b"])
    await one.acknowledge(got["b"])
    await asyncio.sleep(1)
    other = await s.subscribe(ack_receipt_enabled=True)
    await other.acknowledge([got["c"].message_id(), got["d"].message_id()])
    await asyncio.sleep(1)
    assert s.counts() == (0, 0, 0)


@scene
async def test_25581_25589_25592_a_skip_beside_a_redelivery(s: Scene) -> None:
    consumer = await s.subscribe(negative_ack_redelivery_delay_ms=0, ack_receipt_enabled=True)
    await s.publish("abc")
    got = await s.take(consumer, 3)
    place = place_of(got["b"].message_id())
    consumer.negative_acknowledge(got["a"])
    await s.broker.skip([TOPIC], "s", [place])
    s.simulation.history.add(Skipped(TOPIC, "s", (place,)))
    again = await s.rest(consumer)
    assert set(again) >= {"a"}
    await asyncio.sleep(1)
    assert s.counts() == (2, 1, 2)


@scene
async def test_keys_that_a_skip_frees_go_on_before_the_operator_is_told(s: Scene) -> None:
    """I3, I4: their next messages are on their way before the answer is."""
    first = await s.subscribe(ConsumerType.KeyShared)
    for number in range(20):
        await s.publish("a", partition_key=f"k{number}")
    held = [await first.receive(timeout_millis=60_000) for _ in range(20)]
    second = await s.subscribe(ConsumerType.KeyShared)
    for number in range(20):
        await s.publish("b", partition_key=f"k{number}")
    await s.rest(first)
    places = tuple(place_of(message.message_id()) for message in held)
    s.simulation.history.add(SkipAsked(TOPIC, "s", places))
    await s.broker.skip([TOPIC], "s", list(places))
    s.simulation.history.add(Skipped(TOPIC, "s", places))
    assert set(await s.rest(second)) == {"b"}


@scene
async def test_26594_a_group_of_two_is_sent_when_it_is_full(s: Scene) -> None:
    consumer = await s.subscribe(
        acknowledgement_group_time_ms=NEVER_MS, max_acknowledgement_group_size=2
    )
    await s.publish("a", "bc")
    got = await s.take(consumer, 3)
    await consumer.acknowledge(got["a"])
    await consumer.acknowledge(got["b"])
    await asyncio.sleep(1)
    assert s.counts()[0] == 1


# ---- PIP-377 -----------------------------------------------------------------


@scene
async def test_pip_377_an_ack_that_is_pending_is_not_seen_again(s: Scene) -> None:
    """The message is in the queue a second time when its first copy is acked."""
    consumer = await s.subscribe(auto_retry_acknowledgement=True, acknowledgement_group_time_ms=50)
    await s.publish("ab", "c")
    got = await s.take(consumer, 3)
    await s.cut()  # everything is in the queue again
    await consumer.acknowledge([got["a"], got["c"]])
    assert await s.rest(consumer) == "b"


@pytest.mark.parametrize("cumulative", [False, True])
@pytest.mark.parametrize("retries", [False, True])
def test_who_is_active_again_does_not_see_what_it_acked(retries: bool, cumulative: bool) -> None:
    """A consumer of a Failover subscription has messages when another comes and goes."""

    async def story(s: Scene) -> None:
        options = {"ack_receipt_enabled": True, "auto_retry_acknowledgement": retries}
        one = await s.subscribe(ConsumerType.Failover, priority_level=1, **options)
        await s.publish("ab", "c", "d")
        got = await s.take(one, 3)
        other = await s.subscribe(ConsumerType.Failover)
        await asyncio.sleep(2)
        await other.close()
        await asyncio.sleep(2)  # a, b and c are in the queue, behind d
        if cumulative:
            await one.acknowledge_cumulative(got["c"])
        else:
            await one.acknowledge(list(got.values()))
        assert await s.rest(one) == "d"

    play(story, 0)


@scene
async def test_pip_377_acks_through_crashes_are_kept_and_seen_once(s: Scene) -> None:
    consumer = await s.subscribe(auto_retry_acknowledgement=True, ack_receipt_enabled=True)
    await s.publish("abc", "def")
    got = await s.take(consumer, 6)
    acks = [asyncio.create_task(consumer.acknowledge(message)) for message in got.values()]
    await s.crash()
    await s.crash(power_loss=False)
    async with asyncio.timeout(120):
        await asyncio.gather(*acks)
    assert await s.rest(consumer) == ""
    assert s.counts()[0] == 0
