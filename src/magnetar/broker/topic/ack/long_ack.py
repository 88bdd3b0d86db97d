"""An ACK of more than is dealt with in one go: others have their turn between its pieces.

| step   | what happens                                        | what can go wrong               |
|--------|-----------------------------------------------------|---------------------------------|
| plan   | the ids of one piece are checked, piece by piece    | one is wrong, or a reset came   |
| room   | what all pieces take together is asked for          | too much                        |
| write  | all pieces go to the journal as one group           | the disk                        |
| apply  | they are durable: the cursor knows them, all at     | a reset came first              |
|        | once                                                |                                 |
| tell   | the dispatcher lets go of them, piece by piece      | -                               |
| answer | after the last                                      |                                 |

Whatever goes wrong, nothing is acked, and the answer says so: the chunks of one message must
not be acked in part (I6).

Nothing that depends on acks goes on meanwhile: the subscription counts it as being looked for.
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from magnetar.ack import AckDelta, encode_delta
from magnetar.broker.commits import Commit
from magnetar.broker.topic.ack.ack_answer import answer_ack, refuse_ack
from magnetar.broker.topic.consumer import Consumer
from magnetar.errors import AckSizeError, StorageError, UsageError
from magnetar.model import ServerError
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import CommandAck

if TYPE_CHECKING:
    from magnetar.broker.topic.subscription import Subscription
    from magnetar.broker.topic.topic import Topic

__all__ = ["PIECE_IDS", "PIECE_RECORD_BYTES", "LongAck"]

# What is planned, or told, in one go: two or three milliseconds of work.
PIECE_IDS: Final = 2000
PIECE_RECORD_BYTES: Final = 1 << 20
# What one ACK may take on the disk, unless there are no limits: it is written in one group, and
# whoever publishes waits for that. Of batches of 3000 messages it is more than 10,000, which is
# what our client names at once.
WRITTEN_BYTES_MAX: Final = 4 << 20


@final
class _Piece:
    """Some of the ids: what they ack, as it is written, and the keys of their entries."""

    def __init__(self, delta: AckDelta, keys: list[int], *, single: bool) -> None:
        self.delta: Final = delta
        self.single: Final = single
        self.data: Final = encode_delta(delta)
        self.keys: Final = keys


@final
class _Written(Commit):
    """All pieces on their way to the disk."""

    def __init__(self, ticket: int, ack: "LongAck") -> None:
        super().__init__(ticket)
        self._ack: Final = ack
        self._applied: bool = False

    def topic(self) -> "Topic | None":
        return self._ack.subscription.topic

    def apply(self, error: Exception | None) -> None:
        self._applied = self._ack.apply(error)

    def settle(self, error: Exception | None) -> None:
        self._ack.written(error, applied=self._applied)


@final
class LongAck:
    """See the module."""

    def __init__(self, subscription: "Subscription", consumer: Consumer, ack: CommandAck) -> None:
        self.subscription: Final = subscription
        self._consumer: Final = consumer
        self._request_id: Final = ack.request_id
        self._ids: Final[list[MessageIdData]] = ack.message_ids
        self._epoch: Final = int(subscription.cursor.epoch)
        self._next: int = 0
        self._piece_ids: int = PIECE_IDS
        self._pieces: Final[list[_Piece]] = []
        self._told: int = 0
        self._record_bytes: i64 = 0
        self._written_bytes: i64 = 0
        # What it has of what the peer may have on its way to the disk.
        self._held: i64 = 0
        self._growth: i64 = 0

    def plan(self) -> None:
        """Checks the next piece; after the last one, writes."""
        subscription = self.subscription
        piece = self._ids[self._next : self._next + self._piece_ids]
        if self._is_refused():
            return
        try:
            delta = subscription.cursor.plan_acks(piece, PIECE_RECORD_BYTES)
            conflict = subscription.pending.conflict(delta)
            if conflict is not None:
                self._refuse(conflict.code, conflict.reason)
                return
            self._take(delta, piece)
        except AckSizeError:
            # Of large batches fewer make a piece; one alone always does. The peer's next ACK waits.
            self._hold(PIECE_RECORD_BYTES)
            self._piece_ids = max(len(piece) // 2, 1)
        except UsageError as error:
            self._refuse(ServerError.NotAllowedError, str(error))
            return
        limit = subscription.topic.settings.max_ack_state_bytes_per_request
        if limit > 0 and (self._record_bytes > limit or self._written_bytes > WRITTEN_BYTES_MAX):
            limit = limit if self._record_bytes > limit else WRITTEN_BYTES_MAX
            self._refuse(ServerError.NotAllowedError, str(AckSizeError(limit)))
            return
        more = self._next < len(self._ids)
        subscription.topic.host.call_soon(self.plan if more else self._write)

    def _is_refused(self) -> bool:
        """Whether the subscription takes no acks now, or was reset since this one came."""
        refusal = self.subscription.not_now()
        if refusal is not None:
            self._refuse(refusal.code, refusal.reason)
            return True
        if self.subscription.cursor.epoch != self._epoch:
            self._was_reset()
            return True
        return False

    def _take(self, delta: AckDelta, piece: list[MessageIdData]) -> None:
        self._next += len(piece)
        self._record_bytes += delta.record_bytes
        self._growth += delta.growth
        if not delta.empty:
            cursor, ledgers = self.subscription.cursor, self.subscription.topic.ledgers
            made = _Piece(delta, ledgers.keys(piece), single=cursor.are_single(delta))
            self._pieces.append(made)
            if delta.record_bytes > 0:
                self._written_bytes += len(made.data)
                self._hold(self._written_bytes)

    def _write(self) -> None:
        subscription = self.subscription
        if self._is_refused():
            return
        fault = subscription.share.fault(subscription.title, self._growth)
        if fault is not None:
            self._refuse(fault.code, fault.reason)
            return
        if not self._pieces:
            self._release()
            subscription.unsettled_acks.end_search()
            subscription.answer_in_turn(self._consumer, self._request_id)
            return
        subscription.share.reserve(self._growth)
        if not subscription.durable:
            self.written(None, applied=self.apply(None))
            return
        stored = [(subscription.cursor_id, self._epoch, piece.data) for piece in self._pieces]
        try:
            ticket = subscription.topic.store.append_deltas(stored)
        except StorageError as error:
            subscription.share.arrived(self._growth)
            self._refuse(ServerError.PersistenceError, str(error))
            return
        subscription.unsettled_acks.have_queued(ticket)
        subscription.topic.commits.add(_Written(ticket, self))
        subscription.topic.host.kick()

    def apply(self, error: Exception | None) -> bool:
        """The pieces are durable, or not. Says whether the cursor knows them now."""
        self.subscription.share.arrived(self._growth)
        self._release()
        if error is not None or self.subscription.cursor.epoch != self._epoch:
            return False
        for piece in self._pieces:
            self.subscription.apply_acks(piece.delta, single=piece.single)
        return True

    def written(self, error: Exception | None, *, applied: bool) -> None:
        if error is not None:
            self._refuse(ServerError.PersistenceError, f"the ack was not written: {error}")
        elif not applied:
            self._was_reset()
        else:
            self._tell()

    def _tell(self) -> None:
        """Tells the dispatcher of the next piece; after the last one, answers."""
        subscription = self.subscription
        piece = self._pieces[self._told]
        self._told += 1
        subscription.have_acked(piece.keys, self._consumer, moves=False)
        if self._told < len(self._pieces):
            subscription.topic.host.call_soon(self._tell)
            return
        subscription.unsettled_acks.end_search()
        answer_ack(self._consumer, self._request_id)

    def _was_reset(self) -> None:
        self._refuse(ServerError.ServiceNotReady, self.subscription.was_reset)

    def _hold(self, size: i64) -> None:
        """So much of the peer's acks, at least, is on its way to the disk."""
        if size > self._held:
            self._consumer.peer.acks_began(size - self._held)
            self._held = size

    def _release(self) -> None:
        """It is on the disk, or will never be: the peer may go on."""
        size = self._held
        self._held = 0
        self._consumer.peer.acks_ended(size)

    def _refuse(self, code: int, reason: str) -> None:
        self._release()
        refuse_ack(self._consumer, self._request_id, code, reason)
        self.subscription.unsettled_acks.end_search()
