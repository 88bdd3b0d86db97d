"""`/metrics`: what the broker knows at that moment, in Prometheus's text format.

What there is, `metric/declaration.py` says. The numbers are taken a few topics at a time, and
made a text of a few rows at a time, which is shared (`scrape.py`): ten thousand topics are
thirty megabytes of text. It is sent in small pieces, for each that a client does not read
waits in memory. That is also why it is written here, line by line; the library that clients use
for their own few metrics makes several objects for each line.

Topics that nobody has used since the start are not loaded for it. Their backlogs are read once
(`metric/resting.py`), so that an alert on them outlives a restart.
"""

import asyncio
import platform
import time
from collections.abc import AsyncIterator
from functools import cache
from typing import Final

import magnetar
from magnetar.admin.backlog.topic_stats import SubscriptionTotals, count_messages, oldest_ms
from magnetar.admin.http.breather import Breather
from magnetar.admin.http.bridge import at_ease
from magnetar.admin.http.call import Admin, Call
from magnetar.admin.http.required_permission import SCRAPE
from magnetar.admin.http.response import Response, StreamingResponse
from magnetar.admin.http.route import Route
from magnetar.admin.http.shape import PLAIN
from magnetar.admin.metric import process
from magnetar.admin.metric.declaration import (
    BROKER,
    HISTOGRAMS,
    LEVELS,
    NAMESPACE,
    SUBSCRIPTION,
    THROTTLED,
    TOPIC,
)
from magnetar.admin.metric.resting import Resting, RestingCursor, RestingTopics
from magnetar.admin.metric.sheet import Sheet, Values, escaped, histogram_lines, labelled
from magnetar.admin.route.scrape import Scrape, Scrapes
from magnetar.broker.broker import Broker
from magnetar.broker.rate.dispatch_gate import REASONS
from magnetar.broker.topic.persistent_topic import PersistentTopic
from magnetar.broker.topic.subscription import Subscription
from magnetar.broker.topic.topic import Topic
from magnetar.errors import StorageError
from magnetar.model import TopicName
from magnetar.storage import FileDisk

__all__ = ["ROUTES", "make_scrape"]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


async def get_metrics(call: Call) -> Response:
    """Returns the broker's metrics in the text format of Prometheus."""
    scrape = await scrapes_of(call.admin).get()
    return StreamingResponse(_each(scrape), media_type=CONTENT_TYPE)


def scrapes_of(admin: Admin) -> Scrapes:
    """What all requests to a broker share."""
    if admin.scrapes is None:
        resting = RestingTopics()
        admin.scrapes = Scrapes(lambda: make_scrape(admin.broker, resting), time.monotonic)
    return admin.scrapes


async def _each(scrape: Scrape) -> AsyncIterator[bytes]:
    for piece in scrape.pieces:
        yield piece


async def make_scrape(broker: Broker, resting: RestingTopics) -> Scrape:
    """Returns all metrics, made in many turns; `resting` tells of what nobody uses."""
    sheet = Sheet()
    await _put_topics(sheet, broker, resting)
    descriptors = await asyncio.to_thread(process.open_descriptors)
    _put_broker(sheet, broker, descriptors)
    pieces = [*_histograms(broker), _builds(broker.settings.cluster_name)]
    for level in LEVELS:
        for column in range(len(level)):
            for first in sheet.pieces(level, column):
                pieces.append(sheet.text(level, column, first))
                await asyncio.sleep(0)
    return Scrape(pieces, sheet.count())


async def _put_topics(sheet: Sheet, broker: Broker, resting: RestingTopics) -> None:
    """The rows of all topics, loaded or not, as each is when it is looked at."""
    cluster, breather = broker.settings.cluster_name, Breather()
    others = [name for name in broker.topics if name not in broker.topic_ids]
    for name in [*broker.topic_ids, *others]:
        await breather.rest()
        topic, topic_id = broker.topics.get(name), broker.topic_ids.get(name)
        found: Resting | None = None
        if topic is None and topic_id is not None:
            try:
                found = await resting.look(broker, topic_id, breather)
            except StorageError as error:
                broker.host.warn(f"no metrics of {name}: {error}")
            topic = broker.topics.get(name)  # it may be loaded meanwhile
        if topic is not None and not topic.deleted:
            if topic_id is not None:
                resting.forget(topic_id)
            await _put_topic(sheet, cluster, topic)
        elif found is not None:
            _put_resting(sheet, cluster, broker, name, found)
    resting.keep_only(set(broker.topic_ids.values()))


