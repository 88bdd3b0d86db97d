"""Small doors: who may read the files, which hosts are believed, what is printed and followed.

| what                                         | here, with a probe | elsewhere                  |
|----------------------------------------------|--------------------|----------------------------|
| modes of files and directories, backups too  | yes                | tests/cli/data             |
| patterns of clients on standard error        | yes                | tests/broker               |
| links in a directory that is backed up       | yes                | tests/cli/data             |
| a Host that names another host               | yes                | tests/admin/http           |
| /metrics for strangers                       | yes                | tests/admin/http           |
| certificates that are revoked                | no, it needs TLS   | tests/peer/test_security.py |
"""

import os
import socket
import stat
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from cli.broker_cli import BrokerCli
from hostile.asker import LONG
from hostile.attacker import Attacker
from hostile.limited import limited
from hostile.probe import MEMORY_BYTES, Probe
from support.broker_process import BrokerProcess
from support.tokens import SECRET_SETTING, token

import magnetar
from magnetar.protocol import pulsar_pb2 as pb

ROUNDS = 200 if LONG else 20
PATTERNS = 1000 if LONG else 100
HOSTS = ("localhost:80@evil.example", "evil.example", "localhost.evil.example", "[evil]", "a b")


def for_others(top: Path) -> list[str]:
    """What somebody else than its owner could read."""
    return [
        f"{path} {stat.filemode(path.lstat().st_mode)}"
        for path in (top, *top.rglob("*"))
        if path.lstat().st_mode & 0o077
    ]


def get(broker: BrokerProcess, path: str, host: str, proof: str = "") -> int:
    """The status of an answer."""
    there = urlsplit(broker.http_url)
    authorization = f"Authorization: Bearer {proof}\r\n" if proof else ""
    request = f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{authorization}Connection: close\r\n\r\n"
    with socket.create_connection((there.hostname, there.port), timeout=60) as asker:
        asker.sendall(request.encode())
        with asker.makefile("rb") as answer:
            return int(answer.readline().split()[1])


def test_whatever_the_umask_nobody_else_may_read_what_is_stored(tmp_path: Path) -> None:
    data, backup = tmp_path / "data", tmp_path / "backup"
    (tmp_path / "others").write_text("secret")
    open_handed = f"import os, sys; os.umask(0); os.execv({sys.executable!r}, sys.argv[1:])"
    serve = limited(memory_bytes=MEMORY_BYTES)
    command = (sys.executable, "-c", open_handed, *serve)
    options = ("--set", "segment_bytes=1048576", "--set", "ledger_entries_max=10")
    with BrokerProcess(data, command=command, options=options) as broker:
        with Probe(broker) as probe, magnetar.Client(broker.url) as client:
            producer = client.create_producer("t", batching_enabled=False)
            for _ in range(ROUNDS):
                producer.send(bytes(50_000))
            (data / "stolen").symlink_to(tmp_path / "others")
            umask = os.umask(0)
            try:
                copied = BrokerCli(broker.url, broker.http_url).run("backup", data, backup)
            finally:
                os.umask(umask)
            assert copied.code == 0, copied
            assert "left out, since they are links: stolen" in copied.err
            (data / "stolen").unlink()
        probe.check()
        broker.stop()
        assert len(list((data / "journal").glob("*.log"))) > 0
        assert for_others(data) == []
        assert for_others(backup) == []
        assert not (backup / "stolen").exists()


def test_patterns_of_clients_are_not_printed(tmp_path: Path) -> None:
    with (
        BrokerProcess(tmp_path, command=limited(memory_bytes=MEMORY_BYTES)) as broker,
        Probe(broker) as probe,
        Attacker(broker.url) as attacker,
    ):
        attacker.shout(
            pb.CommandGetTopicsOfNamespace(
                request_id=number,
                namespace="public/default",
                topics_pattern=f"public/default/a-secret-{number}(",
            )
            for number in range(PATTERNS)
        )
        attacker.read_answers(PATTERNS)
        attacker.answers.clear()
        attacker.shout(
            pb.CommandWatchTopicList(
                request_id=number,
                watcher_id=number,
                namespace="public/default",
                topics_pattern=f"public/default/a-secret-{number}(",
            )
            for number in range(PATTERNS)
        )
        refused = attacker.read_answers(PATTERNS)
        assert {type(one) for one in refused} == {pb.CommandError}
        assert "a-secret" not in broker.stderr
    probe.check()


@pytest.mark.parametrize("path", ["/metrics", "/admin/v2/brokers/ready", "/admin/v2/clusters"])
def test_requests_in_the_name_of_other_hosts_are_refused(tmp_path: Path, path: str) -> None:
    with BrokerProcess(tmp_path, command=limited(memory_bytes=MEMORY_BYTES)) as broker:
        with Probe(broker) as probe:
            assert get(broker, path, "localhost") == 200
            for number in range(ROUNDS):
                assert get(broker, path, HOSTS[number % len(HOSTS)]) in (400, 403)
        probe.check()


def test_metrics_can_be_closed_to_strangers(tmp_path: Path) -> None:
    options = [
        f"--set={setting}"
        for setting in (
            "authentication=true",
            f"token_secret_key={SECRET_SETTING}",
            "super_user_roles=admin",
            "authenticate_metrics=true",
        )
    ]
    admin = token("admin")
    command = limited(memory_bytes=MEMORY_BYTES)
    with BrokerProcess(tmp_path, command=command, options=options) as broker:
        with Probe(broker, token=admin) as probe:
            for _ in range(ROUNDS):
                assert get(broker, "/metrics", "localhost") == 401
                assert get(broker, "/metrics", "localhost", "no.token.this") == 401
            assert get(broker, "/metrics", "localhost", admin) == 200
        probe.check()
