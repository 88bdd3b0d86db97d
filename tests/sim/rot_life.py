"""Several lives of one store on a disk that rots, lacks things for a while and is told the time.

Between two lives a file of a copy of the store is damaged, and opened as it is. Whatever was
receipted is then there as it was, or somebody is told: the store does not open, it says that its
end was cut or may be missing, or whoever reads the entry or the acks is told. That is
done to several copies, and the next life begins on the disk as it was.

In each life descriptors and memory are missing now and then, the disk is full in the middle of a
write, and the wall clock jumps both ways. When that is over, and without a restart, the store takes
publishes again, and syncs in its interval: nothing is left of trouble that has passed.
"""

import asyncio
from functools import partial
from random import Random

from sim.store_life import Oracle, Shell

from magnetar.errors import MagnetarError
from magnetar.model import Position
from magnetar.storage import Store, StoreOptions, open_store
from magnetar.testing import DiskFaults, SimDisk, SimLoop

OPTIONS = StoreOptions(
    fsync="interval",
    segment_bytes=16 * 1024,
    group_bytes_max=4 * 1024,
    ledger_entries_max=200,
    cache_bytes=0,
    watermark_bytes=0,
    reserve_segments=2,
)
LIVES = 2
# How many copies of the disk are damaged after each.
ROTS = 8
FAULTS = DiskFaults(stall_share=0.01, stall_s_max=1.0, full_share=0.004, short_share=0.01)
JUMPS_MS = (1_000, 60_000, 3_600_000)
# How long the store may take to be well again: it waits 10 s for descriptors, and looks for space.
PEACE_S = 15.0
ROT = ("flip", "flip", "flip", "zero", "cut", "delete")


class RotOracle(Oracle):
    """Knows what was receipted, and judges what a store says on a disk that is damaged."""

    def __init__(self) -> None:
        super().__init__()
        self.outcomes: list[str] = []
        self.rotten: list[str] = []

    def judge_rotten(self, disk: SimDisk, loop: SimLoop) -> None:
        """Opens a damaged store: everything is there, or somebody is told."""
        try:
            store = open_store(disk, loop.clock_ms, OPTIONS, ticks_ms=loop.steady_ms)
        except MagnetarError as error:
            assert str(error)
            self.outcomes.append("refused")
            return
        told = bool(store.cuts or store.doubts)
        found, damaged = self._read(store)
        for key in self.receipted:
            if key in self.trimmed or key in damaged:
                continue
            assert told or key in found, f"{key} is gone, and nobody was told: {self.rotten[-1]}"
        acks, unread = self._acks(store)
        for ack in self.acks_receipted:
            there = told or ack in acks or ack[0] in unread
            assert there, f"ack {ack} is gone, and nobody was told: {self.rotten[-1]}"
        self.outcomes.append("told" if told or damaged or unread else "whole")

    def _read(self, store: Store) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
        """The entries that are there as they were published, and those that are damaged."""
        found: set[tuple[int, int]] = set()
        damaged: set[tuple[int, int]] = set()
        for topic_id in store.topics():
            for ledger in store.ledgers(topic_id):
                for entry_id in range(ledger.entries):
                    key = (int(ledger.id), entry_id)
                    try:
                        self._read_one(store, topic_id, key)
                        found.add(key)
                    except MagnetarError:
                        damaged.add(key)
        return found, damaged

    def _read_one(self, store: Store, topic_id: int, key: tuple[int, int]) -> None:
        (entry,) = store.read(topic_id, Position(*key), entries_max=1, bytes_max=1 << 20)
        assert entry.data == self.entries[key], f"{key} is not what was published"
        assert entry.batch_size == 1, f"{key} has another size: {self.rotten[-1]}"

    def _acks(self, store: Store) -> tuple[set[str], set[str]]:
        """The acks that are there, and the topics whose cursor cannot be read."""
        acks: set[str] = set()
        unread: set[str] = set()
        for topic_id, name in store.topics().items():
            for cursor_id in store.cursor_ids(topic_id):
                try:
                    image = store.cursor_image(cursor_id)
                except MagnetarError:
                    unread.add(name)
                    continue
                acks |= set(image.snapshot.decode().split())
                acks |= {delta.decode() for delta in image.deltas}
        return acks, unread


