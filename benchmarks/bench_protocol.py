"""The hand-written codec against protobuf, side by side in one run.

    make bench                                            compiled
    .venv/bin/python benchmarks/bench_protocol.py         interpreted

Both sides do the same work from the same input to the same output, which is checked
before anything is timed. protobuf is given its fastest form (upb, its C implementation).
"""

import struct
import sys
from collections.abc import Callable

from google.protobuf.internal import api_implementation
from timing import fastest, print_build, print_table

from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import (
    BatchColumns,
    BatchWriter,
    CommandAck,
    CommandSend,
    CommandSendReceipt,
    Connection,
    MessageMetadata,
    crc32c,
    decode_batch,
    decode_batch_columns,
    encode,
    encode_batch,
    encode_entry,
    split_entry,
)
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.wire.ack_set import words_to_bits

BATCH = 1000
PAYLOAD = bytes(range(100))
ENTRIES = 1000
U32 = struct.Struct(">I")


# ---- protobuf's side ---------------------------------------------------------


def pb_encode_batch() -> bytes:
    parts: list[bytes] = []
    for sequence_id in range(BATCH):
        metadata = pb.SingleMessageMetadata(payload_size=len(PAYLOAD), sequence_id=sequence_id)
        encoded = metadata.SerializeToString()
        parts += (U32.pack(len(encoded)), encoded, PAYLOAD)
    return b"".join(parts)


def pb_encode_prepared(prepared: list[pb.SingleMessageMetadata]) -> bytes:
    parts: list[bytes] = []
    for metadata in prepared:
        encoded = metadata.SerializeToString()
        parts += (U32.pack(len(encoded)), encoded, PAYLOAD)
    return b"".join(parts)


def pb_decode_batch(payload: bytes) -> list[tuple[pb.SingleMessageMetadata, bytes]]:
    messages = []
    pos = 0
    for _ in range(BATCH):
        end = pos + 4 + U32.unpack_from(payload, pos)[0]
        metadata = pb.SingleMessageMetadata.FromString(payload[pos + 4 : end])
        pos = end + metadata.payload_size
        messages.append((metadata, payload[end:pos]))
    return messages


def pb_columns(payload: bytes) -> tuple[list[int], list[int], list[int], bytes]:
    event_times, sequence_ids, offsets, pieces = [], [], [0], []
    pos = 0
    for _ in range(BATCH):
        end = pos + 4 + U32.unpack_from(payload, pos)[0]
        metadata = pb.SingleMessageMetadata.FromString(payload[pos + 4 : end])
        pos = end + metadata.payload_size
        event_times.append(metadata.event_time)
        sequence_ids.append(metadata.sequence_id)
        offsets.append(offsets[-1] + metadata.payload_size)
        pieces.append(payload[end:pos])
    return event_times, sequence_ids, offsets, b"".join(pieces)


def pb_ack(frame: bytes) -> list[tuple[int, int, int]]:
    command = pb.BaseCommand.FromString(frame[8:])
    return [(m.ledgerId, m.entryId, words_to_bits(list(m.ack_set))) for m in command.ack.message_id]


def pb_send_to_receipt(stream: bytes) -> bytes:
    out: list[bytes] = []
    pos = 0
    while pos < len(stream):
        total, command_size = struct.unpack_from(">II", stream, pos)
        command = pb.BaseCommand.FromString(stream[pos + 8 : pos + 8 + command_size])
        entry = stream[pos + 8 + command_size : pos + 4 + total]
        assert crc32c(entry[6:]) == U32.unpack_from(entry, 2)[0]
        metadata_size = U32.unpack_from(entry, 6)[0]
        pb.MessageMetadata.FromString(entry[10 : 10 + metadata_size])
        receipt = pb.BaseCommand(
            type=7,
            send_receipt=pb.CommandSendReceipt(
                producer_id=command.send.producer_id,
                sequence_id=command.send.sequence_id,
                message_id=pb.MessageIdData(ledgerId=7, entryId=command.send.sequence_id),
            ),
        ).SerializeToString()
        out.append(struct.pack(">II", len(receipt) + 4, len(receipt)) + receipt)
        pos += 4 + total
    return b"".join(out)


# ---- ours --------------------------------------------------------------------


def our_encode_batch() -> bytes:
    writer = BatchWriter()
    for sequence_id in range(BATCH):
        writer.add(PAYLOAD, sequence_id)
    return writer.getvalue()


