"""Clients that speak the broker's wire, in the thread of the broker; see `world.py`."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

from google.protobuf.message import Message

from magnetar.broker.peer import Port, unsigned
from magnetar.broker.session.session import Session
from magnetar.model import AckType, ConsumerType, InitialPosition, ServerError
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import (
    CommandAck,
    CommandAckResponse,
    CommandFlow,
    CommandMessage,
    CommandSend,
    CommandSendReceipt,
    Connection,
    MessageMetadata,
    SingleMessage,
    decode_batch,
    encode,
    encode_batch,
    encode_entry,
    message_id_from_pb,
    message_id_to_pb,
    split_entry,
)
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.wire.ack_set import BATCH_SIZE_MAX

if TYPE_CHECKING:
    from support.world import World

Exclusive: Final = ConsumerType.Exclusive
Shared: Final = ConsumerType.Shared
Failover: Final = ConsumerType.Failover
KeyShared: Final = ConsumerType.KeyShared
Earliest: Final = InitialPosition.Earliest
Latest: Final = InitialPosition.Latest

EARLIEST_ID: Final = MessageIdData(-1, -1)
LATEST_ID: Final = MessageIdData((1 << 63) - 1, (1 << 63) - 1)
FROM_BROKER: Final = (1 << 64) - 1

C = TypeVar("C")


class Refused(Exception):
    """The broker answered with an error."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{ServerError(code).name}: {reason}")
        self.code = ServerError(code)
        self.reason = reason


@contextmanager
def refused(code: ServerError, text: str = "") -> Iterator[None]:
    """What is done inside is refused with this error."""
    try:
        yield
    except Refused as error:
        assert error.code == code, error
        assert text in error.reason, error
    else:
        raise AssertionError(f"not refused with {code.name}")


class WirePort(Port):
    """The end of a connection that the session holds."""

    def __init__(self) -> None:
        self.reading = True
        self.hung_up = False

    def wake(self) -> None:
        pass  # `settle` looks at every outbox

    def pause(self) -> None:
        self.reading = False

    def resume(self) -> None:
        self.reading = True

    def hang_up(self) -> None:
        self.hung_up = True


