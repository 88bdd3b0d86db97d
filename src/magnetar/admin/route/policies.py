"""Policies of namespaces and topics, each at a path of its own.

`GET` answers what that very namespace or topic was told, and with `?applied=true` what
holds for it, all levels considered; 204 if it was told nothing. `POST` and `PUT` tell it,
`DELETE` takes it back. What changes nothing on one machine is kept and told again. A policy that
should change what clients see and does not here is refused when it is told, with the reason, and is
simply not there otherwise. Some policies Apache Pulsar tells though they were not told: `UNTOLD`.
"""

from collections.abc import Callable
from typing import Final

from magnetar.admin.http.answer import (
    BAD_REQUEST,
    NOT_ALLOWED,
    NOT_FOUND,
    PRECONDITION,
    Refusal,
    no_content,
    optional_answer,
)
from magnetar.admin.http.bridge import wait_for
from magnetar.admin.http.call import INT32_MAX, TOPIC, Call, decode_json, shown, whole_number
from magnetar.admin.http.required_permission import on_namespace, on_topic
from magnetar.admin.http.response import Response
from magnetar.admin.http.route import Route
from magnetar.admin.http.shape import ANYTHING, FLAG, Json, answers, each, integer, one_of
from magnetar.admin.route.namespaces import NAMESPACE, namespace_policies
from magnetar.admin.route.policy_shape import POLICY_VALUE
from magnetar.broker.auth.access import MANAGE
from magnetar.broker.broker import Broker
from magnetar.broker.policy.effective_policies import EffectivePolicies
from magnetar.broker.policy.kept import KEPT_POLICIES
from magnetar.broker.policy.limits import LIMIT_POLICIES
from magnetar.broker.policy.policy import NO_EFFECT, POLICY_NAMES, Policies
from magnetar.broker.policy.policy_value import (
    DESTINATION_STORAGE,
    MESSAGE_AGE,
    AutoTopicCreation,
    BacklogQuota,
    DelayedDelivery,
    InactiveTopics,
    RetentionTime,
)
from magnetar.broker.policy.rate_policy import RATE_POLICIES
from magnetar.broker.setting.setting import MIB
from magnetar.errors import SettingsError
from magnetar.model import TopicName

__all__ = ["ROUTES"]

# Java's topic policies take these in the query, and have no body.
IN_QUERY: Final = ("messageTTL", "subscriptionExpirationTime")
# These switch something on and have no body.
SWITCHES: Final = ("dispatcherPauseOnAckStatePersistent",)
# Java's clients send these as they stand, and not as JSON.
BARE_TEXTS: Final = ("antiAffinity",)
# To tell these nothing is to take them back.
MAY_BE_NULL: Final = ("deduplicationSnapshotInterval",)
# What is not valid is 400 for these, as in Apache Pulsar; for all others it is 412.
BAD_REQUESTS: Final = ("retention", "persistence", "entryFilters")
# Lists of clusters, of which there is one.
CLUSTERS: Final = ("replication", "allowedClusters")

# What is answered where a topic, and where a namespace was told nothing; nothing, of all others.
UNTOLD: Final[dict[str, object]] = {
    "backlogQuotaMap": {},
    "schemaValidationEnforced": False,
    "dispatcherPauseOnAckStatePersistent": False,
    "subscriptionTypesEnabled": [],
}
UNTOLD_OF_NAMESPACE: Final[dict[str, object]] = {
    **UNTOLD,
    "allowedClusters": [],
    "encryptionRequired": False,
    "isAllowAutoUpdateSchema": True,
    "maxTopicsPerNamespace": 0,
    "offloadThreshold": -1,
    "offloadThresholdInSeconds": -1,
    "schemaCompatibilityStrategy": "UNDEFINED",
    "subscriptionAuthMode": "None",
}


# What Pulsar has at such paths and is not there; a reason is more than "no such policy".
ABSENT: Final[dict[str, str]] = {
    "migration": "there is no migration to another cluster",
}


class _Level:
    """The policies of one namespace or topic, and how they are kept."""

    def __init__(
        self,
        call: Call,
        told: Policies,
        keep: Callable[[Policies], None],
        name: TopicName,
        untold: dict[str, object],
    ) -> None:
        self.call = call
        self.told = told
        self._keep = keep
        self._name = name
        self.untold = untold

    @property
    def policy(self) -> str:
        """The policy that the path names. Raises Refusal if there is none."""
        policy = self.call.path["policy"]
        if policy not in POLICY_NAMES and policy not in NO_EFFECT:
            reason = ABSENT.get(policy)
            if reason is not None:
                raise Refusal(NOT_ALLOWED, f"{policy}: {reason}")
            raise Refusal(
                NOT_FOUND,
                f"there is nothing at {self.call.request.path}: {policy!r} is no policy; there are "
                f"{', '.join(POLICY_NAMES)}",
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
    return _Level(
        call,
        told,
        lambda fresh: directory.put_namespace(call.namespace, fresh),
        name,
        {**UNTOLD_OF_NAMESPACE, "replication": [call.admin.cluster]},
    )


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
        UNTOLD,
    )


# ---- Verbs -----------------------------------------------------------------------------


