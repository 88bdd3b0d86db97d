"""A broker that is a few lists, a clock that is a number, and a consumer between them.

`ModelBroker` knows one topic of one ledger and one subscription with one consumer. It
honours permits, delivers unacked entries with their `ack_set`, and answers acks that ask
for it. What is under way stands in `to_broker` and `to_client`, and is lost with the
connection.
"""

from collections import deque

from magnetar.client.consumer.core import ConsumerCore
from magnetar.client.consumer.message import Message
from magnetar.client.option.options import ConsumerOptions
from magnetar.model import ConsumerType
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import (
    BatchWriter,
    Command,
    CommandAck,
    CommandAckResponse,
    CommandFlow,
    CommandMessage,
    MessageMetadata,
    compress,
    encode_entry,
)
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.wire.ack_set import all_unacked

TOPIC = "persistent://public/default/orders"
LEDGER = 7
SINGLE = [ConsumerType.Exclusive, ConsumerType.Failover]
SHARED = [ConsumerType.Shared, ConsumerType.KeyShared]
# What chance chooses from: sizes of entries, and who has his turn.
ENTRY_SIZES = [0, 0, 1, 2, 3, 9]
STEPS = ["handle", "deliver", "receive"]


def batch_entry(payloads: list[bytes], compression: int = 0) -> bytes:
    """An entry of several messages."""
    writer = BatchWriter()
    for number, payload in enumerate(payloads):
        writer.add(payload, number)
    metadata = MessageMetadata("maker", 0, 1_000)
    metadata.num_messages_in_batch = len(payloads)
    return _entry(metadata, writer.getvalue(), compression)


def plain_entry(payload: bytes, compression: int = 0) -> bytes:
    """An entry that is one message."""
    return _entry(MessageMetadata("maker", 0, 1_000), payload, compression)


def _entry(metadata: MessageMetadata, payload: bytes, compression: int) -> bytes:
    metadata.compression = compression
    metadata.uncompressed_size = len(payload)
    return encode_entry(metadata.encode(), compress(compression, payload))


def entry_of(entry_id: int, size: int) -> bytes:
    """An entry whose messages say where they stand; size 0 is no batch."""
    if size == 0:
        return plain_entry(b"%d:-1" % entry_id)
    return batch_entry([b"%d:%d" % (entry_id, index) for index in range(size)])


def place(message: Message) -> tuple[int, int]:
    """The entry and index of a message that `entry_of` made."""
    entry_id, _, index = message.data().partition(b":")
    assert (message._delivery.entry_id, message._index) == (int(entry_id), int(index))
    return int(entry_id), int(index)


