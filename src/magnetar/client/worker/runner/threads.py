"""Workers on threads: one that receives, and `concurrency` that call the function."""

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from queue import SimpleQueue

from magnetar.client.consumer.message import Message
from magnetar.client.door.blocking import Client
from magnetar.client.door.threads.consumer import Consumer
from magnetar.client.option.backoff import Backoff
from magnetar.client.worker.health import WorkerHealth
from magnetar.client.worker.lanes import Lanes
from magnetar.client.worker.runner.thread_work import (
    ThreadOutputs,
    ThreadWork,
    handle_in_transaction,
)
from magnetar.client.worker.runner.worker import LOG, Worker, now
from magnetar.client.worker.settings import seconds
from magnetar.client.worker.state import WorkerEvent, may_pass
from magnetar.errors import AlreadyClosed, MagnetarError, Timeout, TopicTerminated

__all__ = ["ThreadWorker"]

# How often the thread that receives looks whether it was told to stop.
LOOK_S = 0.2


class ThreadWorker(Worker):
    """A plain function that is called with each message, on `concurrency` threads.

    `stop` and `health` may be called from any thread.
    """

    WORK: type[ThreadWork] = ThreadWork
    _run: "_Run | None" = None

    def run(self, client: Client) -> None:
        """Handles messages until `stop`, or until a terminated topic has no more.

        While the broker is away it tries again, each time after a longer wait. Raises the error
        that another attempt would not help. A function that is still busy when its time is
        over keeps its thread; its message comes again.
        """
        self.begin(client).work()

    @contextmanager
    def running(self, client: Client) -> Iterator[None]:
        """Runs it beside the block, and stops it when the block ends.

        If the worker fails the block goes on, `health` says so, and the error is raised at
        the end.
        """
        run = self.begin(client)
        thread = _Thread(run)
        thread.start()
        try:
            yield
        except BaseException:
            run.stop(self.settings.grace_s)
            thread.join()
            raise
        run.stop(self.settings.grace_s)
        thread.join()
        if thread.error is not None:
            raise thread.error

    def begin(self, client: Client) -> "_Run":
        """Returns a run that can be stopped from now on; its `work` is for a thread."""
        self.start()
        self._run = _Run(self, client)
        return self._run

    def stop(self, grace_s: float | None = None) -> None:
        """Tells the worker to receive no more and to end; `Worker.stop` says more."""
        if self._run is not None:
            grace = self.settings.grace_s if grace_s is None else seconds("grace_s", grace_s)
            self._run.stop(grace)

    def health(self) -> WorkerHealth:
        """Returns where the worker is and what it did so far. Any thread may ask."""
        run = self._run
        if run is None:
            return super().health()
        with run.lock:
            return super().health()

    def _connected(self) -> bool:
        run = self._run
        return run is not None and run.consumer is not None and run.consumer.is_connected()


class _Thread(threading.Thread):
    """A run on a thread of its own, and what it ended with."""

    def __init__(self, run: "_Run") -> None:
        super().__init__(name="magnetar-worker-run", daemon=True)
        self._work = run
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self._work.work()
        except BaseException as error:
            self.error = error


