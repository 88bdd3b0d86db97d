"""The producers of one session, by the ids that its client gave them.

| a producer id is | SEND        | becomes                                                   |
|------------------|-------------|-----------------------------------------------------------|
| unknown          | hang up     | asking, or known                                          |
| asking           | hang up     | known, when the connection that has its name has answered |
|                  |             | and its schema was compared                               |
| known            | published   | closed                                                    |
| closed           | passed over | known, if it is created anew; unknown, when it is long ago|
"""

from functools import partial
from typing import Final, final

from magnetar.broker.auth.access import CONSUME, PRODUCE
from magnetar.broker.broker import Broker
from magnetar.broker.peer import Peer, unsigned
from magnetar.broker.promise import Promise, kept
from magnetar.broker.session.session_schemas import read_schema
from magnetar.broker.session.session_texts import check_producer
from magnetar.broker.topic.producer import Producer
from magnetar.broker.topic.topic import Topic
from magnetar.broker.topic_loading import LoadFirst, TopicLoading
from magnetar.broker.turn.slices import Step
from magnetar.errors import BrokerError, MagnetarError
from magnetar.model import ServerError, TopicName
from magnetar.protocol import CommandSend, signed
from magnetar.protocol import pulsar_pb2 as pb

__all__ = ["SessionProducers"]

# So many producer ids are remembered after they were closed: SENDs may still be under way.
CLOSED_PRODUCERS_MAX: Final = 1000
ACCESS_MODES: Final = (0, 1, 2, 3)


