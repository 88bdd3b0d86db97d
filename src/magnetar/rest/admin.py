"""`magnetar.Admin`: what a broker or a cluster can be asked and told, noun by noun, blocking.

    with magnetar.Admin("http://localhost:8080") as admin:
        admin.topics.create("orders")
        admin.topics.stats("orders").subscriptions["billing"].msg_backlog

Each operation is a plan (`magnetar.rest.plan`) that this door carries out at once;
`magnetar.rest.aio` has the same for asyncio. The signatures and docstrings are the plans' own.
"""

import functools
from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, ParamSpec, Protocol, TypeVar

from magnetar.errors import OperationNotSupported
from magnetar.model import MessageId
from magnetar.rest.admin_client import AdminClient
from magnetar.rest.plan import (
    namespaces,
    policies,
    schemas,
    subscriptions,
    topics,
    transactions,
)
from magnetar.rest.request import Plan
from magnetar.rest.site import TIMEOUT_S, Proof
from magnetar.rest.skip.ack_plan import AckPlan, consumer_options
from magnetar.rest.skip.skip_plan import skip_or_plan
from magnetar.rest.skip.skipped import Skipped

__all__ = [
    "Admin",
    "Brokers",
    "Namespaces",
    "Policies",
    "Schemas",
    "Subscriptions",
    "Tenants",
    "Topics",
    "Transactions",
]

P = ParamSpec("P")
T = TypeVar("T")


class AckingClient(Protocol):
    """A `magnetar.Client`, or the official one."""

    def subscribe(self, *args: Any, **options: Any) -> Any:
        """Returns a consumer."""


class Noun:
    """Operations on one kind of thing."""

    def __init__(self, client: AdminClient) -> None:
        self._client = client


class Blocking(Generic[P, T]):
    """A method that carries out a plan, with the plan's signature and docstring."""

    def __init__(self, plan: Callable[P, Plan[T]]) -> None:
        self._plan = plan
        functools.update_wrapper(self, plan)  # type: ignore[arg-type]

    def __get__(self, noun: Noun | None, owner: type | None = None) -> Callable[P, T]:
        plan = self._plan

        @functools.wraps(plan)
        def call(*args: P.args, **options: P.kwargs) -> T:
            assert noun is not None, "ask an Admin: admin.topics.create(...)"
            return noun._client.do(plan(*args, **options))

        return call


class Topics(Noun):
    """Topics: made, listed, looked at, unloaded, ended, deleted."""

    list: Final = Blocking(topics.list_topics)
    list_partitioned: Final = Blocking(topics.list_partitioned)
    create: Final = Blocking(topics.create)
    create_partitioned: Final = Blocking(topics.create_partitioned)
    update_partitions: Final = Blocking(topics.update_partitions)
    partition_count: Final = Blocking(topics.partition_count)
    delete: Final = Blocking(topics.delete)
    stats: Final = Blocking(topics.stats)
    internal_stats: Final = Blocking(topics.internal_stats)
    properties: Final = Blocking(topics.properties)
    last_message_id: Final = Blocking(topics.last_message_id)
    message_id_at: Final = Blocking(topics.message_id_at)
    lookup: Final = Blocking(topics.lookup)
    unload: Final = Blocking(topics.unload)
    terminate: Final = Blocking(topics.terminate)
    truncate: Final = Blocking(topics.truncate)
    trim: Final = Blocking(topics.trim)
    compact: Final = Blocking(topics.compact)
    compaction_status: Final = Blocking(topics.compaction_status)
    delete_compacted_view: Final = Blocking(topics.delete_compacted_view)


class Subscriptions(Noun):
    """Subscriptions: made, listed, skipped on, reset, expired, deleted."""

    def __init__(self, client: AdminClient, acking: AckingClient | None) -> None:
        super().__init__(client)
        self._acking = acking

    list: Final = Blocking(subscriptions.list_subscriptions)
    create: Final = Blocking(subscriptions.create)
    delete: Final = Blocking(subscriptions.delete)
    skip: Final = Blocking(subscriptions.skip)
    skip_all: Final = Blocking(subscriptions.skip_all)
    reset: Final = Blocking(subscriptions.reset)
    expire: Final = Blocking(subscriptions.expire)
    properties: Final = Blocking(subscriptions.properties)
    set_properties: Final = Blocking(subscriptions.set_properties)
    analyze_backlog: Final = Blocking(subscriptions.analyze_backlog)
    ack_state: Final = Blocking(subscriptions.ack_state)

    def skip_messages(
        self,
        topic: str,
        subscription: str,
        message_ids: "Iterable[MessageId | str]",
        *,
        recall: bool | None = None,
    ) -> Skipped:
        """Skips single messages by their ids (PIP-423), delayed ones too: all of them or none.

        An id is a `MessageId`, its base64, or `ledger:entry:batchIndex`. The messages will not be
        delivered on this subscription; those that wait in consumers' queues are taken back
        unless `recall` is false.

        A cluster that cannot skip by id has them acked through the `client` that the Admin was
        given; that is not one step. Raises OperationNotSupported if it was given none, AdminError
        for Exclusive and Failover subscriptions, and a UsageError for a bad id.
        """
        found = self._client.do(skip_or_plan(topic, subscription, message_ids, recall=recall))
        if isinstance(found, Skipped):
            return found
        return self._ack(found)

    def _ack(self, plan: AckPlan) -> Skipped:
        client = required(self._acking)
        done = 0
        try:
            for part, ids in plan.acks.items():
                consumer = client.subscribe(str(part), plan.subscription, **consumer_options(plan))
                try:
                    consumer.acknowledge([*ids.values()])
                finally:
                    consumer.close()
                done += 1
        except BaseException as error:
            error.add_note(how_far(done, plan))
            raise
        return Skipped(by_acks=True, gone=plan.gone, requests=0)


