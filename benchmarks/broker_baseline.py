"""What a broker cannot do without, and nothing else: the yardstick of bench_broker.py.

It decodes SEND, verifies the checksum, appends to a store that syncs every group, and
sends the receipts, all with the rooms and threads that the broker uses. It has one topic
whatever is asked for; no producers are registered, nothing is looked up, dispatched or
counted. The difference between it and the broker is the price of being a broker.

    broker_baseline.py --data DIR --port PORT --http-port IGNORED
"""

import argparse
import asyncio
import signal
import sys
import time
from collections import deque
from pathlib import Path
from typing import Final, cast

from google.protobuf.message import Message

from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import (
    MESSAGE_SIZE_MAX,
    PROTOCOL_VERSION,
    CommandSend,
    CommandSendReceipt,
    Connection,
    encode,
    split_entry,
)
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.storage import FileDisk, Outcome, StoreOptions, open_store
from magnetar.storage.log.writer import StoreWriter


def now_ms() -> int:
    return int(time.time() * 1000)


class Baseline:
    """The store, and who waits for which of its tickets."""

    def __init__(self, data: Path, loop: asyncio.AbstractEventLoop) -> None:
        self.store: Final = open_store(FileDisk(data), now_ms, StoreOptions())
        self.topic_id: Final = self.store.create_topic("the one")
        self.writer: Final = StoreWriter(self.store, loop.call_soon_threadsafe, self.durable)
        self.waiting: Final[deque[tuple[int, Peer, CommandSendReceipt]]] = deque()
        self.url: str = ""

    def durable(self, outcome: Outcome) -> None:
        if outcome.error is not None:
            raise outcome.error
        waiting, end = self.waiting, outcome.end
        peer: Peer | None = None
        frames: list[bytes] = []
        while waiting and waiting[0][0] < end:
            _, its_peer, receipt = waiting.popleft()
            if its_peer is not peer:
                if peer is not None:
                    peer.transport.write(b"".join(frames))
                peer, frames = its_peer, []
            frames.append(encode(receipt))
        if peer is not None:
            peer.transport.write(b"".join(frames))


class Peer(asyncio.Protocol):
    """One connection."""

    transport: asyncio.Transport

    def __init__(self, baseline: Baseline) -> None:
        self.baseline: Final = baseline
        self.connection: Final = Connection()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is not registered as one

    def data_received(self, data: bytes) -> None:
        self.connection.receive_data(data)
        now = now_ms()
        while (command := self.connection.next_command()) is not None:
            if isinstance(command, CommandSend):
                self.publish(command, now)
            elif isinstance(command, Message):
                for answer in self.answers(command):
                    self.transport.write(encode(answer))
        self.baseline.writer.kick()

    def publish(self, send: CommandSend, now: int) -> None:
        assert split_entry(send.entry).intact()
        baseline = self.baseline
        position = baseline.store.append(
            baseline.topic_id, send.entry, batch_size=send.num_messages, publish_time_ms=now
        )
        receipt = CommandSendReceipt(
            send.producer_id,
            send.sequence_id,
            MessageIdData(position.ledger_id, position.entry_id),
            send.highest_sequence_id,
        )
        baseline.waiting.append((baseline.store.ticket_last, self, receipt))

    def answers(self, command: Message) -> list[Message]:
        if isinstance(command, pb.CommandConnect):
            return [
                pb.CommandConnected(
                    server_version="baseline",
                    protocol_version=min(command.protocol_version, PROTOCOL_VERSION),
                    max_message_size=MESSAGE_SIZE_MAX,
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
                    brokerServiceUrl=self.baseline.url,
                )
            ]
        if isinstance(command, pb.CommandProducer):
            return [
                pb.CommandProducerSuccess(
                    request_id=command.request_id, producer_name="p", schema_version=b""
                )
            ]
        if isinstance(command, pb.CommandCloseProducer):
            return [pb.CommandSuccess(request_id=command.request_id)]
        return []


async def serve(data: Path, port: int) -> None:
    loop = asyncio.get_running_loop()
    baseline = Baseline(data, loop)
    server = await loop.create_server(lambda: Peer(baseline), "127.0.0.1", port)
    port = server.sockets[0].getsockname()[1]
    baseline.url = f"pulsar://127.0.0.1:{port}"
    stopped = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    print(f"ready {baseline.url} http://127.0.0.1:0", flush=True)
    await stopped.wait()
    server.close()
    baseline.writer.stop()
    baseline.store.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--http-port", type=int, default=0)
    chosen = parser.parse_args()
    try:
        import uvloop
    except ImportError:
        asyncio.run(serve(chosen.data, chosen.port))
    else:
        uvloop.run(serve(chosen.data, chosen.port))
    return 0


if __name__ == "__main__":
    sys.exit(main())
