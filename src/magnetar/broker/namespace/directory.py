"""What exists by name: tenants, namespaces, partitioned topics, and the policies of all.

Kept in the catalog, and read from it once; every change is durable when its call returns.
Topics themselves are in the store; what is noted of a topic here is that it was
terminated, the epoch of its exclusive producers, and its properties.
"""

import json
from typing import Final, final

from magnetar.broker.auth.permissions import Permissions
from magnetar.broker.policy.effective_policies import EffectivePolicies
from magnetar.broker.policy.policy import Policies
from magnetar.broker.rate.resource_group import ResourceGroup
from magnetar.broker.setting.settings import BrokerSettings
from magnetar.errors import BrokerError
from magnetar.model import ServerError, TopicName
from magnetar.storage.catalog.catalog import Catalog

__all__ = ["Directory", "TopicNote"]

TENANTS: Final = "tenants"
NAMESPACES: Final = "namespaces"
PARTITIONED: Final = "partitioned"
TOPICS: Final = "topics"
TOPIC_POLICIES: Final = "topic-policies"
PERMISSIONS: Final = "permissions"
GROUPS: Final = "resource-groups"

# What a new broker begins with, as Apache Pulsar's standalone does.
FIRST_TENANT: Final = "public"
FIRST_NAMESPACE: Final = "public/default"

NO_PERMISSIONS: Final = Permissions()


@final
class TopicNote:
    """What the catalog holds of one topic."""

    def __init__(
        self,
        *,
        terminated: bool = False,
        epoch: int = -1,
        properties: dict[str, str] | None = None,
    ) -> None:
        self.terminated: Final = terminated
        self.epoch: Final = epoch
        self.properties: Final[dict[str, str]] = properties or {}


