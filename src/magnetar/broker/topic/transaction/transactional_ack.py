"""An ACK in a transaction: it is planned like any other, and waits for the transaction's end.

| step    | what happens                                             | what can go wrong           |
|---------|----------------------------------------------------------|-----------------------------|
| quiet   | acks that came before, and are in none, are settled      | -                           |
| plan    | what the ids name; none of it is acked, or another's     | TransactionConflict         |
| write   | the delta goes to the journal, as one that waits         | the disk                    |
| durable | the dispatcher lets go of it, and the consumer is told   | a reset came: it means      |
|         |                                                          | nothing any more            |

It counts as pending from the moment it is queued: of two transactions that ack one message at the
same time, the second has a conflict, whatever becomes of the first.
"""

from typing import TYPE_CHECKING, Final, final

from magnetar.ack import AckDelta, encode_delta
from magnetar.broker.commits import Commit
from magnetar.broker.topic.ack.long_ack import PIECE_IDS, PIECE_RECORD_BYTES
from magnetar.broker.topic.consumer import Consumer
from magnetar.broker.topic.transaction.pending_acks import TransactionAcks, memory_of
from magnetar.errors import AckSizeError, BrokerError, StorageError, UsageError
from magnetar.model import AckType, Position, ServerError
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import CommandAck, CommandAckResponse

if TYPE_CHECKING:
    from magnetar.broker.topic.dispatch.dispatcher import Dispatcher
    from magnetar.broker.topic.subscription import Subscription
    from magnetar.broker.topic.topic import Topic
    from magnetar.broker.transaction.transaction import Transaction

__all__ = ["TransactionalAck", "transactional_ack"]


def transactional_ack(subscription: "Subscription", consumer: Consumer, ack: CommandAck) -> None:
    """Takes an ACK that is part of a transaction, all of it or nothing."""
    TransactionalAck(subscription, consumer, ack).begin()


