"""The stream: offsets, micro-batches and acks, in the process that Spark keeps for a query.

| Spark calls           | when                                        | here                     |
|-----------------------|---------------------------------------------|--------------------------|
| initialOffset         | twice for the first batch, and again after  | the same each time: the  |
|                       | a restart before it was committed           | subscription keeps it    |
| latestOffset(start)   | all before `start` is committed             | acks up to `start`       |
| partitions(start,end) | for a new batch, or first after a restart   | from the offsets alone   |
| commit(end)           | while the batch after the next is planned   | acks, if that is needed  |
| stop                  | never, unless SIGTERM raises: so it does    | closes the connections   |

Reads happen elsewhere: `read` runs in executors, on a copy that has only the options.
"""

import signal
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from magnetar.arrow.plan.range_end import BEGINNING, Place
from magnetar.arrow.read import read_split
from magnetar.errors import SettingsError
from magnetar.spark.acks import ack_offsets, place_subscription
from magnetar.spark.connect import client_of, drop_clients
from magnetar.spark.driver import Driver
from magnetar.spark.frame import arrow_schema
from magnetar.spark.plan.offsets import Offsets, offsets_of
from magnetar.spark.plan.options import ReadOptions
from magnetar.spark.source import Split

__all__ = ["StreamReader"]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """See the module."""

    def __init__(self, options: dict[str, str], schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._read = ReadOptions(options, streaming=True)
        self._live: _Live | None = None

    def __reduce__(self) -> "tuple[type[StreamReader], tuple[dict[str, str], StructType]]":
        return (StreamReader, (self._options, self._schema))

    def _driver(self) -> "_Live":
        if self._live is None:
            signal.signal(signal.SIGTERM, _raise_exit)
            self._live = _Live(self._read)
        return self._live

    def initialOffset(self) -> dict[str, Any]:
        return self._driver().initial().to_value()

    def getDefaultReadLimit(self) -> ReadLimit:
        # Any limit says that there are some; which, the options know.
        limits = self._read.limits
        return ReadMaxRows(limits.rows_max or 1) if limits.bounded else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._driver().freeze()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        everything = isinstance(limit, ReadAllAvailable)
        return self._driver().latest(offsets_of(start), everything).to_value()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return self._driver().report()

    # Spark says "sequence"; a list is one.
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        ranges = offsets_of(start).ranges_to(offsets_of(end))
        splits = self._driver().driver.splits(ranges, ask_ledgers=False)
        return [Split(split) for split in splits]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        assert isinstance(partition, Split)
        client = client_of(self._read.connection)
        schema = arrow_schema(self._schema)
        return read_split(client, self._read.settings(), partition.split, schema)

    def commit(self, end: dict[str, Any]) -> None:
        self._driver().ack(offsets_of(end))

    def stop(self) -> None:
        if self._live is not None:
            self._live = None
            drop_clients()


class _Live:
    """What the long-lived process of a query knows."""

    def __init__(self, options: ReadOptions) -> None:
        self.driver: Driver = Driver(options)
        self._options = options
        self._initial: Offsets | None = None
        self._frozen: dict[str, Place] | None = None
        self._acked: dict[str, Place] = {}
        self._placed: set[str] = set()
        self._batch_at = time.monotonic()

    def initial(self) -> Offsets:
        if self._initial is None:
            if self._options.subscription:
                self._initial = self._place_all(self.driver.ends())
            else:
                self._initial = self.driver.starts()
        return self._initial

    def _place_all(self, ends: dict[str, Place]) -> Offsets:
        """Returns where the subscription stands, which is made if it is not there."""
        starting = self._options.starting
        places: dict[str, Place] = {}
        for topic in ends:
            start: str | Place = "earliest"
            if starting.time_ms < 0:
                start = starting.of("startingOffsets", topic, "earliest")
                if isinstance(start, tuple) and len(ends) > 1 and starting.by_topic is None:
                    raise SettingsError(
                        "startingOffsets", "one id for several topic partitions: give JSON"
                    )
            places[topic] = self._place_one(topic, start, starting.time_ms)
        return Offsets(places)

    def _place_one(self, topic: str, start: "str | Place", time_ms: int) -> Place:
        client = self.driver.client
        found = client.call(
            place_subscription(client.aio, topic, self._options.subscription, start, time_ms)
        )
        self._placed.add(topic)
        return found

    def freeze(self) -> None:
        """Nothing that comes from now on belongs to this run."""
        self._frozen = dict(self.driver.ends())

    def latest(self, start: Offsets, everything: bool) -> Offsets:
        if self._initial is None or start != self._initial:
            self.ack(start)
        ends = self.driver.ends() if self._frozen is None else self._frozen
        self.driver.missing(start, self.driver.ends())
        self._place_new(start, ends)
        limits = self._options.limits
        if everything or not limits.bounded:
            found = self._all(start, ends)
        else:
            found, rows = self.driver.admit(start, ends, limits)
            since_ms = int((time.monotonic() - self._batch_at) * 1000)
            if self._frozen is None and limits.waits(rows, since_ms):
                return start
        if found == start:
            return start
        self._batch_at = time.monotonic()
        if self._options.subscription:
            found = Offsets(found.places, found.sizes, self.driver.unfinished(start, found))
        return found

    def _place_new(self, start: Offsets, ends: dict[str, Place]) -> None:
        """A partition that was added is kept by the subscription from its beginning on."""
        if self._options.subscription:
            for topic in ends:
                if topic not in start.places and topic not in self._placed:
                    self._place_one(topic, "earliest", -1)

    def _all(self, start: Offsets, ends: dict[str, Place]) -> Offsets:
        places = dict(start.places)
        for topic, end in ends.items():
            at = start.places.get(topic, BEGINNING)
            if end > at or topic in places:
                places[topic] = max(end, at)
        sizes = {t: n for t, n in start.sizes.items() if places[t] == start.places[t]}
        return Offsets(places, sizes)

    def report(self) -> dict[str, Any]:
        """Returns the ends, and what a listener must know to ack."""
        found = Offsets(dict(self.driver.ends())).to_value()
        if self._options.subscription:
            found["subscription"] = self._options.subscription
            found["serviceUrl"] = self._options.connection.service_url
        return found

    def ack(self, offsets: Offsets) -> None:
        """Acks everything before, unless that was done."""
        if not self._options.subscription:
            return
        new = {
            topic: place
            for topic, place in offsets.places.items()
            if place > self._acked.get(topic, BEGINNING)
        }
        if new:
            client = self.driver.client
            due = Offsets(new, offsets.sizes, offsets.holds)
            client.call(ack_offsets(client.aio, self._options.subscription, due))
            self._acked.update(new)


def _raise_exit(signum: int, frame: object) -> None:
    """Spark ends this process by a signal; what is open is closed on the way out."""
    raise SystemExit(0)
