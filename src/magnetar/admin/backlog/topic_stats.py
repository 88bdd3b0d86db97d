"""What there is to know of a topic and those who use it, under Pulsar's names.

Numbers are counted from the cursors themselves, never kept beside them: `msgBacklog` is
unacked entries, as in Pulsar, and `unackedMessages` messages that consumers have. What
Pulsar shows nowhere has names of our own: `msgBacklogMessages`, the backlog in messages,
and `partiallyAckedBatches`, the batches of which only a part is acked.

A topic may have thousands of subscriptions, consumers and producers, so figures are put together
a few in each event (I10). Those of consumers and producers are JSON at once, which takes a tenth
of their memory; they are of moments a little apart, and may be of one that has just left.
"""

import asyncio
from itertools import islice
from typing import Final

import msgspec

from magnetar.admin.backlog.messages import date_text
from magnetar.admin.http.breather import Breather
from magnetar.admin.http.bridge import at_ease
from magnetar.admin.http.call import ledgers_of
from magnetar.broker.rate.dispatch_gate import REASONS
from magnetar.broker.topic.consumer import Consumer
from magnetar.broker.topic.dispatch.dispatcher import Dispatcher
from magnetar.broker.topic.non_persistent import NonPersistentSubscription
from magnetar.broker.topic.persistent_topic import PersistentTopic
from magnetar.broker.topic.producer import Producer
from magnetar.broker.topic.subscription import Subscription
from magnetar.broker.topic.topic import Topic
from magnetar.model import Position, ProducerAccessMode
from magnetar.storage.ledger.retention import LedgerInfo

__all__ = [
    "Figures",
    "StatsOptions",
    "SubscriptionTotals",
    "count_messages",
    "internal_figures",
    "listed_ledgers",
    "topic_figures",
]

Figures = dict[str, object]

# More runs than this are counted and not listed, of one subscription and of all of a topic: a
# million of them are of no use as a text.
RUNS_LISTED_MAX: Final = 10_000
RUNS_TOGETHER_MAX: Final = 100_000
# So many entries are counted in one step: a quarter of a millisecond, once.
COUNT_ENTRIES: Final = 20_480


class StatsOptions:
    """What a request for stats asks for beyond what is always there."""

    def __init__(
        self,
        *,
        backlog_size: bool = False,
        earliest_time: bool = False,
        publishers: bool = True,
        consumers: bool = True,
    ) -> None:
        self.backlog_size = backlog_size
        self.earliest_time = earliest_time
        self.publishers = publishers
        self.consumers = consumers


# ---- Stats -----------------------------------------------------------------------------


# What Pulsar shows of every topic: of the broker's own messages and of offloaded ledgers there are
# none.
NONE_OF: Final[Figures] = {
    "systemTopicBytesInCounter": 0,
    "bytesOutInternalCounter": 0,
    "offloadedStorageSize": 0,
    "lastOffloadLedgerId": 0,
    "lastOffloadSuccessTimeStamp": 0,
    "lastOffloadFailureTimeStamp": 0,
}


async def topic_figures(topic: Topic, options: StatsOptions, owner: str) -> Figures:
    subscriptions: dict[str, Figures] = {}
    total = SubscriptionTotals(topic)
    await count_messages(topic)
    async for subscription in at_ease(list(topic.subscriptions.values())):
        figures = _subscription_figures(subscription, options)
        if options.consumers:
            figures["consumers"] = await _consumers(subscription)
        subscriptions[subscription.name] = figures
        total.add(subscription)
    publishers = await _publishers(topic) if options.publishers else []
    incoming = topic.incoming
    return {
        **NONE_OF,
        **_backlog_of_topic(topic, options),
        **_drop_figures(topic),
        "msgRateIn": incoming.message_rate,
        "msgThroughputIn": incoming.byte_rate,
        "msgRateOut": total.message_rate,
        "msgThroughputOut": total.byte_rate,
        "bytesInCounter": incoming.bytes,
        "msgInCounter": incoming.messages,
        "bytesOutCounter": total.bytes_out,
        "msgOutCounter": total.messages_out,
        "averageMsgSize": incoming.byte_rate / (incoming.message_rate or 1.0),
        "msgChunkPublished": topic.chunks > 0,
        "publishRateLimitedTimes": topic.rates.publishes_held,
        "storageSize": topic.storage.size_bytes(),
        "backlogSize": (0 if total.slowest is None else topic.storage.backlog_bytes(total.slowest)),
        "publishers": publishers,
        "waitingPublishers": len(topic.admission.waiting),
        "subscriptions": subscriptions,
        "replication": {},
        "deduplicationStatus": "Disabled" if topic.deduplication is None else "Enabled",
        "topicEpoch": None if topic.admission.epoch < 0 else topic.admission.epoch,
        "nonContiguousDeletedMessagesRanges": total.acked_ranges,
        "nonContiguousDeletedMessagesRangesSerializedSize": 0,
        "delayedMessageIndexSizeInBytes": total.delayed_bytes,
        "compaction": _compaction_figures(topic),
        "ownerBroker": owner,
        "topicCreationTimeStamp": _created_ms(topic),
        "lastPublishTimeStamp": topic.last_publish_ms,
        **_transaction_figures(topic),
    }


