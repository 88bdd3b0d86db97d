"""The whole broker in one thread, without sockets or clocks.

    world = World()
    client = world.connect()
    producer = client.producer("topic")
    consumer = client.subscribe("topic", "sub", Shared)
    producer.send("a")
    consumer.flow(10)
    assert consumer.payloads() == ["a"]

What a client says is dealt with at once, and so is all that follows: `World.settle` runs
callbacks, reads and writes until nothing is left to do. Time stands still until
`advance` moves it. A test that wants to look in between holds something back:
`hold_disk` lets nothing become durable, `hold_reads` lets no entry come from the disk.

`restart` stops and starts the broker in order, `crash` as kill -9 would: the next one
begins with what the disk has. Clients of before are gone; `connect` again.
"""

import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from heapq import heappop, heappush
from sqlite3 import ProgrammingError
from typing import Any, Final

from magnetar.broker.auth.roles import Authentication
from magnetar.broker.broker import Broker
from magnetar.broker.host import Host, Timer
from magnetar.broker.policy.policy import Policies
from magnetar.broker.promise import Promise
from magnetar.broker.setting.setting import MIB
from magnetar.broker.setting.settings import SETTINGS, BrokerSettings
from magnetar.broker.topic.subscription import Subscription
from magnetar.broker.topic.topic import Topic
from magnetar.errors import DiskError, DiskFullError, StorageError
from magnetar.model import TopicName
from magnetar.protocol import PROTOCOL_VERSION
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.storage.catalog.catalog import Catalog
from magnetar.storage.disk.memory_disk import MemoryDisk
from magnetar.storage.ledger.read_plan import ReadPlan
from magnetar.storage.store import Store, open_store
from support.wire_client import WireClient

START_MS: Final = 1_800_000_000_000
# Work that does not end after so many steps never will.
STEPS_MAX: Final = 200_000

# What disks fail with: one that can be mended, and one that makes the store read-only.
FULL: Final = DiskFullError("write to", "journal", "No space left on device")
BROKEN: Final = DiskError("write to", "journal", "Input/output error")

# After each of these a topic is loaded anew.
ENDS: Final = ("unload", "restart", "crash")

# Catalogs that another thread could not close; the next world does.
ABANDONED: Final[list[Catalog]] = []


class ManualTimer(Timer):
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class ManualHost(Host):
    """Time, timers and reads in the hands of a test."""

    def __init__(self, disk: MemoryDisk, now_ms: int) -> None:
        # What timers go by, and how far the time of day is off.
        self.now = now_ms
        self.clock_offset = 0
        self.soon: deque[Callable[[], None]] = deque()
        self.timers: list[tuple[int, int, ManualTimer]] = []
        self.reads: deque[Callable[[], None]] = deque()
        self.reads_held = False
        self.read_error: Exception | None = None
        self.kicked = False
        self.warnings: list[str] = []
        # Errors that nobody foresaw, if the test expects some.
        self.faults: list[tuple[str, Exception]] | None = None
        self._disk = disk
        self._timers_made = 0

    def now_ms(self) -> int:
        return self.now + self.clock_offset

    def ticks_ms(self) -> int:
        return self.now

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        timer = ManualTimer(callback)
        self._timers_made += 1
        heappush(self.timers, (self.now + delay_ms, self._timers_made, timer))
        return timer

    def read(self, plan: ReadPlan) -> Promise[None]:
        promise: Promise[None] = Promise()

        def run() -> None:
            error: Exception | None = self.read_error
            if error is None:
                try:
                    plan.run(self._disk)
                except StorageError as failed:
                    error = failed
            promise.end(error)

        self.reads.append(run)
        return promise

    def run_aside(self, job: Callable[[], None]) -> Promise[None]:
        promise: Promise[None] = Promise()

        def run() -> None:
            try:
                job()
            except Exception as error:
                promise.fail(error)
            else:
                promise.keep(None)

        self.reads.append(run)
        return promise

    def kick(self) -> None:
        if not self.kicked:
            self.kicked_us = self.ticks_us()
        self.kicked = True

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def fault(self, text: str, error: Exception) -> None:
        if self.faults is None:
            raise error
        self.faults.append((text, error))

    def due(self) -> Callable[[], None] | None:
        """A timer whose time has come."""
        while self.timers and self.timers[0][0] <= self.now:
            timer = heappop(self.timers)[2]
            if timer.callback is not None:
                return timer.callback
        return None


