"""The store's writer without threads: jobs run at simulated moments.

As with `StoreWriter` a job crosses over, runs, and comes back. Here it runs at one moment,
all of it, and its completion is posted at a later one. A process that dies in between has
written without ever learning of it; that is when receipts are lost and acks come back.
How long it takes is drawn from the seed, and from the disk's own stalls.

`partial(SimWriter, loop=loop)` takes the place of `StoreWriter`. Read plans run on the
loop's executor (`loop.run_in_executor`), or on a `SimExecutor`.
"""

from collections.abc import Callable
from typing import Final

from magnetar.errors import StorageError
from magnetar.storage.disk import Disk
from magnetar.storage.job import Job
from magnetar.storage.journal import Outcome
from magnetar.storage.store import Store
from magnetar.testing.sim_disk import SimDisk
from magnetar.testing.sim_loop import SimLoop

__all__ = ["SimWriter"]

Done = Callable[[Job, Exception | None], None]

# A group takes this long to be written and synced, and this long to be heard of.
WORK_S_MIN: Final = 0.000_05
WORK_S_MAX: Final = 0.008
REPORT_S_MAX: Final = 0.000_5


class SimWriter:
    """Runs the jobs of a store; the interface of `storage.writer.StoreWriter`."""

    def __init__(
        self,
        store: Store,
        post: Callable[[Callable[[], None]], object],
        on_outcome: Callable[[Outcome], None],
        *,
        loop: SimLoop,
    ) -> None:
        self._store = store
        self._on_outcome = on_outcome
        self._writes = _Lane("write", store.log.disk, post, self._written, loop)
        self._chores = _Lane("chore", store.log.disk, post, self._chore_done, loop)

    def kick(self) -> None:
        """Starts what there is to do; call it after queueing, once a tick."""
        if (job := self._store.next_write()) is not None:
            self._writes.give(job)
        if (chore := self._store.next_chore()) is not None:
            self._chores.give(chore)

    def stop(self) -> None:
        """Ends the lanes when their present jobs are done; the store can then be closed."""
        self._writes.stop()
        self._chores.stop()
        for job, error in self._writes.finished():
            self._written(job, error, go_on=False)
        for job, error in self._chores.finished():
            self._chore_done(job, error, go_on=False)

    def _written(self, job: Job, error: Exception | None, *, go_on: bool = True) -> None:
        outcome = self._store.finish_write(job, error)
        if outcome is not None:
            self._on_outcome(outcome)
        if go_on:
            self.kick()

    def _chore_done(self, job: Job, error: Exception | None, *, go_on: bool = True) -> None:
        outcome = self._store.finish_chore(job, error)
        if outcome is not None:
            self._on_outcome(outcome)
        if go_on:
            self.kick()


class _Lane:
    """A thread that runs one job after the other."""

    def __init__(
        self,
        name: str,
        disk: Disk,
        post: Callable[[Callable[[], None]], object],
        done: Done,
        loop: SimLoop,
    ) -> None:
        self._disk = disk
        self._post = post
        self._done = done
        self._loop = loop
        self._name = f"writer {name}"
        self._random = loop.random_for(f"{self._name} {loop.next_serial()}")
        self._job: Job | None = None
        self._results: list[tuple[Job, Exception | None]] = []
        self._is_stopped = False

    def give(self, job: Job) -> None:
        assert self._job is None, "a store has one job under way in each lane"
        assert not self._is_stopped
        self._job = job
        delay = WORK_S_MIN + self._random.random() * (WORK_S_MAX - WORK_S_MIN)
        if isinstance(self._disk, SimDisk):
            delay += self._disk.stall_s()
        self._loop.call_aside(delay, self._work)

    def stop(self) -> None:
        """The present job is done here and now, as if it had been waited for."""
        self._is_stopped = True
        self._run_job()

    def finished(self) -> list[tuple[Job, Exception | None]]:
        """Results that nobody has taken yet."""
        results = self._results
        self._results = []
        return results

    def _work(self) -> None:
        if self._is_stopped:
            return
        self._run_job()
        delay = self._random.random() * REPORT_S_MAX
        self._loop.call_aside(delay, self._post, self._take)

    def _run_job(self) -> None:
        job = self._job
        if job is None:
            return
        error: Exception | None = None
        try:
            job.run(self._disk)
        except StorageError as refused:
            error = refused
        self._loop.note(self._name, f"{type(job).__name__}{': ' + str(error) if error else ''}")
        self._job = None
        self._results.append((job, error))

    def _take(self) -> None:
        for job, error in self.finished():
            self._done(job, error)
