"""What came of a case."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Result:
    """What came of a case; `error` is empty if all was well."""

    facts: int = 0
    error: str = ""
    # What it reached, see `states.py`; only of those that reached something new it is kept.
    states: frozenset[str] = frozenset()
