"""Acks on a broker that loses them: in the end all are kept, and nobody sees one twice.

The broker of `consumer_model` is made to drop acks, to keep them and drop the answer, or to
refuse them, as it is told; connections break beside that. The model is a set of the messages
that were acked. With retries without end

- no message of that set is ever handed to the application again;
- when the broker behaves again, none of that set is left there, without another connection;
- everything else comes, and can be acked.

With few retries the same holds less exactly those messages that were reported as failed.

Messages are refused, too: some that were acked before, where the ack may or may not win, and
some whose ack was reported as failed. Of the latter, whatever is unacked at the broker comes
again, and no ack of another message of its batch acks it.
"""

from collections import deque
from random import Random

import pytest
from client.consumer_model import ENTRY_SIZES, LEDGER, STEPS, ModelBroker, Rig, place
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from magnetar.client.consumer.message import Message
from magnetar.model import ConsumerType, MessageId, ServerError
from magnetar.protocol import Command, CommandAck, CommandAckResponse
from magnetar.wire.ack_set import all_unacked

Place = tuple[int, int]

# What the broker does with the next ack: all but the first are failures to the client.
KEEP, MUTE, DROP, REFUSE, BUSY, FORBID = "keep", "mute", "drop", "refuse", "busy", "forbid"
VERDICTS = [KEEP, MUTE, DROP, REFUSE, BUSY]
CODES = {
    REFUSE: ServerError.ServiceNotReady,
    BUSY: ServerError.PersistenceError,
    FORBID: ServerError.NotAllowedError,
}
FOREVER = 1 << 30


class LossyBroker(ModelBroker):
    def __init__(self, consumer_type: ConsumerType) -> None:
        super().__init__(consumer_type)
        self.verdicts: deque[str] = deque()

    def handle(self, command: Command) -> CommandAckResponse | None:
        if not isinstance(command, CommandAck) or not self.verdicts:
            return super().handle(command)
        assert command.request_id is not None
        verdict = self.verdicts.popleft()
        code = CODES.get(verdict)
        if code is not None:
            return CommandAckResponse(command.consumer_id, command.request_id, int(code), verdict)
        if verdict == DROP:
            return None
        answer = super().handle(command)
        return None if verdict == MUTE else answer

    def start_over(self) -> None:
        """A seek to the beginning."""
        self.unacked = [all_unacked(max(size, 1)) for size in self.sizes]
        self.rewind()


