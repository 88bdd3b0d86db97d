"""Ctrl-C, wherever it comes: it ends the command, once and without a traceback."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.broker_process import BrokerProcess

from magnetar.cli.interrupt import uninterrupted

# `magnetar` with SIGINT at the beginning of a function: its name, and what its file is called.
INTERRUPTED = """
import signal, sys
from magnetar.cli.main import main
name, file = sys.argv[1:3]
del sys.argv[1:3]

def interrupt(frame, event, arg):
    code = frame.f_code
    if event == "call" and code.co_name == name and file in code.co_filename:
        sys.setprofile(None)
        signal.raise_signal(signal.SIGINT)

sys.setprofile(interrupt)
main()
"""


@pytest.fixture(autouse=True)
def nobody_else_handles_it() -> Iterator[None]:
    """Spark, started by a test before, has a handler of its own."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupted(block: Callable[[], object]) -> None:
    """Runs a block uninterrupted, which must end in KeyboardInterrupt all the same."""
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        block()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def press() -> None:
    signal.raise_signal(signal.SIGINT)


def test_a_block_is_done_to_its_end() -> None:
    done: list[str] = []

    def block() -> None:
        press()
        done.append("all of it")

    interrupted(block)
    assert done == ["all of it"]


def test_a_second_one_does_not_wait() -> None:
    done: list[str] = []

    def block() -> None:
        for name in ("first", "second"):
            press()
            done.append(name)

    interrupted(block)
    assert done == ["first"]


def test_it_is_not_forgotten_for_an_error() -> None:
    def block() -> None:
        press()
        raise TimeoutError

    interrupted(block)


def test_blocks_in_a_block_are_one() -> None:
    done: list[str] = []

    def block() -> None:
        with uninterrupted():
            press()
        done.append("behind it")

    interrupted(block)
    assert done == ["behind it"]


def test_where_it_is_ignored_it_stays_so() -> None:
    """As in the jobs of a shell script."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with uninterrupted():
            press()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("data")) as found:
        yield found


CONSUME = ("consume", "t", "-s", "sub", "-n", "0")
PRODUCE = ("produce", "t", "-m", "x", "-n", "1000000", "-r", "50")


@pytest.mark.parametrize(
    ("command", "name", "file", "told"),
    [
        # In a callback of an import, where Python prints an error and forgets it.
        (CONSUME, "cb", "importlib", ""),
        (CONSUME, "<module>", "magnetar/cli/app.py", ""),
        (CONSUME, "subscribe", "client/door/blocking.py", ""),
        (CONSUME, "wait", "threads/outcome.py", ""),
        (CONSUME, "_wait", "threads/consumer.py", "received and acked 0 messages until Ctrl-C"),
        (PRODUCE, "send_async", "threads/producer.py", "sent 1 message to t until Ctrl-C"),
        (PRODUCE, "paced", "cli/message/pace.py", "sent 1 message to t until Ctrl-C"),
    ],
)
def test_a_command_ends(
    broker: BrokerProcess,
    tmp_path: Path,
    command: tuple[str, ...],
    name: str,
    file: str,
    told: str,
) -> None:
    """And says how far it came, once there was something to count."""
    ran = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, name, file, "--url", broker.url, *command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    expected = f"magnetar: {told}\n" if told else ""
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", expected)
