"""From a MESSAGE to messages: what an application is to get of an entry.

A broker charges a permit for every message of an entry that it holds for unacked. `Arrival`
accounts for each of them: it is in `messages`, or it was dropped and its permit is to be
given back. Messages are dropped that come again while their ack is on its way, that stand
before the place where the consumer wants to begin, that are older than the last call for
redelivery, or that are on their way to the dead letter topic. What cannot be read at all is
refused: the broker is told why, in place of an ack, and will not send it again.

| an entry that cannot be decrypted | becomes of it                                           |
|-----------------------------------|---------------------------------------------------------|
| FAIL                              | dropped, and not acked: it may come again, with its key |
| DISCARD                           | refused                                                 |
| CONSUME                           | one message, as it is; so is each chunk, for each has   |
|                                   | an initialisation vector of its own                     |

A chunk is kept until the message is whole, which is then delivered with its last chunk, and
stands there: what begins behind an entry begins behind all messages that end there or before.
"""

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from magnetar.client.ack.tracker import AckTracker
from magnetar.client.consumer.chunk.assembler import REFUSED, WHOLE, ChunkAssembler, Whole
from magnetar.client.consumer.dead_letter import DeadLetters
from magnetar.client.consumer.message import Decode, Delivery, Message
from magnetar.client.consumer.origin import Origin
from magnetar.client.option.encryption import Opener
from magnetar.client.option.options import ConsumerCryptoFailureAction
from magnetar.errors import CryptoError, RemoteProtocolError
from magnetar.model.enums import ValidationError
from magnetar.model.message_id import ChunkMessageId, MessageId
from magnetar.model.position_key import wide_key
from magnetar.protocol.entry import Entry, split_entry
from magnetar.protocol.message import CommandMessage
from magnetar.protocol.metadata import MessageMetadata
from magnetar.protocol.payload.batch import SHAPE as BATCH_SHAPE
from magnetar.protocol.payload.batch import check_batch_end, metadata_end_at, payload_end_at
from magnetar.protocol.payload.batch_claim import messages_charged, unpacked_size
from magnetar.protocol.payload.compression import decompress
from magnetar.wire.ack_set import BATCH_SIZE_MAX, all_unacked
from magnetar.wire.reader import Reader

__all__ = ["Arrival", "Incoming", "Start"]

# What a payload may grow to. Brokers bound the compressed size only, by 5 MiB as a rule.
UNCOMPRESSED_SIZE_MAX: Final = 128 << 20
# Messages in chunks, one of which could not be decrypted: how many are remembered.
KEPT_BACK_MAX: Final = 1000


@final
class Arrival:
    """What came of one MESSAGE. `refusal` is a ValidationError, -1 if there is none."""

    def __init__(self, command: CommandMessage) -> None:
        self.command: Final = command
        self.messages: list[Message] = []
        # How many permits the broker took for the entry.
        self.charged: i64 = 0
        self.refusal: i64 = -1
        # Nothing is left to ack for the application: compaction took it all.
        self.empty: Delivery | None = None
        # A chunk came; it was kept for its message; the message that it made whole.
        self.chunk: bool = False
        self.kept: bool = False
        self.whole: Whole | None = None
        # Why an entry was refused, or could not be decrypted, for people.
        self.problem: str = ""
        # It is left unacked, since it could not be decrypted.
        self.kept_back: bool = False

    @property
    def dropped(self) -> int:
        """For how many messages the application gets nothing."""
        return self.charged - len(self.messages)


@final
class Start:
    """Where a consumer begins: at an id, or behind it.

    A message that was split has the id of its last chunk, and begins with its first.
    """

    def __init__(self, id: MessageId, inclusive: bool) -> None:
        if inclusive and isinstance(id, ChunkMessageId):
            id = id.first_chunk_message_id()
        self.id: Final = id
        self.inclusive: Final = inclusive
        self.key: Final[int] = wide_key(id.ledger_id(), id.entry_id())
        self.index: Final[i64] = id.batch_index()

    def unacked(self, unacked: int) -> int:
        """Returns what of the entry it names is not before it."""
        if self.index >= 0:
            # As an i64 it would make one of the long int, too.
            first = int(self.index) if self.inclusive else int(self.index) + 1
            return unacked >> first << first
        return unacked if self.inclusive else 0


