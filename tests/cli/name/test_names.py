"""Names that the shell completes, and names that were mistyped."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.broker_cli import BrokerCli
from support.web import lacking

from magnetar.cli.app import app
from magnetar.cli.name import complete
from magnetar.testing.embedded import EmbeddedBroker

MAGNETAR = "import sys; sys.argv[0] = 'magnetar'; from magnetar.cli.main import main; main()"


@pytest.fixture(scope="module")
def cli() -> Iterator[BrokerCli]:
    with EmbeddedBroker() as broker:
        found = BrokerCli(broker.url, broker.http_url)
        found.ok("topics", "create", "orders")
        found.ok("subscriptions", "create", "orders", "-s", "billing")
        found.ok("subscriptions", "create", "orders", "-s", "shipping")
        found.ok("topics", "create-partitioned-topic", "orders-eu", "-p", "3")
        found.ok("topics", "create", "invoices")
        found.ok("tenants", "create", "shop")
        found.ok("namespaces", "create", "shop/eu")
        found.ok("topics", "create", "shop/eu/stock")
        yield found


def completed(cli: BrokerCli, *words: str, admin_url: str = "") -> list[str]:
    """What the shell is told; the last word is incomplete."""
    from typer._completion_classes import BashComplete
    from typer.main import get_command

    line = ["--admin-url", admin_url or cli.admin_url, *words]
    shell = BashComplete(get_command(app), {}, "magnetar", "_MAGNETAR_COMPLETE")
    return [one.value for one in shell.get_completions(line[:-1], line[-1])]


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("topics stats ord", ["orders", "orders-eu"]),
        ("topics stats shop/eu/", ["shop/eu/stock"]),
        ("topics stats persistent://shop/eu/st", ["persistent://shop/eu/stock"]),
        ("topics stats shop/", []),
        ("topics set-retention inv", ["invoices"]),
        ("--namespace shop/eu produce ", ["stock"]),
        ("consume orders -s b", ["billing"]),
        ("peek orders -s ", ["billing", "shipping"]),
        ("topics unsubscribe orders --subscription sh", ["shipping"]),
        ("pipeline audit -t inv", ["invoices"]),
        ("topics list s", ["shop/eu"]),
        ("namespaces delete public/", ["public/default"]),
        ("tenants get s", ["shop"]),
        ("consume nothing -s ", []),
        ("peek -s ", []),
    ],
)
def test_names_are_completed(cli: BrokerCli, line: str, names: list[str]) -> None:
    assert completed(cli, *line.split(" ")) == names


def test_without_a_broker_there_are_no_names_and_no_errors(
    cli: BrokerCli, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert completed(cli, "topics", "stats", "o", admin_url="http://127.0.0.1:1") == []
    assert completed(cli, "topics", "stats", "o", admin_url="nonsense") == []
    # It takes connections, and says nothing.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr(complete, "LIMIT_S", 0.05)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert completed(cli, "topics", "stats", "o", admin_url=url) == []
    assert capfd.readouterr() == ("", "")


def test_a_shell_is_answered_by_the_program(cli: BrokerCli, tmp_path: Path) -> None:
    asked = {
        "COMP_WORDS": "magnetar consume orders -s bil",
        "COMP_CWORD": "4",
        "_MAGNETAR_COMPLETE": "complete_bash",
        "MAGNETAR_ADMIN_URL": cli.admin_url,
    }
    ran = subprocess.run(
        [sys.executable, "-c", MAGNETAR],
        env=os.environ | asked,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "billing\n", "")


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("topics stats ordres", "; did you mean orders?"),
        ("topics stats public/default/ordres", "; did you mean public/default/orders?"),
        ("topics delete Orders", "; did you mean orders?"),
        ("topics stats invoice-partition-3", "; did you mean invoices?"),
        ("peek orders -s biling", "; did you mean billing?"),
        ("peek orders -s x", "; there are: billing, shipping"),
        ("subscriptions clear-backlog orders -s shiping", "; did you mean shipping?"),
        ("topics stats shop/ue/stock", "; did you mean persistent://shop/eu/stock?"),
        ("topics list shop/ue", "; did you mean shop/eu?"),
        ("topics list shopp/eu", "; did you mean shop/eu?"),
        ("produce shop/ue/stock -m x", "; did you mean persistent://shop/eu/stock?"),
        ("topics stats nothing-like-it", "(HTTP 404)"),
        ("tenants get public2", "(HTTP 404)"),
    ],
)
def test_near_names_are_told(cli: BrokerCli, line: str, hint: str) -> None:
    ran = cli.run(*line.split())
    assert (ran.code, ran.out) == (5, "")
    assert ran.err.endswith(f"{hint}\n"), ran.err
    assert ran.err.count("\n") == 1


def test_without_a_list_nothing_is_guessed(cli: BrokerCli) -> None:
    with lacking(cli.admin_url, "/persistent/public/default") as url:
        ran = cli.run("topics", "stats", "ordres", admin_url=url)
    assert ran.code == 5
    assert "did you mean" not in ran.err
