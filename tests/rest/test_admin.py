"""`magnetar.Admin` and `magnetar.aio.Admin` with our broker: every operation, by both doors."""

import asyncio
import inspect
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from support.served import Served
from support.tokens import SECRET_SETTING, Issuer, token
from support.web import lacking

import magnetar
from magnetar.broker.setting.settings import BrokerSettings
from magnetar.rest import admin as blocking_door
from magnetar.rest import aio as asyncio_door
from magnetar.rest.admin_error import (
    ConflictError,
    NotAuthorizedError,
    NotFoundError,
    OperationNotAllowedError,
)
from magnetar.rest.response.policy import BacklogQuota, DelayedDelivery, Retention

DOORS = ["blocking", "asyncio"]


class Waiting:
    """An asyncio door whose operations a test can call as it calls the blocking ones."""

    def __init__(self, runner: asyncio.Runner, noun: Any) -> None:
        self._runner = runner
        self._noun = noun

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._noun, name)
        if not inspect.iscoroutinefunction(found):
            return Waiting(self._runner, found)
        return lambda *args, **options: self._runner.run(found(*args, **options))


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    served = Served(BrokerSettings(transactions=True))
    served.start()
    yield served
    served.stop()


Open = Callable[..., Any]


@pytest.fixture(params=DOORS)
def opened(request: pytest.FixtureRequest) -> Iterator[Open]:
    """Makes an Admin of either door; a client, if one is wanted, is of the same door."""
    if request.param == "blocking":
        made: list[Any] = []

        def open(url: str, *, client_url: str = "", **options: Any) -> Any:
            if client_url:
                options["client"] = magnetar.Client(client_url)
                made.append(options["client"])
            made.append(magnetar.Admin(url, **options))
            return made[-1]

        yield open
        for one in reversed(made):
            one.close()
        return
    with asyncio.Runner() as runner:
        waiting: list[Any] = []

        async def make(url: str, client_url: str, options: dict[str, Any]) -> Any:
            if client_url:
                options["client"] = magnetar.aio.Client(client_url)
                waiting.append(options["client"])
            waiting.append(magnetar.aio.Admin(url, **options))
            return waiting[-1]

        def open_waiting(url: str, *, client_url: str = "", **options: Any) -> Any:
            return Waiting(runner, runner.run(make(url, client_url, options)))

        yield open_waiting
        for one in reversed(waiting):
            runner.run(one.close())


@pytest.fixture
def admin(opened: Open, served: Served) -> Any:
    return opened(served.http_url)


@pytest.fixture
def topic(served: Served) -> str:
    name = f"persistent://{served.namespace()}/orders"
    return name


def test_both_doors_offer_the_same_operations_with_the_same_signatures() -> None:
    for name in (
        "Topics",
        "Subscriptions",
        "Policies",
        "Schemas",
        "Namespaces",
        "Tenants",
        "Transactions",
    ):
        one, other = getattr(blocking_door, name), getattr(asyncio_door, name)
        names = [operation for operation in vars(one) if not operation.startswith("_")]
        assert names == [operation for operation in vars(other) if not operation.startswith("_")]
        for operation in names:
            here, there = getattr(one, operation), getattr(other, operation)
            assert inspect.getdoc(here) == inspect.getdoc(there) != None  # noqa: E711
            given = inspect.signature(here).parameters
            assert list(given) == list(inspect.signature(there).parameters)