@final
class Incoming:
    """Reads what one consumer receives."""

    def __init__(
        self,
        topic: str,
        partition: i64,
        acks: AckTracker,
        dead_letters: DeadLetters,
        crypto_failure_action: ConsumerCryptoFailureAction,
        decode: Decode | None,
        assembler: ChunkAssembler,
        now_ms: Callable[[], int],
        whole_size_max: i64,
        opener: Opener | None = None,
    ) -> None:
        self._topic: Final = topic
        self._partition: Final[i64] = partition
        self._acks: Final = acks
        self._dead_letters: Final = dead_letters
        self._opener: Final = opener
        # What to do with entries that cannot be decrypted; else they are kept back.
        self._discards: Final = crypto_failure_action == ConsumerCryptoFailureAction.DISCARD
        self._passes_on: Final = crypto_failure_action == ConsumerCryptoFailureAction.CONSUME
        # Chunks that come behind one that was kept back are kept back too.
        self._kept_back: Final[dict[str, None]] = {}
        self._decode: Final = decode
        self._assembler: Final = assembler
        self._now_ms: Final = now_ms
        # What a message in chunks may grow to.
        self._whole_size_max: Final[i64] = whole_size_max
        # Where the entry stands that came last; -1 before the first.
        self._last_ledger: i64 = -1
        self._last_entry: i64 = -1
        # The furthest that came since the subscription was moved, on any connection.
        self._far_ledger: i64 = -1
        self._far_entry: i64 = -1
        # Whether it does not stand behind the one before it: messages come again.
        self.went_back: bool = False
        self.epoch: int = 0
        # Of what comes now.
        self.origin: Origin = Origin()
        self.start: Start | None = None
        # Right after a seek entries from before it may still be under way.
        self.only_from_start: bool = False

    def reset(self) -> None:
        """Others moved the subscription: what came before was for what is undone."""
        self.origin.moves += 1
        self.origin.resets += 1
        self._begin_anew()

    def sought(self) -> None:
        """The consumer itself moved the subscription."""
        self.origin.moves += 1
        self._begin_anew()

    def moved(self) -> None:
        """What comes now comes from elsewhere, and has nothing to do with what came before."""
        self.origin.gone = True
        self.origin = Origin()
        self._kept_back.clear()
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._far_ledger = -1
        self._far_entry = -1

    def reconnected(self) -> None:
        """What comes now comes from the beginning again."""
        self._last_ledger = -1
        self._last_entry = -1

    def last_key(self) -> int:
        """Returns the entry that came last on this connection, -1 if none did."""
        return -1 if self._last_ledger < 0 else wide_key(self._last_ledger, self._last_entry)

    def has_come(self, ledger_id: i64, entry_id: i64) -> bool:
        """Returns whether an entry came since the subscription was moved, or one behind it: then
        all before it came, too, or are acked."""
        return not self._is_further(ledger_id, entry_id)

    def _is_further(self, ledger_id: i64, entry_id: i64) -> bool:
        if ledger_id != self._far_ledger:
            return ledger_id > self._far_ledger
        return entry_id > self._far_entry

    def in_turn(self, command: CommandMessage) -> bool:
        """Returns whether it was sent after the last call for the redelivery of everything."""
        return self.epoch == 0 or command.consumer_epoch == self.epoch

    def is_outdated(self, command: CommandMessage) -> bool:
        """Returns whether it was sent before the last call for the redelivery of everything."""
        return command.consumer_epoch is not None and command.consumer_epoch < self.epoch

    def read(self, command: CommandMessage, permits: i64) -> Arrival:
        """Reads an entry; `permits` is how many the broker has, to judge damaged numbers."""
        arrival = Arrival(command)
        metadata: MessageMetadata | None = None
        try:
            entry = split_entry(command.entry)
            metadata = entry.metadata()
            intact = entry.intact()
        except RemoteProtocolError:
            intact = False
        arrival.charged = 1
        if metadata is not None and metadata.num_messages_in_batch is not None:
            arrival.charged = _charged(command, entry, metadata, metadata.num_messages_in_batch)
        if metadata is None or not intact:
            # The damage may be in the very number that is asked for.
            arrival.charged = min(arrival.charged, max(permits, 1))
            arrival.refusal = ValidationError.ChecksumMismatch.value
        elif metadata.encryption_keys is not None:
            self._read_encrypted(arrival, entry, metadata)
        else:
            self._read_payload(arrival, metadata, entry.data, entry.metadata_end)
        ledger_id: i64 = command.message_id.ledger_id
        entry_id: i64 = command.message_id.entry_id
        self.went_back = ledger_id < self._last_ledger or (
            ledger_id == self._last_ledger and entry_id <= self._last_entry
        )
        self._last_ledger = ledger_id
        self._last_entry = entry_id
        if not self.went_back and self._is_further(ledger_id, entry_id):
            self._far_ledger = ledger_id
            self._far_entry = entry_id
        if self._assembler.active and metadata is not None and not arrival.chunk:
            self._assembler.saw(self.last_key(), metadata.publish_time, self._now_ms())
        return arrival

    def _read_encrypted(self, arrival: Arrival, entry: Entry, metadata: MessageMetadata) -> None:
        arrival.problem = "there is no crypto_key_reader"
        if self._opener is not None:
            try:
                sealed = memoryview(entry.data)[entry.metadata_end :]
                payload = self._opener.open(metadata, sealed)
            except CryptoError as error:
                arrival.problem = str(error)
            else:
                arrival.problem = ""
                self._read_payload(arrival, metadata, payload, 0)
                return
        if self._discards:
            arrival.refusal = ValidationError.DecryptionError.value
        elif not self._passes_on:
            self._keep_back(arrival, metadata)
        elif self._wanted(arrival.command, 0, 1):
            self._add_alone(arrival, metadata, entry.payload())
            arrival.messages[0]._delivery.decryption_failed = True

    def _keep_back(self, arrival: Arrival, metadata: MessageMetadata) -> None:
        arrival.kept_back = True
        if metadata.uuid is not None:
            self._assembler.drop(metadata)
            self._kept_back[metadata.chunked_name()] = None
            if len(self._kept_back) > KEPT_BACK_MAX:
                del self._kept_back[next(iter(self._kept_back))]

    def _read_payload(
        self, arrival: Arrival, metadata: MessageMetadata, data: bytes, first: i64
    ) -> None:
        """Reads what an entry has in `data[first:]`."""
        if metadata.num_messages_in_batch is not None:
            self._read_batch(arrival, metadata, data, first)
        elif metadata.num_chunks_from_msg is not None and metadata.num_chunks_from_msg != 1:
            self._read_chunk(arrival, metadata, data, first)
        else:
            self._read_single(arrival, metadata, data, first)

    def _read_single(
        self, arrival: Arrival, metadata: MessageMetadata, data: bytes, first: i64
    ) -> None:
        arrival.charged = 1
        if self._wanted(arrival.command, 0, 1):
            payload = _uncompressed(_rest(data, first), metadata, arrival)
            if payload is not None:
                self._add_alone(arrival, metadata, payload)

    def _read_chunk(
        self, arrival: Arrival, metadata: MessageMetadata, data: bytes, first: i64
    ) -> None:
        command = arrival.command
        arrival.charged = 1
        arrival.chunk = True
        if self._kept_back and (name := metadata.chunked_name()) in self._kept_back:
            if metadata.chunk_id != 0:
                arrival.kept_back = True
                return
            del self._kept_back[name]
        if not self._chunk_wanted(command, metadata):
            return
        key = wide_key(command.message_id.ledger_id, command.message_id.entry_id)
        last = self.last_key()
        outcome = self._assembler.add(
            key,
            last if last < key else -1,
            metadata,
            data,
            first,
            command.redelivery_count,
            self._now_ms(),
        )
        if outcome == REFUSED:
            arrival.refusal = ValidationError.UncompressedSizeCorruption.value
            arrival.problem = self._assembler.problem
        elif outcome == WHOLE:
            self._add_chunked(arrival, metadata, self._assembler.take_whole())
        else:
            arrival.kept = True

    def _add_chunked(self, arrival: Arrival, metadata: MessageMetadata, whole: Whole) -> None:
        arrival.whole = whole
        payload = _uncompressed(whole.payload, metadata, arrival, self._whole_size_max)
        if payload is None:
            arrival.problem = f"{metadata.uuid} in {len(whole.keys)} chunks cannot be decompressed"
            return
        delivery = self._delivery(arrival.command, metadata, payload, 0, 1, whole.redelivery_count)
        delivery.chunks = whole.keys
        arrival.messages.append(Message(delivery, -1, 0, 0, len(payload)))

    def _chunk_wanted(self, command: CommandMessage, metadata: MessageMetadata) -> bool:
        """Returns whether the application may get the message; the last chunk says where that
        stands."""
        if not self._unseen(command, 0, 1):
            return False
        key = wide_key(command.message_id.ledger_id, command.message_id.entry_id)
        if not self._dead_letters.without_dying(key, 1):
            return False
        start = self.start
        if start is None or metadata.num_chunks_from_msg is None or metadata.chunk_id is None:
            return True
        if start.inclusive:
            return not (self.only_from_start and key < start.key)
        if metadata.chunk_id + 1 < metadata.num_chunks_from_msg:
            return True
        if key == start.key or (self.only_from_start and key < start.key):
            self._assembler.drop(metadata)
            return False
        return True

    def _add_alone(self, arrival: Arrival, metadata: MessageMetadata, payload: bytes) -> None:
        command = arrival.command
        delivery = self._delivery(command, metadata, payload, 0, 1, command.redelivery_count)
        arrival.messages.append(Message(delivery, -1, 0, 0, len(payload)))

    def _read_batch(
        self, arrival: Arrival, metadata: MessageMetadata, data: bytes, first: i64
    ) -> None:
        command = arrival.command
        assert metadata.num_messages_in_batch is not None
        size: i64 = metadata.num_messages_in_batch
        if not 1 <= size <= BATCH_SIZE_MAX:
            arrival.refusal = ValidationError.BatchDeSerializeError.value
            return
        unacked = all_unacked(size)
        if command.ack_set is not None:
            unacked &= command.ack_set
        wanted = self._wanted(command, size, unacked)
        if wanted == 0:
            return
        payload = _uncompressed(_rest(data, first), metadata, arrival)
        if payload is None:
            return
        count = command.redelivery_count
        delivery = self._delivery(command, metadata, payload, size, unacked, count)
        try:
            _split(delivery, wanted, arrival.messages)
        except RemoteProtocolError:
            arrival.messages = []
            arrival.refusal = ValidationError.BatchDeSerializeError.value
            return
        if delivery.unacked == 0:
            arrival.empty = delivery

    def _delivery(
        self,
        command: CommandMessage,
        metadata: MessageMetadata,
        payload: bytes,
        batch_size: i64,
        unacked: int,
        redelivery_count: i64,
    ) -> Delivery:
        return Delivery(
            self._topic,
            self._partition,
            command.message_id.ledger_id,
            command.message_id.entry_id,
            metadata,
            payload,
            batch_size,
            unacked,
            redelivery_count,
            self._decode,
            self.origin,
        )

    def _unseen(self, command: CommandMessage, batch_size: i64, unacked: int) -> int:
        """Returns which of an entry's unacked messages are not acked here, nor from before."""
        if self.is_outdated(command):
            return 0
        ledger_id = command.message_id.ledger_id
        entry_id = command.message_id.entry_id
        return self._acks.unacked_of(ledger_id, entry_id, batch_size, unacked)

    def _wanted(self, command: CommandMessage, batch_size: i64, unacked: int) -> int:
        """Returns which of an entry's unacked messages the application is to get."""
        wanted = self._unseen(command, batch_size, unacked)
        if self.start is None and not self._dead_letters.enabled:
            return wanted
        key = wide_key(command.message_id.ledger_id, command.message_id.entry_id)
        if self.start is not None:
            if key == self.start.key:
                wanted = self.start.unacked(wanted)
            elif self.only_from_start and key < self.start.key:
                return 0
        return self._dead_letters.without_dying(key, wanted)


