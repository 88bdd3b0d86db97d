"""The producer's core against a broker that is a list, with anything in any order.

The machine sends, loses connections and receipts, and connects again. Whatever happens: each
message is done exactly once, what was confirmed is stored where its id says, the first copies
of all messages stand in the order in which they were sent (per key, with batches by key), and a
broker that removes duplicates has no copies.
"""

from collections.abc import Callable

from client.producer_model import Fixture
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from magnetar.client.option.options import BatchingType
from magnetar.client.producer.outgoing import Outgoing
from magnetar.errors import ProducerQueueIsFull
from magnetar.model.message_id import MessageId

KEYS = [None, None, "a", "b"]


class ProducerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self.keys: dict[bytes, str | None] = {}
        self.idle_wanted = 0
        self.idle_told = 0

    @initialize(
        deduplicates=st.booleans(),
        batching=st.booleans(),
        kind=st.sampled_from(BatchingType),
        messages_max=st.sampled_from([1, 2, 5]),
    )
    def begin(
        self, deduplicates: bool, batching: bool, kind: BatchingType, messages_max: int
    ) -> None:
        self.keyed = batching and kind == BatchingType.KeyBased
        self.fixture = Fixture(
            deduplicates=deduplicates,
            batching_enabled=batching,
            batching_type=kind,
            batching_max_messages=messages_max,
            batching_max_allowed_size_in_bytes=20,
            send_timeout_millis=0,
            max_pending_messages=30,
        )
        self.core = self.fixture.core
        self.broker = self.fixture.broker

    # ---- what the application does -------------------------------------------

    def send_one(self, key: str | None, alone: bool, then: Callable[[], None] | None) -> None:
        payload = b"m%d" % len(self.sent)
        told = self.fixture.told(payload)

        def done(error: Exception | None, message_id: MessageId | None) -> None:
            told(error, message_id)
            if then is not None:
                then()

        message = Outgoing(payload, done, partition_key=key, deliver_at=5 if alone else None)
        try:
            self.core.send(message)
        except ProducerQueueIsFull:
            assert self.core.pending_messages == 30
        else:
            self.sent.append(payload)
            self.keys[payload] = key

    @rule(key=st.sampled_from(KEYS), alone=st.integers(0, 5), count=st.integers(1, 4))
    def send(self, key: str | None, alone: int, count: int) -> None:
        for _ in range(count):
            self.send_one(key, alone == 0, None)

    @rule(key=st.sampled_from(KEYS), flushes=st.booleans())
    def send_and_again_when_done(self, key: str | None, flushes: bool) -> None:
        def again() -> None:
            self.send_one(key, False, None)
            if flushes:
                self.core.flush()

        self.send_one(key, False, again)

    @rule()
    def flush(self) -> None:
        self.core.flush()

    @rule()
    def wait_until_idle(self) -> None:
        before = list(self.sent)

        def idle() -> None:
            assert set(before) <= self.fixture.done.keys()
            self.idle_told += 1

        self.idle_wanted += 1
        self.core.when_idle(idle)

    # ---- what the world does -------------------------------------------------

    @rule(count=st.integers(1, 4))
    def store(self, count: int) -> None:
        for _ in range(count):
            self.broker.take()

    @precondition(lambda self: self.broker.outbox)
    @rule()
    def confirm(self) -> None:
        if not self.core.receipt(self.broker.outbox.pop(0)):
            self.fixture.disconnect()

    @precondition(lambda self: self.broker.outbox)
    @rule()
    def lose_receipt(self) -> None:
        self.broker.outbox.pop(0)

    @rule()
    def disconnect(self) -> None:
        self.fixture.disconnect()

    @precondition(lambda self: self.core.state == "connecting")
    @rule()
    def connect(self) -> None:
        self.fixture.connect()

    @rule(ms=st.integers(1, 20))
    def let_time_pass(self, ms: int) -> None:
        self.fixture.advance(ms)

    # ---- what must hold ------------------------------------------------------

    @invariant()
    def ids_name_what_is_stored(self) -> None:
        for payload, (error, message_id) in self.fixture.done.items():
            assert error is None
            assert message_id is not None
            assert message_id.partition() == 3
            if message_id.ledger_id() < 0:
                assert self.broker.deduplicates
                continue
            stored = self.broker.stored[message_id.entry_id()]
            batched = stored.metadata.num_messages_in_batch is not None
            assert message_id.batch_index() >= 0 if batched else message_id.batch_index() == -1
            assert stored.messages[max(0, message_id.batch_index())].payload == payload

    @invariant()
    def counts_agree(self) -> None:
        assert self.core.pending_messages == len(self.sent) - len(self.fixture.done)
        assert self.core.messages_sent == len(self.sent)
        assert self.core.messages_stored == len(self.fixture.done)
        assert self.core.pending_bytes == sum(
            len(payload) for payload in self.sent if payload not in self.fixture.done
        )

    @invariant()
    def order_is_kept(self) -> None:
        stored = self.broker.payloads()
        first_copies = list(dict.fromkeys(stored))
        if self.broker.deduplicates:
            assert stored == first_copies
        if not self.keyed:
            assert first_copies == self.sent[: len(first_copies)]
            return
        for key in set(KEYS):
            of_key = [payload for payload in self.sent if self.keys[payload] == key]
            copies = [payload for payload in first_copies if self.keys[payload] == key]
            assert copies == of_key[: len(copies)]

    def teardown(self) -> None:
        """With a broker that answers, everything ends well."""
        if not hasattr(self, "core"):
            return
        # A second time for what callbacks have sent.
        for _ in range(2):
            self.fixture.disconnect()
            self.fixture.connect()
            self.core.flush()
            self.fixture.answer_all()
        assert self.core.pending_messages == 0
        assert set(self.broker.payloads()) == set(self.sent) == self.fixture.done.keys()
        assert self.idle_told == self.idle_wanted
        self.ids_name_what_is_stored()
        self.counts_agree()
        self.order_is_kept()


TestProducerMachine = ProducerMachine.TestCase
