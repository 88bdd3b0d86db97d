"""Kinds of records: a number, a name, and how the log handles a record of it on its way.

What a record of a kind says is folded into the state by `LogState.apply`; all else that there is to
know of the kind is said here, once. Numbers are for ever; new kinds get new ones.
"""

from typing import Final, final

from mypy_extensions import i64

__all__ = [
    "ABORTED_ENTRIES",
    "CATALOG",
    "COPY",
    "CURSOR",
    "DELETE",
    "DELTA",
    "ENTRY",
    "KINDS",
    "LEDGER",
    "LOST_DELTA",
    "LOST_ENTRY",
    "SEAL",
    "SEGMENTS",
    "SLICE",
    "SLICE_LAST",
    "TOPIC",
    "TXN_ACK",
    "TXN_END",
    "TXN_OPEN",
    "TXN_SENT",
    "VIEW",
    "RecordKind",
    "has_body_in_recovery",
    "is_entry",
    "is_news",
    "kind_name",
]

ENTRY: Final = 1
COPY: Final = 2
DELTA: Final = 3
SLICE: Final = 4
SLICE_LAST: Final = 5
TOPIC: Final = 6
LEDGER: Final = 7
CURSOR: Final = 8
DELETE: Final = 9
SEGMENTS: Final = 10
SEAL: Final = 11
CATALOG: Final = 12
LOST_ENTRY: Final = 13
LOST_DELTA: Final = 14
TXN_OPEN: Final = 15
TXN_SENT: Final = 16
TXN_ACK: Final = 17
TXN_END: Final = 18
ABORTED_ENTRIES: Final = 19
VIEW: Final = 20


@final
class RecordKind:
    """One kind."""

    def __init__(
        self,
        name: str,
        meaning: str,
        *,
        entry: bool = False,
        news: bool = False,
        recovered: bool = False,
        lost_as: int = 0,
    ) -> None:
        self.name: Final = name
        self.meaning: Final = meaning
        # Whether it stands for an entry, which a backup may have found damaged.
        self.entry: Final = entry
        # Whether it changes a ledger, a cursor or the catalog, which wait for it.
        self.news: Final = news
        # Whether recovery needs its body: those of entries and acks it only locates.
        self.recovered: Final = recovered
        # What a damaged record of it becomes in a backup; 0 if that cannot do without it.
        self.lost_as: Final = lost_as


KINDS: Final[dict[int, RecordKind]] = {
    ENTRY: RecordKind(
        "entry", "a message or batch as it was published", entry=True, lost_as=LOST_ENTRY
    ),
    COPY: RecordKind(
        "copy",
        "the same, moved here: out of a mostly dead segment, or to lie with others",
        entry=True,
        lost_as=LOST_ENTRY,
    ),
    DELTA: RecordKind(
        "delta", "what one operation changed in a cursor", news=True, lost_as=LOST_DELTA
    ),
    SLICE: RecordKind("slice", "a part of a cursor's snapshot, more follows"),
    SLICE_LAST: RecordKind("last slice", "its last part: the snapshot counts once this is durable"),
    TOPIC: RecordKind("topic", "a topic exists; the body is its name", recovered=True),
    LEDGER: RecordKind("ledger", "a ledger exists, open or sealed", news=True, recovered=True),
    CURSOR: RecordKind(
        "cursor",
        "a cursor exists; the body holds its name and properties",
        news=True,
        recovered=True,
    ),
    DELETE: RecordKind("delete", "the object with this id is gone, with all that belongs to it"),
    SEGMENTS: RecordKind("segments", "which older segments are still there", recovered=True),
    SEAL: RecordKind("seal", "the store was closed in order"),
    CATALOG: RecordKind(
        "catalog",
        "what the catalog is: its generation and its digest",
        news=True,
        recovered=True,
    ),
    LOST_ENTRY: RecordKind(
        "lost entry", "an entry was here, and a backup found it damaged", entry=True
    ),
    LOST_DELTA: RecordKind("lost delta", "the same of a delta; what it acked comes again"),
    TXN_OPEN: RecordKind("transaction", "a transaction is open; the body is whose it is"),
    TXN_SENT: RecordKind("sent", "the entry before it is part of a transaction"),
    TXN_ACK: RecordKind("txn ack", "a delta that a transaction's commit will write"),
    TXN_END: RecordKind("end", "a transaction has ended: committed (1) or aborted (2)"),
    ABORTED_ENTRIES: RecordKind(
        "aborted",
        "which entries of a ledger are nobody's, for their transactions aborted",
        news=True,
    ),
    VIEW: RecordKind(
        "view",
        "a ledger of compaction exists; once it is sealed it is its topic's view",
        news=True,
        recovered=True,
    ),
}


def kind_name(kind: i64) -> str:
    """What people call a kind; a number that a newer version may know."""
    found = KINDS.get(kind)
    return f"kind {kind}" if found is None else found.name


# Sets of kinds as bits: each record is asked when it is written and when it is read.
_KIND_MAX: Final[i64] = 62


def _bits(kinds: list[int]) -> i64:
    bits: i64 = 0
    for kind in kinds:
        bits |= 1 << kind
    return bits


_ENTRIES: Final[i64] = _bits([number for number, kind in KINDS.items() if kind.entry])
_NEWS: Final[i64] = _bits([number for number, kind in KINDS.items() if kind.news])
_RECOVERED: Final[i64] = _bits([number for number, kind in KINDS.items() if kind.recovered])


def is_entry(kind: i64) -> bool:
    """Whether a record of this kind stands for an entry, which may be lost."""
    return kind <= _KIND_MAX and (_ENTRIES >> kind) & 1 == 1


def is_news(kind: i64) -> bool:
    """Whether it changes a ledger, a cursor or the catalog, which wait for it."""
    return kind <= _KIND_MAX and (_NEWS >> kind) & 1 == 1


def has_body_in_recovery(kind: i64) -> bool:
    """Whether recovery reads the body of such a record."""
    return kind <= _KIND_MAX and (_RECOVERED >> kind) & 1 == 1
