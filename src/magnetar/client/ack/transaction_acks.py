"""Acks inside transactions: each counts when its transaction is committed, or not at all.

They have nothing to do with the group that plain acks are gathered in: an ACK names one transaction
and what was acked in that, never more. A `Piece` is what one ACK is to say of one entry (or of
everything through one message):

| state     | means                                                                              |
|-----------|------------------------------------------------------------------------------------|
| gathered  | not sent: it waits for the coordinator, for the connection, or for more to join it |
| in flight | sent, and not answered; every ACK of a transaction asks for an answer              |
| recorded  | the broker has it, and the end of the transaction decides                          |
| ended     | the transaction has ended, or the ack has failed and the transaction with it       |

| event     | means                                                                              |
|-----------|------------------------------------------------------------------------------------|
| sent      | an ACK names it                                                                    |
| kept      | the broker has recorded it                                                         |
| lost      | the connection broke before the answer: it is sent again on the next               |
| failed    | it was refused, or not answered in time; or a negative ack, a seek or the end of   |
|           | the consumer came                                                                  |
| decided   | the transaction has ended                                                          |

`TABLE` has the moves.

Who acks a message is done with it as far as the transaction is concerned, so a copy that comes
while that is open is held back. What it says depends on the ack of its message:

| the ack is            | the copy was sent                      | so the transaction             |
|-----------------------|----------------------------------------|--------------------------------|
| gathered or in flight | before the broker had the ack, perhaps | goes on                        |
| recorded              | after that, since answers and messages | was aborted: its time is over, |
|                       | come in their order; brokers keep back | or somebody has ended it. It   |
|                       | what is acked in an open transaction   | is overturned                  |

Perhaps nobody says so otherwise: of a commit that got no answer the application need not ask again,
and a program may hang. What is overturned has ended, before what came is looked at.

If the transaction is aborted, what came again or had failed is asked for, and everything else the
broker brings by itself; if it is committed, nothing of it comes again. What fails dooms its
transaction (`TransactionCore`), so it never happens that some of its acks count.
"""

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from magnetar.client.ack.deadlines import earlier
from magnetar.client.ack.entry_acks import Cumulative, Done, Waiter
from magnetar.client.ack.settings import AckSettings
from magnetar.client.errors import error_of
from magnetar.client.transaction.core import TransactionCore
from magnetar.client.transaction.enlistment import Enlistment
from magnetar.errors import Interrupted, Timeout, TransactionConflict
from magnetar.model.enums import AckType
from magnetar.model.message_id_data import MessageIdData
from magnetar.model.position_key import wide_key_entry, wide_key_ledger
from magnetar.protocol.ack import CommandAck, CommandAckResponse
from magnetar.protocol.command import Command
from magnetar.wire.ack_set import all_unacked

__all__ = ["TABLE", "End", "Named", "Piece", "TransactionAcks"]

GATHERED: Final = 0
IN_FLIGHT: Final = 1
RECORDED: Final = 2
ENDED: Final = 3

SENT: Final = 0
KEPT: Final = 1
LOST: Final = 2
FAILED: Final = 3
DECIDED: Final = 4

EVENTS: Final = 5
NO: Final = 255

TABLE: Final[tuple[tuple[int, ...], ...]] = (
    #           sent       kept      lost      failed decided
    (GATHERED,  IN_FLIGHT, NO,       NO,       ENDED, ENDED),
    (IN_FLIGHT, NO,        RECORDED, GATHERED, ENDED, ENDED),
    (RECORDED,  NO,        NO,       NO,       ENDED, ENDED),
    (ENDED,     NO,        NO,       NO,       NO,    NO),
)  # fmt: skip

# Other ACKs of the consumer have smaller request ids.
FIRST_REQUEST_ID: Final = 1 << 40
# As in other ACKs: what one may name.
IDS_MAX: Final = 10_000

SOUGHT: Final = "a seek came after messages were acknowledged in the transaction, and undoes that"
REFUSED: Final = "a negative ack of a message came that was acknowledged in the transaction"


@final
class Named:
    """Some messages of an entry; of one that is no batch, which has size 0, bit 0."""

    def __init__(self, key: int, batch_size: i64, bits: int) -> None:
        self.key: Final = key
        self.batch_size: Final[i64] = batch_size
        self.bits: Final = bits


