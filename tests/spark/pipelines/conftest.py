"""What pipelines are given in tests: the broker as their target."""

import pytest
from support.broker_process import BrokerProcess

from magnetar.spark.pipelines.target import Target


@pytest.fixture
def target(broker: BrokerProcess) -> Target:
    return Target(broker.url, broker.http_url)
