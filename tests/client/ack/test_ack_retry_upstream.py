"""What Apache Pulsar's issues tell of acks that were lost, one by one, with acks retried.

The consumer's core talks to the broker's, on a disk in memory, without sockets or clocks: each
test decides what is lost and when. The numbers are those of apache/pulsar; SEMANTICS 3.3 has
them all, and those that concern the broker alone are in tests/broker.
"""

from typing import Any

import pytest
from support.wire_client import Exclusive, Failover, KeyShared, Shared, WireClient
from support.world import FULL, World

from magnetar.client.consumer.core import ConsumerCore
from magnetar.client.consumer.message import Message
from magnetar.client.consumer.start.seek_target import seek_target
from magnetar.client.option.options import ConsumerDeadLetterPolicy, ConsumerOptions
from magnetar.errors import AlreadyClosed, NotAllowedError
from magnetar.model import ConsumerType, MessageId
from magnetar.protocol import (
    Command,
    CommandAck,
    CommandAckResponse,
    CommandMessage,
    message_id_to_pb,
)
from magnetar.protocol import pulsar_pb2 as pb

TYPES = (Exclusive, Shared, Failover, KeyShared)
SINGLE = (Exclusive, Failover)
TOPIC = "persistent://public/default/t"


class Consumer:
    """A consumer that retries its acks, on a connection that loses what it is told to."""

    def __init__(
        self, world: World, type: int = Shared, *, name: str = "sub", **options: Any
    ) -> None:
        self.world = world
        self.subscription = name
        self.type = type
        self.wire: WireClient | None = None
        # Whether acks on their way, or answers to them, are lost.
        self.loses_acks = False
        self.loses_answers = False
        self.acks: list[CommandAck] = []
        self.answers: list[CommandAckResponse] = []
        self.results: list[Exception | None] = []
        settings: dict[str, Any] = {"auto_retry_acknowledgement": True} | options
        self.core = ConsumerCore(
            ConsumerOptions(name, consumer_type=ConsumerType(type), **settings),
            TOPIC,
            -1,
            1,
            now_ms=lambda: world.host.now,
            write=self._write,
            wake=lambda: None,
        )
        self.connect()

    def connect(self) -> None:
        self.wire = self.world.connect()
        self.wire.request(
            pb.CommandSubscribe(
                topic="t",
                subscription=self.subscription,
                subType=int(self.type),
                consumer_id=1,
                consumer_epoch=self.core.epoch,
                initialPosition=1,
            )
        )
        self.core.connected()
        self.pump()

    def disconnect(self) -> None:
        """The connection breaks; if the broker is another by now, that was its end."""
        wire, self.wire = self.wire, None
        if wire is not None and wire in self.world.clients:
            wire.drop()
        self.core.disconnected()

    def reconnect(self) -> None:
        self.disconnect()
        self.connect()

    def _write(self, commands: list[Command]) -> None:
        assert self.wire is not None, "written without a connection"
        for command in commands:
            if isinstance(command, CommandAck):
                self.acks.append(command)
                if self.loses_acks:
                    continue
            self.wire.say(command)

    def pump(self) -> None:
        """Takes what the broker said."""
        while self.wire is not None and self.wire.received:
            command = self.wire.received.pop(0)
            if isinstance(command, CommandMessage):
                self.core.receive(command)
            elif isinstance(command, CommandAckResponse):
                self.answers.append(command)
                if not self.loses_answers:
                    self.core.ack_response(command)
            elif isinstance(command, pb.CommandCloseConsumer):
                self.wire = None
                self.core.disconnected()

    def pass_time(self, ms: int) -> None:
        end = self.world.host.now + ms
        while (due := self.core.next_ms()) is not None and due <= end:
            self.world.advance(max(due - self.world.host.now, 0))
            self.core.tick(self.world.host.now)
            self.pump()
        self.world.advance(max(end - self.world.host.now, 0))
        self.pump()

    def take(self, count: int = 1000) -> list[Message]:
        self.pump()
        taken: list[Message] = []
        while len(taken) < count and (message := self.core.take()) is not None:
            taken.append(message)
            self.pump()
        return taken

    def texts(self) -> list[str]:
        return texts(self.take())

    def ack(self, *messages: Message | MessageId) -> None:
        self.core.acknowledge(list(messages), self.results.append)

    def ack_through(self, message: Message | MessageId) -> None:
        self.core.acknowledge_cumulative(message, self.results.append)

    def seek(self, id: MessageId) -> None:
        assert self.wire is not None
        self.core.prepare_seek()
        target = message_id_to_pb(seek_target(id, False, exact=True))
        self.wire.request(pb.CommandSeek(consumer_id=1, message_id=target))
        self.core.sought(id, False, exact=True)
        self.reconnect()

    @property
    def settled(self) -> bool:
        return self.core.acks.unconfirmed == 0