def _get(level: _Level) -> Response:
    policy = level.policy
    if policy in NO_EFFECT:
        return no_content()
    if level.call.flag("applied"):
        found = applied(level.effective()).get_json(policy)
        one_cluster = [level.call.admin.cluster] if policy == "replication" else None
        return optional_answer(one_cluster if found is None else found)
    told = level.told.get_json(policy)
    return optional_answer(level.untold.get(POLICY_NAMES[policy]) if told is None else told)


async def _set(level: _Level) -> Response:
    policy = level.policy
    body = await _body(level.call, policy)
    if body is None and policy not in MAY_BE_NULL:
        raise Refusal(BAD_REQUEST, f"the body is missing: give what {policy} shall be")
    if policy in CLUSTERS:
        _require_cluster(level.call, policy, body)
    if policy == "maxMessageSize":
        _require_size(level.call, body)
    try:
        if policy == "backlogQuota":
            kind = level.call.query("backlogQuotaType") or DESTINATION_STORAGE
            await level.change(lambda policies: policies.set_backlog_quota(kind, body))
        else:
            await level.change(lambda policies: policies.set_json(policy, body))
    except SettingsError as error:
        if policy not in BAD_REQUESTS:
            raise
        raise Refusal(BAD_REQUEST, str(error)) from None
    if policy == "subscriptionAuthMode":
        await wait_for(level.broker.permissions_changed(level.call.namespace))
    return no_content()


def _require_size(call: Call, body: object) -> None:
    most = call.broker.settings.message_size_max
    if isinstance(body, int) and body > most:
        raise Refusal(
            PRECONDITION,
            f"topic-level maxMessageSize must be greater than or equal to 0 and must be smaller "
            f"than that in the broker-level, {most}",
        )


def _require_cluster(call: Call, policy: str, body: object) -> None:
    """Raises Refusal unless a list of clusters has the one that there is, and no other."""
    if not isinstance(body, list) or not body:
        raise Refusal(PRECONDITION, f"ClusterIds should not be null or empty: give {policy} a list")
    others = [one for one in body if one != call.admin.cluster]
    if others:
        raise Refusal(
            PRECONDITION,
            f"Invalid replication cluster {shown(others[0])}: there is {call.admin.cluster!r}",
        )


async def _body(call: Call, policy: str) -> object:
    if policy in SWITCHES:
        await call.raw()
        return True
    if policy in BARE_TEXTS:
        raw = (await call.raw()).strip()
        return decode_json(raw) if raw.startswith(b'"') else raw.decode(errors="replace") or None
    value = call.query(policy) if policy in IN_QUERY else None
    if value is not None:
        return whole_number(policy, value, -INT32_MAX, INT32_MAX)
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


async def remove_topic_policies(call: Call) -> Response:
    """Removes all policies of a topic; its namespace's apply."""
    level = _of_topic(call)
    level.broker.directory.delete_topic_policies(str(call.topic_name.partitioned))
    await wait_for(level.broker.policies_changed(call.topic_name.namespace))
    return no_content()


# ---- What holds ------------------------------------------------------------------------


def applied(e: EffectivePolicies) -> Policies:
    """Returns what holds for a topic, as if it had been told all of it."""
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
    whole.subscription_auth_mode = e.subscription_auth_mode
    whole.kept = {row.name: row.default for row in KEPT_POLICIES if row.default is not None}
    whole.kept.update(e.kept)
    whole.rates = {row.name: row.default for row in RATE_POLICIES if row.default is not None}
    whole.rates.update(e.rates.told)
    whole.flags = {
        "deduplicationEnabled": e.deduplication,
        "schemaValidationEnforced": e.schema_validation_enforced,
        "autoSkipNonRecoverableData": e.skip_damaged,
        "encryptionRequired": e.encryption_required,
        "isAllowAutoUpdateSchema": e.auto_update_schema,
    }
    whole.numbers = {
        row.name: getattr(e.limits, row.effective) // row.unit for row in LIMIT_POLICIES
    }
    return whole


def _whole(value: int, unit: int) -> int:
    return value if value < 0 else value // unit


QUOTA: Final[Json] = one_of(DESTINATION_STORAGE, MESSAGE_AGE)
CHANGE: Final[dict[str, Json]] = {"backlogQuotaType": QUOTA, **each(integer(-1), *IN_QUERY)}

AFFINITY: Final = f"{NAMESPACE}/persistence/{{policy:bookieAffinity}}"

ROUTES: Final[list[Route]] = [
    Route("DELETE", f"{TOPIC}/policies", remove_topic_policies, on_topic(MANAGE)),
    Route(
        "GET",
        AFFINITY,
        get_namespace_policy,
        on_namespace(MANAGE),
        query={"applied": FLAG},
        answer=answers(POLICY_VALUE, optional=True),
    ),
    Route(
        "POST",
        AFFINITY,
        set_namespace_policy,
        on_namespace(MANAGE),
        query=CHANGE,
        body=ANYTHING,
    ),
    Route(
        "DELETE",
        AFFINITY,
        remove_namespace_policy,
        on_namespace(MANAGE),
        query={"backlogQuotaType": QUOTA},
    ),
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
