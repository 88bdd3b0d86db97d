"""What went through: totals, and what they came to in a second."""

from typing import Final, final

from mypy_extensions import i64

__all__ = ["Traffic"]


@final
class Traffic:
    """Messages and bytes that passed, and their rates over the last interval."""

    def __init__(self) -> None:
        self.messages: i64 = 0
        self.bytes: i64 = 0
        self.message_rate: float = 0.0
        self.byte_rate: float = 0.0
        self._messages_before: i64 = 0
        self._bytes_before: i64 = 0

    def add(self, messages: i64, size: i64) -> None:
        self.messages += messages
        self.bytes += size

    def tick(self, seconds: float) -> None:
        """An interval is over."""
        self.message_rate = int(self.messages - self._messages_before) / seconds
        self.byte_rate = int(self.bytes - self._bytes_before) / seconds
        self._messages_before = self.messages
        self._bytes_before = self.bytes


# The interval of rates. Pulsar has a minute; people look sooner.
RATE_INTERVAL_MS: Final = 10_000
