"""What pipelines are given in tests: the broker as their target, or one that is to be killed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.broker_process import BrokerProcess

from magnetar.spark.pipelines.letter.target import Target


@pytest.fixture
def target(broker: BrokerProcess) -> Target:
    return Target(broker.url, broker.http_url)


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    options = ["--set", "ledger_entries_max=100", "--set", "delete_inactive_topics=false"]
    with BrokerProcess(tmp_path / "data", options=options) as process:
        yield process
