"""A scan: what is to be read, planned at once, and its record batches, read as they are asked for.

All of it runs on a thread of its own, for a loop runs in the thread that calls it: a notebook has
a loop there already, and DuckDB asks from threads of its own.
"""

import re
import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from magnetar.arrow.batch import COLUMNS, TYPES
from magnetar.arrow.bound import Bound, bound_of
from magnetar.arrow.bounds import Bounds
from magnetar.arrow.connect import client_options
from magnetar.arrow.plan.backlog import plan_backlog
from magnetar.arrow.plan.connection import Connection
from magnetar.arrow.plan.range_end import Place, Range
from magnetar.arrow.plan.settings import ReadSettings
from magnetar.arrow.read import Picks, read_split
from magnetar.arrow.rest import Rest
from magnetar.arrow.snapshot import backlog_of
from magnetar.arrow.values import value_type_of
from magnetar.client.door.bulk import BulkClient
from magnetar.errors import SettingsError, TopicNotFound

__all__ = ["Scan", "open_reader"]

Topics = str | Sequence[str] | re.Pattern[str]
Bounded = Bound | Mapping[str, Bound]
_VALUES = {"bytes": pa.binary(), "string": pa.string()}


class Scan:
    """What is to be read. All of it is asked of the broker by one client, on one thread."""

    def __init__(self, connection: Connection, settings: ReadSettings) -> None:
        self._connection = connection
        self._settings = settings
        self._client = BulkClient(connection.service_url, **client_options(connection))
        self.schema: pa.Schema = pa.schema([])
        self._splits: list[tuple[Range, Picks | None]] = []

    def plan(
        self,
        topics: Topics,
        *,
        start: Bounded,
        end: Bounded,
        subscription: str,
        columns: Sequence[str] | None,
        values: str,
    ) -> None:
        """Asks the broker what there is. Raises what is wrong with the request."""
        names = self._names(topics)
        parts = [part for name in names for part in self._client.partitions(name)]
        self.schema = self._schema(names, columns, values)
        if subscription:
            self._splits = self._backlog(parts, subscription)
        else:
            self._splits = self._ranges(parts, start, end)

    def batches(self) -> Generator["pa.RecordBatch", None, None]:
        """Yields the record batches, topic partition by topic partition, each in its order."""
        for split, picks in self._splits:
            yield from read_split(self._client, self._settings, split, self.schema, picks)

    def close(self) -> None:
        self._client.close()

    # ---- What there is -------------------------------------------------------

    def _names(self, topics: Topics) -> list[str]:
        if isinstance(topics, re.Pattern):
            found = sorted(self._client.topics(topics.pattern))
            if not found:
                raise TopicNotFound(f"no topic matches {topics.pattern!r}")
            return found
        names = [topics] if isinstance(topics, str) else list(topics)
        if not names:
            raise SettingsError("topic", "there is none: name one or more")
        return names

    def _schema(self, names: list[str], columns: Sequence[str] | None, values: str) -> "pa.Schema":
        settings = self._settings
        types = {"value": pa.binary(), **TYPES}
        if settings.bad_records == "column":
            types["bad_record"] = pa.string()
        wanted = list(types if columns is None else columns)
        unknown = [name for name in wanted if name not in types]
        if unknown:
            there = [name for name in COLUMNS if name in types]
            raise SettingsError(
                "columns", f"no column {', '.join(unknown)}; there are {', '.join(there)}"
            )
        if "value" in wanted:
            types["value"] = _VALUES.get(values) or value_type_of(
                self._client, names[0], settings.names.values
            )
        return pa.schema([(name, types[name]) for name in wanted])

    def _ranges(
        self, parts: list[str], start: Bounded, end: Bounded
    ) -> list[tuple[Range, Picks | None]]:
        bounds = Bounds(self._client, self._settings.timeout_s)
        ends = bounds.ends(parts)

        def place(name: str, said: Bounded, part: str, default: str) -> Place:
            one = bound_of(name, said, part, len(parts), default)
            if one.place is not None:
                return one.place
            if one.time_ms >= 0:
                return bounds.at_time(part, one.time_ms, ends[part])
            return ends[part] if one.word == "latest" else bounds.first(part, ends[part])

        found: list[tuple[Range, Picks | None]] = []
        for part in parts:
            first = place("start", start, part, "earliest")
            # Not beyond what was there: a read waits for nobody.
            last = min(place("end", end, part, "latest"), ends[part])
            if first < last:
                found.append(((part, first, last), None))
        return found

    def _backlog(self, parts: list[str], subscription: str) -> list[tuple[Range, Picks | None]]:
        rest = Rest(self._connection, self._settings.names.admin_url)
        backlogs = {part: backlog_of(rest, part, subscription) for part in parts}
        found: list[tuple[Range, Picks | None]] = []
        for topic, first, last, runs, bits in plan_backlog(backlogs, 1):
            picked = {(ledger, entry): int(text, 16) for ledger, entry, text in bits}
            found.append(((topic, first, last), Picks(runs, picked)))
        return found


# ---- On a thread of its own -------------------------------------------------------------


def open_reader(
    connection: Connection, settings: ReadSettings, plan: Callable[[Scan], None]
) -> "pa.RecordBatchReader":
    """Returns a reader of what was planned.

    It ends when it has been read, has failed or is dropped.
    """
    thread = ThreadPoolExecutor(1, "magnetar-arrow")
    try:
        scan = thread.submit(Scan, connection, settings).result()
        try:
            thread.submit(plan, scan).result()
        except BaseException:
            thread.submit(scan.close).result()
            raise
    except BaseException:
        thread.shutdown(wait=False)
        raise
    return pa.RecordBatchReader.from_batches(scan.schema, _Batches(scan, thread))


class _Batches:
    """The record batches of a scan, each made on its thread. Both end with this object.

    No generator: one that nobody has begun to read would end nothing when it is dropped.
    """

    def __init__(self, scan: Scan, thread: ThreadPoolExecutor) -> None:
        self._thread = thread
        self._batches = scan.batches()
        self._end = weakref.finalize(self, _end, scan, self._batches, thread)
        # A process that ends closes its sockets by itself, and its threads are gone by then.
        self._end.atexit = False

    def __iter__(self) -> "_Batches":
        return self

    def __next__(self) -> "pa.RecordBatch":
        try:
            batch = self._thread.submit(next, self._batches, None).result()
        except BaseException:
            self._end()
            raise
        if batch is None:
            self._end()
            raise StopIteration
        return batch


def _end(
    scan: Scan, batches: "Generator[pa.RecordBatch, None, None]", thread: ThreadPoolExecutor
) -> None:
    """Nobody waits for it: it may be called by whatever collects garbage."""
    # What is open on the broker is closed first, which needs the client.
    thread.submit(batches.close)
    thread.submit(scan.close)
    thread.shutdown(wait=False)
