"""Acks as the application asks for them: by message, by id, through a message.

What is acked concerns several others, and is told to each: the tracker, which sends it; what
is outstanding; the queue, if a message came again before it was acked and is still there:
nobody is given a message that he has acked, unless he refused it before that was confirmed. To
ack a message in chunks is to ack them all; an id from elsewhere tells the first and the last of
them. The ack says so, and a broker of ours acks those between; the assembler acks what is here of
them, for brokers that do not.
"""

from collections.abc import Sequence
from typing import Final, final

from mypy_extensions import i64

from magnetar.client.ack.answers import GivenUp
from magnetar.client.ack.entry_acks import Cumulative, Done, Waiter
from magnetar.client.ack.tracker import AckTracker
from magnetar.client.consumer.arrival.incoming import Incoming
from magnetar.client.consumer.chunk.assembler import ChunkAssembler
from magnetar.client.consumer.chunk.spans import ChunkSpans, Split
from magnetar.client.consumer.counts import ConsumerCounts
from magnetar.client.consumer.message import Message
from magnetar.client.consumer.outstanding import Outstanding
from magnetar.client.consumer.permits import Permits
from magnetar.client.consumer.receive_queue import ReceiveQueue
from magnetar.errors import Interrupted, InvalidMessageIdError
from magnetar.model.message_id import ChunkMessageId, MessageId, message_id_of
from magnetar.model.message_id_data import MessageIdData
from magnetar.model.position_key import wide_key, wide_key_entry, wide_key_ledger
from magnetar.wire.integer import INT64_MAX

__all__ = ["AckFailure", "Acknowledger", "check_names_message"]

UNDONE: Final = (
    "the subscription was reset after the message came: what is before it may have come back, and "
    "is not acked with it. Acknowledge messages that came since, or this one by itself"
)
NOT_HERE: Final = (
    "the message did not come since the consumer began, or since its last seek, and a message in "
    "chunks reaches over it that is not acked with it: what else is before it is not known here. "
    "Nothing is acked. Acknowledge it when it has come"
)
GONE: Final = (
    "the message came from another cluster, or from a subscription that was made anew since: "
    "there is nothing to acknowledge here"
)


@final
class AckFailure:
    """Messages whose ack failed for good, or one of a cumulative ack, and why."""

    def __init__(self, message_ids: list[MessageId], error: Exception, cumulative: bool) -> None:
        self.message_ids: Final = message_ids
        self.error: Final = error
        self.cumulative: Final = cumulative


