"""The end of one transaction: written as one group, and carried out in one event.

| step   | what happens                                                                     |
|--------|----------------------------------------------------------------------------------|
| gather | which topics and cursors it is about, as the log has them                        |
| write  | a commit: the deltas of all cursors, and the end; an abort: what aborted of each |
|        | ledger, and the end. One group, so a crash leaves all of it or nothing           |
| apply  | it is durable: cursors know their acks, before anybody is told of anything       |
| settle | topics grow to their next horizon, dispatchers let go of what was acked or hand  |
|        | out what is free again, and whoever asked for the end is answered                |

Topics that are not loaded need nothing: they will find it all in the log. Those that are being
loaded have found what was there before, and begin anew.
"""

from typing import TYPE_CHECKING, Final, final

from pyroaring import BitMap

from magnetar.ack import AckDelta, encode_delta
from magnetar.broker.commits import Commit
from magnetar.broker.promise import Promise
from magnetar.broker.topic.persistent_topic import PersistentTopic
from magnetar.broker.transaction.transaction import Transaction

if TYPE_CHECKING:
    from magnetar.broker.broker import Broker
    from magnetar.broker.topic.subscription import Subscription

__all__ = ["TransactionEnd"]


@final
class _Ended(Commit):
    """The end on its way to the disk."""

    def __init__(self, ticket: int, end: "TransactionEnd") -> None:
        super().__init__(ticket)
        self._end: Final = end
        self.written: Final[Promise[None]] = Promise()

    def apply(self, error: Exception | None) -> None:
        if error is None:
            self._end.apply()

    def settle(self, error: Exception | None) -> None:
        if error is None:
            self._end.settle()
        self.written.end(error)


@final
class TransactionEnd:
    """See the module."""

    def __init__(self, broker: "Broker", transaction: Transaction, *, commit: bool) -> None:
        self._broker: Final = broker
        self._transaction: Final = transaction
        self._commit: Final = commit
        # By topic, which entries of which ledgers are its own.
        self._sent: Final[dict[str, dict[int, BitMap]]] = {}
        # The cursors of which it has acks: of which topic and subscription, and the merged delta.
        self._acks: Final[list[tuple[str, str, int, AckDelta]]] = []
        # What changed in subscriptions that are loaded.
        self._moved: Final[list[tuple[Subscription, AckDelta, list[int]]]] = []
        self._gather()

    def _gather(self) -> None:
        log, number = self._broker.store.log, self._transaction.number
        for ledger_id, entries in log.state.transactions.open[number].sent.items():
            ledger = log.state.ledgers.get(ledger_id)
            topic = None if ledger is None else log.state.topics.get(ledger.topic_id)
            if topic is not None:
                self._sent.setdefault(topic.name, {})[ledger_id] = BitMap(entries)
        for cursor_id, acks in self._transaction.acks.items():
            cursor = log.state.cursors.get(cursor_id)
            if cursor is None or log.deleting(cursor_id) or log.deleting(cursor.topic_id):
                continue  # a subscription that is gone has nothing to ack
            topic = log.state.topics.get(cursor.topic_id)
            if topic is not None:
                self._acks.append((topic.name, cursor.name, cursor_id, acks.merged()))

    def write(self) -> Promise[None]:
        """Queues it; kept when it is durable and carried out. Raises StorageError."""
        log, number = self._broker.store.transactions, self._transaction.number
        if self._commit:
            deltas = [
                (cursor_id, int(delta.epoch), encode_delta(delta))
                for _, _, cursor_id, delta in self._acks
            ]
            ticket = log.commit(number, deltas)
        else:
            ticket = log.abort(number)
        ended = _Ended(ticket, self)
        self._broker.commits.add(ended)
        return ended.written

    # ---- It is durable -------------------------------------------------------

    def apply(self) -> None:
        """Cursors know what was acked, or are rid of what waited."""
        for topic_name in {*self._sent, *[name for name, _, _, _ in self._acks]}:
            loading = self._broker.loadings.get(topic_name)
            if loading is not None:
                loading.begin_anew()
        number = self._transaction.number
        for topic_name, name, cursor_id, delta in self._acks:
            topic = self._topic(topic_name)
            subscription = None if topic is None else topic.subscriptions.get(name)
            if subscription is None or subscription.cursor_id != cursor_id:
                continue
            keys = subscription.pending.remove(number)
            if self._commit:
                subscription.apply_acks(delta)
            self._moved.append((subscription, delta, keys))

    def settle(self) -> None:
        """Topics show what was sent, and dispatchers hear of what was acked, or was not."""
        for topic_name, sent in self._sent.items():
            topic = self._topic(topic_name)
            if topic is not None:
                try:
                    topic.transaction_ended(self._transaction.number, {} if self._commit else sent)
                except Exception as error:
                    topic.give_up(error)
        for subscription, delta, keys in self._moved:
            try:
                self._tell(subscription, delta, keys)
            except Exception as error:
                subscription.topic.give_up(error)

    def _tell(self, subscription: "Subscription", delta: AckDelta, keys: list[int]) -> None:
        if subscription.closed:
            return
        if self._commit:
            subscription.have_moved(delta)
            return
        dispatcher = subscription.dispatcher
        if dispatcher is not None and keys:
            dispatcher.released(keys)
        if dispatcher is not None and delta.mark_delete is not None:
            dispatcher.released_through(delta.mark_delete)

    def _topic(self, name: str) -> PersistentTopic | None:
        topic = self._broker.topics.get(name)
        return topic if isinstance(topic, PersistentTopic) else None
