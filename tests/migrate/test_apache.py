"""To Apache Pulsar and back: with everything in it that is hard to move."""

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from apache.harness import ApachePulsar, require_artifacts
from migrate.world import Ends, ack_some, datas, drained, read_all, send_batches

import magnetar
from magnetar.schema import AvroSchema
from magnetar.testing.embedded import EmbeddedBroker

pytestmark = [pytest.mark.apache, pytest.mark.once]

BATCHED = "persistent://shop/orders/batched"
CHUNKED = "persistent://shop/orders/chunked"
DELAYED = "persistent://shop/orders/delayed"
KEYED = "persistent://shop/orders/keyed"
LARGE = [bytes([number]) * 3_000_000 for number in range(3)]
FIELDS = [{"name": "a", "type": "int"}, {"name": "b", "type": "int", "default": 0}]
RECORDS: list[dict[str, Any]] = [
    {"type": "record", "name": "A", "fields": FIELDS[:count]} for count in (1, 2)
]
# Of 400 messages in batches of ten: whole batches, parts of them, and the first hundred.
ACKED = {n for n in range(400) if n < 100 or 150 <= n < 200 or n % 7 == 0}


@pytest.fixture(scope="module")
def apache() -> Iterator[ApachePulsar]:
    require_artifacts()
    with ApachePulsar(fsync=False) as started:
        yield started


def fill(ends: Ends) -> None:
    admin, client = ends.source_admin, ends.source
    admin.tenants.create("shop")
    admin.namespaces.create("shop/orders")
    admin.policies.set_message_ttl("shop/orders", 86_400)
    for topic in (BATCHED, CHUNKED, DELAYED):
        admin.topics.create(topic)
        admin.subscriptions.create(topic, "all", position="earliest")
        admin.subscriptions.create(topic, "none", position="earliest")
    admin.topics.create_partitioned(KEYED, 3)
    admin.subscriptions.create(KEYED, "all", position="earliest")
    for record in RECORDS:
        admin.schemas.add(KEYED, "AVRO", json.dumps(record))
    send_batches(client, BATCHED, 40, 10)
    ack_some(client, BATCHED, "all", 400, ACKED)
    chunker = client.create_producer(CHUNKED, chunking_enabled=True, batching_enabled=False)
    for content in LARGE:
        chunker.send(content, properties={"size": str(len(content))})
    chunker.close()
    ack_some(client, CHUNKED, "all", 3, {1})
    delayer = client.create_producer(DELAYED, batching_enabled=False)
    delayer.send(b"tomorrow", deliver_after=timedelta(days=1))
    delayer.send(b"now")
    delayer.close()
    keyer = client.create_producer(KEYED, schema=AvroSchema(None, RECORDS[1]))
    for number in range(60):
        keyer.send({"a": number, "b": 1}, partition_key=f"k{number % 5}")
    keyer.close()


def look(ends: Ends) -> None:
    """What was moved is there, as an application sees it."""
    client, admin = ends.target, ends.target_admin
    left = [b"m-%06d" % number for number in range(400) if number not in ACKED]
    assert datas(drained(client, BATCHED, "all", len(left))) == left
    assert len(drained(client, BATCHED, "none", 400)) == 400
    assert datas(drained(client, CHUNKED, "all", 2)) == [LARGE[0], LARGE[2]]
    whole = drained(client, CHUNKED, "none", 3)
    assert datas(whole) == LARGE
    assert whole[0].properties() == {"size": "3000000"}
    assert datas(drained(client, DELAYED, "all", 1, magnetar.ConsumerType.Shared)) == [b"now"]
    assert datas(read_all(client, DELAYED)) == [b"tomorrow", b"now"]
    assert admin.topics.partition_count(KEYED) == 3
    for number in range(3):
        part = f"{KEYED}-partition-{number}"
        assert datas(read_all(client, part)) == datas(read_all(ends.source, part))
    assert len(admin.schemas.list(KEYED)) == 2
    assert admin.policies.message_ttl("shop/orders") == 86_400


def test_to_apache_pulsar_and_back_with_nothing_lost_or_doubled(
    apache: ApachePulsar, tmp_path: Path
) -> None:
    with EmbeddedBroker() as first, EmbeddedBroker() as second:
        there = Ends(first.url, first.http_url, apache.url, apache.http_url, tmp_path / "there")
        back = Ends(apache.url, apache.http_url, second.url, second.http_url, tmp_path / "back")
        with closing(there), closing(back):
            fill(there)
            ran = there.run("shop/orders", "--verify")
            assert "the same on both sides" in ran.out, ran
            assert "differs" not in ran.err, ran
            look(there)
            ran = back.run("shop/orders", "--verify")
            assert "the same on both sides" in ran.out, ran
            look(back)
