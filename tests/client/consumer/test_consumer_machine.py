"""A consumer, its broker and an application, with anything in any order.

Whatever happens: nothing that was acked comes again, nothing that was not is lost, and permits
are exact at every step.
"""

from random import Random

import pytest
from client.consumer_model import ENTRY_SIZES, LEDGER, STEPS, Rig, place
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from magnetar.client.ack.entry_state import PENDING
from magnetar.client.consumer.message import Message
from magnetar.model import ConsumerType, MessageId
from magnetar.model.position_key import wide_key


class World:
    """A consumer, its broker and an application that remembers what it acked.

    `acked` is what the application acked, less what was lost on the wire without a receipt, and
    what it refused later. What was lost may yet be acked, with what the application acks next of
    the same batch.
    """

    def __init__(self, consumer_type: ConsumerType, sizes: list[int], **options: object) -> None:
        self.rig = Rig(consumer_type, negative_ack_redelivery_delay_ms=200, **options)
        self.receipts = bool(options.get("ack_receipt_enabled"))
        self.single = self.rig.broker.single
        self.held: list[Message] = []
        self.acked: set[tuple[int, int]] = set()
        self.ever_acked: set[tuple[int, int]] = set()
        self.rig.broker.publish(*sizes)
        self.rig.connect()
        self.arrive_all()

    def arrive_all(self) -> None:
        while self.rig.broker_handles() or self.rig.broker_delivers() or self.receive():
            self.rig.check_permits()

    def arrive(self, steps: list[str]) -> None:
        for step in steps:
            if step == "handle":
                self.rig.broker_handles()
            elif step == "deliver":
                self.rig.broker_delivers()
            else:
                self.receive()
            self.rig.check_permits()

    def receive(self) -> bool:
        before = self.queued()
        # Without a receipt an ack is forgotten when it is written, and may cross on the wire
        # with a message that it is too late for.
        acked = {p for p in self.acked if self.receipts or self.is_pending(p)}
        received = self.rig.client_receives()
        fresh = self.queued() - before
        assert not {key for key, _ in fresh} & acked, "acked, and yet it came again"
        return received

    def queued(self) -> set[tuple[tuple[int, int], int]]:
        queue = self.rig.core._queue
        lists = [queue._current, *queue._entries]
        return {(place(message), id(message)) for some in lists for message in some}

    def take(self, count: int) -> None:
        for _ in range(count):
            message = self.rig.core.take()
            if message is not None:
                self.held.append(message)

    def acknowledge(self, pick: int, kind: str) -> None:
        if not self.held:
            return
        message = self.held.pop(pick % len(self.held))
        if kind == "message":
            self.rig.core.acknowledge_message(message)
        elif kind == "id":
            self.rig.core.acknowledge([message.message_id()])
        else:
            self.rig.core.acknowledge([MessageId.deserialize(message.message_id().serialize())])
        self.acked.add(place(message))

    def acknowledge_cumulatively(self, pick: int) -> None:
        if not self.held or not self.single:
            return
        message = self.held[pick % len(self.held)]
        self.rig.core.acknowledge_cumulative(message)
        self.acked |= {p for p in self.rig.broker.everything() if p <= place(message)}
        self.held = [other for other in self.held if place(other) > place(message)]

    def refuse(self, pick: int, by_id: bool) -> None:
        if self.held:
            message = self.held.pop(pick % len(self.held))
            if place(message) in self.acked:
                # A copy of it was, and that is taken back if it is not confirmed.
                self.acked.discard(place(message))
                self.ever_acked.add(place(message))
            self.rig.core.negative_acknowledge(message.message_id() if by_id else message)

    def pass_time(self, ms: int) -> None:
        self.rig.now += ms
        due = self.rig.core.next_ms()
        self.rig.core.tick(self.rig.now)
        if due is None or due > self.rig.now:
            assert self.rig.core.next_ms() == due

    def break_or_connect(self, arrives: int) -> None:
        if not self.rig.online:
            self.rig.connect()
            return
        self.rig.disconnect(arrives)
        if not self.receipts:
            # Acks that were written and did not arrive are lost, and nobody can know.
            left = self.rig.broker.left()
            self.ever_acked |= self.acked
            self.acked = {p for p in self.acked if p not in left or self.is_pending(p)}

    def is_pending(self, p: tuple[int, int]) -> bool:
        acks = self.rig.core.acks
        key = wide_key(LEDGER, p[0])
        record = acks.records.get(key)
        if record is not None and record.state == PENDING and record.is_acked(p[1]):
            return True
        cumulative = acks._outbox.cumulatives.newest
        return cumulative is not None and not cumulative.unacked(key, 1 << max(p[1], 0))

    def end(self) -> None:
        """In the end everything that is not acked is handed out, and can be acked."""
        self.rig.core.resume()
        if self.rig.online:
            self.break_or_connect(99)
        self.rig.connect()
        self.ever_acked |= self.acked
        taken = self.rig.take_all()
        places = {place(message) for message in taken}
        assert not places & self.acked
        assert places | self.ever_acked == self.rig.broker.everything()
        for message in taken:
            self.rig.core.acknowledge_message(message)
        self.rig.core.flush()
        self.rig.pump()
        self.rig.pass_time(100)  # what was acked of a batch while an ack of it was under way
        assert self.rig.broker.left() == set()
        assert self.rig.core.acks.in_flight == 0
        self.rig.check_permits()