def _compaction_figures(topic: Topic) -> Figures:
    """How the last compaction ended, in Pulsar's spelling."""
    compaction = topic.compaction
    view = compaction.view
    return {
        "lastCompactionRemovedEventCount": 0 if view is None else view.facts.removed,
        "lastCompactionSucceedTimestamp": 0 if view is None else view.sealed_ms,
        "lastCompactionFailedTimestamp": compaction.failed_ms,
        "lastCompactionDurationTimeInMills": 0 if view is None else view.facts.took_ms,
    }


def _transaction_figures(topic: Topic) -> Figures:
    """Transactions that have entries in the topic, and had since it was loaded."""
    horizon = topic.horizon if isinstance(topic, PersistentTopic) else None
    return {
        "ongoingTxnCount": 0 if horizon is None else len(horizon.numbers()),
        "committedTxnCount": 0 if horizon is None else horizon.committed,
        "abortedTxnCount": 0 if horizon is None else horizon.aborted,
    }


def _backlog_of_topic(topic: Topic, options: StatsOptions) -> Figures:
    """The oldest message that somebody has not acked, and the quotas that go by it."""
    policies = topic.policies
    quota_ms = policies.backlog_quota_ms
    found: Figures = {
        "backlogQuotaLimitSize": policies.backlog_quota_bytes,
        "backlogQuotaLimitTime": quota_ms if quota_ms < 0 else quota_ms // 1000,
        "oldestBacklogMessageAgeSeconds": -1,
        "earliestMsgPublishTimeInBacklogs": 0,
    }
    waits = [s for s in topic.subscriptions.values() if s.durable and s.cursor.unacked_entries()]
    if not waits or not topic.name.persistent:
        return found
    oldest = min(waits, key=oldest_ms)
    published_ms = oldest_ms(oldest)
    age_ms = max(topic.host.now_ms() - published_ms, 0)
    found["oldestBacklogMessageAgeSeconds"] = age_ms // 1000
    found["oldestBacklogMessageSubscriptionName"] = oldest.name
    if options.earliest_time:
        found["earliestMsgPublishTimeInBacklogs"] = published_ms
    return found


def _drop_figures(topic: Topic) -> Figures:
    """Of a topic that stores nothing: how much nobody could take."""
    if topic.name.persistent:
        return {}
    some = [s for s in topic.subscriptions.values() if isinstance(s, NonPersistentSubscription)]
    return {"msgDropRate": sum([one.dropped.message_rate for one in some])}


class SubscriptionTotals:
    """What the subscriptions of a topic are together; each is added by itself."""

    def __init__(self, topic: Topic) -> None:
        # Those that are gone count for what went out.
        self.messages_out, self.bytes_out = topic.out_before
        self.message_rate = 0.0
        self.byte_rate = 0.0
        self.consumers = 0
        self.unacked_entries = 0
        self.acked_ranges = 0
        self.delayed_bytes = 0
        # Of those that are durable, what has acked least.
        self.slowest: Position | None = None

    def add(self, subscription: Subscription) -> None:
        messages, size = subscription.out_totals()
        self.messages_out += messages
        self.bytes_out += size
        for consumer in subscription.consumers:
            self.message_rate += consumer.out.message_rate
            self.byte_rate += consumer.out.byte_rate
            self.consumers += 1
        self.unacked_entries += subscription.cursor.unacked_entries()
        self.acked_ranges += subscription.cursor.acked_run_count()
        if subscription.dispatcher is not None:
            self.delayed_bytes += subscription.dispatcher.delayed_bytes()
        if subscription.durable:
            floor = subscription.floor
            self.slowest = floor if self.slowest is None else min(self.slowest, floor)


