"""Acks of a consumer inside transactions: what they name, and what the end of one brings.

`ack/transaction_acks.py` sends them. What is acked is told to the others as with a plain ack, since
the application is done with it until the transaction ends. Then:

| the end   | what was acked in it                                                                |
|-----------|-------------------------------------------------------------------------------------|
| committed | is acked, and never comes again                                                     |
| aborted   | comes again: where one consumer is active it asks for all that is not acked, as     |
|           | brokers bring it all then anyhow, and so each message comes once; where consumers   |
|           | share, the broker brings what it had recorded, to any of them, and what it had not, |
|           | or has brought too early, is asked for                                              |
| overturned| likewise: the broker brings what it had recorded, before anybody says that the      |
|           | transaction is aborted. It cannot be committed any more                             |
| not known | is held back as before: if it was committed nothing comes, and if not, what comes   |
|           | overturns it                                                                        |

Java's client leaves what had not been recorded with the consumer until that is closed, and throws
away what is in its queue without knowing whether the broker sends it again.
"""

from collections.abc import Sequence
from typing import Final, final

from mypy_extensions import i64

from magnetar.client.ack.entry_acks import Cumulative, Done
from magnetar.client.ack.entry_state import IDLE
from magnetar.client.ack.tracker import AckTracker
from magnetar.client.ack.transaction_acks import End, Named, Piece
from magnetar.client.consumer.acknowledger import GONE, UNDONE, Acknowledger, check_names_message
from magnetar.client.consumer.chunk.spans import ChunkSpans
from magnetar.client.consumer.counts import ConsumerCounts
from magnetar.client.consumer.message import Delivery, Message
from magnetar.client.consumer.outstanding import Outstanding
from magnetar.client.consumer.permits import Permits
from magnetar.client.consumer.receive_queue import ReceiveQueue
from magnetar.client.consumer.redelivery import Redelivery
from magnetar.client.transaction.core import TransactionCore
from magnetar.client.transaction.enlistment import ABORTING, COMMITTED, Enlistment
from magnetar.errors import (
    CumulativeAcknowledgementNotAllowedError,
    Interrupted,
    InvalidTxnStatusError,
    NotAllowedError,
    UsageError,
)
from magnetar.model.message_id import ChunkMessageId, MessageId
from magnetar.model.position_key import wide_key
from magnetar.wire.ack_set import all_unacked

__all__ = ["ConsumerTransactions"]

SPLIT: Final = (
    "a message in chunks reaches over this one and is not acknowledged with it, so that a "
    "cumulative ack would be several: acknowledge the messages one by one, or a list of them"
)
OVERTURNED: Final = (
    "the broker has aborted the transaction, by somebody's order or for its time: it delivers "
    "again what was acknowledged in it. Do it again in another one"
)