SIZES = st.lists(st.sampled_from(ENTRY_SIZES), min_size=1, max_size=5)
KINDS = ["message", "id", "bytes"]
PICK = st.integers(0, 30)
TIMES_MS = [1, 100, 250, 2000]


class ConsumerMachine(RuleBasedStateMachine):
    @initialize(
        consumer_type=st.sampled_from(list(ConsumerType)),
        sizes=SIZES,
        queue_size=st.sampled_from([1, 2, 5, 20]),
        group_time_ms=st.sampled_from([0, 100]),
        group_size=st.sampled_from([2, 1000]),
        receipts=st.booleans(),
        timeout_ms=st.sampled_from([0, 1000]),
    )
    def begin(
        self,
        consumer_type: ConsumerType,
        sizes: list[int],
        queue_size: int,
        group_time_ms: int,
        group_size: int,
        receipts: bool,
        timeout_ms: int,
    ) -> None:
        self.world = World(
            consumer_type,
            sizes,
            receiver_queue_size=queue_size,
            acknowledgement_group_time_ms=group_time_ms,
            max_acknowledgement_group_size=group_size,
            ack_receipt_enabled=receipts,
            unacked_messages_timeout_ms=timeout_ms,
        )

    @rule(sizes=SIZES)
    def publish(self, sizes: list[int]) -> None:
        self.world.rig.broker.publish(*sizes)

    @rule()
    def everything_arrives(self) -> None:
        self.world.arrive_all()

    @rule(steps=st.lists(st.sampled_from(STEPS), max_size=12))
    def something_arrives(self, steps: list[str]) -> None:
        self.world.arrive(steps)

    @rule(count=st.integers(1, 25))
    def take(self, count: int) -> None:
        self.world.take(count)

    @rule(picks=st.lists(st.tuples(PICK, st.sampled_from(KINDS)), min_size=1, max_size=4))
    def acknowledge(self, picks: list[tuple[int, str]]) -> None:
        for pick, kind in picks:
            self.world.acknowledge(pick, kind)

    @precondition(lambda self: self.world.single)
    @rule(pick=PICK)
    def acknowledge_cumulatively(self, pick: int) -> None:
        self.world.acknowledge_cumulatively(pick)

    @rule(pick=PICK, by_id=st.booleans())
    def refuse(self, pick: int, by_id: bool) -> None:
        self.world.refuse(pick, by_id)

    @rule(ms=st.sampled_from(TIMES_MS))
    def time_passes(self, ms: int) -> None:
        self.world.pass_time(ms)

    @rule()
    def redeliver_all(self) -> None:
        self.world.rig.core.redeliver_all()

    @rule(paused=st.booleans())
    def pause_or_resume(self, paused: bool) -> None:
        if paused:
            self.world.rig.core.pause()
        else:
            self.world.rig.core.resume()

    @rule(arrives=st.integers(0, 5))
    def the_connection_breaks_or_comes_back(self, arrives: int) -> None:
        self.world.break_or_connect(arrives)

    @invariant()
    def permits_are_exact(self) -> None:
        self.world.rig.check_permits()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.end()


TestConsumerMachine = ConsumerMachine.TestCase
TestConsumerMachine.settings = settings(
    stateful_step_count=30,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def live(seed: int, steps: int) -> None:
    """A long life, with more of what consumers mostly do than chance would give it."""
    random = Random(seed)
    world = World(
        random.choice(list(ConsumerType)),
        random.choices(ENTRY_SIZES, k=5),
        receiver_queue_size=random.choice([1, 2, 5, 20]),
        acknowledgement_group_time_ms=random.choice([0, 100, 100]),
        max_acknowledgement_group_size=random.choice([2, 1000]),
        ack_receipt_enabled=random.random() < 0.5,
        unacked_messages_timeout_ms=random.choice([0, 1000]),
    )
    verbs = random.choices(
        ["take", "ack", "through", "refuse", "some", "all", "time", "publish", "all again", "cut"],
        [10, 10, 3, 5, 12, 4, 6, 3, 1, 3],
        k=steps,
    )
    for verb in verbs:
        pick = random.randrange(30)
        if verb == "take":
            world.take(random.choice([1, 3, 12]))
        elif verb == "ack":
            world.acknowledge(pick, random.choice(KINDS))
        elif verb == "through":
            world.acknowledge_cumulatively(pick)
        elif verb == "refuse":
            world.refuse(pick, random.random() < 0.5)
        elif verb == "some":
            world.arrive(random.choices(STEPS, k=6))
        elif verb == "all":
            world.arrive_all()
        elif verb == "time":
            world.pass_time(random.choice(TIMES_MS))
        elif verb == "publish":
            world.rig.broker.publish(*random.choices(ENTRY_SIZES, k=2))
        elif verb == "all again":
            world.rig.core.redeliver_all()
        else:
            world.break_or_connect(random.randrange(6))
        world.rig.check_permits()
    world.end()


@pytest.mark.parametrize("seed", range(60))
def test_a_long_life_loses_nothing_and_repeats_nothing_acked(seed: int) -> None:
    live(seed, 150)
