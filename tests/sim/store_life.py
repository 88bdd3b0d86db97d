"""Several lives of one store under a seed: work, a crash at any moment, recovery, judgement.

Every life is a process with the real store on a `SimDisk`, a `SimWriter` and tasks that
publish, ack, read and maintain. The oracle stands outside and knows what was ever given a
position and what was receipted; what it demands of the next life is invariants I1, I2, I9.
"""

import asyncio
from functools import partial
from random import Random

from magnetar.errors import StorageError, StorageFullError
from magnetar.model import Position
from magnetar.storage import (
    CorruptionError,
    Outcome,
    Retention,
    Store,
    StoreOptions,
    check,
    open_store,
)
from magnetar.testing import DiskFaults, SimDisk, SimLoop, SimProcess, SimWriter

OPTIONS = StoreOptions(
    segment_bytes=16 * 1024,
    group_bytes_max=4 * 1024,
    ledger_entries_max=12,
    cache_bytes=4 * 1024,
    watermark_bytes=0,
    reserve_segments=2,
)
START = Position(0, 0)
LIVES = 4
TOPICS = ("a", "b", "c")
FAULTS = DiskFaults(stall_share=0.01, stall_s_max=3.0)
HARD_FAULTS = DiskFaults(
    stall_share=0.02, stall_s_max=3.0, full_share=0.004, sync_error_share=0.002
)


class Oracle:
    """What must be there, and what may be."""

    def __init__(self) -> None:
        self.entries: dict[tuple[int, int], bytes] = {}
        self.receipted: dict[tuple[int, int], None] = {}
        self.trimmed: dict[tuple[int, int], None] = {}
        self.acks_queued: dict[str, None] = {}
        self.acks_receipted: dict[str, None] = {}
        self.crashes: list[str] = []
        self.refusals = 0

    def judge(self, store: Store) -> None:
        """Compares a store that was just opened with what is known."""
        found: dict[tuple[int, int], bytes] = {}
        acks: set[str] = set()
        for topic_id in store.topics():
            for entry in store.read(topic_id, START, entries_max=10**6, bytes_max=1 << 40):
                assert entry.data is not None
                found[(int(entry.ledger_id), int(entry.entry_id))] = entry.data
            for cursor_id in store.cursor_ids(topic_id):
                image = store.cursor_image(cursor_id)
                acks |= set(image.snapshot.decode().split())
                acks |= {delta.decode() for delta in image.deltas}
        for key, data in found.items():
            assert self.entries[key] == data, f"{key} is not what was published"
        lost = [k for k in self.receipted if k not in found and k not in self.trimmed]
        assert not lost, f"receipted and lost: {lost}"
        forgotten = [ack for ack in self.acks_receipted if ack not in acks]
        assert not forgotten, f"acks receipted and forgotten: {forgotten}"
        assert acks <= set(self.acks_queued)


