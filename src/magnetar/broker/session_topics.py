"""The lists of topics that one session asked for, and those that it watches."""

from collections.abc import Callable
from typing import Final, final

from magnetar.broker.auth.access import LOOK
from magnetar.broker.broker import Broker
from magnetar.broker.peer import Peer
from magnetar.broker.topic_list import TopicFilter, TopicWatcher, topics_hash
from magnetar.errors import BrokerError, MagnetarError
from magnetar.model import RegexSubscriptionMode, ServerError
from magnetar.protocol import pulsar_pb2 as pb

__all__ = ["SessionTopics"]


@final
class SessionTopics:
    """See the module."""

    def __init__(self, broker: Broker, peer: Peer) -> None:
        self._broker: Final = broker
        self._peer: Final = peer
        self._watchers: Final[dict[int, Callable[[str, str, bool], None]]] = {}

    def lost(self) -> None:
        """The connection is gone."""
        for watcher in self._watchers.values():
            self._broker.watchers.remove(watcher)
        self._watchers.clear()

    def _names(self, namespace: str, mode: int) -> list[str]:
        """The topics of a namespace: none if there is no such namespace, as in Apache Pulsar.

        Clients take an error for a broker in trouble, and ask again for half a minute.
        """
        self._broker.access.require_namespace(self._peer.principal, LOOK, namespace)
        return self._broker.names(
            namespace,
            persistent=mode != RegexSubscriptionMode.NonPersistentOnly,
            others=mode != RegexSubscriptionMode.PersistentOnly,
        )

    def on_topics(self, command: pb.CommandGetTopicsOfNamespace) -> None:
        try:
            topics = self._names(command.namespace, command.mode)
        except MagnetarError as error:
            self._peer.refuse(command.request_id, error)
            return
        filtered = False
        if command.topics_pattern and self._broker.settings.topic_watchers:
            try:
                length_max = self._broker.settings.topics_pattern_length_max
                topics = TopicFilter(command.topics_pattern, length_max).keep(topics)
                filtered = True
            except BrokerError:
                filtered = False  # then the client filters, as it does with older brokers
        hash = topics_hash(topics)
        same = bool(command.topics_hash) and command.topics_hash == hash
        self._peer.send(
            pb.CommandGetTopicsOfNamespaceResponse(
                request_id=command.request_id,
                topics=[] if same else topics,
                filtered=filtered,
                topics_hash=hash,
                changed=not same,
            )
        )

    def on_watch(self, command: pb.CommandWatchTopicList) -> None:
        watcher_id = command.watcher_id
        try:
            self._require_room(watcher_id)
            length_max = self._broker.settings.topics_pattern_length_max
            pattern = TopicFilter(command.topics_pattern, length_max)
            topics = pattern.keep(
                self._names(command.namespace, RegexSubscriptionMode.PersistentOnly)
            )
        except MagnetarError as error:
            self._peer.refuse(command.request_id, error)
            return
        watcher = TopicWatcher(command.namespace, pattern, topics)

        def take(namespace: str, topic: str, created: bool) -> None:
            if watcher.take(namespace, topic, created):
                self._broker.host.call_soon(tell)

        def tell() -> None:
            came, went = watcher.news()
            # What was allowed at first may not be any more.
            allowed = self._broker.access.on_namespace(
                self._peer.principal, LOOK, watcher.namespace
            )
            if (came or went) and allowed and self._watchers.get(watcher_id) is take:
                self._peer.send(
                    pb.CommandWatchTopicUpdate(
                        watcher_id=watcher_id,
                        new_topics=came,
                        deleted_topics=went,
                        topics_hash=watcher.hash(),
                    )
                )

        self._stop_watching(watcher_id)
        self._watchers[watcher_id] = take
        self._broker.watchers.append(take)
        hash = watcher.hash()
        same = bool(command.topics_hash) and command.topics_hash == hash
        self._peer.send(
            pb.CommandWatchTopicListSuccess(
                request_id=command.request_id,
                watcher_id=watcher_id,
                topic=[] if same else topics,
                topics_hash=hash,
            )
        )

    def _require_room(self, watcher_id: int) -> None:
        """Each watcher holds the names of a namespace, and is told of every new topic."""
        limit = self._broker.settings.max_topic_watchers_per_connection
        if 0 < limit <= len(self._watchers) and watcher_id not in self._watchers:
            raise BrokerError(
                ServerError.TooManyRequests,
                f"the connection watches {limit} patterns, the most that it may: close others, "
                "or ask for the list of topics from time to time",
            )

    def _stop_watching(self, watcher_id: int) -> None:
        watcher = self._watchers.pop(watcher_id, None)
        if watcher is not None:
            self._broker.watchers.remove(watcher)

    def on_watch_close(self, command: pb.CommandWatchTopicListClose) -> None:
        self._stop_watching(command.watcher_id)
        self._peer.succeed(command.request_id)
