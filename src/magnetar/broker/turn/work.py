"""Work in steps: a generator that yields when others may have their turn, and returns its result.

What decides is synchronous, and compiled code gives way to nobody. So work that may be long
says where it can be interrupted; whoever runs it does so at once (`finish`), or a few steps in
each turn (`schema_work.py`).
"""

from collections.abc import Generator
from typing import TypeAlias, TypeVar

__all__ = ["Work", "finish"]

T = TypeVar("T")

Work: TypeAlias = Generator[None, None, T]


def finish(work: Generator[None, None, T]) -> T:
    """Returns the result, at once; raises what the work raises."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
