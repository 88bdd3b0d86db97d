"""Watchers of topic lists, while topics come and go, hold nobody up."""

import json
import urllib.request
from pathlib import Path

import pytest
from hostile.asker import LONG, Asker
from hostile.limited import limited
from hostile.probe import MEMORY_BYTES, Probe
from support.broker_process import BrokerProcess

from magnetar.protocol import pulsar_pb2 as pb

WATCHERS = 100 if LONG else 20
TOPICS = 5000 if LONG else 500
MORE = 1000 if LONG else 100
ADMIN = "admin/v2/persistent/public/default"


def ask(broker: BrokerProcess, method: str, path: str, body: object = None) -> None:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{broker.http_url}/{path}", data, method=method)
    request.add_header("content-type", "application/json")
    urllib.request.urlopen(request, timeout=60).close()


def create(broker: BrokerProcess, name: str, partitions: int) -> None:
    # A partitioned topic has a limit.
    ask(broker, "PUT", f"{ADMIN}/{name}/partitions", partitions)


def watch(number: int, pattern: str) -> pb.CommandWatchTopicList:
    return pb.CommandWatchTopicList(
        request_id=number,
        watcher_id=number,
        namespace="public/default",
        topics_pattern=f"persistent://public/default/{pattern}",
    )


@pytest.mark.parametrize("pattern", [".*", "(.*|{})"], ids=["one-pattern", "many-patterns"])
def test_topics_come_and_go_while_many_watch(tmp_path: Path, pattern: str) -> None:
    command = limited(memory_bytes=MEMORY_BYTES)
    with BrokerProcess(tmp_path, command=command) as broker:
        create(broker, "there", TOPICS)
        with Probe(broker) as probe, Asker(broker.url) as asker:
            for number in range(WATCHERS):
                (answer,) = asker.ask([watch(number, pattern.format(number))])
                assert isinstance(answer, pb.CommandWatchTopicListSuccess)
                # The probe's own topic is there too.
                assert len(answer.topic) == TOPICS + 1
            create(broker, "more", MORE)
            assert told(asker) == {(n, True) for n in range(WATCHERS)}
            ask(broker, "DELETE", f"{ADMIN}/more/partitions")
            assert told(asker) == {(n, False) for n in range(WATCHERS)}
        probe.check()


def told(asker: Asker) -> set[tuple[int, bool]]:
    """Who was told that all topics came, or went, when everybody was."""
    counts: dict[tuple[int, bool], int] = {}
    while len(counts) < WATCHERS or min(counts.values()) < MORE:
        for update in asker.read():
            assert isinstance(update, pb.CommandWatchTopicUpdate)
            came = bool(update.new_topics)
            key = (update.watcher_id, came)
            counts[key] = counts.get(key, 0) + len(update.new_topics or update.deleted_topics)
    return set(counts)
