"""A consumer that holds messages, where most tests of acks begin, and what is left in the end."""

from collections.abc import Iterable

from support.wire_client import Delivery, Shared, WireConsumer
from support.world import World


def start(
    world: World, *entries: Iterable[str], type: int = Shared
) -> tuple[WireConsumer, list[Delivery]]:
    """A consumer of `t` that holds these entries; those of several payloads are batches."""
    client = world.connect()
    consumer = client.subscribe("t", "sub", type)
    producer = client.producer("t")
    for payloads in entries:
        producer.send(*payloads)
    consumer.flow(1000)
    return consumer, consumer.deliveries()


def again(world: World, type: int = Shared) -> list[str]:
    """What a new consumer gets."""
    return world.connect().subscribe("t", "sub", type).receive()
