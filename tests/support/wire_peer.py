"""The other end of the wire for an official client: just enough of a broker.

It keeps what producers send and delivers what a test gives it, all through our protocol
room and nothing else of ours, so that each test is about bytes that two codecs share.
"""

import socket
import threading
from collections.abc import Callable
from types import TracebackType

from google.protobuf.message import Message

from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import (
    MESSAGE_SIZE_MAX,
    PROTOCOL_VERSION,
    Command,
    CommandAck,
    CommandAckResponse,
    CommandFlow,
    CommandMessage,
    CommandSend,
    CommandSendReceipt,
    Connection,
    UnknownCommand,
    encode,
    message_id_to_pb,
)
from magnetar.protocol import pulsar_pb2 as pb

LEDGER = 7


class WirePeer:
    """Serves any number of connections on a free loopback port until it is left."""

    def __init__(
        self,
        deliveries: list[tuple[MessageIdData, bytes, int | None]] | None = None,
        message_size_max: int = MESSAGE_SIZE_MAX,
    ) -> None:
        self.deliveries = deliveries or []
        self.message_size_max = message_size_max
        self.sent: list[CommandSend] = []
        self.acks: list[CommandAck] = []
        self.received: list[str] = []
        self.failures: list[Exception] = []
        self._delivered = False
        self._changed = threading.Condition()
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"pulsar://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> "WirePeer":
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.close()
        for connection in self._sockets:
            connection.close()
        if kind is None:
            assert self.failures == []

    def wait(self, condition: Callable[[], bool], seconds: float = 20) -> None:
        """Until something that the client did makes it true."""
        with self._changed:
            assert self._changed.wait_for(condition, seconds), f"only got {self.received}"

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return  # closed by __exit__
            self._sockets.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        connection = Connection(self.message_size_max)
        while True:
            try:
                data = peer.recv(65536)
            except OSError:
                return
            if not data:
                return
            connection.receive_data(data)
            try:
                while (command := connection.next_command()) is not None:
                    for answer in self._answers(command):
                        peer.sendall(encode(answer))
            except Exception as error:
                self.failures.append(error)
                peer.close()
                return

    def _answers(self, command: Command | UnknownCommand) -> list[Command]:
        with self._changed:
            self.received.append(type(command).__name__)
            try:
                if isinstance(command, UnknownCommand):
                    return []
                if isinstance(command, CommandSend):
                    return [self._receipt(command)]
                if isinstance(command, CommandFlow):
                    return self._deliver(command)
                if isinstance(command, CommandAck):
                    self.acks.append(command)
                    if command.request_id is None:
                        return []
                    return [CommandAckResponse(command.consumer_id, command.request_id)]
                assert isinstance(command, Message)
                return self._cold_answers(command)
            finally:
                self._changed.notify_all()

    def _receipt(self, send: CommandSend) -> CommandSendReceipt:
        self.sent.append(send)
        message_id = MessageIdData(LEDGER, len(self.sent) - 1)
        return CommandSendReceipt(
            send.producer_id, send.sequence_id, message_id, send.highest_sequence_id
        )

    def _deliver(self, flow: CommandFlow) -> list[Command]:
        if self._delivered:
            return []
        self._delivered = True
        return [
            CommandMessage(flow.consumer_id, message_id, entry, ack_set=ack_set)
            for message_id, entry, ack_set in self.deliveries
        ]

    def _cold_answers(self, command: Message) -> list[Command]:
        if isinstance(command, pb.CommandConnect):
            return [
                pb.CommandConnected(
                    server_version="test",
                    protocol_version=min(command.protocol_version, PROTOCOL_VERSION),
                    max_message_size=self.message_size_max,
                )
            ]
        if isinstance(command, pb.CommandPing):
            return [pb.CommandPong()]
        if isinstance(command, pb.CommandPartitionedTopicMetadata):
            return [
                pb.CommandPartitionedTopicMetadataResponse(
                    request_id=command.request_id, partitions=0, response=0
                )
            ]
        if isinstance(command, pb.CommandLookupTopic):
            return [
                pb.CommandLookupTopicResponse(
                    request_id=command.request_id,
                    response=1,
                    authoritative=True,
                    brokerServiceUrl=self.url,
                )
            ]
        if isinstance(command, pb.CommandProducer):
            return [
                pb.CommandProducerSuccess(
                    request_id=command.request_id, producer_name="official", schema_version=b""
                )
            ]
        if isinstance(command, pb.CommandGetLastMessageId):
            last = self.deliveries[-1][0] if self.deliveries else MessageIdData(-1, -1)
            return [
                pb.CommandGetLastMessageIdResponse(
                    request_id=command.request_id, last_message_id=message_id_to_pb(last)
                )
            ]
        return [pb.CommandSuccess(request_id=command.request_id)]  # type: ignore[attr-defined]