# ---- The broker ------------------------------------------------------------------------


def _put_broker(sheet: Sheet, broker: Broker, descriptors: int | None) -> None:
    cluster, store = broker.settings.cluster_name, broker.store
    on_disk = isinstance(store.log.disk, FileDisk)
    values: Values = (
        broker.sessions,
        len(broker.topics),
        1 if store.read_only_reason else 0,
        1 if store.full else 0,
        len(store.setbacks.present),
        store.setbacks.total,
        broker.refused_connections,
        broker.refused_log_ins.count,
        broker.batches_refused,
        int(broker.ack_budget.used),
        broker.ack_budget.refused,
        *_transaction_values(broker),
        len(broker.commits),
        store.log.free_bytes if on_disk else None,
        store.log.options.watermark_bytes if on_disk else None,
        process.cpu_seconds(),
        process.memory_bytes(),
        process.virtual_bytes(),
        descriptors,
        process.descriptors_max(),
        process.STARTED,
    )
    sheet.rows[BROKER].append((labelled(cluster=cluster), values))
    for namespace in sorted(broker.directory.namespaces):
        count = broker.count_names(namespace) + sheet.not_stored.get(namespace, 0)
        labels = labelled(cluster=cluster, namespace=namespace)
        sheet.rows[NAMESPACE].append((labels, (count,)))


def _transaction_values(broker: Broker) -> Values:
    transactions = broker.transactions
    if not transactions.enabled:
        return (None,) * 6
    oldest_ms = next((one.opened_ms for one in transactions.open.values()), -1)
    return (
        len(transactions.open),
        transactions.opened,
        transactions.committed,
        transactions.aborted,
        transactions.timed_out,
        _age(oldest_ms, broker.host.now_ms()),
    )


def _horizon_values(topic: Topic) -> Values:
    if not isinstance(topic, PersistentTopic) or not topic.broker.transactions.enabled:
        return (None,) * 3
    horizon = topic.horizon
    return (len(horizon.numbers()), horizon.committed, horizon.aborted)


def _histograms(broker: Broker) -> list[bytes]:
    latency, written = broker.latency, broker.store.log.figures
    found = (
        latency.publish_us,
        latency.dispatch_ms,
        written.sync_us,
        written.records,
        written.bytes,
    )
    labels = labelled(cluster=broker.settings.cluster_name)
    return [
        histogram_lines(name, help, one, unit, labels)
        for (name, help, unit), one in zip(HISTOGRAMS, found, strict=True)
    ]


@cache
def _builds(cluster: str) -> bytes:
    """Which build this is; under Pulsar's name too, by which its dashboards find clusters."""
    version = magnetar.__version__
    labels = labelled(
        cluster=cluster,
        version=version,
        compiled="true" if magnetar.COMPILED else "false",
        python=platform.python_version(),
    )
    return (
        "# HELP magnetar_build_info 1, with what was built.\n# TYPE magnetar_build_info gauge\n"
        f"magnetar_build_info{{{labels}}} 1\n"
        "# HELP pulsar_version_info 1, with the version.\n# TYPE pulsar_version_info gauge\n"
        f"pulsar_version_info{{{labelled(cluster=cluster, version=version)}}} 1\n"
    ).encode()


# ---- Topics and subscriptions ----------------------------------------------------------


