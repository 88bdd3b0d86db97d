"""The driver's view of topics: which there are, where they begin and end, what lies between.

Everything here asks the broker. What follows from the answers is decided in `plan`.
"""

import logging
import time

from magnetar.arrow.bounds import Bounds
from magnetar.arrow.chunks import is_chunk
from magnetar.arrow.loss import DataLossError
from magnetar.arrow.plan.range_end import BEGINNING, Place, Range, entry_end
from magnetar.client.consumer.start.entry_range import At, RawEntry
from magnetar.client.door.bulk import BulkClient
from magnetar.errors import SettingsError, TopicNotFound
from magnetar.spark.connect import client_of
from magnetar.spark.plan.admission import Limits, Quota, Window, shares
from magnetar.spark.plan.offsets import Offsets
from magnetar.spark.plan.options import Position, ReadOptions
from magnetar.spark.plan.splits import Ledgers, Weights, pieces_of, plan_splits
from magnetar.spark.rest import Rest

__all__ = ["Driver"]

log: logging.Logger = logging.getLogger("magnetar.spark")

# How much of a topic is looked at to guess what an entry holds.
SAMPLE_ENTRIES = 64
SAMPLE_BYTES = 1 << 20
# For how long what a broker said about the ends of topics serves.
ENDS_FRESH_S = 0.05
# So many entries before its end a micro-batch is searched for messages in chunks that go on
# behind it; and so many a message may span before it counts as given up by its producer.
CHUNKS_REACH = 64
CHUNKS_SPAN_MAX = 1000


