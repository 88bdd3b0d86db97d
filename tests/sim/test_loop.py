"""Programs of asyncio run on the simulated loop as on a real one, only reproducibly."""

import asyncio
import signal
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from magnetar.testing import (
    DeadlockError,
    SimExecutor,
    SimLoop,
    SimulationError,
    SpinError,
    StepLimitError,
)
from magnetar.testing.sim.loop import SPINS_MAX

SEEDS = range(30)


async def lines_of_workers() -> list[str]:
    """Workers that do the same in their threads; who is first is chance."""
    seen: list[str] = []

    async def work(name: str) -> None:
        for round_ in range(3):
            await asyncio.to_thread(sum, range(3))
            seen.append(f"{name}{round_}")

    async with asyncio.TaskGroup() as group:
        for name in "abc":
            group.create_task(work(name))
    return seen


def run_lines(seed: int) -> list[str]:
    with SimLoop(seed) as loop:
        return loop.run(lines_of_workers())


def test_time_is_virtual_and_jumps_to_the_next_timer() -> None:
    with SimLoop(1) as loop:
        began = loop.time()
        loop.run(asyncio.sleep(3600))
        assert 3600 <= loop.time() - began < 3601


def test_one_seed_gives_one_order_and_others_give_others() -> None:
    orders = {tuple(run_lines(seed)) for seed in SEEDS}
    assert len(orders) > 5
    assert [run_lines(seed) for seed in SEEDS] == [run_lines(seed) for seed in SEEDS]
    for order in orders:
        for name in "abc":
            assert [line for line in order if line[0] == name] == [f"{name}{i}" for i in range(3)]


def test_call_soon_is_first_in_first_out_whatever_the_seed() -> None:
    for seed in SEEDS:
        seen: list[int] = []
        with SimLoop(seed) as loop:
            for i in range(20):
                loop.call_soon(seen.append, i)
            loop.run(asyncio.sleep(1))
        assert seen == list(range(20))


def set_timers(loop: SimLoop, delays_us: tuple[int, ...]) -> list[int]:
    """The order in which timers of these delays run; they check that none is early."""
    seen: list[int] = []
    began = loop.time()

    def note(delay_us: int) -> None:
        assert loop.time() >= began + delay_us / 1e6 - 0.000_5 * loop.coarse
        seen.append(delay_us)

    for delay_us in delays_us:
        loop.call_at(began + delay_us / 1e6, note, delay_us)
    loop.call_later(0.001, seen.append, 0).cancel()
    loop.run(asyncio.sleep(1))
    return seen


@pytest.mark.parametrize("coarse", [False, True])
def test_timers_run_in_the_order_of_their_times(coarse: bool) -> None:
    for seed in SEEDS:
        with SimLoop(seed, coarse=coarse) as loop:
            assert set_timers(loop, (5000, 3000, 9000, 1000, 7000)) == [
                1000,
                3000,
                5000,
                7000,
                9000,
            ]


def test_timers_of_one_millisecond_run_as_they_were_set_where_the_clock_is_coarse() -> None:
    for seed in SEEDS:
        with SimLoop(seed, coarse=True) as loop:
            assert set_timers(loop, (1400, 1200, 800, 600)) == [1400, 1200, 800, 600]
        with SimLoop(seed, coarse=False) as loop:
            assert set_timers(loop, (1400, 1200, 800, 600)) == [600, 800, 1200, 1400]


def test_timers_of_the_same_time_run_in_any_order_where_the_clock_is_exact() -> None:
    orders = set()
    for seed in SEEDS:
        seen: list[int] = []
        with SimLoop(seed, coarse=False) as loop:
            when = loop.time() + 1
            for i in range(4):
                loop.call_at(when, seen.append, i)
            loop.run(asyncio.sleep(2))
        orders.add(tuple(seen))
    assert len(orders) > 5


def test_both_clocks_come_up() -> None:
    assert {SimLoop(seed).coarse for seed in range(10)} == {False, True}


def test_what_threads_post_falls_between_any_two_callbacks() -> None:
    places = set()
    for seed in range(60):
        seen: list[str] = []
        with SimLoop(seed, pause_share=0.0) as loop:

            def chain(name: str, left: int, loop: SimLoop = loop, seen: list[str] = seen) -> None:
                seen.append(name)
                if left:
                    loop.call_soon(chain, name, left - 1)

            loop.call_soon(chain, "a", 5)
            loop.call_soon(chain, "b", 5)
            loop.call_aside(0.000_15, loop.call_soon_threadsafe, seen.append, "thread")
            loop.run(asyncio.sleep(1))
        places.add(seen.index("thread"))
    assert len(places) > 4


def test_a_busy_program_does_not_stop_the_clock() -> None:
    async def main(loop: SimLoop) -> None:
        done = asyncio.Event()
        loop.call_later(0.01, done.set)
        while not done.is_set():  # noqa: ASYNC110
            await asyncio.sleep(0)

    with SimLoop(1) as loop:
        loop.run(main(loop))


