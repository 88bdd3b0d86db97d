"""Policies of namespaces and topics, each at a path of its own.

`GET` answers what that very namespace or topic was told, and with `?applied=true` what
holds for it, all levels considered; 204 if it was told nothing. `POST` and `PUT` tell it,
`DELETE` takes it back. A policy that has no effect here is refused when it is told, with
the reason, and is simply not there otherwise.
"""

from collections.abc import Callable
from typing import Final

from starlette.responses import Response

from magnetar.admin.answer import (
    BAD_REQUEST,
    NOT_FOUND,
    Refusal,
    json_answer,
    no_content,
    optional_answer,
)
from magnetar.admin.call import TOPIC, Call, Route, shown, whole_number
from magnetar.admin.namespaces import NAMESPACE, namespace_policies
from magnetar.broker.broker import Broker
from magnetar.broker.policy import (
    DESTINATION_STORAGE,
    MESSAGE_AGE,
    NO_EFFECT,
    POLICY_NAMES,
    EffectivePolicies,
    Policies,
)
from magnetar.broker.settings import MIB
from magnetar.model import TopicName

__all__ = ["ROUTES"]

# Java's topic policies take these in the query, and have no body.
IN_QUERY: Final = ("messageTTL",)


class _Level:
    """The policies of one namespace or topic, and how they are kept."""

    def __init__(
        self, call: Call, told: Policies, keep: Callable[[Policies], None], name: TopicName
    ) -> None:
        self.call = call
        self.told = told
        self._keep = keep
        self._name = name

    @property
    def policy(self) -> str:
        """The policy that the path names. Raises Refusal if there is none."""
        policy = self.call.path["policy"]
        if policy not in POLICY_NAMES and policy not in NO_EFFECT:
            raise Refusal(
                NOT_FOUND, f"there is no policy {policy!r}: there are {', '.join(POLICY_NAMES)}"
            )
        return policy

    @property
    def broker(self) -> Broker:
        return self.call.broker

    def effective(self) -> EffectivePolicies:
        return self.broker.directory.effective(self._name)

    def change(self, change: Callable[[Policies], None]) -> None:
        """All or nothing: what is not valid leaves things as they are."""
        fresh = Policies.from_json(self.told.to_json())
        change(fresh)
        self._keep(fresh)
        self.broker.policies_changed(self._name.namespace)


def _of_namespace(call: Call) -> _Level:
    told = namespace_policies(call)
    directory = call.broker.directory
    # No topic is called so: what holds for it is what its namespace says.
    name = TopicName("persistent", call.namespace, "")
    return _Level(call, told, lambda fresh: directory.put_namespace(call.namespace, fresh), name)


def _of_topic(call: Call) -> _Level:
    name = call.topic_name
    call.topics()  # it must be there
    directory = call.broker.directory
    return _Level(
        call,
        directory.topic_policies(name),
        lambda fresh: directory.put_topic_policies(name, fresh),
        name,
    )


# ---- Verbs -----------------------------------------------------------------------------


def _get(level: _Level) -> Response:
    policy = level.policy
    if policy in NO_EFFECT:
        return no_content()
    if level.call.flag("applied"):
        return optional_answer(applied_json(POLICY_NAMES[policy], level.effective()))
    told = level.told.get_json(policy)
    if told is None and POLICY_NAMES[policy] == "backlogQuotaMap":
        return json_answer({})
    return optional_answer(told)


async def _set(level: _Level) -> Response:
    policy = level.policy
    body = await _body(level.call, policy)
    if body is None:
        raise Refusal(BAD_REQUEST, f"the body is missing: give what {policy} shall be")
    if policy == "backlogQuota":
        kind = level.call.query("backlogQuotaType") or DESTINATION_STORAGE
        level.change(lambda policies: policies.set_backlog_quota(kind, body))
    else:
        level.change(lambda policies: policies.set_json(policy, body))
    return no_content()


async def _body(call: Call, policy: str) -> object:
    value = call.query(policy) if policy in IN_QUERY else None
    if value is not None:
        return whole_number(policy, value, -1)
    return await call.json()


def _remove(level: _Level) -> Response:
    policy = level.policy
    if policy in NO_EFFECT:
        return no_content()
    kind = level.call.query("backlogQuotaType")
    if policy == "backlogQuota":
        level.change(lambda p: p.remove_backlog_quota(kind or DESTINATION_STORAGE))
    else:
        level.change(lambda policies: policies.remove(policy))
    return no_content()


async def get_namespace_policy(call: Call) -> Response:
    return _get(_of_namespace(call))


async def set_namespace_policy(call: Call) -> Response:
    return await _set(_of_namespace(call))


