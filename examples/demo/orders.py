"""The orders that the demo sends: a fixed list, the same in every run.

| kind      | is                                                      | sent by        |
|-----------|---------------------------------------------------------|----------------|
| plain     | an order                                                | till, batched  |
| flaky     | one that cannot be handled the first time               | till, batched  |
| poison    | one that can never be handled: its amount is not a number  | till, batched  |
| large     | one with a long attachment                              | bulk, chunked  |
| later     | one that is to be delivered after some seconds          | later, delayed |
| cancelled | such a one that is cancelled before its time            | later, delayed |

An order is told by its key and a number that counts up within the key. A key belongs to one
producer, since nothing orders the messages of two.
"""

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

# Messages of a key come in such bursts, so that batches of one key have several.
BURST = 10
# How many bursts a customer makes.
BURSTS = 10
ITEMS = ("apples", "pears", "plums", "quinces", "medlars")
# Characters of an attachment, and bytes of a chunk of it.
ATTACHED = 600_000
CHUNK = 128 * 1024
# One of so many orders is flaky.
FLAKY_EACH = 250


class Order(NamedTuple):
    key: str
    number: int
    kind: str = "plain"

    @property
    def name(self) -> str:
        return f"{self.key}/{self.number}"

    def payload(self) -> bytes:
        random = Random(f"{self.key} {self.number}")
        order: dict[str, object] = {
            "customer": self.key,
            "number": self.number,
            "item": random.choice(ITEMS),
            "amount": "three" if self.kind == "poison" else random.randint(1, 12),
        }
        if self.kind == "flaky":
            order["flaky"] = True
        if self.kind == "large":
            order["attachment"] = random.randbytes(ATTACHED // 2).hex()
        return json.dumps(order).encode()


def checksum(payload: bytes) -> str:
    return f"{zlib.crc32(payload):08x}"


@dataclass(frozen=True)
class Plan:
    """How much is sent, how fast, and after which share of it there is trouble."""

    messages: int = 100_000
    large: int = 20
    later: int = 40
    # How long sending takes if nothing holds it up.
    seconds: float = 25.0
    workers: int = 3
    # How late the delayed orders are, and the one that is cancelled.
    later_s: float = 6.0
    cancelled_s: float = 12.0
    # When the order that cannot be handled comes; when a worker is killed, and the broker.
    poison_at: float = 0.15
    worker_killed_at: float = 0.3
    broker_killed_at: float = 0.55
    # Whether Spark is killed too, once it has archived something.
    spark_killed: bool = True

    @classmethod
    def of(cls, messages: int) -> "Plan":
        """As many orders as wanted; a short run has less of everything."""
        if messages >= 20_000:
            return cls(messages)
        return cls(
            messages,
            large=4,
            later=8,
            seconds=messages / 1000,
            later_s=3,
            cancelled_s=5,
            spark_killed=False,
        )

    @property
    def batched(self) -> int:
        return self.messages - self.large - self.later


def batched(plan: Plan) -> Iterator[list[Order]]:
    """What the till sends, burst by burst: customers take turns."""
    bursts = -(-plan.batched // BURST)
    customers = max(1, bursts // BURSTS)
    poison = int(bursts * plan.poison_at)
    left = plan.batched
    for burst in range(bursts):
        turn, customer = divmod(burst, customers)
        first = turn * BURST
        orders = [Order(f"customer-{customer:04}", first + n) for n in range(min(BURST, left))]
        if burst == poison:
            orders[len(orders) // 2] = orders[len(orders) // 2]._replace(kind="poison")
        elif burst % (FLAKY_EACH // BURST) == FLAKY_EACH // BURST // 2:
            orders[0] = orders[0]._replace(kind="flaky")
        yield orders
        left -= len(orders)


def large(plan: Plan) -> list[Order]:
    return [Order(f"bulk-{n % 4}", n // 4, "large") for n in range(plan.large)]


def later(plan: Plan) -> list[Order]:
    """The first one is cancelled."""
    kinds = ["cancelled", *["later"] * (plan.later - 1)]
    return [Order(f"later-{n:03}", 0, kind) for n, kind in enumerate(kinds)]
