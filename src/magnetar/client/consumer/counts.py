"""What went through a consumer, counted."""

from typing import final

from mypy_extensions import i64

__all__ = ["ConsumerCounts"]


@final
class ConsumerCounts:
    """Counters since the consumer was made."""

    def __init__(self) -> None:
        self.messages_received: i64 = 0
        self.bytes_received: i64 = 0
        self.messages_dropped: i64 = 0
        self.chunks_received: i64 = 0
        self.chunks_given_up: i64 = 0
        self.entries_refused: i64 = 0
        self.messages_taken: i64 = 0
        self.messages_acked: i64 = 0
        # Refused by the application; and entries that it left unacked for too long.
        self.messages_refused: i64 = 0
        self.entries_late: i64 = 0
        self.entries_redelivered: i64 = 0
        self.messages_dead: i64 = 0
