"""Asking the broker for messages once more.

Redelivery is by entry. Acks go out before the call for it, so the broker keeps back what is
acked, and what is in the queue of such an entry is dropped: it comes again too. Where one
consumer is active, a broker redelivers everything; the epoch then tells messages from before
that from those after it.
"""

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from magnetar.client.ack.tracker import AckTracker
from magnetar.client.consumer.arrival.incoming import Incoming
from magnetar.client.consumer.chunk.assembler import ChunkAssembler
from magnetar.client.consumer.counts import ConsumerCounts
from magnetar.client.consumer.outstanding import Due, Outstanding
from magnetar.client.consumer.permits import Permits
from magnetar.client.consumer.receive_queue import ReceiveQueue
from magnetar.client.consumer.start.start_position import StartPosition
from magnetar.model.message_id_data import MessageIdData
from magnetar.model.position_key import wide_key_entry, wide_key_ledger
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.protocol.cold import message_id_to_pb
from magnetar.protocol.command import Command

__all__ = ["Redelivery"]

# As Pulsar's clients do: how many ids one call for redelivery names.
REDELIVER_IDS_MAX: Final = 1000


@final
class Redelivery:
    """See the module. `single`: one consumer is active and gets everything."""

    def __init__(
        self,
        consumer_id: i64,
        partition: i64,
        single: bool,
        *,
        acks: AckTracker,
        assembler: ChunkAssembler,
        incoming: Incoming,
        outstanding: Outstanding,
        queue: ReceiveQueue,
        permits: Permits,
        start: StartPosition,
        counts: ConsumerCounts,
        now_ms: Callable[[], int],
        write: Callable[[list[Command]], None],
    ) -> None:
        self._consumer_id: Final[i64] = consumer_id
        self._partition: Final[i64] = partition
        self._single: Final[bool] = single
        self._acks: Final = acks
        self._assembler: Final = assembler
        self._incoming: Final = incoming
        self._outstanding: Final = outstanding
        self._queue: Final = queue
        self._permits: Final = permits
        self._start: Final = start
        self._counts: Final = counts
        self._now_ms: Final = now_ms
        self._write: Final = write
        # Told which entries are to come again, or None: all. Whoever keeps messages that the
        # application was not handed drops them: the queue is not all that does.
        self.on_again: Callable[[list[int] | None], None] | None = None
        # Told what was refused or late, before it is asked for.
        self.on_due: Callable[[Due], None] | None = None

    def everything(self, online: bool) -> None:
        """Everything that is not acked is to come again; offline it does so anyway.

        There the epoch stays: the broker may have been told it already, by the next SUBSCRIBE.
        """
        self._queue.expect_copies()
        self._acks.flush()
        if self.on_again is not None:
            self.on_again(None)
        count = self._queue.clear()
        self._assembler.expect_all(self._now_ms())
        self._outstanding.clear()
        self._acks.records.forget_idle()
        self._start.last_taken = None
        if online:
            command = pb.CommandRedeliverUnacknowledgedMessages(consumer_id=self._consumer_id)
            if self._single:
                self._incoming.epoch += 1
                command.consumer_epoch = self._incoming.epoch
            self._write([command])
            self._permits.give_back(count)

    def entries(self, keys: list[int]) -> None:
        """These are to come again; where one consumer is active, everything does."""
        if self._single:
            self.everything(True)
            return
        self._queue.expect_copies()
        self._acks.flush()
        if self.on_again is not None:
            self.on_again(keys)
        dropped = self._queue.drop(set(keys))
        entries: list[int] = []
        for key in keys:
            self._acks.records.forget(key)
            self._outstanding.forget(key)
            chunks = self._acks.records.chunks.get(key)
            entries.extend([key] if chunks is None else chunks)
        self._counts.entries_redelivered += len(entries)
        commands: list[Command] = []
        for first in range(0, len(entries), REDELIVER_IDS_MAX):
            command = pb.CommandRedeliverUnacknowledgedMessages(consumer_id=self._consumer_id)
            for key in entries[first : first + REDELIVER_IDS_MAX]:
                id = MessageIdData(wide_key_ledger(key), wide_key_entry(key), self._partition)
                command.message_ids.append(message_id_to_pb(id))
            commands.append(command)
        self._write(commands)
        self._permits.give_back(dropped)

    def tick(self, now_ms: int) -> None:
        """Asks for what the application refused, or left for too long."""
        due = self._outstanding.take_due(now_ms)
        if due is None:
            return
        if self.on_due is not None:
            self.on_due(due)
        if self._single:
            self.everything(True)
            return
        keys = self._outstanding.bury(due)
        if keys:
            self.entries(keys)

    def held_back(self, online: bool) -> None:
        """Messages came again and were dropped for an ack that has failed since."""
        keys = self._acks.take_held_back()
        if keys and online:
            self.entries(keys)
