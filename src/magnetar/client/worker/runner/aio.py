"""Workers on an event loop: a task for each message in hand."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from magnetar.client.consumer.message import Message
from magnetar.client.door import aio
from magnetar.client.option.backoff import Backoff
from magnetar.client.worker.lanes import Lanes
from magnetar.client.worker.runner.aio_work import (
    AsyncOutputs,
    AsyncWork,
    handle_in_transaction,
)
from magnetar.client.worker.runner.worker import LOG, Worker, now
from magnetar.client.worker.settings import seconds
from magnetar.client.worker.state import WorkerEvent, may_pass
from magnetar.errors import AlreadyClosed, MagnetarError, TopicTerminated

__all__ = ["AsyncWorker"]


class AsyncWorker(Worker):
    """A coroutine function that is called with each message, `concurrency` at a time.

    Everything but `health` is for the loop that it runs on.
    """

    WORK: type[AsyncWork] = AsyncWork
    _run: "_Run | None" = None

    async def run(self, client: aio.Client) -> None:
        """Handles messages until `stop`, or until a terminated topic has no more.

        While the broker is away it tries again, each time after a longer wait. Raises the error
        that another attempt would not help. A cancelled `run` cancels what is in hand, which
        comes again.
        """
        self.start()
        self._run = _Run(self, client)
        try:
            await self._run.work()
        finally:
            self._run = None

    @asynccontextmanager
    async def running(self, client: aio.Client) -> AsyncIterator[None]:
        """Runs it beside the block, and stops it when the block ends: for a lifespan.

        If the worker fails the block goes on, `health` says so, and the error is raised at
        the end.
        """
        task = asyncio.get_running_loop().create_task(self.run(client), name=self.name)
        await asyncio.sleep(0)  # it has begun, so that it can be stopped
        try:
            yield
        except BaseException:
            self.stop()
            await asyncio.gather(task, return_exceptions=True)
            raise
        self.stop()
        await task

    def stop(self, grace_s: float | None = None) -> None:
        """Tells the worker to receive no more and to end; `Worker.stop` says more."""
        if self._run is not None:
            grace = self.settings.grace_s if grace_s is None else seconds("grace_s", grace_s)
            self._run.stop(grace)

    def _connected(self) -> bool:
        run = self._run
        return run is not None and run.consumer is not None and run.consumer.is_connected()


class _Run:
    """One run of a worker, from `run` to its end."""

    def __init__(self, worker: AsyncWorker, client: aio.Client) -> None:
        self._worker = worker
        self._record = worker.record
        self._client = client
        self._lanes: Lanes[Message] = Lanes()
        self._room = asyncio.Semaphore(worker.settings.concurrency)
        self._tasks: set[asyncio.Task[None]] = set()
        self._session: asyncio.Task[None] | None = None
        self._stopping = False
        self._timer: asyncio.TimerHandle | None = None
        self._gave_up = False
        self._outputs = AsyncOutputs(client, worker.output_options)
        self.consumer: aio.Consumer | None = None

    async def work(self) -> None:
        """See AsyncWorker.run."""
        before = _cancelling()
        self._session = asyncio.get_running_loop().create_task(self._serve_for_ever())
        try:
            await self._session
        except asyncio.CancelledError:
            # A stop cancels the session; somebody else may have cancelled the run besides.
            if not self._stopping or _cancelling() > before:
                self._end(0)
                await self._finish()
                raise
        except Exception as error:
            LOG.error("%s ends: %s", self._worker.name, error)
            self._record.broke(now(), error)
            self._set_timer(self._worker.settings.grace_s)
            await self._finish()
            raise
        else:
            self._end(self._worker.settings.grace_s)
        await self._finish()

    def stop(self, grace_s: float) -> None:
        if not self._stopping:
            assert self._session is not None, "a run is stopped after it has begun"
            self._session.cancel()
        self._end(grace_s)

    def _end(self, grace_s: float) -> None:
        self._stopping = True
        self._record.move(WorkerEvent.STOP)
        self._set_timer(grace_s)

    def _set_timer(self, grace_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(grace_s, self._give_up)

    def _give_up(self) -> None:
        """What is in hand is not waited for any longer."""
        self._gave_up = True
        self._worker.log_left(self._record.in_hand)
        for message in self._lanes.clear():
            self._record.gave_up()
            if self.consumer is not None:
                self.consumer.negative_acknowledge(message)
        for task in self._tasks:
            task.cancel()

    async def _finish(self) -> None:
        """Waits for what is in hand, until the timer ends that, and leaves."""
        try:
            await self._all_done()
        except asyncio.CancelledError:
            self._give_up()
            await self._all_done()
            raise
        finally:
            assert self._timer is not None
            self._timer.cancel()
            await self._leave()
            self._record.move(WorkerEvent.DRAINED)

    async def _all_done(self) -> None:
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _leave(self) -> None:
        consumer, self.consumer = self.consumer, None
        if consumer is not None:
            await consumer.close()
        await self._outputs.close()

    # ---- Receiving -----------------------------------------------------------

    async def _serve_for_ever(self) -> None:
        """Subscribes and receives; again after errors that may pass, until it is cancelled."""
        backoff = Backoff(random.random)
        while True:
            try:
                await self._serve(backoff)
            except (AlreadyClosed, TopicTerminated):
                return
            except MagnetarError as error:
                if not may_pass(error):
                    raise
                wait_ms = backoff.next_ms()
                self._worker.log_lost(error, wait_ms)
                self._record.lost(now(), error)
            await self._all_done()
            await self._leave()
            await asyncio.sleep(wait_ms / 1000)
            self._record.move(WorkerEvent.DUE)

    async def _serve(self, backoff: Backoff) -> None:
        worker = self._worker
        if worker.transactional:
            # Where there are none this says so, before any message is taken.
            await (await self._begin_work())._transaction.abort()
        consumer = await self._client.subscribe(
            worker.topic, worker.subscription, schema=worker.call.schema, **worker.options
        )
        self.consumer = consumer
        self._record.move(WorkerEvent.SUBSCRIBED)
        backoff.reset()
        while True:
            await self._room.acquire()
            try:
                message = await consumer.receive()
            except BaseException:
                self._room.release()
                raise
            self._take(consumer, message)

    # ---- Handling ------------------------------------------------------------

    def _take(self, consumer: aio.Consumer, message: Message) -> None:
        self._record.took(now())
        if self._lanes.enter(self._worker.lane_of(message), message):
            self._begin(consumer, message)

    def _begin(self, consumer: aio.Consumer, message: Message) -> None:
        task = asyncio.get_running_loop().create_task(self._handle(consumer, message))
        self._tasks.add(task)
        task.add_done_callback(partial(self._done, consumer, message))

    async def _handle(self, consumer: aio.Consumer, message: Message) -> None:
        call, retry_after = self._worker.call, self._worker.retry_after
        if self._worker.transactional:
            await handle_in_transaction(call, consumer, message, self._begin_work, retry_after)
            return
        async with consumer.processing(message, retry_after=retry_after):
            await call.function(*call.arguments(message))

    async def _begin_work(self) -> AsyncWork:
        engine = self._client._engine
        begun = await engine.begin_transaction(self._worker.transaction_timeout_ms)
        return AsyncWork(begun, self._outputs)

    def _done(self, consumer: aio.Consumer, message: Message, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        self._room.release()
        self._count(message, task)
        following = self._lanes.leave(self._worker.lane_of(message))
        if following is not None:
            self._begin(consumer, following)

    def _count(self, message: Message, task: "asyncio.Task[None]") -> None:
        if task.cancelled():
            if self._gave_up:
                self._record.gave_up()
                return
            error: BaseException | None = asyncio.CancelledError("the function was cancelled")
        else:
            error = task.exception()
        if error is None:
            self._record.handled()
        else:
            self._worker.log_failure(message, error)
            self._record.failed(now(), error)


def _cancelling() -> int:
    """Returns how often the task that runs now was cancelled."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()
