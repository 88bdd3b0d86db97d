"""Patterns of topics, a few characters each, that are large once they are compiled, or slow.

| attack                                              | before                                   |
|-----------------------------------------------------|------------------------------------------|
| 50 look-ups by 60 characters that compile to 3 MiB  | 30 ms in one event, and 180 MiB kept     |
| one look-up by a slow pattern over long names       | 800 ms in one event                      |
| topics that come while slow patterns are watched    | 500 of such matches in one event         |
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hostile.asker import LONG, Asker
from hostile.limited import limited
from hostile.probe import MEMORY_BYTES, Probe
from support.broker_process import BrokerProcess

from magnetar.protocol import pulsar_pb2 as pb

NAMESPACE = "public/default"
PATTERNS = 500 if LONG else 128
TOPICS = 300 if LONG else 40
LONG_NAME = "ab" * 470
SLOW = r".*(\w?){400}"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path, command=limited(memory_bytes=MEMORY_BYTES)) as broker:
        yield broker


def look_up(number: int, pattern: str) -> pb.CommandGetTopicsOfNamespace:
    return pb.CommandGetTopicsOfNamespace(
        request_id=number, namespace=NAMESPACE, topics_pattern=f"{NAMESPACE}/{pattern}"
    )


def watch(number: int, pattern: str) -> pb.CommandWatchTopicList:
    return pb.CommandWatchTopicList(
        request_id=number,
        watcher_id=number,
        namespace=NAMESPACE,
        topics_pattern=f"{NAMESPACE}/{pattern}",
    )


def create_long_names(asker: Asker, first: int) -> None:
    asker.ask(
        [
            pb.CommandProducer(
                topic=f"persistent://{NAMESPACE}/{LONG_NAME}{number}",
                producer_id=number,
                request_id=number,
            )
            for number in range(first, first + TOPICS)
        ]
    )


def test_patterns_that_compile_to_megabytes_are_refused(broker: BrokerProcess) -> None:
    with Probe(broker) as probe, Asker(broker.url) as asker:
        answers = asker.ask([look_up(n, r"[\pL]{400}" + f"{n}") for n in range(PATTERNS)])
        # As one that cannot be compiled: clients filter the list themselves.
        assert [one for one in answers if getattr(one, "filtered", True)] == []
        answers = asker.ask([watch(n, r"[\pL]{400}" + f"{n}") for n in range(100)])
        assert {type(one) for one in answers} == {pb.CommandError}
    probe.check()


def test_slow_patterns_over_long_names_stall_nobody(broker: BrokerProcess) -> None:
    with Asker(broker.url) as owner:
        create_long_names(owner, 0)
        with Probe(broker) as probe, Asker(broker.url) as asker:
            (answer,) = asker.ask([look_up(1, SLOW)])
            assert isinstance(answer, pb.CommandGetTopicsOfNamespaceResponse)
            # The probe's own topic is there too.
            assert answer.filtered
            assert len(answer.topics) == TOPICS + 1
        probe.check()


def test_topics_that_come_while_slow_patterns_are_watched_stall_nobody(
    broker: BrokerProcess,
) -> None:
    with Probe(broker) as probe, Asker(broker.url) as asker, Asker(broker.url) as owner:
        asker.ask([watch(n, f"{SLOW}|x{n}") for n in range(20)])
        create_long_names(owner, 0)
        owner.ask([look_up(1, "one.*")])
    probe.check()
