"""The real store under simulated crashes: everything receipted is there afterwards."""

import asyncio
from functools import partial

import pytest
from sim.lying_disk import is_found
from sim.store_life import HARD_FAULTS, OPTIONS, START, run_seed

from magnetar.storage import Outcome, open_store
from magnetar.testing import SimDisk, SimLoop, SimWriter


@pytest.mark.parametrize("seed", range(20))
def test_everything_receipted_survives_every_crash(seed: int) -> None:
    _, oracle = run_seed(seed)
    assert len(oracle.receipted) > 20


@pytest.mark.parametrize("seed", range(20))
def test_everything_receipted_survives_full_and_failing_disks_too(seed: int) -> None:
    run_seed(seed, HARD_FAULTS)


def test_the_seeds_bring_every_kind_of_crash_and_fault() -> None:
    crashes: set[str] = set()
    refusals = 0
    lines = ""
    for seed in range(16):
        loop, oracle = run_seed(seed, HARD_FAULTS)
        crashes |= set(oracle.crashes)
        refusals += oracle.refusals
        lines += loop.trace.text()
    assert crashes == {"kill", "power"}
    assert refusals
    for sign in ("power lost", "sync fails", "No space left", "stalls for", "process store killed"):
        assert sign in lines


def test_a_disk_that_lies_is_found_so_the_oracle_can_fail() -> None:
    assert is_found(run_seed, range(10))


class Owner:
    def __init__(self, loop: SimLoop) -> None:
        self.disk = SimDisk(loop.random_for("disk"))
        self.store = open_store(self.disk, loop.clock_ms, OPTIONS)
        self.outcomes: list[Outcome] = []
        self.writer = partial(SimWriter, loop=loop)(
            self.store, loop.call_soon_threadsafe, self.outcomes.append
        )


def test_stopping_the_writer_finishes_the_group_under_way() -> None:
    async def main(loop: SimLoop) -> None:
        owner = Owner(loop)
        topic_id = owner.store.create_topic("t")
        owner.writer.kick()
        owner.writer.stop()
        assert [outcome.error for outcome in owner.outcomes] == [None]
        assert list(owner.store.topics()) == [topic_id]
        owner.store.close()
        await asyncio.sleep(1)
        assert len(owner.outcomes) == 1

    for seed in range(5):
        with SimLoop(seed) as loop:
            loop.run(main(loop))


def test_groups_gather_while_one_is_written_and_come_back_in_order() -> None:
    async def main(loop: SimLoop) -> int:
        owner = Owner(loop)
        topic_id = owner.store.create_topic("t")
        for i in range(100):
            owner.store.append(topic_id, b"%d" % i, batch_size=1, publish_time_ms=i)
            owner.writer.kick()
            await asyncio.sleep(0.001)
        await asyncio.sleep(5)
        assert owner.outcomes[-1].end == owner.store.ticket_last + 1
        for before, after in zip(owner.outcomes, owner.outcomes[1:], strict=False):
            assert before.end == after.first
        entries = owner.store.read(topic_id, START, entries_max=1000, bytes_max=1 << 20)
        assert [int(entry.data or b"") for entry in entries] == list(range(100))
        owner.writer.stop()
        owner.store.close()
        return len(owner.outcomes)

    for seed in range(5):
        with SimLoop(seed) as loop:
            assert 5 < loop.run(main(loop)) < 60
