"""Kinds of records: said once, and as the documentation of the format has them."""

from pathlib import Path

from magnetar.storage.log import record_kind
from magnetar.storage.log.record_kind import (
    KINDS,
    has_body_in_recovery,
    is_entry,
    is_news,
    kind_name,
)

FORMAT = Path(__file__).parents[3] / "docs" / "internals" / "storage.md"
# Any number may stand in a damaged head.
NUMBERS = [*range(70), 1 << 31, (1 << 32) - 1]


def test_every_number_is_a_kind_and_every_kind_is_documented() -> None:
    named = [getattr(record_kind, name) for name in record_kind.__all__ if name.isupper()]
    assert sorted(one for one in named if isinstance(one, int)) == sorted(KINDS)
    rows = FORMAT.read_text()
    for number, kind in KINDS.items():
        assert f"| {number} {kind.name} |" in rows
        assert kind.meaning


def test_sets_of_kinds_are_what_the_kinds_say() -> None:
    for number in NUMBERS:
        kind = KINDS.get(number)
        assert is_entry(number) == (kind is not None and kind.entry)
        assert is_news(number) == (kind is not None and kind.news)
        assert has_body_in_recovery(number) == (kind is not None and kind.recovered)


def test_numbers_and_properties_are_for_ever() -> None:
    """What is on disks was written by them."""
    names = [KINDS[number].name for number in range(1, 21)]
    assert names[:5] == ["entry", "copy", "delta", "slice", "last slice"]
    assert names[5:10] == ["topic", "ledger", "cursor", "delete", "segments"]
    assert names[10:14] == ["seal", "catalog", "lost entry", "lost delta"]
    assert names[14:] == ["transaction", "sent", "txn ack", "end", "aborted", "view"]
    assert [n for n in KINDS if is_entry(n)] == [1, 2, 13]
    assert [n for n in KINDS if is_news(n)] == [3, 7, 8, 12, 19, 20]
    assert [n for n in KINDS if has_body_in_recovery(n)] == [6, 7, 8, 10, 12, 20]
    assert {n: kind.lost_as for n, kind in KINDS.items() if kind.lost_as} == {1: 13, 2: 13, 3: 14}


def test_a_kind_of_a_newer_version_is_a_number() -> None:
    assert kind_name(99) == "kind 99"
    assert kind_name(1) == "entry"