class WireClient:
    """One connection. What the broker said is in `received` until somebody takes it."""

    connected: Any = None

    def __init__(
        self, world: "World", number: int, certificate_role: str = "", address: str = ""
    ) -> None:
        self.world = world
        self.port = WirePort()
        self.session = Session(
            world.broker,
            self.port,
            address or f"client-{number}",
            "pulsar://broker:6650",
            "Magnetar",
            certificate_role=certificate_role,
        )
        self.received: list[Any] = []
        self.answers_pings = True
        # A client that does not read; the socket's buffers are full then.
        self.lags = False
        self._connection = Connection(world.settings.message_size_max)
        self._unsent: list[bytes] = []
        self._requests = 0
        self._producers = 0
        self._consumers = 0

    # ---- Bytes ---------------------------------------------------------------

    def say(self, command: Any) -> None:
        """Sends a command, and lets the broker deal with it."""
        self.say_bytes(encode(command))

    def say_bytes(self, data: bytes) -> None:
        self._unsent.append(data)
        self._feed()
        self.world.settle()

    def _feed(self) -> bool:
        fed = False
        while self._unsent and self.port.reading:
            self.session.receive(self._unsent.pop(0))
            fed = True
        return fed

    def collect(self) -> bool:
        """Takes what the broker has sent; True if there was anything to do."""
        fed = self._feed()
        if self.lags:
            return fed
        full = not self.session.ready
        frames = self.session.take_outbox()
        if not frames:
            return fed
        self.session.have_written(0)
        if full:  # and now there is room, as the shell says too
            self.session.lag_ended()
        self._connection.receive_data(b"".join(frames))
        while (command := self._connection.next_command()) is not None:
            if isinstance(command, pb.CommandPing) and self.answers_pings:
                self._unsent.append(encode(pb.CommandPong()))
            else:
                self.received.append(command)
        return True

    def lag(self) -> None:
        """Stops reading."""
        self.lags = True
        self.session.writable = False

    def catch_up(self) -> None:
        self.lags = False
        self.world.settle()
        self.session.lag_ended()
        self.world.settle()

    def drop(self) -> None:
        """The connection breaks."""
        self.session.lost()
        self.world.settle()

    @property
    def hung_up(self) -> bool:
        """Whether the broker closed the connection."""
        return self.port.hung_up

    # ---- Commands ------------------------------------------------------------

    def take(self, kind: type[C]) -> list[C]:
        """What came of one kind of command, which is then gone."""
        found = [command for command in self.received if isinstance(command, kind)]
        self.received = [c for c in self.received if not isinstance(c, kind)]
        return found

    def one(self, kind: type[C]) -> C:
        found = self.take(kind)
        assert len(found) == 1, f"{kind.__name__}: {found}, beside {self.received}"
        return found[0]

    def next_request_id(self) -> int:
        self._requests += 1
        return self._requests

    def ask(self, command: Any) -> int:
        """Sends a request; its id, which is made up unless the command has one."""
        if any(f.name == "request_id" for f in command.DESCRIPTOR.fields):
            if not command.request_id:
                command.request_id = self.next_request_id()
            request_id = int(command.request_id)
        else:
            request_id = 0
        self.say(command)
        return request_id

    def answer(self, request_id: int) -> Any:
        """The answer to a request, if it came by now."""
        for command in self.received:
            if isinstance(command, pb.CommandConnected) or (
                getattr(command, "request_id", None) == request_id
                and not isinstance(command, CommandAckResponse)
            ):
                self.received.remove(command)
                return command
        return None

    def request(self, command: Any) -> Any:
        """Sends a request and returns its answer. Raises `Refused`."""
        answer = self.answer(self.ask(command))
        assert answer is not None, f"no answer to {command}: {self.received} {self.hung_up}"
        return unless_refused(answer)

    def request_or_refusal(self, command: Any) -> Any:
        """Sends a request and returns its answer, whatever that is."""
        return self.answer(self.ask(command))

    def send_answers(self) -> list[tuple[int, int | None]]:
        """Answers to SENDs in their order, which are then gone: sequence id, error if it is one."""
        found: list[tuple[int, int | None]] = []
        for command in self.received:
            if isinstance(command, CommandSendReceipt):
                found.append((int(command.sequence_id), None))
            elif isinstance(command, pb.CommandSendError):
                found.append((command.sequence_id, command.error))
        self.take(CommandSendReceipt)
        self.take(pb.CommandSendError)
        return found

    def closed_producers(self) -> list[int]:
        """The producers that the broker closed."""
        return [
            command.producer_id
            for command in self.take(pb.CommandCloseProducer)
            if command.request_id == FROM_BROKER
        ]

    # ---- Producers and consumers ---------------------------------------------

    def producer(self, topic: str, **fields: Any) -> "WireProducer":
        """PRODUCER. Raises `Refused`."""
        self._producers += 1
        producer = WireProducer(self, fields.pop("producer_id", self._producers), topic)
        producer.admitted(self.request(producer.command(**fields)))
        return producer

    def subscribe(
        self, topic: str, subscription: str = "sub", type: int = Exclusive, **fields: Any
    ) -> "WireConsumer":
        """SUBSCRIBE. Raises `Refused`."""
        self._consumers += 1
        consumer = WireConsumer(self, fields.pop("consumer_id", self._consumers), topic)
        self.request(consumer.command(subscription, type, **fields))
        return consumer


class WireProducer:
    """A producer of a client."""

    def __init__(self, client: WireClient, id: int, topic: str) -> None:
        self.client = client
        self.id = id
        self.topic = topic
        self.name = ""
        self.success: Any = None
        self.sequence_id = -1
        # The number of the transaction that it publishes in; 0 for none.
        self.transaction = 0

    def command(self, **fields: Any) -> pb.CommandProducer:
        return pb.CommandProducer(topic=self.topic, producer_id=self.id, **fields)

    def admitted(self, success: pb.CommandProducerSuccess) -> None:
        self.success = success
        self.name = success.producer_name
        self.sequence_id = success.last_sequence_id

    def entry(
        self,
        payload: bytes,
        sequence_id: int,
        *,
        checksum: bool = True,
        **metadata: Any,
    ) -> bytes:
        now_ms = metadata.pop("publish_time", self.client.world.host.now)
        head = MessageMetadata(self.name, sequence_id, now_ms)
        for name, value in metadata.items():
            assert hasattr(head, name), name
            setattr(head, name, value)
        return encode_entry(head.encode(), payload, checksum=checksum)

    def publish(
        self,
        *payloads: str,
        batch: bool | None = None,
        sequence_id: int | None = None,
        **fields: Any,
    ) -> int:
        """SEND, without looking for a receipt; returns its sequence id. Several are a batch."""
        first = self.sequence_id + 1 if sequence_id is None else sequence_id
        highest = 0
        if len(payloads) > 1 or batch:
            last = first + len(payloads) - 1
            singles = [SingleMessage(p.encode(), first + i) for i, p in enumerate(payloads)]
            data, highest = encode_batch(singles), last
            fields = {"num_messages_in_batch": len(payloads), "highest_sequence_id": last} | fields
        else:
            (payload,) = payloads
            data, last = payload.encode(), first
        if sequence_id is None:
            self.sequence_id = last
        entry = self.entry(data, first, **fields)
        send = CommandSend(self.id, first, entry, len(payloads), highest)
        send.txnid_least_bits = self.transaction
        self.client.say(send)
        return first

    def send(self, *payloads: str, **fields: Any) -> MessageIdData:
        """SEND, and the id from its receipt. Raises `Refused`."""
        self.publish(*payloads, **fields)
        receipts = self.client.take(CommandSendReceipt)
        for error in self.client.take(pb.CommandSendError):
            raise Refused(error.error, error.message)
        (receipt,) = receipts
        assert receipt.message_id is not None
        return receipt.message_id

    def send_chunks(self, uuid: str, *payloads: str, **fields: Any) -> list[MessageIdData]:
        """The chunks of one message."""
        self.sequence_id += 1
        return [
            self.send_chunk(uuid, i, len(payloads), p, **fields) for i, p in enumerate(payloads)
        ]

    def send_chunk(
        self, uuid: str, chunk_id: int, count: int, payload: str, **fields: Any
    ) -> MessageIdData:
        return self.send(
            payload,
            sequence_id=max(self.sequence_id, 0),
            uuid=uuid,
            chunk_id=chunk_id,
            num_chunks_from_msg=count,
            total_chunk_msg_size=100,
            **fields,
        )

    def close(self) -> None:
        self.client.request(pb.CommandCloseProducer(producer_id=self.id))


