"""`magnetar.aio.Admin`: what a broker or a cluster can be asked and told, for asyncio.

    async with magnetar.aio.Admin("http://localhost:8080") as admin:
        await admin.topics.create("orders")
        stats = await admin.topics.stats("orders")

Operations, arguments and answers are those of `magnetar.Admin`: both doors carry out the same
plans.
"""

import functools
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final, Generic, ParamSpec, Protocol, TypeVar

from magnetar.model import MessageId
from magnetar.rest.admin import how_far, required
from magnetar.rest.async_admin_client import AsyncAdminClient
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
    """A `magnetar.aio.Client`."""

    async def subscribe(self, *args: Any, **options: Any) -> Any:
        """Returns a consumer."""


class Noun:
    """Operations on one kind of thing."""

    def __init__(self, client: AsyncAdminClient) -> None:
        self._client = client


class Awaited(Generic[P, T]):
    """A method that carries out a plan, with the plan's signature and docstring."""

    def __init__(self, plan: Callable[P, Plan[T]]) -> None:
        self._plan = plan
        functools.update_wrapper(self, plan)  # type: ignore[arg-type]

    def __get__(
        self, noun: Noun | None, owner: type | None = None
    ) -> Callable[P, Coroutine[Any, Any, T]]:
        plan = self._plan

        @functools.wraps(plan)
        async def call(*args: P.args, **options: P.kwargs) -> T:
            assert noun is not None, "ask an Admin: admin.topics.create(...)"
            return await noun._client.do(plan(*args, **options))

        return call


class Topics(Noun):
    """Topics: made, listed, looked at, unloaded, ended, deleted."""

    list: Final = Awaited(topics.list_topics)
    list_partitioned: Final = Awaited(topics.list_partitioned)
    create: Final = Awaited(topics.create)
    create_partitioned: Final = Awaited(topics.create_partitioned)
    update_partitions: Final = Awaited(topics.update_partitions)
    partition_count: Final = Awaited(topics.partition_count)
    delete: Final = Awaited(topics.delete)
    stats: Final = Awaited(topics.stats)
    internal_stats: Final = Awaited(topics.internal_stats)
    properties: Final = Awaited(topics.properties)
    last_message_id: Final = Awaited(topics.last_message_id)
    message_id_at: Final = Awaited(topics.message_id_at)
    lookup: Final = Awaited(topics.lookup)
    unload: Final = Awaited(topics.unload)
    terminate: Final = Awaited(topics.terminate)
    truncate: Final = Awaited(topics.truncate)
    trim: Final = Awaited(topics.trim)
    compact: Final = Awaited(topics.compact)
    compaction_status: Final = Awaited(topics.compaction_status)
    delete_compacted_view: Final = Awaited(topics.delete_compacted_view)


