"""The compaction of one topic: whether it runs, how the last one ended, and the view that it made.

| state   | it is asked for | its turn comes | it ends                             | unload   |
|---------|-----------------|----------------|-------------------------------------|----------|
| idle    | waiting         | -              | -                                   | -        |
| waiting | refused         | running        | -                                   | idle     |
| running | refused         | -              | idle: with a view, or with an error | given up |
| held    | refused         | -              | -                                   | -        |

A view is dropped while nothing waits or runs; meanwhile, and while somebody empties the topic,
it is held.

While it waits or runs, and as long as a policy wants the topic compacted, nothing is trimmed that
is not in the view: the keys of what went before would be lost to those who read the view.
"""

from enum import Enum
from typing import TYPE_CHECKING, Final, final

from magnetar.broker.promise import Promise
from magnetar.broker.topic.compaction.compaction_run import CompactionRun
from magnetar.broker.topic.topic_storage import bytes_after
from magnetar.errors import BrokerError, CorruptionError, MagnetarError, StorageError
from magnetar.model import Position, ServerError
from magnetar.storage.compaction.view_log import View, read_table
from magnetar.storage.compaction.view_table import ViewTable
from magnetar.storage.ledger.read_plan import ReadPlan

if TYPE_CHECKING:
    from magnetar.broker.topic.topic import Topic

__all__ = ["CompactionStatus", "TopicCompaction"]

BEFORE_ALL: Final = Position(-1, -1)
# A table that could not be read is read again after so long.
RETRY_MS: Final = 1000


class CompactionStatus(Enum):
    """How a compaction stands, in Pulsar's words."""

    NOT_RUN = "NOT_RUN"
    RUNNING = "RUNNING"
    SUCCESS = "SUCCESS"
    ERROR = "ERROR"


