"""Skipping messages by name: acks that an operator gives, all of them or none (PIP-423).

| step  | what happens                                          | what can go wrong           |
|-------|-------------------------------------------------------|-----------------------------|
| find  | each id finds its topic, among all partitions         | NoSuchEntryError            |
| check | its batch index is one of the entry's                 | BatchIndexError             |
| plan  | every cursor says what is new to it                   | BrokerError: who may not    |
| write | all deltas go to the journal as one group             | StorageError                |
| apply | cursors first, then dispatchers let go of the entries | -                           |

Nothing is changed before the last id is checked, and nothing afterwards unless the group is
durable; recovery takes a group whole or not at all. From the plan to the queue of the journal
nothing else runs, so no ack, seek or unload comes in between. What they do later finds the
skip done, and it is theirs that wait: the journal has one order for all of them.

Ids that are acked or trimmed already are fine: what was asked for is so. Ledger ids are
counted for the whole store and never given twice, so one that no partition has was either
trimmed or never there. It counts as trimmed if it is newer than the topic, older than all
that the topic has, and nobody else's.
"""

from typing import Final, final

from magnetar.ack import AckDelta, encode_delta
from magnetar.broker.promise import Promise, broken, kept
from magnetar.broker.subscription import Subscription
from magnetar.broker.topic import Topic
from magnetar.errors import BatchIndexError, BrokerError, NoSuchEntryError, StorageError, UsageError
from magnetar.model import ServerError
from magnetar.model.message_id_data import MessageIdData

__all__ = ["MessageFinder", "move_together", "skip_messages"]

Move = tuple[Subscription, AckDelta]


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

    def find(self, id: MessageIdData) -> Topic | None:
        """The topic that has the entry; None if it was trimmed.

        Raises NoSuchEntryError if it never was, or if it is of another partition than the
        id says.
        """
        ledger_id, entry_id = int(id.ledger_id), int(id.entry_id)
        if ledger_id not in self._known:
            self._known[ledger_id] = self._look_up(ledger_id, entry_id)
        topic = self._known[ledger_id]
        self._check_partition(id, topic)
        if topic is None:
            if entry_id < 0:
                raise NoSuchEntryError(ledger_id, entry_id, "entries are counted from 0")
            return None
        count = topic.ledgers.entry_count(ledger_id)
        if not 0 <= entry_id < count:
            raise NoSuchEntryError(ledger_id, entry_id, f"the ledger has {count} entries")
        return topic

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
        if partition == -1:
            return
        found = self._partitions.get(partition)
        if found is None:
            reason = f"it names partition {partition}, which is not asked about"
        elif topic is not None and topic is not found:
            reason = f"it is of partition {topic.partition}, not of {partition}"
        else:
            return
        raise NoSuchEntryError(int(id.ledger_id), int(id.entry_id), reason)


def was_trimmed(topic: Topic, ledger_id: int) -> bool:
    """Whether a ledger that the topic does not have may have been its own."""
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
        return move_together(_plan(topics, subscription, ids))
    except (BrokerError, UsageError) as error:
        return broken(error)


def _plan(topics: list[Topic], name: str, ids: list[MessageIdData]) -> list[Move]:
    subscriptions = [topic.subscriptions[name] for topic in topics if name in topic.subscriptions]
    _require_possible(topics, name, subscriptions, ids)
    finder = MessageFinder(topics)
    found: dict[int, list[MessageIdData]] = {topic.id: [] for topic in topics}
    for id in ids:
        topic = finder.find(id)
        if topic is not None:
            _check_index(topic, id)
            found[topic.id].append(id)
        elif id.batch_index < -1:
            raise BatchIndexError(id.ledger_id, id.entry_id, _no_index(id))
    moves: list[Move] = []
    for topic in topics:
        wanted = found[topic.id]
        if not wanted:
            continue
        if name not in topic.subscriptions:
            raise _no_subscription(topic, name)
        subscription = topic.subscriptions[name]
        moves.append((subscription, subscription.cursor.plan_messages(wanted)))
    return moves


def _require_possible(
    topics: list[Topic], name: str, subscriptions: list[Subscription], ids: list[MessageIdData]
) -> None:
    for topic in topics:
        topic.require_open()
    if not subscriptions:
        raise _no_subscription(topics[0], name)
    for subscription in subscriptions:
        if subscription.type_name in ("Exclusive", "Failover"):
            raise BrokerError(
                ServerError.NotAllowedError,
                f"{subscription.title} is {subscription.type_name}: single messages are skipped "
                "on Shared and Key_Shared ones",
            )
        if subscription.closed or subscription.fenced:
            doing = "closed" if subscription.closed else "being reset"
            raise BrokerError(
                ServerError.ServiceNotReady, f"{subscription.title} is {doing}: try again"
            )
    if not topics[0].settings.batch_index_ack:
        for id in ids:
            if id.batch_index >= 0:
                raise BrokerError(
                    ServerError.NotAllowedError,
                    "acknowledgmentAtBatchIndexLevelEnabled is false here: skip whole batches, "
                    "or switch it on",
                )


def _no_subscription(topic: Topic, name: str) -> BrokerError:
    return BrokerError(
        ServerError.SubscriptionNotFound, f"Subscription {name!r} of {topic.name} not found"
    )


def _check_index(topic: Topic, id: MessageIdData) -> None:
    """Also of an entry that is acked: an index that it never had is a mistake."""
    index = int(id.batch_index)
    if index == -1:
        return
    size = topic.ledgers.sizes.batch_size(id.ledger_id, id.entry_id)
    if index < -1:
        raise BatchIndexError(id.ledger_id, id.entry_id, _no_index(id))
    if 0 < size <= index:
        raise BatchIndexError(id.ledger_id, id.entry_id, f"no index {index} in a batch of {size}")
    if size > 0 and id.batch_size > 0 and id.batch_size != size:
        raise BatchIndexError(
            id.ledger_id, id.entry_id, f"a batch of {size} messages, not of {id.batch_size}"
        )


def _no_index(id: MessageIdData) -> str:
    return f"no message has index {id.batch_index}"


def move_together(moves: list[Move]) -> Promise[None]:
    """Writes what was planned for several cursors as one, and applies it when it is durable.

    A move that changes nothing is left out: all of it is durable already.
    """
    moves = [move for move in moves if not move[1].empty]
    if not moves:
        return kept(None)
    promise: Promise[None] = Promise()
    topic = moves[0][0].topic

    def settled(error: Exception | None) -> None:
        for subscription, delta in moves:
            if error is None and subscription.cursor.epoch != delta.epoch:
                error = BrokerError(
                    ServerError.ServiceNotReady, f"{subscription.title} was reset meanwhile"
                )
        if error is not None:
            promise.fail(error)
            return
        for subscription, delta in moves:
            subscription.cursor.apply(delta)
        for subscription, delta in moves:
            subscription.have_moved(delta)
        promise.keep(None)

    stored = [
        (subscription.cursor_id, int(delta.epoch), encode_delta(delta))
        for subscription, delta in moves
        if subscription.durable
    ]
    if not stored:
        settled(None)
        return promise
    try:
        ticket = topic.store.append_deltas(stored)
    except StorageError as error:
        return broken(error)
    for subscription, _ in moves:
        subscription.wait_for(ticket)
    topic.host.kick()
    topic.commits.when(ticket, settled)
    return promise