class Life:
    """An application, what it holds and has acked, and the broker that it acks to."""

    def __init__(
        self, consumer_type: ConsumerType, sizes: list[int], max_retries: int, **options: object
    ) -> None:
        self.rig = Rig(
            consumer_type,
            auto_retry_acknowledgement=True,
            max_acknowledgement_retries=max_retries,
            negative_ack_redelivery_delay_ms=200,
            **options,
        )
        self.receipts = bool(options.get("ack_receipt_enabled"))
        self.broker = LossyBroker(consumer_type)
        self.rig.broker = self.broker
        self.broker.publish(*sizes)
        self.held: list[Message] = []
        self.acked: set[Place] = set()
        self.reported: set[Place] = set()
        # Acked, and refused before that was confirmed, perhaps.
        self.doubtful: set[Place] = set()
        self.given: list[Message] = []
        self.calls = 0
        self.rig.connect()

    # ---- The application -----------------------------------------------------

    def take(self, count: int) -> None:
        for _ in range(count):
            message = self.rig.core.take()
            if message is None:
                return
            assert place(message) not in self.acked, f"{place(message)} was acked, and came again"
            self.held.append(message)

    def acknowledge(self, pick: int, count: int, by_id: bool) -> None:
        some = [self.held.pop(pick % len(self.held)) for _ in range(min(count, len(self.held)))]
        if not some:
            return
        self.calls += 1
        if by_id:
            self.rig.core.acknowledge([message.message_id() for message in some], self.rig.done)
        elif len(some) == 1:
            self.rig.core.acknowledge_message(some[0], self.rig.done)
        else:
            self.rig.core.acknowledge(some, self.rig.done)
        self.given.extend(some)
        self._now_acked({place(message) for message in some})

    def acknowledge_cumulatively(self, pick: int) -> None:
        if not self.held or not self.broker.single:
            return
        message = self.held[pick % len(self.held)]
        self.calls += 1
        self.rig.core.acknowledge_cumulative(message, self.rig.done)
        self._now_acked({p for p in self.broker.everything() if p <= place(message)})
        self.held = [other for other in self.held if place(other) > place(message)]

    def _now_acked(self, places: set[Place]) -> None:
        self.acked |= places
        self.reported -= places
        self.doubtful -= places

    def refuse(self, pick: int) -> None:
        if self.held:
            self._refuse(self.held.pop(pick % len(self.held)))

    def _refuse(self, message: Message) -> None:
        """A message, of which a copy may have been acked."""
        if place(message) in self.acked:
            self.acked.discard(place(message))
            self.doubtful.add(place(message))
        self.rig.core.negative_acknowledge(message)

    def refuse_after_all(self, pick: int) -> None:
        """One that was acked."""
        if self.given:
            self._refuse(self.given.pop(pick % len(self.given)))

    def refuse_failed(self, pick: int) -> None:
        """One whose ack was reported as failed; what is under way has arrived."""
        self.pump()
        failed = sorted(self.reported & self.broker.left())
        if failed:
            entry, index = failed[pick % len(failed)]
            size = self.broker.sizes[entry]
            self.reported.discard((entry, index))
            self.rig.core.negative_acknowledge(MessageId(-1, LEDGER, entry, index, batch_size=size))

    def seek(self) -> None:
        """To the beginning; what was acked before counts no more."""
        if not self.rig.online:
            return
        self.rig.core.prepare_seek()
        while self.rig.broker_handles():
            pass
        self.broker.start_over()
        self.rig.core.sought(MessageId.earliest, False)
        self.acked.clear()
        self.reported.clear()
        self.doubtful.clear()
        self.given.clear()
        self.held.clear()
        self.rig.reconnect()
        self.note_failures()

    # ---- The world -----------------------------------------------------------

    def arrive(self, steps: list[str]) -> None:
        for step in steps:
            if step == "handle":
                self.rig.broker_handles()
            elif step == "deliver":
                self.rig.broker_delivers()
            else:
                self.rig.client_receives()
        self.note_failures()

    def pump(self) -> None:
        self.rig.pump()
        self.note_failures()

    def pass_time(self, ms: int) -> None:
        self.rig.pass_time(ms)
        self.note_failures()

    def break_or_connect(self, arrives: int) -> None:
        if self.rig.online:
            self.rig.disconnect(arrives)
        else:
            self.rig.connect()
        self.note_failures()

    def note_failures(self) -> None:
        for failure in self.rig.core.take_failures():
            places = {(id.entry_id(), id.batch_index()) for id in failure.message_ids}
            if failure.cumulative:
                last = max(places)
                if last[1] < 0:
                    last = (last[0], 1 << 30)
                places = {p for p in self.broker.everything() if p <= last}
            self.reported |= places & self.acked
            self.acked -= places
            # The ack of what was refused since, in part, or a cumulative one that it was under.
            self.doubtful -= places & self.reported

    # ---- The end -------------------------------------------------------------

    def end(self) -> None:
        self.broker.verdicts.clear()
        if not self.rig.online:
            self.rig.connect()
        self.rig.pump()
        # Long enough for an answer that does not come, and for the longest backoff.
        for _ in range(3):
            self.pass_time(45_000)
            self.pump()
        core = self.rig.core
        assert core.acks.unconfirmed == 0
        assert not self.broker.left() & self.acked, "acked, and the broker does not know"
        if self.receipts:
            assert len(self.rig.results) == self.calls
        else:
            assert self.rig.results == [None] * self.calls
        # On this very connection everything else has come, or comes now.
        here = {place(message) for message in [*self.held, *self.rig.take_all()]}
        acked = self.acked | (self.doubtful - self.broker.left())
        assert here | acked | self.reported == self.broker.everything()
        self.rig.check_permits()
        self.rig.reconnect()
        taken = self.rig.take_all()
        places = {place(message) for message in taken}
        assert not places & self.acked
        assert places | acked | self.reported == self.broker.everything()
        for message in taken:
            core.acknowledge_message(message)
        core.flush()
        self.rig.pump()
        self.pass_time(100)
        self.rig.pump()
        assert self.broker.left() <= self.reported
        assert core.acks.in_flight == 0
        assert core.take_failures() == []
        self.rig.check_permits()