async def count_messages(topic: Topic) -> None:
    """Has the messages of a topic's entries counted, piece by piece: asked for, they are known.

    Counted once, they are counted for good; of a topic of a million entries that takes 10 ms.
    """
    breather = Breather()
    for ledger in ledgers_of(topic):
        for first in range(0, ledger.entries, COUNT_ENTRIES):
            end = min(first + COUNT_ENTRIES, ledger.entries)
            topic.ledgers.sizes.message_count(ledger.id, first, end)
            await breather.rest()


def _created_ms(topic: Topic) -> int:
    return min([topic.created_ms, *[ledger.created_ms for ledger in ledgers_of(topic)]])


async def _publishers(topic: Topic) -> list[msgspec.Raw]:
    now_ms = topic.host.now_ms()
    producers = list(topic.producers.values())
    return [_as_json(_publisher(producer, now_ms)) async for producer in at_ease(producers)]


def _as_json(figures: Figures) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(figures))


async def _consumers(subscription: Subscription) -> list[msgspec.Raw]:
    dispatcher = subscription.dispatcher
    # Of all consumers at once: each would look at all slots.
    draining: dict[int, list[Figures]] = {}
    if dispatcher is not None and dispatcher.type.goes_by_key:
        for slot, holder, count in dispatcher.draining():
            one: Figures = {"hash": slot, "unackMsgs": count, "blockedAttempts": 0}
            draining.setdefault(holder, []).append(one)
    return [
        _as_json(_consumer_figures(consumer, subscription, draining.get(consumer.key, [])))
        async for consumer in at_ease(list(subscription.consumers))
    ]


def _publisher(producer: Producer, now_ms: int) -> Figures:
    traffic = producer.traffic
    return {
        "accessMode": ProducerAccessMode(producer.access_mode).name,
        "producerId": producer.id,
        "producerName": producer.name,
        "address": f"/{producer.peer.address}",
        "connectedSince": date_text(producer.connected_ms),
        "clientVersion": producer.peer.client_version,
        "msgRateIn": traffic.message_rate,
        "msgThroughputIn": traffic.byte_rate,
        "averageMsgSize": traffic.byte_rate / (traffic.message_rate or 1.0),
        "chunkedMessageRate": _average(producer.chunks, producer.connected_ms, now_ms),
        "metadata": producer.metadata,
        "supportsPartialProducer": False,
    }


def _average(count: int, since_ms: int, now_ms: int) -> float:
    """Returns the average for each second since somebody connected."""
    return count * 1000 / max(now_ms - since_ms, 1000)


# What Pulsar shows of every subscription, and is so unless a dispatcher says otherwise.
DEFAULTS: Final[Figures] = {
    "isReplicated": False,
    "replicated": False,
    "allowOutOfOrderDelivery": False,
    "consumersAfterMarkDeletePosition": {},
    "drainingHashesCount": 0,
    "drainingHashesClearedTotal": 0,
    "drainingHashesUnackedMessages": 0,
    "nonContiguousDeletedMessagesRangesSerializedSize": 0,
    "filterProcessedMsgCount": 0,
    "filterAcceptedMsgCount": 0,
    "filterRejectedMsgCount": 0,
    "filterRescheduledMsgCount": 0,
}


def _subscription_figures(subscription: Subscription, options: StatsOptions) -> Figures:
    found: Figures = {
        **DEFAULTS,
        **_backlog_figures(subscription, options),
        **_delivery_figures(subscription),
        **_dispatcher_figures(subscription.dispatcher),
        **_damage_figures(subscription),
        **_held_figures(subscription),
        "type": subscription.type_name,
        "isDurable": subscription.durable,
        "durable": subscription.durable,
        "subscriptionProperties": subscription.properties,
        "consumers": [],
    }
    if isinstance(subscription, NonPersistentSubscription):
        found["msgDropCounter"] = subscription.dropped.messages
        found["msgDropRate"] = subscription.dropped.message_rate
    return found


