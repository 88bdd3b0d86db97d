"""A transaction on the loop: what its core decides, carried out with its coordinator."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from magnetar.client.engine.coordinator import ABORT, COMMIT, MOVED, Coordinator, EndLost
from magnetar.client.transaction.core import TransactionCore
from magnetar.client.transaction.enlistment import ABORTED, ABORTING, COMMITTED
from magnetar.client.transaction.transaction_state import DONE, LOST, REFUSED
from magnetar.errors import (
    AlreadyClosed,
    ConnectError,
    InvalidTxnStatusError,
    MagnetarError,
    TransactionNotFound,
    TransactionOutcomeUnknownError,
)
from magnetar.model.txn_id import TxnId

if TYPE_CHECKING:
    from magnetar.client.engine.client import Engine

__all__ = ["EngineTransaction"]


class EngineTransaction:
    """See the module; made by `Engine.begin_transaction`."""

    def __init__(
        self, engine: "Engine", coordinator: Coordinator, id: TxnId, timeout_ms: int, begun_ms: int
    ) -> None:
        self.engine = engine
        self._coordinator = coordinator
        self.core: TransactionCore = TransactionCore(
            id, timeout_ms, begun_ms, now_ms=engine.now_ms, wants=self._wants
        )
        self._asking = False
        # The broker was asked to commit, and the answer was lost: it may be done.
        self._lost = False

    @property
    def id(self) -> TxnId:
        return self.core.id

    # ---- Topics and subscriptions --------------------------------------------

    def _wants(self) -> None:
        """With the lock, on any thread."""
        if not self._asking:
            self._asking = True
            self.engine.on_loop(self._begin_asking)

    def _begin_asking(self) -> None:
        self.engine.spawn(self._ask())

    async def _ask(self) -> None:
        """Has the coordinator know of all that is wanted; what comes meanwhile, with the next."""
        while True:
            with self.engine.lock:
                wanted = self.core.take_wanted()
                if not wanted:
                    self._asking = False
                    return
            problem: Exception | None = None
            try:
                await self._coordinator.enlist(self.id, wanted)
            except (TransactionNotFound, InvalidTxnStatusError) as error:
                problem = self.core.too_late() if self.core.late else error
            except MagnetarError as error:
                problem = error
            with self.engine.lock:
                for enlistment in wanted:
                    enlistment.answered(problem)

    # ---- The end -------------------------------------------------------------

    async def quiet(self) -> None:
        """Sends what waits, and returns when all of it is with the broker; raises what failed.

        It is open as before: for whoever wants to know of failures before he acknowledges.
        """
        with self.engine.lock:
            self.core.flush()
        await self._quiet()
        if self.core.failure is not None:
            raise self.core.failure

    async def commit(self) -> None:
        """Waits for all that is on its way, and commits. Who stops waiting does not stop it.

        Raises what failed, and has aborted then; TransactionTimeoutError, InvalidTxnStatusError
        and TransactionOutcomeUnknownError.
        """
        with self.engine.lock:
            self.core.begin_commit()
        await self._end(self._commit)

    async def abort(self) -> None:
        """Raises InvalidTxnStatusError, and what keeps the broker from being told."""
        with self.engine.lock:
            self.core.begin_abort()
        await self._end(self._abort)

    async def _end(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        ending = self.engine.spawn(work())
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            if ending.cancelled():
                raise AlreadyClosed(
                    f"the client was closed before the end of transaction {self.id} was known"
                ) from None
            raise

    async def _commit(self) -> None:
        await self._quiet()
        with self.engine.lock:
            goes_on = self.core.become_quiet()
        if goes_on:
            await self._decide()
            return
        failure = self.core.failure
        assert failure is not None, "a commit that does not go on has failed"
        try:
            await self._abort()
        except MagnetarError as problem:
            failure.add_note(f"transaction {self.id} could not be aborted at once: {problem}")
        else:
            failure.add_note(f"transaction {self.id} was aborted for this")
        raise failure

    async def _quiet(self) -> None:
        """Returns when nothing is on its way any more."""
        quiet: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self.engine.lock:
            self.core.when_quiet(lambda: self.engine.on_loop(_set, quiet))
        await quiet

    async def _decide(self) -> None:
        """Has the broker commit, and asks again while its answer does not come."""

        async def ask() -> None:
            try:
                await self._coordinator.end(self.id, COMMIT)
            except EndLost:
                self._lost = True
                raise

        try:
            await self.engine.retrying(ask, (*MOVED, EndLost))
        except TransactionNotFound as error:
            if not self._lost:
                self._decided(REFUSED)
                raise self.core.too_late() from error
            # Brokers forget what has ended: it may be our commit, or the end of its time.
            raise self._unknown(
                f"the broker knows no such transaction any more ({error})"
            ) from error
        except InvalidTxnStatusError as error:
            self._decided(REFUSED)
            if self.core.late:
                raise self.core.too_late() from error
            error.add_note(f"transaction {self.id} was aborted, by somebody else or for its time")
            raise
        except MOVED as error:
            if not self._lost:
                raise self._not_asked(error) from error
            raise self._unknown(str(error)) from error
        except (MagnetarError, EndLost) as error:
            raise self._unknown(str(error)) from error
        self._decided(DONE)

    def _decided(self, event: int) -> None:
        with self.engine.lock:
            self.core.move(event)
            self.core.tell_end(COMMITTED if event == DONE else ABORTED)

    def _not_asked(self, error: Exception) -> ConnectError:
        """The broker was not reached, so it will abort the transaction unless it is asked."""
        with self.engine.lock:
            self.core.move(LOST)
        return ConnectError(
            f"transaction {self.id} is not committed, since its coordinator was not reached: "
            f"{error}. Call commit again before {self.core.timeout_ms} ms are over, or let it be"
        )

    def _unknown(self, why: str) -> TransactionOutcomeUnknownError:
        with self.engine.lock:
            self.core.move(LOST)
        return TransactionOutcomeUnknownError(
            f"the broker was asked to commit transaction {self.id}, and it is not known whether it "
            f"did: {why}. All of it counts or nothing; call commit again to ask once more, or look "
            "whether its messages are there before you do it again"
        )

    async def _abort(self) -> None:
        try:
            async with asyncio.timeout(self.engine.timeout_s):
                await self._quiet()
        except TimeoutError:
            pass  # what is on its way belongs to a transaction that is over when it comes
        with self.engine.lock:
            self.core.tell_end(ABORTING)
        try:
            await self.engine.retrying(
                lambda: self._coordinator.end(self.id, ABORT), (*MOVED, EndLost)
            )
        except (TransactionNotFound, InvalidTxnStatusError):
            pass  # its time was over, and it is aborted
        except (MagnetarError, EndLost) as error:
            with self.engine.lock:
                self.core.move(LOST)
                self.core.tell_end(ABORTED)
            if isinstance(error, EndLost):
                raise self._left(error) from error
            raise
        self._decided_abort()

    def _decided_abort(self) -> None:
        with self.engine.lock:
            self.core.move(DONE)
            self.core.tell_end(ABORTED)

    def _left(self, error: EndLost) -> MagnetarError:
        return ConnectError(
            f"the broker was not reached to abort transaction {self.id} ({error}): it does so by "
            f"itself when {self.core.timeout_ms} ms are over"
        )


def _set(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
