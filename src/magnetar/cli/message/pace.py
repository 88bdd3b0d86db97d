"""So many a second, and no more: for those who watch, and for brokers that others use too."""

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from magnetar.cli.interrupt import TURN_S, Check

__all__ = ["paced"]

T = TypeVar("T")


def paced(items: Iterable[T], rate: float, check: Check) -> Iterator[T]:
    """Yields the items, no more than `rate` of them a second; 0 is no limit."""
    if not rate:
        yield from items
        return
    begin = time.monotonic()
    for number, item in enumerate(items):
        while (left_s := begin + number / rate - time.monotonic()) > 0:
            time.sleep(min(left_s, TURN_S))
            check()
        yield item