class Delivery:
    """A MESSAGE, taken apart as a client does it."""

    def __init__(self, command: CommandMessage) -> None:
        self.command = command
        self.id = command.message_id
        self.place = (int(self.id.ledger_id), int(self.id.entry_id))
        self.redelivery_count = int(command.redelivery_count)
        self.ack_set = command.ack_set
        entry = split_entry(command.entry)
        assert entry.intact()
        self.metadata = entry.metadata()
        self.key = self.metadata.partition_key or ""
        self.chunk_id = self.metadata.chunk_id
        self.size = self.metadata.num_messages_in_batch or 1
        if self.metadata.num_messages_in_batch is None:
            self.payloads = {0: entry.payload().decode()}
        else:
            messages = decode_batch(entry.payload(), self.size)
            self.payloads = {
                index: message.payload.decode()
                for index, message in enumerate(messages)
                if command.ack_set is None or command.ack_set >> index & 1
            }

    def __repr__(self) -> str:
        return f"<{self.place} {self.payloads}>"

    def index(self, *indexes: int) -> MessageIdData:
        """What an ACK of these indexes names."""
        return but(self.id, self.size, *indexes)

    def through(self, index: int) -> MessageIdData:
        """What a cumulative ACK up to an index names."""
        return but(self.id, self.size, *range(index + 1))


def but(id: MessageIdData, size: int, *indexes: int) -> MessageIdData:
    """The id of a batch with an ack set in which all but these indexes are unacked."""
    assert size <= BATCH_SIZE_MAX
    left = (1 << size) - 1
    for index in indexes:
        left &= ~(1 << index)
    return MessageIdData(id.ledger_id, id.entry_id, -1, -1, left or None, size)


