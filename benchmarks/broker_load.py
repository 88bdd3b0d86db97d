"""Load for a server on the wire, from a process of its own, and what it took.

    broker_load.py URL TOPIC --count N [--window N] [--consume] [--pid PID]

Publishes entries of 1 KiB, one message each, from frames that are made beforehand, with at
most `window` of them unanswered; with --consume an Exclusive consumer on a connection of
its own takes and acknowledges them at the same time. Prints one line of JSON: the seconds
from the first byte to the last answer, and the CPU seconds of process PID in between.

This is no client. It looks at as few bytes as it can, so that a server can be faster than
the language this is written in would let a client be: replies are counted by their type,
and an ack repeats the id's bytes as they came.
"""

import argparse
import gc
import json
import os
import select
import socket
import struct
import sys
import time
from itertools import pairwise
from typing import Final, TypeVar
from urllib.parse import urlsplit

from google.protobuf.message import Message

from magnetar.protocol import (
    PROTOCOL_VERSION,
    Command,
    CommandFlow,
    CommandMessage,
    CommandSend,
    Connection,
    MessageMetadata,
    encode,
    encode_entry,
    encode_head,
    message_id_to_pb,
)
from magnetar.protocol import pulsar_pb2 as pb

PAYLOAD: Final = bytes(range(256)) * 4
REPLY_S: Final = 30.0
READ_BYTES: Final = 1 << 18
# Frames that go out in one call.
BLOCK: Final = 50
# As the official clients do: a queue of 1000, asked for anew by halves.
QUEUE: Final = 1000
# The numbers of the replies that are counted, in the second byte of a command.
SEND_RECEIPT: Final = 7
MESSAGE: Final = 9
PING: Final = 18
ACK_RESPONSE: Final = 38

T = TypeVar("T", bound=Command)


