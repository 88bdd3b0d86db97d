"""One topic of a move, or one partition: its entries, and what its subscriptions have left.

How it is sure of what arrived, whatever crashed: `plan/journal.py` has the states.
"""

import os
from collections.abc import Callable
from typing import Final

from magnetar.client.consumer.start.entry_range import RawEntry
from magnetar.client.engine.entry_writer import EntryWriter
from magnetar.errors import InvalidMessage, MagnetarError
from magnetar.migrate.journal_file import JournalFile
from magnetar.migrate.plan.entry_map import EntryMap
from magnetar.migrate.plan.journal import TopicProgress, runs_of
from magnetar.migrate.plan.rewrite import rewritten
from magnetar.migrate.side import Side
from magnetar.migrate.subscription import HOLD, ack_like, hold, let_go, names_of, unacked
from magnetar.rest.plan import subscriptions, topics

__all__ = ["TopicMove"]

CHUNK_BYTES: Final = 1 << 20
TIMEOUT_S: Final = 60.0


class TopicMove:
    """See the module. `told` is called with how many entries were written, and their bytes."""

    def __init__(
        self,
        name: str,
        source: Side,
        target: Side,
        journal: JournalFile,
        told: Callable[[int, int], None],
    ) -> None:
        self.name: Final = name
        self._source = source
        self._target = target
        self._journal = journal
        self._told = told

    @property
    def progress(self) -> TopicProgress:
        return self._journal.progress.topics[self.name]

    # ---- Making --------------------------------------------------------------

    def make(self, versions: list[tuple[str, str]]) -> None:
        """Holds the source, and makes the target and its subscriptions, if they are not there.

        Raises MagnetarError if the target has entries already that are not of this move.
        """
        fresh = self.name not in self._journal.progress.topics
        hold(self._source, self.name)
        if fresh and self._target.stored(self.name).count:
            raise MagnetarError(
                f"{self.name} has messages at {self._target.url} already: move to where there is "
                "no such topic, or delete it there"
            )
        hold(self._target, self.name)
        for subscription, properties in names_of(self._source, self.name).items():
            self._target.make(
                subscriptions.create(
                    self.name, subscription, position="earliest", properties=properties
                )
            )
        if fresh:
            self._journal.write("made", self.name, versions=versions)

    # ---- Entries -------------------------------------------------------------

    async def copy(self) -> None:
        """Copies what the source has more than the target, up to its end of now."""
        progress = self.progress
        last = await self._source.client.last(self.name)
        behind = progress.entries.behind()
        if progress.copied and last < behind:
            return
        if progress.entries.count:
            # Nothing that was on its way arrives later than this.
            self._target.do(topics.unload(self.name))
        writer = await self._target.client.write(self.name, f"{HOLD}-{os.urandom(6).hex()}")
        try:
            await self._resume(progress)
            if last >= progress.entries.behind():
                await self._copy(writer, progress, last)
        finally:
            await writer.close()
        self._journal.write("copied", self.name)

    async def _resume(self, progress: TopicProgress) -> None:
        """Finds out how much arrived, now that nobody else can write there."""
        arrived = self._target.stored(self.name)
        if arrived.count > progress.entries.count:
            raise self._foreign()
        self._journal.write("resumed", self.name, count=arrived.count)
        if arrived.count:
            last = arrived.count - 1
            copy = await _entry_at(self._target, self.name, arrived, last)
            original = await _entry_at(self._source, self.name, progress.entries, last)
            if self._bytes(original) != self._bytes(copy):
                raise self._foreign()

    def _foreign(self) -> MagnetarError:
        return MagnetarError(
            f"{self.name} has messages at {self._target.url} that are not of this move: delete it "
            "there, and begin again with another journal"
        )

    async def _copy(
        self, writer: EntryWriter, progress: TopicProgress, last: tuple[int, int]
    ) -> None:
        start = progress.entries.behind()
        entries = await self._source.client.read(self.name, start, (last[0], last[1] + 1))
        try:
            while chunk := await entries.next_entries(CHUNK_BYTES, TIMEOUT_S):
                # Before the first of them is sent: see the journal's states.
                places = [(int(raw.ledger_id), int(raw.entry_id)) for raw in chunk]
                self._journal.write("read", self.name, runs=runs_of(places))
                size = 0
                for raw in chunk:
                    data = self._bytes(raw)
                    await writer.write(data, int(raw.messages))
                    size += len(data)
                self._told(len(chunk), size)
            await writer.flush()
        finally:
            await entries.close()

    def _bytes(self, raw: RawEntry) -> bytes:
        if raw.entry is None or raw.metadata is None or not raw.entry.intact():
            raise InvalidMessage(
                f"{self.name} {raw.ledger_id}:{raw.entry_id} is damaged, and cannot be moved: skip "
                "it on its subscriptions, and delete it by its age"
            )
        return rewritten(raw.entry, raw.metadata, self.progress.versions)

    # ---- Acks ----------------------------------------------------------------

    async def ack(self) -> None:
        """Makes each subscription there what it is here."""
        entries = self.progress.entries
        copies = self._target.stored(self.name)
        if copies.count != entries.count:
            raise self._foreign()
        for subscription in names_of(self._source, self.name):
            left = await unacked(self._source, self.name, subscription, entries)
            await ack_like(self._target, self.name, subscription, left, copies)
        # Not unloaded, though Apache Pulsar writes down most acks only then: 4.2.4 does not read
        # back those inside batches (apache/pulsar#26475).
        self._journal.write("acked", self.name)

    async def compare(self) -> list[str]:
        """Returns what differs between the sides, in words: entries, and what is not acked."""
        entries, copies = self.progress.entries, self._target.stored(self.name)
        if entries.count != copies.count:
            return [f"{self.name}: {entries.count} entries here, {copies.count} there"]
        found = await self._compare_entries(entries, copies)
        here, there = names_of(self._source, self.name), names_of(self._target, self.name)
        if here != there:
            found.append(f"{self.name}: subscriptions {[*here]} here, {[*there]} there")
        for subscription in here.keys() & there.keys():
            mine = await unacked(self._source, self.name, subscription, entries)
            theirs = await unacked(self._target, self.name, subscription, copies)
            if difference := mine.difference(theirs):
                found.append(f"{subscription} of {self.name}: {difference}")
        return found

    async def _compare_entries(self, entries: EntryMap, copies: EntryMap) -> list[str]:
        if not entries.count:
            return []
        here = await self._source.client.read(self.name, entries.position(0), entries.behind())
        there = await self._target.client.read(self.name, copies.position(0), copies.behind())
        number = 0
        originals: list[RawEntry] = []
        replicas: list[RawEntry] = []
        try:
            while number < entries.count:
                originals = originals or await here.next_entries(CHUNK_BYTES, TIMEOUT_S)
                replicas = replicas or await there.next_entries(CHUNK_BYTES, TIMEOUT_S)
                if not originals or not replicas:
                    side = "here" if not originals else "there"
                    return [f"{self.name}: it ends {side} before entry {number}"]
                pairs = min(len(originals), len(replicas))
                for original, replica in zip(originals[:pairs], replicas[:pairs], strict=True):
                    if self._bytes(original) != self._bytes(replica):
                        return [f"{self.name}: entry {number} is another one there"]
                    number += 1
                originals, replicas = originals[pairs:], replicas[pairs:]
                self._told(pairs, 0)
        finally:
            await here.close()
            await there.close()
        return []

    # ---- The end -------------------------------------------------------------

    def finish(self) -> None:
        """Lets both sides trim again what nobody needs."""
        let_go(self._target, self.name)
        let_go(self._source, self.name)
        self._journal.write("done", self.name)


async def _entry_at(side: Side, topic: str, entries: EntryMap, number: int) -> RawEntry:
    ledger, entry = entries.position(number)
    found = await side.client.read(topic, (ledger, entry), (ledger, entry + 1))
    try:
        (raw,) = await found.next_entries(1, TIMEOUT_S)
        return raw
    finally:
        await found.close()