class WireConsumer:
    """A consumer of a client."""

    def __init__(self, client: WireClient, id: int, topic: str) -> None:
        self.client = client
        self.id = id
        self.topic = topic
        # The number of the transaction that it acknowledges in; 0 for none.
        self.transaction = 0

    def command(self, subscription: str, type: int, **fields: Any) -> pb.CommandSubscribe:
        start = fields.pop("start", None)
        return pb.CommandSubscribe(
            topic=self.topic,
            subscription=subscription,
            subType=int(type),
            consumer_id=self.id,
            start_message_id=None if start is None else message_id_to_pb(start),
            **fields,
        )

    def flow(self, permits: int) -> None:
        self.client.say(CommandFlow(self.id, permits))

    def deliveries(self) -> list[Delivery]:
        """What came for this consumer, which is then gone."""
        mine = [c for c in self.client.received if self._is_mine(c)]
        self.client.received = [c for c in self.client.received if not self._is_mine(c)]
        return [Delivery(command) for command in mine]

    def _is_mine(self, command: object) -> bool:
        return isinstance(command, CommandMessage) and command.consumer_id == self.id

    def payloads(self) -> list[str]:
        """The messages that came, as an application sees them."""
        return [text for delivery in self.deliveries() for text in delivery.payloads.values()]

    def receive(self, permits: int = 1000) -> list[str]:
        self.flow(permits)
        return self.payloads()

    def one(self) -> Delivery:
        (delivery,) = self.deliveries()
        return delivery

    # ---- Acks ----------------------------------------------------------------

    def ack(self, *ids: MessageIdData | Delivery, cumulative: bool = False) -> None:
        """ACK without a receipt."""
        self.client.say(self.ack_command(ids, cumulative))

    def ask_ack(self, *ids: MessageIdData | Delivery, cumulative: bool = False) -> int:
        """ACK that asks for a receipt; returns the request id."""
        request_id = self.client.next_request_id()
        self.client.say(self.ack_command(ids, cumulative, request_id))
        return request_id

    def acked(self, *ids: MessageIdData | Delivery, cumulative: bool = False) -> None:
        """ACK and its receipt. Raises `Refused`."""
        answer = self.receipt(self.ask_ack(*ids, cumulative=cumulative))
        assert answer is not None, "the ack was not answered"
        if answer.error is not None:
            raise Refused(answer.error, answer.message or "")

    def ack_command(
        self,
        ids: "tuple[MessageIdData | Delivery, ...]",
        cumulative: bool = False,
        request_id: int | None = None,
    ) -> CommandAck:
        kind = AckType.Cumulative if cumulative else AckType.Individual
        named = [id.id if isinstance(id, Delivery) else id for id in ids]
        ack = CommandAck(self.id, kind, named, request_id)
        ack.txnid_least_bits = self.transaction
        return ack

    def receipt(self, request_id: int) -> CommandAckResponse | None:
        """The answer to an ack, if it came by now."""
        for command in self.client.received:
            if isinstance(command, CommandAckResponse) and command.request_id == request_id:
                self.client.received.remove(command)
                return command
        return None

    def redeliver(self, *ids: MessageIdData | Delivery, epoch: int | None = None) -> None:
        named = [id.id if isinstance(id, Delivery) else id for id in ids]
        self.client.say(
            pb.CommandRedeliverUnacknowledgedMessages(
                consumer_id=self.id,
                message_ids=[message_id_to_pb(id) for id in named],
                consumer_epoch=epoch,
            )
        )

    # ---- Requests ------------------------------------------------------------

    def seek(self, to: MessageIdData | int) -> None:
        """SEEK to a message or to a time. Raises `Refused`."""
        self.client.request(self.seek_command(to))

    def seek_command(self, to: MessageIdData | int) -> pb.CommandSeek:
        if isinstance(to, int):
            return pb.CommandSeek(consumer_id=self.id, message_publish_time=to)
        return pb.CommandSeek(consumer_id=self.id, message_id=message_id_to_pb(to))

    def last_message_id(self) -> MessageIdData:
        return message_id_from_pb(self.last_message().last_message_id)

    def last_message(self) -> pb.CommandGetLastMessageIdResponse:
        answer = self.client.request(pb.CommandGetLastMessageId(consumer_id=self.id))
        assert isinstance(answer, pb.CommandGetLastMessageIdResponse)
        return answer

    def stats(self) -> pb.CommandConsumerStatsResponse:
        answer = self.client.request(pb.CommandConsumerStats(consumer_id=self.id))
        assert isinstance(answer, pb.CommandConsumerStatsResponse)
        return answer

    def unsubscribe(self, *, force: bool = False) -> None:
        self.client.request(pb.CommandUnsubscribe(consumer_id=self.id, force=force))

    def close(self) -> None:
        self.client.request(pb.CommandCloseConsumer(consumer_id=self.id))

    def closed_by_broker(self) -> bool:
        """Whether a CLOSE_CONSUMER came, which is then gone."""
        found = [c for c in self.client.received if self._closes(c)]
        self.client.received = [c for c in self.client.received if not self._closes(c)]
        return bool(found)

    def _closes(self, command: object) -> bool:
        return (
            isinstance(command, pb.CommandCloseConsumer)
            and command.request_id == FROM_BROKER
            and command.consumer_id == unsigned(self.id)
        )

    def active_changes(self) -> list[bool]:
        """What ACTIVE_CONSUMER_CHANGE said to this consumer."""
        mine = [
            c
            for c in self.client.received
            if isinstance(c, pb.CommandActiveConsumerChange) and c.consumer_id == self.id
        ]
        for change in mine:
            self.client.received.remove(change)
        return [change.is_active for change in mine]


def unless_refused(answer: Any) -> Any:
    """The answer, unless it carries an error."""
    if isinstance(answer, pb.CommandError):
        raise Refused(answer.error, answer.message)
    for code, text in (("error", "message"), ("error_code", "error_message")):
        known = isinstance(answer, Message) and code in answer.DESCRIPTOR.fields_by_name
        if known and answer.HasField(code):
            raise Refused(getattr(answer, code), getattr(answer, text))
    return answer
