"""Brokers, lookup and schemas over REST."""

import json
import re
from collections.abc import Callable
from itertools import pairwise

import httpx
import pulsar
import pulsar.schema
import pytest
from support.served import Served

from magnetar import __version__
from magnetar.broker.setting.settings import BrokerSettings
from magnetar.errors import DiskError


def test_a_broker_tells_about_itself(served: Served) -> None:
    id = served.http_url.removeprefix("http://")
    assert served.http.get("/brokers").json() == [id]
    assert served.http.get("/brokers/standalone").json() == [id]
    assert served.http.get("/brokers/moon").status_code == 404
    assert served.http.get("/brokers/health").text == "ok"
    assert served.http.get("/brokers/ready").text == "ok"
    assert served.http.get("/brokers/version").text == __version__
    assert served.http.get("/brokers/leaderBroker").json()["serviceUrl"] == served.http_url
    runtime = served.http.get("/brokers/configuration/runtime").json()
    assert runtime["clusterName"] == runtime["cluster_name"] == "standalone"
    assert runtime["keepAliveIntervalSeconds"] == "30"
    assert runtime["acknowledgmentAtBatchIndexLevelEnabled"] == "true"
    assert served.http.post("/brokers/configuration/a/b").status_code == 412


def test_a_broker_that_cannot_write_is_not_well(
    own_broker: Callable[[BrokerSettings], Served],
) -> None:
    served = own_broker(BrokerSettings())
    error = DiskError("write", "log", "the disk is gone")
    served.call(lambda: served.broker.store.log.journal.failed(error))
    answer = served.http.get("/brokers/health")
    assert answer.status_code == 503
    assert "read-only" in answer.json()["reason"]
    for url in (f"{served.http_url}/admin/v2/brokers/ready", f"{served.http_url}/status.html"):
        told = httpx.get(url)
        assert told.status_code == 503
        assert "the disk is gone" in told.json()["reason"]
    assert served.http.put("/persistent/public/default/t").status_code in (500, 503)


def test_lookup_over_http_leads_to_the_broker(served: Served) -> None:
    ns = served.namespace()
    url = f"{served.http_url}/lookup/v2/topic/persistent/{ns}/orders"
    answer = httpx.get(url).json()
    assert answer["brokerUrl"] == answer["nativeUrl"] == served.url
    bundle = httpx.get(f"{url}/bundle").text
    boundaries = served.http.get(f"/namespaces/{ns}/bundles").json()["boundaries"]
    assert bundle in [f"{a}_{b}" for a, b in pairwise(boundaries)]
    assert httpx.get(f"{served.http_url}/lookup/v2/topic/persistent/public/none/t").status_code == (
        404
    )


@pytest.mark.parametrize("partitions", [0, 3])
def test_the_official_client_works_over_http_lookup(served: Served, partitions: int) -> None:
    topic = f"{served.namespace()}/orders"
    if partitions:
        served.http.put(f"/persistent/{topic}/partitions", json=partitions)
    with served.client(served.http_url) as client:
        assert len(client.get_topic_partitions(topic)) == max(partitions, 1)
        consumer = client.subscribe(topic, "s")
        producer = client.create_producer(topic)
        producer.send(b"hello")
        message = consumer.receive(30_000)
        assert message.data() == b"hello"
        consumer.acknowledge(message)


def test_the_official_client_finds_topics_by_pattern_over_http(served: Served) -> None:
    ns = served.namespace()
    for name in ("a-1", "a-2", "b-1"):
        served.http.put(f"/persistent/{ns}/{name}")
    with served.client(served.http_url) as client:
        consumer = client.subscribe(re.compile(f"persistent://{ns}/a-.*"), "s")
        for name in ("a-1", "a-2", "b-1"):
            client.create_producer(f"{ns}/{name}").send(name.encode())
        got = sorted(consumer.receive(30_000).data() for _ in range(2))
        assert got == [b"a-1", b"a-2"]


