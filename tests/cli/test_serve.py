"""`magnetar serve`: what it takes, what it says, and how it ends."""

import re
import signal
import socket
import time
from pathlib import Path

import httpx
import pytest
from cli.conftest import Refused, Run
from cli.serving import clean_environment, end, started
from support.broker_process import BrokerProcess

import magnetar
from magnetar.cli import serve
from magnetar.cli.build import build
from magnetar.protocol import encode
from magnetar.protocol import pulsar_pb2 as pb

READY = re.compile(r"ready pulsar://127\.0\.0\.1:(\d+) http://127\.0\.0\.1:(\d+)\n")
# What it promises for an end, apart from what a busy machine adds to everything.
PROMISED_S = 5.0


FREE = ("--port", "0", "--http-port", "0")


# ---- Up and down -----------------------------------------------------------------------


def test_one_line_says_that_it_serves_and_where(tmp_path: Path) -> None:
    with started(*FREE, cwd=tmp_path) as (process, line):
        match = READY.fullmatch(line)
        assert match is not None, line
        port, http_port = int(match[1]), int(match[2])
        assert greeting(port) != b""
        health = httpx.get(f"http://127.0.0.1:{http_port}/admin/v2/brokers/health", timeout=30)
        assert (health.status_code, health.text) == (200, "ok")
        assert end(process)[0] == 0
    assert (tmp_path / "magnetar-data").is_dir()


def test_its_log_begins_with_what_is_served(tmp_path: Path) -> None:
    with started(*FREE, cwd=tmp_path) as (process, line):
        _, url, http_url = line.split()
        _, err = end(process)
    said = [line.partition(" INFO ")[2] for line in err.splitlines()]
    assert said[:4] == [
        f"Magnetar {magnetar.__version__}, {build()}",
        f"data: {tmp_path / 'magnetar-data'}",
        "authentication: off, and everybody on this machine may do everything",
        f"clients and admin REST: {url}, {http_url}",
    ]
    key = tmp_path / "key"
    key.write_bytes(b"k" * 32)
    settings = ("authentication=true", "super_user_roles=ann,bob", f"token_secret_key={key}")
    options = ("--memory", *(f"--set={setting}" for setting in settings))
    with started(*options, *FREE, cwd=tmp_path) as (process, _):
        _, err = end(process)
    assert "data: in memory, gone with this process\n" in err
    assert "authentication: on, and these may do everything: ann, bob\n" in err