def test_a_topic_is_made_looked_at_and_deleted(admin: Any, topic: str, served: Served) -> None:
    namespace = topic.partition("://")[2].rpartition("/")[0]
    admin.topics.create(topic, properties={"owner": "billing"})
    with pytest.raises(ConflictError):
        admin.topics.create(topic)
    assert admin.topics.list(namespace) == [topic]
    assert admin.topics.properties(topic) == {"owner": "billing"}
    assert admin.topics.partition_count(topic) == 0
    ids = served.publish(topic, 3)
    admin.subscriptions.create(topic, "s", position="earliest")
    stats = admin.topics.stats(topic, backlog_size=True, earliest_time=True)
    assert (stats.msg_in_counter, stats.subscriptions["s"].msg_backlog) == (3, 3)
    assert stats.subscriptions["s"].backlog_size > 0
    assert stats.subscriptions["s"].earliest_msg_publish_time_in_backlog > 0
    assert admin.topics.last_message_id(topic).entry_id() == ids[-1].entry_id()
    first = admin.topics.message_id_at(topic, datetime(2000, 1, 1, tzinfo=UTC))
    assert (first.ledger_id(), first.entry_id()) == (ids[0].ledger_id(), ids[0].entry_id())
    internal = admin.topics.internal_stats(topic)
    assert [ledger.entries for ledger in internal.ledgers] == [3]
    assert internal.cursors["s"].state == "Open"
    assert admin.topics.lookup(topic).broker_url == served.url
    admin.topics.unload(topic)
    admin.topics.trim(topic)
    admin.topics.truncate(topic)
    assert admin.topics.stats(topic).subscriptions["s"].msg_backlog == 0
    assert admin.topics.terminate(topic).partition() == -1
    admin.topics.delete(topic)
    with pytest.raises(NotFoundError) as told:
        admin.topics.stats(topic)
    assert told.value.status == 404


def test_a_partitioned_topic_has_the_same_operations(admin: Any, topic: str) -> None:
    namespace = topic.partition("://")[2].rpartition("/")[0]
    admin.topics.create_partitioned(topic, 2)
    admin.topics.update_partitions(topic, 3)
    assert admin.topics.partition_count(topic) == 3
    assert admin.topics.list_partitioned(namespace) == [topic]
    assert len(admin.topics.stats(topic).partitions) == 3
    admin.topics.delete(topic)
    assert admin.topics.list_partitioned(namespace) == []


def test_a_subscription_is_moved_and_emptied(admin: Any, topic: str, served: Served) -> None:
    admin.topics.create(topic)
    admin.subscriptions.create(topic, "s", properties={"a": "b"})
    ids = served.publish(topic, 4)
    assert admin.subscriptions.list(topic) == ["s"]
    assert admin.subscriptions.properties(topic, "s") == {"a": "b"}
    admin.subscriptions.set_properties(topic, "s", {"c": "d"})
    assert admin.subscriptions.properties(topic, "s") == {"c": "d"}

    def backlog() -> int:
        analysis = admin.subscriptions.analyze_backlog(topic, "s")
        assert analysis.entries == admin.topics.stats(topic).subscriptions["s"].msg_backlog
        return int(analysis.messages)

    assert backlog() == 4
    admin.subscriptions.skip(topic, "s", 1)
    assert backlog() == 3
    admin.subscriptions.skip_all(topic, "s")
    assert backlog() == 0
    admin.subscriptions.reset(topic, "s", "earliest")
    assert backlog() == 4
    place = magnetar.MessageId(-1, ids[1].ledger_id(), ids[1].entry_id(), -1)
    admin.subscriptions.reset(topic, "s", place)
    assert backlog() == 3
    admin.subscriptions.reset(topic, "s", place, exclusive=True)
    assert backlog() == 2
    admin.subscriptions.reset(topic, "s", datetime(2000, 1, 1, tzinfo=UTC))
    assert backlog() == 4
    admin.subscriptions.expire(topic, "s", timedelta(hours=1))
    assert backlog() == 4
    with pytest.raises(magnetar.SettingsError, match="time zone"):
        admin.subscriptions.reset(topic, "s", datetime(2000, 1, 1))
    with pytest.raises(magnetar.SettingsError, match="earliest, latest"):
        admin.subscriptions.reset(topic, "s", "yesterday")
    admin.subscriptions.delete(topic, "s")
    assert admin.subscriptions.list(topic) == []


