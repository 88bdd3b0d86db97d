"""When the collector of cyclic garbage runs, in a broker that has its process to itself."""

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable

import pytest
from support.world import World

from magnetar.broker.broker import TOPIC_OBJECTS
from magnetar.broker.shell import garbage
from magnetar.broker.shell.garbage import LEFT_MAX, SHORT_RUNS, GarbageRuns


class Cycle:
    def __init__(self) -> None:
        self.itself = self


def gone(cycle: Cycle) -> Callable[[], bool]:
    reference = weakref.ref(cycle)
    return lambda: reference() is None


class Told:
    """What the broker tells."""

    def __init__(self) -> None:
        self.left = 0
        self.quiet = False


def run(test: Callable[[GarbageRuns, Told], Awaitable[None]]) -> None:
    """Runs a test with the collector as it is set up, and sees that it is as before then."""
    thresholds, callbacks = gc.get_threshold(), list(gc.callbacks)

    async def main() -> None:
        told = Told()
        runs = GarbageRuns(lambda: told.left, lambda: told.quiet)
        runs.start()
        try:
            await test(runs, told)
        finally:
            runs.stop()

    asyncio.run(main())
    assert gc.get_threshold() == thresholds
    assert gc.get_freeze_count() == 0
    assert gc.callbacks == callbacks


def test_after_some_automatic_runs_what_is_new_is_looked_at_and_what_stays_put_aside() -> None:
    async def test(runs: GarbageRuns, told: Told) -> None:
        put_aside = gc.get_freeze_count()
        young, old = Cycle(), Cycle()
        young_gone, old_gone = gone(young), gone(old)
        # Twice, and it is too old for the automatic runs.
        for _ in range(2):
            gc.collect(1)
        del young
        for _ in range(SHORT_RUNS):
            assert runs.short == 0
            gc.collect(1)
        assert not young_gone()
        await asyncio.sleep(0)
        assert runs.short == 1
        assert young_gone()
        assert not old_gone()
        assert gc.get_freeze_count() > put_aside - 100, "what stays is put aside again"

    run(test)


def test_what_was_left_behind_after_it_was_put_aside_is_found_in_a_quiet_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(garbage, "LOOK_SECONDS", 0.0)

    async def test(runs: GarbageRuns, told: Told) -> None:
        cycle = Cycle()
        cycle_gone = gone(cycle)
        runs.run_short()
        del cycle
        runs.run_short()
        assert not cycle_gone(), "it is out of sight"
        assert runs.thorough == 1, "little was left behind"
        told.left += LEFT_MAX + 1
        runs.run_short()
        runs.run_short()
        for _ in range(10):
            await asyncio.sleep(0)
        assert runs.thorough == 1, "somebody is waiting for something"
        told.quiet = True
        while runs.thorough == 1:  # noqa: ASYNC110, the next round of the loop does it
            await asyncio.sleep(0)
        assert cycle_gone()
        runs.run_short()
        assert runs.thorough == 2, "nothing was left behind since"

    run(test)


def test_however_busy_the_broker_is_much_is_not_left_behind() -> None:
    async def test(runs: GarbageRuns, told: Told) -> None:
        told.left += 4 * LEFT_MAX + 1
        runs.run_short()
        assert runs.thorough == 2

    run(test)


def test_cycles_that_nobody_knows_of_are_found_when_there_is_four_times_as_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(garbage, "SPARE_BLOCKS", 0)

    async def test(runs: GarbageRuns, told: Told) -> None:
        cycle = Cycle()
        cycle_gone = gone(cycle)
        runs.run_short()
        del cycle
        much = [object() for _ in range(2 * runs.blocks)]
        runs.run_short()
        assert runs.thorough == 1, "a broker may grow"
        much += [object() for _ in range(2 * runs.blocks)]
        runs.run_short()
        assert runs.thorough == 2
        assert cycle_gone()

    run(test)


def test_a_broker_counts_what_it_may_leave_behind(world: World) -> None:
    world.connect().producer("t")
    before = world.broker.left_behind
    world.unload("t")
    assert world.broker.left_behind == before + TOPIC_OBJECTS