class _Run:
    """One run of a worker, from `run` to its end. The lock is for all that changes."""

    def __init__(self, worker: ThreadWorker, client: Client) -> None:
        self._worker = worker
        self._record = worker.record
        self._client = client
        self.lock: threading.RLock = threading.RLock()
        # Told when a message is done with, and when the time of a stop changes.
        self._changed = threading.Condition(self.lock)
        self._lanes: Lanes[Message] = Lanes()
        self._room = threading.Semaphore(worker.settings.concurrency)
        self._due: SimpleQueue[Message | None] = SimpleQueue()
        # Messages that a thread has, or that wait for one.
        self._begun: list[Message] = []
        self._stopping = threading.Event()
        self._deadline_s = 0.0
        # From now on nobody counts what functions do.
        self._gave_up = False
        self._outputs = ThreadOutputs(client, worker.output_options)
        self.consumer: Consumer | None = None

    def work(self) -> None:
        """See ThreadWorker.run."""
        threads = [
            threading.Thread(target=self._handle_all, name="magnetar-worker", daemon=True)
            for _ in range(self._worker.settings.concurrency)
        ]
        for thread in threads:
            thread.start()
        grace_s = self._worker.settings.grace_s
        try:
            self._serve_for_ever()
            self.stop(grace_s, again=False)
        except MagnetarError as error:
            LOG.error("%s ends: %s", self._worker.name, error)
            with self.lock:
                self._record.broke(now(), error)
                self._deadline_s = time.monotonic() + grace_s
            raise
        except BaseException:
            self.stop(grace_s, again=False)
            raise
        finally:
            self._finish(threads)

    def stop(self, grace_s: float, *, again: bool = True) -> None:
        with self.lock:
            if self._stopping.is_set() and not again:
                return
            self._record.move(WorkerEvent.STOP)
            self._deadline_s = time.monotonic() + grace_s
            self._stopping.set()
            self._changed.notify_all()

    def _finish(self, threads: list[threading.Thread]) -> None:
        """Waits for what is in hand, gives up the rest, and leaves."""
        try:
            with self.lock:
                while self._record.in_hand and (left_s := self._deadline_s - time.monotonic()) > 0:
                    self._changed.wait(left_s)
                self._give_up()
            for _ in threads:
                self._due.put(None)
            self._leave()
            if not self._begun:
                for thread in threads:
                    thread.join()
        finally:
            with self.lock:
                self._record.move(WorkerEvent.DRAINED)

    def _give_up(self) -> None:
        """What is in hand is not waited for any longer. With the lock."""
        self._gave_up = True
        self._worker.log_left(self._record.in_hand)
        for message in [*self._begun, *self._lanes.clear()]:
            self._record.gave_up()
            if self.consumer is not None:
                with suppress(AlreadyClosed):
                    self.consumer.negative_acknowledge(message)

    def _leave(self) -> None:
        consumer, self.consumer = self.consumer, None
        if consumer is not None:
            with suppress(AlreadyClosed):
                consumer.close()
        self._outputs.close()

    # ---- Receiving -----------------------------------------------------------

    def _serve_for_ever(self) -> None:
        """Subscribes and receives; again after errors that may pass, until it is told to stop."""
        backoff = Backoff(random.random)
        while not self._stopping.is_set():
            try:
                self._serve(backoff)
                return
            except (AlreadyClosed, TopicTerminated):
                return
            except MagnetarError as error:
                if not may_pass(error):
                    raise
                wait_ms = backoff.next_ms()
                self._worker.log_lost(error, wait_ms)
                with self.lock:
                    self._record.lost(now(), error)
            self._all_done()
            if self._stopping.is_set():
                return
            self._leave()
            if not self._stopping.wait(wait_ms / 1000):
                with self.lock:
                    self._record.move(WorkerEvent.DUE)

    def _all_done(self) -> None:
        """Waits for what is in hand, unless it is told to stop."""
        with self.lock:
            self._changed.wait_for(lambda: not self._record.in_hand or self._stopping.is_set())

    def _serve(self, backoff: Backoff) -> None:
        worker = self._worker
        if worker.transactional:
            # Where there are none this says so, before any message is taken.
            self._begin_work()._end(commit=False)
        consumer = self._client.subscribe(
            worker.topic, worker.subscription, schema=worker.call.schema, **worker.options
        )
        with self.lock:
            self.consumer = consumer
            self._record.move(WorkerEvent.SUBSCRIBED)
        backoff.reset()
        while not self._stopping.is_set():
            if self._room.acquire(timeout=LOOK_S) and not self._receive(consumer):
                self._room.release()

    def _receive(self, consumer: Consumer) -> bool:
        """Says whether a message came within a short time."""
        try:
            message = consumer.receive(timeout_millis=int(LOOK_S * 1000))
        except Timeout:
            return False
        with self.lock:
            self._record.took(now())
            if self._lanes.enter(self._worker.lane_of(message), message):
                self._begin(message)
        return True

    def _begin(self, message: Message) -> None:
        self._begun.append(message)
        self._due.put(message)

    # ---- Handling ------------------------------------------------------------

    def _handle_all(self) -> None:
        while (message := self._due.get()) is not None:
            error: Exception | None = None
            try:
                self._handle(message)
            except Exception as raised:
                error = raised
            self._done(message, error)

    def _handle(self, message: Message) -> None:
        consumer = self.consumer
        if consumer is None or self._gave_up:
            return  # it went back while it waited for a thread
        call, retry_after = self._worker.call, self._worker.retry_after
        if self._worker.transactional:
            handle_in_transaction(
                call, consumer, message, self._begin_work, retry_after, lambda: self._gave_up
            )
            return
        with consumer.processing(message, retry_after=retry_after):
            call.function(*call.arguments(message))

    def _begin_work(self) -> ThreadWork:
        client = self._client
        timeout_ms = self._worker.transaction_timeout_ms
        return ThreadWork(client._call(client._engine.begin_transaction(timeout_ms)), self._outputs)

    def _done(self, message: Message, error: Exception | None) -> None:
        self._room.release()
        with self.lock:
            self._begun.remove(message)
            if self._gave_up:
                return
            if error is None:
                self._record.handled()
            else:
                self._worker.log_failure(message, error)
                self._record.failed(now(), error)
            following = self._lanes.leave(self._worker.lane_of(message))
            if following is not None:
                self._begin(following)
            self._changed.notify_all()
