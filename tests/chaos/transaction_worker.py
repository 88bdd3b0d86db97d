"""A worker that is killed: it publishes each message to two topics and acks it, as one.

    python transaction_worker.py URL TOPIC [plain]

What it publishes goes to TOPIC-a and TOPIC-b. Now and then its function raises after it has sent,
which nobody may see. A `plain` one has no transactions, which must be found out.
"""

import asyncio
import random
import sys

import magnetar

URL, TOPIC, *PLAIN = sys.argv[1:]
# Of what a killed worker left open readers wait for the end.
TIMEOUT_S = 5
FAILS = 0.02


@magnetar.worker(
    TOPIC,
    subscription="work",
    concurrency=64,
    transactional=True,
    transaction_timeout=TIMEOUT_S,
    negative_ack_redelivery_delay_ms=100,
    receiver_queue_size=200,
)
async def work(data: bytes, work: magnetar.AsyncWork) -> None:
    for letter in "ab":
        await work.send(f"{TOPIC}-{letter}", data)
        await asyncio.sleep(0)
    if random.random() < FAILS:
        raise ValueError("not this time")


@magnetar.worker(TOPIC, subscription="work", concurrency=64, negative_ack_redelivery_delay_ms=100)
async def plain(data: bytes) -> None:
    async with magnetar.aio.Client(URL) as client:
        for letter in "ab":
            await (await client.create_producer(f"{TOPIC}-{letter}")).send(data)
    if random.random() < FAILS:
        raise ValueError("not this time")


if __name__ == "__main__":
    magnetar.run(plain if PLAIN else work, url=URL, initial_backoff_ms=20, max_backoff_ms=500)
