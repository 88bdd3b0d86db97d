"""A web service that takes orders, and the worker that handles them, on one event loop.

    magnetar serve
    uvicorn examples.fastapi_app:app
    curl localhost:8000/orders -H 'content-type: application/json' \\
        -d '{"customer": "alice", "amount": 3}'
    curl localhost:8000/customers/alice
    curl localhost:8000/health

An order is answered when the broker has stored it. The worker acks it when it is handled, and
an ack that fails is sent again. An order that it cannot handle is tried three times more and then
put aside, on the topic of dead letters; the worker goes on with the next one.
"""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from pydantic import BaseModel

import magnetar
from magnetar import ConsumerDeadLetterPolicy, ConsumerType, aio

TOPIC = "web-orders"


class Order(BaseModel):
    customer: str
    amount: int


def make_app(url: str = "pulsar://127.0.0.1:6650") -> FastAPI:
    totals: Counter[str] = Counter()

    @magnetar.worker(
        TOPIC,
        subscription="totals",
        concurrency=32,
        consumer_type=ConsumerType.KeyShared,
        negative_ack_redelivery_delay_ms=1000,
        dead_letter_policy=ConsumerDeadLetterPolicy(3, initial_subscription_name="people"),
    )
    async def add(order: Order) -> None:
        totals[order.customer] += order.amount

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with aio.Client(url) as client, add.running(client):
            app.state.producer = await client.create_producer(TOPIC, batching_enabled=True)
            yield

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

    @app.get("/health")
    async def health() -> dict[str, object]:
        return add.health().as_dict()

    return app


app = make_app()