class Peer:
    """A connection that has shaken hands, one request at a time."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        self.socket = socket.create_connection((parts.hostname, parts.port), timeout=REPLY_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection = Connection()
        self.send(pb.CommandConnect(client_version="load", protocol_version=PROTOCOL_VERSION))
        self.receive(pb.CommandConnected)

    def send(self, *commands: Command) -> None:
        self.socket.sendall(b"".join([encode(command) for command in commands]))

    def receive(self, kind: type[T]) -> T:
        """The next command of a kind; others are passed over, errors are not."""
        while True:
            while (command := self._connection.next_command()) is not None:
                if isinstance(command, kind):
                    return command
                if isinstance(command, pb.CommandPing):
                    self.send(pb.CommandPong())
                elif isinstance(command, (pb.CommandError, pb.CommandSendError)):
                    raise AssertionError(f"the server refuses: {command}")
            data = self.socket.recv(READ_BYTES)
            assert data, f"the server hung up before {kind.__name__}"
            self._connection.receive_data(data)

    def look_up(self, topic: str) -> None:
        """What every client asks before it uses a topic."""
        self.send(pb.CommandPartitionedTopicMetadata(topic=topic, request_id=1))
        self.receive(pb.CommandPartitionedTopicMetadataResponse)
        self.send(pb.CommandLookupTopic(topic=topic, request_id=2))
        self.receive(pb.CommandLookupTopicResponse)

    def close(self) -> None:
        self.socket.close()


def entry_of(payload: bytes) -> bytes:
    return encode_entry(MessageMetadata("load", 0, int(time.time() * 1000)).encode(), payload)


class Stream:
    """One connection under load: what goes out as it can, and what comes in frame by frame."""

    def __init__(self, peer: Peer) -> None:
        self.socket = peer.socket
        self.socket.setblocking(False)
        self.out: bytes | memoryview = b""
        self._left = b""

    def wants_write(self) -> bool:
        return bool(self.out)

    def write(self) -> None:
        try:
            sent = self.socket.send(self.out)
        except BlockingIOError:
            return
        self.out = memoryview(self.out)[sent:] if sent < len(self.out) else b""

    def frames(self) -> tuple[bytes, list[int]]:
        """What has come, and where in it the whole frames begin; the last is the end."""
        try:
            data = self._left + self.socket.recv(READ_BYTES)
        except BlockingIOError:
            return b"", [0]
        assert len(data) > len(self._left), "the server hung up"
        first, end = 0, len(data)
        firsts = [0]
        while end - first >= 4:
            first += 4 + int.from_bytes(data[first : first + 4], "big")
            if first > end:
                break
            firsts.append(first)
        self._left = data[firsts[-1] :]
        return data, firsts

    def other(self, frame: bytes) -> None:
        """Anything but what is counted: a PING, or bad news."""
        if frame[9] == PING:
            self.out = bytes(self.out) + encode(pb.CommandPong())
            return
        connection = Connection()
        connection.receive_data(frame)
        command = connection.next_command()
        if isinstance(command, Message) and isinstance(
            command, (pb.CommandError, pb.CommandSendError)
        ):
            raise AssertionError(f"the server refuses: {command}")


class Publisher(Stream):
    """Sends `count` frames, never more than `window` ahead of the receipts."""

    def __init__(self, peer: Peer, topic: str, count: int, window: int) -> None:
        peer.look_up(topic)
        peer.send(pb.CommandProducer(topic=topic, producer_id=1, request_id=3))
        peer.receive(pb.CommandProducerSuccess)
        super().__init__(peer)
        entry = entry_of(PAYLOAD)
        heads = [encode_head(CommandSend(1, n), len(entry)) for n in range(count)]
        self._blocks = [
            b"".join([head + entry for head in heads[first : first + BLOCK]])
            for first in reversed(range(0, count, BLOCK))
        ]
        self._count = count
        self._window = window
        self._sent = 0
        self._receipts = 0

    @property
    def done(self) -> bool:
        return self._receipts == self._count

    def wants_write(self) -> bool:
        if not self.out and self._blocks and self._sent - self._receipts + BLOCK <= self._window:
            self.out = self._blocks.pop()
            self._sent += BLOCK
        return bool(self.out)

    def read(self) -> None:
        data, firsts = self.frames()
        for first, end in pairwise(firsts):
            if data[first + 9] == SEND_RECEIPT:
                self._receipts += 1
            else:
                self.other(data[first:end])


class Consumer(Stream):
    """Takes `count` messages, acknowledges them in lists, and asks for a receipt at the end."""

    def __init__(self, peer: Peer, topic: str, count: int) -> None:
        peer.look_up(topic)
        peer.send(
            pb.CommandSubscribe(
                topic=topic,
                subscription="load",
                subType=0,
                consumer_id=1,
                request_id=3,
                initialPosition=1,
            )
        )
        peer.receive(pb.CommandSuccess)
        super().__init__(peer)
        self.out = encode(CommandFlow(1, QUEUE))
        self._count = count
        self._received = 0
        self._ids: list[bytes] = []
        self.done = False

    def read(self) -> None:
        data, firsts = self.frames()
        for first, end in pairwise(firsts):
            kind = data[first + 9]
            if kind == MESSAGE:
                self._take(data, first, end)
            elif kind == ACK_RESPONSE:
                self.done = True
            else:
                self.other(data[first:end])

    def _take(self, data: bytes, first: int, end: int) -> None:
        # sizes(8) 08 09 4a size 08 consumer 12 id-size id; anything else is looked at closely.
        id_end = first + 16 + data[first + 15]
        if self._received == 0:
            self._verify(data[first:end], data[first + 16 : id_end])
        assert data[first + 12] == 0x08
        assert data[first + 14] == 0x12
        self._ids.append(data[first + 15 : id_end])
        self._received += 1
        if len(self._ids) == QUEUE // 2 or self._received == self._count:
            self._ack()

    def _verify(self, frame: bytes, id_bytes: bytes) -> None:
        connection = Connection()
        connection.receive_data(frame)
        message = connection.next_command()
        assert isinstance(message, CommandMessage)
        found = pb.MessageIdData.FromString(id_bytes)
        wanted = message_id_to_pb(message.message_id)
        assert (found.ledgerId, found.entryId) == (wanted.ledgerId, wanted.entryId)

    def _ack(self) -> None:
        # consumer_id 1, Individual, the ids; with request_id 4 if they are the last.
        body = b"\x08\x01\x10\x00" + b"".join([b"\x1a" + id for id in self._ids])
        if self._received == self._count:
            body += b"\x40\x04"
        permits = len(self._ids)
        self._ids = []
        command = b"\x08\x0a\x52" + varint(len(body)) + body
        frame = struct.pack(">II", 4 + len(command), len(command)) + command
        self.out = bytes(self.out) + frame + encode(CommandFlow(1, permits))


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def cpu_seconds(pid: int) -> float:
    """What a process, all its threads together, has used up; 0.0 where nobody says."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(
    url: str, topic: str, count: int, window: int, *, consume: bool, pid: int
) -> dict[str, float]:
    streams: list[Publisher | Consumer] = []
    if consume:
        streams.append(Consumer(Peer(url), topic, count))
    streams.append(Publisher(Peer(url), topic, count, window))
    gc.collect()
    gc.disable()
    cpu = cpu_seconds(pid)
    start = time.perf_counter()
    while True:
        running = [stream for stream in streams if not stream.done]
        if not running:
            break
        writing = [stream.socket for stream in running if stream.wants_write()]
        reading = [stream.socket for stream in running]
        can_read, can_write, _ = select.select(reading, writing, [], REPLY_S)
        assert can_read or can_write, f"nothing happened for {REPLY_S:.0f} s"
        for stream in running:
            if stream.socket in can_write:
                stream.write()
            if stream.socket in can_read:
                stream.read()
    seconds = time.perf_counter() - start
    used = cpu_seconds(pid) - cpu
    for stream in streams:
        stream.socket.close()
    return {"count": count, "seconds": seconds, "cpu": used, "load_cpu": time.process_time()}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("url")
    parser.add_argument("topic")
    parser.add_argument("--count", type=int, required=True, help=f"rounded down to {BLOCK}s")
    parser.add_argument("--window", type=int, default=5000)
    parser.add_argument("--consume", action="store_true")
    parser.add_argument("--pid", type=int, default=0, help="whose CPU time to tell")
    chosen = parser.parse_args()
    count = max(chosen.count // BLOCK, 1) * BLOCK
    took = run(
        chosen.url, chosen.topic, count, chosen.window, consume=chosen.consume, pid=chosen.pid
    )
    print(json.dumps(took))
    return 0


if __name__ == "__main__":
    sys.exit(main())
