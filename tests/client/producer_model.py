"""A broker that is a list, and a producer's core that publishes to it.

`ModelBroker` knows one producer, on one connection at a time. It stores what was written when it
is told to, confirms it, and removes duplicates if it is to.
"""

from itertools import pairwise
from typing import NamedTuple

from magnetar.client.option.options import ProducerOptions
from magnetar.client.producer.chunks import Part
from magnetar.client.producer.core import ProducerCore
from magnetar.client.producer.outgoing import Done, Outgoing
from magnetar.model.message_id import MessageId
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol.command import decode
from magnetar.protocol.entry import split_entry
from magnetar.protocol.frame import read_u32
from magnetar.protocol.limit import MESSAGE_SIZE_MAX
from magnetar.protocol.metadata import MessageMetadata
from magnetar.protocol.payload.batch import SingleMessage, decode_batch
from magnetar.protocol.payload.compression import decompress
from magnetar.protocol.send import CommandSend, CommandSendReceipt

TOPIC = "persistent://public/default/orders-partition-3"
LEDGER = 7


class Stored(NamedTuple):
    send: CommandSend
    metadata: MessageMetadata
    messages: list[SingleMessage]


class ModelBroker:
    """One connection at a time: what was written waits in `inbox`, receipts in `outbox`."""

    def __init__(self, *, deduplicates: bool = False) -> None:
        self.deduplicates = deduplicates
        self.inbox = bytearray()
        self.outbox: list[CommandSendReceipt] = []
        self.stored: list[Stored] = []
        self.last_sequence_id = -1

    def write(self, parts: list[Part]) -> None:
        self.inbox += b"".join(parts)

    def take(self) -> bool:
        """Stores the next entry that was written, if there is one."""
        send = take_send(self.inbox)
        if send is not None:
            self._store(send)
        return send is not None

    def _store(self, send: CommandSend) -> None:
        highest = max(send.highest_sequence_id, send.sequence_id)
        if self.deduplicates and send.sequence_id <= self.last_sequence_id:
            assert highest <= self.last_sequence_id, "part of a batch is a duplicate"
            self._confirm(send, -1, -1)
            return
        self.last_sequence_id = max(self.last_sequence_id, highest)
        self.stored.append(read_send(send))
        self._confirm(send, LEDGER, len(self.stored) - 1)

    def _confirm(self, send: CommandSend, ledger_id: int, entry_id: int) -> None:
        self.outbox.append(
            CommandSendReceipt(
                send.producer_id,
                send.sequence_id,
                MessageIdData(ledger_id, entry_id),
                send.highest_sequence_id,
            )
        )

    def lose_connection(self) -> None:
        self.inbox.clear()
        self.outbox.clear()

    def payloads(self) -> list[bytes]:
        return [message.payload for stored in self.stored for message in stored.messages]


def take_send(inbox: bytearray) -> CommandSend | None:
    """The first SEND of what was written, which is taken out."""
    if not inbox:
        return None
    end = 4 + read_u32(bytes(inbox[:4]), 0)
    frame = bytes(inbox[:end])
    del inbox[:end]
    send = decode(frame, 8, 8 + read_u32(frame, 4), end)
    assert isinstance(send, CommandSend)
    return send


def read_send(send: CommandSend) -> Stored:
    entry = split_entry(send.entry)
    assert entry.intact()
    metadata = entry.metadata()
    payload = decompress(
        metadata.compression, entry.payload(), metadata.uncompressed_size, MESSAGE_SIZE_MAX
    )
    assert metadata.uncompressed_size == len(payload)
    assert metadata.sequence_id == send.sequence_id
    if metadata.num_messages_in_batch is None:
        assert send.num_messages == 1
        return Stored(send, metadata, [SingleMessage(payload, metadata.sequence_id)])
    assert send.num_messages == metadata.num_messages_in_batch
    messages = decode_batch(payload, metadata.num_messages_in_batch)
    ids = [message.sequence_id or 0 for message in messages]
    assert ids[0] == send.sequence_id
    assert ids[-1] == send.highest_sequence_id == metadata.highest_sequence_id
    assert all(first < second for first, second in pairwise(ids))
    return Stored(send, metadata, messages)


class Fixture:
    """A core, its broker, and what `done` was told, by payload."""

    def __init__(self, *, deduplicates: bool = False, **options: object) -> None:
        self.now_ms = 1000
        self.broker = ModelBroker(deduplicates=deduplicates)
        self.done: dict[bytes, tuple[Exception | None, MessageId | None]] = {}
        self.core = ProducerCore(
            ProducerOptions(**options),  # type: ignore[arg-type]
            TOPIC,
            1,
            now_ms=lambda: self.now_ms,
            write=self.write,
        )

    def write(self, parts: list[Part], hurried: bool) -> None:
        assert self.core.state == "ready"
        self.broker.write(parts)

    def connect(self, *, max_message_size: int = MESSAGE_SIZE_MAX) -> None:
        last = self.broker.last_sequence_id if self.broker.deduplicates else -1
        self.core.connected("producer-1", last, b"", max_message_size)

    def disconnect(self, *, answered: bool = False) -> None:
        self.core.disconnected(answered=answered)
        self.broker.lose_connection()

    def told(self, payload: bytes) -> Done:
        def done(error: Exception | None, message_id: MessageId | None) -> None:
            assert payload not in self.done, "told twice"
            self.done[payload] = (error, message_id)

        return done

    def send(self, payload: bytes, **fields: object) -> None:
        self.core.send(Outgoing(payload, self.told(payload), **fields))  # type: ignore[arg-type]

    def answer_all(self) -> None:
        """The broker stores and confirms everything that was written."""
        while self.broker.take():
            assert self.core.receipt(self.broker.outbox.pop(0))

    def advance(self, ms: int) -> None:
        self.now_ms += ms
        self.core.tick(self.now_ms)


def connected(**options: object) -> Fixture:
    fixture = Fixture(**options)  # type: ignore[arg-type]
    fixture.connect()
    return fixture


def receipt(sequence_id: int, entry_id: int = 0) -> CommandSendReceipt:
    return CommandSendReceipt(1, sequence_id, MessageIdData(LEDGER, entry_id))