async def _put_topic(sheet: Sheet, cluster: str, topic: Topic) -> None:
    namespace = topic.name.namespace
    if not topic.name.persistent:
        sheet.not_stored[namespace] = sheet.not_stored.get(namespace, 0) + 1
    labels = labelled(cluster=cluster, namespace=namespace, topic=str(topic.name))
    subscriptions = list(topic.subscriptions.values())
    total = SubscriptionTotals(topic)
    await count_messages(topic)
    now_ms = topic.host.now_ms()
    ages: list[float] = [0.0]
    async for subscription in at_ease(subscriptions):
        age = _age(oldest_ms(subscription), now_ms)
        ages.append(age)
        row = f'{labels},subscription="{escaped(subscription.name)}"'
        sheet.rows[SUBSCRIPTION].append((row, _subscription_values(subscription, age)))
        held = subscription.held
        for reason in REASONS:
            counts = held.messages[reason], held.bytes[reason]
            if any(counts):
                sheet.rows[THROTTLED].append((f'{row},reason="{reason}"', counts))
        total.add(subscription)
    values: Values = (
        len(topic.producers),
        total.consumers,
        len(subscriptions),
        int(topic.incoming.messages),
        int(topic.incoming.bytes),
        total.messages_out,
        total.bytes_out,
        topic.incoming.message_rate,
        total.message_rate,
        topic.incoming.byte_rate,
        total.byte_rate,
        topic.storage.size_bytes(),
        0 if total.slowest is None else topic.storage.backlog_bytes(total.slowest),
        max(ages),
        total.unacked_entries,
        topic.rates.publishes_held,
        topic.rates.subscribes_refused,
        *_horizon_values(topic),
    )
    sheet.rows[TOPIC].append((labels, values))


def _age(then_ms: int, now_ms: int) -> float:
    """Returns how old something is, in seconds; 0 if there is nothing."""
    return 0.0 if then_ms < 0 else max(now_ms - then_ms, 0) / 1000


def _subscription_values(subscription: Subscription, age: float) -> Values:
    cursor, dispatcher = subscription.cursor, subscription.dispatcher
    consumers = subscription.consumers
    messages_out, _ = subscription.out_totals()
    redelivered, acked = subscription.ack_totals()
    return (
        cursor.unacked_entries(),
        cursor.unacked_messages(),
        age,
        0 if dispatcher is None else dispatcher.unacked_count(),
        0 if dispatcher is None or not dispatcher.full else 1,
        0 if dispatcher is None else dispatcher.delayed_count(),
        0 if dispatcher is None else dispatcher.replay_count(),
        cursor.acked_run_count(),
        cursor.partial_entries(),
        cursor.record_bytes(),
        len(subscription.pending) if subscription.topic.broker.transactions.enabled else None,
        len(consumers),
        messages_out,
        sum([c.out.message_rate for c in consumers]),
        sum([c.out.byte_rate for c in consumers]),
        sum([c.redelivered.message_rate for c in consumers]),
        sum([c.acked.message_rate for c in consumers]),
        redelivered,
        acked,
        int(subscription.acked_again),
        int(subscription.expired.messages),
        subscription.skipped,
        subscription.taken_back,
        0 if subscription.damage.position is None else 1,
        subscription.damage.skipped,
    )


def _put_resting(sheet: Sheet, cluster: str, broker: Broker, name: str, found: Resting) -> None:
    now_ms = broker.host.now_ms()
    namespace = TopicName.parse(name).namespace
    labels = labelled(cluster=cluster, namespace=namespace, topic=name)
    cursors = found.cursors
    values: dict[str, float] = {
        "pulsar_subscriptions_count": len(cursors),
        "pulsar_storage_size": found.size_bytes,
        "pulsar_storage_backlog_size": found.backlog_bytes,
        "pulsar_storage_backlog_age_seconds": max(
            [_age(one.oldest_ms, now_ms) for one in cursors], default=0.0
        ),
        "pulsar_msg_backlog": sum([one.entries for one in cursors]),
    }
    sheet.rows[TOPIC].append((labels, tuple([values.get(metric) for metric, _, _ in TOPIC])))
    for one in cursors:
        row = f'{labels},subscription="{escaped(one.name)}"'
        sheet.rows[SUBSCRIPTION].append((row, _resting_values(one, now_ms)))


def _resting_values(one: RestingCursor, now_ms: int) -> Values:
    values: dict[str, float] = {
        "pulsar_subscription_back_log": one.entries,
        "pulsar_subscription_back_log_messages": one.messages,
        "magnetar_subscription_oldest_unacked_seconds": _age(one.oldest_ms, now_ms),
        "pulsar_subscription_acked_ranges": one.acked_runs,
        "pulsar_subscription_partially_acked_batches": one.partial,
        "pulsar_subscription_consumers_count": 0,
    }
    return tuple([values.get(metric) for metric, _, _ in SUBSCRIPTION])


ROUTES: Final[list[Route]] = [
    Route("GET", "/metrics", get_metrics, SCRAPE, answer=PLAIN),
]