@final
class Piece:
    """See the module. With a `cumulative` it is everything through that."""

    def __init__(
        self, key: int, batch_size: i64, bits: int, cumulative: Cumulative | None, waiter: Waiter
    ) -> None:
        self.key: Final = key
        self.batch_size: Final[i64] = batch_size
        self.bits: Final = bits
        self.cumulative: Final = cumulative
        self.waiter: Final = waiter
        self.state: i64 = GATHERED
        # Its entry came again: a copy of one of its messages was dropped, or the rest of a batch
        # came without them.
        self.came_again: bool = False

    def move(self, event: i64) -> None:
        following = TABLE[self.state][event + 1]
        assert following != NO, f"an ack of a transaction in state {self.state} had event {event}"
        self.state = following

    def left_of(self, key: int, unacked: int) -> int:
        """What it leaves of the `unacked` messages of an entry."""
        if self.cumulative is not None:
            return self.cumulative.unacked(key, unacked)
        if key != self.key:
            return unacked
        return unacked & ~self.bits if self.batch_size > 0 else 0

    def id(self) -> MessageIdData:
        """Returns its id as an ACK names it."""
        size = self.batch_size
        left = 0
        if self.cumulative is not None:
            if self.cumulative.index >= 0:
                left = self.cumulative.unacked(self.key, all_unacked(size))
        elif size > 0:
            left = all_unacked(size) & ~self.bits
        ack_set = left if left else None
        return MessageIdData(
            wide_key_ledger(self.key), wide_key_entry(self.key), ack_set=ack_set, batch_size=size
        )


@final
class Part:
    """What one transaction has of one consumer."""

    def __init__(self, enlistment: Enlistment) -> None:
        self.enlistment: Final = enlistment
        self.transaction: Final = enlistment.transaction
        # All that have not failed.
        self.pieces: list[Piece] = []
        # Those of them that are to be sent.
        self.outgoing: list[Piece] = []
        # Entries whose ack has failed: they are the application's to do again.
        self.failed: Final[list[int]] = []
        # When what is gathered is to be sent, if nothing sends it before.
        self.due_ms: int | None = None

    def take_outgoing(self) -> list[Piece]:
        outgoing = self.outgoing
        self.outgoing = []
        self.due_ms = None
        return [piece for piece in outgoing if piece.state == GATHERED]


@final
class End:
    """How acks of a transaction stand at its end: what the broker has, and what failed."""

    def __init__(self, recorded: list[Piece], failed: list[int]) -> None:
        self.recorded: Final = recorded
        self.failed: Final = failed

    @property
    def again(self) -> list[int]:
        """Entries that nobody brings again by himself."""
        came_again = [piece.key for piece in self.recorded if piece.came_again]
        return list(dict.fromkeys(self.failed + came_again))


@final
class _Flight:
    """An ACK that has no answer yet."""

    def __init__(self, part: Part, pieces: list[Piece], due_ms: int) -> None:
        self.part: Final = part
        self.pieces: Final = pieces
        self.due_ms: Final = due_ms


