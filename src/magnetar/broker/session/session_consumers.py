"""The consumers of one session, by the ids that its client gave them.

| a consumer id is | ACK, FLOW, SEEK...      | becomes                                         |
|------------------|-------------------------|-------------------------------------------------|
| unknown          | refused                 | joining, by SUBSCRIBE                           |
| joining          | refused: not yet        | joined, when its subscription has it; unknown   |
| joined           | the subscription's      | unknown: closed by the client                   |
| dismissed        | refused: not now        | joining, by SUBSCRIBE; unknown                  |
| recalled         | the subscription's      | joining, by SUBSCRIBE; dismissed; unknown       |

A recalled one was closed so that its client empties its queue (`recall.py`); until the client
is back it keeps what it holds.
"""

from collections import deque
from functools import partial
from typing import Final, final

from magnetar.broker.auth.access import CONSUME
from magnetar.broker.broker import Broker
from magnetar.broker.peer import Peer, unsigned
from magnetar.broker.promise import Promise, kept
from magnetar.broker.session.redelivery import Redelivery
from magnetar.broker.session.session_schemas import read_schema
from magnetar.broker.session.session_texts import check_subscribe
from magnetar.broker.topic.chunk.chunk_search import find_acked
from magnetar.broker.topic.chunk.spanning import find_spanning
from magnetar.broker.topic.consumer import Consumer
from magnetar.broker.topic.entry_search import run_search
from magnetar.broker.topic.last_message import LastMessage, last_of_view
from magnetar.broker.topic.subscribe_request import KeySharedOptions, SubscribeRequest, require_type
from magnetar.broker.topic.subscription import Subscription
from magnetar.broker.topic.topic import Topic
from magnetar.broker.topic_loading import LoadFirst, TopicLoading
from magnetar.broker.turn.slices import Step
from magnetar.errors import BrokerError, MagnetarError
from magnetar.model import AckType, Position, ServerError, TopicName
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import (
    CommandAck,
    CommandAckResponse,
    CommandFlow,
    message_id_from_pb,
    message_id_to_pb,
    signed,
)
from magnetar.protocol import pulsar_pb2 as pb

__all__ = ["SessionConsumers"]

# So many consumers are looked at in one event, when a peer can be served again.
ROUND_STEP: Final = 50
# The C++ client, and those that are made of it, Python's for one, empty their queue as they read
# that they are subscribed, before they read on. Others do so elsewhere meanwhile.
READS_IN_ORDER: Final = "Pulsar-CPP"


@final
class _Link:
    """A consumer of this session, and what it consumes, once it has subscribed.

    `before` is the same consumer of the client's as it was until the broker closed it, of which the
    client may still hand out what it has queued.
    """

    def __init__(self, consumer: Consumer, topic: Topic, before: "_Link | None") -> None:
        self.consumer: Final = consumer
        self.topic: Final = topic
        self.before: _Link | None = before
        self.subscription: Subscription | None = None
        consumer.is_first = before is None or (before.consumer.is_first and not before.has_begun)
        # Whether its client has asked for messages.
        self.has_begun: bool = False

    def have_begun(self) -> None:
        """The client asks for messages: it has emptied its queue, and begins anew."""
        self.has_begun = True
        self.have_emptied()

    def have_emptied(self) -> None:
        """What the client had queued before is not handed out any more."""
        before, self.before = self.before, None
        if before is not None:
            before.over(emptied=True)

    def over(self, *, emptied: bool) -> None:
        """The client has emptied its queue; or its connection ended, and nobody knows."""
        link: _Link | None = self
        while link is not None:
            link.consumer.over(emptied=emptied)
            link = link.before