@final
class SessionProducers:
    """See the module."""

    def __init__(self, broker: Broker, peer: Peer) -> None:
        self._broker: Final = broker
        self._peer: Final = peer
        self._producers: Final[dict[int, Producer]] = {}
        self._topics: Final[dict[int, Topic]] = {}
        self._closed: Final[dict[int, None]] = {}
        self._waiting: Final[dict[int, int]] = {}
        # Those that another connection is asked for first, and their requests.
        self._asking: Final[dict[int, int]] = {}

    def lost(self) -> list[Step]:
        """The connection is gone: its producers are too. The steps to be taken for that."""
        waiting: list[Step] = []
        publishing: list[Step] = []
        for id, producer in self._producers.items():
            # Those that wait first: they need not have the topic for a moment each.
            steps = publishing if producer.ready else waiting
            steps.append(partial(_lose, self._topics[id], producer))
        self._producers.clear()
        self._topics.clear()
        return waiting + publishing

    def on_producer(self, command: pb.CommandProducer) -> None:
        """Creates a producer; if the topic is long to load, when that is done."""
        loading = self._loading(command)
        if loading is None:
            self._create(command)
            return
        first = LoadFirst(loading)
        first.loaded.then(
            lambda done: self._create(command),
            lambda error: self._peer.refuse(command.request_id, error),
        )
        self._peer.begin(first)

    def _loading(self, command: pb.CommandProducer) -> TopicLoading | None:
        """What is to be loaded first; nothing for those who are refused in a moment."""
        try:
            name = TopicName.parse(command.topic)
            self._require(command, name)
        except MagnetarError:
            return None
        return self._broker.prepare(name)

    def _create(self, command: pb.CommandProducer) -> None:
        id = signed(command.producer_id)
        old = self._producers.get(id)
        try:
            name = TopicName.parse(command.topic)
            self._require(command, name)
            check_producer(self._broker, command)
            if old is not None and not old.closed and command.epoch <= old.epoch:
                self._send_producer_success(command.request_id, old, -1)
                return
            if command.producer_access_mode not in ACCESS_MODES:
                raise BrokerError(
                    ServerError.NotAllowedError, f"no access mode {command.producer_access_mode}"
                )
            topic = self._broker.topic(name, may_create=True)
            if topic.policies.encryption_required and not command.encrypted:
                raise BrokerError(
                    ServerError.MetadataError,
                    f"Encryption is required in {name}: give the producer a key to encrypt with",
                )
            holder = topic.producers.get(command.producer_name)
            if holder is not None and holder.peer is not self._peer and not holder.peer.closed:
                self._asking[id] = command.request_id
                asked = holder.peer.probe()
                asked.when_done(lambda error: self._have_asked(command, id, topic))
                return
        except MagnetarError as error:
            self._peer.refuse(command.request_id, error)
            return
        self._add_producer(command, id, topic)

    def _require(self, command: pb.CommandProducer, name: TopicName) -> None:
        """Raises BrokerError unless the client may be what it asks for."""
        access = self._broker.access
        access.require_topic(self._peer.principal, PRODUCE, name)
        if command.initial_subscription_name:
            access.require_topic(
                self._peer.principal, CONSUME, name, command.initial_subscription_name
            )

    def _have_asked(self, command: pb.CommandProducer, id: int, topic: Topic) -> None:
        """Whoever had the producer's name has answered, or is gone."""
        if self._still_asking(command, id):
            self._add_producer(command, id, topic)

    def _add_producer(self, command: pb.CommandProducer, id: int, topic: Topic) -> None:
        if self._peer.closed:
            return
        try:
            topic.require_open()
            self._require(command, topic.name)
            schema = read_schema(command.schema) if command.HasField("schema") else None
        except (MagnetarError, ValueError) as error:
            self._peer.refuse(command.request_id, error)
            return
        if schema is None and not self._broker.schema_policy(topic.name).validation_enforced:
            self._add_with_schema(command, id, topic, b"")
            return
        self._asking[id] = command.request_id

        def refused(error: Exception) -> None:
            if self._asking.get(id) == command.request_id:
                del self._asking[id]
            self._peer.refuse(command.request_id, error)

        self._broker.add_producer_schema(topic.name, schema).then(
            lambda version: self._have_schema(command, id, topic, version), refused
        )

    def _have_schema(
        self, command: pb.CommandProducer, id: int, topic: Topic, version: bytes
    ) -> None:
        """The producer's schema is one of the topic's."""
        if self._still_asking(command, id):
            self._add_with_schema(command, id, topic, version)

    def _still_asking(self, command: pb.CommandProducer, id: int) -> bool:
        """Whether nothing else became of the producer meanwhile; else its client is told."""
        if self._asking.get(id) != command.request_id:
            reason = f"producer {id} was closed or created anew meanwhile"
            self._peer.refuse(command.request_id, BrokerError(ServerError.ServiceNotReady, reason))
            return False
        del self._asking[id]
        return True

    def _add_with_schema(
        self, command: pb.CommandProducer, id: int, topic: Topic, version: bytes
    ) -> None:
        if self._peer.closed:
            return
        try:
            topic.require_open()
            self._require(command, topic.name)
            producer = Producer(
                self._peer,
                id,
                command.producer_name or self._broker.new_producer_name(),
                epoch=command.epoch,
                access_mode=command.producer_access_mode,
                metadata={item.key: item.value for item in command.metadata},
                schema_version=version,
                connected_ms=self._broker.host.now_ms(),
            )
            created = self._create_initial(command, topic)
            epoch = command.topic_epoch if command.HasField("topic_epoch") else None
            admitted = topic.admission.add(producer, epoch)
        except (MagnetarError, ValueError) as error:
            self._peer.refuse(command.request_id, error)
            return
        before = self._producers.get(id)
        if before is not None:
            # One of another name or topic: nobody else would let go of it.
            self._topics[id].admission.remove(before)
        self._closed.pop(id, None)
        self._producers[id] = producer
        self._topics[id] = topic
        if admitted.done:
            # Not before the topic, and a subscription that was asked for, are safe; nor while
            # what its old self sent is on its way: its sequence ids would be given again.
            request_id = command.request_id
            needs = created or not topic.storage.stored
            known = topic.deduplication
            waits = needs or (known is not None and not known.is_settled(producer.name))
            topic.wait_for(self._broker.store.ticket_last if waits else -1).when_done(
                lambda error: self._producer_admitted(
                    request_id, producer, topic, error if needs else None
                )
            )
        else:
            self._waiting[id] = command.request_id
            self._send_producer_success(command.request_id, producer, topic.admission.epoch)

    def _create_initial(self, command: pb.CommandProducer, topic: Topic) -> bool:
        """Whether a subscription had to be created for the producer."""
        name = command.initial_subscription_name
        if not name or name in topic.subscriptions or not topic.name.persistent:
            return False
        topic.create_subscription(name, topic.ledgers.last(), {})
        return True

    def _producer_admitted(
        self, request_id: int, producer: Producer, topic: Topic, error: Exception | None
    ) -> None:
        if producer.closed:
            if not self._peer.closed:
                reason = f"{topic.name} was closed meanwhile: try again"
                self._peer.refuse(request_id, BrokerError(ServerError.ServiceNotReady, reason))
            return
        if error is not None:
            self._drop_producer(int(producer.id))
            topic.admission.remove(producer)
            self._peer.refuse(request_id, error)
            return
        self._send_producer_success(request_id, producer, topic.admission.epoch)

    def _send_producer_success(self, request_id: int, producer: Producer, epoch: int) -> None:
        topic = self._topics.get(int(producer.id))
        last = -1
        if topic is not None and topic.deduplication is not None:
            last = topic.deduplication.highest(producer.name)
        command = pb.CommandProducerSuccess(
            request_id=request_id,
            producer_name=producer.name,
            last_sequence_id=last,
            schema_version=producer.schema_version,
            producer_ready=producer.ready,
        )
        if epoch >= 0:
            command.topic_epoch = epoch
        self._peer.send(command)

    def ready(self, producer_id: int, topic_epoch: int) -> None:
        request_id = self._waiting.pop(producer_id, None)
        producer = self._producers.get(producer_id)
        if request_id is not None and producer is not None:
            self._send_producer_success(request_id, producer, topic_epoch)

    def close(self, producer: Producer) -> None:
        id = int(producer.id)
        if self._producers.get(id) is not producer:
            return  # its client closes it already, and may have another one of this id
        self._drop_producer(id)
        self._peer.send(pb.CommandCloseProducer(producer_id=unsigned(id), request_id=unsigned(-1)))

    def _drop_producer(self, id: int) -> None:
        self._producers.pop(id, None)
        self._topics.pop(id, None)
        self._waiting.pop(id, None)
        self._closed[id] = None
        if len(self._closed) > CLOSED_PRODUCERS_MAX:
            del self._closed[next(iter(self._closed))]

    def on_close_producer(self, command: pb.CommandCloseProducer) -> None:
        id = signed(command.producer_id)
        producer = self._producers.get(id)
        self._asking.pop(id, None)
        if producer is None:
            self._peer.succeed(command.request_id)
            return
        topic = self._topics[id]
        self._drop_producer(id)
        request_id = command.request_id

        def settled(error: Exception | None) -> None:
            topic.admission.remove(producer)
            self._peer.succeed(request_id)

        last = self._broker.store.ticket_last if producer.pending > 0 else -1
        topic.wait_for(last).when_done(settled)

    def on_send(self, send: CommandSend) -> None:
        producer = self._producers.get(send.producer_id)
        if producer is not None:
            self._topics[send.producer_id].publish(producer, send)
        elif send.producer_id not in self._closed:
            self._peer.fail(f"SEND of producer {send.producer_id}, which there is not")


def _lose(topic: Topic, producer: Producer) -> Promise[None]:
    """A producer whose connection is gone leaves its topic."""
    topic.admission.remove(producer)
    return kept(None)