def test_the_tools_of_asyncio_work() -> None:
    async def numbers() -> AsyncIterator[int]:
        for i in range(3):
            await asyncio.sleep(0.01)
            yield i

    async def main() -> list[object]:
        lock, queue = asyncio.Lock(), asyncio.Queue[int](1)
        out: list[object] = []

        async def fill() -> None:
            async for i in numbers():
                async with lock:
                    await queue.put(i)

        filler = asyncio.create_task(fill())
        out.extend([await queue.get() for _ in range(3)])
        await filler
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.sleep(60)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 5)
        done, _ = await asyncio.wait([asyncio.create_task(asyncio.sleep(i, i)) for i in range(3)])
        out.append(sorted(task.result() for task in done))
        out.append(await asyncio.gather(*(asyncio.sleep(1, i) for i in range(3))))
        out.append(await asyncio.to_thread(sum, [1, 2]))
        return out

    with SimLoop(3) as loop:
        assert loop.run(main()) == [0, 1, 2, [0, 1, 2], [0, 1, 2], 3]


def test_an_executor_runs_later_in_this_thread_and_in_any_order() -> None:
    async def main(loop: SimLoop) -> tuple[list[int], list[int]]:
        ran: list[int] = []
        finished: list[int] = []

        def work(i: int) -> None:
            assert loop.now_ns > began_ns
            ran.append(i)

        async def wait(i: int) -> None:
            await loop.run_in_executor(None, work, i)
            finished.append(i)

        began_ns = loop.now_ns
        await asyncio.gather(*(wait(i) for i in range(20)))
        return ran, finished

    orders = set()
    for seed in SEEDS:
        with SimLoop(seed) as loop:
            ran, finished = loop.run(main(loop))
        assert sorted(ran) == sorted(finished) == list(range(20))
        orders.add((tuple(ran), tuple(finished)))
    assert len(orders) == len(SEEDS)


def test_an_executor_of_ones_own_has_its_workers_and_reports_errors() -> None:
    async def main(loop: SimLoop) -> None:
        executor = SimExecutor(loop, workers=1)
        order: list[int] = []
        jobs = [loop.run_in_executor(executor, order.append, i) for i in range(10)]
        await asyncio.gather(*jobs)
        assert order == list(range(10))
        with pytest.raises(ZeroDivisionError):
            await loop.run_in_executor(executor, divmod, 1, 0)
        executor.shutdown()
        with pytest.raises(RuntimeError, match="after shutdown"):
            executor.submit(print)
        with ThreadPoolExecutor() as real, pytest.raises(TypeError, match="real threads"):
            loop.run_in_executor(real, print)

    with SimLoop(1) as loop:
        loop.run(main(loop))


def test_an_exception_in_a_callback_fails_the_run_and_says_where() -> None:
    loop = SimLoop(7)
    loop.set_exception_handler(lambda loop, context: None)
    loop.call_later(1, divmod, 1, 0)
    with pytest.raises(ZeroDivisionError) as caught:
        loop.run(asyncio.sleep(5))
    assert "seed 7, step" in caught.value.__notes__[0]
    loop.close()


def test_an_exception_that_nobody_looks_at_fails_the_run() -> None:
    async def fail() -> None:
        raise ValueError("unseen")

    async def main() -> None:
        task = asyncio.create_task(fail(), name="loner")
        await asyncio.sleep(1)
        del task

    with SimLoop(1) as loop, pytest.raises(ValueError, match="unseen") as caught:
        loop.run(main())
    assert "'loner'" in caught.value.__notes__[0]


def test_an_exception_that_somebody_looks_at_is_fine() -> None:
    async def fail() -> None:
        raise ValueError("seen")

    async def main() -> None:
        for _ in range(3000):
            with pytest.raises(ValueError, match="seen"):
                await asyncio.create_task(fail())

    with SimLoop(1) as loop:
        loop.run(main())


def test_a_deadlock_is_found_and_tells_who_waits() -> None:
    async def wait_for_nobody() -> None:
        await asyncio.Event().wait()

    loop = SimLoop(1)
    with pytest.raises(DeadlockError, match="still wait") as caught:
        loop.run_until_complete(loop.create_task(wait_for_nobody(), name="waiter"))
    assert "waiter at" in str(caught.value)
    assert "wait_for_nobody" in str(caught.value)
    loop.close()


def test_steps_and_seconds_are_limited() -> None:
    async def spin() -> None:
        while True:  # noqa: ASYNC110
            await asyncio.sleep(0)

    async def tick() -> None:
        while True:  # noqa: ASYNC110
            await asyncio.sleep(60)

    with SimLoop(1, steps_max=1000) as loop, pytest.raises(StepLimitError, match="1000 steps"):
        loop.run_until_complete(spin())
    with SimLoop(1, seconds_max=3600) as loop, pytest.raises(StepLimitError, match="3600 s"):
        loop.run_until_complete(tick())


@pytest.mark.parametrize("coarse", [False, True])
def test_a_timer_that_is_set_for_now_again_and_again_fails_the_run(coarse: bool) -> None:
    with SimLoop(1, coarse=coarse) as loop:

        def spin() -> None:
            loop.call_later(0, spin)

        spin()
        with pytest.raises(SpinError, match="for now"):
            loop.run(asyncio.sleep(1))


