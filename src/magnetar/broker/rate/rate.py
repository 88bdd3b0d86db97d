"""A rate: how many messages and bytes there may be in a period."""

from typing import Final, final

__all__ = ["NO_RATE", "Rate"]

SECOND_MS: Final = 1000


@final
class Rate:
    """So many messages and bytes in `period_seconds`; what is not above 0 is not limited.

    A relative one is added to what is published.
    """

    def __init__(
        self, messages: int, size: int = 0, *, period_seconds: int = 1, relative: bool = False
    ) -> None:
        self.messages: Final = messages
        self.bytes: Final = size
        self.period_seconds: Final = period_seconds
        self.relative: Final = relative

    @property
    def limits(self) -> bool:
        """Whether it limits anything."""
        return self.messages > 0 or self.bytes > 0

    @property
    def period_ms(self) -> int:
        return self.period_seconds * SECOND_MS

    def equals(self, other: "Rate") -> bool:
        """Whether the other says the same."""
        return (
            self.messages == other.messages
            and self.bytes == other.bytes
            and self.period_seconds == other.period_seconds
            and self.relative == other.relative
        )

    def beside(self, message_rate: float, byte_rate: float) -> "Rate":
        """The same where so much is published in a second: more, if it is relative to that."""
        if not self.relative:
            return self
        messages, size = self.messages, self.bytes
        if messages > 0:
            messages += int(message_rate * self.period_seconds)
        if size > 0:
            size += int(byte_rate * self.period_seconds)
        return Rate(messages, size, period_seconds=self.period_seconds)


NO_RATE: Final = Rate(0)