def our_columns(payload: bytes) -> BatchColumns:
    columns = BatchColumns()
    decode_batch_columns(payload, BATCH, columns)
    assert len(columns.values.data) == BATCH * len(PAYLOAD)
    return columns


def our_send_to_receipt(stream: bytes) -> bytes:
    connection = Connection()
    connection.receive_data(stream)
    out: list[bytes] = []
    while (send := connection.next_command()) is not None:
        assert isinstance(send, CommandSend)
        entry = split_entry(send.entry)
        assert entry.intact()
        entry.metadata()
        out.append(
            encode(
                CommandSendReceipt(
                    send.producer_id, send.sequence_id, MessageIdData(7, send.sequence_id)
                )
            )
        )
    return b"".join(out)


def our_ack(frame: bytes) -> list[tuple[int, int, int | None]]:
    connection = Connection()
    connection.receive_data(frame)
    ack = connection.next_command()
    assert isinstance(ack, CommandAck)
    return [(m.ledger_id, m.entry_id, m.ack_set) for m in ack.message_ids]


# ---- the contest -------------------------------------------------------------


def send_stream(payload_size: int) -> bytes:
    frames = []
    for sequence_id in range(ENTRIES):
        metadata = MessageMetadata("standalone-0-1", sequence_id, 1_790_000_000_000)
        entry = encode_entry(metadata.encode(), bytes(payload_size))
        frames.append(encode(CommandSend(1, sequence_id, entry)))
    return b"".join(frames)


def ack_command() -> CommandAck:
    ids = [MessageIdData(5, i, -1, -1, (1 << 1000) - 1 - (1 << i), 1000) for i in range(100)]
    return CommandAck(3, 0, ids, request_id=7)


Duel = tuple[str, int, Callable[[], object], Callable[[], object]]


def duels() -> list[Duel]:
    """Name, how many things are done, protobuf's way and ours; both ways agree."""
    batch = our_encode_batch()
    messages = decode_batch(batch, BATCH)
    prepared = [
        pb.SingleMessageMetadata(payload_size=len(PAYLOAD), sequence_id=i) for i in range(BATCH)
    ]
    assert pb_encode_batch() == batch == encode_batch(messages) == pb_encode_prepared(prepared)
    assert [m.payload for m in messages] == [p for _, p in pb_decode_batch(batch)]
    assert pb_columns(batch)[3] == our_columns(batch).values.data
    small, large = send_stream(100), send_stream(1024)
    assert our_send_to_receipt(small) == pb_send_to_receipt(small)
    ack = encode(ack_command())
    assert pb_ack(ack) == our_ack(ack)

    decode: Duel = (
        f"batch decode, {BATCH} x 100 B",
        BATCH,
        lambda: pb_decode_batch(batch),
        lambda: decode_batch(batch, BATCH),
    )
    columns: Duel = (
        f"batch decode to columns, {BATCH} x 100 B",
        BATCH,
        lambda: pb_columns(batch),
        lambda: our_columns(batch),
    )
    encoding: Duel = (f"batch encode, {BATCH} x 100 B", BATCH, pb_encode_batch, our_encode_batch)
    encoding_objects: Duel = (
        "batch encode, from objects made before",
        BATCH,
        lambda: pb_encode_prepared(prepared),
        lambda: encode_batch(messages),
    )
    sends: list[Duel] = [
        (
            f"SEND parse + receipt, {name} entries",
            ENTRIES,
            lambda stream=stream: pb_send_to_receipt(stream),  # type: ignore[misc]
            lambda stream=stream: our_send_to_receipt(stream),  # type: ignore[misc]
        )
        for name, stream in (("100 B", small), ("1 KiB", large))
    ]
    acks: Duel = (
        "ACK parse, 100 ids of 1000-bit sets",
        100,
        lambda: pb_ack(ack),
        lambda: our_ack(ack),
    )
    return [decode, columns, encoding, encoding_objects, *sends, acks]


def main() -> int:
    print_build()
    print(f"protobuf implementation: {api_implementation.Type()}")
    rows = []
    for name, count, theirs, ours in duels():
        best = fastest({"protobuf": theirs, "ours": ours}, rounds=25)
        rows.append(
            (
                name,
                f"{best['protobuf'] / count * 1e9:,.0f}",
                f"{best['ours'] / count * 1e9:,.0f}",
                f"{best['protobuf'] / best['ours']:.1f}x",
                f"{count / best['ours'] / 1000:,.0f} k/s",
            )
        )
    header = ("work", "protobuf", "ours", "faster", "ours")
    print_table("ns for each message, entry or id", header, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
