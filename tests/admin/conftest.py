"""Brokers for the tests of admin REST."""

from collections.abc import Callable, Iterator

import pytest
from support.served import Served

from magnetar.broker.setting.settings import BrokerSettings


@pytest.fixture(scope="session")
def shared_broker() -> Iterator[Served]:
    served = Served(BrokerSettings(transactions=True))
    served.start()
    yield served
    served.stop()


@pytest.fixture
def served(shared_broker: Served) -> Served:
    """A broker that all tests share; each takes a namespace of its own."""
    return shared_broker


@pytest.fixture
def topic(served: Served) -> str:
    """A topic without subscriptions, in a namespace of its own."""
    name = f"{served.namespace()}/orders"
    assert served.http.put(f"/persistent/{name}").status_code == 204
    return name


@pytest.fixture
def own_broker() -> Iterator[Callable[[BrokerSettings], Served]]:
    """Makes brokers with settings of their own."""
    started: list[Served] = []

    def make(settings: BrokerSettings) -> Served:
        served = Served(settings)
        served.start()
        started.append(served)
        return served

    yield make
    for served in started:
        served.stop()
