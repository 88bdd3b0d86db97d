"""`@worker`: makes a worker of a function.

    @magnetar.worker("orders", subscription="billing", concurrency=32)
    async def bill(order: Order) -> None: ...

    magnetar.run(bill)

A coroutine function becomes an AsyncWorker, any other one a ThreadWorker.
"""

import inspect
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any, overload

from magnetar.client.schema.schema import Schema
from magnetar.client.worker.runner.aio import AsyncWorker
from magnetar.client.worker.runner.threads import ThreadWorker
from magnetar.client.worker.runner.worker import Topic
from magnetar.client.worker.settings import GRACE_S

__all__ = ["worker"]


class _Decorator:
    """What `worker(...)` returns: it takes the function."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        self._arguments: dict[str, Any] = arguments

    @overload
    def __call__(self, function: Callable[..., Coroutine[Any, Any, Any]]) -> AsyncWorker: ...
    @overload
    def __call__(self, function: Callable[..., Any]) -> ThreadWorker: ...
    def __call__(self, function: Callable[..., Any]) -> AsyncWorker | ThreadWorker:
        if inspect.iscoroutinefunction(function):
            return AsyncWorker(function, **self._arguments)
        return ThreadWorker(function, **self._arguments)


def worker(
    topic: Topic,
    *,
    subscription: str,
    concurrency: int = 1,
    schema: Schema | None = None,
    grace_s: float = GRACE_S,
    retry_after: timedelta | None = None,
    **options: Any,
) -> _Decorator:
    """Makes a worker of the function below: it is called with each message of a subscription.

    The function gets the value of the message, decoded by `schema`, which the broker is told of,
    else as the annotation of its parameter says: bytes, str, or a class as JSON. A parameter
    annotated with Message gets the message. When it returns
    the message is acked, when it raises it is nacked, or with `retry_after` sent to the retry
    topic. `concurrency` messages are in hand at a time; those of one key stay in order on a
    Key_Shared subscription, and all of a topic on an Exclusive or Failover one.

    `options` are those of `subscribe`. Unless they say otherwise the subscription is Shared,
    begins with the earliest message, and acks that fail are sent again.
    """
    return _Decorator(
        {
            "topic": topic,
            "subscription": subscription,
            "concurrency": concurrency,
            "schema": schema,
            "grace_s": grace_s,
            "retry_after": retry_after,
            "options": options,
        }
    )
