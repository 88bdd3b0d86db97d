"""How acks gather, whether callers wait for the broker's word, and what is remembered."""

from typing import Final, final

from mypy_extensions import i64

from magnetar.client.ack.records import IDLE_MAX
from magnetar.client.option.options import PENDING_MAX, ConsumerOptions

__all__ = ["RECEIPT_TIMEOUT_MS", "AckSettings", "ack_settings"]

# As long as a client waits for the answer to any request, unless it is told otherwise.
RECEIPT_TIMEOUT_MS: Final = 30_000


@final
class AckSettings:
    """See the module.

    From `pending_max` unconfirmed acks on, those who retry should get no more messages.
    """

    def __init__(
        self,
        *,
        group_time_ms: i64,
        group_size_max: i64,
        receipts: bool,
        receipt_timeout_ms: i64 = RECEIPT_TIMEOUT_MS,
        idle_max: i64 = IDLE_MAX,
        pending_max: i64 = PENDING_MAX,
    ) -> None:
        self.group_time_ms: Final[i64] = group_time_ms
        self.group_size_max: Final[i64] = group_size_max
        self.receipts: Final[bool] = receipts
        self.receipt_timeout_ms: Final[i64] = receipt_timeout_ms
        self.idle_max: Final[i64] = idle_max
        self.pending_max: Final[i64] = pending_max


def ack_settings(options: ConsumerOptions, receipt_timeout_ms: i64) -> AckSettings:
    """Returns what the options of a consumer say about its acks."""
    return AckSettings(
        group_time_ms=options.acknowledgement_group_time_ms,
        # A group that waits for its time must not be a crowd.
        group_size_max=min(
            options.max_acknowledgement_group_size, options.max_pending_acknowledgements
        ),
        receipts=options.ack_receipt_enabled,
        receipt_timeout_ms=receipt_timeout_ms,
        pending_max=options.max_pending_acknowledgements,
    )
