"""A broker with a coordinator of transactions: Apache Pulsar, where that can be had, and ours."""

from collections.abc import Iterator

import pytest
from client.conftest import Engine

from magnetar.broker.setting.settings import SETTINGS, BrokerSettings
from magnetar.testing.embedded import EmbeddedBroker

# A broker of ours that has the setting has transactions.
OURS = ["ours"] if "transactions" in SETTINGS else []


@pytest.fixture(scope="session", params=[*OURS, pytest.param("apache", marks=pytest.mark.apache)])
def coordinated(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """An engine that has transactions."""
    if request.param == "ours":
        options = {"transactions": True}
        with EmbeddedBroker(BrokerSettings(**options)) as broker:  # type: ignore[arg-type]
            yield Engine(broker.url, broker.http_url, broker)
        return
    from apache.harness import ApachePulsar, require_artifacts

    require_artifacts()
    with ApachePulsar(fsync=False, transactions=True) as apache:
        yield Engine(apache.url, apache.http_url)