@final
class Directory:
    """See the module."""

    def __init__(self, catalog: Catalog, settings: BrokerSettings) -> None:
        self._catalog: Final = catalog
        self._settings: Final = settings
        self.tenants: Final[dict[str, dict[str, object]]] = {}
        self.namespaces: Final[dict[str, Policies]] = {}
        self.groups: Final[dict[str, ResourceGroup]] = {}
        self.partitioned: Final[dict[str, int]] = {}
        self.partitioned_properties: Final[dict[str, dict[str, str]]] = {}
        self._topic_policies: Final[dict[str, Policies]] = {}
        self._permissions: Final[dict[str, Permissions]] = {}
        for name, value in catalog.items(TENANTS):
            self.tenants[name] = json.loads(value)
        for name, value in catalog.items(NAMESPACES):
            self.namespaces[name] = Policies.from_json(json.loads(value))
        for name, value in catalog.items(PARTITIONED):
            found = json.loads(value)
            self.partitioned[name] = int(found["partitions"])
            self.partitioned_properties[name] = dict(found.get("properties", {}))
        for name, value in catalog.items(TOPIC_POLICIES):
            self._topic_policies[name] = Policies.from_json(json.loads(value))
        for name, value in catalog.items(PERMISSIONS):
            self._permissions[name] = Permissions.from_json(json.loads(value))
        for name, value in catalog.items(GROUPS):
            self.groups[name] = ResourceGroup(json.loads(value))
        if not self.tenants:
            self.put_tenant(FIRST_TENANT, {"adminRoles": [], "allowedClusters": []})
            self.put_namespace(FIRST_NAMESPACE, Policies())

    # ---- Tenants and namespaces ----------------------------------------------

    def put_tenant(self, name: str, info: dict[str, object]) -> None:
        self._catalog.put(TENANTS, name, json.dumps(info))
        self.tenants[name] = info

    def delete_tenant(self, name: str) -> None:
        self._catalog.delete(TENANTS, name)
        self.tenants.pop(name, None)

    def namespaces_of(self, tenant: str) -> list[str]:
        return [name for name in self.namespaces if name.partition("/")[0] == tenant]

    def put_namespace(self, name: str, policies: Policies) -> None:
        self._catalog.put(NAMESPACES, name, json.dumps(policies.to_json()))
        self.namespaces[name] = policies

    def delete_namespace(self, name: str) -> None:
        self.put_permissions(name, NO_PERMISSIONS)
        self._catalog.delete(NAMESPACES, name)
        self.namespaces.pop(name, None)

    # ---- Resource groups -----------------------------------------------------

    def put_group(self, name: str, group: ResourceGroup) -> None:
        self._catalog.put(GROUPS, name, json.dumps(group.to_json()))
        self.groups[name] = group

    def delete_group(self, name: str) -> None:
        self._catalog.delete(GROUPS, name)
        self.groups.pop(name, None)

    def namespaces_in(self, group: str) -> set[str]:
        """Returns the namespaces that are in a resource group."""
        return {name for name, told in self.namespaces.items() if told.resource_group == group}

    def require_namespace(self, namespace: str) -> None:
        """Raises BrokerError if a topic cannot be in it."""
        if namespace in self.namespaces:
            return
        tenant = namespace.partition("/")[0]
        if tenant not in self.tenants:
            reason = f"Tenant does not exist: create {tenant!r} first"
        else:
            reason = f"Namespace does not exist: create {namespace!r} first"
        raise BrokerError(ServerError.TopicNotFound, reason)

    # ---- Who may do what -----------------------------------------------------

    def admins_of(self, tenant: str) -> list[str]:
        """Returns the roles that may manage a tenant's namespaces and topics."""
        found = self.tenants.get(tenant, {}).get("adminRoles")
        return found if isinstance(found, list) else []

    def permissions_of(self, namespace: str) -> Permissions:
        return self._permissions.get(namespace, NO_PERMISSIONS)

    def put_permissions(self, namespace: str, permissions: Permissions) -> None:
        if permissions.empty:
            if namespace in self._permissions:
                self._catalog.delete(PERMISSIONS, namespace)
                del self._permissions[namespace]
            return
        self._catalog.put(PERMISSIONS, namespace, json.dumps(permissions.to_json()))
        self._permissions[namespace] = permissions

    def forget_permissions(self, name: TopicName) -> None:
        """Somebody deleted the topic. One that nobody used keeps them, for it may come back."""
        permissions = self.permissions_of(name.namespace)
        if str(name) in permissions.topics:
            self.put_permissions(name.namespace, permissions.without_topic(str(name)))

    # ---- Partitioned topics --------------------------------------------------

    def put_partitioned(
        self, name: str, partitions: int, properties: dict[str, str] | None = None
    ) -> None:
        kept = self.partitioned_properties.get(name, {}) if properties is None else properties
        value = json.dumps({"partitions": partitions, "properties": kept})
        self._catalog.put(PARTITIONED, name, value)
        self.partitioned[name] = partitions
        self.partitioned_properties[name] = kept

    def delete_partitioned(self, name: str) -> None:
        self._catalog.delete(PARTITIONED, name)
        self.partitioned.pop(name, None)
        self.partitioned_properties.pop(name, None)

    # ---- Topics --------------------------------------------------------------

    def note(self, topic: str) -> TopicNote:
        value = self._catalog.get(TOPICS, topic)
        if value is None:
            return TopicNote()
        found = json.loads(value)
        return TopicNote(
            terminated=bool(found.get("terminated", False)),
            epoch=int(found.get("epoch", -1)),
            properties=dict(found.get("properties", {})),
        )

    def put_note(self, topic: str, note: TopicNote) -> None:
        value = {
            "terminated": note.terminated,
            "epoch": note.epoch,
            "properties": note.properties,
        }
        self._catalog.put(TOPICS, topic, json.dumps(value))

    def forget_topic(self, topic: str) -> None:
        """The topic is deleted, and its policies with it."""
        self._catalog.delete(TOPICS, topic)
        self.delete_topic_policies(topic)

    # ---- Policies ------------------------------------------------------------

    def topic_policies(self, name: TopicName) -> Policies:
        """Returns those of the topic itself; partitions have those of the whole."""
        return self._topic_policies.get(str(name.partitioned), Policies())

    def put_topic_policies(self, name: TopicName, policies: Policies) -> None:
        key = str(name.partitioned)
        self._catalog.put(TOPIC_POLICIES, key, json.dumps(policies.to_json()))
        self._topic_policies[key] = policies

    def delete_topic_policies(self, topic: str) -> None:
        if self._topic_policies.pop(topic, None) is not None:
            self._catalog.delete(TOPIC_POLICIES, topic)

    def effective(self, name: TopicName) -> EffectivePolicies:
        """Returns what holds for a topic, all levels considered."""
        return EffectivePolicies(
            self._settings,
            self.namespaces.get(name.namespace),
            self._topic_policies.get(str(name.partitioned)),
        )
