"""How a compaction stands."""

from magnetar.rest.response.record import Record

__all__ = ["CompactionStatus"]


class CompactionStatus(Record, frozen=True):
    """How the last compaction of a topic stands, or ended."""

    status: str = "NOT_RUN"
    """`NOT_RUN`, `RUNNING`, `SUCCESS` or `ERROR`."""
    last_error: str = ""
    """What went wrong; empty unless it is `ERROR`."""
