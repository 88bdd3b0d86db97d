"""What became of messages that were skipped by id."""

from msgspec import field

from magnetar.rest.response.record import Record

__all__ = ["Skipped", "SkippedId"]


class SkippedId(Record, frozen=True, omit_defaults=True):
    """What became of one id."""

    ledger_id: int
    """The ledger of the message."""
    entry_id: int
    """The entry of the message."""
    batch_index: int | None = None
    """The index in the batch; None for a whole entry."""
    result: str = ""
    """`skipped`, `already acked` or `trimmed`."""
    taken_back_from: list[str] | None = None
    """Consumers that had it queued and gave it back."""
    handed_out_to: list[str] | None = None
    """Consumers whose application had been handed it before."""
    closed: list[str] | None = None
    """Consumers that were made to connect again, to empty their queue."""
    unconfirmed: list[str] | None = None
    """Consumers that may still hand it to their application."""


class Skipped(Record, frozen=True):
    """What became of all ids. A server that does not tell leaves `skipped` at 0."""

    skipped: int = 0
    """How many messages were skipped now."""
    unconfirmed: int = 0
    """How many consumers did not confirm that they gave back what they had queued."""
    message_ids: list[SkippedId] = field(default_factory=list)
    """What became of each id; empty where the server does not tell."""
    requests: int = 1
    """How many requests it took; each is done as a whole or not at all."""
    by_acks: bool = False
    """Whether the messages were acked through a consumer, on a cluster that cannot skip by id."""
    gone: int = 0
    """How many ids named messages that were acked and deleted before; known of acks alone."""

    def __add__(self, other: "Skipped") -> "Skipped":
        """Returns both as one."""
        return Skipped(
            skipped=self.skipped + other.skipped,
            unconfirmed=self.unconfirmed + other.unconfirmed,
            message_ids=[*self.message_ids, *other.message_ids],
            requests=self.requests + other.requests,
        )