def test_timers_that_are_set_for_now_by_many_or_over_time_are_no_spin() -> None:
    with SimLoop(1) as loop:
        for _ in range(2 * SPINS_MAX):
            loop.call_later(0, lambda: None)

        async def calm() -> None:
            for _ in range(2 * SPINS_MAX):
                loop.call_later(0, set)
                await asyncio.sleep(0.01)

        loop.run(calm())


def test_what_is_left_over_is_cancelled_oldest_first() -> None:
    ended: list[str] = []

    async def linger(name: str) -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            ended.append(name)

    async def main() -> str:
        tasks = [asyncio.create_task(linger(name)) for name in "abc"]
        await asyncio.sleep(1)
        assert len(tasks) == 3
        return "done"

    with SimLoop(1) as loop:
        assert loop.run(main()) == "done"
    assert ended == ["a", "b", "c"]


def test_asyncio_s_own_runner_works_on_it() -> None:
    with asyncio.Runner(loop_factory=lambda: SimLoop(1)) as runner:
        assert runner.run(lines_of_workers()) == run_lines(1)


def test_the_wall_clock_may_jump_and_loop_time_does_not() -> None:
    with SimLoop(1) as loop:
        before_ms, before = loop.clock_ms(), loop.time()
        loop.jump_clock(-5000)
        assert loop.clock_ms() - before_ms == -5000
        loop.run(asyncio.sleep(2))
        assert -3000 <= loop.clock_ms() - before_ms < -2900
        assert 2 <= loop.time() - before < 2.1


def test_a_closed_loop_takes_nothing() -> None:
    loop = SimLoop(1)
    loop.close()
    with pytest.raises(RuntimeError, match="closed"):
        loop.call_soon(print)
    with pytest.raises(RuntimeError, match="closed"):
        loop.run_forever()


def test_what_is_not_simulated_says_so() -> None:
    async def main(loop: SimLoop) -> None:
        with pytest.raises(NotImplementedError):
            await loop.create_datagram_endpoint(asyncio.DatagramProtocol)
        with pytest.raises(NotImplementedError, match="TLS"):
            await loop.create_connection(asyncio.Protocol, "localhost", 1, ssl=True)

    with SimLoop(1) as loop:
        loop.run(main(loop))


# ---- Processes ---------------------------------------------------------------


def test_nothing_of_a_killed_process_runs_not_even_finally() -> None:
    done: list[str] = []

    async def inner() -> None:
        try:
            while True:
                await asyncio.sleep(0.1)
                done.append("inner")
        finally:
            done.append("finally")
            asyncio.get_running_loop().call_soon(done.append, "soon")

    async def outer(loop: SimLoop) -> None:
        loop.call_later(50, done.append, "timer")
        work = loop.run_in_executor(None, done.append, "thread")
        async with asyncio.TaskGroup() as group:
            group.create_task(inner())
            await work
            await asyncio.sleep(1000)

    async def main(loop: SimLoop) -> None:
        process = loop.process("victim")
        process.start(outer(loop))
        await asyncio.sleep(1)
        assert done.count("thread") == 1
        assert done.count("inner") > 5
        loop.kill(process)
        done.clear()
        await asyncio.sleep(100)
        assert done == []
        assert [task.get_name() for task in loop.tasks()] == ["looker-on"]

    with SimLoop(1) as loop:
        loop.run_until_complete(loop.create_task(main(loop), name="looker-on"))
        assert done == []


def test_a_function_may_have_run_whose_result_died_with_the_process() -> None:
    fates = set()
    for seed in range(60):
        ran: list[int] = []
        heard: list[int] = []

        async def work(loop: SimLoop, ran: list[int] = ran, heard: list[int] = heard) -> None:
            await loop.run_in_executor(None, ran.append, 1)
            heard.append(1)

        async def main(loop: SimLoop) -> None:
            process = loop.process("victim")
            process.start(work(loop))
            await asyncio.sleep(0.0006)
            loop.kill(process)
            await asyncio.sleep(1)

        with SimLoop(seed) as loop:
            loop.run(main(loop))
        fates.add((len(ran), len(heard)))
    assert fates >= {(1, 0), (1, 1)}


def test_a_signal_reaches_the_handler_of_its_process() -> None:
    async def serve(loop: SimLoop) -> str:
        stop = asyncio.Event()
        loop.add_signal_handler(signal.SIGTERM, stop.set)
        await stop.wait()
        assert loop.remove_signal_handler(signal.SIGTERM)
        return "stopped"

    async def main(loop: SimLoop) -> str:
        process = loop.process("server")
        task = process.start(serve(loop))
        await asyncio.sleep(1)
        loop.signal(process, signal.SIGTERM)
        return await task

    with SimLoop(1) as loop:
        assert loop.run(main(loop)) == "stopped"


def test_a_message_without_an_exception_fails_the_run_too() -> None:
    loop = SimLoop(1)
    loop.call_soon(loop.call_exception_handler, {"message": "something is wrong"})
    with pytest.raises(SimulationError, match="something is wrong"):
        loop.run(asyncio.sleep(1))
    loop.close()
