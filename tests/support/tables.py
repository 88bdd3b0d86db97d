"""Topics as tables without Spark: what Spark would call, called in this process.

Planned by a reader, then read split by split: everything but the JVM is as it will be. And
entries that no client would send, and what the broker says of a subscription.
"""

from collections.abc import Iterator
from typing import Any

import httpx
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructType

from magnetar.client.network.connection import ClientConnection
from magnetar.model import CompressionType
from magnetar.protocol import CommandSend, encode, encode_entry
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.protocol.metadata import MessageMetadata
from magnetar.protocol.payload.batch_claim import DECOMPRESS_BYTES_MAX
from magnetar.protocol.payload.compression import compress
from magnetar.spark.source import BatchReader, MagnetarDataSource
from magnetar.spark.stream import StreamReader

# How many entries a ledger of the tests' broker has: few, so that reads go over several.
SMALL_LEDGER = 60


class Tables:
    """Reads of one set of options."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options

    def splits(self, **more: str) -> list[Any]:
        return self._reader(None, more).partitions()

    def read(self, schema: str | None = None, **more: str) -> list[dict[str, Any]]:
        reader = self._reader(schema, more)
        return [row for split in reader.partitions() for row in rows_of(reader.read(split))]

    def values(self, **more: str) -> list[str]:
        return [row["value"].decode() for row in self.read("value binary", **more)]

    def _reader(self, schema: str | None, more: dict[str, str]) -> BatchReader:
        source = MagnetarDataSource({**self._options, **more})
        return source.reader(source.schema() if schema is None else struct_of(schema))

    def stream(self, schema: str = "value binary", **more: str) -> StreamReader:
        source = MagnetarDataSource({**self._options, **more})
        reader: StreamReader = source.streamReader(struct_of(schema))
        return reader


def struct_of(text: str) -> StructType:
    """A schema from `name type, ...` of plain types, which needs no Spark."""
    kinds = {"binary": BinaryType, "string": StringType, "int": IntegerType, "long": LongType}
    schema = StructType()
    for field in text.split(","):
        name, kind = field.split()
        schema = schema.add(name, kinds[kind]())
    return schema


def rows_of(batches: Iterator[Any]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def texts(count: int, first: int = 0) -> list[str]:
    """Values to publish, all different."""
    return [f"v{i}" for i in range(first, first + count)]


def path_of(topic: str) -> str:
    return f"/{topic.replace('://', '/')}"


def trim(rest: httpx.Client, topic: str) -> None:
    """Lets the broker, which else keeps everything here, forget what everyone has consumed."""
    nothing = {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0}
    rest.post(f"{path_of(topic)}/retention", json=nothing).raise_for_status()
    rest.post(f"{path_of(topic)}/trim").raise_for_status()


def backlog_of(rest: httpx.Client, topic: str, subscription: str) -> int:
    """How many messages a subscription has not acknowledged, as the broker tells."""
    stats = rest.get(f"{path_of(topic)}/stats").raise_for_status().json()
    found: int = stats["subscriptions"][subscription]["msgBacklogMessages"]
    return found


async def publish_raw(
    url: str, topic: str, payload: bytes, *, count: int | None = None, **fields: Any
) -> None:
    """Publishes an entry whatever its payload; `count` says how many messages it claims."""
    await publish_raws(url, topic, [(payload, {"num_messages_in_batch": count, **fields})])


async def publish_unreadable(url: str, topic: str, *, count: int) -> None:
    """Publishes a batch that is none: it says that it has `count` messages, and has zeros.

    The broker finds out where it can: this one is compressed, and larger than it looks into.
    """
    zeros = bytes(2 * DECOMPRESS_BYTES_MAX)
    payload = compress(CompressionType.LZ4, zeros)
    await publish_raw(
        url,
        topic,
        payload,
        count=count,
        compression=int(CompressionType.LZ4),
        uncompressed_size=len(zeros),
    )


async def publish_raws(url: str, topic: str, entries: list[tuple[bytes, dict[str, Any]]]) -> None:
    """Publishes entries, each with these fields of its metadata."""
    host, port = url.removeprefix("pulsar://").split(":")
    connection = await ClientConnection.open(
        host, int(port), timeout_s=30, connect_timeout_s=30, client_version="test"
    )
    command = pb.CommandProducer(topic=topic, producer_id=1, request_id=1)
    made = await connection.request(command, pb.CommandProducerSuccess)
    for number, (payload, fields) in enumerate(entries):
        metadata = MessageMetadata(made.producer_name, number, 1)
        for name, value in fields.items():
            setattr(metadata, name, value)
        entry = encode_entry(metadata.encode(), payload)
        count = fields.get("num_messages_in_batch") or 1
        connection.write([encode(CommandSend(1, number, entry, count))])
    # Answered after what was sent before it.
    close = pb.CommandCloseProducer(producer_id=1, request_id=2)
    await connection.request(close, pb.CommandSuccess)
    connection.close()
    await connection.wait_closed()