def test_messages_are_skipped_by_id(admin: Any, topic: str, served: Served) -> None:
    admin.topics.create(topic)
    admin.subscriptions.create(topic, "s")
    ids = [magnetar.MessageId.deserialize(id.serialize()) for id in served.publish(topic, 5)]
    text = f"{ids[2].ledger_id()}:{ids[2].entry_id()}"
    skipped = admin.subscriptions.skip_messages(topic, "s", [ids[0], ids[1].to_base64(), text])
    assert (skipped.skipped, skipped.by_acks, skipped.unconfirmed) == (3, False, 0)
    assert [one.result for one in skipped.message_ids] == ["skipped"] * 3
    assert admin.topics.stats(topic).subscriptions["s"].msg_backlog == 2
    again = admin.subscriptions.skip_messages(topic, "s", [ids[0]])
    assert [one.result for one in again.message_ids] == ["already acked"]
    admin.subscriptions.skip_messages(topic, "s", [ids[4]])
    state = admin.subscriptions.ack_state(topic, "s")
    assert [hole.first for hole in state.holes] == [f"{ids[3].ledger_id()}:{ids[3].entry_id()}"]
    for bad, error in (
        ([], magnetar.SettingsError),
        (["x"], magnetar.InvalidMessageIdError),
        ([7], magnetar.InvalidMessageIdError),
        ([magnetar.MessageId.latest], magnetar.InvalidMessageIdError),
    ):
        with pytest.raises(error):
            admin.subscriptions.skip_messages(topic, "s", bad)
    with pytest.raises(NotFoundError, match="no subscription 'none'"):
        admin.subscriptions.skip_messages(topic, "none", [ids[3]])


def test_a_cluster_that_cannot_skip_by_id_has_the_messages_acked(
    opened: Open, served: Served, topic: str
) -> None:
    with lacking(served.http_url, "skipByMessageIds") as url:
        admin = opened(url, client_url=served.url)
        admin.topics.create_partitioned(topic, 2)
        admin.subscriptions.create(topic, "s")
        ids = [
            magnetar.MessageId.deserialize(id.serialize())
            for id in served.publish(topic, 10, batch=5)
        ]
        found = admin.subscriptions.skip_messages(topic, "s", [ids[0], ids[7]])
        assert (found.by_acks, found.gone) == (True, 0)
        left = admin.topics.stats(topic).subscriptions["s"].msg_backlog_messages
        assert left == 8
        with pytest.raises(magnetar.OperationNotSupported, match="client="):
            opened(url).subscriptions.skip_messages(topic, "s", [ids[1]])


def test_messages_of_an_exclusive_subscription_are_not_skipped_by_id(
    admin: Any, topic: str, served: Served
) -> None:
    admin.topics.create(topic)
    with served.client() as client:
        client.subscribe(topic, "s")
        id = magnetar.MessageId.deserialize(served.publish(topic, 1)[0].serialize())
        with pytest.raises(OperationNotAllowedError):
            admin.subscriptions.skip_messages(topic, "s", [id])


def test_policies_of_a_topic_and_of_a_namespace(admin: Any, topic: str) -> None:
    admin.topics.create(topic)
    namespace = topic.partition("://")[2].rpartition("/")[0]
    for scope in (namespace, topic):
        assert admin.policies.retention(scope) is None
        wanted = Retention(retention_time_in_minutes=5, retention_size_in_mb=7)
        admin.policies.set_retention(scope, wanted)
        assert admin.policies.retention(scope) == wanted
        admin.policies.set_message_ttl(scope, 60)
        assert admin.policies.message_ttl(scope) == 60
        quota = BacklogQuota(limit_size=1 << 20, policy="producer_exception")
        admin.policies.set_backlog_quota(scope, quota)
        assert admin.policies.backlog_quotas(scope)["destination_storage"].limit_size == 1 << 20
        admin.policies.set_deduplication(scope, True)
        assert admin.policies.deduplication(scope) is True
        delayed = DelayedDelivery(active=True, tick_time=500, max_delivery_delay_in_millis=9000)
        admin.policies.set_delayed_delivery(scope, delayed)
        assert admin.policies.delayed_delivery(scope) == delayed
        admin.policies.set(scope, "maxConsumersPerSubscription", 3)
        assert admin.policies.get(scope, "maxConsumersPerSubscription") == 3
        admin.policies.remove(scope, "maxConsumersPerSubscription")
        assert admin.policies.get(scope, "maxConsumersPerSubscription") is None
    admin.policies.remove(topic, "retention")
    assert admin.policies.retention(topic, applied=True) == wanted
    with pytest.raises(magnetar.SettingsError, match="message_age"):
        admin.policies.set_backlog_quota(topic, quota, kind="bytes")


