"""A client at work, in a process of its own, and what it took.

    client_load.py CLIENT WORK URL TOPIC --count N [--batch N] [--window N]

CLIENT is `official`, `magnetar` or `aio`, WORK one of

    publish     send_async with a callback, 100 bytes in batches, at most `window` unanswered
    fill        the same, as fast as can be: what `consume` needs beforehand
    consume     receive and acknowledge, one by one
    send        send one at a time, not batched, and wait for each

Prints one line of JSON: the seconds from the first call to the last result, the CPU seconds
of this process in between (all its threads), and for `send` the median of one call.
"""

import argparse
import asyncio
import gc
import importlib
import json
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from statistics import median
from typing import Any, Final

from timing import Took

PAYLOAD: Final = bytes(range(100))
SUBSCRIPTION: Final = "load"
DONE_S: Final = 120.0


class Stopwatch:
    """Wall and CPU time from its making to its reading."""

    def __init__(self) -> None:
        gc.collect()
        self._start = time.perf_counter()
        self._cpu = time.process_time()

    def took(self, count: int) -> Took:
        seconds = time.perf_counter() - self._start
        return {"count": count, "seconds": seconds, "cpu": time.process_time() - self._cpu}


class Receipts:
    """Counts callbacks, and says when all have come."""

    def __init__(self, ok: object, count: int) -> None:
        self._ok = ok
        self._left = count
        self._all = threading.Event()
        self.failed: list[object] = []

    def __call__(self, result: object, message_id: object) -> None:
        if result != self._ok:
            self.failed.append(result)
        self._left -= 1
        if self._left == 0:
            self._all.set()

    def wait(self) -> None:
        assert self._all.wait(DONE_S), f"{self._left} callbacks did not come"
        assert not self.failed, f"{len(self.failed)} sends failed, the first: {self.failed[0]}"


class Load:
    """What to do, and where."""

    def __init__(self, client: str, url: str, topic: str, count: int, batch: int, window: int):
        self._name = client
        self._url = url
        self._topic = topic
        self._count = count
        self._batching: dict[str, Any] = {
            "batching_enabled": True,
            "batching_max_messages": batch,
            "batching_max_allowed_size_in_bytes": 1 << 20,
            "max_pending_messages": window,
            "block_if_queue_full": True,
        }
        self._window = window

    def run(self, work: str) -> Took:
        if self._name == "aio":
            assert work == "publish", f"the asyncio door has no {work} here"
            return asyncio.run(self._publish_aio())
        works: dict[str, Callable[[Any, Any], Took]] = {
            "publish": self._publish,
            "fill": self._publish,
            "consume": self._consume,
            "send": self._send,
        }
        pulsar: Any = importlib.import_module("pulsar" if self._name == "official" else "magnetar")
        client = pulsar.Client(self._url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        try:
            return works[work](pulsar, client)
        finally:
            client.close()

    def _publish(self, pulsar: Any, client: Any) -> Took:
        producer = client.create_producer(self._topic, **self._batching)
        producer.send(PAYLOAD)
        receipts = Receipts(pulsar.Result.Ok, self._count)
        watch = Stopwatch()
        for _ in range(self._count):
            producer.send_async(PAYLOAD, receipts)
        producer.flush()
        receipts.wait()
        return watch.took(self._count)

    async def _publish_aio(self) -> Took:
        from magnetar import aio

        async with aio.Client(self._url) as client:
            producer = await client.create_producer(self._topic, **self._batching)
            await self._flushed(producer)
            under_way: deque[asyncio.Future[Any]] = deque()
            watch = Stopwatch()
            for _ in range(self._count):
                if len(under_way) == self._window:
                    await under_way.popleft()
                under_way.append(producer.send(PAYLOAD))
            await producer.flush()
            await asyncio.gather(*under_way)
            return watch.took(self._count)

    async def _flushed(self, producer: Any) -> None:
        sent = producer.send(PAYLOAD)
        await producer.flush()
        await sent

    def _consume(self, pulsar: Any, client: Any) -> Took:
        consumer = client.subscribe(
            self._topic, SUBSCRIPTION, initial_position=pulsar.InitialPosition.Earliest
        )
        consumer.acknowledge(consumer.receive(30_000))
        watch = Stopwatch()
        for _ in range(self._count):
            message = consumer.receive()
            message.data()
            consumer.acknowledge(message)
        took = watch.took(self._count)
        consumer.close()
        return took

    def _send(self, pulsar: Any, client: Any) -> Took:
        producer = client.create_producer(self._topic)
        producer.send(PAYLOAD)
        each = []
        watch = Stopwatch()
        for _ in range(self._count):
            start = time.perf_counter()
            producer.send(PAYLOAD)
            each.append(time.perf_counter() - start)
        return watch.took(self._count) | {"p50": median(each)}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("client", choices=("official", "magnetar", "aio"))
    parser.add_argument("work", choices=("publish", "fill", "consume", "send"))
    parser.add_argument("url")
    parser.add_argument("topic")
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--batch", type=int, default=1000, help="messages in a batch")
    parser.add_argument("--window", type=int, default=100_000, help="messages unanswered")
    given = parser.parse_args()
    load = Load(given.client, given.url, given.topic, given.count, given.batch, given.window)
    print(json.dumps(load.run(given.work)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