def _backlog_figures(subscription: Subscription, options: StatsOptions) -> Figures:
    cursor, dispatcher = subscription.cursor, subscription.dispatcher
    delayed = 0 if dispatcher is None else dispatcher.delayed_count()
    backlog = cursor.unacked_entries()
    size = (
        subscription.topic.storage.backlog_bytes(cursor.mark_delete) if options.backlog_size else -1
    )
    return {
        "msgBacklog": backlog,
        "msgBacklogMessages": cursor.unacked_messages(),
        "msgBacklogNoDelayed": backlog - delayed,
        "msgDelayed": delayed,
        "partiallyAckedBatches": cursor.partial_entries(),
        "nonContiguousDeletedMessagesRanges": cursor.acked_run_count(),
        "backlogSize": size,
        "earliestMsgPublishTimeInBacklog": (
            oldest_ms(subscription) if options.earliest_time else 0
        ),
    }


def _delivery_figures(subscription: Subscription) -> Figures:
    """What went out, what was acked and what expired: totals, rates and times."""
    consumers = subscription.consumers
    now_ms = subscription.topic.host.now_ms()
    messages_out, bytes_out = subscription.out_totals()
    return {
        "msgRateOut": sum([c.out.message_rate for c in consumers]),
        "msgThroughputOut": sum([c.out.byte_rate for c in consumers]),
        "bytesOutCounter": bytes_out,
        "msgOutCounter": messages_out,
        "msgRateRedeliver": sum([c.redelivered.message_rate for c in consumers]),
        "messageAckRate": sum([c.acked.message_rate for c in consumers]),
        "chunkedMessageRate": sum([_average(c.chunks, c.connected_ms, now_ms) for c in consumers]),
        "msgRateExpired": subscription.expired.message_rate,
        "msgExpired": subscription.expired.messages,
        "totalMsgExpired": subscription.expired.messages,
        "lastExpireTimestamp": subscription.last_expired_ms,
        "lastConsumedFlowTimestamp": subscription.last_flow_ms,
        "lastConsumedTimestamp": max([c.last_sent_ms for c in consumers], default=0),
        "lastAckedTimestamp": subscription.last_acked_ms,
        "lastMarkDeleteAdvancedTimestamp": subscription.last_moved_ms,
    }


def _damage_figures(subscription: Subscription) -> Figures:
    """Where a damaged entry stands in the way, if one does."""
    position, damage = subscription.damage.position, subscription.damage
    return {
        "damagedPosition": "" if position is None else str(position),
        "damagedReason": damage.reason,
        "damagedEntriesSkipped": damage.skipped,
    }


def _held_figures(subscription: Subscription) -> Figures:
    """How often it waited for a rate, by whose rate that was."""
    held = subscription.held
    found: Figures = {}
    for reason in REASONS:
        who = reason[0].upper() + reason[1:]
        found[f"dispatchThrottledMsgEventsBy{who}Limit"] = held.messages[reason]
        found[f"dispatchThrottledBytesEventsBy{who}Limit"] = held.bytes[reason]
    return found


def _dispatcher_figures(dispatcher: Dispatcher | None) -> Figures:
    """What waits and what is held; there is a dispatcher once there was a consumer."""
    found: Figures = {
        "unackedMessages": 0 if dispatcher is None else dispatcher.unacked_count(),
        "msgInReplay": 0 if dispatcher is None else dispatcher.replay_count(),
        "blockedSubscriptionOnUnackedMsgs": dispatcher is not None and dispatcher.full,
        "delayedMessageIndexSizeInBytes": 0 if dispatcher is None else dispatcher.delayed_bytes(),
    }
    if dispatcher is not None and dispatcher.active is not None:
        found["activeConsumerName"] = dispatcher.active.name
    if dispatcher is not None and dispatcher.type.goes_by_key:
        draining = dispatcher.draining()
        found["keySharedMode"] = "STICKY" if dispatcher.is_sticky else "AUTO_SPLIT"
        found["allowOutOfOrderDelivery"] = dispatcher.allows_disorder
        found["drainingHashesCount"] = len(draining)
        found["drainingHashesUnackedMessages"] = sum([count for _, _, count in draining])
    return found


