"""Skipping messages by name: acks that an operator gives, all of them or none (PIP-423).

| step  | what happens                                          | what can go wrong           |
|-------|-------------------------------------------------------|-----------------------------|
| find  | each id finds its topic, among all partitions         | NoSuchEntryError            |
| check | its batch index is one of the entry's                 | BatchIndexError             |
| plan  | every cursor says what is new to it                   | BrokerError: who may not    |
|       | parts of batches take a limited memory                | AckSizeError, BrokerError   |
| write | all deltas go to the journal as one group             | StorageError                |
| apply | cursors first, then dispatchers let go of the entries | -                           |
| recall | consumers give back what they hold of it             | no answer: they are named   |

Nothing is changed before the last id is checked, and nothing afterwards unless the group is
durable; recovery takes a group whole or not at all.

A long list is found, checked and planned in pieces, and others have their turn in between.
What they may do meanwhile takes nothing back of what was found, but for these, which are
looked for once more before the write; from there to the journal's queue nothing else runs:

| meanwhile                           | what was planned                              |
|-------------------------------------|-----------------------------------------------|
| acks, other skips                   | holds: deltas are absolute, and commute       |
| publishes, trimming                 | holds: entries are never counted anew         |
| a reset                             | is of another epoch: ServiceNotReady          |
| an unload, a delete, an unsubscribe | is for what is closed: ServiceNotReady        |
| an Exclusive or Failover consumer   | may not be done any more: NotAllowedError     |

Whatever comes after the write waits for it: the journal has one order for all of them. Cursors
know all of it at once, so that nothing of it is delivered any more; dispatchers let go of it in
the same pieces. A reset that comes between those brings back what is left: it stays where it is.

Ids that are acked or trimmed already are fine: what was asked for is so. Ledger ids are
counted for the whole store and never given twice, so one that no partition has was either
trimmed or never there. It counts as trimmed if it is newer than the topic, older than all
that the topic has, and nobody else's.
"""

from typing import Final, final

from mypy_extensions import i64

from magnetar.ack import AckDelta, encode_delta
from magnetar.ack.record import record_bytes
from magnetar.broker.promise import Promise, broken, kept
from magnetar.broker.topic.ack.long_ack import PIECE_RECORD_BYTES
from magnetar.broker.topic.skip.recall import Recall
from magnetar.broker.topic.skip.skip_result import IdResult
from magnetar.broker.topic.subscription import Subscription
from magnetar.broker.topic.topic import Topic
from magnetar.broker.turn.pieces import PIECE_IDS
from magnetar.errors import (
    AckSizeError,
    BatchIndexError,
    BrokerError,
    NoSuchEntryError,
    StorageError,
    UsageError,
)
from magnetar.model import Position, ServerError
from magnetar.model.message_id_data import MessageIdData

__all__ = ["PIECE_IDS", "MessageFinder", "Move", "Skip", "move_together", "skip_messages"]


@final
class Move:
    """What is planned for one cursor."""

    def __init__(self, subscription: Subscription, delta: AckDelta) -> None:
        self.subscription: Final = subscription
        self.delta: Final = delta
        self.data: Final = encode_delta(delta)
        # Whether no entry of it is a batch.
        self.single: Final = subscription.cursor.are_single(delta)
        # How many messages it acked, once it is applied.
        self.messages: int = 0

    def apply(self) -> None:
        """Moves the cursor: the skip is durable."""
        self.messages = self.subscription.apply_named(self.delta, single=self.single)
        self.subscription.skipped += self.messages

    @property
    def is_of_this_life(self) -> bool:
        """Whether the cursor was not reset since."""
        return bool(self.subscription.cursor.epoch == self.delta.epoch)

    def require_possible(self) -> None:
        """Raises BrokerError if it is no longer the cursor that this was planned for."""
        _require_possible(self.subscription)
        if self.subscription.cursor.epoch != self.delta.epoch:
            raise _was_reset(self.subscription)


