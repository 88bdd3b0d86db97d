"""What SEEK names, so that the broker brings what was asked for and nothing else.

SEEK takes an entry, and what is left of a batch as `ack_set`; it has no word for "behind". So
that is said by what comes next:

| a seek to               | inclusive                  | exclusive                               |
|-------------------------|----------------------------|-----------------------------------------|
| a message               | its entry                  | the entry after it                      |
| index i of a batch      | the entry, bits from i on  | the entry, bits behind i; of the last,  |
|                         |                            | the entry after it                      |
| a message in chunks     | its last chunk             | the entry after its last chunk          |
| the same, not our broker| its first chunk            | its first chunk                         |

An entry that is not there yet stands for the next one that comes. Our broker knows which chunks
belong together, and begins with all messages that end where it was told to, or behind. Others do
not: they must begin with the first chunk, and of an exclusive seek the client drops the message
when it has come (`Start`), unacked.
"""

from magnetar.model.message_id import ChunkMessageId, MessageId
from magnetar.model.message_id_data import MessageIdData
from magnetar.wire.ack_set import all_unacked
from magnetar.wire.integer import INT64_MAX

__all__ = ["seek_target"]


def seek_target(id: MessageId, inclusive: bool, *, exact: bool) -> MessageIdData:
    """Returns where a seek to a message goes; `exact` says that the broker is ours."""
    if id.ledger_id() < 0 or id.entry_id() < 0 or id.ledger_id() == INT64_MAX:
        return MessageIdData(id.ledger_id(), id.entry_id(), id.partition())
    if isinstance(id, ChunkMessageId) and not exact:
        first = id.first_chunk_message_id()
        return MessageIdData(first.ledger_id(), first.entry_id(), first.partition())
    if id.batch_index() >= 0:
        return _in_batch(id, id.batch_index() if inclusive else id.batch_index() + 1)
    entry_id = id.entry_id() if inclusive else id.entry_id() + 1
    return MessageIdData(id.ledger_id(), entry_id, id.partition())


def _in_batch(id: MessageId, index: int) -> MessageIdData:
    """Returns the entry from an index on."""
    size = id.batch_size()
    if 0 < size <= index:
        return MessageIdData(id.ledger_id(), id.entry_id() + 1, id.partition())
    # Of a batch whose size is not known there are no bits to tell; our broker takes the index.
    left = all_unacked(size) >> index << index if size > 0 and index > 0 else None
    return MessageIdData(id.ledger_id(), id.entry_id(), id.partition(), index, left, size)