def never(error: Exception) -> None:
    """For promises that must not be broken."""
    raise error


class World:
    """A broker on a disk in memory, with its clients."""

    broker: Broker
    host: ManualHost
    store: Store

    def __init__(
        self,
        *,
        authentication: Authentication | None = None,
        now_ms: int = START_MS,
        salt: int | None = None,
        **settings: Any,
    ) -> None:
        self.authentication = authentication
        self.settings = BrokerSettings(
            **{"segment_bytes": MIB, "watermark_bytes": 0, "inactive_topic_ms": 10**9} | settings
        )
        while ABANDONED:
            ABANDONED.pop().close()
        self.disk = MemoryDisk(salt=salt)
        self.catalog = Catalog()
        weakref.finalize(self, close_catalog, self.catalog)
        self.clients: list[WireClient] = []
        self.warnings: list[str] = []
        self._now = now_ms
        self._disk_held = False
        self._disk_error: StorageError | None = None
        self._begin()

    def _begin(self) -> None:
        self.host = ManualHost(self.disk, self._now)
        self.store = open_store(
            self.disk,
            self.host.now_ms,
            self.settings.store_options(),
            ticks_ms=self.host.ticks_ms,
        )
        self.broker = Broker(
            self.host, self.store, self.catalog, self.settings, self.authentication
        )
        self.broker.start()
        self.settle()

    def close(self) -> None:
        self.catalog.close()

    def connect(
        self,
        *,
        version: int = PROTOCOL_VERSION,
        greet: bool = True,
        certificate_role: str = "",
        address: str = "",
        **fields: Any,
    ) -> WireClient:
        """A new connection; one that is not greeted has not said CONNECT yet."""
        client = WireClient(self, len(self.clients) + 1, certificate_role, address)
        self.clients.append(client)
        if greet:
            client.connected = client.request(
                pb.CommandConnect(protocol_version=version, **{"client_version": "test", **fields})
            )
            assert isinstance(client.connected, pb.CommandConnected)
        return client

    # ---- Time and work -------------------------------------------------------

    def settle(self) -> None:
        """Does everything that there is to do now."""
        for _ in range(STEPS_MAX):
            if not self._step():
                return
        raise AssertionError("the broker does not come to rest")

    def _step(self) -> bool:
        host = self.host
        if host.soon:
            host.soon.popleft()()
        elif (callback := host.due()) is not None:
            callback()
        elif host.reads and not host.reads_held:
            host.reads.popleft()()
        elif not (host.kicked and not self._disk_held and self._write()):
            return sum([client.collect() for client in self.clients]) > 0
        return True

    def _write(self) -> bool:
        """Runs a job of each lane; False if there was none."""
        store = self.store
        job = store.next_write()
        if job is not None:
            error: Exception | None = self._disk_error or attempt(job.run, self.disk)
            outcome = store.finish_write(job, error)
            if outcome is not None:
                self.broker.take_outcome(outcome)
        chore = store.next_chore()
        if chore is not None:
            outcome = store.finish_chore(chore, attempt(chore.run, self.disk))
            if outcome is not None:
                self.broker.take_outcome(outcome)
        if job is None and chore is None:
            self.host.kicked = False
        return job is not None or chore is not None

    def advance(self, ms: int) -> None:
        """Lets time pass; what falls due on the way is done at its time."""
        end = self.host.now + ms
        self.settle()
        while self.host.timers and self.host.timers[0][0] <= end:
            self.host.now = max(self.host.timers[0][0], self.host.now)
            self.settle()
        self.host.now = end
        self.settle()

    def jump_clock(self, ms: int) -> None:
        """Somebody sets the time of day, forward or back."""
        self.host.clock_offset += ms
        self.settle()

    def hold_disk(self) -> None:
        """Nothing becomes durable from here on."""
        self._disk_held = True

    def release_disk(self) -> None:
        self._disk_held = False
        self.settle()

    def write_once(self) -> None:
        """One group becomes durable, though the disk is held."""
        self._write()
        self.settle()

    def fail_disk(self, error: StorageError | None) -> None:
        """Writes fail with this, until told otherwise; what is held back fails now."""
        self._disk_error = error
        self._disk_held = False
        self.settle()

    def hold_reads(self) -> None:
        self.host.reads_held = True

    def read_once(self) -> None:
        """One read ends, though reads are held."""
        self.host.reads.popleft()()
        self.settle()

    def release_reads(self) -> None:
        self.host.reads_held = False
        self.settle()

    @contextmanager
    def read_only_catalog(self) -> Iterator[None]:
        """Meanwhile the catalog takes nothing."""
        database = self.catalog._database
        database.execute("PRAGMA query_only = 1")
        try:
            yield
        finally:
            database.execute("PRAGMA query_only = 0")

    # ---- Ends ----------------------------------------------------------------

    def restart(self, **settings: Any) -> None:
        """Stops in order and starts again."""
        self.release_disk()
        self.broker.stop()
        self.settle()
        for client in self.clients:
            client.session.shut()
        self.settle()
        self.store.close()
        self._again(settings)

    def crash(self, **settings: Any) -> None:
        """Ends at once; what was not written is lost."""
        self._again(settings)

    def end(self, how: str) -> None:
        """One of `ENDS`, for a broker or for its topic `t`."""
        if how == "unload":
            self.unload("t")
        elif how == "restart":
            self.restart()
        else:
            self.crash()

    def _again(self, settings: dict[str, Any]) -> None:
        if settings:
            known = {name: self.settings.value_of(name) for name in SETTINGS}
            self.settings = BrokerSettings(**known | settings)
        self.warnings += self.host.warnings
        self._now = self.host.now + 1
        self._disk_held = False
        self._disk_error = None
        self.disk.close()
        self.clients = []
        self._begin()

    # ---- The operator's side -------------------------------------------------

    def topic(self, name: str) -> Topic:
        return self.broker.find(TopicName.parse(name))

    def subscription(self, topic: str, name: str) -> Subscription:
        return self.topic(topic).subscriptions[name]

    def unload(self, topic: str) -> None:
        self.done(self.broker.unload(TopicName.parse(topic)))

    def delete(self, topic: str, *, force: bool = False) -> None:
        name = TopicName.parse(topic)
        self.done(self.broker.delete_topic(name, force=force, delete_schema=True))

    def trim(self, topic: str) -> None:
        """Seals the last ledger, as time would, and deletes those that nobody needs."""
        found = self.topic(topic)
        self.store.seal_topic(found.id)
        self.host.kick()
        self.settle()
        found.storage.trim()
        self.settle()

    def done(self, promise: Promise[None]) -> None:
        """The promise is kept by now."""
        self.settle()
        assert promise.done
        if promise.error is not None:
            raise promise.error

    def set_policy(self, name: str, body: object, *, topic: str = "") -> None:
        """A policy of a topic, or of the namespace that all tests use."""
        directory = self.broker.directory
        if topic:
            parsed = TopicName.parse(topic)
            policies = Policies.from_json(directory.topic_policies(parsed).to_json())
            policies.set_json(name, body)
            directory.put_topic_policies(parsed, policies)
        else:
            policies = directory.namespaces["public/default"]
            policies.set_json(name, body)
            directory.put_namespace("public/default", policies)
        self.broker.policies_changed("public/default")
        self.settle()


def close_catalog(catalog: Catalog) -> None:
    """Garbage is collected by whichever thread is at it, and sqlite wants the one that opened."""
    try:
        catalog.close()
    except ProgrammingError:
        ABANDONED.append(catalog)


def attempt(run: Callable[[MemoryDisk], None], disk: MemoryDisk) -> StorageError | None:
    try:
        run(disk)
    except StorageError as error:
        return error
    return None
