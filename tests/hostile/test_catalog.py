"""A right that was taken back stays so, whatever becomes of the catalog's files."""

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from hostile.asker import LONG
from hostile.limited import limited
from hostile.probe import MEMORY_BYTES, Probe
from support.broker_process import BrokerProcess

import magnetar
from magnetar.cli.data.check import verify

# Each is written to the catalog, and the journal knows of it.
CHANGES = 500 if LONG else 50
GUEST = "admin/v2/namespaces/public/default/permissions/guest"


def ask(broker: BrokerProcess, method: str, path: str, body: object = None) -> None:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{broker.http_url}/{path}", data, method=method)
    request.add_header("content-type", "application/json")
    urllib.request.urlopen(request, timeout=20).close()


@pytest.fixture
def revoked(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker that was killed after a right was granted and taken back."""
    with BrokerProcess(tmp_path) as broker:
        ask(broker, "PUT", "admin/v2/tenants/acme", {"allowedClusters": ["standalone"]})
        ask(broker, "POST", GUEST, ["produce", "consume"])
        ask(broker, "DELETE", GUEST)
        with magnetar.Client(broker.url) as client:
            # What was queued before a receipt is durable with it.
            client.create_producer("persistent://public/default/t").send(b"x")
        broker.kill()
        yield broker


def wrong_with(directory: Path) -> list[str]:
    violations, _ = verify(directory)
    return [f"{violation.path}: {violation.reason}" for violation in violations]


def test_a_flipped_bit_brings_no_right_back(tmp_path: Path, revoked: BrokerProcess) -> None:
    assert wrong_with(tmp_path) == []
    wal = tmp_path / "catalog.sqlite-wal"
    data = bytearray(wal.read_bytes())
    data[-100] ^= 1
    wal.write_bytes(data)
    (wrong,) = wrong_with(tmp_path)
    assert "the journal knows generation" in wrong
    with pytest.raises(AssertionError, match="ended with 2") as refused:
        revoked.start()
    assert "restore the directory from a backup" in str(refused.value)


def test_a_lost_catalog_is_missed_until_an_operator_accepts_that(
    tmp_path: Path, revoked: BrokerProcess
) -> None:
    for file in tmp_path.glob("catalog.sqlite*"):
        file.unlink()
    (wrong,) = wrong_with(tmp_path)
    assert wrong == "catalog.sqlite: it is missing, and the journal knows one"
    with pytest.raises(AssertionError, match=r"catalog\.sqlite is missing"):
        revoked.start()
    assert not (tmp_path / "catalog.sqlite").exists()
    revoked.options = ["--accept-loss"]
    revoked.start()
    assert "going on after a loss, as told" in revoked.stderr
    # What is made anew is written and copied while somebody is served.
    with Probe(revoked) as probe:
        for number in range(CHANGES):
            ask(revoked, "PUT", f"admin/v2/tenants/t{number}", {"allowedClusters": ["standalone"]})
    probe.check()
    revoked.options = []
    revoked.restart()
    assert revoked.stop() == 0
    assert wrong_with(tmp_path) == []
    assert (tmp_path / "catalog.sqlite.good").stat().st_mode & 0o077 == 0


def test_rights_that_come_and_go_all_the_while_hold_up_nobody(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, command=limited(memory_bytes=MEMORY_BYTES)) as broker:
        with Probe(broker) as probe:
            for number in range(CHANGES):
                ask(broker, "POST", f"{GUEST}-{number % 10}", ["produce", "consume"])
                ask(broker, "DELETE", f"{GUEST}-{number % 10}")
        probe.check()
        broker.kill()
        assert wrong_with(tmp_path) == []
