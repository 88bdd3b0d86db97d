"""Policies that have an effect have it at once, and it ends when they are taken back."""

from collections.abc import Iterator
from contextlib import contextmanager

import pulsar
import pytest
from support.served import Served
from support.waiting import wait_until

import magnetar
from magnetar.broker.setting.settings import BrokerSettings


@contextmanager
def refused(*words: str) -> Iterator[None]:
    with pytest.raises(pulsar.PulsarException) as told:
        yield
    assert any(word in str(told.value) for word in words), told.value


def test_messages_must_be_encrypted_where_the_namespace_says_so(served: Served) -> None:
    ns = served.namespace()
    topic = f"persistent://{ns}/secrets"
    required = f"/namespaces/{ns}/encryptionRequired"
    with magnetar.Client(served.url, operation_timeout_seconds=2) as client:
        before = client.create_producer(topic, producer_name="before")
        before.send(b"plain")
        assert served.http.post(required, json=True).status_code == 204
        with pytest.raises(magnetar.PulsarException, match="Encryption is required"):
            client.create_producer(topic)
        # One that was there before publishes nothing plain either.
        with pytest.raises(magnetar.PulsarException, match="must be encrypted"):
            before.send(b"plain")
        assert served.http.post(required, json=False).status_code == 204
        client.create_producer(topic).send(b"plain again")
    assert served.http.get(f"/persistent/{ns}/secrets/stats").json()["msgInCounter"] == 2


def test_producers_bring_no_new_schema_where_the_namespace_says_so(served: Served) -> None:
    ns = served.namespace()
    topic = f"persistent://{ns}/typed"
    update = f"/namespaces/{ns}/isAllowAutoUpdateSchema"
    assert served.http.post(update, json=False).status_code == 204
    string = pulsar.schema.StringSchema()
    with served.client() as client:
        with refused("IncompatibleSchema"):
            client.create_producer(topic, schema=string)
        # The operator may.
        body = {"type": "STRING", "schema": "", "properties": {}}
        assert served.http.post(f"/schemas/{ns}/typed/schema", json=body).status_code == 200
        client.create_producer(topic, schema=string).send("told")
        assert served.http.post(update, json=True).status_code == 204
        client.create_producer(f"{topic}-2", schema=string).send("brought")


def test_a_subscription_that_nobody_joins_is_deleted_in_its_time(served: Served) -> None:
    ns = served.namespace()
    path = f"/persistent/{ns}/orders"
    assert served.http.put(path).status_code == 204
    for name in ("left", "held"):
        assert served.http.put(f"{path}/subscription/{name}", json="earliest").status_code == 204
    limit = f"/namespaces/{ns}/subscriptionExpirationTime"
    assert served.http.post(limit, json=1).status_code == 204
    with served.client() as client:
        client.subscribe(f"persistent://{ns}/orders", "held")

        def as_if_two_minutes_went_by() -> None:
            topic = served.broker.topics[f"persistent://{ns}/orders"]
            for subscription in topic.subscriptions.values():
                subscription.active_ticks -= 120_000
            served.broker.upkeep.delete_inactive()

        served.call(as_if_two_minutes_went_by)
        wait_until(lambda: served.http.get(f"{path}/subscriptions").json() == ["held"])
    # The topic's own word goes first: never.
    assert served.http.put(f"{path}/subscription/left", json="earliest").status_code == 204
    own = f"{path}/subscriptionExpirationTime?subscriptionExpirationTime=0"
    assert served.http.post(own).status_code == 204
    served.call(as_if_two_minutes_went_by)
    assert "left" in served.http.get(f"{path}/subscriptions").json()


def test_the_broker_may_say_all_of_it() -> None:
    settings = BrokerSettings(
        subscription_expiration_minutes=5,
        encryption_required=True,
        allow_auto_update_schema=False,
    )
    served = Served(settings)
    served.start()
    try:
        base = "/persistent/public/default/t"
        assert served.http.put(base).status_code == 204
        for policy, value in (
            ("subscriptionExpirationTime", 5),
            ("encryptionRequired", True),
            ("isAllowAutoUpdateSchema", False),
        ):
            assert served.http.get(f"{base}/{policy}?applied=true").json() == value
    finally:
        served.stop()
