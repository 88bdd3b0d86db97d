"""Plans about policies, of a topic or of a whole namespace.

A name with one slash, `tenant/namespace`, is a namespace; every other one is a topic.
"""

from magnetar.errors import SettingsError
from magnetar.rest.path import namespace_path, topic_path
from magnetar.rest.request import Plan, Request
from magnetar.rest.response.policy import BacklogQuota, DelayedDelivery, Retention

__all__ = [
    "backlog_quotas",
    "deduplication",
    "delayed_delivery",
    "get",
    "message_ttl",
    "remove",
    "retention",
    "set_backlog_quota",
    "set_deduplication",
    "set_delayed_delivery",
    "set_message_ttl",
    "set_policy",
    "set_retention",
]

# What a policy is called at topics, and at namespaces if that differs.
AT_NAMESPACES = {"deduplicationEnabled": "deduplication"}


def _path(scope: str, policy: str) -> str:
    if _is_namespace(scope):
        return namespace_path(scope, policy)
    return topic_path(scope, policy)


def _is_namespace(scope: str) -> bool:
    """Returns whether a name is a namespace's.

    >>> _is_namespace("public/default"), _is_namespace("orders")
    (True, False)
    """
    return scope.count("/") == 1


def _named(scope: str, policy: str) -> str:
    return AT_NAMESPACES.get(policy, policy) if _is_namespace(scope) else policy


def get(scope: str, policy: str, *, applied: bool = False) -> Plan[object]:
    """Returns a policy by Pulsar's name as JSON has it; None if it is not set.

    With `applied`, a topic tells what is in effect, from its namespace or the broker if need be.
    """
    query = {"applied": True} if applied else None
    return (yield Request("GET", _path(scope, policy), query=query)).json()


def set_policy(scope: str, policy: str, value: object) -> Plan[None]:
    """Sets a policy by Pulsar's name, to a value as JSON has it."""
    yield Request("POST", _path(scope, policy), value)


def remove(scope: str, policy: str) -> Plan[None]:
    """Removes a policy by Pulsar's name: that of the namespace or the broker applies then."""
    yield Request("DELETE", _path(scope, policy))


def retention(scope: str, *, applied: bool = False) -> Plan[Retention | None]:
    """Returns how long acked messages are kept; None if it is not set."""
    query = {"applied": True} if applied else None
    answer = yield Request("GET", _path(scope, "retention"), query=query)
    return answer.as_type(Retention) if answer.body.strip() not in (b"", b"null") else None


def set_retention(scope: str, retention: Retention) -> Plan[None]:
    """Sets how long acked messages are kept."""
    yield Request("POST", _path(scope, "retention"), retention.to_json())


def message_ttl(scope: str, *, applied: bool = False) -> Plan[int | None]:
    """Returns after how many seconds messages expire; None if it is not set."""
    found = yield from get(scope, "messageTTL", applied=applied)
    return int(found) if isinstance(found, int | str) else None


def set_message_ttl(scope: str, seconds: int) -> Plan[None]:
    """Sets after how many seconds messages expire; 0 is never."""
    path = _path(scope, "messageTTL")
    if _is_namespace(scope):
        yield Request("POST", path, seconds)
    else:
        yield Request("POST", path, query={"messageTTL": seconds})


def backlog_quotas(scope: str, *, applied: bool = False) -> Plan[dict[str, BacklogQuota]]:
    """Returns the limits of backlogs: of `destination_storage` and of `message_age`."""
    query = {"applied": True} if applied else None
    answer = yield Request("GET", _path(scope, "backlogQuotaMap"), query=query)
    if not answer.body.strip():
        return {}
    return answer.as_type(dict[str, BacklogQuota])


def set_backlog_quota(
    scope: str, quota: BacklogQuota, *, kind: str = "destination_storage"
) -> Plan[None]:
    """Sets the limit of backlogs, in bytes (`destination_storage`) or age (`message_age`)."""
    if kind not in ("destination_storage", "message_age"):
        raise SettingsError("kind", f"{kind!r}: give destination_storage or message_age")
    path = _path(scope, "backlogQuota")
    yield Request("POST", path, quota.to_json(), {"backlogQuotaType": kind})


def deduplication(scope: str, *, applied: bool = False) -> Plan[bool | None]:
    """Returns whether what a producer sends again is dropped; None if it is not set."""
    name = _named(scope, "deduplicationEnabled")
    found = yield from get(scope, name, applied=applied)
    return found if isinstance(found, bool) else None


def set_deduplication(scope: str, enabled: bool) -> Plan[None]:
    """Sets whether what a producer sends again is dropped."""
    yield Request("POST", _path(scope, _named(scope, "deduplicationEnabled")), enabled)


def delayed_delivery(scope: str, *, applied: bool = False) -> Plan[DelayedDelivery | None]:
    """Returns whether messages may be delayed; None if it is not set."""
    query = {"applied": True} if applied else None
    answer = yield Request("GET", _path(scope, "delayedDelivery"), query=query)
    return answer.as_type(DelayedDelivery) if answer.body.strip() not in (b"", b"null") else None


def set_delayed_delivery(scope: str, policy: DelayedDelivery) -> Plan[None]:
    """Sets whether messages may be delayed."""
    yield Request("POST", _path(scope, "delayedDelivery"), policy.to_json())
