"""Non-persistent topics: a message goes to whoever can take it now, and is gone.

Nothing is stored, so there is nothing to ack, to seek or to keep. A subscription lives as
long as it has consumers; a message that none of them has room for is dropped, and counted.
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from magnetar.ack import Cursor, Ledgers
from magnetar.broker.policy.effective_policies import EffectivePolicies
from magnetar.broker.promise import Promise, broken, kept
from magnetar.broker.topic.ack.ack_answer import answer_ack, refuse_ack
from magnetar.broker.topic.ack.cursor_reset import FindSpanning
from magnetar.broker.topic.consumer import Consumer
from magnetar.broker.topic.counters import Traffic
from magnetar.broker.topic.producer import Producer
from magnetar.broker.topic.publish.entry_check import not_a_batch
from magnetar.broker.topic.subscribe_request import SubscribeRequest
from magnetar.broker.topic.subscription import NO_CURSOR, Subscription
from magnetar.broker.topic.topic import BEGINNING, Topic
from magnetar.errors import BrokerError
from magnetar.model import Position, ServerError, TopicName
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import CommandAck, CommandSend, EntryFacts, entry_facts, split_entry
from magnetar.storage.ledger.read_plan import StoredEntry

if TYPE_CHECKING:
    from magnetar.broker.broker import Broker

__all__ = ["NonPersistentTopic"]

NO_TOPIC: Final = -1


@final
class NonPersistentSubscription(Subscription):
    """Consumers of a non-persistent topic that share a name."""

    def __init__(self, topic: Topic, name: str) -> None:
        super().__init__(topic, name, Cursor(topic.ledgers, BEGINNING), NO_CURSOR, {})
        self.dropped: Final = Traffic()

    def rates(self) -> list[Traffic]:
        return [*super().rates(), self.dropped]

    def ack(self, consumer: Consumer, ack: CommandAck) -> None:
        if ack.txnid_least_bits != 0 or ack.txnid_most_bits != 0:
            code, reason = ServerError.NotAllowedError, self._nothing_stored().reason
            refuse_ack(consumer, ack.request_id, code, reason)
            return
        answer_ack(consumer, ack.request_id)

    def ack_when(
        self, consumer: Consumer, ack: CommandAck, found: Promise[list[MessageIdData]]
    ) -> None:
        answer_ack(consumer, ack.request_id)

    def redeliver(self, consumer: Consumer, keys: list[int] | None, epoch: int | None) -> None:
        """What was delivered is gone; what comes is of the new epoch."""
        if epoch is not None:
            consumer.epoch = epoch

    def skip(self, entry_count: int) -> Promise[None]:
        return broken(self._nothing_stored())

    def clear(self) -> Promise[None]:
        return kept(None)

    def reset(
        self,
        position: Position,
        *,
        batch_index: i64 = -1,
        ack_set: int | None = None,
        batch_size: i64 = 0,
        find_spanning: FindSpanning | None = None,
    ) -> Promise[None]:
        return broken(self._nothing_stored())

    def _nothing_stored(self) -> BrokerError:
        return BrokerError(
            ServerError.NotAllowedError, f"{self.topic.name} is not persistent: it stores nothing"
        )

    def hand_out(self, entry: StoredEntry, facts: EntryFacts, now_ms: int) -> None:
        consumer = None if self.dispatcher is None else self.dispatcher.taker(facts)
        if consumer is None:
            self.dropped.add(entry.batch_size, 0)
            return
        consumer.deliver(
            entry, self.topic.partition, remaining=None, redelivery_count=0, now_ms=now_ms
        )


@final
class NonPersistentTopic(Topic):
    """See the module."""

    def __init__(self, broker: "Broker", name: TopicName, policies: EffectivePolicies) -> None:
        super().__init__(broker, name, NO_TOPIC, Ledgers(), policies)

    def publish(self, producer: Producer, send: CommandSend) -> None:
        if not producer.ready:
            self.turn_away(producer, send)
            return
        entry = split_entry(send.entry)
        if not entry.intact():
            producer.refuse(
                send.sequence_id,
                ServerError.ChecksumError,
                "the entry arrived damaged: its checksum does not match, send it again",
            )
            return
        facts = entry_facts(entry)
        now_ms = self.host.now_ms()
        if facts.batched and (reason := not_a_batch(self, entry, facts)):
            producer.refuse(send.sequence_id, ServerError.NotAllowedError, reason)
            return
        if self.rates.publishing is not None:
            self.rates.publish(producer, facts.batch_size, len(send.entry))
        if send.txnid_least_bits != 0 or send.txnid_most_bits != 0:
            reason = f"{self.name} is not persistent: publish to it without a transaction"
            producer.refuse(send.sequence_id, ServerError.NotAllowedError, reason)
            return
        data = entry.without_broker_metadata()
        stored = StoredEntry(
            0,
            0,
            address=0,
            length=len(data),
            batch_size=facts.batch_size,
            publish_time_ms=facts.publish_time_ms,
            data=data,
        )
        producer.peer.charge(len(self.subscriptions))
        for subscription in list(self.subscriptions.values()):
            if isinstance(subscription, NonPersistentSubscription):
                subscription.hand_out(stored, facts, now_ms)
        self.incoming.add(facts.batch_size, len(data))
        producer.traffic.add(facts.batch_size, len(data))
        self.last_publish_ms = now_ms
        producer.receipt(
            send.sequence_id, send.highest_sequence_id, MessageIdData(0, 0, self.partition)
        )

    def _create_for(self, request: SubscribeRequest) -> Subscription:
        subscription = NonPersistentSubscription(self, request.subscription)
        self.subscriptions[request.subscription] = subscription
        return subscription