@final
class TopicCompaction:
    """See the module."""

    def __init__(self, topic: "Topic") -> None:
        self._topic: Final = topic
        self.view: View | None = topic.store.views.of(topic.id)
        # Where its entries were published; None until it is asked for, and read.
        self._table: ViewTable | None = None
        self._reading_table: bool = False
        self._waiting: bool = False
        self._held: bool = False
        self._run: CompactionRun | None = None
        self.error: str = ""
        self.failed_ms: int = 0
        # Whether one ended well, though there was nothing to keep.
        self._has_ended: bool = self.view is not None

    @property
    def busy(self) -> bool:
        """Whether one waits or runs."""
        return self._waiting or self._run is not None

    @property
    def status(self) -> CompactionStatus:
        if self.busy:
            return CompactionStatus.RUNNING
        if self.error:
            return CompactionStatus.ERROR
        return CompactionStatus.SUCCESS if self._has_ended else CompactionStatus.NOT_RUN

    @property
    def through(self) -> Position:
        """What was published up to here is in the view; before everything if there is none."""
        return BEFORE_ALL if self.view is None else self.view.facts.through

    @property
    def floor(self) -> Position | None:
        """Nothing behind this may be trimmed; None if compaction does not mind."""
        wanted = self._topic.policies.limits.compaction_threshold > 0
        if self.view is None and not self.busy and not wanted:
            return None
        return self.through

    def waiting_bytes(self) -> int:
        """How much of the topic is not in the view."""
        topic = self._topic
        if not topic.storage.stored:
            return 0
        return bytes_after(topic.store.ledgers(topic.id), self.through)

    # ---- Running -------------------------------------------------------------

    def trigger(self) -> None:
        """Begins one, when it is its turn. Raises BrokerError if it runs, or cannot be."""
        topic = self._topic
        if not topic.name.persistent:
            raise BrokerError(
                ServerError.NotAllowedError,
                f"{topic.name} is not persistent: nothing is kept of it",
            )
        topic.require_open()
        if self.busy:
            raise BrokerError(
                ServerError.NotAllowedError,
                f"{topic.name} is being compacted already: wait for the end of that",
            )
        self._require_free()
        self._waiting = True
        topic.broker.compactions.add(self)

    def hold(self) -> None:
        """None is begun until `let_go`: what it would read is to go. Raises BrokerError."""
        if self.busy:
            raise BrokerError(
                ServerError.ServiceNotReady,
                f"{self._topic.name} is being compacted: wait for its end",
            )
        self._require_free()
        self._held = True

    def let_go(self) -> None:
        """What was to go is gone."""
        self._held = False

    def _require_free(self) -> None:
        if self._held:
            raise BrokerError(
                ServerError.ServiceNotReady,
                f"{self._topic.name}, or its view, is being emptied: wait for the end of that",
            )

    def drop(self) -> Promise[None]:
        """Deletes the view; the topic stays as it is, and may be trimmed again.

        Raises BrokerError while one runs, and StorageError.
        """
        self._topic.require_open()
        self.hold()
        promise = self.drop_held()
        promise.when_done(lambda error: self.let_go())
        return promise

    def drop_held(self) -> Promise[None]:
        """The same for whoever holds it. Raises BrokerError and StorageError."""
        topic = self._topic
        topic.require_open()
        assert self._held
        promise: Promise[None] = Promise()
        if self.view is None:
            self._dropped()
            promise.keep(None)
            return promise
        ticket = topic.store.views.drop(topic.id)
        topic.host.kick()

        def settled(error: Exception | None) -> None:
            if error is None:
                self._dropped()
            promise.end(error)

        topic.wait_for(ticket).when_done(settled)
        return promise

    def _dropped(self) -> None:
        self.view = None
        self._table = None
        self.error = ""
        self._has_ended = False
        self._topic.storage.acks_moved()
        self._topic.refresh()

    def check(self) -> None:
        """Begins one if policies want it: there is more than the threshold behind the view."""
        threshold = self._topic.policies.limits.compaction_threshold
        if threshold <= 0 or self.busy or self._held or self.waiting_bytes() <= threshold:
            return
        if self._topic.ledgers.last() > self.through:
            self.trigger()

    def run(self) -> bool:
        """It is its turn; False if there is nothing to do."""
        if not self._waiting:
            return False  # it waited twice for its table
        self._waiting = False
        try:
            return self._begin()
        except MagnetarError as error:
            self._failed(error)
        except Exception as error:
            self._topic.host.fault(f"the compaction of {self._topic.name}", error)
            self._failed(error)
        return False

    def _begin(self) -> bool:
        through = self._topic.ledgers.last()
        if self._topic.closed:
            return False
        if through.entry_id < 0 or through <= self.through:
            self.error = ""
            self._has_ended = True
            return False
        table = self.table()
        if self.view is not None and table is None:
            # It is being read.
            self._waiting = True
            self._topic.host.call_later(RETRY_MS, lambda: self._again())
            return False
        run = CompactionRun(self._topic, through, self.view, table)
        self._run = run
        run.promise.then(lambda view: self._ended(run, view), self._failed)
        run.start()
        return True

    def _again(self) -> None:
        if self._waiting:
            self._topic.broker.compactions.add(self)

    def _ended(self, run: CompactionRun, view: View) -> None:
        self._run = None
        self.error = ""
        self._has_ended = True
        self.view = view
        self._table = run.new_table
        self._topic.broker.compactions.ended(self)
        if self._topic.closed:
            return
        self._topic.storage.acks_moved()
        # What was read of the view before is read again from this one.
        self._topic.refresh()

    def _failed(self, error: Exception) -> None:
        self._run = None
        self.error = str(error) or repr(error)
        self.failed_ms = self._topic.host.now_ms()
        if not self._topic.closed:
            self._topic.host.warn(f"{self._topic.name} was not compacted: {error}")
        self._topic.broker.compactions.ended(self)

    # ---- The view ------------------------------------------------------------

    def table(self) -> ViewTable | None:
        """Where the view's entries were published; None while there is none, or it is read.

        Whoever waits for it is pumped when it is there.
        """
        view = self.view
        if view is None or self._table is not None:
            return self._table
        if view.facts.entries == 0:
            self._table = ViewTable()
        elif not self._reading_table:
            self._read_table(view)
        return self._table

    def _read_table(self, view: View) -> None:
        topic = self._topic
        plan = topic.store.plan_entries(view.table_positions(), TABLE_BYTES_MAX)
        self._reading_table = True
        topic.host.read(plan).when_done(lambda error: self._have_table(view, plan, error))

    def _have_table(self, view: View, plan: ReadPlan, error: Exception | None) -> None:
        topic = self._topic
        topic.store.finish_read(plan, keep=False)
        self._reading_table = False
        if topic.closed or self.view is not view:
            return
        try:
            if error is not None:
                raise error
            self._table = read_table(view, plan)
        except StorageError as failure:
            if self._waiting and isinstance(failure, CorruptionError):
                self._waiting = False
                self._failed(BrokerError(ServerError.PersistenceError, damaged(failure)))
            topic.host.warn(f"the compacted view of {topic.name}: {failure}; trying again")
            topic.host.call_later(RETRY_MS, topic.refresh)
            return
        topic.refresh()


def damaged(error: CorruptionError) -> str:
    return f"the view is damaged ({error}): delete it, then compact the topic anew"


# Tables are read at once: 4 bytes an entry.
TABLE_BYTES_MAX: Final = 1 << 30