def _charged(command: CommandMessage, entry: Entry, metadata: MessageMetadata, claimed: i64) -> i64:
    """Returns how many permits the broker took for a batch that claims so many messages."""
    size: i64 = len(entry.data) - entry.metadata_end
    unpacked = unpacked_size(size, metadata.compression, metadata.uncompressed_size)
    return messages_charged(entry, claimed, command.ack_set, unpacked)


def _rest(data: bytes, first: i64) -> bytes:
    """`data[first:]`; compiled, that would be a copy of everything too."""
    return data if first == 0 else data[first:]


def _uncompressed(
    payload: bytes,
    metadata: MessageMetadata,
    arrival: Arrival,
    size_max: i64 = UNCOMPRESSED_SIZE_MAX,
) -> bytes | None:
    """Returns the payload as it was; if it cannot be had, the arrival says why."""
    if metadata.compression == 0:
        return payload
    size = metadata.uncompressed_size
    if size > size_max:
        arrival.refusal = ValidationError.UncompressedSizeCorruption.value
        return None
    try:
        return decompress(metadata.compression, payload, size, size_max)
    except RemoteProtocolError:
        arrival.refusal = ValidationError.DecompressionError.value
        return None


def _split(delivery: Delivery, wanted: int, messages: list[Message]) -> None:
    """Appends the wanted messages of a batch. What compaction took counts as acked.

    Raises RemoteProtocolError.
    """
    payload = delivery.payload
    count = delivery.batch_size
    every = wanted == all_unacked(count)
    bits = b"" if every else wanted.to_bytes((count >> 3) + 1, "little")
    reader = Reader(payload, 0, 0, BATCH_SHAPE)
    first: i64 = 0
    for index in range(count):
        data_first = metadata_end_at(payload, first)
        reader.rewind(first + 4, data_first)
        size: i64 = -1
        compacted_out = False
        while (tag := reader.tag()) != 0:
            if tag == 0x18:
                size = reader.int32()
            elif tag == 0x20:
                compacted_out = reader.boolean()
            else:
                reader.skip()
        if size < 0:
            raise RemoteProtocolError("SingleMessageMetadata.payload_size", first, f"{size}")
        end = payload_end_at(payload, data_first, size)
        if compacted_out:
            delivery.unacked &= ~(1 << int(index))
        elif every or bits[index >> 3] >> (index & 7) & 1:
            messages.append(Message(delivery, index, first, data_first, end))
        first = end
    check_batch_end(payload, first, count)