@final
class TransactionalAck:
    """See the module."""

    def __init__(self, subscription: "Subscription", consumer: Consumer, ack: CommandAck) -> None:
        self.subscription: Final = subscription
        self._consumer: Final = consumer
        self._ack: Final = ack

    def begin(self) -> None:
        """Waits until acks in no transaction are settled: what they ack is known then."""
        self.subscription.unsettled_acks.plain_settled().when_done(lambda error: self._plan())

    def _plan(self) -> None:
        try:
            self._write()
        except AckSizeError as error:
            self._answer(BrokerError(ServerError.NotAllowedError, str(error)))
        except UsageError as error:
            self._answer(BrokerError(ServerError.NotAllowedError, str(error)))
        except StorageError as error:
            self._answer(BrokerError(ServerError.PersistenceError, str(error)))
        except BrokerError as error:
            self._answer(error)

    def _write(self) -> None:
        subscription, ack = self.subscription, self._ack
        refusal = subscription.not_now()
        if refusal is not None:
            raise refusal
        if not subscription.durable:
            raise BrokerError(
                ServerError.NotAllowedError,
                f"{subscription.title} is not durable: acknowledge without a transaction",
            )
        if len(ack.message_ids) > PIECE_IDS:
            raise BrokerError(
                ServerError.NotAllowedError,
                f"one ACK in a transaction names {PIECE_IDS} messages at most, "
                f"not {len(ack.message_ids)}",
            )
        topic = subscription.topic
        transactions = topic.broker.transactions
        transaction = transactions.for_ack(
            int(ack.txnid_most_bits),
            int(ack.txnid_least_bits),
            str(topic.name),
            subscription.name,
            len(ack.message_ids),
            self._consumer.peer.principal,
        )
        delta = self._delta()
        pending = subscription.pending
        number = transaction.number
        if not delta.empty and pending.has(number, delta):
            # Said twice: what it said first may still be on its way. Who says it has it.
            pending.by_number[number].consumer_key = self._consumer.key
            self._tell_of_change()
            topic.wait_for(transaction.ticket).when_done(self._answer_written)
            return
        dispatcher = subscription.dispatcher
        if dispatcher is not None and dispatcher.may_not_transact(self._consumer):
            raise BrokerError(
                ServerError.TransactionConflict,
                "another consumer is active, or was handed what this one has",
            )
        self._require_unacked(delta)
        other = pending.holder(number, delta)
        if other != 0:
            raise BrokerError(
                ServerError.TransactionConflict,
                f"a message of this ack is acknowledged in transaction (0,{other})",
            )
        fault = subscription.share.fault(subscription.title, memory_of(delta))
        if fault is not None:
            raise fault
        ticket = topic.store.transactions.ack(number, subscription.cursor_id, encode_delta(delta))
        transaction.ticket = ticket
        transactions.have_acked(transaction, len(ack.message_ids))
        acks = transaction.acks.get(subscription.cursor_id)
        if acks is None or acks.epoch != delta.epoch:
            acks = TransactionAcks(number, int(delta.epoch))
            transaction.acks[subscription.cursor_id] = acks
        acks.consumer_key = self._consumer.key
        if dispatcher is not None:
            dispatcher.transacts(self._consumer)
        pending.add(acks, delta, ticket)
        # Redeliveries wait for it, too.
        subscription.unsettled_acks.have_queued_in_transaction(ticket)
        topic.commits.add(_Pending(ticket, self, transaction, acks, delta))
        topic.host.kick()

    def _delta(self) -> AckDelta:
        subscription, ack = self.subscription, self._ack
        if ack.ack_type == AckType.Cumulative:
            return subscription.cursor.plan_cumulative(
                ack.message_ids[0],
                whole_entries=not subscription.topic.settings.batch_index_ack,
            )
        return subscription.cursor.plan_acks(ack.message_ids, PIECE_RECORD_BYTES)

    def _require_unacked(self, delta: AckDelta) -> None:
        """Raises BrokerError if something that is named is acked already."""
        if delta.empty:
            raise self._acked()
        if self._ack.ack_type == AckType.Individual:
            for id in self._ack.message_ids:
                if self._is_acked(id):
                    raise self._acked()

    def _acked(self) -> BrokerError:
        return BrokerError(
            ServerError.TransactionConflict, "a message of this ack is acknowledged already"
        )

    def _is_acked(self, id: MessageIdData) -> bool:
        """Whether some of what an id names is acked."""
        left = self.subscription.cursor.remaining(Position(id.ledger_id, id.entry_id))
        if left is None:
            return False
        if left == 0:
            return True
        ack_set = id.ack_set
        if ack_set is None or ack_set == 0:
            return False  # the rest of a batch
        size = self.subscription.size_at(id.ledger_id, id.entry_id)
        every = (1 << size) - 1
        return (every & ~ack_set & ~left) != 0

    # ---- It is durable, or not -----------------------------------------------

    def settle_written(
        self,
        transaction: "Transaction",
        acks: TransactionAcks,
        delta: AckDelta,
        ticket: int,
        error: Exception | None,
    ) -> None:
        """The record is settled."""
        subscription, consumer = self.subscription, self._consumer
        if error is not None:
            subscription.topic.broker.transactions.have_acked(
                transaction, -len(self._ack.message_ids)
            )
            if subscription.pending.take_back(acks, delta, ticket):
                # Of all of a group at once, which may be thousands.
                subscription.topic.host.call_soon(self._tell_of_refused)
            if not acks.deltas and transaction.acks.get(subscription.cursor_id) is acks:
                del transaction.acks[subscription.cursor_id]
            self._answer_written(error)
            self._tell_of_change()
            return
        if subscription.cursor.epoch != delta.epoch:
            self._answer(BrokerError(ServerError.ServiceNotReady, subscription.was_reset))
            return
        now_ms = subscription.topic.host.now_ms()
        consumer.last_acked_ms = now_ms
        subscription.last_acked_ms = now_ms
        keys: list[int] = []
        if self._ack.ack_type == AckType.Individual:
            keys = subscription.topic.ledgers.keys(self._ack.message_ids)
        if subscription.dispatcher is not None and keys:
            self._tell(subscription.dispatcher, keys)
        self._answer(None)

    def _tell(self, dispatcher: "Dispatcher", keys: list[int]) -> None:
        """The dispatcher lets go of what is pending now."""
        subscription = self.subscription
        for id in self._ack.message_ids:
            key = subscription.topic.ledgers.key(id.ledger_id, id.entry_id)
            if id.ack_set and key >= 0:
                every = (1 << subscription.size_at(id.ledger_id, id.entry_id)) - 1
                dispatcher.pending(key, every & ~id.ack_set, self._consumer)
        dispatcher.acked(keys, self._consumer)

    def _tell_of_refused(self) -> None:
        """What was not written is not pending, and was passed over as if it were."""
        subscription = self.subscription
        keys = subscription.pending.take_refused()
        if subscription.dispatcher is not None and keys:
            subscription.dispatcher.refused(keys)

    def _tell_of_change(self) -> None:
        """Somebody may have waited behind what is pending."""
        if self.subscription.dispatcher is not None:
            self.subscription.dispatcher.changed()

    def _answer_written(self, error: Exception | None) -> None:
        if error is None:
            self._answer(None)
            return
        reason = f"the ack was not written: {error}"
        self._answer(BrokerError(ServerError.PersistenceError, reason))

    def _answer(self, error: BrokerError | None) -> None:
        ack, consumer = self._ack, self._consumer
        if ack.request_id is None:
            return
        response = CommandAckResponse(consumer.id, ack.request_id)
        if error is not None:
            response.error = int(error.code)
            response.message = error.reason
        response.txnid_least_bits = ack.txnid_least_bits
        response.txnid_most_bits = ack.txnid_most_bits
        consumer.peer.send(response)


@final
class _Pending(Commit):
    """A delta that will wait for the end of its transaction, on its way to the disk."""

    def __init__(
        self,
        ticket: int,
        ack: TransactionalAck,
        transaction: "Transaction",
        acks: TransactionAcks,
        delta: AckDelta,
    ) -> None:
        super().__init__(ticket)
        self._ack: Final = ack
        self._transaction: Final = transaction
        self._acks: Final = acks
        self._delta: Final = delta

    def topic(self) -> "Topic | None":
        return self._ack.subscription.topic

    def settle(self, error: Exception | None) -> None:
        self._ack.settle_written(self._transaction, self._acks, self._delta, self.ticket, error)
