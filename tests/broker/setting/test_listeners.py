"""Advertised listeners: who is told which address."""

from collections.abc import Iterator
from typing import Any

import pulsar
import pytest
from support.ports import free_ports
from support.served import Served
from support.wire_client import refused
from support.world import World

import magnetar
from magnetar.broker.setting.listeners import read_listeners
from magnetar.broker.setting.settings import BrokerSettings
from magnetar.errors import SettingsError
from magnetar.model import ServerError
from magnetar.protocol import pulsar_pb2 as pb

LISTENERS = (
    "internal:pulsar://10.0.0.5:6650",
    "external:pulsar+ssl://broker.example.com:6651",
    "external:pulsar://broker.example.com:6650",
    "external:https://broker.example.com:8443",
    "six:pulsar://[::1]:6650",
)


def lookup(world: World, listener: str = "") -> tuple[str, str]:
    command = pb.CommandLookupTopic(topic="t", advertised_listener_name=listener)
    answer = world.connect().request(command)
    return answer.brokerServiceUrl, answer.brokerServiceUrlTls


def test_a_client_gets_the_listener_that_it_names() -> None:
    world = World(advertised_listeners=LISTENERS)
    assert lookup(world) == ("pulsar://10.0.0.5:6650", "")
    assert lookup(world, "internal") == lookup(world)
    assert lookup(world, "external") == (
        "pulsar://broker.example.com:6650",
        "pulsar+ssl://broker.example.com:6651",
    )
    assert lookup(world, "six") == ("pulsar://[::1]:6650", "")
    with refused(ServerError.ServiceNotReady, "the broker do not have other listener"):
        lookup(world, "other")


def test_the_internal_listener_may_be_another_than_the_first() -> None:
    world = World(advertised_listeners=LISTENERS, internal_listener_name="external")
    assert lookup(world)[1] == "pulsar+ssl://broker.example.com:6651"


def test_without_listeners_it_is_the_address_that_was_reached() -> None:
    assert lookup(World()) == ("pulsar://broker:6650", "")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "internal",
        "pulsar://host:6650",
        "internal:pulsar://host",
        "internal:pulsar://host:",
        "internal:pulsar://host:0",
        "internal:pulsar://host:70000",
        "internal:pulsar://host:\u0663",
        "internal:pulsar://:6650",
        "internal:kafka://host:6650",
        "internal:pulsar://host:6650/path",
        "internal:pulsar://me@host:6650",
        "internal:pulsar://::1:6650",
        ":pulsar://host:6650",
        "internal:http://host:8080",
    ],
)
def test_what_is_no_listener(text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read_listeners((text,), "")
    assert caught.value.key == "advertised_listeners"


def test_an_address_may_not_be_said_twice() -> None:
    with pytest.raises(SettingsError, match="two addresses of pulsar"):
        read_listeners(("a:pulsar://h:1", "a:pulsar://h:2"), "")


@pytest.mark.parametrize("listeners", [(), LISTENERS])
def test_an_internal_listener_that_is_not_there(listeners: tuple[str, ...]) -> None:
    with pytest.raises(SettingsError, match="there is no listener 'x'") as caught:
        BrokerSettings(advertised_listeners=listeners, internal_listener_name="x")
    assert caught.value.key == "internal_listener_name"


# ---- With clients ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """By `good` the broker can be reached, and where `bad` leads nobody listens."""
    (port,) = free_ports(1)
    listeners = (
        "bad:pulsar://127.0.0.1:1",
        "bad:http://127.0.0.1:1",
        f"good:pulsar://127.0.0.1:{port}",
    )
    served = Served(BrokerSettings(advertised_listeners=listeners), port=port)
    served.start()
    yield served
    served.stop()


@pytest.mark.parametrize("library", [pulsar, magnetar], ids=["official", "ours"])
def test_clients_go_where_they_are_told(library: Any, served: Served) -> None:
    options = {"logger": library.ConsoleLogger(library.LoggerLevel.Error)}
    client = library.Client(served.url, listener_name="good", **options)
    client.create_producer("t").send(b"x")
    client.close()
    client = library.Client(served.url, operation_timeout_seconds=1, **options)
    with pytest.raises(library.PulsarException):
        client.create_producer("t")
    client.close()


def test_rest_looks_up_by_listener_too(served: Served) -> None:
    root = f"{served.http_url}/lookup/v2/topic/persistent/public/default/t"
    get = served.http.get
    assert get(root).json()["brokerUrl"] == "pulsar://127.0.0.1:1"
    assert get(root).json()["httpUrl"] == "http://127.0.0.1:1"
    assert get(root, params={"listenerName": "good"}).json()["brokerUrl"] == served.url
    named = get(root, headers={"X-Pulsar-ListenerName": "good"}).json()
    assert (named["nativeUrl"], named["httpUrl"]) == (served.url, "")
    refused = get(root, params={"listenerName": "other"})
    assert (refused.status_code, "other listener" in refused.text) == (404, True)
