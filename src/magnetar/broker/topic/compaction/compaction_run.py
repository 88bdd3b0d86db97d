"""One compaction of one topic: two passes over what is there, and the record that makes it count.

| state   | does                                                              | then             |
|---------|-------------------------------------------------------------------|------------------|
| NOTING  | reads what there is, and notes the last message of each key       | KEEPING          |
| KEEPING | reads it again, and writes what is kept to a ledger of its own    | TABLING          |
| TABLING | writes where the kept entries were published                      | SEALING          |
| SEALING | waits until all of that is durable, writes one record, and waits  | over, with a view|
| over    | lets go of the keys, a part at a time                             |                  |

Both passes must have read the same; nothing is trimmed meanwhile, and if it were, that would be
an error. Whatever fails, and an unload, a deletion or a stop of the topic, ends it from any state:
what was written is deleted, and the view before stays. So does a crash; there a restart drops it.

Nothing here holds the loop for long (I10): entries are read, unpacked and packed on another thread,
a piece of them at a time, and looked at some messages in each event; a thread that looked at them
would hold the lock of Python for longer. Memory is that of the keys and
of one piece. What is written waits for the disk before the next piece is read.
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from magnetar.broker.promise import Promise
from magnetar.broker.topic.compaction.kept_entries import Kept, KeptEntries
from magnetar.broker.topic.compaction.source import Source
from magnetar.broker.topic.compaction.unpacking import Unpacked, Unpacking
from magnetar.broker.turn.work import Work
from magnetar.errors import BrokerError, MagnetarError
from magnetar.model import Position, ServerError
from magnetar.protocol.payload.keyed_batch import compacted_entry
from magnetar.storage.compaction.view_facts import ViewFacts
from magnetar.storage.compaction.view_log import View, ViewWriter
from magnetar.storage.compaction.view_table import ViewTable, piece_count
from magnetar.storage.disk.disk import Disk
from magnetar.storage.ledger.read_plan import ReadPlan, StoredEntry
from magnetar.storage.log.job import Job

if TYPE_CHECKING:
    from magnetar.broker.topic.topic import Topic

__all__ = ["CompactionRun"]

NOTHING: Final = Position(-1, -1)
# What is unpacked at once, but for one batch that is larger: bounds memory.
UNPACKED_BYTES_MAX: Final = 4 << 20
# To look at an entry takes about as long as to look at so many messages of a batch.
LOOK_COST: Final = 10


@final
class _Packing(Job):
    """Makes the bytes of entries, on the thread that reads: compression takes its time."""

    def __init__(self, kept: list[Kept]) -> None:
        self._kept: Final = kept
        self.entries: list[bytes] = []

    def run(self, disk: Disk) -> None:
        self.entries = [packed(kept) for kept in self._kept]


def packed(kept: Kept) -> bytes:
    """Returns the bytes of what is kept of an entry."""
    if kept.parts is None:
        return kept.unpacked.data
    return compacted_entry(kept.unpacked.entry, kept.parts, kept.indexes)


@final
class CompactionRun:
    """See the module. `promise` is kept with the view, or broken with what went wrong."""

    def __init__(
        self,
        topic: "Topic",
        through: Position,
        view: View | None,
        table: ViewTable | None,
    ) -> None:
        self.promise: Final[Promise[View]] = Promise()
        self._topic: Final = topic
        self._through: Final = through
        self._view: Final = view
        self._table: Final = table
        self._entries: Final = KeptEntries(
            retain_null_key=topic.settings.compaction_retain_null_key,
            piece=topic.broker.pieces.messages,
        )
        self._writer: ViewWriter | None = None
        self._began_ms: Final = topic.host.now_ms()
        self._began_ticks: Final = topic.host.ticks_ms()
        self._last: Position = NOTHING
        self._last_index: int = -1
        self._messages: int = 0
        self._source: Source = self._new_source()
        # What was read, and not looked at yet: an entry, and where it was published.
        self._pending: Final[deque[tuple[StoredEntry, Position]]] = deque()
        self._pass: Callable[[list[Unpacked]], Work[None]] = self._note
        # The table and the record that seals are written by it.
        self.new_table: ViewTable | None = None

    def _new_source(self) -> Source:
        topic = self._topic
        return Source(topic.store, topic.id, topic.ledgers, self._through, self._view, self._table)

    def start(self) -> None:
        """Begins when all that was asked for before is done: ledgers may be on their way out."""
        self._soon(lambda: self._when_durable(self._read_next))

    # ---- Steps ---------------------------------------------------------------

    def _soon(self, step: Callable[[], None]) -> None:
        """Does something in a later event."""
        self._topic.host.call_soon(lambda: self._attempt(step))

    def _attempt(self, step: Callable[[], None]) -> None:
        """Does a step; whatever goes wrong ends the compaction, and nothing else."""
        try:
            self._require_going_on()
            step()
        except MagnetarError as error:
            self._fail(error)
        except Exception as error:
            self._topic.host.fault(f"the compaction of {self._topic.name}", error)
            self._fail(error)

    def _require_going_on(self) -> None:
        if self._topic.closed:
            raise BrokerError(ServerError.ServiceNotReady, f"{self._topic.name} was unloaded")

    def _work(self, work: Work[None]) -> None:
        """Does it, a step in each event. What it is followed by, it says itself."""
        try:
            next(work)
        except StopIteration:
            return
        self._soon(lambda: self._work(work))

    def _when_durable(self, go_on: Callable[[], None]) -> None:
        topic = self._topic
        topic.host.kick()
        topic.wait_for(topic.store.ticket_last).when_done(
            lambda error: self._attempt(go_on) if error is None else self._fail(error)
        )

    def _read(self, plan: ReadPlan, go_on: Callable[[], None]) -> None:
        """Has a plan run on another thread."""

        def done(error: Exception | None) -> None:
            self._topic.store.finish_read(plan, keep=False)
            if error is None:
                self._attempt(go_on)
            else:
                self._fail(error)

        self._topic.host.read(plan).when_done(done)

    # ---- Reading -------------------------------------------------------------

    def _read_next(self) -> None:
        """Goes on with what was read, or reads more."""
        if self._pending:
            self._work(self._look())
            return
        plan = self._source.next_plan()
        if plan is None:
            self._pass_over()
        else:
            found = plan
            self._read(plan, lambda: self._have_read(found))

    def _have_read(self, plan: ReadPlan) -> None:
        self._pending.extend(self._source.take(plan))
        self._read_next()

    def _look(self) -> Work[None]:
        """Looks at entries, as many as may be unpacked together, and passes over them."""
        found: list[Unpacked] = []
        left: i64 = UNPACKED_BYTES_MAX
        looks = 0
        waits = False
        while self._pending:
            stored, position = self._pending[0]
            unpacked = Unpacked(stored, position)
            left -= unpacked.packed_size
            if left < 0 and found:
                break
            waits = waits or unpacked.packed_size > 0
            found.append(unpacked)
            self._pending.popleft()
            looks += LOOK_COST
            if looks >= self._topic.broker.pieces.messages:
                looks = 0
                yield
        if waits:
            plan = ReadPlan([], self._topic.store.log.salt)
            plan.behind = Unpacking(found)
            self._read(plan, lambda: self._work(self._pass(found)))
        else:
            yield from self._pass(found)

    def _pass_over(self) -> None:
        if self._writer is not None:
            if not self._entries.has_read_the_same():
                raise BrokerError(
                    ServerError.ServiceNotReady,
                    f"entries of {self._topic.name} were deleted meanwhile: compact it again",
                )
            self._work(self._write_table(self._writer))
            return
        self._writer = self._topic.store.views.begin(self._topic.id)
        self._entries.turn()
        self._source = self._new_source()
        self._pass = self._keep
        self._read_next()

    # ---- The first pass ------------------------------------------------------

    def _note(self, entries: list[Unpacked]) -> Work[None]:
        keys_max = self._topic.settings.max_compaction_keys
        done = 0
        for unpacked in entries:
            yield from self._entries.note(unpacked)
            done += unpacked.count
            if done >= self._topic.broker.pieces.messages:
                done = 0
                yield
            if len(self._entries.last) > keys_max:
                raise BrokerError(
                    ServerError.NotAllowedError,
                    f"{self._topic.name} has more than {keys_max} keys, the most that are "
                    "compacted: use several partitions, or raise max_compaction_keys",
                )
        self._soon(self._read_next)

    # ---- The second pass -----------------------------------------------------

    def _keep(self, entries: list[Unpacked]) -> Work[None]:
        kept: list[Kept] = []
        done = 0
        for unpacked in entries:
            yield from self._entries.judge(unpacked, kept)
            done += unpacked.count
            if done >= self._topic.broker.pieces.messages:
                done = 0
                yield
        if not kept:
            self._soon(self._read_next)
            return
        if any(one.is_long_to_pack for one in kept):
            packing = _Packing(kept)
            plan = ReadPlan([], self._topic.store.log.salt)
            plan.behind = packing
            self._read(plan, lambda: self._write(kept, packing.entries))
            return
        made: list[bytes] = []
        for one in kept:
            made.append(packed(one))
            done += LOOK_COST if one.parts is None else LOOK_COST + one.unpacked.count
            if done >= self._topic.broker.pieces.messages:
                done = 0
                yield
        self._write(kept, made)

    def _write(self, kept: list[Kept], entries: list[bytes]) -> None:
        writer = self._writer
        assert writer is not None
        for one, data in zip(kept, entries, strict=True):
            stored = one.unpacked.stored
            writer.add(
                one.unpacked.position,
                data,
                batch_size=stored.batch_size,
                publish_time_ms=stored.publish_time_ms,
            )
            self._messages += one.messages
            if one.ends_message:
                self._last = one.unpacked.position
                self._last_index = one.last_index
        self._when_durable(self._read_next)

    # ---- The end -------------------------------------------------------------

    def _write_table(self, writer: ViewWriter) -> Work[None]:
        for piece in range(piece_count(len(writer.table))):
            writer.add_table(piece)
            yield
        self._when_durable(lambda: self._seal(writer))

    def _seal(self, writer: ViewWriter) -> None:
        topic = self._topic
        facts = ViewFacts(
            self._through,
            self._last,
            last_index=self._last_index,
            entries=len(writer.table),
            messages=self._messages,
            removed=self._entries.removed,
            began_ms=self._began_ms,
            took_ms=topic.host.ticks_ms() - self._began_ticks,
        )
        ticket = writer.seal(facts)
        topic.host.kick()
        topic.wait_for(ticket).when_done(lambda error: self._sealed(writer, error))

    def _sealed(self, writer: ViewWriter, error: Exception | None) -> None:
        view = self._topic.store.views.of(self._topic.id) if error is None else None
        if view is None:
            self._fail(error or BrokerError(ServerError.ServiceNotReady, "the topic is gone"))
            return
        self.new_table = writer.table
        self._drop_keys()
        self.promise.keep(view)

    def _fail(self, error: Exception) -> None:
        """Ends it. What was written is deleted, as soon as it is clear what there is of it."""
        writer, self._writer = self._writer, None
        if writer is not None:
            found, topic = writer, self._topic
            topic.wait_for(topic.store.ticket_last).when_done(lambda late: self._give_up(found))
        self._drop_keys()
        self.promise.fail(error)

    def _give_up(self, writer: ViewWriter) -> None:
        try:
            writer.give_up()
        except MagnetarError as error:
            # A store that takes nothing any more: the restart drops it.
            self._topic.host.warn(f"{self._topic.name}: {error}")
            return
        self._topic.host.kick()

    def _drop_keys(self) -> None:
        if self._entries.last.drop_some():
            self._topic.host.call_soon(self._drop_keys)
