"""Data directories that are damaged on purpose, and what is left of each.

A directory is made by a real broker, copied, damaged in one place and looked at as a start would.
What was there is known, so what is there now is one of these:

| outcome  | what it means                                                                    |
|----------|----------------------------------------------------------------------------------|
| whole    | everything is there                                                              |
| told     | it starts; what is missing is cut and logged, or said to be damaged when read    |
| refused  | it does not start, and says what to do                                           |
| silent   | something is missing and nobody said so: this must never be                      |
"""

import contextlib
import hashlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from magnetar.ack import Cursor
from magnetar.cli.data.check import verify
from magnetar.errors import MagnetarError
from magnetar.model import Position
from magnetar.storage import FileDisk, Store, StoreOptions, open_store
from magnetar.storage.catalog.catalog_guard import open_catalog
from magnetar.storage.compaction.view_log import read_table
from magnetar.storage.cursor.cursor_load import load_cursor, load_ledgers

__all__ = ["KINDS", "WAYS", "Contents", "Damage", "damages", "judge", "look"]

NOW_MS = 1_900_000_000_000
SPACES = ("tenants", "namespaces", "permissions", "schemas", "partitioned", "topic-policies")


# ---- What there is -----------------------------------------------------------------


@dataclass
class Contents:
    """All that a directory has, and what it says of what it has not."""

    entries: dict[str, str] = field(default_factory=dict)
    acks: dict[str, str] = field(default_factory=dict)
    # What compaction kept, and where it was published; transactions that are open, and how others
    # ended.
    views: dict[str, str] = field(default_factory=dict)
    transactions: dict[str, str] = field(default_factory=dict)
    catalog: dict[str, str] = field(default_factory=dict)
    # What a start logs, and what a reader is told.
    told: list[str] = field(default_factory=list)

    def missing_from(self, whole: "Contents") -> list[str]:
        """What the other one has and this one has not, or has otherwise."""
        pairs = (
            (self.entries, whole.entries),
            (self.acks, whole.acks),
            (self.views, whole.views),
            (self.transactions, whole.transactions),
            (self.catalog, whole.catalog),
        )
        return [name for mine, theirs in pairs for name in theirs if mine.get(name) != theirs[name]]


def look(directory: Path) -> Contents:
    """Opens a directory as a broker does, and reads everything. Raises MagnetarError."""
    contents = Contents()
    store = open_store(FileDisk(directory), lambda: NOW_MS, StoreOptions())
    try:
        contents.told += [*map(str, store.cuts), *store.doubts]
        with contextlib.closing(open_catalog(directory, store.catalog_mark)) as catalog:
            for space in SPACES:
                for key, value in catalog.items(space):
                    contents.catalog[f"{space} {key}"] = value
        for topic_id, name in store.topics().items():
            _look_at_topic(store, topic_id, name, contents)
            _look_at_view(store, topic_id, name, contents)
        _look_at_transactions(store, contents)
    finally:
        store.close()
    return contents


def _look_at_topic(store: Store, topic_id: int, name: str, contents: Contents) -> None:
    for ledger in store.ledgers(topic_id):
        for entry_id in range(ledger.entries):
            at = f"{ledger.id}:{entry_id}"
            try:
                (entry,) = store.read(
                    topic_id, Position(ledger.id, entry_id), entries_max=1, bytes_max=1 << 30
                )
            except MagnetarError as error:
                contents.told.append(f"{at}: {error}")
                contents.entries[f"{name} {at}"] = "damaged"
                continue
            assert entry.data is not None
            facts = f"{entry.batch_size} {entry.publish_time_ms} ".encode()
            contents.entries[f"{name} {at}"] = hashlib.sha256(facts + entry.data).hexdigest()
    for cursor_id in store.cursor_ids(topic_id):
        title = f"{store.log.state.cursors[cursor_id].name} of {name}"
        try:
            cursor = load_cursor(store, cursor_id, load_ledgers(store, topic_id))
        except MagnetarError as error:
            contents.told.append(f"{title}: {error}")
            contents.acks[title] = "damaged"
            continue
        contents.acks[title] = _acks_of(cursor)


def _look_at_view(store: Store, topic_id: int, name: str, contents: Contents) -> None:
    title = f"view of {name}"
    try:
        view = store.views.of(topic_id)
        if view is None:
            return
        entries = _read(store, [Position(view.ledger_id, n) for n in range(view.facts.entries)])
        contents.views[title] = f"{view.facts.encode().hex()} {entries}"
        plan = store.plan_entries(view.table_positions())
        plan.run(store.log.disk)
        table = read_table(view, plan)
        contents.views[f"table of the {title}"] = str(
            [table.position(number) for number in range(view.facts.entries)]
        )
    except MagnetarError as error:
        contents.told.append(f"{title}: {error}")


def _look_at_transactions(store: Store, contents: Contents) -> None:
    state = store.transactions.state
    for number, one in state.open.items():
        try:
            acks = store.transactions.deltas(one)
            owner = store.transactions.owner(one)
        except MagnetarError as error:
            contents.told.append(f"transaction {number}: {error}")
            continue
        sent = {ledger: entries.tolist() for ledger, entries in one.sent.items()}
        contents.transactions[str(number)] = f"{owner} {sent} {acks} {one.timeout_ms}"
    for number, ended in state.ended.items():
        contents.transactions[str(number)] = f"ended with {ended.outcome}"