def rot(disk: SimDisk, random: Random) -> str:
    """Damages one file; says which and how."""
    kinds: dict[str, list[str]] = {}
    for path in sorted(disk.files):
        kinds.setdefault(path.rpartition(".")[2], []).append(path)
    kinds.pop("spare", None)
    path = random.choice(kinds[random.choice(sorted(kinds))])
    content = disk.files[path]
    used = len(bytes(content).rstrip(b"\0"))
    way = random.choice(ROT)
    at = random.randrange(max(1, used))
    if way == "delete" or not content:
        del disk.files[path]
    elif way == "cut":
        del content[at:]
    elif way == "zero":
        content[at : at + 512] = bytes(len(content[at : at + 512]))
    else:
        disk.flip(path, at, random.randrange(8))
    return f"{way} {path} at {at} of {used}"


async def trouble(loop: SimLoop, random: Random) -> None:
    """A while, in which the wall clock jumps."""
    for _ in range(random.randrange(1, 5)):
        await asyncio.sleep(random.random() * 0.5)
        loop.jump_clock(int((random.random() * 2 - 1) * random.choice(JUMPS_MS)))


async def peace(shell: "RestingShell", disk: SimDisk) -> None:
    """Trouble is over, and nothing is left of it."""
    disk.faults = DiskFaults()
    disk.fill(0)
    disk.shorten(0)
    shell.resting = True
    await asyncio.sleep(PEACE_S)
    assert not shell.store.read_only_reason, shell.store.read_only_reason
    shell.resting = False
    before = len(shell.oracle.receipted)
    await asyncio.sleep(0.3)
    assert len(shell.oracle.receipted) > before, "trouble is over, and nothing is taken"
    shell.resting = True
    journal = shell.store.log.journal
    end = journal.end
    await asyncio.sleep(3 * OPTIONS.fsync_interval_ms / 1000)
    assert journal.synced >= end, "what was receipted waits for its sync for ever"


class RestingShell(Shell):
    """One that publishes and acks until it is told to rest."""

    def __init__(self, loop: SimLoop, store: Store, oracle: Oracle, random: Random) -> None:
        super().__init__(loop, store, oracle, random)
        self.resting = False

    async def live(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._kick())
            group.create_task(super().live())

    async def _kick(self) -> None:
        """As a broker does: what failed is tried again when the writer is asked to work."""
        while True:
            await asyncio.sleep(0.2)
            self.writer.kick()

    async def _publish_one(self, topic: str, size: int) -> None:
        if not self.resting:
            await super()._publish_one(topic, size)

    async def _ack(self, topic: str) -> None:
        while True:
            if self.resting:
                await asyncio.sleep(0.1)
            else:
                await self._ack_one(topic)


async def live(loop: SimLoop, oracle: RotOracle, disk: SimDisk) -> None:
    random = loop.random_for("rot")
    for _ in range(LIVES):
        disk.faults = DiskFaults()
        store = open_store(disk, loop.clock_ms, OPTIONS, ticks_ms=loop.steady_ms)
        oracle.judge(store)
        process = loop.process("store")
        shell = RestingShell(loop, store, oracle, random)
        disk.faults = FAULTS
        task = process.start(shell.live())
        await trouble(loop, random)
        try:
            await peace(shell, disk)
        finally:
            if task.done():
                task.result()
        loop.kill(process, silent=False)
        disk = disk.crash(random, power_loss=False)
        for _ in range(ROTS):
            damaged = disk.copied()
            oracle.rotten.append(rot(damaged, random))
            loop.note("rot", oracle.rotten[-1])
            oracle.judge_rotten(damaged, loop)


def run_seed(seed: int) -> tuple[SimLoop, RotOracle]:
    """One store's lives; raises what is wrong with them."""
    oracle = RotOracle()
    with SimLoop(seed) as loop:
        disk = SimDisk(loop.random_for("disk"), note=partial(loop.note, "disk"))
        loop.run(live(loop, oracle, disk))
    return loop, oracle


def count_facts(seed: int) -> int:
    """How much was receipted in the lives of a seed."""
    return len(run_seed(seed)[1].receipted)
