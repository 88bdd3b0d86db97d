"""What a broker hears and says, read off its connections and written down as facts.

The wiretap sits at the broker's end of every connection, so facts stand in the order in
which the broker hears and says things, whatever the network makes of them. It knows the
protocol and nothing of the broker or the client: a fault of either is no fault of it. Bytes
that are no protocol are left alone; a vandal's line just has no more facts.
"""

from typing import Final, Protocol

from google.protobuf.message import Message as Pb

from magnetar.errors import RemoteProtocolError
from magnetar.model import AckType, ConsumerType, ServerError
from magnetar.protocol import (
    Command,
    CommandAck,
    CommandAckResponse,
    CommandFlow,
    CommandMessage,
    Connection,
    UnknownCommand,
    entry_facts,
    signed,
    split_entry,
)
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.testing.checker.history import (
    AckAnswered,
    AckCame,
    Dismissed,
    Dispatched,
    Granted,
    History,
    LineEnded,
    Place,
    RedeliverCame,
    SeekAnswered,
    SeekCame,
    Subscribed,
    TxnAckCame,
)
from magnetar.wire.integer import INT64_MAX

__all__ = ["Tapped", "Wiretap"]


class Tapped(Protocol):
    """A connection, simulated or not: no two of a history have one number."""

    @property
    def number(self) -> int: ...


class Wiretap:
    """Hears what goes over the simulated network; set it as `SimNetwork.tap`."""

    def __init__(self, history: History) -> None:
        self._history: Final = history
        self._lines: Final[dict[int, _Line]] = {}

    def heard(self, connection: Tapped, data: bytes) -> None:
        self._line(connection).heard(data)

    def said(self, connection: Tapped, data: bytes) -> None:
        self._line(connection).said(data)

    def ended(self, connection: Tapped) -> None:
        if self._lines.pop(connection.number, None) is not None:
            self._history.add(LineEnded(connection.number))

    def _line(self, connection: Tapped) -> "_Line":
        line = self._lines.get(connection.number)
        if line is None:
            line = self._lines[connection.number] = _Line(connection.number, self._history)
        return line


class _Line:
    """One connection: what came in on it, and what went out."""

    def __init__(self, number: int, history: History) -> None:
        self._number: Final = number
        self._history: Final = history
        self._requests: Final = Connection()
        self._answers: Final = Connection()
        self._seeks: Final[dict[int, None]] = {}

    def heard(self, data: bytes) -> None:
        for command in _commands(self._requests, data):
            if isinstance(command, CommandAck):
                self._ack(command)
            elif isinstance(command, CommandFlow):
                self._flow(command)
            elif isinstance(command, Pb):
                self._request(command)

    def said(self, data: bytes) -> None:
        for command in _commands(self._answers, data):
            if isinstance(command, CommandMessage):
                self._message(command)
            elif isinstance(command, CommandAckResponse):
                request = -1 if command.request_id is None else command.request_id
                error = "" if command.error is None else str(command.error)
                self._history.add(AckAnswered(self._number, command.consumer_id, request, error))
            elif isinstance(command, Pb):
                self._answer(command)

    def _ack(self, ack: CommandAck) -> None:
        if ack.validation_error is not None:
            return
        entries = tuple(
            (int(id.ledger_id), int(id.entry_id), id.ack_set or 0) for id in ack.message_ids
        )
        request = -1 if ack.request_id is None else ack.request_id
        cumulative = ack.ack_type == AckType.Cumulative
        whole = tuple(
            (int(id.ledger_id), int(id.entry_id))
            for id in ack.message_ids
            if id.first_chunk is not None and not cumulative
        )
        fields = (self._number, ack.consumer_id, request, entries, cumulative, whole)
        if ack.txnid_least_bits == 0 and ack.txnid_most_bits == 0:
            self._history.add(AckCame(*fields))
        else:
            self._history.add(TxnAckCame(*fields, int(ack.txnid_least_bits)))

    def _flow(self, flow: CommandFlow) -> None:
        self._history.add(Granted(self._number, flow.consumer_id, flow.message_permits))

    def _request(self, command: Pb) -> None:
        if isinstance(command, pb.CommandSubscribe):
            self._history.add(
                Subscribed(
                    self._number,
                    signed(command.consumer_id),
                    command.topic,
                    command.subscription,
                    _type(command),
                    command.consumer_name,
                )
            )
        elif isinstance(command, pb.CommandSeek):
            self._seeks[command.request_id] = None
            consumer = signed(command.consumer_id)
            target = _target(command)
            self._history.add(SeekCame(self._number, consumer, command.request_id, target))
        elif isinstance(command, pb.CommandRedeliverUnacknowledgedMessages):
            entries = tuple((signed(id.ledgerId), signed(id.entryId)) for id in command.message_ids)
            consumer = signed(command.consumer_id)
            self._history.add(RedeliverCame(self._number, consumer, entries))
        elif isinstance(command, (pb.CommandCloseConsumer, pb.CommandUnsubscribe)):
            self._history.add(Dismissed(self._number, signed(command.consumer_id)))

    def _answer(self, command: Pb) -> None:
        if isinstance(command, pb.CommandCloseConsumer):
            self._history.add(Dismissed(self._number, signed(command.consumer_id)))
        elif not isinstance(command, (pb.CommandSuccess, pb.CommandError)):
            return
        elif command.request_id in self._seeks:
            del self._seeks[command.request_id]
            error = ""
            if isinstance(command, pb.CommandError):
                error = ServerError(command.error).name
            self._history.add(SeekAnswered(self._number, command.request_id, error))

    def _message(self, command: CommandMessage) -> None:
        facts = entry_facts(split_entry(command.entry))
        unacked = command.ack_set
        if unacked is None:
            unacked = (1 << int(facts.batch_size)) - 1
        self._history.add(
            Dispatched(
                self._number,
                command.consumer_id,
                int(command.message_id.ledger_id),
                int(command.message_id.entry_id),
                unacked,
                facts.sticky_key(),
                facts.deliver_at_ms > 0,
                facts.chunked_name() if facts.chunk_id >= 0 else "",
                int(facts.chunk_id),
                int(facts.chunk_count),
            )
        )


def _target(seek: pb.CommandSeek) -> Place | None:
    if not seek.HasField("message_id"):
        return None
    id = seek.message_id
    if signed(id.ledgerId) == INT64_MAX:
        return None
    return Place(signed(id.ledgerId), signed(id.entryId), id.batch_index)


def _commands(connection: Connection, data: bytes) -> "list[Command | UnknownCommand]":
    connection.receive_data(data)
    found: list[Command | UnknownCommand] = []
    try:
        while (command := connection.next_command()) is not None:
            found.append(command)
    except RemoteProtocolError:
        # Somebody sends what is no protocol: the peer's to deal with. Stays so.
        return found
    return found


def _type(command: pb.CommandSubscribe) -> str:
    """Returns the type as checkers tell them apart: where order is given up, keys promise
    nothing."""
    name = ConsumerType(command.subType).name
    return f"{name}, any order" if command.keySharedMeta.allowOutOfOrderDelivery else name
