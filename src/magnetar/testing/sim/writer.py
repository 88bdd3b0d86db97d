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
from magnetar.storage.disk.disk import Disk
from magnetar.storage.log.job import Job
from magnetar.storage.log.journal import Outcome
from magnetar.storage.log.writer import Done, Lane, Post, StoreWriter
from magnetar.storage.store import Store
from magnetar.testing.sim.disk import SimDisk
from magnetar.testing.sim.loop import SimLoop

__all__ = ["SimWriter"]

# A group takes this long to be written and synced, and this long to be heard of.
WORK_S_MIN: Final = 0.000_05
WORK_S_MAX: Final = 0.008
REPORT_S_MAX: Final = 0.000_5


class SimWriter(StoreWriter):
    """Runs the jobs of a store, in lanes that are no threads."""

    def __init__(
        self, store: Store, post: Post, on_outcome: Callable[[Outcome], None], *, loop: SimLoop
    ) -> None:
        self._loop = loop
        super().__init__(store, post, on_outcome)

    def _lane(self, name: str, post: Post, done: Done) -> Lane:
        return _SimLane(name, self._store.log.disk, post, done, self._loop)


class _SimLane:
    """A lane whose jobs run at moments of the loop."""

    def __init__(self, name: str, disk: Disk, post: Post, done: Done, loop: SimLoop) -> None:
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
