"""The work that nobody asks for: what falls due is done in its time, a few topics at once.

| every                    | what                                                            |
|--------------------------|-----------------------------------------------------------------|
| `MAINTAIN_MS`            | trims topics, takes snapshots of cursors, tidies the store,     |
|                          | tells what it has trouble with                                  |
| `RATE_INTERVAL_MS`       | reckons rates                                                   |
| `ttl_check_ms`           | lets messages expire                                            |
| `backlog_quota_check_ms` | checks quotas                                                   |
| `compaction_check_ms`    | begins compactions                                              |
| `INACTIVE_CHECK_MS`      | deletes topics and subscriptions that nobody uses               |
| `RETENTION_CHECK_MS`     | looks for what was acked long ago, though nobody acks any more  |
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, final

from magnetar.ack import Cursor, snapshot_slices
from magnetar.broker.host import Host
from magnetar.broker.housekeeping import (
    check_quota,
    expire_old,
    expired_subscriptions,
    is_inactive,
)
from magnetar.broker.rate_history import RateHistory
from magnetar.broker.topic.counters import RATE_INTERVAL_MS, Traffic
from magnetar.broker.topic.publish.deduplication import NAME as DEDUPLICATION
from magnetar.broker.topic.topic import Topic
from magnetar.errors import BrokerError, StorageError
from magnetar.model import Position, TopicName
from magnetar.storage.store import Store

if TYPE_CHECKING:
    from magnetar.broker.broker import Broker

__all__ = ["Upkeep"]

MAINTAIN_MS: Final = 1000
INACTIVE_CHECK_MS: Final = 10_000
# Acked ledgers whose time is over are looked for so often; Pulsar's default too.
RETENTION_CHECK_MS: Final = 120_000
# So many topics are looked after at once. With 10,000 of them nobody waits for all.
TURN_TOPICS: Final = 50
# The same for rates of one topic.
TURN_RATES: Final = 1000
# Snapshots of cursors are written a few at a time, and of each so much is queued for the disk at a
# time: others wait behind that.
SNAPSHOT_BYTES_MAX: Final = 16 << 20
SNAPSHOT_QUEUED_MAX: Final = 1 << 20
NOTHING: Final = Position(0, -1)


@final
class Upkeep:
    """See the module."""

    def __init__(self, broker: "Broker") -> None:
        self._broker: Final = broker
        self._host: Final[Host] = broker.host
        self._store: Final[Store] = broker.store
        # Those that are loaded.
        self._topics: Final[dict[str, Topic]] = broker.topics
        self._to_trim: list[Topic] = []
        # Cursors whose snapshot is being written.
        self._snapshots: Final[set[int]] = set()
        # What the partly acked batches of these take.
        self._snapshot_bytes: int = 0
        self._stopped: bool = False
        self.rates: Final = RateHistory()

    def start(self) -> None:
        """Begins the regular work."""
        self._store.ask_consumed(self._consumed)
        self._every(MAINTAIN_MS, self.maintain)
        self._every(RATE_INTERVAL_MS, self.tick_rates)
        self._every(self._broker.settings.ttl_check_ms, self.expire)
        self._every(self._broker.settings.backlog_quota_check_ms, self.check_quotas)
        self._every(self._broker.settings.compaction_check_ms, self.check_compaction)
        self._every(INACTIVE_CHECK_MS, self.delete_inactive)
        self._every(RETENTION_CHECK_MS, self.check_retention)

    def _every(self, interval_ms: int, work: Callable[[], None]) -> None:
        def again() -> None:
            if not self._stopped:
                self._host.call_later(interval_ms, again)
                work()

        self._host.call_later(interval_ms, again)

    def stop(self) -> None:
        self._stopped = True

    def trim_later(self, topic: Topic) -> None:
        """Ledgers of the topic may have become free."""
        self._to_trim.append(topic)

    def maintain(self) -> None:
        """Trims topics, takes snapshots of cursors, and lets the store tidy up."""
        to_trim = self._to_trim
        self._to_trim = []
        self._in_turns([str(topic.name) for topic in to_trim], self._trim)
        self._snapshot_cursors()
        # Again, if the group failed that it was in.
        self._broker.note_catalog()
        self._maintain_store()
        for news in self._store.setbacks.take_news():
            self._host.warn(f"the store: {news}")

    def _in_turns(self, names: list[str], work: Callable[[str], None]) -> None:
        """Does something for each of these topics: a few now, and others have their turn.

        A bug that one of them meets takes nothing from the others.
        """
        names.reverse()

        def step() -> None:
            for _ in range(min(TURN_TOPICS, len(names))):
                name = names.pop()
                try:
                    work(name)
                except Exception as error:
                    self._host.fault(f"{name} was not looked after", error)
            if names and not self._stopped:
                self._host.call_soon(step)

        step()

    def _trim(self, name: str) -> None:
        topic = self._topics.get(name)
        if topic is None:
            return
        try:
            topic.storage.trim()
        except StorageError as error:
            self._host.warn(f"{name} was not trimmed: {error}")

    def _maintain_store(self) -> None:
        if not self._stopped and self._store.maintain():
            self._host.call_soon(self._maintain_store)
        self._host.kick()

    def _consumed(self, topic_id: int) -> Position | None:
        """Up to where nobody will read a topic again, as far as is known."""
        topic = self._topics.get(self._store.log.state.topics[topic_id].name)
        if topic is None or topic.policies.retention_time_ms or topic.policies.retention_size_bytes:
            return NOTHING
        return topic.storage.slowest()

    def _snapshot_cursors(self) -> None:
        if self._store.read_only_reason:
            return
        for cursor_id in self._store.cursors_due():
            if cursor_id in self._snapshots:
                continue  # on a slow disk it takes longer than until we look again
            if self._snapshot_bytes >= SNAPSHOT_BYTES_MAX:
                return  # others are looked at again when these are written
            state = self._store.log.state.cursors[cursor_id]
            name = self._store.log.state.topics[state.topic_id].name
            topic = self._topics.get(name)
            if topic is None and cursor_id in self._store.cursors_wanted():
                topic = self._find(TopicName.parse(name))  # or in a second
            if topic is None:
                continue
            for subscription in topic.subscriptions.values():
                if subscription.cursor_id == cursor_id:
                    self._snapshot(cursor_id, topic, subscription.name, subscription.cursor)
            own = topic.deduplication
            if own is not None and own.cursor_id == cursor_id:
                self._snapshot(cursor_id, topic, DEDUPLICATION, own.cursor)

    def _snapshot(self, cursor_id: int, topic: Topic, name: str, cursor: Cursor) -> None:
        """Writes a snapshot slice by slice, with others' turns in between."""
        writer = self._store.begin_snapshot(cursor_id)
        slices = snapshot_slices(cursor)
        waiting: list[bytes] = []
        size = cursor.record_bytes()
        # What was queued for the disk since it was waited for.
        queued = 0
        self._snapshots.add(cursor_id)
        self._snapshot_bytes += size

        def end() -> None:
            self._snapshots.discard(cursor_id)
            self._snapshot_bytes -= size

        def on_disk(error: Exception | None) -> None:
            nonlocal queued
            queued = 0
            if error is None:
                step()
            else:
                end()

        def step() -> None:
            nonlocal queued
            try:
                part = next(slices, None)
                if waiting:
                    queued += len(waiting[-1])
                    writer.add(waiting.pop(), last=part is None)
                    self._host.kick()
            except (StorageError, MemoryError) as error:
                # The one before counts, and this is tried again.
                self._host.warn(f"no snapshot of {name!r} of {topic.name}: {error!r}")
                end()
                return
            except Exception as error:
                topic.give_up(error)
                end()
                return
            if part is None:
                topic.wait_for(self._store.ticket_last).when_done(lambda error: end())
                return
            waiting.append(part)
            if queued < SNAPSHOT_QUEUED_MAX:
                self._host.call_soon(step)
            else:
                topic.wait_for(self._store.ticket_last).when_done(on_disk)

        step()

    def tick_rates(self) -> None:
        self.rates.begin(self._host.now_ms())
        self._in_turns(list(self._topics), self._tick)

    def _tick(self, name: str) -> None:
        topic = self._topics.get(name)
        if topic is None:
            return
        rates = [topic.incoming]
        outs: list[Traffic] = []
        rates += [producer.traffic for producer in topic.producers.values()]
        for subscription in topic.subscriptions.values():
            rates += subscription.rates()
            for consumer in subscription.consumers:
                rates += [consumer.out, consumer.redelivered, consumer.acked]
                outs.append(consumer.out)
        self._tick_from(rates, 0)
        # Where there are thousands, some of these are of the interval before.
        self.rates.add(topic.incoming.message_rate, sum([out.message_rate for out in outs]))
        topic.rates.tick()

    def _tick_from(self, rates: list[Traffic], first: int) -> None:
        """Reckons some of a topic's rates; it may have thousands of producers and consumers."""
        for traffic in rates[first : first + TURN_RATES]:
            traffic.tick(RATE_INTERVAL_MS / 1000)
        if first + TURN_RATES < len(rates) and not self._stopped:
            self._host.call_soon(lambda: self._tick_from(rates, first + TURN_RATES))

    def expire(self) -> None:
        """Acks messages that are older than their topic's policy allows."""
        self._in_turns(list(self._broker.topic_ids), self._expire)

    def _expire(self, name: str) -> None:
        topic = self._if_wanted(name)
        if topic is not None:
            expire_old(topic, self._host.now_ms())

    def _if_wanted(self, name: str) -> Topic | None:
        """The topic if it is loaded, or if a policy wants something of it."""
        topic = self._topics.get(name)
        if topic is not None:
            return None if topic.closed else topic
        parsed = TopicName.parse(name)
        policies = self._broker.directory.effective(parsed)
        if policies.limits.ttl_ms <= 0 and policies.backlog_quota_ms < 0:
            return None
        return self._find(parsed, self._expire)

    def _find(self, name: TopicName, work: Callable[[str], None] | None = None) -> Topic | None:
        """Loads a topic. One that is long to load is None for now; its work is done later."""
        loading = self._broker.prepare(name)
        if loading is not None:
            if work is not None:
                loading.promise.then(lambda topic: work(str(name)), lambda error: None)
            loading.go_on_alone()
            return None
        try:
            return self._broker.find(name)
        except BrokerError as error:
            self._host.warn(str(error))
            return None

    def check_quotas(self) -> None:
        self._in_turns(list(self._topics), self._check_quota)

    def _check_quota(self, name: str) -> None:
        topic = self._topics.get(name)
        if topic is not None and topic.name.persistent and not topic.closed:
            check_quota(topic, self._host.now_ms())

    def check_retention(self) -> None:
        """Trims what was acked long ago, though nobody acks or publishes any more."""
        self._in_turns(list(self._topics), self._check_retention)

    def _check_retention(self, name: str) -> None:
        topic = self._topics.get(name)
        if topic is not None and topic.name.persistent and not topic.closed:
            topic.storage.acks_moved()

    def check_compaction(self) -> None:
        """Compacts topics of which more than their threshold is not compacted."""
        self._in_turns(list(self._topics), self._check_compaction)

    def _check_compaction(self, name: str) -> None:
        topic = self._topics.get(name)
        if topic is not None and topic.name.persistent and not topic.closed:
            topic.compaction.check()

    def delete_inactive(self) -> None:
        self._in_turns(list(self._topics), self._delete_inactive)

    def _delete_inactive(self, name: str) -> None:
        topic = self._topics.get(name)
        if topic is None or topic.closed:
            return
        for subscription in expired_subscriptions(topic, self._host.ticks_ms()):
            topic.unsubscribe(subscription)
        if is_inactive(topic, self._host.ticks_ms()):
            self._broker.delete_topic(topic.name, force=True, delete_schema=False)