class Shell:
    """A store with its writer, as a broker would have them; lives in one process."""

    def __init__(self, loop: SimLoop, store: Store, oracle: Oracle, random: Random) -> None:
        self.loop = loop
        self.store = store
        self.oracle = oracle
        self.random = random
        self.writer = SimWriter(store, loop.call_soon_threadsafe, self._outcome, loop=loop)
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self.topics: dict[str, int] = {}
        self.cursors: dict[str, int] = {}

    async def live(self) -> None:
        await self._prepare()
        async with asyncio.TaskGroup() as group:
            for topic in TOPICS:
                group.create_task(self._publish(topic))
                group.create_task(self._ack(topic))
                group.create_task(self._read(topic))
            group.create_task(self._maintain())

    async def _prepare(self) -> None:
        self.topics = {name: id for id, name in self.store.topics().items()}
        for name in TOPICS:
            while name not in self.topics:
                topic_id = self.store.create_topic(name)
                if await self._durable():
                    self.topics[name] = topic_id
            ids = self.store.cursor_ids(self.topics[name])
            if ids:
                self.cursors[name] = ids[0]
            while name not in self.cursors:
                cursor_id = self.store.create_cursor(self.topics[name], "sub", b"")
                if await self._durable():
                    self.cursors[name] = cursor_id

    async def _publish(self, topic: str) -> None:
        random = self.random
        while True:
            await asyncio.sleep(random.random() * 0.02)
            for _ in range(random.randrange(1, 4)):
                try:
                    await self._publish_one(topic, random.randrange(20, 1200))
                except StorageFullError:
                    self.oracle.refusals += 1

    async def _publish_one(self, topic: str, size: int) -> None:
        oracle = self.oracle
        data = f"{topic} {len(oracle.entries)} ".encode().ljust(size, b".")
        position = self.store.append(
            self.topics[topic], data, batch_size=1, publish_time_ms=self.loop.clock_ms()
        )
        key = (int(position.ledger_id), int(position.entry_id))
        assert key not in oracle.entries, f"{key} names two messages"
        oracle.entries[key] = data
        if await self._durable():
            oracle.receipted[key] = None
            self.loop.note("receipt", f"{key[0]}:{key[1]}")

    async def _ack(self, topic: str) -> None:
        while True:
            await self._ack_one(topic)

    async def _ack_one(self, topic: str) -> None:
        await asyncio.sleep(self.random.random() * 0.02)
        ack = f"{topic}{len(self.oracle.acks_queued)}"
        self.oracle.acks_queued[ack] = None
        self.store.append_delta(self.cursors[topic], 0, ack.encode())
        if await self._durable():
            self.oracle.acks_receipted[ack] = None
            self.loop.note("ack", ack)

    async def _read(self, topic: str) -> None:
        """Reads from somewhere, in a thread; what comes back is what was published there."""
        store = self.store
        while True:
            await asyncio.sleep(self.random.random() * 0.1)
            ledgers = store.ledgers(self.topics[topic])
            if not ledgers:
                continue
            first = Position(self.random.choice(ledgers).id, 0)
            plan = store.plan_read(self.topics[topic], first, entries_max=8, bytes_max=4096)
            try:
                await self.loop.run_in_executor(None, plan.run, store.log.disk)
            finally:
                store.finish_read(plan)
            for entry in plan.entries:
                key = (int(entry.ledger_id), int(entry.entry_id))
                assert entry.data == self.oracle.entries[key]

    async def _maintain(self) -> None:
        while True:
            await asyncio.sleep(0.05)
            topic = self.random.choice(TOPICS)
            sealed = [info for info in self.store.ledgers(self.topics[topic]) if info.sealed]
            if len(sealed) > 3:
                last = sealed[-3]
                mark_delete = Position(last.id, last.entries - 1)
                gone = self.store.trim(self.topics[topic], mark_delete, Retention())
                for key in self.oracle.entries:
                    if key[0] in gone:
                        self.oracle.trimmed[key] = None
            self.store.maintain()
            self.writer.kick()

    async def _durable(self) -> bool:
        """Waits for the last ticket; False if its group failed."""
        ticket = self.store.ticket_last
        done = self._waiting.setdefault(ticket, self.loop.create_future())
        self.writer.kick()
        try:
            await asyncio.shield(done)
        except StorageError:
            return False
        return True

    def _outcome(self, outcome: Outcome) -> None:
        self.loop.note("outcome", f"{outcome.first}-{outcome.end} {outcome.error or 'durable'}")
        for ticket in range(outcome.first, outcome.end):
            done = self._waiting.pop(ticket, None)
            if done is None or done.done():
                continue
            if outcome.error is None:
                done.set_result(None)
            else:
                done.set_exception(outcome.error)


async def live_and_die(loop: SimLoop, oracle: Oracle, disk: SimDisk, faults: DiskFaults) -> SimDisk:
    """Lives of a store on a disk; returns what is left of the disk."""
    random = loop.random_for("life")
    for _ in range(LIVES):
        disk.faults = DiskFaults()
        store = open_store(disk, loop.clock_ms, OPTIONS)
        oracle.judge(store)
        disk.faults = faults
        process = loop.process("store")
        task = process.start(Shell(loop, store, oracle, random).live())
        await _crash_time(loop, process, disk, random)
        power_loss = random.random() < 0.7
        oracle.crashes.append("power" if power_loss else "kill")
        if task.done() and not task.cancelled() and task.exception() is not None:
            _forgive(task)
        loop.kill(process, silent=power_loss)
        disk = disk.crash(random, power_loss=power_loss)
        violations = check(disk)
        assert violations == [], violations
    return disk


async def _crash_time(loop: SimLoop, process: SimProcess, disk: SimDisk, random: Random) -> None:
    """Waits for a moment between two callbacks, or inside an operation of the disk."""
    if random.random() < 0.5:
        await asyncio.sleep(random.random())
        return
    gone = loop.create_future()

    def lost() -> None:
        loop.kill(process, silent=True)
        gone.set_result(None)

    disk.on_power_lost = lost
    disk.lose_power_after(random.randrange(1, 300))
    await asyncio.wait([gone], timeout=10)
    disk.on_power_lost = None


def _forgive(task: "asyncio.Task[None]") -> None:
    """A store that met a failed sync is read-only and says so; anything else is a bug."""
    error = task.exception()
    assert isinstance(error, Exception)
    _, rest = ExceptionGroup("", [error]).split(_is_refusal)
    if rest is not None:
        raise rest


def _is_refusal(error: Exception) -> bool:
    return isinstance(error, StorageError) and not isinstance(error, CorruptionError)


def run_seed(
    seed: int, faults: DiskFaults = FAULTS, disk_class: type[SimDisk] = SimDisk
) -> tuple[SimLoop, Oracle]:
    oracle = Oracle()
    with SimLoop(seed) as loop:

        async def main() -> None:
            disk = disk_class(loop.random_for("disk"), note=partial(loop.note, "disk"))
            disk = await live_and_die(loop, oracle, disk, faults)
            disk.faults = DiskFaults()
            oracle.judge(open_store(disk, loop.clock_ms, OPTIONS))

        loop.run(main())
    return loop, oracle