def texts(messages: list[Message]) -> list[str]:
    return [message.data().decode() for message in messages]


def publish(world: World, *entries: str) -> None:
    """One entry for each text; each character of it is a message."""
    producer = world.connect().producer("t")
    for entry in entries:
        producer.send(*entry)


def left(world: World, name: str = "sub") -> int:
    """How many messages the broker holds for unacked, by its own count."""
    return world.subscription("t", name).cursor.unacked_messages()


def again(world: World, name: str = "sub") -> str:
    """What a consumer that knows nothing is given."""
    consumer = Consumer(world, Shared, name=name)
    return "".join(consumer.texts())


@pytest.fixture
def world() -> World:
    return World()


# ---- Unloads, restarts, crashes -------------------------------------------------------


@pytest.mark.parametrize("type", TYPES)
def test_issue_23261_acks_during_an_unload_are_answered_and_tried_again(
    world: World, type: int
) -> None:
    publish(world, "a", "b", "cd")
    consumer = Consumer(world, type)
    messages = consumer.take()
    consumer.loses_answers = True  # of CLOSE_CONSUMER nothing is known yet
    wire = consumer.wire
    world.unload("t")
    consumer.loses_answers = False
    assert wire is not None
    wire.received = [c for c in wire.received if not isinstance(c, pb.CommandCloseConsumer)]
    consumer.ack(*messages)
    consumer.core.flush()
    consumer.pump()
    assert [answer.error is not None for answer in consumer.answers] == [True]
    assert (consumer.core.acks.waiting, consumer.core.acks.counts.exhausted) == (3, 0)
    consumer.reconnect()
    consumer.pass_time(100)
    assert consumer.settled
    assert consumer.texts() == []
    consumer.disconnect()
    assert again(world) == ""


@pytest.mark.parametrize("when", ["before", "after"])
def test_issues_14982_20585_26475_a_batch_acked_in_part_around_an_unload(
    world: World, when: str
) -> None:
    publish(world, "abcd")
    consumer = Consumer(world)
    a, b, _, _ = consumer.take()
    if when == "before":
        consumer.ack(a, b)
        consumer.core.flush()
    world.unload("t")
    consumer.pump()
    if when == "after":
        consumer.ack(a, b)
    consumer.connect()
    assert consumer.texts() == ["c", "d"]
    consumer.disconnect()
    assert again(world) == "cd"


@pytest.mark.parametrize("type", TYPES)
def test_issue_26498_half_a_batch_acked_before_a_crash(world: World, type: int) -> None:
    publish(world, "x", "ab")
    consumer = Consumer(world, type, ack_receipt_enabled=True)
    x, a, _ = consumer.take()
    consumer.ack(x)
    consumer.core.flush()
    consumer.pump()
    consumer.ack(a)
    world.hold_disk()
    consumer.core.flush()
    consumer.pump()
    assert consumer.results == [None]
    world.crash()  # and the second ack was not durable
    consumer.reconnect()
    assert consumer.texts() == ["b"], "the ack was sent again before the first permit"
    assert consumer.results == [None, None]
    consumer.disconnect()
    assert again(world) == "b"


def test_issue_22709_a_restart_under_load_leaves_no_key_stuck(world: World) -> None:
    keys = ["red", "green", "blue"]
    producer = world.connect().producer("t")
    for number in range(60):
        producer.send(str(number), partition_key=keys[number % 3])
    consumers = [Consumer(world, KeyShared) for _ in range(3)]
    handled: dict[str, list[int]] = {key: [] for key in keys}
    acked: set[int] = set()
    for round in range(40):
        for consumer in consumers:
            consumer.loses_answers = round % 2 == 0
            for message in consumer.take(4):
                number = int(message.data())
                assert number not in acked, "it was acked, and came again"
                handled[message.partition_key()].append(number)
                consumer.ack(message)
                acked.add(number)
            consumer.core.flush()
            consumer.pump()
        if round % 3 == 2 and round < 30:
            world.crash()
            for consumer in consumers:
                consumer.disconnect()
            for consumer in consumers:
                consumer.connect()
    for consumer in consumers:
        consumer.loses_answers = False
        consumer.pass_time(40_000)
    assert all(consumer.settled for consumer in consumers)
    assert left(world) == 0
    for numbers in handled.values():
        assert numbers == sorted(numbers)
        assert len(numbers) == 20


