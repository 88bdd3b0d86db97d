"""Transactions at the doors: what users hold, and what the calls that take one make of it."""

from collections.abc import Generator
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from magnetar.client.engine.client import Engine
from magnetar.client.engine.transaction import EngineTransaction
from magnetar.client.transaction.core import TransactionCore
from magnetar.errors import MagnetarError, SettingsError, UsageError
from magnetar.wire.integer import INT64_MAX

__all__ = ["TIMEOUT_S", "BaseTransaction", "Begin", "Transaction", "core_of", "timeout_ms_of"]

# As in Pulsar's own clients.
TIMEOUT_S = 60.0


class BaseTransaction:
    """What both doors' transactions have in common."""

    def __init__(self, transaction: EngineTransaction) -> None:
        self._transaction = transaction

    @property
    def id(self) -> str:
        """The id, as Pulsar's tools and the broker's log write it."""
        return str(self._transaction.id)

    @property
    def state(self) -> str:
        """Where it is: open, committing, deciding, aborting, committed, aborted, unknown, left."""
        return self._transaction.core.state_name

    def __repr__(self) -> str:
        return f"<magnetar transaction {self.id}: {self.state}>"


class Transaction(BaseTransaction):
    """Messages and acknowledgements that count all together, or not at all.

    As a block it is committed at the end, and aborted when the block raises:

        async with client.transaction() as txn:
            await producer.send(b"bill", transaction=txn)
            await consumer.acknowledge(order, transaction=txn)
    """

    async def commit(self) -> None:
        """Makes all of it count; waits for everything that was sent in it, awaited or not.

        If something in it failed it is aborted, and that is raised. Raises
        TransactionTimeoutError if it was not committed in its time, InvalidTxnStatusError if it
        has ended before, and TransactionOutcomeUnknownError if the connection broke while the
        broker was asked and it does not say now; call `commit` again then to ask once more.
        """
        await self._transaction.commit()

    async def abort(self) -> None:
        """Makes nothing of it count: its messages are dropped, what it acknowledged comes again."""
        await self._transaction.abort()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        core = self._transaction.core
        if error is None:
            if core.open:
                await self.commit()
        elif core.open:
            try:
                await self.abort()
            except MagnetarError as problem:
                error.add_note(f"transaction {self.id} could not be aborted: {problem}")


class Begin:
    """A transaction that is about to begin: `async with` it, or `await` it."""

    def __init__(self, engine: Engine, timeout_ms: int) -> None:
        self._engine = engine
        self._timeout_ms = timeout_ms
        self._begun: Transaction | None = None

    async def _begin(self) -> Transaction:
        return Transaction(await self._engine.begin_transaction(self._timeout_ms))

    def __await__(self) -> Generator[Any, None, Transaction]:
        return self._begin().__await__()

    async def __aenter__(self) -> Transaction:
        if self._begun is not None:
            raise UsageError("a transaction is entered once: begin another one")
        self._begun = await self._begin()
        return self._begun

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._begun is not None, "left before it was entered"
        await self._begun.__aexit__(kind, error, traceback)


def core_of(transaction: object, engine: Engine) -> TransactionCore | None:
    """Returns what the engine takes. Raises UsageError for another client's transaction."""
    if transaction is None:
        return None
    if not isinstance(transaction, BaseTransaction):
        raise UsageError(
            f"transaction: expected what client.transaction() gives, not {transaction!r:.40}"
        )
    if transaction._transaction.engine is not engine:
        raise UsageError(
            f"transaction {transaction.id} is another client's: one client has to begin it, and to "
            "make the producers and consumers that take part"
        )
    return transaction._transaction.core


def timeout_ms_of(timeout: float | timedelta | None) -> int:
    """Raises SettingsError."""
    if timeout is None:
        timeout = TIMEOUT_S
    if isinstance(timeout, timedelta):
        timeout = timeout.total_seconds()
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise SettingsError("timeout", f"expected seconds or a timedelta, not {timeout!r:.40}")
    if not 0 < timeout * 1000 <= INT64_MAX or round(timeout * 1000) == 0:
        raise SettingsError("timeout", f"{timeout} s is no time that a transaction could take")
    return round(timeout * 1000)
