"""The work of a transactional worker on one message: a transaction, and what it is published with.

| step     | what happens                                                                       |
|----------|------------------------------------------------------------------------------------|
| begin    | a transaction begins                                                               |
| call     | the function is called, and may send in it                                         |
| wait     | all that it sent is with the broker, and only then                                 |
| ack      | the message is acknowledged in the transaction                                     |
| commit   | it is committed                                                                    |

| it fails in   | the transaction is          | the message                                      |
|---------------|-----------------------------|--------------------------------------------------|
| begin         |                             | is nacked, or goes to the retry topic            |
| call, wait,   | aborted                     | is nacked, or goes to the retry topic, in a      |
| ack           |                             | transaction of its own                           |
| commit        | aborted, by whom it may be  | comes again, as after any abort                  |
| commit, with  | asked for again             | comes again if it was not committed, as only the |
| no answer     |                             | broker knows then                                |

So what the function published is to be seen exactly when its message is acknowledged. What comes
again after a commit that nobody heard of was not committed, or the broker would have it acked.
"""

from typing import Any

from magnetar.client.door.transaction import BaseTransaction
from magnetar.client.engine.transaction import EngineTransaction
from magnetar.client.schema.schema import BytesSchema, Schema
from magnetar.errors import TransactionNotFound, UsageError

__all__ = [
    "BaseWork",
    "ProducerKey",
    "ends_by_itself",
    "is_unknown",
    "key_of",
    "outcome_may_come",
    "refuse_transaction",
]

# How often a commit is asked for whose answer does not come, each for as long as an operation may
# take.
COMMITS_MAX = 3

# The topic, and what its values become bytes by.
ProducerKey = tuple[Any, ...]


class BaseWork(BaseTransaction):
    """What both doors' work has in common."""

    _transaction: EngineTransaction


def is_unknown(transaction: EngineTransaction) -> bool:
    """Returns whether it may be committed, and it is not known."""
    return transaction.core.state_name == "unknown"


def outcome_may_come(error: BaseException, attempts: int) -> bool:
    """Returns whether a broker that is asked once more may say what became of a commit."""
    return attempts < COMMITS_MAX and not isinstance(error.__cause__, TransactionNotFound)


def key_of(topic: str, schema: Schema | None) -> ProducerKey:
    """Returns by which a producer is found again: schemas are made anew by those who send."""
    schema = schema or BytesSchema()
    return topic, type(schema), schema.schema_info()


def refuse_transaction(options: object) -> None:
    """Raises UsageError for a message that is to be in another transaction."""
    if isinstance(options, dict) and "transaction" in options:
        raise UsageError(
            "transaction: what work sends is part of its own; send others with a producer"
        )


def ends_by_itself() -> UsageError:
    """Returns the error of who ends the transaction of a worker himself."""
    return UsageError(
        "a worker ends its transactions itself: return, and it is committed; raise, and it is "
        "aborted"
    )
