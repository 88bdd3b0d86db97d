"""Where a client's log goes: the logger that it was given, and no other."""

import contextlib
import logging
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from client.conftest import (
    Engine,
    payloads,
    send_all,
    through_proxy,
    until,
)
from support.waiting import wait_until

import magnetar
from magnetar import (
    AutoClusterFailover,
    ConnectError,
    ConsoleLogger,
    FileLogger,
    LoggerLevel,
    ServiceInfo,
    SettingsError,
)
from magnetar.client.consumer.message import Message
from magnetar.client.door import aio
from magnetar.client.door.threads.listener import Listeners

QUICK: dict[str, Any] = {
    "wait_for_broker": True,
    "operation_timeout_seconds": 1,
    "initial_backoff_ms": 5,
    "max_backoff_ms": 50,
}


class Lines(logging.Handler):
    """A logger of the application's, and what came to it."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        # Not known to `logging`: it has no parent that would hear it too.
        self.logger: logging.Logger = logging.Logger("application", logging.DEBUG)
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())

    def has(self, text: str) -> bool:
        return any(text in line for line in self.texts)


@pytest.fixture
def default(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    """What came to the logger of clients that were given none."""

    class Found(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            texts.append(record.getMessage())

    texts: list[str] = []
    handler = Found()
    logging.getLogger("magnetar.client").addHandler(handler)
    with caplog.at_level(logging.DEBUG, "magnetar.client"):
        yield texts
    logging.getLogger("magnetar.client").removeHandler(handler)


@contextlib.contextmanager
def nobody() -> Iterator[str]:
    """The URL of a port where nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"pulsar://127.0.0.1:{bound.getsockname()[1]}"


def fail_to_connect(url: str, logger: Any) -> magnetar.Client:
    """The client, closed."""
    with magnetar.Client(url, logger=logger, **QUICK) as client, pytest.raises(ConnectError):
        client.create_producer("t")
    return client


# ---- A logger ----------------------------------------------------------------


def test_without_one_it_is_the_logger_of_all_clients(default: list[str]) -> None:
    with nobody() as url:
        fail_to_connect(url, None)
    assert any("trying again" in text for text in default)


def test_failed_connects_of_two_clients_are_told_to_the_logger_of_each(default: list[str]) -> None:
    one, two = Lines(), Lines()
    with (
        nobody() as here,
        nobody() as there,
        magnetar.Client(here, logger=one.logger, **QUICK) as first,
        magnetar.Client(there, logger=two.logger, **QUICK) as second,
    ):
        for client in (first, second):
            with pytest.raises(ConnectError):
                client.create_producer("t")
    for lines, url in ((one, here), (two, there)):
        assert lines.has("trying again")
        assert all(url.removeprefix("pulsar://") in text for text in lines.texts)
    assert default == []


async def test_a_lost_connection_is_told_to_the_logger_given(
    engine: Engine, topic: str, default: list[str]
) -> None:
    lines = Lines()
    async with through_proxy(engine, logger=lines.logger) as (proxy, client):
        producer = await client.create_producer(topic)
        (part,) = producer._producer._parts
        proxy.refusing = True
        part.reconnect()
        await until(lambda: lines.has("trying again"), lambda: str(lines.texts))
        assert lines.has(f"closing the connection to 127.0.0.1:{proxy.port}: producer of {topic}")
        proxy.refusing = False
        await producer.send(b"back")
    assert default == []


async def test_another_cluster_is_told_to_the_logger_given(
    engine: Engine, topic: str, default: list[str]
) -> None:
    lines = Lines()
    with nobody() as url:
        policy = AutoClusterFailover(
            ServiceInfo(url), [ServiceInfo(engine.url)], check_interval_ms=20
        )
        async with aio.Client(
            policy, logger=lines.logger, initial_backoff_ms=5, max_backoff_ms=50
        ) as client:
            await client.create_producer(topic)
    assert lines.has(f"from the cluster at {url} to that at {engine.url}")
    assert default == []


