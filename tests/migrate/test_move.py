"""`magnetar migrate`: what was on one broker is on the other, and what was acked stays so."""

import asyncio
import json
import time
from datetime import timedelta
from typing import Any

from migrate.world import QUIET_MS, WAIT_MS, Ends, ack_some, datas, drained, read_all, send_batches

import magnetar
from magnetar.arrow.plan.connection import Connection
from magnetar.migrate.journal_file import JournalFile
from magnetar.migrate.mover import move
from magnetar.migrate.subscription import HOLD
from magnetar.schema import AvroSchema

ORDERS = "persistent://public/default/orders"
SHARED = magnetar.ConsumerType.Shared


def test_messages_arrive_in_order_with_all_that_was_said_of_them(ends: Ends) -> None:
    producer = ends.source.create_producer(ORDERS, producer_name="till-7")
    for number in range(20):
        producer.send(
            b"%d" % number,
            partition_key=f"k{number % 3}",
            ordering_key=f"o{number % 2}",
            properties={"number": str(number)},
            event_timestamp=1000 + number,
        )
    producer.close()
    ends.move()
    here, there = read_all(ends.source, ORDERS), read_all(ends.target, ORDERS)
    assert datas(there) == [b"%d" % number for number in range(20)]
    for name in (
        "data",
        "partition_key",
        "ordering_key",
        "properties",
        "event_timestamp",
        "publish_timestamp",
        "producer_name",
    ):
        told = [[getattr(message, name)() for message in messages] for messages in (here, there)]
        assert told[0] == told[1], name


def test_each_subscription_has_left_what_it_has_left_inside_batches_too(ends: Ends) -> None:
    ends.source_admin.topics.create(ORDERS)
    for name in ("some", "all", "none"):
        ends.source_admin.subscriptions.create(ORDERS, name, position="earliest")
    contents = send_batches(ends.source, ORDERS, 30, 10)
    acked = {number for number in range(300) if number % 7 == 0 or 50 <= number < 110}
    ack_some(ends.source, ORDERS, "some", 300, acked)
    ack_some(ends.source, ORDERS, "all", 300, set(range(300)))
    said = ends.move()
    assert "moved 1 topic with 30 entries" in said
    left = [content for number, content in enumerate(contents) if number not in acked]
    assert datas(drained(ends.target, ORDERS, "some", len(left), SHARED)) == left
    assert datas(drained(ends.target, ORDERS, "none", 300)) == contents
    stats = ends.target_admin.topics.stats(ORDERS).subscriptions
    assert sorted(stats) == ["all", "none", "some"]
    assert stats["all"].msg_backlog == 0


def test_chunks_stay_whole(ends: Ends) -> None:
    large = [bytes([number]) * 2_000_000 for number in range(3)]
    producer = ends.source.create_producer(
        ORDERS, chunking_enabled=True, batching_enabled=False, chunk_max_message_size=300_000
    )
    consumer = ends.source.subscribe(ORDERS, "all", ack_receipt_enabled=True)
    for content in large:
        producer.send(content)
    consumer.acknowledge(consumer.receive(WAIT_MS))
    consumer.close()
    producer.close()
    ends.move()
    assert datas(drained(ends.target, ORDERS, "all", 2)) == large[1:]


def test_delayed_messages_keep_their_times(ends: Ends) -> None:
    ends.source_admin.topics.create(ORDERS)
    ends.source_admin.subscriptions.create(ORDERS, "later", position="earliest")
    producer = ends.source.create_producer(ORDERS, batching_enabled=False)
    producer.send(b"tomorrow", deliver_after=timedelta(days=1))
    soon_ms = int(time.time() * 1000) + 4000
    producer.send(b"soon", deliver_at=soon_ms)
    producer.send(b"now")
    producer.close()
    ends.move()
    consumer = ends.target.subscribe(ORDERS, "later", magnetar.ConsumerType.Shared)
    assert [consumer.receive(WAIT_MS).data() for _ in range(2)] == [b"now", b"soon"]
    assert time.time() * 1000 >= soon_ms
    try:
        message = consumer.receive(QUIET_MS)
        raise AssertionError(f"{message.data()!r} came too early")
    except magnetar.Timeout:
        pass
    consumer.close()
    stats = ends.target_admin.topics.stats(ORDERS)
    assert stats.subscriptions["later"].msg_backlog == 3


def test_partitions_are_the_same_with_the_same_keys_in_them(ends: Ends) -> None:
    ends.source_admin.topics.create_partitioned(ORDERS, 4)
    ends.source_admin.subscriptions.create(ORDERS, "all", position="earliest")
    producer = ends.source.create_producer(ORDERS)
    for number in range(100):
        producer.send(b"%d" % number, partition_key=f"k{number % 9}")
    producer.close()
    ends.move()
    assert ends.target_admin.topics.partition_count(ORDERS) == 4
    for number in range(4):
        part = f"{ORDERS}-partition-{number}"
        assert datas(read_all(ends.source, part)) == datas(read_all(ends.target, part))
    assert sorted(datas(drained(ends.target, ORDERS, "all", 100))) == sorted(
        b"%d" % number for number in range(100)
    )


def record(field: str, kind: str = "int") -> dict[str, Any]:
    """A schema with one field."""
    return {"type": "record", "name": "A", "fields": [{"name": field, "type": kind}]}