def oldest_ms(subscription: Subscription) -> int:
    """When the oldest unacked entry was published; -1 if there is none."""
    run = subscription.cursor.next_run(subscription.cursor.mark_delete, 1)
    if run is None:
        return -1
    return subscription.topic.store.publish_time_ms(run.ledger_id, run.first)


def _consumer_figures(
    consumer: Consumer, subscription: Subscription, draining: list[Figures]
) -> Figures:
    found: Figures = {
        "consumerName": consumer.name,
        "availablePermits": consumer.permits,
        "unackedMessages": consumer.unacked,
        "avgMessagesPerEntry": round(consumer.messages_per_entry),
        "blockedConsumerOnUnackedMsgs": consumer.blocked,
        "msgRateOut": consumer.out.message_rate,
        "msgThroughputOut": consumer.out.byte_rate,
        "msgOutCounter": consumer.out.messages,
        "bytesOutCounter": consumer.out.bytes,
        "msgRateRedeliver": consumer.redelivered.message_rate,
        "messageAckRate": consumer.acked.message_rate,
        "chunkedMessageRate": _average(
            consumer.chunks, consumer.connected_ms, subscription.topic.host.now_ms()
        ),
        "lastAckedTimestamp": consumer.last_acked_ms,
        "lastAckedTime": date_text(consumer.last_acked_ms),
        "lastConsumedTimestamp": consumer.last_sent_ms,
        "lastConsumedTime": date_text(consumer.last_sent_ms),
        "lastConsumedFlowTimestamp": consumer.last_flow_ms,
        "firstMessagesSentTimestamp": consumer.first_sent_ms,
        "firstConsumedFlowTimestamp": 0,
        "address": f"/{consumer.peer.address}",
        "connectedSince": date_text(consumer.connected_ms),
        "clientVersion": consumer.peer.client_version,
        "drainingHashes": [],
        "drainingHashesCount": 0,
        "drainingHashesClearedTotal": 0,
        "drainingHashesUnackedMessages": 0,
        "metadata": consumer.metadata,
    }
    dispatcher = subscription.dispatcher
    if dispatcher is not None and dispatcher.type.goes_by_key:
        found["keyHashRangeArrays"] = [list(r) for r in dispatcher.ranges(consumer)]
        found["drainingHashes"] = draining
        found["drainingHashesCount"] = len(draining)
        found["drainingHashesUnackedMessages"] = sum([int(str(d["unackMsgs"])) for d in draining])
    return found


# ---- Internal stats --------------------------------------------------------------------


async def internal_figures(topic: Topic) -> Figures:
    cursors: dict[str, Figures] = {}
    listed = waiting = 0
    for subscription in list(topic.subscriptions.values()):
        figures = _cursor_figures(subscription)
        runs = await _runs_text(subscription, min(RUNS_LISTED_MAX, RUNS_TOGETHER_MAX - listed))
        figures["individuallyDeletedMessages"] = runs
        cursors[subscription.name] = figures
        listed += min(RUNS_LISTED_MAX, subscription.cursor.acked_run_count())
        waiting += _waits(subscription)
        await asyncio.sleep(0)
    ledgers = listed_ledgers(topic)
    entries = sum([ledger.entries for ledger in ledgers])
    current = ledgers[-1] if not ledgers[-1].sealed else None
    return {
        "properties": {},
        "entriesAddedCounter": entries,
        "numberOfEntries": entries,
        "totalSize": sum([ledger.size_bytes for ledger in ledgers]),
        "currentLedgerEntries": 0 if current is None else current.entries,
        "currentLedgerSize": 0 if current is None else current.size_bytes,
        "lastLedgerCreatedTimestamp": date_text(ledgers[-1].created_ms),
        "lastLedgerCreationFailureTimestamp": None,
        "waitingCursorsCount": waiting,
        "pendingAddEntriesCount": sum([int(p.pending) for p in topic.producers.values()]),
        "lastConfirmedEntry": str(_last_stored(topic, ledgers)),
        "maxReadPosition": str(topic.ledgers.last()),
        "state": "Terminated" if topic.terminated else "LedgerOpened",
        "ledgers": [
            {
                "ledgerId": ledger.id,
                "entries": ledger.entries,
                "size": ledger.size_bytes,
                "offloaded": False,
                "underReplicated": False,
            }
            for ledger in ledgers
        ],
        "cursors": cursors,
        "schemaLedgers": [],
        "compactedLedger": _compacted_ledger(topic),
    }


