"""A lane of a redrive: letters in the order of their numbers, each once, in an executor.

A letter's number in the plan is its sequence id, and the names of the producers follow from the
plan and the lane. So whoever sends a lane again, the broker says what it has of it already, and
deduplication refuses what an earlier run may still have on its way.

That holds only if the broker has all letters below the last one, so none overtakes another: a
producer sends one entry at a time, and the next when the broker keeps it. A letter that the topic
refuses ends the lane; those behind it were not sent.

The rows that are given back name the letters that are with their topics now, those of an earlier
run included: they may be acknowledged.
"""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from magnetar.client.door.bulk import BulkClient, BulkProducer
from magnetar.client.option.options import ProducerOptions
from magnetar.client.producer.outgoing import Outgoing
from magnetar.client.schema.schema import BytesSchema, Schema
from magnetar.client.schema.schema_info import SchemaInfo
from magnetar.errors import SettingsError
from magnetar.model import MessageId
from magnetar.protocol import MESSAGE_SIZE_MAX
from magnetar.spark.connect import client_of, open_when_free
from magnetar.spark.pipelines.letter.letters import key_text, restored, target_of
from magnetar.spark.plan.options import WriteOptions
from magnetar.spark.rest import Rest

__all__ = ["SENT", "Lanes"]

# What comes back of each letter.
SENT = "topic string, message_id binary, fresh boolean"
# What an entry holds; a letter that is larger is an entry of its own.
ENTRY_LETTERS = 1000
ENTRY_BYTES = 128 * 1024