class Driver:
    """See the module."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self.client: BulkClient = client_of(options.connection)
        self._timeout_s = options.poll_timeout_ms / 1000
        self.bounds: Bounds = Bounds(self.client, self._timeout_s)
        self._topics: list[str] = []
        self._discovered_at = float("-inf")
        self._ends: dict[str, Place] = {}
        self._ends_at = float("-inf")
        self._scans: dict[str, _Scan] = {}

    # ---- Which topics --------------------------------------------------------

    def topics(self) -> list[str]:
        """Returns all topic partitions, in order; looked for again after a while."""
        now = time.monotonic()
        if (now - self._discovered_at) * 1000 >= self.options.discovery_ms:
            self._topics = sorted(self._discover())
            self._discovered_at = now
        return self._topics

    def _discover(self) -> set[str]:
        names = self.options.topics
        if self.options.topics_pattern:
            names = self.client.topics(self.options.topics_pattern)
        found: set[str] = set()
        for name in names:
            found.update(self.client.partitions(name))
        return found

    def require_topics(self) -> list[str]:
        found = self.topics()
        if not found and not self.options.topics_pattern:
            raise TopicNotFound(f"no topic {', '.join(self.options.topics)}")
        return found

    # ---- Where they begin and end --------------------------------------------

    def ends(self) -> dict[str, Place]:
        """Returns the place behind the last message of each topic partition."""
        topics = self.require_topics()
        now = time.monotonic()
        if now - self._ends_at > ENDS_FRESH_S or set(self._ends) != set(topics):
            some = bool(self.options.topics_pattern)
            self._ends = self.bounds.ends(topics, may_be_gone=some)
            self._ends_at = now
        return self._ends

    def starts(self) -> Offsets:
        """Returns where reading begins, by the options."""
        return Offsets(self._resolve("startingOffsets", self.options.starting, "earliest"))

    def stops(self) -> Offsets:
        """Returns where a batch read ends, by the options."""
        return Offsets(self._resolve("endingOffsets", self.options.ending, "latest"))

    def _resolve(self, option: str, position: Position, default: str) -> dict[str, Place]:
        ends = self.ends()
        places: dict[str, Place] = {}
        for topic in ends:
            if position.time_ms >= 0:
                places[topic] = self.bounds.at_time(topic, position.time_ms, ends[topic])
                continue
            said = position.of(option, topic, default)
            if said == "earliest":
                places[topic] = self.bounds.first(topic, ends[topic])
            elif said == "latest":
                places[topic] = ends[topic]
            else:
                assert not isinstance(said, str)
                if len(ends) > 1 and position.by_topic is None:
                    raise SettingsError(
                        option, "one id for several topic partitions: give JSON, one for each"
                    )
                places[topic] = said
        return places

    # ---- How it is divided ---------------------------------------------------

    def splits(self, ranges: list[Range], *, ask_ledgers: bool) -> list[Range]:
        """Returns what tasks read."""
        options = self.options
        ledgers = Ledgers()
        if ask_ledgers and options.connection.admin_url:
            rest = Rest(options.connection)
            for topic in {topic for topic, _, _ in ranges}:
                ledgers.add(topic, rest.ledgers(topic))
        weights: dict[str, Weights] = {}
        if options.splits_by_weight:
            for topic, start, end in ranges:
                weights[topic] = self._sample(topic, start, end)
        return plan_splits(
            pieces_of(ranges, ledgers),
            partitions_min=options.partitions_min,
            rows_max=options.split_rows_max,
            bytes_max=options.split_bytes_max,
            weights=weights,
        )

    def _sample(self, topic: str, start: Place, end: Place) -> Weights:
        """Returns what an entry holds, by the first ones of a range: the same whenever it is
        asked."""
        scan = _Scan(start)
        stop = Window(
            Quota(Limits(bytes_max=SAMPLE_BYTES, entries_max=SAMPLE_ENTRIES)), start, end, 1.0
        )
        scan.feed(self.client, topic, stop, end, self._timeout_s)
        if stop.entries == 0:
            return Weights()
        return Weights(stop.rows / stop.entries, stop.size_bytes / stop.entries)

    # ---- How much of it ------------------------------------------------------

    def admit(self, start: Offsets, ends: dict[str, Place], limits: Limits) -> tuple[Offsets, int]:
        """Returns the offsets that a micro-batch ends with, and how many rows it has then."""
        topics = sorted(ends)
        froms = [start.places.get(topic, BEGINNING) for topic in topics]
        lags = [_lag(at, ends[topic]) for at, topic in zip(froms, topics, strict=True)]
        quota = Quota(limits)
        places = dict(start.places)
        sizes: dict[str, int] = {}
        rows = 0
        for topic, at, share in zip(topics, froms, shares(lags), strict=True):
            window = quota.window(at, ends[topic], share)
            scan = self._scans.setdefault(topic, _Scan(at))
            scan.feed(self.client, topic, window, ends[topic], self._timeout_s)
            window.close()
            rows += window.rows
            if window.at > at or topic in places:
                places[topic] = max(window.at, at)
            if window.batch_size:
                sizes[topic] = window.batch_size
            elif topic in start.sizes and places.get(topic) == at:
                sizes[topic] = start.sizes[topic]
        return Offsets(places, sizes), rows

    # ---- What is not whole yet -----------------------------------------------

    def unfinished(self, start: Offsets, end: Offsets) -> dict[str, Place]:
        """Returns the first chunks of messages that begin before `end` and end behind it, if
        there are."""
        ranges: list[tuple[str, At, At]] = []
        for topic, stop in end.places.items():
            begin = start.places.get(topic, BEGINNING)
            if begin < stop:
                first = self._search_from(topic, begin, start.holds.get(topic), entry_end(stop))
                ranges.append((topic, first, entry_end(stop)))
        begun: dict[str, dict[str, Place]] = {topic: {} for topic, _, _ in ranges}

        def see(topic: str, raw: RawEntry) -> None:
            metadata = raw.metadata
            if metadata is None or not is_chunk(metadata):
                return
            name, number = metadata.chunked_name(), metadata.chunk_id or 0
            if number == (metadata.num_chunks_from_msg or 0) - 1:
                begun[topic].pop(name, None)
            elif number == 0 or name not in begun[topic]:
                begun[topic][name] = (int(raw.ledger_id), int(raw.entry_id), 0)

        self.client.scan(ranges, see, timeout_s=self._timeout_s)
        held = {topic: start.holds[topic] for topic in start.holds if topic not in begun}
        held.update({topic: min(places.values()) for topic, places in begun.items() if places})
        return held

    def _search_from(self, topic: str, start: Place, hold: Place | None, end: At) -> At:
        ledger, entry = end
        if hold is not None and entry - (hold[1] if hold[0] == ledger else 0) <= CHUNKS_SPAN_MAX:
            return hold[:2]
        first = (ledger, max(entry - CHUNKS_REACH, 0))
        if entry < CHUNKS_REACH and start[0] < ledger and self.options.connection.admin_url:
            # The end of the ledger before belongs to it too.
            for other, entries in Rest(self.options.connection).ledgers(topic):
                if other < ledger:
                    first = (other, max(entries - CHUNKS_REACH + entry, 0))
        return max(start[:2], first)

    def missing(self, start: Offsets, ends: dict[str, Place]) -> None:
        """Topic partitions that were read before and are not there any more."""
        for topic in start.places:
            if topic in ends:
                continue
            error = DataLossError(topic, "", "", "the topic is gone")
            if self.options.on_data_loss == "fail":
                raise error
            log.warning("%s", error)


class _Scan:
    """What is known of the entries of a topic partition from a place on."""

    def __init__(self, at: Place) -> None:
        # Ledger, entry, messages, bytes.
        self._known: list[tuple[int, int, int, int]] = []
        self._from = at[:2]
        self._to = at[:2]

    def feed(
        self, client: BulkClient, topic: str, window: Window, end: Place, timeout_s: float
    ) -> None:
        """Feeds the window with entries, known ones first, until it is full or all are in."""
        at = window.at[:2]
        if not self._from <= at <= self._to:
            self._known, self._from, self._to = [], at, at
        self._known = [one for one in self._known if one[:2] >= at]
        self._from = at
        for one in self._known:
            if window.full:
                return
            window.add(*one)
        stop = entry_end(end)
        if self._to < stop:
            self._read_on(client, topic, window, stop, timeout_s)

    def _read_on(
        self,
        client: BulkClient,
        topic: str,
        window: Window,
        stop: tuple[int, int],
        timeout_s: float,
    ) -> None:
        """Reads entries that are not known yet, in pieces, until the window is full."""
        if window.full:
            return
        with client.entries(topic, self._to, stop, timeout_s=timeout_s) as entries:
            while chunk := entries.next(1):
                for raw in chunk:
                    one = (
                        int(raw.ledger_id),
                        int(raw.entry_id),
                        int(raw.messages),
                        int(raw.size),
                    )
                    self._known.append(one)
                    self._to = (one[0], one[1] + 1)
                if self._offer(window, chunk):
                    return

    def _offer(self, window: Window, chunk: list[RawEntry]) -> bool:
        """Adds entries to the window; says whether it is full."""
        for raw in chunk:
            if window.full:
                break
            window.add(int(raw.ledger_id), int(raw.entry_id), int(raw.messages), int(raw.size))
        return window.full


def _lag(start: Place, end: Place) -> int:
    """Returns about how many entries there are between."""
    if start >= end:
        return 0
    return end[1] - start[1] if start[0] == end[0] else end[1] + 1
