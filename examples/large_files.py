"""Files through a topic: what is larger than a message may be goes in chunks, and arrives whole.

    magnetar serve
    python examples/large_files.py pulsar://127.0.0.1:6650 video.mp4 music.flac

Without files one of 12 MiB is made up. A message in chunks has one id, and is acked as one.
"""

import hashlib
import sys
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import magnetar
from magnetar import ChunkMessageId, InitialPosition

URL = sys.argv[1] if sys.argv[1:] else "pulsar://127.0.0.1:6650"
TOPIC = "files"


def send(client: magnetar.Client, files: list[Path]) -> None:
    producer = client.create_producer(TOPIC, chunking_enabled=True)
    for file in files:
        content = file.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        id = producer.send(content, properties={"name": file.name, "sha256": digest})
        chunks = 1
        if isinstance(id, ChunkMessageId):
            chunks = id.entry_id() - id.first_chunk_message_id().entry_id() + 1
        print(f"sent {file.name}: {len(content):,} bytes in {chunks} chunks")


def receive(consumer: magnetar.Consumer, count: int, into: Path) -> None:
    for _ in range(count):
        message = consumer.receive(timeout_millis=30_000)
        name, digest = (message.properties()[key] for key in ("name", "sha256"))
        content = message.data()
        if hashlib.sha256(content).hexdigest() != digest:
            raise ValueError(f"{name} is damaged")
        # A name from elsewhere: only its last part counts.
        target = into / Path(name).name
        target.write_bytes(content)
        consumer.acknowledge(message)
        print(f"received {target.name}: {target.stat().st_size:,} bytes, intact")


def main() -> None:
    with magnetar.Client(URL) as client, TemporaryDirectory() as scratch:
        consumer = client.subscribe(TOPIC, "disk", initial_position=InitialPosition.Earliest)
        files = [Path(name) for name in sys.argv[2:]]
        if not files:
            files = [Path(scratch) / "noise.bin"]
            files[0].write_bytes(Random(1).randbytes(12 << 20))
        into = Path(scratch) / "received"
        into.mkdir()
        send(client, files)
        receive(consumer, len(files), into)


if __name__ == "__main__":
    main()
