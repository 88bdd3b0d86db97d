"""What fails for a while and is tried again: told once when it begins, and once when it ends.

Descriptors run out, memory does, an operation on a file that nobody misses yet fails. None of
that ends the store. But whoever runs it wants to know, and how often; what fails is counted
by the kind of work.
"""

from typing import Final, final

__all__ = ["Setbacks"]


@final
class Setbacks:
    """Work that is to be done again, by its kind.

    >>> setbacks = Setbacks()
    >>> setbacks.failed("an index", OSError("no descriptors"))
    >>> setbacks.failed("an index", OSError("no descriptors"))
    >>> setbacks.total, setbacks.present
    (2, {'an index': 'no descriptors'})
    >>> setbacks.passed("an index")
    >>> setbacks.take_news()
    ['an index waits, and is tried again: no descriptors', 'an index is done after 2 failures']
    """

    def __init__(self) -> None:
        # All failures since the store was opened, and what fails at present and why.
        self.total: int = 0
        self.present: Final[dict[str, str]] = {}
        self._failures: Final[dict[str, int]] = {}
        self._news: list[str] = []

    def failed(self, kind: str, error: Exception) -> None:
        self.total += 1
        if kind not in self.present:
            self._news.append(f"{kind} waits, and is tried again: {error}")
        self.present[kind] = str(error)
        self._failures[kind] = self._failures.get(kind, 0) + 1

    def passed(self, kind: str) -> None:
        if kind in self.present:
            count = self._failures.pop(kind)
            del self.present[kind]
            self._news.append(f"{kind} is done after {count} failures")

    def given_up(self, kind: str) -> None:
        """Forgets a setback that nobody waits for any more; whoever did was told."""
        self.present.pop(kind, None)
        self._failures.pop(kind, None)

    def take_news(self) -> list[str]:
        """Returns what began and ended since the last call."""
        news = self._news
        self._news = []
        return news
