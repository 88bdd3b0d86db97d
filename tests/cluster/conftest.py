"""A cluster of Apache Pulsar for all tests here: started once, whole again before each test.

It takes half a minute to start and 1.4 GB, so these tests run where MAGNETAR_CLUSTER is set
(`make test-long` does that) or MAGNETAR_REQUIRE names `cluster`.
"""

import re
from collections.abc import Iterator

import pytest
from cluster.pulsar_cluster import PulsarCluster, require_cluster


@pytest.fixture(scope="session")
def shared_cluster() -> Iterator[PulsarCluster]:
    require_cluster()
    with PulsarCluster(proxy=True) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared_cluster: PulsarCluster) -> PulsarCluster:
    """All of its members are alive when a test begins."""
    shared_cluster.restore()
    return shared_cluster


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")
    return f"persistent://public/default/{name}"
