"""Policies of namespaces and topics, each at a path of its own.

`GET` answers what that very namespace or topic was told, and with `?applied=true` what
holds for it, all levels considered; 204 if it was told nothing. `POST` and `PUT` tell it,
`DELETE` takes it back. A policy that has no effect here is refused when it is told, with
the reason, and is simply not there otherwise.
"""

from collections.abc import Callable
from typing import Final

from magnetar.admin.http.answer import (
    BAD_REQUEST,
    NOT_FOUND,
    Refusal,
    json_answer,
    no_content,
    optional_answer,
)
from magnetar.admin.http.bridge import wait_for
from magnetar.admin.http.call import TOPIC, Call, whole_number
from magnetar.admin.http.required_permission import on_namespace, on_topic
from magnetar.admin.http.response import Response
from magnetar.admin.http.route import Route
from magnetar.admin.http.shape import ANYTHING, FLAG, Json, answers, integer, one_of
from magnetar.admin.route.namespaces import NAMESPACE, namespace_policies
from magnetar.admin.route.policy_shape import POLICY_VALUE
from magnetar.broker.auth.access import MANAGE
from magnetar.broker.broker import Broker
from magnetar.broker.policy.effective_policies import EffectivePolicies
from magnetar.broker.policy.policy import NO_EFFECT, NUMBER_POLICIES, POLICY_NAMES, Policies
from magnetar.broker.policy.policy_value import (
    DESTINATION_STORAGE,
    MESSAGE_AGE,
    AutoTopicCreation,
    BacklogQuota,
    DelayedDelivery,
    InactiveTopics,
    RetentionTime,
)
from magnetar.broker.setting.settings import MIB
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

    async def change(self, change: Callable[[Policies], None]) -> None:
        """All or nothing: what is not valid leaves things as they are. Topics follow it."""
        fresh = Policies.from_json(self.told.to_json())
        change(fresh)
        self._keep(fresh)
        await wait_for(self.broker.policies_changed(self._name.namespace))


def _of_namespace(call: Call) -> _Level:
    told = namespace_policies(call)
    directory = call.broker.directory
    # No topic is called so: what holds for it is what its namespace says.
    name = TopicName("persistent", call.namespace, "")
    return _Level(call, told, lambda fresh: directory.put_namespace(call.namespace, fresh), name)


def _of_topic(call: Call) -> _Level:
    name = call.topic_name
    if not call.admin.partitions(name):
        call.topic()  # it must be there
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
        return optional_answer(applied(level.effective()).get_json(policy))
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
        await level.change(lambda policies: policies.set_backlog_quota(kind, body))
    else:
        await level.change(lambda policies: policies.set_json(policy, body))
    return no_content()


async def _body(call: Call, policy: str) -> object:
    value = call.query(policy) if policy in IN_QUERY else None
    if value is not None:
        return whole_number(policy, value, -1)
    return await call.json()


async def _remove(level: _Level) -> Response:
    policy = level.policy
    if policy in NO_EFFECT:
        return no_content()
    kind = level.call.query("backlogQuotaType")
    if policy == "backlogQuota":
        await level.change(lambda p: p.remove_backlog_quota(kind or DESTINATION_STORAGE))
    else:
        await level.change(lambda policies: policies.remove(policy))
    return no_content()


async def get_namespace_policy(call: Call) -> Response:
    """Returns a policy of a namespace; 204 if it was not told."""
    return _get(_of_namespace(call))


async def set_namespace_policy(call: Call) -> Response:
    """Sets a policy of a namespace; its topics follow at once."""
    return await _set(_of_namespace(call))


async def remove_namespace_policy(call: Call) -> Response:
    """Removes a policy of a namespace; the broker's setting applies."""
    return await _remove(_of_namespace(call))


async def get_topic_policy(call: Call) -> Response:
    """Returns a policy of a topic; 204 if it was not told."""
    return _get(_of_topic(call))


