"""The coordinators of transactions: where they are, and what they are asked.

There are as many as `ASSIGN_TOPIC` has partitions, and each is with the broker that serves its
partition. A coordinator is connected to when it is first asked, and again when its connection is
gone or its broker says that it is elsewhere. Apache Pulsar has them where
`transactionCoordinatorEnabled` is set.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from google.protobuf.message import Message as Pb

from magnetar.client.engine.producer import partition_names
from magnetar.client.network.connection import ClientConnection
from magnetar.client.transaction.enlistment import Enlistment
from magnetar.errors import (
    RETRY_CONNECT,
    ConnectError,
    MagnetarError,
    NotAllowedError,
    OperationNotSupported,
    Timeout,
    TopicNotFound,
    TransactionCoordinatorNotFoundError,
    TransactionNotFound,
    TransactionsDisabledError,
)
from magnetar.model.txn_id import TxnId
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.protocol import signed

if TYPE_CHECKING:
    from magnetar.client.engine.client import Engine

__all__ = ["Coordinator", "Coordinators", "EndLost"]

ASSIGN_TOPIC = "persistent://pulsar/system/transaction_coordinator_assign"
# What brokers have to speak to be told who asks; older ones need not be told.
CONNECT_VERSION = 19

# The coordinator may be elsewhere, or not be ready yet: it is looked up again.
MOVED: tuple[type[Exception], ...] = (*RETRY_CONNECT, TransactionCoordinatorNotFoundError)

# As Pulsar numbers them.
COMMIT = 0
ABORT = 1

T = TypeVar("T", bound=Pb)


class EndLost(Exception):
    """END_TXN was sent, and it is not known whether it was done."""


class Coordinators:
    """Those of one client, found when a transaction is first begun."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self._found: list[Coordinator] = []
        self._turn = int(engine.random() * (1 << 20))
        self._finding = asyncio.Lock()

    async def next(self) -> "Coordinator":
        """Returns each in turn. Raises TransactionsDisabledError, and what a lookup raises."""
        found = await self._all()
        self._turn += 1
        return found[self._turn % len(found)]

    async def of(self, id: TxnId) -> "Coordinator":
        """That of a transaction. Raises TransactionNotFound, and what `next` raises."""
        found = await self._all()
        if not 0 <= id.most < len(found):
            raise TransactionNotFound(
                f"transaction {id} is of coordinator {id.most}, and there are {len(found)}"
            )
        return found[int(id.most)]

    async def _all(self) -> "list[Coordinator]":
        async with self._finding:
            if not self._found:
                self._found = await self._find()
        return self._found

    async def _find(self) -> "list[Coordinator]":
        try:
            count = await self._engine.partitions(ASSIGN_TOPIC)
        except (TopicNotFound, NotAllowedError) as error:
            raise _disabled(error) from error
        names = partition_names(ASSIGN_TOPIC, count)
        return [Coordinator(self._engine, number, name) for number, name in enumerate(names)]

    def forget(self) -> None:
        """The client goes over to another cluster."""
        self._found = []


class Coordinator:
    """One of them."""

    def __init__(self, engine: "Engine", number: int, topic: str) -> None:
        self._engine = engine
        self._number = number
        self._topic = topic
        self._connection: ClientConnection | None = None
        self._connecting = asyncio.Lock()

    async def begin(self, timeout_ms: int) -> TxnId:
        """Begins a transaction. If its answer is lost another one is begun; that one times out."""
        answer = await self._ask(
            lambda request_id: pb.CommandNewTxn(
                request_id=request_id, txn_ttl_millis=timeout_ms, tc_id=self._number
            ),
            pb.CommandNewTxnResponse,
        )
        return TxnId(signed(answer.txnid_most_bits), signed(answer.txnid_least_bits))

    async def enlist(self, id: TxnId, wanted: list[Enlistment]) -> None:
        """Tells of topics that are published to, and of subscriptions; twice is no harm."""
        topics = [one.topic for one in wanted if not one.subscription]
        if topics:
            await self._ask(
                lambda request_id: pb.CommandAddPartitionToTxn(
                    request_id=request_id,
                    partitions=topics,
                    txnid_most_bits=unsigned(id.most),
                    txnid_least_bits=unsigned(id.least),
                ),
                pb.CommandAddPartitionToTxnResponse,
            )
        subscriptions = [
            pb.Subscription(topic=one.topic, subscription=one.subscription)
            for one in wanted
            if one.subscription
        ]
        if subscriptions:
            await self._ask(
                lambda request_id: pb.CommandAddSubscriptionToTxn(
                    request_id=request_id,
                    subscription=subscriptions,
                    txnid_most_bits=unsigned(id.most),
                    txnid_least_bits=unsigned(id.least),
                ),
                pb.CommandAddSubscriptionToTxnResponse,
            )

    async def end(self, id: TxnId, action: int) -> None:
        """Commits or aborts, once. Raises EndLost if it is not known whether that was done."""
        connection = await self._connect()
        command = pb.CommandEndTxn(
            request_id=self._engine.next_request_id(),
            txnid_most_bits=unsigned(id.most),
            txnid_least_bits=unsigned(id.least),
            txn_action=action,
        )
        try:
            await connection.request(command, pb.CommandEndTxnResponse)
        except (ConnectError, Timeout) as error:
            raise EndLost(str(error)) from error
        except TransactionCoordinatorNotFoundError:
            self._forget(connection)
            raise

    async def _ask(self, make: Callable[[int], Pb], answer: type[T]) -> T:
        """Asks until there is an answer, for as long as an operation may take."""
        return await self._engine.retrying(lambda: self._ask_once(make, answer), MOVED)

    async def _ask_once(self, make: Callable[[int], Pb], answer: type[T]) -> T:
        connection = await self._connect()
        try:
            return await connection.request(make(self._engine.next_request_id()), answer)
        except MOVED:
            self._forget(connection)
            raise
        except NotAllowedError as error:
            raise _disabled(error) from error

    def _forget(self, connection: ClientConnection) -> None:
        if self._connection is connection:
            self._connection = None

    async def _connect(self) -> ClientConnection:
        async with self._connecting:
            if self._connection is not None and not self._connection.closed:
                return self._connection
            connection = await self._engine.lookup.broker_of(self._topic)
            if connection.protocol_version >= CONNECT_VERSION:
                await self._introduce(connection)
            self._connection = connection
            return connection

    async def _introduce(self, connection: ClientConnection) -> None:
        request = pb.CommandTcClientConnectRequest(
            request_id=self._engine.next_request_id(), tc_id=self._number
        )
        try:
            await connection.request(request, pb.CommandTcClientConnectResponse)
        except (NotAllowedError, OperationNotSupported) as error:
            raise _disabled(error) from error


def unsigned(bits: int) -> int:
    return bits & (1 << 64) - 1


def _disabled(error: MagnetarError) -> TransactionsDisabledError:
    return TransactionsDisabledError(
        f"the broker has no transactions, or they are switched off there ({error}): Apache Pulsar "
        "has them with transactionCoordinatorEnabled=true"
    )
