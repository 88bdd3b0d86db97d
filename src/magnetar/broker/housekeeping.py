"""What policies ask of topics from time to time: expiry, quotas, deletion."""

from magnetar.broker.setting.section.retention import EVICT_BACKLOG, HOLD_PRODUCERS
from magnetar.broker.setting.section.topic import DELETE_WHEN_CAUGHT_UP
from magnetar.broker.topic.subscription import Subscription
from magnetar.broker.topic.topic import Topic
from magnetar.errors import BrokerError
from magnetar.model import Position, ServerError

__all__ = ["check_quota", "expire_old", "expired_subscriptions", "is_inactive"]


def expire_old(topic: Topic, now_ms: int) -> None:
    """Acks what is older than the time to live, on every durable subscription."""
    if topic.policies.limits.ttl_ms <= 0 or not topic.name.persistent:
        return
    boundary = topic.storage.position_at(now_ms - topic.policies.limits.ttl_ms)
    _expire_before(topic, boundary)


def _expire_before(topic: Topic, boundary: Position) -> None:
    for subscription in list(topic.subscriptions.values()):
        if subscription.durable and not subscription.fenced and not subscription.closed:
            subscription.expire_before(boundary)


def check_quota(topic: Topic, now_ms: int) -> None:
    """Holds producers up, turns them away, or lets go of the oldest messages."""
    too_big, policy = _exceeded(topic, now_ms)
    if not too_big:
        topic.blocked = None
        return
    if policy == EVICT_BACKLOG:
        topic.blocked = None
        _evict(topic, now_ms)
        return
    code = (
        ServerError.ProducerBlockedQuotaExceededError
        if policy == HOLD_PRODUCERS
        else ServerError.ProducerBlockedQuotaExceededException
    )
    topic.blocked = BrokerError(
        code,
        f"the backlog of {topic.name} exceeds its quota: consume or clear it, or raise the quota",
    )
    topic.admission.dismiss_all()


def _exceeded(topic: Topic, now_ms: int) -> tuple[bool, str]:
    slowest = topic.storage.slowest_subscription()
    policies = topic.policies
    if slowest is None:
        return False, ""
    limit = policies.backlog_quota_bytes
    if limit >= 0 and topic.storage.backlog_bytes(slowest) > limit:
        return True, policies.backlog_size_policy
    if policies.backlog_quota_ms >= 0:
        oldest = topic.ledgers.next(slowest)
        if oldest is not None:
            published = topic.store.publish_time_ms(oldest.ledger_id, oldest.entry_id)
            if now_ms - published > policies.backlog_quota_ms:
                return True, policies.backlog_time_policy
    return False, ""


def _evict(topic: Topic, now_ms: int) -> None:
    """Moves the slowest cursors on until the quota is kept."""
    policies = topic.policies
    if policies.backlog_quota_ms >= 0:
        _expire_before(topic, topic.storage.position_at(now_ms - policies.backlog_quota_ms))
    limit = policies.backlog_quota_bytes
    if limit < 0:
        return
    for subscription in list(topic.subscriptions.values()):
        if (
            subscription.durable
            and topic.storage.backlog_bytes(subscription.cursor.mark_delete) > limit
        ):
            subscription.expire(_fitting(topic, limit))


def _fitting(topic: Topic, limit: int) -> Position:
    """Returns the first position behind which no more than `limit` bytes lie."""
    left = 0
    ledgers = list(reversed(topic.store.ledgers(topic.id)))
    for ledger in ledgers:
        if left + ledger.size_bytes > limit and ledger.entries > 0:
            room = max(limit - left, 0)
            kept = room * ledger.entries // max(ledger.size_bytes, 1)
            return Position(ledger.id, ledger.entries - 1 - kept)
        left += ledger.size_bytes
    return Position(-1, -1)


def expired_subscriptions(topic: Topic, ticks_ms: int) -> list[Subscription]:
    """Subscriptions that nobody has joined for longer than the topic's policy allows."""
    limit_ms = topic.policies.limits.subscription_expiry_ms
    if limit_ms <= 0 or not topic.name.persistent:
        return []
    return [
        subscription
        for subscription in topic.subscriptions.values()
        if subscription.durable
        and not subscription.busy
        and not subscription.fenced
        and ticks_ms - subscription.active_ticks >= limit_ms
    ]


def is_inactive(topic: Topic, ticks_ms: int) -> bool:
    """Returns whether a topic that nobody uses may go. A clock that is set forward is no disuse."""
    policies = topic.policies
    if not policies.delete_inactive or not topic.idle:
        return False
    unused_ms = ticks_ms - topic.active_ticks
    if unused_ms < policies.inactive_topic_ms:
        return False
    retained_ms = policies.retention_time_ms
    if retained_ms < 0 or unused_ms < retained_ms:
        return False
    if topic.name.partition >= 0 and topic.name.persistent:
        return False  # partitions go with the whole, which an operator deletes
    if policies.inactive_mode != DELETE_WHEN_CAUGHT_UP:
        return not topic.subscriptions
    for subscription in topic.subscriptions.values():
        if subscription.cursor.unacked_entries() > 0:
            return False
    return True
