"""A worker: each order of a topic is handled by a function, many at a time.

    magnetar serve
    python examples/worker.py
    magnetar produce billing-orders -m '{"customer": "alice", "amount": 3}'

Start as many as you like; they share the orders. An order that fails is tried again, and after
the third time more it is a dead letter. Ctrl-C or SIGTERM ends it: what is in hand is finished.
"""

import sys
from dataclasses import dataclass

import magnetar

URL = sys.argv[1] if sys.argv[1:] else "pulsar://127.0.0.1:6650"


@dataclass
class Order:
    customer: str
    amount: int


@magnetar.worker(
    "billing-orders",
    subscription="billing",
    concurrency=32,
    dead_letter_policy=magnetar.ConsumerDeadLetterPolicy(3, initial_subscription_name="people"),
)
async def bill(order: Order) -> None:
    if order.amount <= 0:
        print(f"{order.customer} pays nothing?", flush=True)
        raise ValueError("an order has a positive amount")
    print(f"{order.customer} pays {order.amount}", flush=True)


if __name__ == "__main__":
    magnetar.run(bill, url=URL)
    health = bill.health()
    print(f"handled {health.handled}, failed {health.failed}")
