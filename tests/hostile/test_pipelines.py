"""A few kilobytes of requests in one write, by peers that read their answers and that do not.

A broker with 5,000 topics and 256 MB of memory serves everybody else all the while (I10).
"""

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hostile.attacker import Attacker
from hostile.limited import limited
from hostile.probe import Probe
from support.broker_process import BrokerProcess

from magnetar.model import ConsumerType, InitialPosition, SchemaType
from magnetar.protocol import CommandFlow, MessageMetadata, encode_entry
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.storage import FileDisk, StoreOptions, open_store

NAMESPACE = "public/default"
TOPICS = 5000
MEMORY = 256 << 20
LONG = bool(os.environ.get("MAGNETAR_HOSTILE_LONG"))
TIMES = 4 if LONG else 1
# 8 KB of pattern look-ups.
PATTERNS = 120
SCHEMA_TOPIC = f"persistent://{NAMESPACE}/with-schema"
SCHEMA_BYTES = 250_000
SCHEMA_REQUESTS = 1800
CROWD = 30
BIG_TOPICS = 60
BIG_ENTRIES = 6
BIG_BYTES = 400_000


def name(number: int) -> str:
    return f"persistent://{NAMESPACE}/a-topic-with-a-name-{number:05d}"


def big(number: int) -> str:
    return f"persistent://{NAMESPACE}/big-{number}"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with many topics, some of which have large entries."""
    directory = tmp_path_factory.mktemp("pipelines")
    options = StoreOptions(fsync="never")
    store = open_store(FileDisk(directory), lambda: time.time_ns() // 1_000_000, options)
    for number in range(TOPICS):
        store.create_topic(name(number))
        if number % 500 == 0:
            store.flush()
    for number in range(BIG_TOPICS):
        topic = store.create_topic(big(number))
        for entry in range(BIG_ENTRIES):
            metadata = MessageMetadata("filler", entry, 1)
            bytes = encode_entry(metadata.encode(), os.urandom(BIG_BYTES))
            store.append(topic, bytes, batch_size=1, publish_time_ms=1)
        store.flush()
    store.close()
    return directory


@pytest.fixture(scope="module")
def broker(data: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(data, command=limited(memory_bytes=MEMORY)) as broker:
        yield broker


def patterns(first: int) -> list[pb.CommandGetTopicsOfNamespace]:
    return [
        pb.CommandGetTopicsOfNamespace(
            request_id=number, namespace=NAMESPACE, topics_pattern=f"{NAMESPACE}/.*-{number:03d}.*"
        )
        for number in range(first, first + PATTERNS)
    ]


def test_pattern_look_ups_over_5000_topics_stall_nobody(broker: BrokerProcess) -> None:
    with Probe(broker) as probe, ExitStack() as stack:
        attackers = [stack.enter_context(Attacker(broker.url)) for _ in range(2 * TIMES)]
        for number, attacker in enumerate(attackers):
            attacker.shout(patterns(number * PATTERNS))
        for attacker in attackers:
            answers = attacker.read_answers(PATTERNS)
            assert {type(answer) for answer in answers} == {pb.CommandGetTopicsOfNamespaceResponse}
    probe.check()


def test_lists_of_5000_topics_stall_nobody_and_stay_small(broker: BrokerProcess) -> None:
    requests = [
        pb.CommandGetTopicsOfNamespace(request_id=number, namespace=NAMESPACE)
        for number in range(400)
    ]
    with Probe(broker) as probe, ExitStack() as stack:
        crowd = [stack.enter_context(Attacker(broker.url)) for _ in range(CROWD)]
        for attacker in crowd:
            attacker.shout(requests)
        (answer,) = crowd[0].read_answers(1)[:1]
        assert isinstance(answer, (pb.CommandGetTopicsOfNamespaceResponse, pb.CommandError))
    probe.check()


def test_watches_of_5000_topics_stall_nobody(broker: BrokerProcess) -> None:
    with Probe(broker) as probe, Attacker(broker.url) as attacker:
        attacker.shout(
            pb.CommandWatchTopicList(
                request_id=number,
                watcher_id=number,
                namespace=NAMESPACE,
                topics_pattern=f"{NAMESPACE}/.*{number}",
            )
            for number in range(PATTERNS)
        )
        answers = attacker.read_answers(PATTERNS)
        assert len([a for a in answers if isinstance(a, pb.CommandWatchTopicListSuccess)]) == 100
    probe.check()


def test_schemas_that_nobody_reads_cost_a_bounded_amount(broker: BrokerProcess) -> None:
    text = '{"type": "record", "name": "r", "fields": [], "doc": "%s"}' % ("x" * SCHEMA_BYTES)
    schema = pb.Schema(name="s", type=SchemaType.Avro, schema_data=text.encode())
    with Attacker(broker.url) as owner:
        owner.shout(
            [pb.CommandProducer(topic=SCHEMA_TOPIC, producer_id=1, request_id=1, schema=schema)]
        )
        assert isinstance(owner.read_answers(1)[0], pb.CommandProducerSuccess)
    requests = [
        pb.CommandGetSchema(request_id=number, topic=SCHEMA_TOPIC)
        for number in range(SCHEMA_REQUESTS)
    ]
    with Probe(broker) as probe, ExitStack() as stack:
        crowd = [stack.enter_context(Attacker(broker.url)) for _ in range(CROWD * TIMES)]
        for attacker in crowd:
            attacker.shout(requests)
        # One that reads is answered, though the others do not.
        with Attacker(broker.url) as reader:
            reader.shout(requests[:5])
            assert len(reader.read_answers(5)) == 5
    probe.check()


def test_small_requests_without_end_are_taken_as_far_as_there_is_room(
    broker: BrokerProcess,
) -> None:
    lookups = [
        pb.CommandLookupTopic(topic=name(number), request_id=number) for number in range(5000)
    ]
    with Probe(broker) as probe, ExitStack() as stack:
        for _ in range(4 * TIMES):
            attacker = stack.enter_context(Attacker(broker.url))
            for _ in range(20):
                if attacker.shout(lookups) == 0:
                    break
    probe.check()


def test_a_consumer_that_does_not_read_costs_the_same_for_many_topics(
    broker: BrokerProcess,
) -> None:
    with Probe(broker) as probe, ExitStack() as stack:
        for _ in range(2 * TIMES):
            attacker = stack.enter_context(Attacker(broker.url))
            attacker.shout(
                pb.CommandSubscribe(
                    topic=big(number),
                    subscription=f"s{number}",
                    subType=ConsumerType.Shared,
                    consumer_id=number,
                    request_id=number,
                    initialPosition=InitialPosition.Earliest,
                    durable=False,
                )
                for number in range(BIG_TOPICS)
            )
            assert {type(a) for a in attacker.read_answers(BIG_TOPICS)} == {pb.CommandSuccess}
            attacker.shout(CommandFlow(number, 1000) for number in range(BIG_TOPICS))
        time.sleep(1.0)  # there is nothing to wait for: they read nothing
    probe.check()