async def set_topic_policy(call: Call) -> Response:
    """Sets a policy of a topic, which goes before that of its namespace."""
    return await _set(_of_topic(call))


async def remove_topic_policy(call: Call) -> Response:
    """Removes a policy of a topic; its namespace's applies."""
    return await _remove(_of_topic(call))


# ---- What holds ------------------------------------------------------------------------


def applied(e: EffectivePolicies) -> Policies:
    """What holds for a topic, as if it had been told all of it."""
    whole = Policies()
    whole.retention = RetentionTime(
        _whole(e.retention_time_ms, 60_000), _whole(e.retention_size_bytes, MIB)
    )
    whole.backlog_quotas = {
        DESTINATION_STORAGE: BacklogQuota(e.backlog_quota_bytes, -1, e.backlog_size_policy),
        MESSAGE_AGE: BacklogQuota(-1, _whole(e.backlog_quota_ms, 1000), e.backlog_time_policy),
    }
    whole.delayed_delivery = DelayedDelivery(
        e.delayed_delivery, e.delayed_delivery_tick_ms, e.delayed_delivery_max_ms
    )
    whole.inactive_topics = InactiveTopics(e.inactive_mode, e.inactive_topic_ms, e.delete_inactive)
    whole.auto_topic_creation = AutoTopicCreation(e.auto_create_topics, e.auto_create_partitions)
    whole.auto_subscription_creation = e.auto_create_subscriptions
    whole.subscription_types = e.subscription_types
    whole.schema_compatibility = e.schema_compatibility
    whole.flags = {
        "deduplicationEnabled": e.deduplication,
        "schemaValidationEnforced": e.schema_validation_enforced,
        "autoSkipNonRecoverableData": e.skip_damaged,
    }
    whole.numbers = {row.name: getattr(e, row.effective) // row.unit for row in NUMBER_POLICIES}
    return whole


def _whole(value: int, unit: int) -> int:
    return value if value < 0 else value // unit


QUOTA: Final[Json] = one_of(DESTINATION_STORAGE, MESSAGE_AGE)
CHANGE: Final[dict[str, Json]] = {"backlogQuotaType": QUOTA, "messageTTL": integer(-1)}

ROUTES: Final[list[Route]] = [
    Route(
        "GET",
        f"{NAMESPACE}/{{policy}}",
        get_namespace_policy,
        on_namespace(MANAGE),
        query={"applied": FLAG},
        answer=answers(POLICY_VALUE, optional=True),
    ),
    Route(
        "POST",
        f"{NAMESPACE}/{{policy}}",
        set_namespace_policy,
        on_namespace(MANAGE),
        query=CHANGE,
        body=ANYTHING,
        body_required=False,
    ),
    Route(
        "PUT",
        f"{NAMESPACE}/{{policy}}",
        set_namespace_policy,
        on_namespace(MANAGE),
        query=CHANGE,
        body=ANYTHING,
        body_required=False,
    ),
    Route(
        "DELETE",
        f"{NAMESPACE}/{{policy}}",
        remove_namespace_policy,
        on_namespace(MANAGE),
        query={"backlogQuotaType": QUOTA},
    ),
    Route(
        "GET",
        f"{TOPIC}/{{policy}}",
        get_topic_policy,
        on_topic(MANAGE),
        query={"applied": FLAG},
        answer=answers(POLICY_VALUE, optional=True),
    ),
    Route(
        "POST",
        f"{TOPIC}/{{policy}}",
        set_topic_policy,
        on_topic(MANAGE),
        query=CHANGE,
        body=ANYTHING,
        body_required=False,
    ),
    Route(
        "PUT",
        f"{TOPIC}/{{policy}}",
        set_topic_policy,
        on_topic(MANAGE),
        query=CHANGE,
        body=ANYTHING,
        body_required=False,
    ),
    Route(
        "DELETE",
        f"{TOPIC}/{{policy}}",
        remove_topic_policy,
        on_topic(MANAGE),
        query={"backlogQuotaType": QUOTA},
    ),
]
