"""What differs between Apache Pulsar's answers and ours, and which differences are meant.

A difference is a request and a mark: `204 > 405` of statuses, `+ .path` of a field that is ours
alone, `- .path` of one that we lack, `! .path` of another value, `reason` of another reason where
tools match it. docs/compatibility-admin.md has a table of those that are meant: requests as
patterns, marks as patterns, and why.
"""

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, NamedTuple

__all__ = ["PAGE", "Difference", "Meant", "differences", "meant"]

PAGE: Final = Path(__file__).parents[2] / "docs" / "compatibility-admin.md"

# What tools look for in the reason of an error. Where Apache Pulsar says it, we do.
MATCHED: Final = (
    "Namespace does not exist",
    "Topic {topic} not found",
    "Subscription {subscription} not found",
    "Schema not found",
    "Tenant already exist",
    "Namespace already exists",
    "Cluster already exists",
    "Cluster does not exist",
    "This topic already exists",
    "Subscription already exists for topic",
    "The tenant still has active namespaces",
    "Cannot delete non empty namespace",
    "ResourceGroup does not exist",
    "is not the partitioned topic",
    "Desired partitions",
    "not issued on topic",
    "Bookkeeper Ensemble",
)
_NAMES: Final = {
    "{topic}": r"(?:non-)?persistent://\S+",
    "{subscription}": r"\S+",
}


class Difference(NamedTuple):
    asks: str
    mark: str
    # Both sides, for whoever reads of a failure.
    told: str


class Meant(NamedTuple):
    """A row of the page."""

    asks: tuple[str, ...]
    marks: tuple[str, ...]

    def covers(self, one: Difference) -> bool:
        return any(fnmatchcase(one.asks, pattern) for pattern in self.asks) and any(
            fnmatchcase(one.mark, pattern) for pattern in self.marks
        )

    def narrowed(self) -> "Iterator[Meant]":
        """Itself with one request alone, or with one mark alone: each of them is needed."""
        for asks in self.asks:
            yield Meant((asks,), self.marks)
        for mark in self.marks:
            yield Meant(self.asks, (mark,))


def meant() -> list[Meant]:
    """The rows of the page's table."""
    found: list[Meant] = []
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("| `") or len(cells) != 3:
            continue
        asks, marks = (tuple(re.findall(r"`([^`]+)`", cell)) for cell in cells[:2])
        # In a table a bar would end the cell, and fnmatch takes brackets for a set.
        found.append(Meant(tuple(one.replace("[", "[[]") for one in asks), _escaped(marks)))
    return found


def _escaped(marks: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(mark.replace("[", "[[]") for mark in marks)


def differences(theirs: dict[str, Any], ours: dict[str, Any]) -> Iterator[Difference]:
    """All differences of two answers to one request."""
    assert theirs["asks"] == ours["asks"]
    asks = str(theirs["asks"])
    before, after = _status(theirs), _status(ours)
    if before != after:
        told = f"{_said(theirs)} > {_said(ours)}"
        yield Difference(asks, f"{before} > {after}", told)
        return
    if before >= 400:
        wanted = _matched(str(theirs.get("reason", "")))
        if wanted and wanted not in str(ours.get("reason", "")):
            told = f"{theirs.get('reason')} > {ours.get('reason')}"
            yield Difference(asks, "reason", told)
        return
    for mark, told in _values("", theirs.get("body"), ours.get("body")):
        yield Difference(asks, mark, told)


def _status(told: dict[str, Any]) -> int:
    """The status. Where Apache Pulsar says nothing with 200, it says nothing."""
    nothing = told["status"] == 200 and "body" not in told and not told.get("silent")
    return 204 if nothing else int(told["status"])


def _said(told: dict[str, Any]) -> str:
    return str(told.get("reason", told.get("body")))[:200]


def _matched(reason: str) -> str:
    for words in MATCHED:
        pattern = re.escape(words)
        for name, stands_for in _NAMES.items():
            pattern = pattern.replace(re.escape(name), stands_for)
        found = re.search(pattern, reason)
        if found:
            return found[0].rstrip(".")
    return ""


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _values(at: str, theirs: Any, ours: Any) -> Iterator[tuple[str, str]]:
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for name in sorted(theirs.keys() | ours.keys()):
            if name not in ours:
                yield f"- {at}.{name}", str(theirs[name])
            elif name not in theirs:
                yield f"+ {at}.{name}", str(ours[name])
            else:
                yield from _values(f"{at}.{name}", theirs[name], ours[name])
    elif _texts(theirs) and _texts(ours) and sorted(theirs) == sorted(ours):
        return  # lists of names have no order
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for one, other in zip(theirs, ours, strict=True):
            yield from _values(f"{at}[]", one, other)
    elif theirs != ours or isinstance(theirs, bool) != isinstance(ours, bool):
        yield f"! {at}", f"{theirs} > {ours}"
