"""Our client on a cluster whose members come, go, and send it on to one another."""

from pathlib import Path

import pytest
from cluster.pulsar_cluster import PulsarCluster, require_cluster

import magnetar
from magnetar.client.option.keywords import ClientKeywords
from magnetar.model import TopicName
from magnetar.rest.admin import Admin

pytestmark = [pytest.mark.apache, pytest.mark.once]

WAIT_MS = 90_000
PATIENT: ClientKeywords = {"operation_timeout_seconds": 90}


def owner_of(cluster: PulsarCluster, topic: str) -> str:
    """The member that serves a topic."""
    with Admin(cluster.http_url) as admin:
        return cluster.owner(admin.topics.lookup(topic).http_url)


def other_than(cluster: PulsarCluster, name: str) -> int:
    """The place of a broker that is not this one."""
    return next(place for place, other in enumerate(cluster.brokers) if other != name)


def received(consumer: magnetar.Consumer, count: int) -> list[bytes]:
    found = []
    for _ in range(count):
        message = consumer.receive(WAIT_MS)
        found.append(message.data())
        consumer.acknowledge(message)
    return found


def test_a_topic_moves_when_the_broker_that_owns_it_is_killed(
    cluster: PulsarCluster, topic: str
) -> None:
    with magnetar.Client(cluster.url, **PATIENT) as client:
        consumer = client.subscribe(topic, "all")
        producer = client.create_producer(topic, send_timeout_millis=90_000)
        producer.send(b"before")
        first = owner_of(cluster, topic)
        cluster.kill(first)
        producer.send(b"after")
        assert received(consumer, 2) == [b"before", b"after"]
        survivor = cluster.http_urls[other_than(cluster, first)]
        with Admin(survivor) as admin:
            assert cluster.owner(admin.topics.lookup(topic).http_url) != first


def test_a_bookie_may_be_killed_while_messages_are_sent(cluster: PulsarCluster, topic: str) -> None:
    with magnetar.Client(cluster.url, **PATIENT) as client:
        consumer = client.subscribe(topic, "all")
        producer = client.create_producer(topic, send_timeout_millis=90_000)
        sent = [b"%d" % number for number in range(30)]
        for number, content in enumerate(sent):
            if number == 10:
                cluster.kill("bookie1")
            if number == 20:
                cluster.restart("bookie1")
            producer.send(content)
        assert received(consumer, len(sent)) == sent


def test_a_client_that_knows_one_broker_is_sent_on_to_the_owner(
    cluster: PulsarCluster, topic: str
) -> None:
    with Admin(cluster.http_url) as admin:
        admin.topics.create(topic)
    stranger = other_than(cluster, owner_of(cluster, topic))
    url = cluster.url.removeprefix("pulsar://").split(",")[stranger]
    with magnetar.Client(f"pulsar://{url}", **PATIENT) as client:
        consumer = client.subscribe(topic, "all")
        client.create_producer(topic).send(b"redirected")
        assert received(consumer, 1) == [b"redirected"]


def test_a_post_to_a_broker_that_does_not_own_the_topic_reaches_the_owner_with_its_body(
    cluster: PulsarCluster, topic: str
) -> None:
    with Admin(cluster.http_url) as admin:
        admin.topics.create(topic)
    stranger = cluster.http_urls[other_than(cluster, owner_of(cluster, topic))]
    with Admin(stranger) as admin:
        admin.subscriptions.create(topic, "new", position="earliest")
        admin.subscriptions.set_properties(topic, "new", {"made": "by a stranger"})
        admin.subscriptions.skip_all(topic, "new")
        assert admin.subscriptions.list(topic) == ["new"]
        assert admin.subscriptions.properties(topic, "new") == {"made": "by a stranger"}


def test_the_proxy_serves_clients_and_admin(cluster: PulsarCluster, topic: str) -> None:
    with magnetar.Client(cluster.proxy_url, **PATIENT) as client:
        consumer = client.subscribe(topic, "all")
        client.create_producer(topic).send(b"by proxy")
        assert received(consumer, 1) == [b"by proxy"]
    with Admin(cluster.proxy_http_url) as admin:
        assert list(admin.topics.stats(topic).subscriptions) == ["all"]


def test_a_client_outlives_the_unload_of_a_bundle_that_is_split(
    cluster: PulsarCluster, topic: str
) -> None:
    with magnetar.Client(cluster.url, **PATIENT) as client:
        consumer = client.subscribe(topic, "all")
        producer = client.create_producer(topic, send_timeout_millis=90_000)
        producer.send(b"before")
        with Admin(cluster.http_url) as admin:
            place = TopicName.parse(topic)
            path = f"/lookup/v2/topic/persistent/{place.namespace}/{place.local_name}/bundle"
            bundle = admin._client.request("GET", path).body.decode()
            split = f"/admin/v2/namespaces/{place.namespace}/{bundle}/split"
            admin._client.request("PUT", split, query={"unload": True})
        producer.send(b"after")
        assert received(consumer, 2) == [b"before", b"after"]


def test_nothing_of_a_cluster_is_left_on_the_machine() -> None:
    require_cluster()
    with PulsarCluster(bookies=1, brokers=0) as small:
        pids = [member.pid for member in small.members.values()]
        assert all(Path(f"/proc/{pid}").exists() for pid in pids)
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