@pytest.mark.parametrize("type", TYPES)
def test_issue_21958_acks_at_a_high_rate_and_unloads_leave_no_backlog(
    world: World, type: int
) -> None:
    publish(world, *["abcde"] * 60)
    consumer = Consumer(world, type, max_acknowledgement_group_size=7)
    seen = 0
    for number in range(400):
        messages = consumer.take(1)
        seen += len(messages)
        for message in messages:
            consumer.ack(message)
        if number % 40 == 20:
            world.unload("t")
            consumer.pump()
            consumer.connect()
    consumer.pass_time(20_000)
    assert consumer.settled
    assert (seen, left(world)) == (300, 0)
    assert all(out.unacked == 0 for out in world.subscription("t", "sub").consumers)


# ---- Batches --------------------------------------------------------------------------


def test_issue_23840_acks_and_refusals_in_turn_and_then_the_consumer_dies(world: World) -> None:
    publish(world, *["0123456789"] * 5)
    consumer = Consumer(world, negative_ack_redelivery_delay_ms=1000)
    messages = consumer.take()
    assert len(messages) == 50
    for number, message in enumerate(messages):
        if number % 2:
            consumer.ack(message)
        else:
            consumer.core.negative_acknowledge(message)
    consumer.loses_answers = True
    consumer.core.flush()
    consumer.disconnect()
    assert again(world) == "02468" * 5


def test_issue_23436_of_three_exactly_the_one_that_was_refused_comes_back(world: World) -> None:
    publish(world, "abc")
    consumer = Consumer(world, negative_ack_redelivery_delay_ms=100)
    a, b, c = consumer.take()
    world.fail_disk(FULL)
    consumer.ack(a, c)
    consumer.core.negative_acknowledge(b)
    consumer.pass_time(150)  # the acks failed by now, and what was refused is due
    assert consumer.core.acks.waiting == 1
    assert consumer.texts() == ["b"]
    world.fail_disk(None)
    consumer.pass_time(1000)
    assert consumer.settled
    assert left(world) == 1


def test_issues_18454_18486_a_redelivered_batch_and_an_ack_that_waits(world: World) -> None:
    publish(world, "abcd")
    consumer = Consumer(world, unacked_messages_timeout_ms=1000)
    a, b, _, _ = consumer.take()
    consumer.loses_acks = True
    consumer.ack(a, b)
    consumer.pass_time(1500)  # c and d come again, and a and b with them
    assert consumer.texts() == ["c", "d"]
    consumer.loses_acks = False
    consumer.pass_time(31_000)
    assert consumer.settled
    assert left(world) == 2


def test_issue_23943_one_message_again_leaves_its_neighbours_in_the_queue(world: World) -> None:
    publish(world, "ab", "cd", "ef")
    consumer = Consumer(world, negative_ack_redelivery_delay_ms=100)
    a, b = consumer.take(2)
    world.fail_disk(FULL)
    consumer.ack(a)
    consumer.core.negative_acknowledge(b)
    consumer.pass_time(150)
    world.fail_disk(None)
    consumer.pass_time(1000)
    assert sorted(consumer.texts()) == ["b", "c", "d", "e", "f"]


def test_issues_24725_25208_failed_acks_of_many_batches_keep_their_own_indexes(
    world: World,
) -> None:
    publish(world, *["abcdefgh"] * 20)
    consumer = Consumer(world)
    messages = consumer.take()
    world.fail_disk(FULL)
    chosen = [(n * 7) % 160 for n in range(60)]
    for number in chosen:
        consumer.ack(messages[number])
        if number % 5 == 0:
            consumer.core.flush()
            consumer.pump()
    consumer.pass_time(500)
    world.fail_disk(None)
    consumer.pass_time(5000)
    assert consumer.settled
    consumer.disconnect()
    expected = [text for n, text in enumerate(texts(messages)) if n not in chosen]
    assert again(world) == "".join(expected)


