"""What somebody may have meant who named a topic or subscription that is not there.

When a command ends with the exit code for what is missing, the names that there are, are asked
for, and the nearest ones told.
"""

from contextlib import suppress
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from magnetar.cli.target import current
from magnetar.errors import MagnetarError

if TYPE_CHECKING:
    from magnetar.cli.name.given import Given
    from magnetar.model import TopicName
    from magnetar.rest.admin_client import AdminClient

__all__ = ["LIMIT_S", "advice", "nearest"]

# The command has failed already: a hint is not worth a long wait.
LIMIT_S: Final = 2.0
# difflib's measure: 1 is equal. `ordres` is 0.83 from `orders`, `order` 0.91, `invoices` 0.29.
LIKE: Final = 0.7
NAMES_MAX: Final = 3


def advice(given: "Given") -> str:
    """Returns a question, if there is a name near to the one that was given; else nothing."""
    if not given.topic and not given.namespace:
        return ""
    with suppress(MagnetarError), current().admin(LIMIT_S) as admin:
        if given.namespace:
            return _question(near_namespaces(admin, given.namespace))
        return _near_topic(admin, given.topic, given.subscription)
    return ""


def _near_topic(admin: "AdminClient", topic: str, subscription: str) -> str:
    from magnetar.cli.name.names import subscription_names, topic_names
    from magnetar.model import TopicName
    from magnetar.rest.admin_error import AdminError

    name = TopicName.parse(topic).partitioned
    try:
        names = topic_names(admin, name.namespace)
    except AdminError:
        return _question([_as_full(name, one) for one in near_namespaces(admin, name.namespace)])
    if str(name) not in names:
        locals_ = [TopicName.parse(one).local_name for one in names]
        begin = topic[: len(topic) - len(TopicName.parse(topic).local_name)]
        return _question([begin + one for one in nearest(name.local_name, locals_)])
    if subscription:
        there = subscription_names(admin, topic)
        if subscription not in there:
            return _question(nearest(subscription, there)) or _listed(there)
    return ""


def _as_full(name: "TopicName", namespace: str) -> str:
    return f"{name.domain}://{namespace}/{name.local_name}"


def near_namespaces(admin: "AdminClient", namespace: str) -> list[str]:
    """Returns those of the tenant if there is one, else those of tenants with a name like it."""
    from magnetar.cli.name.names import namespace_names, tenant_names
    from magnetar.rest.admin_error import AdminError

    tenant = namespace.partition("/")[0]
    try:
        return nearest(namespace, namespace_names(admin, tenant))
    except AdminError:
        found = [
            one
            for near in nearest(tenant, tenant_names(admin))
            for one in namespace_names(admin, near)
        ]
        return nearest(namespace, found)


def nearest(name: str, names: list[str]) -> list[str]:
    """Returns the names like this one, the most alike first; one that differs in its capitals alone
    is it.

    >>> nearest("ordres", ["orders", "invoices"]), nearest("Orders", ["orders"]), nearest("x", [])
    (['orders'], ['orders'], [])
    """
    if name in names:
        return []
    by_lower = {one.lower(): one for one in names}
    if name.lower() in by_lower:
        return [by_lower[name.lower()]]
    found = get_close_matches(name.lower(), by_lower, n=NAMES_MAX, cutoff=LIKE)
    return [by_lower[one] for one in found]


def _question(names: list[str]) -> str:
    return f"did you mean {' or '.join(names)}?" if names else ""


def _listed(names: list[str]) -> str:
    return f"there are: {', '.join(names)}" if 0 < len(names) <= NAMES_MAX else ""
