"""Compactions of all topics, one after the other: each takes memory for keys, and reads much."""

from collections import deque
from typing import Final, final

from magnetar.broker.topic.compaction.topic_compaction import TopicCompaction

__all__ = ["Compactions"]


@final
class Compactions:
    """Whose turn it is."""

    def __init__(self) -> None:
        self._waiting: Final[deque[TopicCompaction]] = deque()
        self._running: TopicCompaction | None = None

    def add(self, compaction: TopicCompaction) -> None:
        """It wants to run."""
        self._waiting.append(compaction)
        self._begin()

    def ended(self, compaction: TopicCompaction) -> None:
        """It has run."""
        if self._running is compaction:
            self._running = None
        self._begin()

    def _begin(self) -> None:
        while self._running is None and self._waiting:
            compaction = self._waiting.popleft()
            self._running = compaction
            if not compaction.run() and self._running is compaction:
                self._running = None