def _read(store: Store, positions: list[Position]) -> str:
    """A digest of entries. Raises StorageError."""
    plan = store.plan_entries(positions)
    plan.run(store.log.disk)
    return hashlib.sha256(b"".join([entry.data or b"" for entry in plan.entries])).hexdigest()


def _acks_of(cursor: Cursor) -> str:
    runs = [f"{run.ledger_id}:{run.first}-{run.end}" for run in cursor.acked_runs()]
    return f"{cursor.mark_delete} {' '.join(runs)} {cursor.unacked_messages()}"


# ---- What is done to it ------------------------------------------------------------


def _flip(path: Path, random: Random) -> None:
    data = bytearray(path.read_bytes())
    end = len(data.rstrip(b"\0")) or len(data)
    data[random.randrange(end)] ^= 1 << random.randrange(8)
    path.write_bytes(data)


def _cut_half(path: Path, random: Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: random.randrange(len(data.rstrip(b"\0")) + 1)])


def _empty(path: Path, random: Random) -> None:
    path.write_bytes(b"")


def _delete(path: Path, random: Random) -> None:
    path.unlink()


def _zero(path: Path, random: Random) -> None:
    """A page of zeros, or all that there is."""
    data = bytearray(path.read_bytes())
    size = min(4096, len(data))
    at = random.randrange(0, max(1, len(data.rstrip(b"\0"))), 512)
    data[at : at + size] = bytes(min(size, len(data) - at))
    path.write_bytes(data)


def _append(path: Path, random: Random) -> None:
    path.write_bytes(path.read_bytes() + random.randbytes(700))


def _overwrite(path: Path, random: Random) -> None:
    """Bytes of something else in the middle, as a disk that writes to the wrong place would."""
    data = bytearray(path.read_bytes())
    at = random.randrange(max(1, len(data.rstrip(b"\0"))))
    junk = random.randbytes(600)
    data[at : at + 600] = junk[: len(data) - at]
    path.write_bytes(data)


def _swap(path: Path, random: Random) -> None:
    """Another file of its kind in its place, and it in the other's."""
    alike = sorted(path.parent.glob(f"*{path.suffix}"))
    others = [one for one in alike if one != path and one.is_file()]
    if not others:
        return
    other = random.choice(others)
    mine, theirs = path.read_bytes(), other.read_bytes()
    path.write_bytes(theirs)
    other.write_bytes(mine)


WAYS: dict[str, Callable[[Path, Random], None]] = {
    "a flipped bit": _flip,
    "cut short": _cut_half,
    "emptied": _empty,
    "deleted": _delete,
    "a page of zeros": _zero,
    "garbage behind it": _append,
    "garbage in it": _overwrite,
    "exchanged with another": _swap,
}

# Kinds of files, and where they are.
KINDS: dict[str, str] = {
    "FORMAT": "FORMAT",
    "IDS": "IDS",
    "the catalog": "catalog.sqlite",
    "the catalog's log": "catalog.sqlite-wal",
    "the catalog's copy": "catalog.sqlite.good",
    "a closed segment": "journal/*.log",
    "the last segment": "journal/*.log",
    "heads": "journal/*.heads",
    "a spare segment": "journal/*.spare",
    "an index": "index/*.idx",
}


@dataclass(frozen=True)
class Damage:
    """One thing done to one file of a directory that was left in some way."""

    state: str
    kind: str
    way: str
    seed: int

    def __str__(self) -> str:
        return f"{self.state}, {self.kind}, {self.way} ({self.seed})"

    def apply(self, directory: Path) -> bool:
        """Damages the directory; False if it has no such file, or nothing came of it."""
        random = Random(f"{self.kind} {self.way} {self.seed}")
        files = sorted(directory.glob(KINDS[self.kind]))
        if self.kind == "the last segment":
            files = files[-1:]
        elif self.kind == "a closed segment":
            files = files[:-1]
        if not files:
            return False
        path = random.choice(files)
        before = path.read_bytes()
        WAYS[self.way](path, random)
        return not path.exists() or path.read_bytes() != before


def damages(states: list[str], seeds: int) -> list[Damage]:
    """Every way of damaging every kind of file."""
    return [
        Damage(state, kind, way, seed)
        for seed in range(seeds)
        for state in states
        for kind in KINDS
        for way in WAYS
    ]


# ---- What comes of it --------------------------------------------------------------


def judge(original: Path, whole: Contents, damage: Damage, scratch: Path) -> str:
    """Damages a copy and says what comes of it; empty if there was nothing to damage."""
    copy = scratch / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(original, copy)
    if not damage.apply(copy):
        return ""
    try:
        violations, summary = verify(copy)
        found = [f"{one.path}: {one.reason}" for one in violations]
    except MagnetarError as error:
        found, summary = [str(error)], ""
    try:
        now = look(copy)
    except MagnetarError as error:
        assert str(error), damage
        assert found, f"{damage}: refused by a start ({error}), and check finds nothing"
        return "refused"
    missing = now.missing_from(whole)
    if not missing:
        return "told" if now.told else "whole"
    if not now.told:
        return f"silent: {missing[:5]}"
    if not found and ";" not in summary:
        return f"silent to check: {missing[:5]}, {now.told[:3]}"
    return "told"