def test_schemas_come_with_all_their_versions_and_values_are_decoded_by_theirs(ends: Ends) -> None:
    ends.source_admin.namespaces.create("public/typed")
    ends.source_admin.policies.set("public/typed", "schemaCompatibilityStrategy", "BACKWARD")
    topic = "persistent://public/typed/orders"
    ends.source_admin.topics.create(topic)
    for kind in ("int", "long"):
        ends.source_admin.schemas.add(topic, "AVRO", json.dumps(record("a", kind)))
    ends.move()
    here, there = ends.source_admin.schemas.list(topic), ends.target_admin.schemas.list(topic)
    assert [(one.version, one.type, one.data) for one in here] == [
        (one.version, one.type, one.data) for one in there
    ]
    assert len(there) == 2
    found = ends.target_admin.policies.get("public/typed", "schemaCompatibilityStrategy")
    assert found == "BACKWARD"


def test_a_version_of_a_schema_that_has_another_number_there_is_renamed_in_messages(
    ends: Ends,
) -> None:
    admin = ends.source_admin
    admin.topics.create(ORDERS)
    admin.schemas.add(ORDERS, "AVRO", json.dumps(record("gone")))
    admin.schemas.delete(ORDERS)
    schema = AvroSchema(None, record("kept"))
    producer = ends.source.create_producer(ORDERS, schema=schema)
    producer.send({"kept": 5})
    producer.close()
    ends.move()
    (here,), (there,) = admin.schemas.list(ORDERS), ends.target_admin.schemas.list(ORDERS)
    assert here.version != there.version
    reader = ends.target.create_reader(
        ORDERS, magnetar.MessageId.earliest, schema=AvroSchema(None, record("kept"))
    )
    message = reader.read_next(WAIT_MS)
    assert message.value() == {"kept": 5}
    assert message.int_schema_version() == there.version
    reader.close()


def test_tenants_namespaces_policies_and_permissions_are_taken_over(ends: Ends) -> None:
    admin = ends.source_admin
    admin.tenants.create("shop", admin_roles=["owner"])
    admin.namespaces.create("shop/orders")
    admin.policies.set_message_ttl("shop/orders", 86400)
    admin.policies.set_deduplication("shop/orders", True)
    topic = "persistent://shop/orders/new"
    admin.topics.create(topic)
    admin.policies.set(topic, "maxConsumers", 7)
    admin.subscriptions.create(topic, "mailing", properties={"team": "mail"})
    permissions = "/admin/v2/namespaces/shop/orders/permissions"
    admin._client.post(f"{permissions}/till", ["produce"])
    ends.move()
    target = ends.target_admin
    assert list(target.tenants.get("shop").admin_roles) == ["owner"]
    assert target.policies.message_ttl("shop/orders") == 86400
    assert target.policies.deduplication("shop/orders") is True
    assert target.policies.get(topic, "maxConsumers") == 7
    assert target._client.get(permissions) == {"till": ["produce"]}
    assert target.subscriptions.properties(topic, "mailing") == {"team": "mail"}


def test_only_the_namespaces_that_are_named_are_moved(ends: Ends) -> None:
    ends.source_admin.namespaces.create("public/other")
    for topic in (ORDERS, "persistent://public/other/orders"):
        ends.source_admin.topics.create(topic)
    ends.move("public/other")
    assert ends.target_admin.topics.list("public/other") == ["persistent://public/other/orders"]
    assert ends.target_admin.topics.list("public/default") == []


def test_what_holds_topics_while_they_are_copied_is_gone_afterwards(ends: Ends) -> None:
    send_batches(ends.source, ORDERS, 2, 5)
    ends.move()
    for admin in (ends.source_admin, ends.target_admin):
        assert admin.subscriptions.list(ORDERS) == []


def test_a_target_that_has_messages_already_is_left_alone(ends: Ends) -> None:
    ends.source_admin.topics.create(ORDERS)
    send_batches(ends.target, ORDERS, 1, 3)
    ran = ends.run()
    assert ran.code != 0
    assert "has messages at" in ran.err
    assert len(read_all(ends.target, ORDERS)) == 3


def test_a_journal_of_another_move_is_refused(ends: Ends) -> None:
    ends.move()
    ends.to_url = ends.url
    ran = ends.run()
    assert ran.code == 2
    assert "is of a move from" in ran.err


class Meddler:
    """Acks a message at the source when the sides are about to be compared."""

    def __init__(self, ends: Ends) -> None:
        self._ends = ends

    def begin(self, doing: str, topics: int) -> None:
        if doing == "verifying":
            ack_some(self._ends.source, ORDERS, "all", 10, {7})

    def topic(self, name: str) -> None:
        pass

    def wrote(self, entries: int, size: int) -> None:
        pass


def test_verify_finds_one_ack_that_is_not_there_and_then_both_sides_stay_held(ends: Ends) -> None:
    ends.source_admin.topics.create(ORDERS)
    ends.source_admin.subscriptions.create(ORDERS, "all", position="earliest")
    send_batches(ends.source, ORDERS, 2, 5)
    here = Connection(ends.url, admin_url=ends.http_url)
    there = Connection(ends.to_url, admin_url=ends.to_http_url)
    with JournalFile(ends.journal) as journal:
        moving = move(here, there, journal, namespaces=[], verify=True, teller=Meddler(ends))
        report = asyncio.run(moving)
    assert report.differences == [
        f"all of {ORDERS}: they differ inside the batch that is entry 1 of the topic"
    ]
    assert HOLD in ends.source_admin.subscriptions.list(ORDERS)
    # Done again it is right: the ack is taken over now.
    ends.move()
    assert HOLD not in ends.source_admin.subscriptions.list(ORDERS)
    assert len(drained(ends.target, ORDERS, "all", 9, SHARED)) == 9


def test_what_was_moved_is_not_moved_again(ends: Ends) -> None:
    send_batches(ends.source, ORDERS, 2, 5)
    assert "moved 1 topic with 2 entries" in ends.move()
    assert "moved 0 topics" in ends.move()
    assert len(read_all(ends.target, ORDERS)) == 10