SIZES = st.lists(st.sampled_from(ENTRY_SIZES), min_size=1, max_size=5)
PICK = st.integers(0, 30)
TIMES_MS = [1, 100, 250, 2000, 31_000]


class RetryMachine(RuleBasedStateMachine):
    @initialize(
        consumer_type=st.sampled_from(list(ConsumerType)),
        sizes=SIZES,
        max_retries=st.sampled_from([FOREVER, FOREVER, 0, 1]),
        queue_size=st.sampled_from([1, 5, 20]),
        group_time_ms=st.sampled_from([0, 100]),
        group_size=st.sampled_from([2, 1000]),
        receipts=st.booleans(),
        pending_max=st.sampled_from([2, 100_000]),
    )
    def begin(
        self,
        consumer_type: ConsumerType,
        sizes: list[int],
        max_retries: int,
        queue_size: int,
        group_time_ms: int,
        group_size: int,
        receipts: bool,
        pending_max: int,
    ) -> None:
        self.life = Life(
            consumer_type,
            sizes,
            max_retries,
            receiver_queue_size=queue_size,
            acknowledgement_group_time_ms=group_time_ms,
            max_acknowledgement_group_size=group_size,
            ack_receipt_enabled=receipts,
            max_pending_acknowledgements=pending_max,
        )
        self.forbids = max_retries != FOREVER

    @rule(sizes=SIZES)
    def publish(self, sizes: list[int]) -> None:
        self.life.broker.publish(*sizes)

    @rule(verdicts=st.lists(st.sampled_from(VERDICTS), min_size=1, max_size=6))
    def the_broker_falters(self, verdicts: list[str]) -> None:
        self.life.broker.verdicts.extend(verdicts)

    @precondition(lambda self: self.forbids)
    @rule()
    def the_broker_forbids(self) -> None:
        self.life.broker.verdicts.append(FORBID)

    @rule()
    def everything_arrives(self) -> None:
        self.life.pump()

    @rule(steps=st.lists(st.sampled_from(STEPS), max_size=12))
    def something_arrives(self, steps: list[str]) -> None:
        self.life.arrive(steps)

    @rule(count=st.integers(1, 25))
    def take(self, count: int) -> None:
        self.life.take(count)

    @rule(pick=PICK, count=st.integers(1, 4), by_id=st.booleans())
    def acknowledge(self, pick: int, count: int, by_id: bool) -> None:
        self.life.acknowledge(pick, count, by_id)

    @precondition(lambda self: self.life.broker.single)
    @rule(pick=PICK)
    def acknowledge_cumulatively(self, pick: int) -> None:
        self.life.acknowledge_cumulatively(pick)

    @rule(pick=PICK)
    def refuse(self, pick: int) -> None:
        self.life.refuse(pick)

    @rule(pick=PICK)
    def refuse_after_all(self, pick: int) -> None:
        self.life.refuse_after_all(pick)

    @rule(pick=PICK)
    def refuse_failed(self, pick: int) -> None:
        self.life.refuse_failed(pick)

    @rule(ms=st.sampled_from(TIMES_MS))
    def time_passes(self, ms: int) -> None:
        self.life.pass_time(ms)

    @rule()
    def redeliver_all(self) -> None:
        self.life.rig.core.redeliver_all()

    @rule()
    def seek(self) -> None:
        self.life.seek()

    @rule(arrives=st.integers(0, 5))
    def the_connection_breaks_or_comes_back(self, arrives: int) -> None:
        self.life.break_or_connect(arrives)

    @invariant()
    def permits_are_exact(self) -> None:
        self.life.rig.check_permits()

    def teardown(self) -> None:
        if hasattr(self, "life"):
            self.life.end()