@final
class MessageFinder:
    """Which of several topics has a message: one topic, or the partitions of one."""

    def __init__(self, topics: list[Topic]) -> None:
        self._topics: Final = topics
        self._partitions: Final[dict[int, Topic]] = {
            int(topic.partition): topic for topic in topics
        }
        # By ledger: its topic, or None if it was trimmed. Ids come in runs of one ledger.
        self._known: Final[dict[int, Topic | None]] = {}
        self._last_id: i64 = -1
        self._last: Topic | None = None

    def find(self, id: MessageIdData) -> Topic | None:
        """Returns the topic that has the entry; None if it was trimmed.

        Raises NoSuchEntryError if it never was, or if it is of another partition than the
        id says.
        """
        ledger_id, entry_id = id.ledger_id, id.entry_id
        if ledger_id != self._last_id:
            self._turn_to(ledger_id, entry_id)
        topic = self._last
        if id.partition != -1:
            self._check_partition(id, topic)
        if topic is None:
            if entry_id < 0:
                raise NoSuchEntryError(ledger_id, entry_id, "entries are counted from 0")
            return None
        count = topic.ledgers.entry_count(ledger_id)
        if 0 <= entry_id < count:
            return topic
        if count < 0:  # trimmed since the last id of it
            self._known[ledger_id] = None
            self._last_id = -1
            return self.find(id)
        raise NoSuchEntryError(ledger_id, entry_id, f"the ledger has {count} entries")

    def _turn_to(self, ledger_id: int, entry_id: int) -> None:
        if ledger_id not in self._known:
            self._known[ledger_id] = self._look_up(ledger_id, entry_id)
        self._last = self._known[ledger_id]
        self._last_id = ledger_id

    def _look_up(self, ledger_id: int, entry_id: int) -> Topic | None:
        for topic in self._topics:
            if topic.ledgers.entry_count(ledger_id) >= 0:
                return topic
        for topic in self._topics:
            if was_trimmed(topic, ledger_id):
                return None
        which = "it never had this ledger"
        if len(self._topics) > 1:
            which = f"none of its {len(self._topics)} partitions ever had this ledger"
        raise NoSuchEntryError(ledger_id, entry_id, which)

    def _check_partition(self, id: MessageIdData, topic: Topic | None) -> None:
        partition = int(id.partition)
        found = self._partitions.get(partition)
        if found is None:
            reason = f"it names partition {partition}, which is not asked about"
        elif topic is not None and topic is not found:
            reason = f"it is of partition {topic.partition}, not of {partition}"
        else:
            return
        raise NoSuchEntryError(int(id.ledger_id), int(id.entry_id), reason)


def was_trimmed(topic: Topic, ledger_id: int) -> bool:
    """Returns whether a ledger that the topic does not have may have been its own."""
    state = topic.store.log.state
    if ledger_id <= topic.id or ledger_id in state.ledgers:
        return False
    if ledger_id in state.cursors or ledger_id in state.topics:
        return False
    return topic.ledgers.was_trimmed(ledger_id)


def skip_messages(
    topics: list[Topic], subscription: str, ids: list[MessageIdData]
) -> Promise[None]:
    """Acks messages by name, on one topic or over all partitions of one, all or nothing.

    `batch_index` -1 is the whole entry. Breaks the promise with BrokerError (not found, not
    allowed, not now) or UsageError (an id that names nothing); then nothing has changed.
    """
    try:
        skip = Skip(topics, subscription, ids)
        while skip.plan_piece():
            pass
        return skip.carry_out()
    except (BrokerError, UsageError) as error:
        return broken(error)