@final
class SessionConsumers:
    """See the module."""

    def __init__(self, broker: Broker, peer: Peer) -> None:
        self._broker: Final = broker
        self._peer: Final = peer
        self._links: Final[dict[int, _Link]] = {}
        # Consumers that are to be served in this round, and whether there is to be another one.
        self._round: Final[deque[int]] = deque()
        self._another_round: bool = False
        self._goes_round: bool = False

    def lost(self) -> list[Step]:
        """The connection is gone: its consumers are too. The steps to be taken for that."""
        links = list(self._links.values())
        self._links.clear()
        self._round.clear()
        return [partial(_lose, link) for link in links]

    def lag_ended(self) -> None:
        """The peer reads again: its consumers may be served, each in its turn.

        The peer may have room for the first few only. The next time those behind them are
        served first.
        """
        if self._round:
            self._another_round = True
        else:
            self._begin_round()
        self._serve_some()

    def _begin_round(self) -> None:
        """Of each subscription one consumer stands for all."""
        seen: set[Subscription] = set()
        for id, link in self._links.items():
            if link.subscription is not None and link.subscription not in seen:
                seen.add(link.subscription)
                self._round.append(id)

    def _serve_some(self) -> None:
        left = ROUND_STEP
        while self._round and left > 0 and self._peer.ready:
            left -= 1
            link = self._links.get(self._round.popleft())
            if link is not None and link.subscription is not None:
                link.subscription.resume()
        if not self._round and self._another_round:
            self._another_round = False
            self._begin_round()
        if self._round and not self._goes_round and self._peer.ready:
            self._goes_round = True
            self._broker.host.call_soon(self._go_round)

    def _go_round(self) -> None:
        self._goes_round = False
        self._serve_some()

    def on_subscribe(self, command: pb.CommandSubscribe) -> None:
        """Subscribes; if the topic is long to load, when that is done, and all else after it."""
        loading = self._loading(command)
        if loading is None:
            self._begin_subscribe(command)
            return
        first = LoadFirst(loading)
        first.loaded.then(
            lambda done: self._begin_subscribe(command),
            lambda error: self._peer.refuse(command.request_id, error),
        )
        self._peer.begin(first)

    def _loading(self, command: pb.CommandSubscribe) -> TopicLoading | None:
        """What is to be loaded first; nothing for those who are refused in a moment."""
        try:
            name = TopicName.parse(command.topic)
            access = self._broker.access
            access.require_topic(self._peer.principal, CONSUME, name, command.subscription)
        except MagnetarError:
            return None
        return self._broker.prepare(name)

    def _begin_subscribe(self, command: pb.CommandSubscribe) -> None:
        id = signed(command.consumer_id)
        link = self._links.get(id)
        if link is not None and (link.consumer.closed or link.consumer.recalled):
            link = self._come_back(link)
        elif link is not None:
            if link.subscription is not None:
                self._tell_life(command.request_id, link.subscription)
            else:
                reason = f"consumer {id} is being subscribed already: wait for that"
                self._peer.refuse(
                    command.request_id, BrokerError(ServerError.ServiceNotReady, reason)
                )
            return
        try:
            name = TopicName.parse(command.topic)
            access = self._broker.access
            access.require_topic(self._peer.principal, CONSUME, name, command.subscription)
            check_subscribe(self._broker, command)
            require_type(command.subType)
            topic = self._broker.topic(name, may_create=command.force_topic_creation)
            schema = read_schema(command.schema) if command.HasField("schema") else None
        except (MagnetarError, ValueError) as error:
            self._peer.refuse(command.request_id, error)
            return
        consumer = self._make_consumer(command, id)
        self._links[id] = _Link(consumer, topic, link)

        def refused(error: Exception) -> None:
            self._forget(consumer)
            self._peer.refuse(command.request_id, error)

        if schema is None:
            self._have_schema(command, topic, consumer)
            return
        idle = not topic.producers and topic.ledgers.last().entry_id < 0
        self._broker.add_consumer_schema(topic.name, schema, idle=idle).then(
            lambda done: self._have_schema(command, topic, consumer), refused
        )

    def _forget(self, consumer: Consumer) -> None:
        """It could not be subscribed: all is as it was before, if that was still the last word."""
        id = int(consumer.id)
        link = self._links.get(id)
        if link is not None and link.consumer is consumer:
            if link.before is not None:
                self._links[id] = link.before
            else:
                del self._links[id]

    def _have_schema(self, command: pb.CommandSubscribe, topic: Topic, consumer: Consumer) -> None:
        """The consumer can read what the topic has."""
        if self._peer.closed:
            return
        holder = self._exclusive_holder(command, topic)
        if holder is not None:
            holder.peer.probe().when_done(lambda error: self._subscribe(command, topic, consumer))
        else:
            self._subscribe(command, topic, consumer)

    def _come_back(self, link: _Link) -> _Link:
        """A client that was told that its consumer is closed subscribes anew.

        Ours has emptied its queue by then. Others do so when they are told that they are
        subscribed, and what is skipped until they ask for messages waits for that. Returns what
        may still be handed out: a link that was sent nothing gives way to the one before.
        """
        consumer, subscription = link.consumer, link.subscription
        if self._peer.knows_magnetar:
            link.over(emptied=True)
        elif subscription is not None and not consumer.is_over:
            name = str(link.topic.name)
            self._broker.strays.add(name, subscription.name, consumer)
        if not consumer.closed and subscription is not None:
            subscription.leave(consumer)
        if consumer.out.messages == 0:
            consumer.over(emptied=True)
            return link.before or link
        return link

    def on_withdrawn(self, command: pb.CommandWithdrawn) -> None:
        link = self._links.get(signed(command.consumer_id))
        if link is None:
            return
        withdrawals, number = link.consumer.withdrawals, signed(command.request_id)
        withdrawal = withdrawals.get(number)
        if withdrawal is None:
            return
        if not withdrawal.may_be_answered_by(command):
            self._peer.fail("WITHDRAWN names more than it was asked for")
            return
        del withdrawals[number]
        withdrawal.take_answer(command)

    def _make_consumer(self, command: pb.CommandSubscribe, id: int) -> Consumer:
        key = self._broker.new_consumer_key()
        return Consumer(
            self._peer,
            key,
            id,
            command.consumer_name or f"{key:05x}",
            priority=command.priority_level,
            epoch=signed(command.consumer_epoch) if command.HasField("consumer_epoch") else None,
            metadata={item.key: item.value for item in command.metadata},
            connected_ms=self._broker.host.now_ms(),
            read_compacted=command.read_compacted,
        )

    def _exclusive_holder(self, command: pb.CommandSubscribe, topic: Topic) -> Consumer | None:
        """Returns another connection's consumer that stands in the way; None if there is none."""
        subscription = topic.subscriptions.get(command.subscription)
        if subscription is None or not require_type(command.subType).takes_one:
            return None
        for consumer in subscription.consumers:
            if consumer.peer is not self._peer:
                return consumer
        return None

    def _subscribe(self, command: pb.CommandSubscribe, topic: Topic, consumer: Consumer) -> None:
        if self._peer.closed:
            return
        if consumer.closed:
            reason = f"consumer {consumer.id} was closed meanwhile"
            self._peer.refuse(command.request_id, BrokerError(ServerError.ServiceNotReady, reason))
            return
        start = None
        if command.HasField("start_message_id"):
            start = message_id_from_pb(command.start_message_id)
        request = SubscribeRequest(
            command.subscription,
            command.subType,
            durable=command.durable,
            initial_position=command.initialPosition,
            start=start,
            rollback_seconds=command.start_message_rollback_duration_sec,
            properties={item.key: item.value for item in command.subscription_properties},
            key_shared=read_key_shared(command),
            may_create=topic.policies.auto_create_subscriptions,
            read_compacted=command.read_compacted,
        )
        request_id = command.request_id

        def joined(subscription: Subscription) -> None:
            self._joined(request_id, consumer, subscription)

        def refused(error: Exception) -> None:
            self._forget(consumer)
            self._peer.refuse(request_id, error)

        topic.subscribe(request, consumer).then(joined, refused)

    def _joined(self, request_id: int, consumer: Consumer, subscription: Subscription) -> None:
        link = self._links.get(int(consumer.id))
        if self._peer.closed or link is None or link.consumer is not consumer:
            subscription.leave(consumer)
            return
        try:
            # It may have been taken away while this was under way.
            self._broker.access.require_topic(
                self._peer.principal, CONSUME, link.topic.name, subscription.name
            )
        except BrokerError as error:
            self._forget(consumer)
            subscription.leave(consumer)
            self._peer.refuse(request_id, error)
            return
        link.subscription = subscription
        self._tell_life(request_id, subscription)
        if link.before is not None and self._peer.client_version.startswith(READS_IN_ORDER):
            self._peer.has_read().when_done(lambda error: link.have_emptied())
        consumer.held = False
        subscription.pump()

    def _tell_life(self, request_id: int, subscription: Subscription) -> None:
        answer = pb.CommandSuccess(request_id=request_id)
        if self._peer.knows_magnetar:
            answer.subscription_life = subscription.life
        self._peer.send(answer)

    def on_close_consumer(self, command: pb.CommandCloseConsumer) -> None:
        id = signed(command.consumer_id)
        request_id = command.request_id
        link = self._links.pop(id, None)
        if link is None or link.subscription is None:
            if link is not None:
                link.consumer.closed = True
                link.over(emptied=True)
            self._peer.succeed(request_id)
            return
        link.over(emptied=True)
        link.subscription.leave(link.consumer).then(
            lambda done: self._peer.succeed(request_id),
            lambda error: self._peer.succeed(request_id),
        )

    def on_unsubscribe(self, command: pb.CommandUnsubscribe) -> None:
        request_id = command.request_id
        link = self._ready_link(command.consumer_id, request_id)
        if link is None:
            return
        subscription = link.subscription
        assert subscription is not None
        topic = link.topic
        others = len([c for c in subscription.consumers if c is not link.consumer])
        others += subscription.joining
        if others > 0 and not command.force:
            reason = f"{subscription.title} has {others} other consumers: close them first"
            self._peer.refuse(request_id, BrokerError(ServerError.MetadataError, reason))
            return
        del self._links[signed(command.consumer_id)]
        link.over(emptied=True)

        def left(done: None) -> None:
            topic.unsubscribe(subscription).then(
                lambda done: self._peer.succeed(request_id),
                lambda error: self._peer.refuse(request_id, error),
            )

        subscription.leave(link.consumer).then(left, lambda error: None)

    def _ready_link(self, consumer_id: int, request_id: int) -> _Link | None:
        """The consumer, or None after telling the client that there is none."""
        link = self._links.get(signed(consumer_id))
        if link is None or link.subscription is None or link.consumer.closed:
            reason = f"Consumer not found: {consumer_id} is closed or was never subscribed"
            self._peer.refuse(request_id, BrokerError(ServerError.MetadataError, reason))
            return None
        return link

    def on_flow(self, command: CommandFlow) -> None:
        link = self._links.get(command.consumer_id)
        if link is not None and link.subscription is not None:
            link.have_begun()
            link.subscription.flow(link.consumer, command.message_permits)

    def on_ack(self, command: CommandAck) -> None:
        link = self._links.get(command.consumer_id)
        if link is not None and link.subscription is not None and not link.consumer.closed:
            if names_chunks(command):
                found = find_acked(link.topic, command.message_ids)
                link.subscription.ack_when(link.consumer, command, found)
            else:
                link.subscription.ack(link.consumer, command)
            return
        if command.request_id is None:
            return
        if link is not None:
            code = ServerError.ServiceNotReady
            reason = f"consumer {command.consumer_id} is not connected now: try again"
        else:
            code = ServerError.ConsumerNotFound
            reason = f"there is no consumer {command.consumer_id}: subscribe, then ack again"
        self._peer.send(
            CommandAckResponse(command.consumer_id, command.request_id, int(code), reason)
        )

    def on_redeliver(self, command: pb.CommandRedeliverUnacknowledgedMessages) -> None:
        link = self._links.get(signed(command.consumer_id))
        if link is None or link.subscription is None or link.consumer.closed:
            return
        self._peer.begin(Redelivery(link.subscription, link.consumer, command))

    def on_seek(self, command: pb.CommandSeek) -> None:
        request_id = command.request_id
        link = self._ready_link(command.consumer_id, request_id)
        if link is None:
            return
        subscription = link.subscription
        assert subscription is not None
        if command.HasField("message_id"):
            id = message_id_from_pb(command.message_id)
            moved = subscription.reset(
                Position(id.ledger_id, id.entry_id),
                batch_index=id.batch_index,
                ack_set=id.ack_set,
                batch_size=id.batch_size,
                find_spanning=find_spanning,
            )
        elif command.HasField("message_publish_time"):
            position = link.topic.storage.position_at(command.message_publish_time)
            moved = subscription.reset(position, find_spanning=find_spanning)
        else:
            reason = "a seek needs a message id or a publish time"
            self._peer.refuse(request_id, BrokerError(ServerError.MetadataError, reason))
            return
        moved.then(
            lambda done: self._tell_life(request_id, subscription),
            lambda error: self._peer.refuse(request_id, error),
        )

    def on_consumer_stats(self, command: pb.CommandConsumerStats) -> None:
        link = self._links.get(signed(command.consumer_id))
        if link is None or link.subscription is None:
            self._peer.send(
                pb.CommandConsumerStatsResponse(
                    request_id=command.request_id,
                    error_code=ServerError.ConsumerNotFound,
                    error_message=f"there is no consumer {command.consumer_id}",
                )
            )
            return
        consumer, subscription = link.consumer, link.subscription
        self._peer.send(
            pb.CommandConsumerStatsResponse(
                request_id=command.request_id,
                msgRateOut=consumer.out.message_rate,
                msgThroughputOut=consumer.out.byte_rate,
                msgRateRedeliver=consumer.redelivered.message_rate,
                consumerName=consumer.name,
                availablePermits=unsigned(consumer.permits),
                unackedMessages=consumer.unacked,
                blockedConsumerOnUnackedMsgs=consumer.blocked,
                address=self._peer.address,
                connectedSince=str(consumer.connected_ms),
                type=subscription.type_name,
                msgRateExpired=subscription.expired.message_rate,
                msgBacklog=subscription.cursor.unacked_entries(),
                messageAckRate=consumer.acked.message_rate,
            )
        )

    # ---- The last message ----------------------------------------------------

    def on_last_message_id(self, command: pb.CommandGetLastMessageId) -> None:
        request_id = command.request_id
        link = self._ready_link(command.consumer_id, request_id)
        if link is None:
            return
        topic, subscription = link.topic, link.subscription
        assert subscription is not None
        last = LastMessage(topic)
        compacted = link.consumer.read_compacted

        def found(done: None) -> None:
            id = last_of_view(topic, last.id) if compacted else last.id
            self._send_last_id(request_id, id, subscription.cursor.mark_delete)

        run_search(topic, last).then(found, lambda error: self._peer.refuse(request_id, error))

    def _send_last_id(self, request_id: int, id: MessageIdData, mark_delete: Position) -> None:
        mark = MessageIdData(mark_delete.ledger_id, mark_delete.entry_id)
        self._peer.send(
            pb.CommandGetLastMessageIdResponse(
                request_id=request_id,
                last_message_id=message_id_to_pb(id),
                consumer_mark_delete_position=message_id_to_pb(mark),
            )
        )


def _lose(link: _Link) -> Promise[None]:
    """A consumer whose connection is gone leaves its subscription."""
    link.consumer.closed = True
    link.consumer.was_lost = True
    left: Promise[None] = kept(None)
    if link.subscription is not None:
        left = link.subscription.leave(link.consumer)
    link.over(emptied=False)
    return left


def names_chunks(ack: CommandAck) -> bool:
    """Whether it names messages by their first chunk and their last, and wants them all acked."""
    if ack.ack_type != AckType.Individual:
        return False
    for id in ack.message_ids:
        if id.first_chunk is not None:
            return True
    return False


def read_key_shared(command: pb.CommandSubscribe) -> KeySharedOptions:
    """What a Key_Shared consumer asks for; the defaults if it says nothing."""
    if not command.HasField("keySharedMeta"):
        return KeySharedOptions()
    meta = command.keySharedMeta
    return KeySharedOptions(
        meta.keySharedMode,
        [(item.start, item.end) for item in meta.hashRanges],
        out_of_order=meta.allowOutOfOrderDelivery,
    )
