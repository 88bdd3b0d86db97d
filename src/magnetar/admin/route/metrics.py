"""`/metrics`: the main counters in Prometheus's text format, under Pulsar's names.

Nothing is counted for this: a scrape reads what the broker knows at that moment. The
numbers are taken a few topics at a time, and made a text of a few rows at a time, which is
shared (`scrape.py`): ten thousand topics are thirty megabytes of text. It is sent in small
pieces, for each that a client does not read waits in memory. That is also why it is written
here, line by line; the library that clients use for their own few metrics makes several
objects for each line.

Topics that nobody has used since the start are not loaded and have no numbers of their own,
but are in `pulsar_topics_count`.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Final

from magnetar.admin.http.bridge import at_ease
from magnetar.admin.http.call import Admin, Call
from magnetar.admin.http.required_permission import SCRAPE
from magnetar.admin.http.response import Response, StreamingResponse
from magnetar.admin.http.route import Route
from magnetar.admin.http.shape import PLAIN
from magnetar.admin.route.scrape import Scrape, Scrapes
from magnetar.broker.topic.subscription import Subscription
from magnetar.broker.topic.topic import Topic

__all__ = ["METRICS", "ROUTES"]

# So many topics are looked at before others have their turn.
TOPICS_AT_ONCE: Final = 20
# So many lines are a piece of the text.
PIECE_ROWS: Final = 100
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

COUNTER: Final = "counter"
GAUGE: Final = "gauge"

# By what they are about: name, kind and help of each, in the order of the values below.
BROKER: Final = (
    ("pulsar_active_connections", GAUGE, "Connections of clients."),
    ("pulsar_broker_topics_loaded", GAUGE, "Topics that are loaded."),
    ("pulsar_storage_read_only", GAUGE, "1 after a write failed, until a restart."),
    ("pulsar_storage_full", GAUGE, "1 while publishes are refused for lack of space."),
    ("pulsar_storage_retrying", GAUGE, "Kinds of work of the store that fail at present."),
    ("pulsar_storage_retries_total", COUNTER, "Work of the store that failed, to be done again."),
    ("pulsar_connections_refused_total", COUNTER, "Connections of clients beyond the limits."),
    ("pulsar_authentication_failures_total", COUNTER, "Log-ins that were refused, on both ports."),
    ("pulsar_batches_refused_total", COUNTER, "Publishes that lied about their batch."),
    ("pulsar_ack_state_bytes", GAUGE, "Memory that partly acked batches take."),
    ("pulsar_ack_state_refused_total", COUNTER, "Acks and skips beyond the limits on that."),
)
NAMESPACE: Final = (("pulsar_topics_count", GAUGE, "Topics, loaded or not."),)
TOPIC: Final = (
    ("pulsar_producers_count", GAUGE, "Producers."),
    ("pulsar_consumers_count", GAUGE, "Consumers."),
    ("pulsar_subscriptions_count", GAUGE, "Subscriptions."),
    ("pulsar_in_messages_total", COUNTER, "Messages published."),
    ("pulsar_in_bytes_total", COUNTER, "Bytes published."),
    ("pulsar_out_messages_total", COUNTER, "Messages sent to consumers."),
    ("pulsar_out_bytes_total", COUNTER, "Bytes sent to consumers."),
    ("pulsar_rate_in", GAUGE, "Messages published in a second."),
    ("pulsar_rate_out", GAUGE, "Messages sent to consumers in a second."),
    ("pulsar_throughput_in", GAUGE, "Bytes published in a second."),
    ("pulsar_throughput_out", GAUGE, "Bytes sent to consumers in a second."),
    ("pulsar_storage_size", GAUGE, "Bytes stored."),
    ("pulsar_msg_backlog", GAUGE, "Unacked entries, of all subscriptions together."),
)
SUBSCRIPTION: Final = (
    ("pulsar_subscription_back_log", GAUGE, "Unacked entries."),
    ("pulsar_subscription_back_log_messages", GAUGE, "Unacked messages."),
    ("pulsar_subscription_unacked_messages", GAUGE, "Messages with consumers, unacked."),
    ("pulsar_subscription_delayed", GAUGE, "Messages that wait for their time."),
    ("pulsar_subscription_in_replay", GAUGE, "Entries to be delivered again."),
    ("pulsar_subscription_acked_ranges", GAUGE, "Runs of acked entries above mark-delete."),
    ("pulsar_subscription_partially_acked_batches", GAUGE, "Batches of which a part is acked."),
    ("pulsar_subscription_partially_acked_bytes", GAUGE, "Memory that these take."),
    ("pulsar_subscription_consumers_count", GAUGE, "Consumers."),
    ("pulsar_subscription_out_messages_total", COUNTER, "Messages sent to consumers."),
    ("pulsar_subscription_total_msg_expired", GAUGE, "Entries that expired."),
    ("pulsar_subscription_skipped_messages_total", COUNTER, "Messages skipped by id."),
    ("pulsar_subscription_taken_back_messages_total", COUNTER, "Of these, by consumers."),
    ("pulsar_subscription_damaged", GAUGE, "1 while a damaged entry stands in the way."),
    ("pulsar_subscription_damaged_skipped_total", COUNTER, "Damaged entries that were skipped."),
)
LEVELS: Final = (BROKER, NAMESPACE, TOPIC, SUBSCRIPTION)
METRICS: Final = [name for level in LEVELS for name, _, _ in level]

Values = tuple[float, ...]


class _Sheet:
    """Numbers as they were at a scrape: for each level its rows, labels and values."""

    def __init__(self) -> None:
        self.rows: dict[tuple[tuple[str, str, str], ...], list[tuple[str, Values]]] = {
            level: [] for level in LEVELS
        }
        # By namespace: topics that are not persistent.
        self.not_stored: dict[str, int] = {}

    def text(self, level: tuple[tuple[str, str, str], ...], column: int, first: int) -> bytes:
        """Some lines of one metric, from a row on."""
        name, kind, help = level[column]
        lines = [f"# HELP {name} {help}\n# TYPE {name} {kind}\n"] if first == 0 else []
        for labels, values in self.rows[level][first : first + PIECE_ROWS]:
            lines.append(f"{name}{{{labels}}} {values[column]}\n")
        return "".join(lines).encode()


async def get_metrics(call: Call) -> Response:
    """Returns the broker's metrics in the text format of Prometheus."""
    scrape = await scrapes_of(call.admin).get()
    return StreamingResponse(_each(scrape), media_type=CONTENT_TYPE)


