"""Brokers to move from and to, and the command that does it, run in this process."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from cli.broker_cli import BrokerCli, Ran
from migrate.world import Ends

from magnetar.testing.embedded import EmbeddedBroker


@pytest.fixture(autouse=True)
def no_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests may have profiles and a token, which are none of their business."""
    monkeypatch.setenv("XDG_CONFIG_HOME", "/dev/null/none")
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[Ends]:
    """Two embedded brokers: a source and a target."""
    with (
        EmbeddedBroker() as source,
        EmbeddedBroker() as target,
        closing(
            Ends(source.url, source.http_url, target.url, target.http_url, tmp_path / "journal")
        ) as ends,
    ):
        yield ends


__all__ = ["BrokerCli", "Ran"]
