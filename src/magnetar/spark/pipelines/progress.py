"""How far a pipeline is: a bar on a terminal, a line now and then elsewhere.

    with Progress("archive") as progress:
        progress.follow(query, backlog=lambda: left)     # a streaming query, until it ends
        with progress.tasks(spark, "reading the backlog"):
            rows = frame.collect()                       # any other work of Spark
        progress.update(1_000, 5_000, "messages skipped")

Everything goes to standard error: results are for standard output.
"""

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from magnetar.errors import MagnetarError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Batch", "Followed", "Progress"]

POLL_S = 0.25
# How often a line is written where there is no terminal.
LINE_S = 10.0
# How often a broker is asked for the backlog.
BACKLOG_S = 1.0
# The micro-batches that are remembered for a report; counts have them all.
BATCHES_MAX = 10_000


class Batch(NamedTuple):
    """A micro-batch that was committed."""

    id: int
    started: str
    rows: int
    duration_ms: int


class Followed:
    """What a streaming query did until it ended."""

    def __init__(self) -> None:
        self.batches: deque[Batch] = deque(maxlen=BATCHES_MAX)
        self.count: int = 0
        self.rows: int = 0
        self._last = -1

    def add(self, progress: Any) -> None:
        """Takes a progress of Spark's, unless it is known or of no batch."""
        if progress.numInputRows <= 0 or progress.batchId <= self._last:
            return
        self._last = progress.batchId
        duration = int(dict(progress.durationMs or {}).get("triggerExecution", 0))
        rows = int(progress.numInputRows)
        self.batches.append(Batch(int(progress.batchId), str(progress.timestamp), rows, duration))
        self.count += 1
        self.rows += rows


class Progress:
    """See the module."""

    def __init__(self, title: str, *, console: Console | None = None) -> None:
        self._title = title
        self._console = console or Console(stderr=True, markup=False, highlight=False)
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        self._text = ""
        self._said_at = float("-inf")
        self._said = ""

    def __enter__(self) -> "Progress":
        if self._console.is_terminal:
            columns = (
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TextColumn("{task.fields[text]}", markup=False),
                TimeElapsedColumn(),
            )
            self._bar = Bar(*columns, console=self._console, transient=True)
            self._bar.start()
            self._task = self._bar.add_task(self._title, total=None, text="")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        elif self._text != self._said:
            self.say(self._text)

    def say(self, text: str) -> None:
        """A line that stays."""
        self._said, self._said_at = text, time.monotonic()
        self._console.print(f"{self._title}: {text}", soft_wrap=True)

    def update(self, done: int, total: int | None = None, text: str = "") -> None:
        """Shows how much is done, of how much; `text` is what."""
        of = "" if total is None else f" of {total:,}"
        self._text = f"{done:,}{of} {text}".strip()
        self._draw(done, total)

    def _draw(self, done: int, total: int | None) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=done, total=total, text=self._text)
        elif time.monotonic() - self._said_at >= LINE_S and self._text != self._said:
            self.say(self._text)

    def follow(
        self,
        query: Any,
        *,
        backlog: Callable[[], int | None] | None = None,
        stop: threading.Event | None = None,
    ) -> Followed:
        """Watches a streaming query until it ends, or ends it when `stop` is set.

        `backlog` says how much is left, where it can. Raises what the query failed with.
        """
        followed = Followed()
        asked_at = float("-inf")
        left: int | None = None
        ended = False
        while not ended:
            if stop is not None and stop.is_set():
                query.stop()
            ended = query.awaitTermination(POLL_S)
            for one in query.recentProgress:
                followed.add(one)
            if backlog is not None and time.monotonic() - asked_at >= BACKLOG_S:
                # A broker that does not answer now is the query's to complain about.
                with contextlib.suppress(MagnetarError):
                    left = backlog()
                asked_at = time.monotonic()
            self._show(followed.rows, left)
        return followed

    def _show(self, rows: int, left: int | None) -> None:
        """What is written and not acked yet is in both numbers, so they are not added up."""
        self._text = f"{rows:,} rows" + ("" if left is None else f", {left:,} not acked yet")
        self._draw(rows, None if left is None else rows + left)

    @contextlib.contextmanager
    def tasks(self, spark: "SparkSession", text: str) -> Iterator[None]:
        """Shows how many of Spark's tasks are done, while the block runs."""
        over = threading.Event()
        tracker = spark.sparkContext.statusTracker()
        watch = threading.Thread(target=self._watch, args=(tracker, text, over), daemon=True)
        watch.start()
        try:
            yield
        finally:
            over.set()
            watch.join()

    def _watch(self, tracker: Any, text: str, over: threading.Event) -> None:
        while not over.wait(POLL_S):
            done = total = 0
            for stage in tracker.getActiveStageIds():
                info = tracker.getStageInfo(stage)
                if info is not None:
                    done += info.numCompletedTasks
                    total += info.numTasks
            if total:
                self.update(done, total, f"tasks, {text}")