class Policies(Noun):
    """Policies of a topic or of a whole namespace, `tenant/namespace`."""

    get: Final = Blocking(policies.get)
    set: Final = Blocking(policies.set_policy)
    remove: Final = Blocking(policies.remove)
    retention: Final = Blocking(policies.retention)
    set_retention: Final = Blocking(policies.set_retention)
    message_ttl: Final = Blocking(policies.message_ttl)
    set_message_ttl: Final = Blocking(policies.set_message_ttl)
    backlog_quotas: Final = Blocking(policies.backlog_quotas)
    set_backlog_quota: Final = Blocking(policies.set_backlog_quota)
    deduplication: Final = Blocking(policies.deduplication)
    set_deduplication: Final = Blocking(policies.set_deduplication)
    delayed_delivery: Final = Blocking(policies.delayed_delivery)
    set_delayed_delivery: Final = Blocking(policies.set_delayed_delivery)


class Schemas(Noun):
    """Schemas of topics."""

    get: Final = Blocking(schemas.get)
    list: Final = Blocking(schemas.list_versions)
    add: Final = Blocking(schemas.add)
    is_compatible: Final = Blocking(schemas.is_compatible)
    delete: Final = Blocking(schemas.delete)


class Namespaces(Noun):
    """Namespaces, as `tenant/namespace`."""

    list: Final = Blocking(namespaces.list_namespaces)
    create: Final = Blocking(namespaces.create)
    delete: Final = Blocking(namespaces.delete)
    unload: Final = Blocking(namespaces.unload)
    clear_backlog: Final = Blocking(namespaces.clear_backlog)


class Tenants(Noun):
    """Tenants."""

    list: Final = Blocking(namespaces.list_tenants)
    get: Final = Blocking(namespaces.get_tenant)
    create: Final = Blocking(namespaces.create_tenant)
    update: Final = Blocking(namespaces.update_tenant)
    delete: Final = Blocking(namespaces.delete_tenant)


class Transactions(Noun):
    """Transactions: those that are open, and how others ended."""

    list: Final = Blocking(transactions.list_open)
    get: Final = Blocking(transactions.get)
    abort: Final = Blocking(transactions.abort)
    coordinator_stats: Final = Blocking(transactions.coordinator_stats)


class Brokers(Noun):
    """The broker that answers, and the clusters."""

    list_clusters: Final = Blocking(namespaces.list_clusters)
    health: Final = Blocking(namespaces.health)
    version: Final = Blocking(namespaces.version)


class Admin:
    """Administers a broker or a cluster, by its admin REST; close it, or use it in a `with`.

    Threads may share one: their requests go one after the other. Operations raise AdminError if
    the server refuses, ConnectError or Timeout if it is out of reach.
    """

    def __init__(
        self,
        admin_url: str,
        *,
        authentication: Proof | None = None,
        client: AckingClient | None = None,
        tls_trust_certs_file_path: str | None = None,
        tls_certificate_file_path: str | None = None,
        tls_private_key_file_path: str | None = None,
        tls_allow_insecure_connection: bool = False,
        tls_validate_hostname: bool = True,
        operation_timeout_seconds: float = TIMEOUT_S,
    ) -> None:
        """Options are named as those of `magnetar.Client`; nothing is connected yet.

        `admin_url` is where admin REST is, `http://HOST:8080` or `https://HOST:8443`.
        `authentication` is `AuthenticationToken(...)`, `AuthenticationTLS(...)` or
        `AuthenticationBasic(...)`. `client` is used where a cluster cannot skip by message id.
        """
        self._client: Final = AdminClient(
            admin_url,
            authentication=authentication,
            trust_certs=tls_trust_certs_file_path,
            certificate=tls_certificate_file_path,
            key=tls_private_key_file_path,
            allow_insecure=tls_allow_insecure_connection,
            validate_hostname=tls_validate_hostname,
            timeout_s=operation_timeout_seconds,
            url_option="admin_url",
        )
        self.topics: Final = Topics(self._client)
        self.subscriptions: Final = Subscriptions(self._client, client)
        self.policies: Final = Policies(self._client)
        self.schemas: Final = Schemas(self._client)
        self.namespaces: Final = Namespaces(self._client)
        self.tenants: Final = Tenants(self._client)
        self.brokers: Final = Brokers(self._client)
        self.transactions: Final = Transactions(self._client)

    def close(self) -> None:
        """Closes the connection; the next operation would make another."""
        self._client.close()

    def __enter__(self) -> "Admin":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Admin({self._client.url!r})"


# ---- What both doors share -------------------------------------------------------------


def required(client: T | None) -> T:
    """Returns the client that acks. Raises OperationNotSupported if there is none."""
    if client is None:
        raise OperationNotSupported(
            "this cluster cannot skip by message id: make the Admin with client=..., whose "
            "consumer acknowledges the messages instead"
        )
    return client


def how_far(done: int, plan: AckPlan) -> str:
    """Returns how many partitions are acked, for an error in between."""
    return (
        f"messages of {done} of {len(plan.acks)} topics or partitions are skipped for sure, and "
        "some of the next one may be: the same call once more does the rest"
    )