@final
class Skip:
    """A list of ids on its way, as `skip_messages` has it, for who lets others have their turn.

        skip = Skip(topics, "sub", ids)
        while skip.plan_piece():
            ...
        promise = skip.carry_out()
        promise = skip.recalled(wait_ms)

    Each of the first three raises BrokerError and UsageError; then nothing has changed. The
    last is for after the promise of the third is kept: the skip is durable then, and what
    consumers hold of it is being taken back, unless it was made with `recall` false.
    """

    def __init__(
        self,
        topics: list[Topic],
        name: str,
        ids: list[MessageIdData],
        *,
        recall: bool = False,
        details: bool = False,
    ) -> None:
        self._topics: Final = topics
        self._name: Final = name
        self._ids: Final = ids
        self._recall: Final = Recall(topics[0].host) if recall else None
        # What becomes of each id, if anybody wants to know.
        self._details: Final = details
        self.results: Final[list[IdResult]] = []
        self._finder: Final = MessageFinder(topics)
        self._moves: Final[list[Move]] = []
        self._next: int = 0
        self._piece_ids: Final = topics[0].broker.pieces.ids
        self._record_bytes: int = 0
        self._record_bytes_max: Final = topics[0].settings.max_ack_state_bytes_per_request
        found = [topic.subscriptions.get(name) for topic in topics]
        for topic in topics:
            topic.require_open()
        if not any(found):
            raise _no_subscription(topics[0], name)
        for subscription in found:
            if subscription is not None:
                _require_possible(subscription)
        if not topics[0].settings.batch_index_ack:
            _require_no_index(ids)

    def plan_piece(self) -> bool:
        """Checks and plans some ids, fewer of large batches; False if there are no more."""
        found: dict[int, list[MessageIdData]] = {}
        weight = 0
        end = min(self._next + self._piece_ids, len(self._ids))
        while self._next < end and weight < PIECE_RECORD_BYTES:
            id = self._ids[self._next]
            self._next += 1
            topic = self._finder.find(id)
            if self._details:
                self.results.append(self._result(topic, id))
            if topic is not None:
                weight += _check_index(topic, id)
                found.setdefault(topic.id, []).append(id)
            elif id.batch_index < -1:
                raise BatchIndexError(id.ledger_id, id.entry_id, _no_index(id))
        for topic in self._topics:
            if topic.id in found:
                self._plan(topic, found[topic.id])
        return self._next < len(self._ids)

    def _result(self, topic: Topic | None, id: MessageIdData) -> IdResult:
        if topic is None:
            return IdResult(id, -1, trimmed=True)
        subscription = topic.subscriptions.get(self._name)
        if subscription is None:
            raise _no_subscription(topic, self._name)
        left = subscription.cursor.remaining(Position(id.ledger_id, id.entry_id))
        index = int(id.batch_index)
        acked = left is not None and (left == 0 or (index >= 0 and left >> index & 1 == 0))
        return IdResult(id, topic.id, acked=acked)

    def _plan(self, topic: Topic, ids: list[MessageIdData]) -> None:
        subscription = topic.subscriptions.get(self._name)
        if subscription is None:
            raise _no_subscription(topic, self._name)
        delta = subscription.cursor.plan_messages(ids)
        self._record_bytes += delta.record_bytes
        if 0 < self._record_bytes_max < self._record_bytes:
            raise AckSizeError(self._record_bytes_max)
        # Of those that are acked already all is durable.
        if not delta.empty:
            self._moves.append(Move(subscription, delta))

    def carry_out(self) -> Promise[None]:
        """Writes what was planned, and applies it when it is durable."""
        assert self._next >= len(self._ids), "not everything is planned"
        growth: dict[int, int] = {}
        for move in self._moves:
            move.require_possible()
            subscription = move.subscription
            grows = growth.get(subscription.topic.id, 0) + move.delta.growth
            growth[subscription.topic.id] = grows
            refusal = subscription.share.fault(subscription.title, grows) if grows else None
            if refusal is not None:
                raise refusal
        return move_together(self._moves, self._recall)

    def recalled(self, wait_ms: int) -> Promise[None]:
        """Kept when consumers have given back what they hold of it, or after so long."""
        promise: Promise[None] = Promise()
        self._wait_for_recall(wait_ms, promise)
        return promise

    def _wait_for_recall(self, wait_ms: int, promise: Promise[None]) -> None:
        recall = self._recall
        if recall is None:
            promise.keep(None)
            return
        subscriptions = self._subscriptions()
        if any(subscription.letting_go > 0 for subscription in subscriptions):
            # Another skip is applied, and asks consumers in a moment: perhaps for the same.
            host = self._topics[0].host
            host.call_soon(lambda: self._wait_for_recall(wait_ms, promise))
            return
        self._ask_others(recall, subscriptions, 0, wait_ms, promise)

    def _ask_others(
        self,
        recall: Recall,
        subscriptions: list[Subscription],
        first: int,
        wait_ms: int,
        promise: Promise[None],
    ) -> None:
        """What was acked before, and what others take back: some ids, and then the next ones."""
        end = min(first + self._piece_ids, len(self._ids))
        ids = self._ids[first:end]
        for subscription in subscriptions:
            recall.take_overtaken(subscription, ids)
            recall.join(subscription, self._keys(subscription, ids))
        if end < len(self._ids):
            self._topics[0].host.call_soon(
                lambda: self._ask_others(recall, subscriptions, end, wait_ms, promise)
            )
        else:
            recall.confirmed(wait_ms).then(promise.keep, promise.fail)

    def _subscriptions(self) -> list[Subscription]:
        found = [topic.subscriptions.get(self._name) for topic in self._topics]
        return [subscription for subscription in found if subscription is not None]

    def _keys(self, subscription: Subscription, ids: list[MessageIdData]) -> list[int]:
        """Returns the entries that were named, if it matters which."""
        if not subscription.withdrawals:
            return []
        return subscription.topic.ledgers.keys(ids)

    @property
    def skipped(self) -> int:
        """How many messages were not acked before, as it was when it was applied."""
        return sum([move.messages for move in self._moves])

    @property
    def recall(self) -> Recall | None:
        """What was taken back, from whom."""
        return self._recall