class Lanes:
    """What tasks are told: how to connect, whose run it is, where letters go, how fast."""

    def __init__(
        self, options: dict[str, str], run: str, targets: dict[str, list[str]], rate: float
    ) -> None:
        self.options = options
        self.run = run
        self.targets = targets
        # Letters in a second; 0 is as fast as it goes.
        self.rate = rate

    def send(self, batches: Iterator["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
        """Sends rows of letters, those of a lane in their order; a function for `mapInArrow`."""
        given = {**self.options, "delivery": "atLeastOnce"}
        connection = WriteOptions(given).connection
        client = client_of(connection)
        sent = client.call(_Sender(client, self, Rest(connection)).send_all(batches))
        columns = [[row[i] for row in sent] for i in range(3)]
        kinds = (pa.string(), pa.binary(), pa.bool_())
        arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, names=["topic", "message_id", "fresh"])


class _Registered(Schema):
    """A schema as a topic has it, for bytes that are encoded already."""

    def __init__(self, info: SchemaInfo) -> None:
        self._schema_info = info


class _Open:
    """A producer, what the broker had of it when it was opened, and its next entry."""

    def __init__(self, producer: BulkProducer) -> None:
        self._producer = producer
        self.last: int = producer.last_sequence_id
        self._letters: list[Outgoing] = []
        self._size = 0
        self._error: Exception | None = None

    async def add(self, value: bytes, **fields: Any) -> None:
        """Adds a letter to the entry; what it has no room for goes first."""
        texts = [fields["partition_key"] or "", *fields["properties"].items()]
        size = len(value) + sum(len(text) for pair in texts for text in pair)
        size += len(fields["ordering_key"] or b"")
        if len(self._letters) == ENTRY_LETTERS or self._size + size > ENTRY_BYTES:
            await self.flush()
        self._letters.append(Outgoing(value, self._have_answer, **fields))
        self._size += size

    async def flush(self) -> None:
        """Sends the entry; returns when the broker keeps it, and raises if it does not."""
        letters, self._letters, self._size = self._letters, [], 0
        for letter in letters:
            self._producer.send(letter)
        await self._producer.flush()
        if self._error is not None:
            raise self._error

    async def close(self) -> None:
        await self._producer.close()

    def _have_answer(self, error: Exception | None, id: MessageId | None) -> None:
        if error is not None and self._error is None:
            self._error = error


class _Sender:
    def __init__(self, client: BulkClient, lanes: Lanes, rest: Rest) -> None:
        self._client = client
        self._lanes = lanes
        self._rest = rest
        self._open: dict[tuple[str, str], _Open] = {}
        # Of each topic partition the producer that letters go by now.
        self._turn: dict[str, _Open] = {}
        self._schemas: dict[tuple[str, int], Schema] = {}
        # When the first letter of this task went, and how many did.
        self._began = 0.0
        self._sent = 0

    async def send_all(self, batches: Iterator["pa.RecordBatch"]) -> list[tuple[str, bytes, bool]]:
        """Returns when the broker keeps all of them; raises what went wrong."""
        done: list[tuple[str, bytes, bool]] = []
        try:
            for batch in batches:
                for row in batch.to_pylist():
                    done.append((row["topic"], row["message_id"], await self._send(row)))
            await self._flush()
        finally:
            await asyncio.gather(*(one.close() for one in self._open.values()))
        return done

    async def _flush(self) -> None:
        await asyncio.gather(*(one.flush() for one in self._open.values()))

    async def _send(self, row: dict[str, Any]) -> bool:
        """Sends a letter, if the broker lacks it; says whether it did."""
        key, value, number = key_text(row["key"]), row["value"], row["number"]
        targets = self._lanes.targets[row["target"]]
        target = target_of(number, key, row["came_from"], targets)
        large = value is not None and len(value) > MESSAGE_SIZE_MAX * 9 // 10
        producer = await self._producer(target, row, large)
        if number <= producer.last:
            return False
        await self._keep_pace()
        before = self._turn.setdefault(target, producer)
        if before is not producer:
            # Schemas and sizes have producers of their own, and letters keep their order.
            await before.flush()
            self._turn[target] = producer
        await producer.add(
            value or b"",
            properties=restored(json.loads(row["properties"])),
            partition_key=key,
            ordering_key=row["ordering_key"],
            event_timestamp=row["event_ms"] or 0,
            sequence_id=number,
            null_value=value is None,
        )
        return True

    async def _keep_pace(self) -> None:
        loop = asyncio.get_running_loop()
        if self._sent == 0:
            self._began = loop.time()
        if self._lanes.rate:
            due = self._began + self._sent / self._lanes.rate
            if due > loop.time():
                await self._flush()
                await asyncio.sleep(max(due - loop.time(), 0))
        self._sent += 1

    async def _producer(self, target: str, row: dict[str, Any], large: bool) -> _Open:
        version = row["schema_version"]
        suffix = "" if version is None else f"-v{version}"
        name = f"redrive-{self._lanes.run}-{row['lane']}{suffix}{'-large' if large else ''}"
        found = self._open.get((target, name))
        if found is None:
            schema = await self._schema(row["topic"], version)
            producer = await self._opened(target, name, schema, large=large)
            if not self._rest.is_deduplicating(target):
                await producer.close()
                raise SettingsError(
                    "deduplication",
                    f"{target} does not deduplicate, so nobody can tell which letters it has: "
                    "was it switched off meanwhile? Run the same command again",
                )
            found = self._open[target, name] = _Open(producer)
        return found

    async def _schema(self, topic: str, version: int | None) -> Schema:
        if version is None:
            return BytesSchema()
        found = self._schemas.get((topic, version))
        if found is None:
            raw = version.to_bytes(8, "big", signed=True)
            found = _Registered(await self._client.find_schema_info(topic, raw))
            self._schemas[topic, version] = found
        return found

    async def _opened(self, target: str, name: str, schema: Schema, *, large: bool) -> BulkProducer:
        options = ProducerOptions(
            producer_name=name,
            batching_enabled=not large,
            batching_max_messages=ENTRY_LETTERS,
            batching_max_allowed_size_in_bytes=ENTRY_BYTES,
            chunking_enabled=large,
        )
        return await open_when_free(self._client, target, options, schema)
