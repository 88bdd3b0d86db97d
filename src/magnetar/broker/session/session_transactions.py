"""Transactions, which there are not: a client that asks for one is told so.

The requests differ only in the class of their answer.
"""

from collections.abc import Callable
from typing import Final

from google.protobuf.message import Message

from magnetar.model import ServerError
from magnetar.protocol import pulsar_pb2 as pb

__all__ = ["TRANSACTION_COMMANDS", "refuse_transaction"]

REASON: Final = "this broker has no transactions: switch them off in the client"

TRANSACTION_COMMANDS: Final[dict[str, Callable[..., Message]]] = {
    "CommandTcClientConnectRequest": pb.CommandTcClientConnectResponse,
    "CommandNewTxn": pb.CommandNewTxnResponse,
    "CommandAddPartitionToTxn": pb.CommandAddPartitionToTxnResponse,
    "CommandAddSubscriptionToTxn": pb.CommandAddSubscriptionToTxnResponse,
    "CommandEndTxn": pb.CommandEndTxnResponse,
    "CommandEndTxnOnPartition": pb.CommandEndTxnOnPartitionResponse,
    "CommandEndTxnOnSubscription": pb.CommandEndTxnOnSubscriptionResponse,
}


def refuse_transaction(name: str, request_id: int) -> Message:
    """The answer to a command that the table names."""
    answer = TRANSACTION_COMMANDS[name]
    return answer(request_id=request_id, error=ServerError.NotAllowedError, message=REASON)