def test_transactions_are_listed_and_aborted(admin: Any, served: Served) -> None:
    with magnetar.Client(served.url) as client:
        one, other = client.transaction(timeout=30), client.transaction()
        found = admin.transactions.list()
        assert found[one.id] == admin.transactions.get(one.id)
        assert (found[one.id].txn_id, found[one.id].status) == (one.id, "OPEN")
        assert found[one.id].timeout_at == 30_000
        assert other.id not in admin.transactions.list(3_600_000)
        assert admin.transactions.coordinator_stats()["0"].ongoing_txn_size >= 2
        admin.transactions.abort(one.id)
        assert admin.transactions.get(one.id.strip("()")).status == "ABORTED"
        other.commit()
        with pytest.raises(ConflictError, match="was committed"):
            admin.transactions.abort(other.id)
    with pytest.raises(NotFoundError):
        admin.transactions.get("0:1")
    for wrong in ("17", "(0,x)", "", "0:1:2"):
        with pytest.raises(magnetar.SettingsError, match="not the id of a transaction"):
            admin.transactions.abort(wrong)


def test_schemas_are_added_and_compared(admin: Any, topic: str) -> None:
    admin.topics.create(topic)
    with pytest.raises(NotFoundError):
        admin.schemas.get(topic)
    assert admin.schemas.add(topic, "STRING", "", properties={"a": "b"}) == 0
    assert admin.schemas.get(topic) == admin.schemas.get(topic, 0)
    assert (admin.schemas.get(topic).type, admin.schemas.get(topic).version) == ("STRING", 0)
    assert [one.version for one in admin.schemas.list(topic)] == [0]
    assert admin.schemas.is_compatible(topic, "STRING", "") is True
    admin.schemas.delete(topic)
    with pytest.raises(NotFoundError):
        admin.schemas.get(topic)


def test_tenants_namespaces_and_the_broker(admin: Any, opened: Open) -> None:
    tenant = f"tenant-{id(opened)}"
    admin.tenants.create(tenant, admin_roles=["ops"])
    assert admin.tenants.get(tenant).allowed_clusters == ["standalone"]
    admin.tenants.update(tenant, admin_roles=["dev"])
    assert admin.tenants.get(tenant).admin_roles == ["dev"]
    assert tenant in admin.tenants.list()
    admin.namespaces.create(f"{tenant}/one")
    assert admin.namespaces.list(tenant) == [f"{tenant}/one"]
    admin.topics.create(f"{tenant}/one/t")
    admin.namespaces.clear_backlog(f"{tenant}/one")
    admin.namespaces.clear_backlog(f"{tenant}/one", "s")
    admin.namespaces.unload(f"{tenant}/one")
    with pytest.raises(magnetar.AdminError):
        admin.namespaces.delete(f"{tenant}/one")
    admin.namespaces.delete(f"{tenant}/one", force=True)
    admin.tenants.delete(tenant)
    assert tenant not in admin.tenants.list()
    assert admin.brokers.list_clusters() == ["standalone"]
    assert admin.brokers.version() == magnetar.__version__
    admin.brokers.health()


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Issuer:
    return Issuer(tmp_path_factory.mktemp("issuer"))


@pytest.fixture(scope="module")
def guarded(issuer: Issuer) -> Iterator[Served]:
    """A broker that wants to know who asks."""
    certificate, key = issuer.issue("broker")
    served = Served(
        BrokerSettings(
            authentication=True,
            token_secret_key=SECRET_SETTING,
            super_user_roles=("root",),
            tls_certificate_file=certificate,
            tls_key_file=key,
            tls_trust_certs_file=str(issuer.certificate),
        )
    )
    served.start()
    yield served
    served.stop()


def test_who_asks_is_proved_as_a_client_proves_it(
    guarded: Served, issuer: Issuer, opened: Open
) -> None:
    by_token = magnetar.AuthenticationToken(lambda: token("root"))
    assert opened(guarded.http_url, authentication=by_token).tenants.list() == ["public"]
    over_tls = opened(
        guarded.http_url_tls,
        authentication=magnetar.AuthenticationTLS(*issuer.issue("root")),
        tls_trust_certs_file_path=str(issuer.certificate),
    )
    assert over_tls.tenants.list() == ["public"]
    with pytest.raises(NotAuthorizedError):
        opened(guarded.http_url).tenants.list()
    with pytest.raises(magnetar.ConnectError, match="verify"):
        opened(guarded.http_url_tls).tenants.list()
