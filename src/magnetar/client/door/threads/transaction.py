"""The blocking door's transactions."""

from types import TracebackType
from typing import TYPE_CHECKING, Self

from magnetar.client.door.transaction import BaseTransaction
from magnetar.client.engine.transaction import EngineTransaction
from magnetar.errors import MagnetarError

if TYPE_CHECKING:
    from magnetar.client.door.blocking import Client

__all__ = ["Transaction"]


class Transaction(BaseTransaction):
    """Messages and acknowledgements that count all together, or not at all. Any thread may call it.

    As a block it is committed at the end, and aborted when the block raises:

        with client.transaction() as txn:
            producer.send(b"bill", transaction=txn)
            consumer.acknowledge(order, transaction=txn)
    """

    def __init__(self, client: "Client", transaction: EngineTransaction) -> None:
        super().__init__(transaction)
        self._client = client

    def commit(self) -> None:
        """Makes all of it count; waits for everything that was sent in it, by `send_async` too.

        If something in it failed it is aborted, and that is raised. Raises
        TransactionTimeoutError if it was not committed in its time, InvalidTxnStatusError if it
        has ended before, and TransactionOutcomeUnknownError if the connection broke while the
        broker was asked and it does not say now; call `commit` again then to ask once more.
        """
        self._client._call(self._transaction.commit())

    def abort(self) -> None:
        """Makes nothing of it count: its messages are dropped, what it acknowledged comes again."""
        self._client._call(self._transaction.abort())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        core = self._transaction.core
        if error is None:
            if core.open:
                self.commit()
        elif core.open:
            try:
                self.abort()
            except MagnetarError as problem:
                error.add_note(f"transaction {self.id} could not be aborted: {problem}")
