"""The command as a process of its own: exit codes, streams, signals, and a fast start."""

import json
import os
import pty
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.broker_cli import BrokerCli
from support.broker_process import BrokerProcess

MAGNETAR = [sys.executable, "-m", "magnetar"]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("data")) as found:
        yield found


def command(broker: BrokerProcess, *arguments: str) -> list[str]:
    return [*MAGNETAR, "--url", broker.url, "--admin-url", broker.http_url, *arguments]


def test_what_peek_shows_goes_through_a_pipe_to_skip(broker: BrokerProcess) -> None:
    cli = BrokerCli(broker.url, broker.http_url)
    cli.ok("topics", "create", "orders")
    cli.ok("topics", "create-subscription", "orders", "-s", "billing")
    cli.ok("produce", "orders", "-m", "fine", "-m", "poison", "-m", "fine too")
    peek = command(broker, "peek", "orders", "-s", "billing", "-n", "10", "--json")
    skip = ("topics", "skip-messages", "orders", "-s", "billing", "--from-file", "-")
    ran = subprocess.run(
        f"{shlex.join(peek)} | grep poison | {shlex.join(command(broker, *skip))}",
        shell=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("skipped 1 id on billing")
    left = cli.ok("consume", "orders", "-s", "billing", "-t", "Shared", "-n", "2", "--json")
    assert [json.loads(line)["data"] for line in left.splitlines()] == ["fine", "fine too"]


def test_refusals_go_to_standard_error(broker: BrokerProcess) -> None:
    ran = subprocess.run(
        command(broker, "topics", "stats", "nothing"), capture_output=True, text=True, timeout=60
    )
    assert (ran.returncode, ran.stdout) == (5, "")
    assert ran.stderr.startswith("magnetar: ")
    assert ran.stderr.count("\n") == 1


def test_lines_are_sent_as_they_come_and_counted_at_ctrl_c(broker: BrokerProcess) -> None:
    """A pipe that stays open: what was written is with consumers before it ends."""
    cli = BrokerCli(broker.url, broker.http_url)
    cli.ok("topics", "create", "piped")
    cli.ok("subscriptions", "create", "piped", "-s", "sub")
    with subprocess.Popen(
        command(broker, "produce", "piped", "--lines"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        process.stdin.write("one\ntwo\nunfini")
        process.stdin.flush()
        got = cli.ok("consume", "piped", "-s", "sub", "-n", "2", "--json").splitlines()
        assert [json.loads(line)["data"] for line in got] == ["one", "two"]
        process.send_signal(signal.SIGINT)
        # Before its input ends, which would make a line of the rest.
        assert process.wait(timeout=60) == 130
        out, err = process.communicate()
    assert (out, err) == ("", "magnetar: sent 2 messages to piped until Ctrl-C\n")


def test_many_lines_in_large_pieces(broker: BrokerProcess, tmp_path: Path) -> None:
    cli = BrokerCli(broker.url, broker.http_url)
    cli.ok("topics", "create", "many")
    cli.ok("subscriptions", "create", "many", "-s", "sub")
    texts = [f"{number}-{'x' * (number * 37 % 5000)}" for number in range(300)]
    (tmp_path / "lines").write_text("\n".join(texts))
    with (tmp_path / "lines").open() as file:
        ran = subprocess.run(
            command(broker, "produce", "many", "--lines"),
            stdin=file,
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert (ran.returncode, ran.stdout) == (0, "sent 300 messages to many\n")
    got = cli.ok("consume", "many", "-s", "sub", "-n", "300", "--json").splitlines()
    assert [json.loads(line)["data"] for line in got] == texts


def test_ctrl_c_ends_a_consumer_that_waits(broker: BrokerProcess) -> None:
    cli = BrokerCli(broker.url, broker.http_url)
    cli.ok("topics", "create", "waiting")
    cli.ok("produce", "waiting", "-m", "one")
    arguments = ("consume", "waiting", "-s", "sub", "-p", "Earliest", "-n", "0")
    with subprocess.Popen(
        command(broker, *arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            assert process.stdout.readline() == b"one\n"
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 130
    assert b"Traceback" not in err
    # What was shown is acked, all the same.
    assert cli.ok("peek", "waiting", "-s", "sub") == ""


def test_in_a_terminal_there_are_bars_and_tables(broker: BrokerProcess) -> None:
    """In one of 60 columns no line of a table loses a digit."""
    cli = BrokerCli(broker.url, broker.http_url)
    cli.ok("topics", "create", "seen")
    cli.ok("topics", "create-subscription", "seen", "-s", "sub")
    shown = in_terminal(command(broker, "produce", "seen", "-m", "x", "-n", "12345"))
    assert "sent 12,345 messages" in shown
    assert "sending" in shown
    shown = in_terminal(command(broker, "topics", "stats", "seen"))
    assert "12,345" in shown


def in_terminal(arguments: list[str]) -> str:
    """What a process shows to somebody who sits in front of it."""
    terminal, other = pty.openpty()
    environment = os.environ | {"COLUMNS": "60", "TERM": "xterm"}
    shown = b""
    with subprocess.Popen(
        arguments, stdin=other, stdout=other, stderr=other, env=environment
    ) as process:
        os.close(other)
        try:
            while piece := os.read(terminal, 4096):
                shown += piece
        except OSError:
            pass  # the other side is gone
        finally:
            os.close(terminal)
    assert process.returncode == 0, shown
    return shown.decode(errors="replace")


CLIENT = "magnetar.client.door.blocking"


@pytest.mark.parametrize(
    ("arguments", "left_out"),
    [
        (["serve", "--help"], ["typer", "rich", CLIENT, "http.client"]),
        (
            ["--version"],
            ["magnetar.storage", CLIENT, "http.client", "ssl"],
        ),
        (
            ["topics", "--help"],
            ["magnetar.storage", CLIENT, "http.client"],
        ),
    ],
)
def test_a_start_loads_what_it_needs(arguments: list[str], left_out: list[str]) -> None:
    program = (
        f"import sys; sys.argv = ['magnetar', *{arguments!r}]\n"
        "from magnetar.cli.main import main\n"
        "try:\n    main()\nfinally:\n"
        f"    print([name for name in {left_out!r} if name in sys.modules], file=sys.stderr)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.returncode == 0
    assert ran.stderr.strip() == "[]"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_completes(shell: str, tmp_path: Path) -> None:
    environment = os.environ | {
        "_MAGNETAR_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": "magnetar topics skip-m",
        "COMP_CWORD": "2",
        "_TYPER_COMPLETE_ARGS": "magnetar topics skip-m",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    program = "import sys; sys.argv = ['magnetar']; from magnetar.cli.main import main; main()"
    ran = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    assert "skip-messages" in ran.stdout
