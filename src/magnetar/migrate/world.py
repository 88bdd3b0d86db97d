"""What is around the messages: tenants, namespaces, topics, schemas, policies, permissions."""

from collections.abc import Iterator
from typing import Any, Final

from magnetar.migrate.plan.policy import NAMESPACE_POLICIES, TOPIC_POLICIES, MovedPolicy
from magnetar.migrate.side import Side
from magnetar.model import TopicName
from magnetar.rest.admin_error import AdminError
from magnetar.rest.path import namespace_path, path_of, topic_path
from magnetar.rest.plan import namespaces, schemas, topics
from magnetar.rest.request import Plan, Request

__all__ = ["World"]

# A cluster's own.
OWN_TENANTS: Final = ("pulsar",)
# While schemas are made anew: they were compatible when they were new.
ANY_SCHEMA: Final = "ALWAYS_COMPATIBLE"
STRATEGY: Final = "schemaCompatibilityStrategy"
# How a server says that it does not have what is asked for.
ABSENT: Final = (404, 405, 501)


class World:
    """See the module. `problems` has, in words, what the target did not take."""

    def __init__(self, source: Side, target: Side, wanted: list[str]) -> None:
        """`wanted` names the namespaces to be moved; none are all."""
        self._source = source
        self._target = target
        self._wanted = wanted
        self.problems: Final[list[str]] = []

    # ---- What there is -------------------------------------------------------

    def namespaces(self) -> list[str]:
        """Returns the namespaces that are moved."""
        if self._wanted:
            return self._wanted
        tenants = self._source.do(namespaces.list_tenants())
        return [
            name
            for tenant in sorted(tenants)
            if tenant not in OWN_TENANTS
            for name in sorted(self._source.do(namespaces.list_namespaces(tenant)))
        ]

    def topics(self, namespace: str) -> tuple[dict[str, int], list[str]]:
        """Returns the partitioned topics with their counts, and all that have messages: topics
        without partitions, and partitions."""
        whole = self._source.do(topics.list_partitioned(namespace))
        counts = {name: self._source.do(topics.partition_count(name)) for name in sorted(whole)}
        found = set(self._source.do(topics.list_topics(namespace)))
        for name, count in counts.items():
            found.update(f"{name}-partition-{number}" for number in range(count))
        return counts, sorted(name for name in found if not _is_own(name))

    # ---- Before the messages -------------------------------------------------

    def make_namespace(self, namespace: str) -> None:
        """Makes a namespace and its tenant, if they are not there."""
        tenant = namespace.partition("/")[0]
        roles = self._source.do(namespaces.get_tenant(tenant)).admin_roles
        self._target.make(namespaces.create_tenant(tenant, admin_roles=roles))
        self._target.make(namespaces.create(namespace))

    def make_topics(self, counts: dict[str, int], names: list[str]) -> None:
        """Makes topics, if they are not there; they have as many partitions as here, or more."""
        for name, count in counts.items():
            made = self._target.make(topics.create_partitioned(name, count))
            if not made and self._target.do(topics.partition_count(name)) < count:
                self._target.do(topics.update_partitions(name, count))
        for name in names:
            if TopicName.parse(name).partition < 0:
                self._target.make(topics.create(name))

    def move_schemas(self, topic: str) -> list[tuple[str, str]]:
        """Makes a topic's schemas in their order; returns the versions that have other names.

        Names are the bytes that messages have, in hex.
        """
        here = self._source.do(_versions(topic))
        if not here:
            return []
        there = self._target.do(_versions(topic))
        strategy = self._told(self._target, namespace_path(_namespace(topic), STRATEGY))
        self._tell_strategy(topic, ANY_SCHEMA)
        try:
            for one in here[len(there) :]:
                self._target.do(schemas.add(topic, one.type, one.data, properties=one.properties))
        finally:
            if isinstance(strategy, str):
                self._tell_strategy(topic, strategy)
        there = self._target.do(_versions(topic))
        return [
            (_version_hex(one.version), _version_hex(other.version))
            for one, other in zip(here, there, strict=False)
            if one.version != other.version
        ]

    def _tell_strategy(self, topic: str, strategy: str) -> None:
        path = namespace_path(_namespace(topic), STRATEGY)
        self._target.do(_telling(Request("PUT", path, strategy)))

    # ---- After the messages --------------------------------------------------

    def move_policies(self, namespace: str, names: list[str]) -> None:
        """Tells the target what a namespace and its topics were told, and who may do what."""
        self._move_permissions(namespace, namespace_path(namespace, "permissions"))
        for policy in NAMESPACE_POLICIES:
            self._move(namespace, policy, namespace_path)
        # Partitions have those of their topic.
        for name in sorted({str(TopicName.parse(name).partitioned) for name in names}):
            self._move_permissions(name, topic_path(name, "permissions"))
            for policy in TOPIC_POLICIES:
                self._move(name, policy, topic_path)

    def _move(self, scope: str, policy: MovedPolicy, path_of_scope: Any) -> None:
        path = path_of_scope(scope, policy.name)
        here = self._told(self._source, path)
        if here is None or here == self._told(self._target, path):
            return
        for request in _tellings(path_of_scope(scope, policy.told_at or policy.name), policy, here):
            self._tell(f"{policy.name} of {scope}", request)

    def _move_permissions(self, scope: str, path: str) -> None:
        here = self._told(self._source, path)
        there = self._told(self._target, path)
        if not isinstance(here, dict) or here == there:
            return
        for role, actions in here.items():
            request = Request("POST", f"{path}/{path_of(role).rpartition('/')[2]}", actions)
            self._tell(f"what {role} may do with {scope}", request)

    def _told(self, side: Side, path: str) -> object:
        """Returns a policy; None if it was not told, or is not known there."""
        try:
            return side.do(_asking(path))
        except AdminError as error:
            if error.status not in ABSENT:
                raise
            return None

    def _tell(self, what: str, request: Request) -> None:
        try:
            self._target.do(_telling(request))
        except AdminError as error:
            self.problems.append(f"{what} was not taken: {error}")


def _tellings(path: str, policy: MovedPolicy, value: object) -> Iterator[Request]:
    if policy.told_at:
        assert isinstance(value, dict), value
        for kind, one in value.items():
            yield Request("POST", path, one, {f"{policy.told_at}Type": kind})
    elif policy.in_query:
        yield Request(policy.method, path, query={policy.in_query: value})
    else:
        yield Request(policy.method, path, value)


def _asking(path: str) -> Plan[object]:
    return (yield Request("GET", path)).json()


def _telling(request: Request) -> Plan[None]:
    yield request


def _versions(topic: str) -> Plan[list[Any]]:
    try:
        return list((yield from schemas.list_versions(topic)))
    except AdminError as error:
        if error.status != 404:
            raise
        return []


def _version_hex(version: int) -> str:
    return version.to_bytes(8, "big", signed=True).hex()


def _namespace(topic: str) -> str:
    return str(TopicName.parse(topic).namespace)


def _is_own(topic: str) -> bool:
    """Whether a topic is the cluster's."""
    return TopicName.parse(topic).local_name.startswith("__")