def scrapes_of(admin: Admin) -> Scrapes:
    """What all requests to a broker share."""
    if admin.scrapes is None:
        admin.scrapes = Scrapes(lambda: make_scrape(admin), time.monotonic)
    return admin.scrapes


async def _each(scrape: Scrape) -> AsyncIterator[bytes]:
    for piece in scrape.pieces:
        yield piece


async def make_scrape(admin: Admin) -> Scrape:
    """All metrics as they are now, made in many turns."""
    sheet = _Sheet()
    topics = list(admin.broker.topics.values())
    for first in range(0, len(topics), TOPICS_AT_ONCE):
        for topic in topics[first : first + TOPICS_AT_ONCE]:
            if not topic.closed:
                await _put_topic(sheet, admin.cluster, topic)
        await asyncio.sleep(0)
    _put_broker(sheet, admin)
    pieces: list[bytes] = []
    for level in LEVELS:
        for column in range(len(level)):
            for first in range(0, max(len(sheet.rows[level]), 1), PIECE_ROWS):
                pieces.append(sheet.text(level, column, first))
                await asyncio.sleep(0)
    return Scrape(pieces, sum([len(rows) for rows in sheet.rows.values()]))


def _labels(cluster: str, **more: str) -> str:
    """Labels as a line has them, with what would end a value escaped."""
    named = {"cluster": cluster, **more}
    return ",".join([f'{name}="{_escaped(value)}"' for name, value in named.items()])


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _put_broker(sheet: _Sheet, admin: Admin) -> None:
    broker = admin.broker
    values = (
        broker.sessions,
        len(broker.topics),
        1 if broker.store.read_only_reason else 0,
        1 if broker.store.full else 0,
        len(broker.store.setbacks.present),
        broker.store.setbacks.total,
        broker.refused_connections,
        broker.refused_log_ins.count,
        broker.batches_refused,
        int(broker.ack_budget.used),
        broker.ack_budget.refused,
    )
    sheet.rows[BROKER].append((_labels(admin.cluster), values))
    for namespace in sorted(broker.directory.namespaces):
        count = broker.count_names(namespace) + sheet.not_stored.get(namespace, 0)
        sheet.rows[NAMESPACE].append((_labels(admin.cluster, namespace=namespace), (count,)))


async def _put_topic(sheet: _Sheet, cluster: str, topic: Topic) -> None:
    namespace = topic.name.namespace
    if not topic.name.persistent:
        sheet.not_stored[namespace] = sheet.not_stored.get(namespace, 0) + 1
    labels = _labels(cluster, namespace=namespace, topic=str(topic.name))
    subscriptions = list(topic.subscriptions.values())
    consumers = [c for s in subscriptions for c in s.consumers]
    messages_out, bytes_out = topic.out_totals()
    values = (
        len(topic.producers),
        len(consumers),
        len(subscriptions),
        int(topic.incoming.messages),
        int(topic.incoming.bytes),
        messages_out,
        bytes_out,
        topic.incoming.message_rate,
        sum([c.out.message_rate for c in consumers]),
        topic.incoming.byte_rate,
        sum([c.out.byte_rate for c in consumers]),
        topic.storage.size_bytes(),
        sum([s.cursor.unacked_entries() for s in subscriptions]),
    )
    sheet.rows[TOPIC].append((labels, values))
    async for subscription in at_ease(subscriptions):
        name = _escaped(subscription.name)
        row = (f'{labels},subscription="{name}"', _subscription_values(subscription))
        sheet.rows[SUBSCRIPTION].append(row)


def _subscription_values(subscription: Subscription) -> Values:
    cursor, dispatcher = subscription.cursor, subscription.dispatcher
    messages_out, _ = subscription.out_totals()
    return (
        cursor.unacked_entries(),
        cursor.unacked_messages(),
        0 if dispatcher is None else dispatcher.unacked_count(),
        0 if dispatcher is None else dispatcher.delayed_count(),
        0 if dispatcher is None else dispatcher.replay_count(),
        cursor.acked_run_count(),
        cursor.partial_entries(),
        cursor.record_bytes(),
        len(subscription.consumers),
        messages_out,
        int(subscription.expired.messages),
        subscription.skipped,
        subscription.taken_back,
        0 if subscription.damage.position is None else 1,
        subscription.damage.skipped,
    )


ROUTES: Final[list[Route]] = [
    Route("GET", "/metrics", get_metrics, SCRAPE, answer=PLAIN),
]
