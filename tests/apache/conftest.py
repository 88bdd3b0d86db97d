"""The broker that Apache Pulsar's own tools and client drive: ours.

MAGNETAR_APACHE_TARGET=apache puts Apache Pulsar itself in its place, to see whether it is
the tests that are wrong.
"""

from collections.abc import Iterator

import pytest
from apache.harness import AGAINST_APACHE, ApachePulsar, Broker, require_artifacts
from support.broker_process import BrokerProcess


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One for all tests of a module: each has topics of its own."""
    require_artifacts()
    if AGAINST_APACHE:
        with ApachePulsar() as apache:
            yield apache
    else:
        with BrokerProcess(tmp_path_factory.mktemp("data")) as ours:
            yield ours
