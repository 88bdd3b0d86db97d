"""From the broker's way of waiting to the loop's: promises and reads become awaitables.

Work on many topics is done at ease: a few of them, and others have their turn (I10).

The broker decides at once and answers when things are durable; a handler of a request may
simply await that. This is the only place where the two meet.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Final, TypeVar

from magnetar.broker.broker import Broker
from magnetar.broker.promise import Promise
from magnetar.model import Position, TopicName
from magnetar.storage.ledger.read_plan import ReadPlan, StoredEntry

__all__ = ["at_ease", "durable", "prepare", "read_entry", "read_plan", "wait_for"]

T = TypeVar("T")

# So many topics, or subscriptions, are worked on in one event: to load one takes 0.1 ms.
AT_ONCE: Final = 20


async def at_ease(items: Iterable[T]) -> AsyncIterator[T]:
    """The same items, a few in each event."""
    for number, item in enumerate(items):
        if number > 0 and number % AT_ONCE == 0:
            await asyncio.sleep(0)
        yield item


async def prepare(broker: Broker, name: TopicName) -> None:
    """Has a topic loaded, with others' turns in between. Raises BrokerError.

    Most topics are soon loaded: those are when somebody asks for them.
    """
    loading = broker.prepare(name)
    while loading is not None and loading.step():  # noqa: ASYNC110, it does the work by itself
        await asyncio.sleep(0)


async def wait_for(promise: Promise[T]) -> T:
    """What was promised. Raises what it was broken with."""
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def keep(value: T) -> None:
        if not future.done():  # the client may have gone
            future.set_result(value)

    def fail(error: Exception) -> None:
        if not future.done():
            future.set_exception(error)

    promise.then(keep, fail)
    return await future


async def durable(broker: Broker, ticket: int | None = None) -> None:
    """Waits until a ticket, or all that was queued until now, is durable. Raises what failed."""
    promise = broker.commits.wait_for(broker.store.ticket_last if ticket is None else ticket)
    broker.host.kick()
    await wait_for(promise)


async def read_entry(broker: Broker, position: Position) -> StoredEntry | None:
    """An entry with its bytes, read without holding the loop up; None if it is not there."""
    plan = broker.store.plan_entries([position])
    await read_plan(broker, plan)
    return plan.entries[0] if plan.entries else None


async def read_plan(broker: Broker, plan: ReadPlan) -> None:
    """Reads what was planned, without holding the loop up. Raises StorageError."""
    promise: Promise[None] = Promise()

    def done(error: Exception | None) -> None:
        broker.store.finish_read(plan)
        promise.end(error)

    if plan.complete:
        done(None)
    else:
        broker.host.read(plan).when_done(done)
    await wait_for(promise)
