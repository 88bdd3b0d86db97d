"""The targets of the fuzzer over inputs drawn by a seed, and over inputs that failed once.

`run.py` finds more, with an interpreter that has atheris.
"""

import gc
import re
from collections.abc import Callable, Iterator
from random import Random

import pytest
from fuzz import fuzz_recovery, fuzz_rest, fuzz_session, fuzz_websocket
from fuzz.judge import TooMuchMemory, TooSlow, bounded, timed

from magnetar.admin.http.routes import ROUTES

Target = Callable[[bytes], None]

TARGETS: dict[str, tuple[Target, int, int]] = {
    "session": (fuzz_session.one_input, 80, 500),
    "recovery": (fuzz_recovery.one_input, 150, 60),
    "rest": (fuzz_rest.one_input, 150, 400),
    "websocket": (fuzz_websocket.one_input, 1000, 400),
}

# Inputs that failed once, with what failed.
KEPT: list[tuple[str, str]] = [
    # FORMAT was deleted, and a new store was begun over the journal.
    ("recovery", "d4fbfc9d6bda"),
    ("recovery", "bc33fe8c6bda"),
    # A forged group whose number i64 cannot hold: only compiled did it raise what nobody expects.
    (
        "recovery",
        "23670b7ed824b9edf3e897ba20cc3741fdc0bc82ad4da128af850387da830b41f62acf44a6f698a7628d509641c9",
    ),
]


@pytest.fixture(autouse=True)
def nothing_from_before() -> Iterator[None]:
    """Other tests of this process leave much that garbage collection would look through, in events
    that are judged by their time."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.parametrize("name", TARGETS)
def test_random_inputs_find_no_failure(name: str) -> None:
    one_input, count, size_max = TARGETS[name]
    one_input(b"")
    for seed in range(count):
        random = Random(seed)
        data = random.randbytes(random.randrange(1, size_max))
        try:
            one_input(data)
        except Exception as error:
            error.add_note(f"{name}, seed {seed}, input {data.hex()}")
            raise


@pytest.mark.parametrize(("name", "data"), KEPT)
def test_inputs_that_failed_once_do_not_fail_again(name: str, data: str) -> None:
    TARGETS[name][0](bytes.fromhex(data))


def test_something_is_drawn_for_each_name_in_a_path() -> None:
    names = {name for route in ROUTES for name in re.findall(r"{(\w+)", route.path)}
    assert names <= {*fuzz_rest.NAMES, *fuzz_rest.COUNTED}


def test_an_event_that_takes_long_is_a_failure() -> None:
    with pytest.raises(TooSlow, match="an event took"), timed("an event", 0.001):
        sum(range(20_000_000))  # longer than the judge may be off


def test_an_input_that_takes_much_memory_is_a_failure() -> None:
    with pytest.raises(TooMuchMemory, match="MiB"), bounded("an input", 32 << 20):
        bytearray(b"x" * (128 << 20))