@final
class TransactionAcks:
    """Those of one consumer. `write` is only called while there is a connection."""

    def __init__(
        self,
        consumer_id: i64,
        settings: AckSettings,
        *,
        now_ms: Callable[[], int],
        write: Callable[[list[Command]], None],
    ) -> None:
        self._consumer_id: Final[i64] = consumer_id
        self._group_time_ms: Final[i64] = settings.group_time_ms
        self._group_size_max: Final[i64] = settings.group_size_max
        self._timeout_ms: Final[i64] = settings.receipt_timeout_ms
        self._now_ms: Final = now_ms
        self._write: Final = write
        self._connected: bool = False
        # What open transactions have of this consumer; mostly there are none.
        self.parts: Final[dict[TransactionCore, Part]] = {}
        self._flights: Final[dict[int, _Flight]] = {}
        self._request_id: int = FIRST_REQUEST_ID
        # By entry: what was acked of it in transactions that are open.
        self._acked: Final[dict[int, int]] = {}
        self._cumulatives: i64 = 0

    @property
    def unanswered(self) -> int:
        """How many acks the broker has not answered."""
        count = 0
        for part in self.parts.values():
            for piece in part.pieces:
                if piece.state <= IN_FLIGHT:
                    count += 1
        return count

    # ---- What is acked -------------------------------------------------------

    def check(self, named: list[Named], transaction: TransactionCore | None) -> None:
        """Raises TransactionConflict for what was acked in another transaction that is open."""
        for one in named:
            if self._acked.get(one.key, 0) & one.bits:
                self._check(one, transaction)

    def _check(self, one: Named, transaction: TransactionCore | None) -> None:
        for part in self.parts.values():
            if part.transaction is transaction:
                continue
            for piece in part.pieces:
                if piece.cumulative is None and piece.key == one.key and piece.bits & one.bits:
                    raise TransactionConflict(
                        f"a message of entry {wide_key_ledger(one.key)}:{wide_key_entry(one.key)} "
                        f"was acknowledged in transaction {part.transaction.id}, which is open: "
                        "it is acknowledged when that is committed, and comes again otherwise"
                    )

    def acknowledge(self, enlistment: Enlistment, named: list[Named], done: Done | None) -> None:
        """Acks messages, which `check` has passed; what the transaction has already is done.

        Raises what `TransactionCore.join` does. `done` is called when all are recorded, or with
        what went wrong.
        """
        enlistment.transaction.join()
        part = self._part_of(enlistment)
        new = [one for one in named if self._is_new(part, one)]
        waiter = Waiter(self._ending(enlistment.transaction, done), max(len(new), 1))
        for one in new:
            self._add(part, Piece(one.key, one.batch_size, one.bits, None, waiter))
            self._acked[one.key] = self._acked.get(one.key, 0) | one.bits
        if not new:
            waiter.count_down(None)
        else:
            self._gather(part, done)

    def acknowledge_cumulative(
        self, enlistment: Enlistment, cumulative: Cumulative, done: Done | None
    ) -> None:
        """Acks everything through a message. Raises as `acknowledge` does."""
        enlistment.transaction.join()
        part = self._part_of(enlistment)
        waiter = Waiter(self._ending(enlistment.transaction, done), 1)
        self._add(part, Piece(cumulative.key, cumulative.batch_size, 0, cumulative, waiter))
        self._cumulatives += 1
        self._gather(part, done)

    def _is_new(self, part: Part, one: Named) -> bool:
        """Whether the transaction does not have all of it already."""
        bits = one.bits
        if self._cumulatives or self._acked.get(one.key, 0) & bits:
            for piece in part.pieces:
                bits = piece.left_of(one.key, bits)
        return bits != 0

    def _add(self, part: Part, piece: Piece) -> None:
        part.pieces.append(piece)
        part.outgoing.append(piece)

    def _part_of(self, enlistment: Enlistment) -> Part:
        part = self.parts.get(enlistment.transaction)
        if part is None:
            part = Part(enlistment)
            self.parts[enlistment.transaction] = part
        return part

    def _ending(self, transaction: TransactionCore, done: Done | None) -> Done:
        def ended(error: Exception | None) -> None:
            transaction.leave(1, error)
            if done is not None:
                done(error)

        return ended

    def _gather(self, part: Part, done: Done | None) -> None:
        at_once = done is not None or self._group_time_ms == 0
        if at_once or len(part.outgoing) >= self._group_size_max:
            self._flush(part)
        elif part.due_ms is None:
            part.due_ms = self._now_ms() + self._group_time_ms

    # ---- Sending -------------------------------------------------------------

    def flush(self) -> None:
        """Sends what is gathered, as far as it can be; what never can be has failed."""
        for part in list(self.parts.values()):
            self._flush(part)

    def _flush(self, part: Part) -> None:
        part.due_ms = None
        if not part.outgoing or part.enlistment.awaited:
            return
        if not part.enlistment.ready:
            self._fail(part, part.take_outgoing(), part.enlistment.reason())
        elif self._connected:
            self._send(part, part.take_outgoing())

    def _send(self, part: Part, gathered: list[Piece]) -> None:
        commands: list[Command] = []
        single = [piece for piece in gathered if piece.cumulative is None]
        for first in range(0, len(single), IDS_MAX):
            some = single[first : first + IDS_MAX]
            commands.append(self._command(part, AckType.Individual, some))
        for piece in gathered:
            if piece.cumulative is not None:
                commands.append(self._command(part, AckType.Cumulative, [piece]))
        self._write(commands)

    def _command(self, part: Part, ack_type: i64, pieces: list[Piece]) -> CommandAck:
        self._request_id += 1
        due_ms = self._now_ms() + self._timeout_ms
        self._flights[self._request_id] = _Flight(part, pieces, due_ms)
        for piece in pieces:
            piece.move(SENT)
        ids = [piece.id() for piece in pieces]
        command = CommandAck(self._consumer_id, ack_type, ids, self._request_id)
        command.join(part.transaction.id.most, part.transaction.id.least)
        return command

    def connected(self) -> None:
        """Sends what was not answered on the last connection."""
        self._connected = True
        self.flush()

    def disconnected(self) -> None:
        """Answers will not come any more."""
        self._connected = False
        flights = list(self._flights.values())
        self._flights.clear()
        for flight in flights:
            for piece in flight.pieces:
                if piece.state == IN_FLIGHT:
                    piece.move(LOST)
                    flight.part.outgoing.append(piece)
            flight.part.due_ms = earlier(flight.part.due_ms, flight.due_ms)

    # ---- Answers and time ----------------------------------------------------

    def answered(self, response: CommandAckResponse) -> bool:
        """The broker's word on one ACK. False: it was not one of a transaction."""
        request_id = response.request_id
        if request_id is None or request_id <= FIRST_REQUEST_ID:
            return False
        flight = self._flights.pop(request_id, None)
        if flight is None:
            return True
        if response.error is None:
            for piece in flight.pieces:
                if piece.state == IN_FLIGHT:
                    piece.move(KEPT)
                    piece.waiter.count_down(None)
        else:
            error = error_of(response.error, response.message or "the ack was refused")
            self._fail(flight.part, flight.pieces, error)
        return True

    def next_ms(self) -> int | None:
        """When a group is to be sent, or an answer is late."""
        due_ms: int | None = None
        for part in self.parts.values():
            due_ms = earlier(due_ms, part.due_ms)
        for flight in self._flights.values():
            return earlier(due_ms, flight.due_ms)
        return due_ms

    def tick(self, now_ms: int) -> None:
        for part in list(self.parts.values()):
            if part.due_ms is not None and part.due_ms <= now_ms:
                if self._connected:
                    self._flush(part)
                else:
                    self._fail(part, part.take_outgoing(), self._late())
        late = [id for id, flight in self._flights.items() if flight.due_ms <= now_ms]
        for request_id in late:
            flight = self._flights.pop(request_id)
            self._fail(flight.part, flight.pieces, self._late())

    def _late(self) -> Timeout:
        return Timeout(
            f"the broker did not confirm an ack of the transaction within {self._timeout_ms} ms"
        )

    def _fail(self, part: Part, pieces: list[Piece], error: Exception) -> None:
        """These will not count, and the transaction is doomed."""
        failed = [piece for piece in pieces if piece.state != ENDED]
        for piece in failed:
            recorded = piece.state == RECORDED
            piece.move(FAILED)
            part.failed.append(piece.key)
            if not recorded:
                piece.waiter.count_down(error)
        if failed:
            part.pieces = [piece for piece in part.pieces if piece.state != ENDED]
            self._count_anew()

    def _count_anew(self) -> None:
        """Something has ended."""
        self._acked.clear()
        self._cumulatives = 0
        for part in self.parts.values():
            for piece in part.pieces:
                if piece.cumulative is None:
                    self._acked[piece.key] = self._acked.get(piece.key, 0) | piece.bits
                else:
                    self._cumulatives += 1

    # ---- What comes again, and what is taken back ----------------------------

    def hold_back(self, key: int, unacked: int) -> int:
        """What an entry that came has that was not acked here in a transaction."""
        if key not in self._acked and not self._cumulatives:
            return unacked
        for part in self.parts.values():
            for piece in part.pieces:
                left = piece.left_of(key, unacked)
                if left != unacked or piece.key == key:
                    piece.came_again = True
                unacked = left
        return unacked

    def overturned_by(self, key: int, unacked: int) -> list[TransactionCore]:
        """The transactions that the broker has aborted, as it shows by what it delivers."""
        found: list[TransactionCore] = []
        if key in self._acked or self._cumulatives:
            for part in self.parts.values():
                for piece in part.pieces:
                    if piece.state == RECORDED and piece.left_of(key, unacked) != unacked:
                        found.append(part.transaction)
                        break
        return found

    def acked_of(self, key: int) -> int:
        """Which messages of an entry were acked in transactions that are open."""
        return self._acked.get(key, 0)

    def take_back(self, key: int, bits: int) -> None:
        """A negative ack: the transaction cannot be committed any more."""
        for part in list(self.parts.values()):
            for piece in part.pieces:
                if piece.left_of(key, bits) != bits:
                    self._doom(part, Interrupted(REFUSED))
                    break

    def _doom(self, part: Part, error: Exception) -> None:
        part.transaction.fail(error)
        self._fail(part, _unanswered(part), error)

    # ---- The end -------------------------------------------------------------

    def end(self, transaction: TransactionCore) -> End | None:
        """The transaction has ended, or is about to be aborted. None if nothing was acked."""
        part = self.parts.get(transaction)
        if part is None:
            return None
        self._fail(part, _unanswered(part), part.enlistment.reason())
        return self._decide(part)

    def _decide(self, part: Part) -> End:
        del self.parts[part.transaction]
        for piece in part.pieces:
            piece.move(DECIDED)
        self._count_anew()
        return End(part.pieces, part.failed)

    def fail_all(self, error: Exception) -> None:
        """Acks mean something else now: open transactions that have some cannot be committed."""
        for part in list(self.parts.values()):
            part.transaction.fail(error)
            self._fail(part, list(part.pieces), error)
            self._decide(part)
        self._flights.clear()

    def close(self, error: Exception) -> None:
        """The consumer is closed: what is recorded counts; the rest has failed."""
        for part in list(self.parts.values()):
            self._fail(part, _unanswered(part), error)
            self._decide(part)
        self._flights.clear()


def _unanswered(part: Part) -> list[Piece]:
    return [piece for piece in part.pieces if piece.state <= IN_FLIGHT]
