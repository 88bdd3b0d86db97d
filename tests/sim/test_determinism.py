"""One seed, one run: in this process, in others, and on either build."""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from sim import broker_life, life, store_life

import magnetar
from magnetar.testing import SimLoop, Simulation, Trace, fingerprint

SEED = 0
LIVES = [store_life, broker_life, life]
PROGRAM = """
import sys
from importlib import import_module
from sim.test_determinism import trace_of
print(trace_of(import_module(sys.argv[1])).digest())
"""


@cache
def trace_of(life: ModuleType, seed: int = SEED) -> Trace:
    found = life.run_seed(seed)
    loop: SimLoop = found.loop if isinstance(found, Simulation) else found[0]
    return loop.trace


def digest_elsewhere(life: ModuleType, **environment: str) -> str:
    """Of the same seed in a process of its own."""
    path = os.environ.get("PYTHONPATH", "")
    environment = {"PYTHONPATH": path, **environment}
    environment["PYTHONPATH"] += os.pathsep + str(Path(__file__).parents[1])
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, life.__name__],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout.strip()


@pytest.mark.parametrize("life", LIVES)
def test_one_seed_gives_the_same_trace_twice(life: ModuleType) -> None:
    first, second = trace_of(life), trace_of.__wrapped__(life)
    assert first.difference(second) == ""
    assert first.count > 500


@pytest.mark.parametrize("life", LIVES)
def test_different_seeds_give_different_traces(life: ModuleType) -> None:
    assert len({trace_of(life, seed).digest() for seed in range(3)}) == 3


@pytest.mark.parametrize("life", LIVES)
def test_one_seed_gives_the_same_trace_in_processes_with_other_hashes(life: ModuleType) -> None:
    here = trace_of(life).digest()
    assert {here} == {digest_elsewhere(life, PYTHONHASHSEED=seed) for seed in ("0", "1")}


@pytest.mark.skipif(not magnetar.COMPILED, reason="compares the compiled build with the other")
@pytest.mark.parametrize("life", LIVES)
def test_both_builds_give_the_same_trace(life: ModuleType) -> None:
    here = trace_of(life).digest()
    source = str(Path(__file__).parents[2] / "src")
    assert digest_elsewhere(life, PYTHONPATH=source) == here


def test_a_trace_tells_where_it_differs_from_another() -> None:
    one, other = Trace(lines_max=2), Trace(lines_max=2)
    assert one.difference(other) == ""
    one.add(1, "a", "x")
    assert one.difference(other) == "1 lines here, 0 there"
    other.add(1, "a", "y")
    assert one.difference(other) == "line 0: '0.000000001 a x' here, '0.000000001 a y' there"
    for trace in (one, other):
        trace.add(2, "a", "z")
        trace.add(3, "a", "z")
    assert one.difference(other) == "the lines that were not kept differ"
    assert fingerprint(b"abc") == "3:352441c2"
