"""The lists of topics that one session asked for, and those that it watches.

A list is made in steps (`topic_search.py`), and kept for whoever asks for the same.
"""

from collections.abc import Callable
from typing import Final, final

from google.protobuf.message import Message

from magnetar.broker.auth.access import LOOK
from magnetar.broker.broker import Broker
from magnetar.broker.namespace.namespace_topics import FoundTopics, Wanted
from magnetar.broker.namespace.topic_list import TopicFilter
from magnetar.broker.namespace.topic_search import TopicSearch, listed
from magnetar.broker.namespace.topic_watch import Watcher
from magnetar.broker.peer import Peer
from magnetar.errors import BrokerError, MagnetarError
from magnetar.model import RegexSubscriptionMode, ServerError
from magnetar.protocol import pulsar_pb2 as pb

__all__ = ["SessionTopics"]

# Tags of the fields that hold the names.
TOPICS_TAG: Final = 2 << 3 | 2  # CommandGetTopicsOfNamespaceResponse.topics
WATCHED_TAG: Final = 3 << 3 | 2  # CommandWatchTopicListSuccess.topic


@final
class SessionTopics:
    """See the module."""

    def __init__(self, broker: Broker, peer: Peer) -> None:
        self._broker: Final = broker
        self._peer: Final = peer
        self._watchers: Final[dict[int, Watcher]] = {}

    def lost(self) -> None:
        """The connection is gone."""
        for watcher in self._watchers.values():
            self._broker.watchers.remove(watcher)
        self._watchers.clear()

    def on_topics(self, command: pb.CommandGetTopicsOfNamespace) -> None:
        """Answers with the topics of a namespace: none if there is no such namespace.

        So does Apache Pulsar. Clients take an error for a broker in trouble, and ask again for
        half a minute.
        """
        request_id = command.request_id
        asked_hash = command.topics_hash
        pattern = self._optional_pattern(command.topics_pattern)

        def found(found: FoundTopics) -> None:
            same = bool(asked_hash) and asked_hash == found.hash
            answer = pb.CommandGetTopicsOfNamespaceResponse(
                request_id=request_id,
                filtered=pattern is not None,
                topics_hash=found.hash,
                changed=not same,
            )
            self._send(request_id, answer, b"" if same else found.fields)

        wanted = (
            command.namespace,
            command.mode != RegexSubscriptionMode.NonPersistentOnly,
            command.mode != RegexSubscriptionMode.PersistentOnly,
            command.topics_pattern if pattern is not None else "",
            TOPICS_TAG,
        )
        try:
            self._search(wanted, pattern, request_id, found)
        except MagnetarError as error:
            self._peer.refuse(request_id, error)

    def _optional_pattern(self, pattern: str) -> TopicFilter | None:
        """None if there is none, or it is none: then the client filters, as with older brokers."""
        if not pattern or not self._broker.settings.topic_watchers:
            return None
        try:
            return TopicFilter(pattern, self._broker.settings.topics_pattern_length_max)
        except BrokerError:
            return None

    def _search(
        self,
        wanted: Wanted,
        pattern: TopicFilter | None,
        request_id: int,
        found: Callable[[FoundTopics], None],
        cancelled: Callable[[], None] | None = None,
    ) -> None:
        """Finds the topics that are wanted, now or in later turns. Raises BrokerError."""
        namespace, persistent, others, _, field_tag = wanted
        self._broker.access.require_namespace(self._peer.principal, LOOK, namespace)
        topics = self._broker.namespace_topics
        before = topics.find(wanted)
        if before is not None:
            found(before)
            return

        def keep(result: FoundTopics) -> None:
            topics.keep(wanted, result)
            found(result)

        def failed(error: Exception) -> None:
            if cancelled is not None:
                cancelled()
            self._peer.refuse(request_id, error)

        search = TopicSearch(
            topics.in_order(namespace, persistent=persistent, others=others),
            pattern,
            field_tag,
            self._broker.settings.message_size_max,
            cancelled,
        )
        search.found.then(keep, failed)
        self._peer.begin(search)

    def _send(self, request_id: int, answer: Message, fields: bytes) -> None:
        try:
            self._broker.outbound.require_room(len(fields))
        except BrokerError as error:
            self._peer.refuse(request_id, error)
            return
        self._peer.send_with_fields(answer, [fields])

    def on_watch(self, command: pb.CommandWatchTopicList) -> None:
        # What comes and goes while the list is made.
        meanwhile: list[str] = []

        def listen(namespace: str, topic: str, created: bool) -> None:
            if namespace == command.namespace:
                meanwhile.append(topic)

        def stop_listening() -> None:
            self._broker.watchers.listeners.remove(listen)

        def found(found: FoundTopics) -> None:
            stop_listening()
            self._watch(command, pattern, found, meanwhile)

        try:
            self._require_room(command.watcher_id)
            length_max = self._broker.settings.topics_pattern_length_max
            pattern = TopicFilter(command.topics_pattern, length_max)
            wanted = (command.namespace, True, False, command.topics_pattern, WATCHED_TAG)
            self._broker.watchers.listeners.append(listen)
            self._search(wanted, pattern, command.request_id, found, stop_listening)
        except MagnetarError as error:
            if listen in self._broker.watchers.listeners:
                stop_listening()
            self._peer.refuse(command.request_id, error)

    def _watch(
        self,
        command: pb.CommandWatchTopicList,
        pattern: TopicFilter,
        found: FoundTopics,
        meanwhile: list[str],
    ) -> None:
        watcher_id, namespace = command.watcher_id, command.namespace

        def tell(came: list[str], went: list[str], hash: str) -> None:
            # What was allowed at first may not be any more.
            if self._broker.access.on_namespace(self._peer.principal, LOOK, namespace):
                self._peer.send(
                    pb.CommandWatchTopicUpdate(
                        watcher_id=watcher_id,
                        new_topics=came,
                        deleted_topics=went,
                        topics_hash=hash,
                    )
                )

        watchers = self._broker.watchers
        try:
            watcher = watchers.watch(namespace, command.topics_pattern, pattern, found.topics, tell)
        except BrokerError as error:
            self._peer.refuse(command.request_id, error)
            return
        self._stop_watching(watcher_id)
        self._watchers[watcher_id] = watcher
        # Others may watch the same, and be told in a moment of what was found here already.
        hash = watcher.pattern.hash()
        known = found if hash == found.hash else listed(watcher.pattern.topics, hash, WATCHED_TAG)
        same = bool(command.topics_hash) and command.topics_hash == hash
        answer = pb.CommandWatchTopicListSuccess(
            request_id=command.request_id, watcher_id=watcher_id, topics_hash=hash
        )
        self._send(command.request_id, answer, b"" if same else known.fields)
        watchers.look_at(namespace, meanwhile)

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
