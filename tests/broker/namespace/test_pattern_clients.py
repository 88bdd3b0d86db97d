"""Subscriptions by a pattern that ends where the names of partitioned topics do."""

import re
from collections.abc import Iterator
from typing import Any

import pulsar
import pytest
from support.served import Served

import magnetar
from magnetar.broker.namespace.topic_list import TopicFilter
from magnetar.errors import BrokerError


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    served = Served()
    served.start()
    yield served
    served.stop()


@pytest.mark.parametrize("module", [pulsar, magnetar])
@pytest.mark.parametrize("ending", ["[ab]", "[ab]$", "a|nothing"])
def test_partitions_are_found_by_the_name_of_their_topic(
    served: Served, module: Any, ending: str
) -> None:
    namespace = served.namespace()
    for name, partitions in (("a", 2), ("b", 0), ("c", 2)):
        path = f"/persistent/{namespace}/t-{name}"
        if partitions:
            assert served.http.put(f"{path}/partitions", json=partitions).status_code == 204
        else:
            assert served.http.put(path).status_code == 204
    pattern = re.compile(f"persistent://{namespace}/t-({ending})")
    client = module.Client(served.url)
    try:
        consumer = client.subscribe(
            pattern,
            "s",
            initial_position=module.InitialPosition.Earliest,
            pattern_auto_discovery_period=1,
        )
        for name in "abc":
            producer = client.create_producer(f"persistent://{namespace}/t-{name}")
            producer.send(name.encode())
            producer.send(name.encode())
        wanted = [b"a", b"a"] + [b"b", b"b"] * ("b" in ending)
        got = [consumer.receive(timeout_millis=30_000).data() for _ in wanted]
        assert sorted(got) == wanted
        with pytest.raises(module.Timeout):
            consumer.receive(timeout_millis=100)
    finally:
        client.close()


def test_a_pattern_that_is_none_is_not_printed(capfd: pytest.CaptureFixture[str]) -> None:
    """RE2 writes what it cannot compile to standard error, unless it is told not to."""
    with pytest.raises(BrokerError, match="no topics pattern"):
        TopicFilter("(never-printed", 50)
    assert "never-printed" not in capfd.readouterr().err


@pytest.mark.parametrize("pattern", [r"[\pL]{400}", r"(\pL{30}){30}", r"(\w?){900}"])
def test_a_pattern_that_becomes_a_large_program_is_refused(pattern: str) -> None:
    with pytest.raises(BrokerError, match="topics pattern"):
        TopicFilter(pattern, 50)


def test_what_matching_costs_grows_with_pattern_and_name() -> None:
    short, long = "public/default/orders", "public/default/" + "ab" * 400
    plain, slow = TopicFilter("public/default/.*", 50), TopicFilter(r".*(\w?){400}", 50)
    assert (plain.cost(short), plain.cost(long)) == (1, 3)
    assert slow.cost(short) > 5
    assert slow.cost(long) > 200
    assert slow.cost("public/default/" + "é" * 400) == pytest.approx(2 * slow.cost(long), rel=0.1)