class ModelBroker:
    def __init__(self, consumer_type: ConsumerType) -> None:
        self.single = consumer_type in (ConsumerType.Exclusive, ConsumerType.Failover)
        self.sizes: list[int] = []
        # Of entries that are something else than `entry_of` makes.
        self.entries: dict[int, bytes] = {}
        self.unacked: list[int] = []
        self.counts: list[int] = []
        self.out: set[int] = set()
        self.replay: set[int] = set()
        self.read_next = 0
        self.permits = 0
        self.epoch: int | None = None
        self.log: list[Command] = []

    def publish(self, *sizes: int) -> None:
        for size in sizes:
            self.sizes.append(size)
            self.unacked.append(all_unacked(max(size, 1)))
            self.counts.append(0)

    def publish_entry(self, entry: bytes) -> int:
        """An entry that is one message, or part of one; where it stands."""
        self.entries[len(self.sizes)] = entry
        self.publish(0)
        return len(self.sizes) - 1

    def connect(self, epoch: int) -> None:
        self.permits = 0
        self.epoch = epoch if self.single else None
        self.replay |= self.out
        self.out.clear()
        if self.single:
            self.rewind()

    def rewind(self) -> None:
        self.read_next = 0
        self.replay.clear()
        self.out.clear()

    def handle(self, command: Command) -> CommandAckResponse | None:
        self.log.append(command)
        if isinstance(command, CommandFlow):
            assert command.message_permits > 0
            self.permits += command.message_permits
        elif isinstance(command, CommandAck):
            self._ack(command)
            if command.request_id is not None:
                return CommandAckResponse(command.consumer_id, command.request_id)
        else:
            assert isinstance(command, pb.CommandRedeliverUnacknowledgedMessages)
            self._redeliver(command)
        return None

    def _ack(self, command: CommandAck) -> None:
        for id in command.message_ids:
            assert id.ledger_id == LEDGER
            assert id.ack_set != 0
            if id.ack_set is not None:
                assert id.batch_size == self.sizes[id.entry_id]
            self.unacked[id.entry_id] &= id.ack_set or 0
            if self.unacked[id.entry_id] == 0:
                self.out.discard(id.entry_id)
                self.replay.discard(id.entry_id)
            if command.ack_type == 1:
                assert self.single
                self.unacked[: id.entry_id] = [0] * id.entry_id

    def _redeliver(self, command: pb.CommandRedeliverUnacknowledgedMessages) -> None:
        if self.single:
            self.epoch = command.consumer_epoch
            self.rewind()
            return
        assert not command.HasField("consumer_epoch")
        again = {id.entryId for id in command.message_ids} or set(self.out)
        for entry_id in again & self.out:
            self.counts[entry_id] += 1
            self.out.discard(entry_id)
            self.replay.add(entry_id)

    def deliver(self) -> CommandMessage | None:
        """The next entry, if there is one and a permit for it."""
        if self.permits <= 0:
            return None
        if self.replay:
            entry_id = min(self.replay)
            self.replay.discard(entry_id)
        else:
            while self.read_next < len(self.sizes) and not self.unacked[self.read_next]:
                self.read_next += 1
            if self.read_next == len(self.sizes):
                return None
            entry_id = self.read_next
            self.read_next += 1
        self.out.add(entry_id)
        unacked = self.unacked[entry_id]
        self.permits -= unacked.bit_count()
        whole = unacked == all_unacked(max(self.sizes[entry_id], 1))
        return CommandMessage(
            3,
            MessageIdData(LEDGER, entry_id),
            self.entries.get(entry_id) or entry_of(entry_id, self.sizes[entry_id]),
            0 if self.single else self.counts[entry_id],
            None if whole else unacked,
            self.epoch,
        )

    def everything(self) -> set[tuple[int, int]]:
        """What was published."""
        return {
            (entry_id, index if size else -1)
            for entry_id, size in enumerate(self.sizes)
            for index in range(max(size, 1))
        }

    def left(self) -> set[tuple[int, int]]:
        """What is unacked."""
        places = self.everything()
        return {p for p in places if self.unacked[p[0]] >> max(p[1], 0) & 1}


