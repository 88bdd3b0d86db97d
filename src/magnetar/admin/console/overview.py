"""The broker on one screen: what passes through it, what it has room for, and what is wrong.

A warning is a sentence that says what to do, with the topic and the subscription that it is
about, if it is about one.
"""

import time
from typing import Final

from magnetar.admin.console.session import CONSOLE
from magnetar.admin.http.answer import json_answer
from magnetar.admin.http.breather import Breather
from magnetar.admin.http.call import Call
from magnetar.admin.http.required_permission import SUPERUSER
from magnetar.admin.http.response import Response
from magnetar.admin.http.route import Route
from magnetar.admin.http.shape import (
    AMOUNT,
    FLAG,
    NULL,
    NUMBER,
    TEXT,
    WHOLE,
    Json,
    answers,
    each,
    either,
    list_of,
    map_of,
    one_of,
    record,
)
from magnetar.admin.metric.process import memory_bytes
from magnetar.broker.broker import Broker
from magnetar.broker.topic.subscription import Subscription
from magnetar.broker.topic.topic import Topic
from magnetar.storage import FileDisk

__all__ = ["ROUTES"]

WARNINGS_MAX: Final = 100

Warnings = list[dict[str, str]]


async def get_overview(call: Call) -> Response:
    """Returns rates, counts, storage, memory and warnings of the broker."""
    broker = call.broker
    rates = [0.0, 0.0, 0.0, 0.0]
    producers = consumers = subscriptions = backlog = unacked = delayed = 0
    warnings = _broker_warnings(broker)
    breather = Breather()
    topics = list(broker.topics.values())
    for topic in topics:
        await breather.rest()
        if topic.closed:
            continue
        producers += len(topic.producers)
        rates[0] += topic.incoming.message_rate
        rates[1] += topic.incoming.byte_rate
        if topic.blocked is not None and len(warnings) < WARNINGS_MAX:
            warnings.append(_warning("error", topic.blocked.reason, topic))
        for one in list(topic.subscriptions.values()):
            await breather.rest()
            subscriptions += 1
            backlog += one.cursor.unacked_entries()
            consumers += len(one.consumers)
            for consumer in one.consumers:
                rates[2] += consumer.out.message_rate
                rates[3] += consumer.out.byte_rate
            if one.dispatcher is not None:
                unacked += one.dispatcher.unacked_count()
                delayed += one.dispatcher.delayed_count()
            if len(warnings) < WARNINGS_MAX:
                warnings += _subscription_warnings(one)
    store = broker.store
    return json_answer(
        {
            "msgRateIn": rates[0],
            "msgThroughputIn": rates[1],
            "msgRateOut": rates[2],
            "msgThroughputOut": rates[3],
            "topics": len(broker.topic_ids),
            "loadedTopics": len(topics),
            "producers": producers,
            "consumers": consumers,
            "subscriptions": subscriptions,
            "connections": broker.sessions,
            "backlog": backlog,
            "unackedMessages": unacked,
            "delayedMessages": delayed,
            "freeBytes": store.log.free_bytes if isinstance(store.log.disk, FileDisk) else None,
            "watermarkBytes": store.log.options.watermark_bytes,
            "full": store.full,
            "readOnlyReason": store.read_only_reason,
            "retrying": dict(store.setbacks.present),
            "memoryBytes": memory_bytes(),
            "outboundBytes": int(broker.outbound.bytes),
            "ackStateBytes": int(broker.ack_budget.used),
            "cpuSeconds": time.process_time(),
            "transactions": _transactions(broker),
            "history": [
                {"timeMs": one.time_ms, "msgRateIn": one.rate_in, "msgRateOut": one.rate_out}
                for one in broker.upkeep.rates.points
            ],
            "warnings": warnings[:WARNINGS_MAX],
        }
    )


def _warning(
    level: str, text: str, topic: Topic | None = None, subscription: str = ""
) -> dict[str, str]:
    return {
        "level": level,
        "text": text,
        "topic": "" if topic is None else str(topic.name),
        "subscription": subscription,
    }


def _transactions(broker: Broker) -> dict[str, int] | None:
    """What is open, and what became of the others; None where there are no transactions."""
    found = broker.transactions
    if not found.enabled:
        return None
    oldest = next(iter(found.open.values()), None)
    age = 0 if oldest is None else max(broker.host.now_ms() - oldest.opened_ms, 0)
    return {
        "open": len(found.open),
        "oldestMs": age,
        "committed": found.committed,
        "aborted": found.aborted,
    }


def _broker_warnings(broker: Broker) -> Warnings:
    store = broker.store
    found: Warnings = []
    if store.read_only_reason:
        found.append(_warning("error", f"The store is read-only: {store.read_only_reason}"))
    if store.full:
        found.append(
            _warning("error", "The disk is full: free some space, or acknowledge what is stored.")
        )
    elif isinstance(store.log.disk, FileDisk):
        free, mark = store.log.free_bytes, store.log.options.watermark_bytes
        if free < 2 * mark:
            text = f"The disk has {free >> 20} MiB left; at {mark >> 20} MiB publishing stops."
            found.append(_warning("warning", text))
    for work, reason in store.setbacks.present.items():
        found.append(_warning("warning", f"The store tries again ({work}): {reason}"))
    if broker.ack_budget.refused:
        text = f"{broker.ack_budget.refused} acks were refused, for parts of batches take too much."
        found.append(_warning("warning", text))
    return found


def _subscription_warnings(subscription: Subscription) -> Warnings:
    found: Warnings = []
    topic, name = subscription.topic, subscription.name
    if subscription.damage.position is not None:
        text = (
            f"A damaged entry, {subscription.damage.position}, stands in the way: "
            f"{subscription.damage.reason}"
        )
        found.append(_warning("error", text, topic, name))
    if subscription.dispatcher is not None and subscription.dispatcher.full:
        text = "Too many messages are unacked: nothing is delivered until half of them are acked."
        found.append(_warning("warning", text, topic, name))
    for consumer in subscription.consumers:
        if consumer.blocked:
            text = f"Consumer {consumer.name!r} has too many unacked messages, and gets no more."
            found.append(_warning("warning", text, topic, name))
            break
    return found


OVERVIEW: Final[Json] = record(
    **each(AMOUNT, "msgRateIn", "msgThroughputIn", "msgRateOut", "msgThroughputOut", "cpuSeconds"),
    **each(WHOLE, "topics", "loadedTopics", "producers", "consumers", "subscriptions"),
    **each(WHOLE, "connections", "backlog", "unackedMessages", "delayedMessages"),
    **each(WHOLE, "watermarkBytes", "memoryBytes", "outboundBytes", "ackStateBytes"),
    freeBytes=either(WHOLE, NULL),
    transactions=either(record(**each(NUMBER, "open", "oldestMs", "committed", "aborted")), NULL),
    history=list_of(record(timeMs=WHOLE, **each(AMOUNT, "msgRateIn", "msgRateOut"))),
    full=FLAG,
    readOnlyReason=TEXT,
    retrying=map_of(TEXT),
    warnings=list_of(
        record(level=one_of("error", "warning"), **each(TEXT, "text", "topic", "subscription"))
    ),
)

ROUTES: Final[list[Route]] = [
    Route("GET", f"{CONSOLE}/overview", get_overview, SUPERUSER, answer=answers(OVERVIEW)),
]
