"""Everything that takes bytes from a peer, driven by one string of bytes.

`transcript` returns all that came out, results and errors, as text. The hostile-input
tests and the fuzzer want that nothing but `RemoteProtocolError` (for a user's own ids and
names, the error of those) is ever raised; the comparison of the builds wants equal texts.

Run as a program it answers one transcript for each input it reads.
"""

import pickle
import sys
from collections.abc import Callable

import magnetar
from magnetar.errors import InvalidMessageIdError, InvalidTopicNameError, RemoteProtocolError
from magnetar.model import CompressionType, MessageId, Position, TopicName
from magnetar.model.message_id import message_id_of
from magnetar.protocol import (
    BatchColumns,
    CommandAck,
    CommandMessage,
    CommandSend,
    Connection,
    decode_batch,
    decode_batch_columns,
    decompress,
    encode,
    key_hash,
    message_id_from_pb,
    split_entry,
)
from magnetar.protocol import pulsar_pb2 as pb
from support.plain import describe, plain

BATCH_COUNTS = (0, 1, 2, 3)
DECOMPRESSED_MAX = 1000


def transcript(data: bytes) -> str:
    said = [f"hash {key_hash(data)}"]
    said += outcome("stream", lambda: stream(data))
    said += outcome("entry", lambda: entry(data))
    for count in BATCH_COUNTS:
        said += outcome(f"batch {count}", lambda count=count: batch(data, count))  # type: ignore[misc]
        said += outcome(f"columns {count}", lambda count=count: columns(data, count))  # type: ignore[misc]
    said += outcome("id", lambda: message_id(data))
    said += outcome("values", lambda: values(data))
    for kind in (*CompressionType, 9):
        said += outcome(
            f"decompress {int(kind)}",
            lambda kind=kind: [decompress(kind, data, len(data) * 2, DECOMPRESSED_MAX).hex()],  # type: ignore[misc]
        )
    return "\n".join(said)


def outcome(name: str, work: Callable[[], list[str]]) -> list[str]:
    try:
        return [f"{name}: {line}" for line in work()]
    except (RemoteProtocolError, InvalidMessageIdError, InvalidTopicNameError) as error:
        return [f"{name}: {type(error).__name__} {error}"]


def stream(data: bytes) -> list[str]:
    """Commands up to the first error, each also written again."""
    connection = Connection(1 << 20)
    connection.receive_data(data)
    connection.receive_eof()
    said: list[str] = []
    try:
        while (command := connection.next_command()) is not None:
            said.append(describe(command))
            said += ids_in(command)
            if isinstance(command, CommandSend | CommandMessage):
                said += outcome("its entry", lambda c=command: entry(c.entry))  # type: ignore[misc]
            if getattr(command, "ack_set", None) != 0 and "Unknown" not in said[-1]:
                said.append(encode(command).hex())  # type: ignore[arg-type]
    except RemoteProtocolError as error:
        said.append(str(error))
    return said


def ids_in(command: object) -> list[str]:
    """The message ids of a command, as values of the model."""
    if isinstance(command, CommandAck):
        ids = command.message_ids
    elif isinstance(command, pb.CommandSeek) and command.HasField("message_id"):
        ids = [message_id_from_pb(command.message_id)]
    else:
        return []
    said: list[str] = []
    for data in ids:
        said += outcome(repr(data), lambda data=data: [repr(message_id_of(data))])  # type: ignore[misc]
    return said


def entry(data: bytes) -> list[str]:
    parts = split_entry(data)
    metadata = parts.metadata()
    broker = parts.broker_metadata()
    return [
        f"{parts.intact()} {parts.payload().hex()} {parts.without_broker_metadata().hex()}",
        f"{plain(metadata)} {metadata.encode().hex()}",
        f"{None if broker is None else plain(broker)}",
    ]


def batch(data: bytes, count: int) -> list[str]:
    return [f"{plain(message)} {message.payload.hex()}" for message in decode_batch(data, count)]


def columns(data: bytes, count: int) -> list[str]:
    into = BatchColumns()
    decode_batch_columns(data, count, into, keep=0b101)
    return [
        f"{into.indexes.data.hex()} {into.values.offsets.hex()} {into.values.data.hex()}",
        f"{into.values.valid.data.hex()} {into.keys.data.hex()} {into.keys.valid.data.hex()}",
        f"{into.b64_keys.data.hex()} {into.ordering_keys.data.hex()}",
        f"{into.event_times.data.hex()} {into.sequence_ids.data.hex()}",
        f"{into.property_offsets.data.hex()} {into.property_keys.data.hex()}",
    ]


def message_id(data: bytes) -> list[str]:
    parsed = MessageId.deserialize(data)
    return [f"{parsed} {hash(parsed)} {parsed.to_base64()} {pickle.dumps(parsed, 4).hex()}"]


def values(data: bytes) -> list[str]:
    """A position and a topic name made of the bytes, hashed and pickled."""
    position = Position(
        int.from_bytes(data[:8], "big", signed=True), int.from_bytes(data[8:16], "big", signed=True)
    )
    name = TopicName.parse(data.decode("latin-1"))
    return [
        f"{position!r} {hash(position)} {pickle.dumps(position, 4).hex()}",
        f"{name!r} {name.partition} {pickle.dumps(name, 4).hex()}",
    ]


def serve() -> None:
    """Answers inputs on standard input: a length of four bytes, then the bytes; and back."""
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    sink.write(b"C" if magnetar.COMPILED else b"I")
    sink.flush()
    while size := source.read(4):
        answer = transcript(source.read(int.from_bytes(size, "big"))).encode()
        sink.write(len(answer).to_bytes(4, "big") + answer)
        sink.flush()


if __name__ == "__main__":
    serve()