async def test_what_was_done_is_told_to_the_logger_given(
    engine: Engine, topic: str, default: list[str]
) -> None:
    lines = Lines()
    async with aio.Client(engine.url, logger=lines.logger, stats_interval_in_seconds=1) as client:
        await send_all(await client.create_producer(topic), payloads(4))
        await until(lambda: lines.has("4 messages sent"), lambda: str(lines.texts))
    assert default == []


def test_the_end_of_a_listener_is_told_to_the_logger_given(default: list[str]) -> None:
    class Broken:
        def _take_held(self) -> Message | None:
            raise ConnectError("nothing will come")

        def _give_back(self, message: Message) -> None:
            raise AssertionError("nothing was taken")

    lines = Lines()
    listeners = Listeners(1, lines.logger)
    try:
        listeners.add(Broken(), lambda message: None)
        wait_until(lambda: bool(lines.texts), lambda: "nothing was told")
    finally:
        listeners.stop()
    assert lines.texts == ["a listener ends: nothing will come"]
    assert default == []


# ---- Those of the official client --------------------------------------------


def test_a_file_is_written_at_its_end(tmp_path: Path, default: list[str]) -> None:
    path = tmp_path / "client.log"
    path.write_text("before\n")
    logger = FileLogger(LoggerLevel.Debug, str(path))
    with nobody() as url:
        client = fail_to_connect(url, logger)
    wrote = path.read_text()
    first, second, *_ = wrote.splitlines()
    assert first == "before"
    assert " DEBUG cannot connect to 127.0.0.1:" in second
    client._engine.log.error("after the end")
    assert path.read_text() == wrote
    assert default == []


async def test_clients_with_one_file_logger_write_one_file(
    engine: Engine, topic: str, tmp_path: Path
) -> None:
    path = tmp_path / "client.log"
    logger = FileLogger(LoggerLevel.Warn, str(path))
    async with (
        aio.Client(engine.url, logger=logger) as one,
        aio.Client(engine.url, logger=logger) as two,
    ):
        assert path.read_text() == ""
        for client in (one, two):
            producer = await client.create_producer(topic)
            producer._producer._parts[0].reconnect()
            await producer.send(b"back")
    lines = path.read_text().splitlines()
    assert len([line for line in lines if " WARNING closing the connection" in line]) == 2
    assert not any(" DEBUG " in line for line in lines)


def test_the_console_is_written_from_a_level_on(
    capsys: pytest.CaptureFixture[str], default: list[str]
) -> None:
    with nobody() as url:
        fail_to_connect(url, ConsoleLogger())
        assert capsys.readouterr().out == ""
        fail_to_connect(url, ConsoleLogger(LoggerLevel.Debug))
    assert " DEBUG cannot connect to 127.0.0.1:" in capsys.readouterr().out
    assert default == []


# ---- What is none ------------------------------------------------------------


@pytest.mark.parametrize("door", [magnetar.Client, aio.Client], ids=["blocking", "asyncio"])
@pytest.mark.parametrize("logger", [5, "magnetar", logging, LoggerLevel.Info], ids=repr)
def test_what_is_no_logger_is_refused(door: Any, logger: object) -> None:
    with pytest.raises(SettingsError, match=r"^logger: expected a logging\.Logger, ") as caught:
        door("pulsar://localhost:6650", logger=logger)
    assert isinstance(caught.value, ValueError)  # as the official client's


@pytest.mark.parametrize("door", [magnetar.Client, aio.Client], ids=["blocking", "asyncio"])
@pytest.mark.parametrize("name", ["", "missing/client.log", "client\0log"], ids=repr)
def test_a_file_that_cannot_be_written_is_refused(door: Any, name: str, tmp_path: Path) -> None:
    path = name and f"{tmp_path}/{name}"
    with pytest.raises(SettingsError, match=r"^logger: cannot write the file "):
        door("pulsar://localhost:6650", logger=FileLogger(LoggerLevel.Info, path))
    assert list(tmp_path.iterdir()) == []


def test_a_client_that_is_refused_leaves_no_file(tmp_path: Path) -> None:
    logger = FileLogger(LoggerLevel.Info, str(tmp_path / "client.log"))
    with pytest.raises(magnetar.MagnetarError):
        magnetar.Client("no url", logger=logger)
    assert list(tmp_path.iterdir()) == []