def test_issues_26125_26135_what_was_acked_in_an_earlier_round_is_no_dead_letter(
    world: World,
) -> None:
    publish(world, "abc")
    consumer = Consumer(
        world,
        negative_ack_redelivery_delay_ms=100,
        dead_letter_policy=ConsumerDeadLetterPolicy(2, "dead"),
    )
    a, b, c = consumer.take()
    consumer.loses_acks = True
    consumer.ack(a)
    consumer.core.negative_acknowledge(b)
    consumer.core.negative_acknowledge(c)
    consumer.pass_time(200)
    for _ in range(2):
        b, c = consumer.take()
        assert texts([b, c]) == ["b", "c"]
        consumer.core.negative_acknowledge(b)
        consumer.ack(c) if consumer.core.take_dead() else consumer.core.negative_acknowledge(c)
        consumer.pass_time(200)
    assert "a" not in texts(consumer.core.take_dead())
    consumer.loses_acks = False
    consumer.pass_time(60_000)
    assert consumer.settled


def test_issue_26594_a_plain_and_a_partial_ack_fill_the_group_that_asks_for_answers(
    world: World,
) -> None:
    publish(world, "x", "ab")
    consumer = Consumer(world, max_acknowledgement_group_size=2)
    x, a, _ = consumer.take()
    consumer.ack(x)
    assert consumer.acks == []
    consumer.ack(a)
    assert [len(ack.message_ids) for ack in consumer.acks] == [2]
    consumer.pump()
    assert consumer.settled


# ---- Cumulative acks --------------------------------------------------------------------


@pytest.mark.parametrize("type", SINGLE)
def test_issue_7683_a_cumulative_ack_lost_by_the_network_is_sent_again(
    world: World, type: int
) -> None:
    publish(world, *"0123456789ab")
    consumer = Consumer(world, type)
    messages = consumer.take(10)
    consumer.loses_acks = True
    consumer.ack_through(messages[-1])
    consumer.core.flush()
    consumer.loses_acks = False
    consumer.reconnect()
    # Of what comes again the application sees what it did not ack, and the rest is acked.
    assert consumer.texts() == ["a", "b"]
    assert consumer.settled
    assert left(world) == 2


def test_issue_8997_a_cumulative_ack_that_is_tried_again_has_the_bits_of_its_own_id(
    world: World,
) -> None:
    publish(world, "abcdef")
    consumer = Consumer(world, Exclusive)
    messages = consumer.take()
    world.fail_disk(FULL)
    consumer.ack_through(messages[1])
    consumer.core.flush()
    consumer.pump()
    consumer.ack_through(messages[3])
    consumer.ack_through(messages[2])
    world.fail_disk(None)
    consumer.pass_time(1000)
    assert [ack.message_ids[0].ack_set for ack in consumer.acks] == [0b111100, 0b110000]
    assert left(world) == 2


def test_issues_13945_10478_a_cumulative_ack_that_waits_loses_nothing_behind_it(
    world: World,
) -> None:
    publish(world, "ab", "cd", "ef")
    consumer = Consumer(world, Exclusive)
    messages = consumer.take(3)
    consumer.disconnect()
    consumer.ack_through(messages[-1])
    consumer.connect()
    assert consumer.texts() == ["d", "e", "f"]
    assert consumer.settled


@pytest.mark.parametrize("type", SINGLE)
def test_issue_4931_a_cumulative_ack_inside_a_batch_goes_on_behind_it(
    world: World, type: int
) -> None:
    publish(world, "abcd")
    consumer = Consumer(world, type)
    _, b, _, _ = consumer.take()
    consumer.ack_through(b)
    world.crash()
    consumer.reconnect()
    assert consumer.texts() == ["c", "d"]


def test_issue_18042_a_late_retry_of_a_lower_cumulative_ack_takes_nothing_back(
    world: World,
) -> None:
    publish(world, "abcd")
    consumer = Consumer(world, Exclusive)
    a, _, c, _ = consumer.take()
    consumer.loses_answers = True
    consumer.ack_through(c)
    consumer.core.flush()
    consumer.pump()
    consumer.loses_answers = False
    consumer.ack_through(a)
    consumer.pass_time(31_000)
    assert [ack.message_ids[0].ack_set for ack in consumer.acks] == [0b1000, 0b1000]
    assert consumer.settled
    assert left(world) == 1


def test_issues_25047_24938_25089_acks_of_both_kinds_leave_an_exact_backlog(
    world: World,
) -> None:
    publish(world, *["abcd"] * 10)
    consumer = Consumer(world, Exclusive)
    messages = consumer.take()
    for number, message in enumerate(messages):
        if number % 9 == 4:
            consumer.ack_through(message)
        else:
            consumer.ack(message)
        if number % 6 == 3:
            world.fail_disk(FULL)
            consumer.core.flush()
            consumer.pump()
            world.fail_disk(None)
        entries = world.subscription("t", "sub").cursor.unacked()
        assert left(world) == sum(4 if bits is None else bits.bit_count() for _, bits in entries)
    consumer.pass_time(5000)
    assert consumer.settled
    assert left(world) == 0