class Subscriptions(Noun):
    """Subscriptions: made, listed, skipped on, reset, expired, deleted."""

    def __init__(self, client: AsyncAdminClient, acking: AckingClient | None) -> None:
        super().__init__(client)
        self._acking = acking

    list: Final = Awaited(subscriptions.list_subscriptions)
    create: Final = Awaited(subscriptions.create)
    delete: Final = Awaited(subscriptions.delete)
    skip: Final = Awaited(subscriptions.skip)
    skip_all: Final = Awaited(subscriptions.skip_all)
    reset: Final = Awaited(subscriptions.reset)
    expire: Final = Awaited(subscriptions.expire)
    properties: Final = Awaited(subscriptions.properties)
    set_properties: Final = Awaited(subscriptions.set_properties)
    analyze_backlog: Final = Awaited(subscriptions.analyze_backlog)
    ack_state: Final = Awaited(subscriptions.ack_state)

    async def skip_messages(
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
        found = await self._client.do(skip_or_plan(topic, subscription, message_ids, recall=recall))
        if isinstance(found, Skipped):
            return found
        return await self._ack(found)

    async def _ack(self, plan: AckPlan) -> Skipped:
        client = required(self._acking)
        done = 0
        try:
            for part, ids in plan.acks.items():
                consumer = await client.subscribe(
                    str(part), plan.subscription, **consumer_options(plan)
                )
                try:
                    await consumer.acknowledge([*ids.values()])
                finally:
                    await consumer.close()
                done += 1
        except BaseException as error:
            error.add_note(how_far(done, plan))
            raise
        return Skipped(by_acks=True, gone=plan.gone, requests=0)


class Policies(Noun):
    """Policies of a topic or of a whole namespace, `tenant/namespace`."""

    get: Final = Awaited(policies.get)
    set: Final = Awaited(policies.set_policy)
    remove: Final = Awaited(policies.remove)
    retention: Final = Awaited(policies.retention)
    set_retention: Final = Awaited(policies.set_retention)
    message_ttl: Final = Awaited(policies.message_ttl)
    set_message_ttl: Final = Awaited(policies.set_message_ttl)
    backlog_quotas: Final = Awaited(policies.backlog_quotas)
    set_backlog_quota: Final = Awaited(policies.set_backlog_quota)
    deduplication: Final = Awaited(policies.deduplication)
    set_deduplication: Final = Awaited(policies.set_deduplication)
    delayed_delivery: Final = Awaited(policies.delayed_delivery)
    set_delayed_delivery: Final = Awaited(policies.set_delayed_delivery)


class Schemas(Noun):
    """Schemas of topics."""

    get: Final = Awaited(schemas.get)
    list: Final = Awaited(schemas.list_versions)
    add: Final = Awaited(schemas.add)
    is_compatible: Final = Awaited(schemas.is_compatible)
    delete: Final = Awaited(schemas.delete)


class Namespaces(Noun):
    """Namespaces, as `tenant/namespace`."""

    list: Final = Awaited(namespaces.list_namespaces)
    create: Final = Awaited(namespaces.create)
    delete: Final = Awaited(namespaces.delete)
    unload: Final = Awaited(namespaces.unload)
    clear_backlog: Final = Awaited(namespaces.clear_backlog)


class Tenants(Noun):
    """Tenants."""

    list: Final = Awaited(namespaces.list_tenants)
    get: Final = Awaited(namespaces.get_tenant)
    create: Final = Awaited(namespaces.create_tenant)
    update: Final = Awaited(namespaces.update_tenant)
    delete: Final = Awaited(namespaces.delete_tenant)


class Transactions(Noun):
    """Transactions: those that are open, and how others ended."""

    list: Final = Awaited(transactions.list_open)
    get: Final = Awaited(transactions.get)
    abort: Final = Awaited(transactions.abort)
    coordinator_stats: Final = Awaited(transactions.coordinator_stats)


class Brokers(Noun):
    """The broker that answers, and the clusters."""

    list_clusters: Final = Awaited(namespaces.list_clusters)
    health: Final = Awaited(namespaces.health)
    version: Final = Awaited(namespaces.version)


class Admin:
    """Administers a broker or a cluster, by its admin REST; close it, or use it in an `async with`.

    Tasks of one loop may share one: their requests go one after the other. Operations raise
    AdminError if the server refuses, ConnectError or Timeout if it is out of reach.
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
        """Options are named as those of `magnetar.aio.Client`; nothing is connected yet.

        `admin_url` is where admin REST is, `http://HOST:8080` or `https://HOST:8443`.
        `authentication` is `AuthenticationToken(...)`, `AuthenticationTLS(...)` or
        `AuthenticationBasic(...)`. `client` is used where a cluster cannot skip by message id.
        """
        self._client: Final = AsyncAdminClient(
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

    async def close(self) -> None:
        """Closes the connection; the next operation would make another."""
        await self._client.close()

    async def __aenter__(self) -> "Admin":
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"aio.Admin({self._client.url!r})"
