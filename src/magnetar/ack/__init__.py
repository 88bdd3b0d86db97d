"""The truth about acks: what a subscription has acknowledged, to the single message.

`Cursor` is the state, `Ledgers` what it must know of its topic, a delta what one operation
changes; deltas and snapshots go to bytes and back. Storage, broker and admin REST share it. The
client does not: what it keeps are acks on their way (`client/ack`), not what is acked.
"""

from magnetar.ack.acks import Acks
from magnetar.ack.cursor import Cursor
from magnetar.ack.delta import AckDelta, Delta, ResetDelta
from magnetar.ack.encoding.delta_codec import decode_delta, encode_delta
from magnetar.ack.entry_run import Run
from magnetar.ack.ledgers import BatchSizes, Ledgers
from magnetar.ack.snapshot import (
    decode_snapshot,
    decode_snapshot_steps,
    encode_snapshot,
    snapshot_slices,
)

__all__ = [
    "AckDelta",
    "Acks",
    "BatchSizes",
    "Cursor",
    "Delta",
    "Ledgers",
    "ResetDelta",
    "Run",
    "decode_delta",
    "decode_snapshot",
    "decode_snapshot_steps",
    "encode_delta",
    "encode_snapshot",
    "snapshot_slices",
]
