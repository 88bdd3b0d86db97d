"""Commands run in this process, and real data directories for them to look at."""

import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from cli.broker_cli import BrokerCli, run_command
from storage.workload import Clock, small_options

from magnetar.ack import AckDelta, Cursor, Delta, Ledgers, encode_delta, encode_snapshot
from magnetar.broker.setting.settings_load import COMMANDS
from magnetar.cli import serve
from magnetar.model import Position
from magnetar.model.message_id_data import MessageIdData
from magnetar.storage import FileDisk, Store, open_store
from magnetar.storage.cursor.cursor_load import load_cursor, load_ledgers
from magnetar.testing.embedded import EmbeddedBroker

ORDERS = "persistent://public/default/orders"
QUIET = "persistent://public/default/quiet"

Run = Callable[..., tuple[int, str, str]]
Refused = Callable[..., str]


@pytest.fixture(autouse=True)
def no_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests may have profiles and a token, which are none of their business."""
    monkeypatch.setenv("XDG_CONFIG_HOME", "/dev/null/none")
    # Workers of a shared run have the width of a terminal, which folds what goes into pipes.
    monkeypatch.delenv("COLUMNS", raising=False)
    for name in COMMANDS:
        monkeypatch.delenv(f"MAGNETAR_{name.upper()}", raising=False)


@pytest.fixture
def run() -> Run:
    """Runs a command in this process: exit code, standard output, standard error."""

    def run(*arguments: str | Path, input: str = "") -> tuple[int, str, str]:
        ran = run_command([str(argument) for argument in arguments], input)
        return ran.code, ran.out, ran.err

    return run


# ---- `magnetar serve` --------------------------------------------------------------


@pytest.fixture
def settled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory without settings, and an environment without any."""
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith("MAGNETAR_"):
            monkeypatch.delenv(name)
    return tmp_path


@pytest.fixture
def refused(settled: Path, capsys: pytest.CaptureFixture[str]) -> Refused:
    """Runs a command that must not come up, and returns its complaint."""

    def refused(*options: str | Path) -> str:
        try:
            code = serve.run([str(option) for option in options])
        except SystemExit as exit:
            code = exit.code if isinstance(exit.code, int) else -1
        out, err = capsys.readouterr()
        assert (code, out) == (2, "")
        return err

    return refused


@pytest.fixture
def unserved(monkeypatch: pytest.MonkeyPatch) -> None:
    """For commands that must be refused before anything is tried."""

    def fail(serving: Coroutine[Any, Any, int]) -> int:
        serving.close()
        raise AssertionError("it went on to serve")

    monkeypatch.setattr(serve, "_run", fail)


# ---- Data directories --------------------------------------------------------------


class Builder:
    """A store with topics and cursors, as a broker would use it."""

    def __init__(self, path: Path, clock_ms: Callable[[], int] | None = None) -> None:
        self.store: Store = open_store(FileDisk(path), clock_ms or Clock(), small_options())

    def topic(self, name: str, batch_sizes: list[int]) -> tuple[int, list[Position]]:
        topic_id = self.store.create_topic(name)
        self.flush()
        positions = [
            self.store.append(topic_id, bytes(10 * size), batch_size=size, publish_time_ms=1)
            for size in batch_sizes
        ]
        self.flush()
        return topic_id, positions

    def cursor(self, topic_id: int, name: str, *plans: Callable[[Cursor], Delta]) -> int:
        start = encode_snapshot(Cursor(Ledgers(), Position(-1, -1)))
        cursor_id = self.store.create_cursor(topic_id, name, start)
        self.flush()
        cursor = load_cursor(self.store, cursor_id, load_ledgers(self.store, topic_id))
        for plan in plans:
            delta = plan(cursor)
            self.store.append_delta(cursor_id, delta.epoch, encode_delta(delta))
            self.flush()
            cursor.apply(delta)
        return cursor_id

    def flush(self) -> None:
        assert {outcome.error for outcome in self.store.flush()} <= {None}

    def kill(self) -> None:
        """Leaves the directory as a killed process would."""
        self.store.log.disk.close()


def build(path: Path) -> tuple[Builder, dict[str, int]]:
    """Two topics; the cursor `billing` has acked in all the ways there are."""
    builder = Builder(path)
    orders, positions = builder.topic(ORDERS, [1, 10, 1, 1, 70, 1, 10, 1] * 4)
    quiet, _ = builder.topic(QUIET, [])

    def id(i: int, batch_index: int = -1) -> MessageIdData:
        return MessageIdData(positions[i].ledger_id, positions[i].entry_id, batch_index=batch_index)

    ids = {
        "billing": builder.cursor(
            orders,
            "billing",
            lambda cursor: cursor.plan_expire(positions[2]),
            lambda cursor: cursor.plan_acks([id(5), id(9), id(10), id(11), id(13)]),
            lambda cursor: cursor.plan_messages([id(4, 0), id(4, 69), id(6, 3), id(6, 4)]),
        ),
        "audit": builder.cursor(orders, "audit"),
        "idle": builder.cursor(quiet, "idle"),
    }
    return builder, ids


class TransactionsAtWork:
    """A directory with a topic of 8 entries and a cursor: a transaction was committed, one was
    aborted, and `open` is open with two entries and an ack. A kill ended it."""

    def __init__(self, path: Path) -> None:
        builder = Builder(path)
        store = builder.store
        topic_id, positions = builder.topic(ORDERS, [1, 1])
        cursor_id = builder.cursor(topic_id, "billing")
        committed, aborted, self.open = (store.transactions.begin(60_000, "clerk") for _ in "cao")
        builder.flush()
        self.opened_ms = int(store.transactions.state.open[self.open].opened_ms)
        for number in (aborted, committed, aborted, self.open, self.open, 0):
            position = store.append(topic_id, b"x", batch_size=1, publish_time_ms=1)
            if number:
                store.transactions.sent(number, position)
            builder.flush()
        self.pending(builder, cursor_id, positions[0])
        builder.flush()
        store.transactions.commit(committed, [])
        store.transactions.abort(aborted)
        builder.flush()
        builder.kill()

    def pending(self, builder: Builder, cursor_id: int, position: Position) -> None:
        """The ack that waits."""
        delta = AckDelta(0, None, ((position.ledger_id, (position.entry_id,), ()),))
        builder.store.transactions.ack(self.open, cursor_id, encode_delta(delta))


@pytest.fixture(scope="module")
def cli(magnetar_broker: EmbeddedBroker) -> BrokerCli:
    """Commands for the broker that all tests share."""
    return BrokerCli(magnetar_broker.url, magnetar_broker.http_url)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A data directory that was closed in order."""
    builder, _ = build(tmp_path / "data")
    builder.store.close()
    return tmp_path / "data"


def contents(directory: Path) -> dict[str, tuple[bytes, int]]:
    """Every file with its bytes and its time of change."""
    return {
        str(path.relative_to(directory)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in directory.rglob("*")
        if path.is_file()
    }