@final
class Acknowledger:
    """See the module."""

    def __init__(
        self,
        topic: str,
        partition: i64,
        *,
        acks: AckTracker,
        assembler: ChunkAssembler,
        spans: ChunkSpans,
        outstanding: Outstanding,
        queue: ReceiveQueue,
        permits: Permits,
        counts: ConsumerCounts,
        incoming: Incoming,
    ) -> None:
        self._incoming: Final = incoming
        self._topic: Final = topic
        self._partition: Final[i64] = partition
        self._acks: Final = acks
        self._assembler: Final = assembler
        self._spans: Final = spans
        self._outstanding: Final = outstanding
        self._queue: Final = queue
        self._permits: Final = permits
        self._counts: Final = counts
        # Acks that failed at once, and nobody was told of, and no answer tells: what they were of
        # is gone, or not here.
        self.failed: Final[list[AckFailure]] = []

    def acknowledge_message(self, message: Message, done: Done | None) -> bool:
        """Acks one message; the short way for what is done most.

        Says whether the next tick may be sooner now, which is for the first ack of a group.
        """
        if message._delivery.origin is not self._incoming.origin:
            # It came to another consumer, or from what is gone.
            self.acknowledge([message], done)
            return True
        if self._acks.retries is not None:
            self._acks.check_room(1)
        self.ack(message)
        return self._acks.joined(done)

    def acknowledge(self, ids: Sequence[Message | MessageId], done: Done | None) -> None:
        """All of them or, if one of them cannot be acked, none; but for what is gone."""
        ids = [self.ours(id) for id in ids]
        self.check(ids)
        here = [id for id in ids if isinstance(id, MessageId) or not id._delivery.gone]
        if len(here) < len(ids):
            gone = [id for id in ids if isinstance(id, Message) and id._delivery.gone]
            ids_gone = [message.message_id() for message in gone]
            done = self._fail(ids_gone, GONE, done, more=bool(here))
        for id in here:
            if isinstance(id, MessageId):
                self._ack_id(id)
            else:
                self.ack(id)
        if here:
            self._acks.joined(done)

    def ours(self, id: Message | MessageId) -> Message | MessageId:
        """A message from another consumer is acked by its id: it may be of another partition."""
        if isinstance(id, Message) and id._delivery.topic != self._topic and not id._delivery.gone:
            return id.message_id()
        return id

    def _fail(
        self,
        ids: list[MessageId],
        reason: str,
        done: Done | None,
        *,
        more: bool = False,
        cumulative: bool = False,
    ) -> Done | None:
        """Acks of these would be of something else. Returns who waits for the others."""
        error = Interrupted(reason)
        self._acks.counts.exhausted += len(ids)
        self.failed.append(AckFailure(ids, error, cumulative))
        if done is None:
            return None
        waiter = Waiter(done, 2 if more else 1)
        waiter.count_down(error if self._acks.waits else None)
        return waiter.count_down

    def acknowledge_cumulative(self, message: Message | MessageId, done: Done | None) -> bool:
        """Acks everything through a message. Says whether the next tick may be sooner now."""
        if isinstance(message, Message) and (message._delivery.gone or message._delivery.undone):
            reason = GONE if message._delivery.gone else UNDONE
            self._fail([message.message_id()], reason, done, cumulative=True)
            return True
        id = message.message_id() if isinstance(message, Message) else message
        self._check(id)
        if self.is_beyond(id):
            self._fail([id], NOT_HERE, done, cumulative=True)
            return True
        cumulative = Cumulative(id.ledger_id(), id.entry_id(), id.batch_index(), id.batch_size())
        self._counts.messages_acked += 1
        if self._spans.active:
            again = self._spans.came_in_part(cumulative.key)
            split = self._spans.split(cumulative.key)
            self._spans.acked_through(cumulative.key)
            if split is not None:
                self._ack_split(split, again, cumulative, done)
                return True
            cumulative.held_back = len(again) > 0
        else:
            self._spans.rest()
        self._ack_through(cumulative)
        # Of the entry itself something may be left.
        through = cumulative.key if cumulative.index < 0 else cumulative.key - 1
        self._outstanding.acked_through(through)
        return self._acks.joined(done, cumulative=True)

    def is_beyond(self, id: MessageId) -> bool:
        """Whether something in front of a message must be spared, and the rest did not come."""
        if self._incoming.has_come(id.ledger_id(), id.entry_id()):
            return False
        key = wide_key(id.ledger_id(), id.entry_id())
        if self._spans.reached_over(key):
            return True
        return self._spans.active and self._spans.split(key) is not None

    # ---- One by one ----------------------------------------------------------

    def ack(self, message: Message) -> None:
        """Acks a message of this consumer; the caller says that the ack is joined."""
        delivery = message._delivery
        if delivery.chunks is not None:
            self._ack_chunks(delivery.chunks)
            return
        acks = delivery.acks
        if acks is None or acks.owner is not self._acks.records:
            acks = self._acks.records.find(
                delivery.ledger_id,
                delivery.entry_id,
                delivery.batch_size,
                delivery.unacked_now(),
                delivery.hidden_now(),
            )
            delivery.acks = acks
        complete = self._acks.acknowledge(acks, message._index)
        self._counts.messages_acked += 1
        if self._queue.copies:
            self.drop_copies(delivery.key, message._index)
        self._outstanding.acked(delivery.key, message._index, complete)

    def _ack_id(self, id: MessageId) -> None:
        # The application may have it from elsewhere, while it waits here.
        self._queue.expect_copies()
        key = wide_key(id.ledger_id(), id.entry_id())
        if isinstance(id, ChunkMessageId) or self._acks.records.chunks_of(key) is not None:
            keys = self.chunks_of(id, key)
            known = self._acks.records.chunks_of(key) is not None
            if isinstance(id, ChunkMessageId) and len(keys) == 2 and keys[0] + 1 < key:
                # As from a refusal by such an id: there may be chunks between that nobody named.
                known = False
            if not known:
                keys[1:1] = self._assembler.acked_elsewhere(keys[0], key)
            self._ack_chunks(keys, all_known=known)
            return
        self._ack_index(key, id.batch_index(), id.batch_size())
        self._counts.messages_acked += 1

    def _ack_index(self, key: int, index: i64, batch_size: i64) -> None:
        complete = self._acks.acknowledge(self._acks.records.find_id(key, index, batch_size), index)
        self._outstanding.acked(key, index, complete)
        if self._queue.copies:
            self.drop_copies(key, index)

    def _ack_chunks(self, keys: list[int], *, all_known: bool = True) -> None:
        """Acks a message in chunks, all of them."""
        key = keys[-1]
        self._acks.ack_chunks(keys, all_known=all_known)
        self._outstanding.acked(key, -1, True)
        if self._queue.copies:
            # It may be on its way here once more.
            for chunk in self._assembler.forget_from(keys[0]):
                self._acks.records.hold_back(chunk)
            self.drop_copies(key, -1)
        self._counts.messages_acked += 1

    def take_back(self, key: int, index: i64) -> None:
        """A message is refused: an ack of it that is not confirmed does not count."""
        chunks = self._acks.records.chunks_of(key)
        if chunks is None:
            self._acks.take_back(key, index)
        else:
            for chunk in chunks:
                self._acks.take_back(chunk, -1)

    def chunks_of(self, id: MessageId, key: int) -> list[int]:
        """The keys of all chunks of a message that was split, as far as they are known."""
        known = self._acks.records.chunks_of(key)
        if known is not None:
            return known
        assert isinstance(id, ChunkMessageId)
        first = id.first_chunk_message_id()
        return [wide_key(first.ledger_id(), first.entry_id()), key]

    def drop_copies(self, key: int, index: i64) -> None:
        """What came again of a message that was acked is not for the application."""
        count = self._queue.drop_copies(key, index)
        if count > 0:
            self._acks.records.hold_back(key)
            self._have_dropped(count)

    def _have_dropped(self, count: i64) -> None:
        self._counts.messages_dropped += count
        self._permits.give_back(count)

    # ---- Through a message ---------------------------------------------------

    def _ack_through(self, cumulative: Cumulative) -> None:
        self._acks.acknowledge_cumulative(cumulative)
        count = self._queue.drop_through(cumulative)
        if count > 0:
            cumulative.held_back = True
            self._have_dropped(count)

    def _ack_split(
        self, split: Split, again: list[int], cumulative: Cumulative, done: Done | None
    ) -> None:
        """Acks everything through a message but the chunks of one that ends behind it.

        Chunks that come `again` of messages that are acked are held back.
        """
        both: Done | None = None if done is None else Waiter(done, 2).count_down
        if split.before >= 0:
            first = Cumulative(wide_key_ledger(split.before), wide_key_entry(split.before), -1, 0)
            first.held_back = len(again) > 0
            self._ack_through(first)
            self._acks.joined(both, cumulative=True)
        elif both is not None:
            both(None)
        for key in dict.fromkeys(split.keys + [key for key in again if key > split.before]):
            if key != cumulative.key:
                self._ack_index(key, -1, 0)
        for key in again:
            self._acks.records.hold_back(key)
        if cumulative.index < 0:
            self._ack_index(cumulative.key, -1, 0)
        for index in range(cumulative.index + 1):
            self._ack_index(cumulative.key, index, cumulative.batch_size)
        self._acks.joined(both)

    # ---- Ids -----------------------------------------------------------------

    def check(self, ids: Sequence[Message | MessageId]) -> None:
        """Raises what keeps one of them from being acked."""
        self._acks.check_room(len(ids))
        for id in ids:
            if isinstance(id, MessageId):
                self._check(id)

    def _check(self, id: MessageId) -> None:
        check_names_message(id, "ack")
        if id.partition() >= 0 and id.partition() != self._partition:
            where = f"partition {self._partition}" if self._partition >= 0 else "no partition"
            raise InvalidMessageIdError(
                f"{id} is of partition {id.partition()}, and this consumer reads {where}"
            )
        if id.batch_index() >= 0:
            key = wide_key(id.ledger_id(), id.entry_id())
            self._acks.records.check_id(key, id.batch_index(), id.batch_size())

    def take_failures(self) -> list[AckFailure]:
        """Acks that failed for good since the last call: of what is gone, or that were retried."""
        failures = [self._failure(given_up) for given_up in self._acks.take_given_up()]
        failures.extend(self.failed)
        self.failed.clear()
        return failures

    def _failure(self, given_up: GivenUp) -> AckFailure:
        ids: list[MessageId] = []
        for key, size, bits in given_up.entries:
            if size == 0:
                ids.append(self._id_at(key, -1, 0))
            for index in range(size):
                if bits >> index & 1:
                    ids.append(self._id_at(key, index, size))
        cumulative = given_up.cumulative
        if cumulative is not None:
            ids.append(self._id_at(cumulative.key, cumulative.index, cumulative.batch_size))
        return AckFailure(ids, given_up.error, cumulative is not None)

    def _id_at(self, key: int, index: i64, size: i64) -> MessageId:
        data = MessageIdData(
            wide_key_ledger(key), wide_key_entry(key), self._partition, index, None, size
        )
        return message_id_of(data, self._topic)


def check_names_message(id: MessageId, purpose: str) -> None:
    """Raises InvalidMessageIdError for an id that is a place in a topic, such as its end."""
    if id.ledger_id() < 0 or id.entry_id() < 0 or id.ledger_id() == INT64_MAX:
        raise InvalidMessageIdError(
            f"{id} is a position between messages: there is no message to {purpose}"
        )