def _require_possible(subscription: Subscription) -> None:
    type = subscription.type
    if type is not None and not type.skips_single_messages:
        raise BrokerError(
            ServerError.NotAllowedError,
            f"{subscription.title} is {type.name}: single messages are skipped "
            "on Shared and Key_Shared ones",
        )
    if subscription.closed or subscription.fenced:
        doing = "closed" if subscription.closed else "being reset"
        raise BrokerError(
            ServerError.ServiceNotReady, f"{subscription.title} is {doing}: try again"
        )


def _was_reset(subscription: Subscription) -> BrokerError:
    return BrokerError(
        ServerError.ServiceNotReady, f"{subscription.title} was reset meanwhile: try again"
    )


def _require_no_index(ids: list[MessageIdData]) -> None:
    for id in ids:
        if id.batch_index >= 0:
            raise BrokerError(
                ServerError.NotAllowedError,
                "acknowledgmentAtBatchIndexLevelEnabled is false here: skip whole batches, or "
                "switch it on",
            )


def _no_subscription(topic: Topic, name: str) -> BrokerError:
    return BrokerError(
        ServerError.SubscriptionNotFound, f"Subscription {name!r} of {topic.name} not found"
    )


def _check_index(topic: Topic, id: MessageIdData) -> int:
    """Also of an entry that is acked: an index that it never had is a mistake.

    Returns how many bytes it takes to keep that this index alone is acked.
    """
    index = int(id.batch_index)
    if index == -1:
        return 0
    size = topic.ledgers.sizes.batch_size(id.ledger_id, id.entry_id)
    if index < -1:
        raise BatchIndexError(id.ledger_id, id.entry_id, _no_index(id))
    if 0 < size <= index:
        raise BatchIndexError(id.ledger_id, id.entry_id, f"no index {index} in a batch of {size}")
    if size > 0 and id.batch_size > 0 and id.batch_size != size:
        raise BatchIndexError(
            id.ledger_id, id.entry_id, f"a batch of {size} messages, not of {id.batch_size}"
        )
    return record_bytes(size)


def _no_index(id: MessageIdData) -> str:
    return f"no message has index {id.batch_index}"


def move_together(moves: list[Move], recall: Recall | None = None) -> Promise[None]:
    """Writes what was planned for several cursors as one, and applies it when it is durable.

    Then it is looked who holds what each named, so that it can be asked for, and then one after
    the other lets go of it; others have their turn in between. First all of them are looked at:
    two may name parts of one batch, of which nobody knows the holder once it is let go of.
    """
    if not moves:
        return kept(None)
    promise: Promise[None] = Promise()
    topic = moves[0].subscription.topic

    def settled(error: Exception | None) -> None:
        for move in moves:
            move.subscription.share.arrived(move.delta.growth)
        for move in moves:
            if error is None and move.subscription.cursor.epoch != move.delta.epoch:
                error = _was_reset(move.subscription)
        if error is not None:
            promise.fail(error)
            return
        for move in moves:
            move.apply()
            move.subscription.letting_go += 1
        take_back(0)

    def take_back(index: int) -> None:
        move = moves[index]
        if recall is not None and move.is_of_this_life:
            recall.take_back(move.subscription, move.delta, single=move.single)
        if recall is not None and index + 1 < len(moves):
            topic.host.call_soon(lambda: take_back(index + 1))
            return
        let_go(0)

    def let_go(index: int) -> None:
        if moves[index].is_of_this_life:
            moves[index].subscription.have_moved(moves[index].delta)
        if index + 1 < len(moves):
            topic.host.call_soon(lambda: let_go(index + 1))
            return
        ask()

    def ask() -> None:
        if recall is not None and recall.ask_next():
            topic.host.call_soon(ask)
            return
        for move in moves:
            move.subscription.letting_go -= 1
        promise.keep(None)

    stored = [
        (move.subscription.cursor_id, int(move.delta.epoch), move.data)
        for move in moves
        if move.subscription.durable
    ]
    for move in moves:
        move.subscription.share.reserve(move.delta.growth)
    if not stored:
        settled(None)
        return promise
    try:
        ticket = topic.store.append_deltas(stored)
    except StorageError as error:
        settled(error)
        return promise
    for move in moves:
        move.subscription.unsettled_acks.have_queued(ticket)
    topic.host.kick()
    topic.wait_for(ticket).when_done(settled)
    return promise
