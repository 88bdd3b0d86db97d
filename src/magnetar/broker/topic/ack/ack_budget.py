"""How much memory partly acked batches may take.

A hole of whole entries costs next to nothing, and there is no limit on them. A batch of which
a part is acked costs a bit for each of its messages, whatever an ACK that makes it so weighs:
some few kilobytes can name thousands of batches of a million each. So there are limits, far
above what honest consumers need (batches of 1000 take 270 bytes each):

| what                                | at most                              | beyond it       |
|-------------------------------------|--------------------------------------|-----------------|
| parts of batches in one ACK or skip | max_ack_state_bytes_per_request      | AckSizeError    |
| all of one subscription             | max_ack_state_bytes_per_subscription | TooManyRequests |
| all that are loaded                 | max_ack_state_bytes                  | TooManyRequests |

What is on its way to the disk counts as if it were there. Acks of whole entries, and of more
of a batch that is partly acked already, are never refused: they take nothing, or give back.

What they give back is freed in pieces (`free`): hundreds of large records take the system tens
of milliseconds, and others have their turn in between (I10).
"""

from typing import Final, final

from mypy_extensions import i64

from magnetar.ack.cursor import Cursor
from magnetar.ack.record import record_bytes, record_size
from magnetar.broker.host import Host
from magnetar.broker.setting.settings import BrokerSettings
from magnetar.errors import BrokerError
from magnetar.model import ServerError

__all__ = ["AckBudget", "AckShare"]

# What is freed in one go: a millisecond, of few large records or of many small ones.
FREE_BYTES: Final = 2 << 20
FREE_RECORDS: Final = 2000

ADVICE: Final = "acknowledge whole batches, then try again"


@final
class AckBudget:
    """What all subscriptions take; see the module."""

    def __init__(self, settings: BrokerSettings, host: Host) -> None:
        self._settings: Final = settings
        self._host: Final = host
        self._warned: bool = False
        # What cursors have, and what is on its way to them.
        self.used: i64 = 0
        self.coming: i64 = 0
        # What acks of parts of batches take that are on their way to the disk, of all peers.
        self.writing: i64 = 0
        # Requests that were refused for it.
        self.refused: int = 0
        # Records that nobody needs any more.
        self.discarded: Final[list[int]] = []
        self._freeing: bool = False

    def fault(self, title: str, share: "AckShare", growth: i64) -> BrokerError | None:
        """Returns why a subscription cannot have so many bytes more; None if it can."""
        own_max = self._settings.max_ack_state_bytes_per_subscription
        all_max = self._settings.max_ack_state_bytes
        if 0 < own_max < share.used + share.coming + growth:
            return self._refuse(f"partly acked batches of {title} take {own_max} bytes")
        if 0 < all_max < self.used + self.coming + growth:
            return self._refuse(f"partly acked batches of this broker take {all_max} bytes")
        return None

    def _refuse(self, what: str) -> BrokerError:
        self.refused += 1
        if not self._warned:
            self._warned = True
            self._host.warn(f"acks are refused: {what}, which is the limit")
        return BrokerError(ServerError.TooManyRequests, f"{what}, the most that they may: {ADVICE}")

    def changed(self, growth: i64) -> None:
        """Cursors take so many bytes more than before."""
        self.used += growth
        if growth < 0:
            self._warned = False
            self._free_later()

    def _free_later(self) -> None:
        if self.discarded and not self._freeing:
            self._freeing = True
            self._host.call_soon(self._free)

    def _free(self) -> None:
        self._freeing = False
        size, count = 0, 0
        while self.discarded and size < FREE_BYTES and count < FREE_RECORDS:
            size += record_bytes(record_size(self.discarded.pop()))
            count += 1
        self._free_later()


@final
class AckShare:
    """What one subscription takes of the budget."""

    def __init__(self, budget: AckBudget, cursor: Cursor) -> None:
        self._budget: Final = budget
        self._cursor: Final = cursor
        cursor.discard_to(budget.discarded)
        self.used: i64 = 0
        self.coming: i64 = 0
        self._ended: bool = False

    def fault(self, title: str, growth: i64) -> BrokerError | None:
        """Returns why it cannot have so many bytes more; None if it can."""
        return self._budget.fault(title, self, growth)

    def reserve(self, growth: i64) -> None:
        """Counts bytes that are on their way to the disk."""
        self.coming += growth
        self._budget.coming += growth

    def arrived(self, growth: i64) -> None:
        """Counts them no more on their way: they are settled, well or not."""
        self.coming -= growth
        self._budget.coming -= growth

    def count(self, used: i64) -> None:
        """Counts what the cursor takes now."""
        if used != self.used and not self._ended:
            self._budget.changed(used - self.used)
            self.used = used

    def end(self) -> None:
        """Counts nothing any more: the subscription is closed or gone."""
        self._cursor.discard()
        self.count(0)
        self._ended = True