def _compacted_ledger(topic: Topic) -> Figures:
    view = topic.compaction.view
    return {
        "ledgerId": -1 if view is None else view.ledger_id,
        "entries": -1 if view is None else view.facts.entries,
        "size": -1 if view is None else view.size_bytes,
        "offloaded": False,
        "underReplicated": False,
    }


def listed_ledgers(topic: Topic) -> list[LedgerInfo]:
    """What is stored of a topic, and the ledger that is open for the next entry.

    A ledger comes to be with its first entry. Where there is none yet, the topic's own number is
    listed as an empty one, as Apache Pulsar has it: a number that no ledger ever has.
    """
    return ledgers_of(topic) or [
        LedgerInfo(
            topic.id,
            entries=0,
            size_bytes=0,
            created_ms=topic.created_ms,
            sealed=False,
            sealed_ms=0,
        )
    ]


def _last_stored(topic: Topic, ledgers: list[LedgerInfo]) -> Position:
    """The last entry, whether it may be read yet or not; of none the place before the first."""
    last = topic.last_stored() if isinstance(topic, PersistentTopic) else topic.ledgers.last()
    return last if last.ledger_id >= 0 else Position(ledgers[-1].id, -1)


def _shown(position: Position, topic: Topic) -> Position:
    """The same place as an entry's neighbour, where the position is of a ledger that is not."""
    if topic.ledgers.entry_count(position.ledger_id) >= 0:
        return position
    following = topic.ledgers.next(position)
    return position if following is None else Position(following.ledger_id, -1)


def _cursor_figures(subscription: Subscription) -> Figures:
    cursor = subscription.cursor
    entries = sum([ledger.entries for ledger in ledgers_of(subscription.topic)])
    dispatcher = subscription.dispatcher
    mark_delete = _shown(cursor.mark_delete, subscription.topic)
    read = Position(mark_delete.ledger_id, mark_delete.entry_id + 1)
    if dispatcher is not None:
        read = max(read, dispatcher.read_position)
    ledgers = subscription.topic.ledgers
    reading = dispatcher is not None and dispatcher.reading
    return {
        "markDeletePosition": str(mark_delete),
        "readPosition": str(read),
        "waitingReadOp": _waits(subscription),
        "pendingReadOps": 1 if reading else 0,
        "messagesConsumedCounter": entries - cursor.unacked_entries(),
        "cursorLedger": subscription.cursor_id,
        "cursorLedgerLastEntry": -1,
        "lastLedgerSwitchTimestamp": date_text(subscription.created_ms),
        "state": "Open" if subscription.durable else "NoLedger",
        "active": bool(subscription.consumers),
        "numberOfEntriesSinceFirstNotAckedMessage": (
            ledgers.entries_after(mark_delete)
            - ledgers.entries_after(Position(read.ledger_id, read.entry_id - 1))
        ),
        "totalNonContiguousDeletedMessagesRange": cursor.acked_run_count(),
        "partiallyAckedBatches": cursor.partial_entries(),
        "subscriptionHavePendingRead": reading or _waits(subscription),
        "subscriptionHavePendingReplayRead": False,
        "properties": {},
    }


async def _runs_text(subscription: Subscription, count: int) -> str:
    """Runs of acked entries, so many at most, each without its first end and with its last."""
    count = max(count, 0)
    runs = list(islice(subscription.cursor.acked_runs(), count + 1))
    texts: list[str] = []
    breather = Breather()
    for run in runs[:count]:
        texts.append(f"({run.ledger_id}:{run.first - 1}..{run.ledger_id}:{run.end - 1}]")
        await breather.rest()
    if len(runs) > count:
        texts.append("...")
    return f"[{','.join(texts)}]"


def _waits(subscription: Subscription) -> bool:
    """Whether somebody would take what comes next, and there is nothing."""
    dispatcher = subscription.dispatcher
    if dispatcher is None or dispatcher.reading:
        return False
    if subscription.cursor.next_run(dispatcher.read_position, 1) is not None:
        return False
    return any(consumer.available for consumer in subscription.consumers)