AVRO = '{"type":"record","name":"Order","fields":[{"name":"id","type":"int"}]}'
MORE = (
    '{"type":"record","name":"Order","fields":[{"name":"id","type":"int"},'
    '{"name":"note","type":["null","string"],"default":null}]}'
)
OTHER = '{"type":"record","name":"Order","fields":[{"name":"id","type":"string"}]}'


def test_schemas_have_versions(served: Served) -> None:
    path = f"/schemas/{served.namespace()}/orders"
    assert served.http.get(f"{path}/schema").status_code == 404
    first = {"type": "AVRO", "schema": AVRO, "properties": {"a": "b"}}
    assert served.http.post(f"{path}/schema", json=first).json() == {"version": {"version": 0}}
    assert served.http.post(f"{path}/schema", json=first).json() == {"version": {"version": 0}}
    second = {"type": "AVRO", "schema": MORE}
    assert served.http.post(f"{path}/schema", json=second).json() == {"version": {"version": 1}}
    latest = served.http.get(f"{path}/schema").json()
    assert (latest["version"], latest["type"], latest["data"]) == (1, "AVRO", MORE)
    oldest = served.http.get(f"{path}/schema/0").json()
    assert (oldest["data"], oldest["properties"]) == (AVRO, {"a": "b"})
    assert served.http.get(f"{path}/schema/7").status_code == 404
    every = served.http.get(f"{path}/schemas").json()["getSchemaResponses"]
    assert [one["version"] for one in every] == [0, 1]
    assert served.http.post(f"{path}/version", json=first).json() == {"version": 0}

    bad = {"type": "AVRO", "schema": OTHER}
    assert served.http.post(f"{path}/schema", json=bad).status_code == 409
    assert served.http.post(f"{path}/version", json=bad).status_code == 404
    fits = served.http.post(f"{path}/compatibility", json=bad).json()
    assert fits == {"compatibility": False, "schemaCompatibilityStrategy": "FULL"}
    assert served.http.post(f"{path}/compatibility", json=second).json()["compatibility"]

    assert served.http.delete(f"{path}/schema").json() == {"version": 2}
    assert served.http.get(f"{path}/schema").status_code == 404
    for version in range(3):
        assert served.http.get(f"{path}/schema/{version}").status_code == 404
    assert served.http.get(f"{path}/schemas").json() == {"getSchemaResponses": []}
    assert served.http.delete(f"{path}/schema").status_code == 404
    assert served.http.post(f"{path}/schema", json=first).json() == {"version": {"version": 3}}
    assert served.http.delete(f"{path}/schema?force=true").status_code == 200


def test_a_schema_that_is_none_is_unprocessable(served: Served) -> None:
    path = f"/schemas/{served.namespace()}/orders/schema"
    for body in ({"type": "AVRO", "schema": "{"}, {"type": "MOON"}, {"schema": AVRO}):
        assert served.http.post(path, json=body).status_code == 422
    assert served.http.post(path, json={"type": "AVRO", "schema": 1}).status_code == 400


def test_a_schema_that_a_client_brought_is_shown(served: Served) -> None:
    class Order(pulsar.schema.Record):  # type: ignore[misc]
        id = pulsar.schema.Integer()

    ns = served.namespace()
    with served.client() as client:
        client.create_producer(f"{ns}/json", schema=pulsar.schema.JsonSchema(Order))
        client.create_producer(f"{ns}/text", schema=pulsar.schema.StringSchema())
    found = served.http.get(f"/schemas/{ns}/json/schema").json()
    assert found["type"] == "JSON"
    assert json.loads(found["data"])["name"] == "Order"
    assert served.http.get(f"/schemas/{ns}/text/schema").json()["type"] == "STRING"


def test_a_pair_of_schemas_is_one_text(served: Served) -> None:
    path = f"/schemas/{served.namespace()}/pairs/schema"
    both = json.dumps({"key": json.loads(AVRO), "value": json.loads(MORE)})
    properties = {"key.schema.type": "AVRO", "value.schema.type": "AVRO"}
    body = {"type": "KEY_VALUE", "schema": both, "properties": properties}
    assert served.http.post(path, json=body).status_code == 200
    assert json.loads(served.http.get(path).json()["data"]) == json.loads(both)