# ---- Seeks --------------------------------------------------------------------------------


def test_issue_11825_after_a_seek_into_a_batch_no_old_ack_is_tried_again(world: World) -> None:
    publish(world, "abcd", "ef")
    consumer = Consumer(world)
    messages = consumer.take()
    world.fail_disk(FULL)
    consumer.ack(messages[2], messages[4])
    consumer.core.flush()
    consumer.pump()
    assert consumer.core.acks.waiting == 2
    world.fail_disk(None)
    consumer.seek(messages[1].message_id())
    assert consumer.settled
    assert consumer.texts() == ["c", "d", "e", "f"]
    consumer.pass_time(60_000)
    assert left(world) == 4  # what comes behind the sought message


# ---- Found by reading: SEMANTICS 3.3, the last line -------------------------------------------


def test_read_4_a_cumulative_ack_is_answered_when_it_is_kept_and_not_before(
    world: World,
) -> None:
    publish(world, "a", "b")
    consumer = Consumer(world, Exclusive, ack_receipt_enabled=True)
    _, b = consumer.take()
    world.hold_disk()
    consumer.ack_through(b)
    consumer.core.flush()
    consumer.pump()
    assert consumer.results == []
    world.release_disk()
    consumer.pump()
    assert consumer.results == [None]


def test_read_5_closing_without_a_connection_tells_whoever_waits(world: World) -> None:
    publish(world, "a", "bc")
    consumer = Consumer(world, ack_receipt_enabled=True)
    a, b, _ = consumer.take()
    consumer.ack(a)
    consumer.core.flush()
    consumer.loses_answers = True
    consumer.disconnect()
    consumer.ack(b)
    consumer.core.close()
    assert [type(result) for result in consumer.results] == [AlreadyClosed] * 2
    (failure,) = consumer.core.take_failures()
    failed = {(id.entry_id(), id.batch_index()) for id in failure.message_ids}
    assert failed == {(0, -1), (1, 0)}
    assert [id.topic_name() for id in failure.message_ids] == [TOPIC] * 2


def test_read_6_a_seek_clears_acks_of_single_indexes_without_a_connection_too(
    world: World,
) -> None:
    publish(world, "abcd")
    consumer = Consumer(world)
    a, _, _, _ = consumer.take()
    consumer.disconnect()
    consumer.ack(a)
    consumer.core.sought(MessageId.earliest, False)
    consumer.connect()
    assert consumer.texts() == ["a", "b", "c", "d"]
    assert left(world) == 4


def test_read_9_a_retry_with_a_shorter_wait_does_not_wait_for_a_longer_one(world: World) -> None:
    publish(world, "a", "b")
    waits = iter([5000, 100])
    consumer = Consumer(world, auto_retry_acknowledgement_backoff=lambda failures: next(waits))
    a, b = consumer.take()
    world.fail_disk(FULL)
    for message in (a, b):
        consumer.ack(message)
        consumer.core.flush()
        consumer.pump()
    world.fail_disk(None)
    consumer.pass_time(100)
    assert left(world) == 1
    assert consumer.core.acks.waiting == 1
    consumer.pass_time(5000)
    assert consumer.settled


# ---- The open points of PIP-377 (SEMANTICS 8) ----------------------------------------------------


def test_a_message_that_came_again_before_its_ack_is_not_handed_out_after_it(
    world: World,
) -> None:
    """The application acks what it took on the old connection, and it is in the queue again."""
    publish(world, "abc", "d", "ef")
    for type in (Exclusive, Shared):
        name = f"sub-{type}"
        consumer = Consumer(world, type, name=name)
        taken = consumer.take(5)
        consumer.reconnect()
        consumer.pump()
        assert consumer.core.queue_length() == 6
        consumer.ack(taken[1], taken[3])
        consumer.ack(taken[4].message_id())
        assert consumer.texts() == ["a", "c", "f"]
        consumer.core.flush()
        consumer.pump()
        assert consumer.settled
        assert left(world, name) == 3


