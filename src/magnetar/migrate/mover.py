"""A move from one broker or cluster to another, from its beginning to its end.

    find     the namespaces and topics of the source
    make     tenants, namespaces, topics, schemas and subscriptions at the target
    copy     entries, topic by topic; a topic is held at both sides meanwhile
    ack      what each subscription has acked
    settle   policies and permissions
    verify   compare both sides, if that was asked for
    finish   let both sides trim again

All of it can be done again after a crash; see `plan/journal.py`.
"""

from collections.abc import Callable
from typing import Final, Protocol

from magnetar.arrow.plan.connection import Connection
from magnetar.migrate.journal_file import JournalFile
from magnetar.migrate.side import Side
from magnetar.migrate.topic import TopicMove
from magnetar.migrate.world import World

__all__ = ["Report", "Teller", "move"]


class Teller(Protocol):
    """Who is told how far it is."""

    def begin(self, doing: str, topics: int) -> None: ...
    def topic(self, name: str) -> None: ...
    def wrote(self, entries: int, size: int) -> None: ...


class Report:
    """What came of a move: `problems` is what the target did not take, `differences` what
    `verify` found."""

    def __init__(self) -> None:
        self.topics: int = 0
        self.entries: int = 0
        self.copied: int = 0
        self.bytes: int = 0
        self.problems: Final[list[str]] = []
        self.differences: Final[list[str]] = []


async def move(
    source: Connection,
    target: Connection,
    journal: JournalFile,
    *,
    namespaces: list[str],
    verify: bool,
    teller: Teller,
) -> Report:
    """Moves all that is in these namespaces, all of them if none is named. Raises MagnetarError."""
    journal.begin(source.service_url, target.service_url)
    async with Side(source, "--admin-url") as here, Side(target, "--admin-url") as there:
        return await _Move(here, there, journal, namespaces, teller).run(verify)


class _Move:
    def __init__(
        self, here: Side, there: Side, journal: JournalFile, wanted: list[str], teller: Teller
    ) -> None:
        self._here = here
        self._there = there
        self._journal = journal
        self._world = World(here, there, wanted)
        self._teller = teller
        self._report = Report()

    async def run(self, verify: bool) -> Report:
        report = self._report
        found = self._find()
        moves = [self._topic(name) for names in found.values() for name in names]
        moves = [one for one in moves if not self._is_done(one.name)]
        report.topics = len(moves)
        self._each("making", moves, self._make)
        self._teller.begin("copying", len(moves))
        for one in moves:
            self._teller.topic(one.name)
            await one.copy()
            await one.ack()
            report.entries += one.progress.entries.count
        if moves:
            for namespace, names in found.items():
                self._world.move_policies(namespace, names)
        report.problems.extend(self._world.problems)
        if verify:
            await self._verify(moves)
        if not report.differences:
            self._each("finishing", moves, TopicMove.finish)
        return report

    def _find(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for namespace in self._world.namespaces():
            counts, names = self._world.topics(namespace)
            self._world.make_namespace(namespace)
            self._world.make_topics(counts, names)
            found[namespace] = names
        return found

    def _topic(self, name: str) -> TopicMove:
        return TopicMove(name, self._here, self._there, self._journal, self._wrote)

    def _is_done(self, name: str) -> bool:
        progress = self._journal.progress.topics.get(name)
        return progress is not None and progress.done

    def _make(self, one: TopicMove) -> None:
        one.make(self._world.move_schemas(one.name))

    def _each(self, doing: str, moves: list[TopicMove], work: Callable[[TopicMove], None]) -> None:
        self._teller.begin(doing, len(moves))
        for one in moves:
            self._teller.topic(one.name)
            work(one)

    async def _verify(self, moves: list[TopicMove]) -> None:
        self._teller.begin("verifying", len(moves))
        for one in moves:
            self._teller.topic(one.name)
            self._report.differences.extend(await one.compare())

    def _wrote(self, entries: int, size: int) -> None:
        if size:
            self._report.copied += entries
            self._report.bytes += size
        self._teller.wrote(entries, size)