class Rig:
    """A consumer's core and the broker, joined by two wires."""

    def __init__(
        self, consumer_type: ConsumerType = ConsumerType.Shared, **options: object
    ) -> None:
        self.broker = ModelBroker(consumer_type)
        self.now = 1_000_000
        self.wakes = 0
        self.to_broker: deque[Command] = deque()
        self.to_client: deque[CommandMessage | CommandAckResponse] = deque()
        self.online = False
        # Which life of the subscription the broker tells; none is what Apache's tells.
        self.life = ""
        self.results: list[Exception | None] = []
        receipt_timeout_ms = int(str(options.pop("receipt_timeout_ms", 30_000)))
        arguments: dict[str, object] = {"consumer_type": consumer_type, **options}
        self.core = ConsumerCore(
            ConsumerOptions("billing", **arguments),
            TOPIC,
            -1,
            3,
            now_ms=lambda: self.now,
            write=self.write,
            wake=self.wake,
            receipt_timeout_ms=receipt_timeout_ms,
        )

    def write(self, commands: list[Command]) -> None:
        assert self.online, "written without a connection"
        assert commands
        self.to_broker.extend(commands)

    def wake(self) -> None:
        self.wakes += 1

    def done(self, error: Exception | None) -> None:
        self.results.append(error)

    # ---- The connection ------------------------------------------------------

    def connect(self) -> None:
        self.online = True
        self.broker.connect(self.core.epoch)
        self.core.connected(self.life)

    def disconnect(self, arrives: int = 0) -> None:
        """Breaks it; the first `arrives` commands under way still reach the broker."""
        for _ in range(min(arrives, len(self.to_broker))):
            self.broker.handle(self.to_broker.popleft())
        self.to_broker.clear()
        self.to_client.clear()
        self.online = False
        self.core.disconnected()

    def reconnect(self) -> None:
        self.disconnect()
        self.connect()

    def broker_handles(self) -> bool:
        if not self.to_broker:
            return False
        answer = self.broker.handle(self.to_broker.popleft())
        if answer is not None:
            self.to_client.append(answer)
        return True

    def broker_delivers(self) -> bool:
        command = self.broker.deliver() if self.online else None
        if command is not None:
            self.to_client.append(command)
        return command is not None

    def client_receives(self) -> bool:
        if not self.to_client:
            return False
        command = self.to_client.popleft()
        if isinstance(command, CommandMessage):
            self.core.receive(command)
        else:
            self.core.ack_response(command)
        return True

    def pump(self) -> None:
        """Until nothing is under way."""
        while self.broker_handles() or self.broker_delivers() or self.client_receives():
            self.check_permits()

    def pass_time(self, ms: int) -> None:
        """Lets time pass, and what falls due meanwhile happen in turn."""
        end = self.now + ms
        while (due := self.core.next_ms()) is not None and due <= end:
            self.now = max(self.now, due)
            self.core.tick(self.now)
            self.pump()
        self.now = end

    # ---- The application -----------------------------------------------------

    def take_all(self) -> list[Message]:
        """Everything there is to take, now and as permits come back."""
        taken: list[Message] = []
        self.pump()
        while (message := self.core.take()) is not None:
            taken.append(message)
            self.pump()
        return taken

    def places(self) -> list[tuple[int, int]]:
        return [place(message) for message in self.take_all()]

    def sent(self) -> list[CommandAck]:
        """The acks that the broker has handled."""
        return [command for command in self.broker.log if isinstance(command, CommandAck)]

    def flows(self) -> list[int]:
        """The permits that the broker was given, each time."""
        return [c.message_permits for c in self.broker.log if isinstance(c, CommandFlow)]

    def redeliveries(self) -> list[pb.CommandRedeliverUnacknowledgedMessages]:
        kind = pb.CommandRedeliverUnacknowledgedMessages
        return [command for command in self.broker.log if isinstance(command, kind)]

    def check_permits(self) -> None:
        if not self.online or not self.core.has_queue:
            return
        flows = sum(c.message_permits for c in self.to_broker if isinstance(c, CommandFlow))
        on_wire = sum(charge(c) for c in self.to_client if isinstance(c, CommandMessage))
        assert self.core.available_permits == self.broker.permits + flows + on_wire
        core = self.core
        total = core.available_permits + core.queue_length() + core.unreturned_permits
        assert total == core._permits.queue_size


def charge(command: CommandMessage) -> int:
    if command.ack_set is not None:
        return command.ack_set.bit_count()
    return max(command.entry.count(b"%d:" % command.message_id.entry_id), 1)


def connected(
    *sizes: int, consumer_type: ConsumerType = ConsumerType.Shared, **options: object
) -> Rig:
    """A consumer that is connected to a broker with such entries."""
    rig = Rig(consumer_type, **options)
    rig.broker.publish(*sizes)
    rig.connect()
    return rig


def command(
    entry: bytes, ack_set: int | None = None, entry_id: int = 0, epoch: int | None = None
) -> CommandMessage:
    """An entry as the broker hands it over, for the third time."""
    return CommandMessage(3, MessageIdData(LEDGER, entry_id), entry, 2, ack_set, epoch)
