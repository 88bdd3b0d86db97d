"""Topics with thousands of something, and requests of a few bytes about them.

| attack                                                       | before                          |
|--------------------------------------------------------------|---------------------------------|
| stats of a topic with 5,000 consumers of Key_Shared          | all of it in one event          |
| 100 consumers, one of each subscription, and 500 messages    | 79 ms in one event              |
| "what is the last message" behind 3,000 ends of messages in  | seconds in one event            |
| chunks whose beginnings never came                           |                                 |
| 5,000 subscriptions, and what is asked of all of them        | each in one event               |
"""

import contextlib
import urllib.request
from pathlib import Path
from typing import Any

from hostile.asker import LONG, Asker
from hostile.limited import limited
from hostile.probe import MEMORY_BYTES, Probe
from support.broker_process import BrokerProcess

from magnetar.model import ConsumerType
from magnetar.protocol import CommandFlow, CommandSend, encode_entry
from magnetar.protocol import pulsar_pb2 as pb

TOPIC = "persistent://public/default/large"
PATH = "admin/v2/persistent/public/default/large"
CROWD = 5000 if LONG else 500
SUBSCRIPTIONS = 100
MESSAGES = 500
ORPHANS = 3000 if LONG else 500
TIMES = 5


def broker_in(directory: Path) -> BrokerProcess:
    return BrokerProcess(directory, command=limited(memory_bytes=MEMORY_BYTES))


def subscribe(
    number: int, name: str, type: ConsumerType = ConsumerType.Shared
) -> pb.CommandSubscribe:
    return pb.CommandSubscribe(
        topic=TOPIC,
        subscription=name,
        subType=type.value,
        consumer_id=number,
        request_id=number,
        consumer_name=f"c{number}",
        force_topic_creation=True,
    )


def request(broker: BrokerProcess, path: str, method: str = "GET") -> bytes:
    asked = urllib.request.Request(f"{broker.http_url}/{path}", method=method)
    with urllib.request.urlopen(asked, timeout=60) as answer:
        body: bytes = answer.read()
        return body


def entry(number: int, **fields: Any) -> bytes:
    metadata = pb.MessageMetadata(
        producer_name="p", sequence_id=number, publish_time=1, partition_key=f"k{number}", **fields
    )
    return encode_entry(metadata.SerializeToString(), b"x")


def publish(asker: Asker, count: int, **fields: Any) -> None:
    asker.ask([pb.CommandProducer(topic=TOPIC, producer_id=1, request_id=1)])
    for number in range(count):
        uuid = {"uuid": f"u{number}"} if fields else {}
        asker.send(CommandSend(1, number, entry(number, **fields, **uuid)))
    heard = 0
    while heard < count:
        heard += len(asker.hear())


def test_stats_of_thousands_of_consumers(tmp_path: Path) -> None:
    with broker_in(tmp_path) as broker, Asker(broker.url) as asker:
        asker.ask([subscribe(n, "s", ConsumerType.KeyShared) for n in range(CROWD)])
        with Asker(broker.url) as producer:
            publish(producer, MESSAGES)
        for number in range(CROWD):
            asker.send(CommandFlow(number, 1))
        with Probe(broker) as probe:
            for _ in range(TIMES):
                assert request(broker, f"{PATH}/stats").count(b'"consumerName"') == CROWD
                request(broker, f"{PATH}/internalStats")
                request(broker, "metrics")
        probe.check()


def test_a_few_messages_for_a_hundred_consumers_each(tmp_path: Path) -> None:
    with broker_in(tmp_path) as broker, contextlib.ExitStack() as stack:
        for number in range(SUBSCRIPTIONS):
            reader = stack.enter_context(Asker(broker.url))
            reader.ask([subscribe(1, f"s{number}")])
            reader.send(CommandFlow(1, TIMES * MESSAGES))
        with Probe(broker) as probe, Asker(broker.url) as producer:
            publish(producer, TIMES * MESSAGES)
        probe.check()


def test_the_last_message_behind_ends_that_have_no_beginning(tmp_path: Path) -> None:
    with broker_in(tmp_path) as broker, Asker(broker.url) as asker:
        asker.ask([subscribe(1, "s")])
        with Asker(broker.url) as producer:
            publish(producer, ORPHANS, chunk_id=1, num_chunks_from_msg=2, total_chunk_msg_size=2)
        with Probe(broker) as probe:
            last = [pb.CommandGetLastMessageId(consumer_id=1, request_id=n) for n in range(100)]
            answers = asker.ask(last)
            assert {type(answer) for answer in answers} == {pb.CommandGetLastMessageIdResponse}
            seek = pb.CommandSeek(consumer_id=1, request_id=99, message_publish_time=0)
            asker.ask([seek])
        probe.check()


def test_thousands_of_subscriptions(tmp_path: Path) -> None:
    with broker_in(tmp_path) as broker, Asker(broker.url) as asker:
        with Probe(broker) as probe:
            asker.ask([subscribe(number, f"s{number}") for number in range(CROWD)])
            for number in range(CROWD):
                asker.send(CommandFlow(number, 10))
            with Asker(broker.url) as producer:
                publish(producer, TIMES)
            for path in (f"{PATH}/stats", f"{PATH}/internalStats", "metrics"):
                assert request(broker, path).count(b"s1") > 0
            request(broker, f"{PATH}/unload", "PUT")
            request(broker, f"{PATH}/stats")
            request(broker, f"{PATH}?force=true", "DELETE")
        probe.check()
