"""The threads behind a store: one commits groups, one does the chores.

The store decides on the thread that owns it (the event loop's); jobs cross over to a
thread, run, and come back through `post`, which is `loop.call_soon_threadsafe` or anything
that calls a function on the owner's thread. While a group is being written the next one
gathers in the store, so a busy store commits large groups and an idle one small ones.

What a job or the store raises and nobody foresaw must not stop everything without a word: the
store is read-only from then on, whoever waits is told, and the error is raised on the owner's
thread, where it is logged.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Protocol

from magnetar.errors import DiskShortageError, StorageError
from magnetar.storage.disk.disk import Disk
from magnetar.storage.log.job import Job
from magnetar.storage.log.journal import Outcome
from magnetar.storage.store import Store

__all__ = ["Done", "Lane", "Post", "StoreWriter"]

Post = Callable[[Callable[[], None]], object]
Done = Callable[[Job, Exception | None], None]
Finish = Callable[[Job, Exception | None], Outcome | None]


class Lane(Protocol):
    """Runs one job after the other, and posts how each ended."""

    def give(self, job: Job) -> None: ...

    def stop(self) -> None:
        """Returns when the present job is done."""

    def finished(self) -> list[tuple[Job, Exception | None]]:
        """Results that nobody has taken yet."""


class StoreWriter:
    """Runs the jobs of a store; every method belongs to the store's own thread."""

    def __init__(self, store: Store, post: Post, on_outcome: Callable[[Outcome], None]) -> None:
        self._store = store
        self._on_outcome = on_outcome
        self._writes = self._lane("write", post, self._written)
        self._chores = self._lane("chore", post, self._chore_done)

    def _lane(self, name: str, post: Post, done: Done) -> Lane:
        return _ThreadLane(name, self._store.log.disk, post, done)

    def kick(self) -> None:
        """Starts what there is to do; call it after queueing, once a tick."""
        with self._careful():
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
        self._finish(self._store.finish_write, job, error, go_on)

    def _chore_done(self, job: Job, error: Exception | None, *, go_on: bool = True) -> None:
        self._finish(self._store.finish_chore, job, error, go_on)

    def _finish(self, finish: Finish, job: Job, error: Exception | None, go_on: bool) -> None:
        with self._careful():
            if error is not None and not isinstance(error, StorageError):
                raise error
            outcome = finish(job, error)
        if outcome is not None:
            self._on_outcome(outcome)
        if go_on:
            self.kick()

    @contextmanager
    def _careful(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._on_outcome(self._store.fail(error))
            raise


class _ThreadLane:
    """A lane that is a thread."""

    def __init__(self, name: str, disk: Disk, post: Post, done: Done) -> None:
        self._disk = disk
        self._post = post
        self._done = done
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._results: SimpleQueue[tuple[Job, Exception | None]] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=f"store-{name}", daemon=True)
        self._thread.start()

    def give(self, job: Job) -> None:
        self._jobs.put(job)

    def stop(self) -> None:
        self._jobs.put(None)
        self._thread.join()

    def finished(self) -> list[tuple[Job, Exception | None]]:
        out = []
        while not self._results.empty():
            out.append(self._results.get())
        return out

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            error: Exception | None = None
            began = time.perf_counter_ns()
            try:
                job.run(self._disk)
            except MemoryError as failed:
                error = failed if job.lasting else DiskShortageError(job.kind, "", "out of memory")
            except Exception as failed:
                error = failed
            job.took_us = (time.perf_counter_ns() - began) // 1000
            self._results.put((job, error))
            self._post(self._take)

    def _take(self) -> None:
        for job, error in self.finished():
            self._done(job, error)
