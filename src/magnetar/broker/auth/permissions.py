"""What roles may do in a namespace: Pulsar's actions, granted by tenant admins.

    namespace     role: actions on all its topics
    topics        topic: role: actions on that topic and its partitions
    subscriptions subscription: the roles that may use it; one that is not named here, or
                  has no roles left, is open to all who may consume

`produce` and `consume` say themselves; `functions`, `sources`, `sinks` and `packages` are
kept for Pulsar's tools and have no meaning here. `skip` is ours: it lets an operator's role
remove messages from a subscription without reading them, and look at what there is of the
topic. Pulsar knows no such action, and has `consume` cover it; so does this broker.

A value: every change makes a new one.
"""

from collections.abc import Mapping
from typing import Final, final

from magnetar.errors import SettingsError

__all__ = [
    "ACTIONS",
    "CONSUME",
    "PRODUCE",
    "SKIP",
    "Permissions",
    "read_actions",
    "read_permissions",
    "read_roles",
]

PRODUCE: Final = "produce"
CONSUME: Final = "consume"
SKIP: Final = "skip"
ACTIONS: Final = (PRODUCE, CONSUME, "functions", "sources", "sinks", "packages", SKIP)

Grants = dict[str, tuple[str, ...]]


@final
class Permissions:
    """Those of one namespace; see the module."""

    def __init__(
        self,
        namespace: Grants | None = None,
        topics: dict[str, Grants] | None = None,
        subscriptions: Grants | None = None,
    ) -> None:
        self.namespace: Final[Grants] = namespace or {}
        self.topics: Final[dict[str, Grants]] = topics or {}
        self.subscriptions: Final[Grants] = subscriptions or {}

    # ---- Questions -----------------------------------------------------------

    @property
    def empty(self) -> bool:
        return not self.namespace and not self.topics and not self.subscriptions

    def in_namespace(self, role: str, actions: tuple[str, ...]) -> bool:
        """Returns whether a role has one of the actions on the whole namespace."""
        return _has_one(self.namespace.get(role), actions)

    def on_topic(self, topic: str, role: str, actions: tuple[str, ...]) -> bool:
        """Returns whether a role has one of the actions on a topic, named without its partition."""
        if _has_one(self.namespace.get(role), actions):
            return True
        grants = self.topics.get(topic)
        return grants is not None and _has_one(grants.get(role), actions)

    def opens_subscription(self, subscription: str, role: str) -> bool:
        """Returns whether a role that may consume may use this subscription."""
        roles = self.subscriptions.get(subscription)
        return not roles or role in roles

    def grants_on(self, topic: str) -> Grants:
        """Returns all that holds for a topic, role by role."""
        grants = dict(self.namespace)
        for role, actions in self.topics.get(topic, {}).items():
            grants[role] = ordered([*grants.get(role, ()), *actions])
        return grants

    # ---- Changes -------------------------------------------------------------

    def with_namespace(self, role: str, actions: tuple[str, ...]) -> "Permissions":
        """Grants these actions, and no others; with none, the role has none."""
        return Permissions(_with(self.namespace, role, actions), self.topics, self.subscriptions)

    def with_topic(self, topic: str, role: str, actions: tuple[str, ...]) -> "Permissions":
        topics = dict(self.topics)
        grants = _with(topics.pop(topic, {}), role, actions)
        if grants:
            topics[topic] = grants
        return Permissions(self.namespace, topics, self.subscriptions)

    def without_topic(self, topic: str) -> "Permissions":
        topics = {name: grants for name, grants in self.topics.items() if name != topic}
        return Permissions(self.namespace, topics, self.subscriptions)

    def with_subscription(self, subscription: str, roles: tuple[str, ...]) -> "Permissions":
        """Lets only these roles use the subscription; with none, all who may consume."""
        return Permissions(
            self.namespace, self.topics, _with(self.subscriptions, subscription, roles)
        )

    # ---- JSON ----------------------------------------------------------------

    def to_json(self) -> dict[str, object]:
        """Returns the permissions as Pulsar's `auth_policies` have them."""
        return {
            "namespace_auth": _lists(self.namespace),
            "destination_auth": {topic: _lists(found) for topic, found in self.topics.items()},
            "subscription_auth_roles": _lists(self.subscriptions),
        }

    @staticmethod
    def from_json(value: Mapping[str, Mapping[str, object]]) -> "Permissions":
        """Returns what `to_json` gave."""
        topics: dict[str, Grants] = {}
        for topic, grants in value["destination_auth"].items():
            topics[topic] = _grants(grants)
        return Permissions(
            _grants(value["namespace_auth"]), topics, _grants(value["subscription_auth_roles"])
        )


def _has_one(granted: tuple[str, ...] | None, actions: tuple[str, ...]) -> bool:
    if granted is not None:
        for action in actions:
            if action in granted:
                return True
    return False


def _with(grants: Grants, name: str, values: tuple[str, ...]) -> Grants:
    changed = dict(grants)
    changed.pop(name, None)
    if values:
        changed[name] = values
    return changed


def _lists(grants: Grants) -> dict[str, list[str]]:
    return {name: list(values) for name, values in grants.items()}


def _grants(value: object) -> Grants:
    assert isinstance(value, dict)
    return {str(name): tuple([str(one) for one in values]) for name, values in value.items()}


def ordered(actions: list[str]) -> tuple[str, ...]:
    """Returns each action once, in the order of the list of all."""
    return tuple([action for action in ACTIONS if action in actions])


def read_actions(body: object) -> tuple[str, ...]:
    """Returns the actions that a request names. Raises SettingsError."""
    if not isinstance(body, list):
        raise SettingsError("actions", f"give a list of some of {', '.join(ACTIONS)}")
    given: list[str] = []
    for action in body:
        if not isinstance(action, str) or action not in ACTIONS:
            raise SettingsError("actions", f"{str(action)[:60]!r} is none of {', '.join(ACTIONS)}")
        given.append(action)
    return ordered(given)


def read_roles(body: object) -> tuple[str, ...]:
    """Returns the roles that a request names. Raises SettingsError."""
    if not isinstance(body, list) or not all(isinstance(role, str) and role for role in body):
        raise SettingsError("roles", "give a list of roles")
    return tuple(sorted(set(body)))


def read_permissions(body: object) -> Permissions:
    """Returns what `auth_policies` say that somebody wants. Raises SettingsError."""
    parts = _object("auth_policies", {} if body is None else body)
    topics = _object("destination_auth", parts.get("destination_auth") or {})
    return Permissions(
        _read_grants("namespace_auth", parts.get("namespace_auth")),
        {name: _read_grants("destination_auth", grants) for name, grants in topics.items()},
        {
            name: read_roles(roles)
            for name, roles in _object(
                "subscription_auth_roles", parts.get("subscription_auth_roles") or {}
            ).items()
            if roles
        },
    )


def _read_grants(name: str, body: object) -> Grants:
    found = {role: read_actions(actions) for role, actions in _object(name, body or {}).items()}
    return {role: actions for role, actions in found.items() if actions}


def _object(name: str, body: object) -> dict[str, object]:
    if not isinstance(body, dict):
        raise SettingsError(name, "give an object")
    return body