async def remove_namespace_policy(call: Call) -> Response:
    return _remove(_of_namespace(call))


async def get_topic_policy(call: Call) -> Response:
    return _get(_of_topic(call))


async def set_topic_policy(call: Call) -> Response:
    return await _set(_of_topic(call))


async def remove_topic_policy(call: Call) -> Response:
    return _remove(_of_topic(call))


# ---- What holds ------------------------------------------------------------------------


def applied_json(policy: str, effective: EffectivePolicies) -> object:
    """What holds for a topic, as the body of that policy's path."""
    show = _APPLIED.get(policy)
    assert show is not None, f"{shown(policy)} cannot be shown"
    return show(effective)


def _retention(e: EffectivePolicies) -> object:
    return {
        "retentionTimeInMinutes": _whole(e.retention_time_ms, 60_000),
        "retentionSizeInMB": _whole(e.retention_size_bytes, MIB),
    }


def _whole(value: int, unit: int) -> int:
    return value if value < 0 else value // unit


def _quotas(e: EffectivePolicies) -> object:
    seconds = _whole(e.backlog_quota_ms, 1000)
    return {
        DESTINATION_STORAGE: {
            "limit": e.backlog_quota_bytes,
            "limitSize": e.backlog_quota_bytes,
            "limitTime": -1,
            "policy": e.backlog_size_policy,
        },
        MESSAGE_AGE: {
            "limit": -1,
            "limitSize": -1,
            "limitTime": seconds,
            "policy": e.backlog_time_policy,
        },
    }


def _delayed(e: EffectivePolicies) -> object:
    return {
        "active": e.delayed_delivery,
        "tickTime": e.delayed_delivery_tick_ms,
        "maxDeliveryDelayInMillis": e.delayed_delivery_max_ms,
    }


def _inactive(e: EffectivePolicies) -> object:
    return {
        "inactiveTopicDeleteMode": e.inactive_mode,
        "maxInactiveDurationSeconds": e.inactive_topic_ms // 1000,
        "deleteWhileInactive": e.delete_inactive,
    }


def _creation(e: EffectivePolicies) -> object:
    if not e.auto_create_topics:
        return {"allowAutoTopicCreation": False}
    if e.auto_create_partitions == 0:
        return {"allowAutoTopicCreation": True, "topicType": "non-partitioned"}
    return {
        "allowAutoTopicCreation": True,
        "topicType": "partitioned",
        "defaultNumPartitions": e.auto_create_partitions,
    }


_APPLIED: Final[dict[str, Callable[[EffectivePolicies], object]]] = {
    "messageTTL": lambda e: e.ttl_ms // 1000,
    "maxUnackedMessagesOnConsumer": lambda e: e.max_unacked_per_consumer,
    "maxUnackedMessagesOnSubscription": lambda e: e.max_unacked_per_subscription,
    "maxProducers": lambda e: e.max_producers,
    "maxConsumers": lambda e: e.max_consumers,
    "maxSubscriptionsPerTopic": lambda e: e.max_subscriptions,
    "maxConsumersPerSubscription": lambda e: e.max_consumers_per_subscription,
    "maxTopicsPerNamespace": lambda e: e.max_topics_per_namespace,
    "maxMessageSize": lambda e: e.message_size_max,
    "deduplicationEnabled": lambda e: e.deduplication,
    "schemaValidationEnforced": lambda e: e.schema_validation_enforced,
    "schemaCompatibilityStrategy": lambda e: e.schema_compatibility,
    "subscriptionTypesEnabled": lambda e: list(e.subscription_types),
    "autoSubscriptionCreation": lambda e: {
        "allowAutoSubscriptionCreation": e.auto_create_subscriptions
    },
    "retention": _retention,
    "backlogQuotaMap": _quotas,
    "delayedDelivery": _delayed,
    "inactiveTopicPolicies": _inactive,
    "autoTopicCreation": _creation,
}

ROUTES: Final[list[Route]] = [
    ("GET", f"{NAMESPACE}/{{policy}}", get_namespace_policy),
    ("POST", f"{NAMESPACE}/{{policy}}", set_namespace_policy),
    ("PUT", f"{NAMESPACE}/{{policy}}", set_namespace_policy),
    ("DELETE", f"{NAMESPACE}/{{policy}}", remove_namespace_policy),
    ("GET", f"{TOPIC}/{{policy}}", get_topic_policy),
    ("POST", f"{TOPIC}/{{policy}}", set_topic_policy),
    ("PUT", f"{TOPIC}/{{policy}}", set_topic_policy),
    ("DELETE", f"{TOPIC}/{{policy}}", remove_topic_policy),
]