@final
class ConsumerTransactions:
    """See the module. `single`: one consumer is active and gets everything."""

    def __init__(
        self,
        single: bool,
        *,
        acks: AckTracker,
        acknowledger: Acknowledger,
        spans: ChunkSpans,
        outstanding: Outstanding,
        queue: ReceiveQueue,
        permits: Permits,
        redelivery: Redelivery,
        counts: ConsumerCounts,
    ) -> None:
        self._single: Final[bool] = single
        self._acks: Final = acks
        self._acknowledger: Final = acknowledger
        self._spans: Final = spans
        self._outstanding: Final = outstanding
        self._queue: Final = queue
        self._permits: Final = permits
        self._redelivery: Final = redelivery
        self._counts: Final = counts

    # ---- What is acked -------------------------------------------------------

    def acknowledge(
        self, enlistment: Enlistment, ids: Sequence[Message | MessageId], done: Done | None
    ) -> None:
        """All of them or, if one of them cannot be acked, none."""
        named = self._check(ids, enlistment.transaction)
        self._queue.expect_copies()
        self._acks.transactions.acknowledge(enlistment, named, done)
        self._counts.messages_acked += len(ids)
        for one in named:
            self._have_acked(one)

    def check(
        self, ids: Sequence[Message | MessageId], transaction: TransactionCore | None
    ) -> None:
        """Raises what keeps one of them from being acked, in a transaction or in none.

        That is TransactionConflict for what was acked in another that is open.
        """
        if transaction is not None or self._acks.transactions.parts:
            self._check(ids, transaction)

    def _check(
        self, ids: Sequence[Message | MessageId], transaction: TransactionCore | None
    ) -> list[Named]:
        ours = [self._acknowledger.ours(id) for id in ids]
        self._acknowledger.check(ours)
        named: list[Named] = []
        for id in ours:
            if isinstance(id, MessageId):
                named.extend(self._named_by_id(id))
            elif not id._delivery.gone:
                named.extend(self._named(id._delivery, id._index))
            elif transaction is not None:
                raise Interrupted(GONE)
        self._acks.transactions.check(named, transaction)
        return named

    def _named(self, delivery: Delivery, index: i64) -> list[Named]:
        if delivery.chunks is not None:
            return self._chunks(delivery.key, delivery.chunks)
        if delivery.batch_size == 0:
            return [Named(delivery.key, 0, 1)]
        return [Named(delivery.key, delivery.batch_size, 1 << int(index))]

    def _named_by_id(self, id: MessageId) -> list[Named]:
        key = wide_key(id.ledger_id(), id.entry_id())
        chunks = self._acks.records.chunks_of(key)
        if chunks is not None:
            return self._chunks(key, chunks)
        if isinstance(id, ChunkMessageId):
            # Those between its first and its last may not be known to anybody here.
            raise UsageError(
                f"{id} is a message in chunks that did not come to this consumer, so that its "
                "chunks are not known here: acknowledge the message where it came"
            )
        if id.batch_index() < 0:
            return [Named(key, 0, 1)]
        return [Named(key, id.batch_size(), 1 << id.batch_index())]

    def _chunks(self, key: int, chunks: list[int]) -> list[Named]:
        # Kept until the end is known, for it is by the last that all are asked for again.
        self._acks.records.chunks[key] = chunks
        return [Named(chunk, 0, 1) for chunk in chunks]

    def _have_acked(self, one: Named) -> None:
        if one.batch_size == 0:
            self._acknowledger.drop_copies(one.key, -1)
            self._outstanding.acked(one.key, -1, True)
            return
        record = self._acks.records.get(one.key)
        left = all_unacked(one.batch_size) if record is None else record.unacked()
        complete = left & ~self._acks.transactions.acked_of(one.key) == 0
        for index in range(one.batch_size):
            if one.bits >> int(index) & 1:
                self._acknowledger.drop_copies(one.key, index)
                self._outstanding.acked(one.key, index, complete)

    def acknowledge_cumulative(
        self, enlistment: Enlistment, message: Message | MessageId, done: Done | None
    ) -> None:
        """Acks everything through a message."""
        self.check_cumulative()
        if isinstance(message, Message) and message._delivery.gone:
            raise Interrupted(GONE)
        if isinstance(message, Message) and message._delivery.undone:
            raise Interrupted(UNDONE)
        id = message.message_id() if isinstance(message, Message) else message
        check_names_message(id, "ack")
        self._acknowledger.check([id])
        cumulative = Cumulative(id.ledger_id(), id.entry_id(), id.batch_index(), id.batch_size())
        if self._acknowledger.is_beyond(id) or (
            self._spans.active and self._spans.split(cumulative.key) is not None
        ):
            raise NotAllowedError(SPLIT)
        self._queue.expect_copies()
        self._acks.transactions.acknowledge_cumulative(enlistment, cumulative, done)
        self._counts.messages_acked += 1
        count = self._queue.drop_through(cumulative)
        if count > 0:
            self._give_back(count)
        self._outstanding.acked_through(
            cumulative.key if cumulative.index < 0 else cumulative.key - 1
        )

    def check_cumulative(self) -> None:
        """Raises CumulativeAcknowledgementNotAllowedError where consumers share a subscription."""
        if not self._single:
            raise CumulativeAcknowledgementNotAllowedError(
                "consumers that share a subscription cannot ack cumulatively: acknowledge the "
                "messages one by one, or a list of them"
            )

    def flush(self) -> None:
        """Sends what was acked in transactions, as far as it can be sent."""
        self._acks.transactions.flush()

    def _give_back(self, count: i64) -> None:
        self._counts.messages_dropped += count
        self._permits.give_back(count)

    def take_back(self, key: int, index: i64) -> None:
        """A negative ack of a message; index -1 is all of an entry."""
        chunks = self._acks.records.chunks_of(key)
        bits = -1 if index < 0 else 1 << int(index)
        for one in [key] if chunks is None else chunks:
            self._acks.transactions.take_back(one, bits)

    # ---- The end -------------------------------------------------------------

    def ended(self, transaction: TransactionCore, end: int, online: bool) -> None:
        """A transaction ends: see the module."""
        if end == ABORTING and self._single:
            return  # what is asked for now, the broker would keep back
        found = self._acks.transactions.end(transaction)
        if found is None:
            return
        if end == COMMITTED:
            for piece in found.recorded:
                self._commit(piece)
        elif self._single:
            self._redelivery.everything(online)
        else:
            self._bring_again(found, online)

    def came(self, key: int, unacked: int) -> None:
        """An entry is here: transactions that the broker has aborted, as that shows, end."""
        for transaction in self._acks.transactions.overturned_by(key, unacked):
            late = transaction.late
            transaction.fail(transaction.too_late() if late else InvalidTxnStatusError(OVERTURNED))
            found = self._acks.transactions.end(transaction)
            if self._single:
                self._redelivery.everything(True)
            elif found is not None:
                self._bring_again(found, True, came=key)

    def _commit(self, piece: Piece) -> None:
        records = self._acks.records
        records.chunks.pop(piece.key, None)
        if piece.cumulative is None:
            some = records.get(piece.key)
            found = [] if some is None else [some]
        else:
            found = records.all()
            if self._spans.active:
                self._spans.acked_through(piece.key)
        for acks in found:
            left = piece.left_of(acks.key, acks.unacked())
            acks.known = piece.left_of(acks.key, acks.known)
            acks.keep(left)
            if acks.state == IDLE and left == 0:
                records.drop(acks)

    def _bring_again(self, found: End, online: bool, *, came: int = -1) -> None:
        """What `came` is here; all else the broker brings, or is asked for."""
        again = [key for key in found.again if key != came]
        # Who gets what was acked of a batch gets the rest with it, be it another consumer.
        recorded = {piece.key for piece in found.recorded if piece.key != came}
        count = self._queue.drop(recorded.difference(again))
        if count > 0:
            self._give_back(count)
        for key in recorded:
            self._outstanding.forget(key)
        if again and online:
            self._redelivery.entries(self._last_chunks(again))

    def _last_chunks(self, keys: list[int]) -> list[int]:
        """Chunks are asked for together, by the last of them."""
        of = {chunk: last for last, chunks in self._acks.records.chunks.items() for chunk in chunks}
        return list(dict.fromkeys([of.get(key, key) for key in keys]))
