"""A consumer: someone who has asked for messages of a subscription, and may have some.

    permits   how many more messages it has room for; below 0 when a batch was larger
    pending   entries that it has and has not acked, on Shared and Key_Shared: how many
              messages of each are left, and the slot of its key
    unacked   the messages in `pending`
    recalled  the broker has closed it, so that its client empties its queue; it keeps what is
              pending, and may ack it, until the client is back
    over      its client has nothing of it in a queue any more, or nobody knows

The counts are messages, not entries: an ack of one index lowers `unacked` by one.
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from magnetar.broker.peer import Peer, Port, unsigned
from magnetar.broker.promise import Promise
from magnetar.broker.topic.counters import Traffic
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import (
    CommandMessage,
    entry_facts,
    messages_charged,
    split_entry,
    unpacked_size,
)
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.storage.histogram import Histogram
from magnetar.storage.ledger.read_plan import StoredEntry
from magnetar.wire.ack_set import BATCH_SIZE_MAX, MESSAGE_BYTES_MIN

if TYPE_CHECKING:
    from magnetar.broker.topic.skip.recall import Withdrawal

__all__ = ["SLOT_BITS", "SLOT_MASK", "Consumer", "Tally"]

SLOT_BITS: Final = 17
SLOT_MASK: Final = (1 << SLOT_BITS) - 1


@final
class Tally:
    """The unacked messages of all consumers of a subscription, counted as they change."""

    def __init__(self) -> None:
        self.messages: i64 = 0


@final
class Consumer:
    """See the module. `key` tells it from all others of the broker."""

    def __init__(
        self,
        peer: Peer,
        key: int,
        id: int,
        name: str,
        *,
        priority: int = 0,
        epoch: int | None = None,
        metadata: dict[str, str] | None = None,
        connected_ms: int = 0,
        read_compacted: bool = False,
    ) -> None:
        self.peer: Final = peer
        self.key: Final = key
        self.id: Final[i64] = id
        self.name: Final = name
        self.priority: Final = priority
        self.epoch: int | None = epoch
        self.metadata: Final[dict[str, str]] = metadata or {}
        self.connected_ms: Final = connected_ms
        # Whether it wants the compacted view of the topic, as far as there is one.
        self.read_compacted: Final = read_compacted
        self.permits: i64 = 0
        self.unacked: i64 = 0
        # What it is counted in besides, while it is one of several.
        self.tally: Tally = Tally()
        self.unacked_max: i64 = 0
        self.blocked: bool = False
        self.closed: bool = False
        # Not yet to be served: its subscribe has not been answered.
        self.held: bool = True
        # It gives back what it holds, so often, in steps: it is sent nothing meanwhile.
        self.giving_back: i64 = 0
        self.pending: Final[dict[int, int]] = {}
        self.recalled: bool = False
        # Its connection ended.
        self.was_lost: bool = False
        # Its client asks for messages for the first time on this connection.
        self.is_first: bool = True
        self.is_over: bool = False
        self._emptied: bool = False
        # Kept when it is over, with whether its queue was emptied.
        self.ended: Final[Promise[bool]] = Promise()
        # What it was asked to give back and has not answered, by the number of the request.
        self.withdrawals: Final[dict[int, Withdrawal]] = {}
        self._withdrawals_begun: int = 0
        # How late first deliveries are, in ms, is counted there.
        self.late_ms: Histogram | None = None
        self.out: Final = Traffic()
        self.redelivered: Final = Traffic()
        self.acked: Final = Traffic()
        self.messages_per_entry: float = 0.0
        self.chunks: i64 = 0
        self.last_flow_ms: int = 0
        self.last_sent_ms: int = 0
        self.last_acked_ms: int = 0
        self.first_sent_ms: int = 0

    @property
    def available(self) -> bool:
        """Whether it may be sent a message now."""
        return (
            self.permits > 0
            and not self.blocked
            and not self.held
            and self.giving_back == 0
            and self.peer.ready
        )

    # ---- Sending -------------------------------------------------------------

    def deliver(
        self,
        entry: StoredEntry,
        partition: i64,
        *,
        remaining: int | None,
        redelivery_count: i64,
        now_ms: int,
    ) -> i64:
        """Sends an entry of which `remaining` is unacked; returns how many messages that is."""
        data = entry.data
        assert data is not None
        batch_size = entry.batch_size
        messages: i64 = batch_size if remaining is None else remaining.bit_count()
        if batch_size * MESSAGE_BYTES_MIN > len(data) or batch_size > BATCH_SIZE_MAX:
            messages = charge_of_dense(data, remaining)
            batch_size = max(messages, 1)
        command = CommandMessage(
            self.id,
            MessageIdData(entry.ledger_id, entry.entry_id, partition),
            b"",
            redelivery_count,
            remaining,
            self.epoch,
        )
        self.peer.send_with_entry(command, data)
        self.permits -= messages
        self.out.add(messages, len(data))
        if redelivery_count > 0:
            self.redelivered.add(messages, len(data))
        elif self.late_ms is not None:
            self.late_ms.add(now_ms - entry.publish_time_ms, 1)
        size = float(batch_size)
        before = self.messages_per_entry
        self.messages_per_entry = size if before == 0.0 else 0.9 * before + 0.1 * size
        if self.first_sent_ms == 0:
            self.first_sent_ms = now_ms
        self.last_sent_ms = now_ms
        return messages

    # ---- What it holds -------------------------------------------------------

    def hold(self, key: int, messages: i64, slot: int) -> None:
        """It has got an entry that it is to ack."""
        self.pending[key] = (int(messages) << SLOT_BITS) | slot
        self._count(messages)

    def keep_unacked(self, key: int, left: i64) -> int:
        """Notes that `left` messages of an entry are unacked now; returns its slot if none is."""
        packed = self.pending[key]
        before: i64 = packed >> SLOT_BITS
        slot = packed & SLOT_MASK
        if left >= before and left > 0:
            return -1
        self._count(left - before)
        if left > 0:
            self.pending[key] = (int(left) << SLOT_BITS) | slot
            return -1
        del self.pending[key]
        return slot

    def have_again(self, key: int, left: i64) -> None:
        """So many messages of an entry are unacked once more: a transaction aborted."""
        packed = self.pending[key]
        self._count(left - (packed >> SLOT_BITS))
        self.pending[key] = (int(left) << SLOT_BITS) | (packed & SLOT_MASK)

    def drop(self, key: int) -> int:
        """Holds an entry no longer, though it did not ack it; returns the slot of its key."""
        packed = self.pending.pop(key)
        self._count(-(packed >> SLOT_BITS))
        return packed & SLOT_MASK

    def drop_all(self) -> None:
        """It holds nothing any more: nobody counts it."""
        self.pending.clear()
        self.unacked = 0

    def _count(self, messages: i64) -> None:
        """So many more are unacked, or fewer."""
        self.unacked += messages
        self.tally.messages += messages
        self._judge()

    def limit(self, unacked_max: int) -> None:
        """Sets how many unacked messages block it; 0 is any number."""
        self.unacked_max = unacked_max
        self._judge()

    def _judge(self) -> None:
        """Too many unacked messages block it, until half of them are acked."""
        if self.unacked_max <= 0:
            self.blocked = False
        elif self.unacked >= self.unacked_max:
            self.blocked = True
        elif self.unacked <= self.unacked_max // 2:
            self.blocked = False

    # ---- What is taken back --------------------------------------------------

    @property
    def keeps_queue(self) -> bool:
        """Whether its connection ended, and its client hands out what it has all the same, though
        the subscription is shared. Ours does not."""
        return self.was_lost and not self.peer.knows_magnetar

    def ghost(self) -> "Consumer":
        """What is left of it once its connection is gone: enough to name it by."""
        peer = Peer(Port(), self.peer.address, self.peer.outbound)
        ghost = Consumer(peer, self.key, self.id, self.name)
        ghost.over(emptied=False)
        return ghost

    def new_withdrawal(self, withdrawal: "Withdrawal") -> int:
        """Notes that it is asked to give something back; returns the number of the request."""
        self._withdrawals_begun += 1
        self.withdrawals[self._withdrawals_begun] = withdrawal
        return self._withdrawals_begun

    def over(self, *, emptied: bool) -> None:
        """Its client has emptied its queue; or its connection ended, and nobody knows."""
        if self.is_over:
            return
        self.is_over = True
        self._emptied = emptied
        open_ones = list(self.withdrawals.values())
        self.withdrawals.clear()
        for withdrawal in open_ones:
            withdrawal.over(emptied)
        self.ended.keep(emptied)

    @property
    def emptied(self) -> bool:
        """Whether it is over, and its queue was emptied."""
        return self._emptied

    # ---- Telling it ----------------------------------------------------------

    def tell_active(self, active: bool) -> None:
        if self.peer.protocol_version >= 12:
            self.peer.send(
                pb.CommandActiveConsumerChange(consumer_id=unsigned(self.id), is_active=active)
            )

    def tell_end_of_topic(self) -> None:
        if self.peer.protocol_version >= 9:
            self.peer.send(pb.CommandReachedEndOfTopic(consumer_id=unsigned(self.id)))

    def tell_closed(self) -> None:
        """The broker closes it; the client will look it up and subscribe again."""
        self.peer.send(
            pb.CommandCloseConsumer(consumer_id=unsigned(self.id), request_id=unsigned(-1))
        )


def charge_of_dense(data: bytes, remaining: int | None) -> i64:
    """How many permits an entry costs that is compressed well, or that lies."""
    entry = split_entry(data)
    facts = entry_facts(entry)
    size: i64 = len(data) - entry.metadata_end
    unpacked = unpacked_size(size, facts.compression, facts.uncompressed_size)
    return messages_charged(entry, facts.batch_size, remaining, unpacked)
