"""Clusters to choose from, against the official client's."""

from collections.abc import Callable
from typing import Any

import pulsar
import pytest

from magnetar.client.option import service_info
from magnetar.client.option.authentication import AuthenticationToken
from magnetar.client.option.service_info import (
    AutoClusterFailover,
    ServiceInfo,
    ServiceInfoProvider,
)
from magnetar.errors import InvalidUrl, SettingsError

BOTH: list[Any] = [service_info, pulsar]
URLS = ["pulsar://a:1", "pulsar+ssl://a:1", "pulsar://a:1,b:2", "http://a:80", "https://a"]


@pytest.mark.parametrize("url", URLS)
def test_an_info_says_what_the_official_one_says(url: str) -> None:
    ours, theirs = (s.ServiceInfo(url, tls_trust_certs_file_path="certs") for s in BOTH)
    assert repr(ours) == repr(theirs)
    for name in ("service_url", "use_tls", "tls_trust_certs_file_path"):
        assert getattr(ours, name) == getattr(theirs, name)


def test_an_info_keeps_its_authentication() -> None:
    token = AuthenticationToken("t")
    assert ServiceInfo("pulsar://a", token).authentication is token
    assert ServiceInfo("pulsar://a").authentication is None


def test_a_failover_says_what_the_official_one_says() -> None:
    ours, theirs = (
        s.AutoClusterFailover(
            s.ServiceInfo("pulsar://a:1"), [s.ServiceInfo("pulsar://b:1")], failover_threshold=3
        )
        for s in BOTH
    )
    assert repr(ours) == repr(theirs)


WRONG: dict[str, Callable[[Any], Any]] = {
    "no url": lambda s: s.ServiceInfo("somewhere"),
    "no str": lambda s: s.ServiceInfo(5),
    "no authentication": lambda s: s.ServiceInfo("pulsar://a", 5),
    "no path": lambda s: s.ServiceInfo("pulsar://a", None, 5),
    "no primary": lambda s: s.AutoClusterFailover("pulsar://a", [s.ServiceInfo("pulsar://b")]),
    "no list": lambda s: s.AutoClusterFailover(s.ServiceInfo("pulsar://a"), None),
    "no secondary": lambda s: s.AutoClusterFailover(s.ServiceInfo("pulsar://a"), []),
    "no info": lambda s: s.AutoClusterFailover(s.ServiceInfo("pulsar://a"), [5]),
    "no interval": lambda s: s.AutoClusterFailover(
        s.ServiceInfo("pulsar://a"), [s.ServiceInfo("pulsar://b")], check_interval_ms=0
    ),
    "no number": lambda s: s.AutoClusterFailover(
        s.ServiceInfo("pulsar://a"), [s.ServiceInfo("pulsar://b")], failover_threshold="1"
    ),
    "less than none": lambda s: s.AutoClusterFailover(
        s.ServiceInfo("pulsar://a"), [s.ServiceInfo("pulsar://b")], switch_back_threshold=-1
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_values_are_value_errors_as_there(name: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        WRONG[name](pulsar)
    with pytest.raises((SettingsError, InvalidUrl)) as raised:
        WRONG[name](service_info)
    assert isinstance(raised.value, ValueError)


def test_a_provider_must_say_where_it_begins() -> None:
    bare = ServiceInfoProvider()
    with pytest.raises(NotImplementedError, match="must say where"):
        bare.initial_service_info()
    with pytest.raises(NotImplementedError, match="must take the function"):
        bare.initialize(lambda info: None)
    bare.close()


def test_a_failover_takes_a_copy_of_its_list() -> None:
    others = [ServiceInfo("pulsar://b")]
    failover = AutoClusterFailover(ServiceInfo("pulsar://a"), others)
    others.clear()
    assert [info.service_url for info in failover.secondary] == ["pulsar://b"]
