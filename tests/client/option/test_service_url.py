"""Service URLs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.client.option.service_url import parse_service_url
from magnetar.errors import InvalidUrl


@pytest.mark.parametrize(
    ("url", "hosts", "tls", "http"),
    [
        ("pulsar://localhost", [("localhost", 6650)], False, False),
        ("pulsar://localhost:6650/", [("localhost", 6650)], False, False),
        ("pulsar+ssl://one,two:7001", [("one", 6651), ("two", 7001)], True, False),
        ("http://one:80", [("one", 80)], False, True),
        ("HTTPS://One", [("One", 8443)], True, True),
        (" pulsar://one , two ", [("one", 6650), ("two", 6650)], False, False),
        ("pulsar://[::1]:99,[fe80::1]", [("::1", 99), ("fe80::1", 6650)], False, False),
        ("http://10.0.0.1", [("10.0.0.1", 8080)], False, True),
    ],
)
def test_url_is_taken_apart(url: str, hosts: list[tuple[str, int]], tls: bool, http: bool) -> None:
    parsed = parse_service_url(url)
    assert parsed.hosts == hosts
    assert parsed.tls == tls
    assert parsed.http == http
    assert parse_service_url(str(parsed)).hosts == hosts


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("", "no scheme"),
        ("localhost:6650", "no scheme"),
        ("kafka://localhost", "'kafka': use one of pulsar, pulsar\\+ssl, http, https"),
        ("pulsar://", "host is missing"),
        ("pulsar://one,,two", "host is missing"),
        ("pulsar://one,", "host is missing"),
        ("pulsar://:6650", "host is missing"),
        ("pulsar://a b", "'a b' is not a host"),
        ("pulsar://one:", "'' is not a port"),
        ("pulsar://one:x", "'x' is not a port"),
        ("pulsar://one:0", "'0' is not a port"),
        ("pulsar://one:65536", "'65536' is not a port"),
        ("pulsar://one:-1", "'-1' is not a port"),
        ("pulsar://one:٣", "is not a port"),
        ("pulsar://one:99999999999999999999", "is not a port"),
        ("pulsar://::1", "in brackets"),
        ("pulsar://[::1", "address in brackets"),
        ("pulsar://[::1]6650", "address in brackets"),
        ("pulsar://[]:1", "host is missing"),
        ("pulsar://one/path", "behind the hosts"),
        ("pulsar://one?x=1", "behind the hosts"),
        ("http://one#x", "behind the hosts"),
        ("http://user:secret@one", "user name"),
    ],
)
def test_bad_url_gets_one_clear_error(url: str, reason: str) -> None:
    with pytest.raises(InvalidUrl, match=reason):
        parse_service_url(url)


@given(st.text(max_size=40) | st.text("pulsar+:/[],.0129 ", max_size=40))
def test_any_text_is_a_url_or_refused(text: str) -> None:
    for url in (text, "pulsar://" + text):
        try:
            parsed = parse_service_url(url)
        except InvalidUrl:
            continue
        assert parsed.hosts
        assert all(host and 0 < port < 65536 for host, port in parsed.hosts)
