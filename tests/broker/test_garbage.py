"""When the collector of cyclic garbage runs, in a broker that has its process to itself."""

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable

import pytest

from magnetar.broker.shell import garbage
from magnetar.broker.shell.garbage import SHORT_RUNS, GarbageRuns


class Cycle:
    def __init__(self) -> None:
        self.itself = self


def gone(cycle: Cycle) -> Callable[[], bool]:
    reference = weakref.ref(cycle)
    return lambda: reference() is None


def run(quiet: Callable[[], bool], test: Callable[[GarbageRuns], Awaitable[None]]) -> None:
    """Runs a test with the collector as it is set up, and sees that it is as before then."""
    thresholds, callbacks = gc.get_threshold(), list(gc.callbacks)

    async def main() -> None:
        runs = GarbageRuns(quiet)
        runs.start()
        try:
            await test(runs)
        finally:
            runs.stop()

    asyncio.run(main())
    assert gc.get_threshold() == thresholds
    assert gc.get_freeze_count() == 0
    assert gc.callbacks == callbacks


def test_after_some_automatic_runs_what_is_new_is_looked_at_and_what_stays_put_aside() -> None:
    async def test(runs: GarbageRuns) -> None:
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

    run(lambda: True, test)


def test_cycles_that_die_after_they_were_put_aside_are_found_when_there_is_twice_as_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(garbage, "SPARE_BLOCKS", 0)
    monkeypatch.setattr(garbage, "LOOK_SECONDS", 0.0)

    quiet = False

    async def test(runs: GarbageRuns) -> None:
        nonlocal quiet
        cycle = Cycle()
        cycle_gone = gone(cycle)
        runs.run_short()
        del cycle
        runs.run_short()
        assert not cycle_gone(), "it is out of sight"
        assert runs.thorough == 1, "there is no more than there was"
        much = [object() for _ in range(3 * runs.blocks // 2)]
        runs.run_short()
        for _ in range(10):
            await asyncio.sleep(0)
        assert runs.thorough == 1, "somebody is waiting for something"
        quiet = True
        while runs.thorough == 1:  # noqa: ASYNC110, the next round of the loop does it
            await asyncio.sleep(0)
        assert cycle_gone()
        assert much

    run(lambda: quiet, test)


def test_with_four_times_as_much_everything_is_looked_at_however_busy_the_broker_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(garbage, "SPARE_BLOCKS", 0)

    async def test(runs: GarbageRuns) -> None:
        cycle = Cycle()
        cycle_gone = gone(cycle)
        runs.run_short()
        del cycle
        much = [object() for _ in range(4 * runs.blocks)]
        runs.run_short()
        assert runs.thorough == 2
        assert cycle_gone()
        assert much

    run(lambda: False, test)
