"""Fixtures for the tests of programs that use a broker; pytest finds them by itself.

`magnetar_broker`   one broker for the whole run, in this process, with nothing on disk
`magnetar_client`   a client of it, for one test

pytest loads this file wherever Magnetar is installed, so it loads nothing itself: the broker
comes with the first test that wants one.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from magnetar.client.door.blocking import Client
    from magnetar.testing.embedded import EmbeddedBroker

__all__ = ["magnetar_broker", "magnetar_client"]


@pytest.fixture(scope="session")
def magnetar_broker() -> "Iterator[EmbeddedBroker]":
    """A broker in memory: `url` for clients, `http_url` for REST, `topic()` for a new name.

    All tests of the run share it, so each should use topics of its own.
    """
    from magnetar.testing.embedded import EmbeddedBroker

    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture
def magnetar_client(magnetar_broker: "EmbeddedBroker") -> "Iterator[Client]":
    """A blocking client of `magnetar_broker`, closed after the test."""
    from magnetar.client.door.blocking import Client

    with Client(magnetar_broker.url) as client:
        yield client