def greeting(port: int) -> bytes:
    """What a broker answers to CONNECT."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as peer:
        peer.sendall(encode(pb.CommandConnect(client_version="test", protocol_version=20)))
        return peer.recv(4096)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT], ids=lambda how: how.name)
def test_it_ends_cleanly_with_clients_connected(tmp_path: Path, run: Run, how: int) -> None:
    data = tmp_path / "data"
    with started("--data", data, *FREE, cwd=tmp_path) as (process, line):
        match = READY.fullmatch(line)
        assert match is not None, line
        with socket.create_connection(("127.0.0.1", int(match[1])), timeout=30) as peer:
            peer.sendall(encode(pb.CommandConnect(client_version="test", protocol_version=20)))
            assert peer.recv(4096) != b""
            peer.sendall(
                encode(
                    pb.CommandSubscribe(
                        topic="t", subscription="s", subType=0, consumer_id=0, request_id=1
                    )
                )
            )
            assert peer.recv(4096) != b""
            begin = time.monotonic()
            code, err = end(process, signal.Signals(how))
            took = time.monotonic() - begin
    assert code == 0, err
    assert took < PROMISED_S, f"it took {took:.1f} s"
    code, out, err = run("check", data)
    assert code == 0, out + err


def test_memory_leaves_nothing_behind(tmp_path: Path) -> None:
    with started("--memory", *FREE, cwd=tmp_path) as (process, line):
        assert READY.fullmatch(line)
        assert end(process)[0] == 0
    assert list(tmp_path.iterdir()) == []


# ---- What stands in its way ------------------------------------------------------------


def test_a_second_one_on_the_same_data_says_so(tmp_path: Path, refused: Refused) -> None:
    data = tmp_path / "data"
    with BrokerProcess(data) as first:
        err = refused("--data", data, *FREE)
        assert str(data) in err
        assert "use" in err
        # The first one does not mind.
        assert greeting(int(first.url.rpartition(":")[2])) != b""


@pytest.mark.parametrize("option", ["--port", "--http-port"])
def test_a_port_that_is_taken_is_named(tmp_path: Path, refused: Refused, option: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        ports = dict(zip(FREE[::2], FREE[1::2], strict=True)) | {option: port}
        options = [word for pair in ports.items() for word in pair]
        err = refused("--data", tmp_path / "data", *options)
    assert port in err
    assert "in use" in err


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "file").write_text("not a directory")
    data = tmp_path / "file" / "data"
    assert str(data) in refused("--data", data, *FREE)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--port", "70000"], "port"),
        (["--http-port", "many"], "http_port"),
        (["--set", "ttl_seconds=soon"], "ttl-seconds"),
        (["--set", "ttl_secods=1"], "did you mean ttl_seconds?"),
        (["--set", "ttl_seconds"], "NAME=VALUE"),
        (["--config", "absent.toml"], "absent.toml"),
        (["--broker-conf", "absent.conf"], "absent.conf"),
        (["--bogus"], "--bogus"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
@pytest.mark.usefixtures("unserved")
def test_a_bad_option_is_named(
    tmp_path: Path, refused: Refused, options: list[str], named: str
) -> None:
    assert named in refused("--memory", *options)
    assert list(tmp_path.iterdir()) == []


# ---- Where settings come from ----------------------------------------------------------


def test_variables_stand_in_for_options(tmp_path: Path) -> None:
    environment = clean_environment(
        MAGNETAR_DATA=str(tmp_path / "elsewhere"),
        MAGNETAR_PORT="0",
        MAGNETAR_HTTP_PORT="0",
        MAGNETAR_TTL_SECONDS="1 h",
    )
    with started(cwd=tmp_path, environment=environment) as (process, line):
        assert READY.fullmatch(line)
        assert end(process)[0] == 0
    assert [path.name for path in tmp_path.iterdir()] == ["elsewhere"]


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("MAGNETAR_PORT", "many"),
        ("MAGNETAR_MEMORY", "perhaps"),
        ("MAGNETAR_TTL_SECONDS", "soon"),
    ],
)
@pytest.mark.usefixtures("unserved")
def test_a_bad_variable_is_named(
    refused: Refused, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    err = refused(*FREE[2:])
    assert variable.removeprefix("MAGNETAR_").lower() in err.lower()
    assert value in err


def test_an_option_beats_a_variable_and_that_a_file(
    settled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (settled / "magnetar.toml").write_text('data = "of-the-file"\nport = 0\n')
    plan = serve.plan_of([])
    assert (plan.data, plan.port, plan.http_port) == (Path("of-the-file"), 0, 8080)
    monkeypatch.setenv("MAGNETAR_DATA", "of-the-variable")
    assert serve.plan_of([]).data == Path("of-the-variable")
    assert serve.plan_of(["--data", "of-the-option"]).data == Path("of-the-option")


def test_a_file_of_settings_is_read(settled: Path) -> None:
    (settled / "magnetar.toml").write_text("memory = false\nttl_seconds = 4\n")
    (settled / "settings.toml").write_text("memory = true\nttl_seconds = 5\n")
    for plan in (
        serve.plan_of(["--config", "settings.toml"]),
        serve.plan_of(["--config", str(settled / "settings.toml")]),
    ):
        assert (plan.memory, plan.settings.ttl_seconds) == (True, 5)


@pytest.mark.parametrize(
    ("text", "named"),
    [("ttl_secods = 1", "ttl_secods"), ("ttl_seconds = true", "ttl_seconds"), ("= 1", "TOML")],
)
@pytest.mark.usefixtures("unserved")
def test_what_is_wrong_in_a_file_of_settings_is_named(
    tmp_path: Path, refused: Refused, text: str, named: str
) -> None:
    config = tmp_path / "settings.toml"
    config.write_text(text)
    assert named in refused("--config", config, *FREE)


def test_keys_of_broker_conf_are_honoured_or_explained(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text(
        "acknowledgmentAtBatchIndexLevelEnabled=false\n"
        "managedLedgerMaxUnackedRangesToPersist=10\n"
        "zookeeperServers=localhost:2181\n"
    )
    with started("--memory", "--broker-conf", conf, *FREE, cwd=tmp_path) as (process, line):
        assert READY.fullmatch(line)
        code, err = end(process)
    assert code == 0
    assert err.count("managedLedgerMaxUnackedRangesToPersist") == 1
    assert "acknowledgmentAtBatchIndexLevelEnabled" not in err


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("notAKeyOfPulsar=1", "notAKeyOfPulsar"),
        ("ttlDurationDefaultInSeconds=soon", "ttlDurationDefaultInSeconds"),
    ],
)
@pytest.mark.usefixtures("unserved")
def test_what_is_wrong_in_broker_conf_is_named(
    tmp_path: Path, refused: Refused, line: str, named: str
) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text(line)
    assert named in refused("--memory", "--broker-conf", conf, *FREE)