def test_a_cumulative_ack_drops_what_came_again_before_it(world: World) -> None:
    publish(world, "abc", "d", "ef")
    consumer = Consumer(world, Exclusive)
    taken = consumer.take(5)
    consumer.reconnect()
    first = consumer.take(1)
    assert texts(first) == ["a"]
    consumer.ack_through(taken[4])
    assert consumer.texts() == ["f"]
    consumer.core.flush()
    consumer.pump()
    assert left(world) == 1


def test_an_ack_after_a_refusal_wins_and_so_does_a_refusal_after_an_ack(
    world: World,
) -> None:
    publish(world, "a", "b")
    consumer = Consumer(world, negative_ack_redelivery_delay_ms=200)
    a, b = consumer.take()
    world.fail_disk(FULL)
    consumer.core.negative_acknowledge(a)
    consumer.ack(a)
    consumer.ack(b)
    consumer.core.negative_acknowledge(b)
    consumer.pass_time(1000)
    world.fail_disk(None)
    consumer.pass_time(5000)
    assert consumer.texts() == ["b"]
    assert left(world) == 1
    consumer.core.negative_acknowledge(a)  # its ack is confirmed, and stays
    consumer.pass_time(1000)
    assert consumer.texts() == []
    assert left(world) == 1


def test_an_id_that_was_never_there_fails_alone_and_for_good(world: World) -> None:
    publish(world, "a", "b", "c")
    consumer = Consumer(world, ack_receipt_enabled=True)
    a, b, c = consumer.take()
    wrong = MessageId(-1, a.message_id().ledger_id(), 99, -1)
    for what in (a, wrong, b, c):
        consumer.ack(what)
    consumer.pass_time(1000)
    assert [type(result) for result in consumer.results].count(NotAllowedError) == 1
    assert consumer.results.count(None) == 3
    assert left(world) == 0
    (failure,) = consumer.core.take_failures()
    assert [(id.entry_id(), id.batch_index()) for id in failure.message_ids] == [(99, -1)]
    assert isinstance(failure.error, NotAllowedError)


@pytest.mark.parametrize("how", ["refused", "lost", "unanswered"])
def test_a_message_in_chunks_is_tried_again_with_all_its_chunks(world: World, how: str) -> None:
    producer = world.connect().producer("t")
    producer.send_chunks("one", "a" * 40, "b" * 40, "c" * 20)
    producer.send("x")
    consumer = Consumer(world, ack_receipt_enabled=True)
    whole, _ = consumer.take()
    assert len(whole.data()) == 100
    if how == "refused":
        world.fail_disk(FULL)
    else:
        consumer.loses_acks = how == "lost"
        consumer.loses_answers = True
    consumer.ack(whole)
    consumer.core.flush()
    consumer.pump()
    assert consumer.results == []
    world.fail_disk(None)
    consumer.loses_acks = consumer.loses_answers = False
    if how == "lost":
        consumer.reconnect()
        assert consumer.texts() == ["x"], "and no chunk of the other"
    else:
        consumer.pass_time(31_000)
    assert consumer.results == [None]
    assert consumer.settled
    assert left(world) == 1


def test_too_many_unconfirmed_acks_keep_permits_back_until_half_have_ended(world: World) -> None:
    publish(world, *"0123456789" * 2)
    consumer = Consumer(world, receiver_queue_size=2, max_pending_acknowledgements=4)
    world.fail_disk(FULL)
    taken = 0
    for _ in range(30):
        messages = consumer.take(1)
        taken += len(messages)
        for message in messages:
            consumer.ack(message)
        consumer.pass_time(1)
    assert taken in (5, 6), "what was on its way when it became a crowd still came"
    world.fail_disk(None)
    consumer.pass_time(20_000)
    while messages := consumer.take():
        consumer.ack(*messages)
        taken += len(messages)
        consumer.pass_time(1000)
    assert (taken, left(world)) == (20, 0)


@pytest.mark.parametrize("cumulative", [False, True])
def test_retries_of_acks_that_were_kept_change_nothing(world: World, cumulative: bool) -> None:
    """An answer that is lost leaves an ack kept and unconfirmed: it is sent again, in vain."""
    publish(world, "ab", "c")
    consumer = Consumer(world, Exclusive)
    a, b, _ = consumer.take()
    consumer.loses_answers = True
    if cumulative:
        consumer.ack_through(b)
    else:
        consumer.ack(a, b)
    consumer.core.flush()
    consumer.pump()
    assert left(world) == 1
    consumer.loses_answers = False
    consumer.pass_time(31_000)
    assert len(consumer.acks) == 2
    assert consumer.settled
    assert left(world) == 1
