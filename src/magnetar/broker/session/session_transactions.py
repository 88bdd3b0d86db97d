"""The commands of transactions: requests to the coordinator, and their answers.

| command                                       | who says it      | here                        |
|-----------------------------------------------|------------------|-----------------------------|
| TC_CLIENT_CONNECT_REQUEST                     | clients, first   | there is one coordinator, 0 |
| NEW_TXN, ADD_PARTITION_TO_TXN, END_TXN,       | clients          | `transactions.py` does it   |
| ADD_SUBSCRIPTION_TO_TXN                       |                  |                             |
| END_TXN_ON_PARTITION, END_TXN_ON_SUBSCRIPTION | Pulsar's brokers | refused: one broker has all |
|                                               | to each other    | topics, and one record ends |

The answers differ only in their classes.
"""

from collections.abc import Callable
from typing import Final, final

from google.protobuf.message import Message

from magnetar.broker.auth.access import CONSUME, PRODUCE
from magnetar.broker.broker import Broker
from magnetar.broker.peer import Peer
from magnetar.broker.transaction.transactions import COORDINATOR_ID, COORDINATOR_TOPIC
from magnetar.broker.wire_error import wire_error
from magnetar.errors import BrokerError, MagnetarError
from magnetar.model import ServerError, TopicName
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.protocol import signed

__all__ = ["SessionTransactions", "is_coordinator_topic"]

COMMIT: Final = 0
BROKERS_ONLY: Final = (
    "brokers say this to each other: end the transaction at its coordinator, with END_TXN"
)


def is_coordinator_topic(name: TopicName) -> bool:
    """Whether this is what clients look up to find the coordinator."""
    return str(name.partitioned) == COORDINATOR_TOPIC and name.partition <= 0


@final
class SessionTransactions:
    """See the module."""

    def __init__(self, broker: Broker, peer: Peer) -> None:
        self._broker: Final = broker
        self._peer: Final = peer

    def handlers(self) -> dict[str, Callable[..., None]]:
        """What to call for each command."""
        return {
            "CommandTcClientConnectRequest": self.on_connect,
            "CommandNewTxn": self.on_new,
            "CommandAddPartitionToTxn": self.on_add_partition,
            "CommandAddSubscriptionToTxn": self.on_add_subscription,
            "CommandEndTxn": self.on_end,
            "CommandEndTxnOnPartition": self.on_end_on_partition,
            "CommandEndTxnOnSubscription": self.on_end_on_subscription,
        }

    def _send(self, answer: Message, error: Exception | None) -> None:
        """Sends an answer, with the error if there is one."""
        if error is not None:
            code, reason = wire_error(error)
            answer.error = code  # type: ignore[attr-defined]
            answer.message = reason  # type: ignore[attr-defined]
        if not self._peer.closed:
            self._peer.send(answer)

    def on_connect(self, command: pb.CommandTcClientConnectRequest) -> None:
        fault: Exception | None = None
        try:
            self._broker.transactions.require_coordinator(signed(command.tc_id))
        except BrokerError as error:
            fault = error
        self._send(pb.CommandTcClientConnectResponse(request_id=command.request_id), fault)

    def on_new(self, command: pb.CommandNewTxn) -> None:
        answer = pb.CommandNewTxnResponse(request_id=command.request_id)
        try:
            self._broker.transactions.require_coordinator(signed(command.tc_id))
        except BrokerError as error:
            self._send(answer, error)
            return

        def opened(number: int) -> None:
            answer.txnid_least_bits = number
            answer.txnid_most_bits = 0
            self._send(answer, None)

        opening = self._broker.transactions.begin(
            signed(command.txn_ttl_millis), self._peer.principal
        )
        opening.then(opened, lambda error: self._send(answer, error))

    def on_add_partition(self, command: pb.CommandAddPartitionToTxn) -> None:
        answer = pb.CommandAddPartitionToTxnResponse(
            request_id=command.request_id,
            txnid_least_bits=command.txnid_least_bits,
            txnid_most_bits=command.txnid_most_bits,
        )
        fault: Exception | None = None
        try:
            self._broker.transactions.require_few(len(command.partitions))
            names = [TopicName.parse(text) for text in command.partitions]
            for name in names:
                self._broker.access.require_topic(self._peer.principal, PRODUCE, name)
            self._register(command, [str(name) for name in names], [])
        except MagnetarError as error:
            fault = error
        self._send(answer, fault)

    def on_add_subscription(self, command: pb.CommandAddSubscriptionToTxn) -> None:
        answer = pb.CommandAddSubscriptionToTxnResponse(
            request_id=command.request_id,
            txnid_least_bits=command.txnid_least_bits,
            txnid_most_bits=command.txnid_most_bits,
        )
        fault: Exception | None = None
        try:
            self._broker.transactions.require_few(len(command.subscription))
            named: list[tuple[str, str]] = []
            for item in command.subscription:
                name = TopicName.parse(item.topic)
                self._broker.access.require_topic(
                    self._peer.principal, CONSUME, name, item.subscription
                )
                self._broker.require_short("subscription", item.subscription)
                named.append((str(name), item.subscription))
            self._register(command, [], named)
        except MagnetarError as error:
            fault = error
        self._send(answer, fault)

    def _register(
        self,
        command: pb.CommandAddPartitionToTxn | pb.CommandAddSubscriptionToTxn,
        topics: list[str],
        subscriptions: list[tuple[str, str]],
    ) -> None:
        transactions = self._broker.transactions
        transaction = transactions.find(
            signed(command.txnid_most_bits),
            signed(command.txnid_least_bits),
            self._peer.principal,
        )
        transactions.register(transaction, topics, subscriptions)

    def on_end(self, command: pb.CommandEndTxn) -> None:
        answer = pb.CommandEndTxnResponse(
            request_id=command.request_id,
            txnid_least_bits=command.txnid_least_bits,
            txnid_most_bits=command.txnid_most_bits,
        )
        ended = self._broker.transactions.end(
            signed(command.txnid_most_bits),
            signed(command.txnid_least_bits),
            self._peer.principal,
            commit=command.txn_action == COMMIT,
        )
        ended.when_done(lambda error: self._send(answer, error))

    def on_end_on_partition(self, command: pb.CommandEndTxnOnPartition) -> None:
        self._refuse(pb.CommandEndTxnOnPartitionResponse(request_id=command.request_id))

    def on_end_on_subscription(self, command: pb.CommandEndTxnOnSubscription) -> None:
        self._refuse(pb.CommandEndTxnOnSubscriptionResponse(request_id=command.request_id))

    def _refuse(self, answer: Message) -> None:
        """Nobody but a broker says this, and there is no other broker."""
        fault = BrokerError(ServerError.NotAllowedError, BROKERS_ONLY)
        try:
            self._broker.transactions.require_coordinator(COORDINATOR_ID)
        except BrokerError as error:
            fault = error
        self._send(answer, fault)
