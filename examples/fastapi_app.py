"""A web service that takes orders, and the worker that handles them, on one event loop.

    magnetar serve
    uvicorn examples.fastapi_app:app
    curl localhost:8000/orders -H 'content-type: application/json' \\
        -d '{"customer": "alice", "amount": 3}'
    curl localhost:8000/customers/alice

An order is answered when the broker has stored it. The worker acks it when it is handled, and
an ack that fails is sent again.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from pydantic import BaseModel

from magnetar import ConsumerType, aio

TOPIC = "web-orders"


class Order(BaseModel):
    customer: str
    amount: int


def make_app(url: str = "pulsar://127.0.0.1:6650") -> FastAPI:
    totals: Counter[str] = Counter()

    async def work(consumer: aio.Consumer) -> None:
        async for message in consumer:
            order = Order.model_validate_json(message.data())
            totals[order.customer] += order.amount
            await consumer.acknowledge(message)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with aio.Client(url) as client:
            consumer = await client.subscribe(
                TOPIC,
                "totals",
                consumer_type=ConsumerType.KeyShared,
                auto_retry_acknowledgement=True,
            )
            app.state.producer = await client.create_producer(TOPIC, batching_enabled=True)
            worker = asyncio.create_task(work(consumer))
            yield
            worker.cancel()

    app = FastAPI(lifespan=lifespan)

    @app.post("/orders", status_code=202)
    async def take(order: Order) -> dict[str, str]:
        id = await app.state.producer.send(
            order.model_dump_json().encode(), partition_key=order.customer
        )
        return {"id": str(id)}

    @app.get("/customers/{customer}")
    async def total(customer: str) -> dict[str, int]:
        return {"total": totals[customer]}

    return app


app = make_app()