TestRetryMachine = RetryMachine.TestCase
TestRetryMachine.settings = settings(
    stateful_step_count=30,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def live(seed: int, steps: int) -> Life:
    """A long life, with more of what consumers mostly do than chance would give it."""
    random = Random(seed)
    life = Life(
        random.choice(list(ConsumerType)),
        random.choices(ENTRY_SIZES, k=5),
        random.choice([FOREVER, FOREVER, 0, 2]),
        receiver_queue_size=random.choice([1, 2, 5, 20]),
        acknowledgement_group_time_ms=random.choice([0, 100, 100]),
        max_acknowledgement_group_size=random.choice([2, 1000]),
        ack_receipt_enabled=random.random() < 0.5,
        max_pending_acknowledgements=random.choice([3, 100_000]),
    )
    often = {"take": 10, "ack": 10, "through": 3, "refuse": 3, "some": 12, "all": 4, "time": 6}
    seldom = {"publish": 3, "falter": 4, "cut": 3, "all again": 1, "seek": 0.3}
    refusals = {"refuse after all": 1, "refuse failed": 2}
    weights = {**often, **seldom, **refusals}
    verbs = random.choices(list(weights), list(weights.values()), k=steps)
    for verb in verbs:
        pick = random.randrange(30)
        if verb == "take":
            life.take(random.choice([1, 3, 12]))
        elif verb == "ack":
            life.acknowledge(pick, random.choice([1, 1, 3]), random.random() < 0.5)
        elif verb == "through":
            life.acknowledge_cumulatively(pick)
        elif verb == "refuse":
            life.refuse(pick)
        elif verb == "refuse after all":
            life.refuse_after_all(pick)
        elif verb == "refuse failed":
            life.refuse_failed(pick)
        elif verb == "some":
            life.arrive(random.choices(STEPS, k=6))
        elif verb == "all":
            life.pump()
        elif verb == "time":
            life.pass_time(random.choice(TIMES_MS))
        elif verb == "publish":
            life.broker.publish(*random.choices(ENTRY_SIZES, k=2))
        elif verb == "falter":
            life.broker.verdicts.extend(random.choices(VERDICTS, k=3))
        elif verb == "all again":
            life.rig.core.redeliver_all()
        elif verb == "seek":
            life.seek()
        else:
            life.break_or_connect(random.randrange(6))
        life.rig.check_permits()
    life.end()
    return life


@pytest.mark.parametrize("seed", range(60))
def test_a_long_life_with_a_broker_that_loses_acks(seed: int) -> None:
    live(seed, 150)


def test_the_long_lives_have_seen_every_kind_of_end() -> None:
    """The checks above would be worth little if nothing ever failed."""
    lives = [live(seed, 300) for seed in range(1000, 1020)]
    totals = [life.rig.core.acks.counts for life in lives]
    assert sum(counts.failed for counts in totals) > 100
    assert sum(counts.retried for counts in totals) > 100
    assert sum(counts.kept_after_retry for counts in totals) > 50
    assert sum(counts.exhausted for counts in totals) > 5
    assert all(
        counts.kept == sum(counts.time_buckets) and counts.retried <= counts.sent
        for counts in totals
    )


def test_an_entry_that_is_on_its_way_when_it_is_asked_for_again_is_queued_once() -> None:
    life = Life(ConsumerType.Shared, [3, 0], FOREVER, receiver_queue_size=20)
    life.arrive(["handle", "deliver"])
    life.rig.core.redeliver_all()
    life.arrive(["receive", "handle"])  # the first copy, and only now the call for it
    life.pump()
    assert life.rig.core.queue_length() == 4
    life.take(2)
    life.acknowledge(0, 1, True)
    life.take(10)
    assert [place(message) for message in life.held] == [(0, 1), (0, 2), (1, -1)]
    life.end()
