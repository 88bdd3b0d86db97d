"""The coordinator of transactions: opens them, ends them, and knows all that are open.

| state      | send, ack         | commit     | abort      | becomes                             |
|------------|-------------------|------------|------------|-------------------------------------|
| OPEN       | taken             | begins     | begins     | COMMITTING; ABORTING, by request or |
|            |                   |            |            | when its time is over               |
| COMMITTING | InvalidTxnStatus  | waits      | refused    | COMMITTED; OPEN, if the disk refuses|
| ABORTING   | InvalidTxnStatus  | refused    | waits      | ABORTED; OPEN, if the disk refuses  |
| COMMITTED  | InvalidTxnStatus  | answered   | refused    | forgotten, after thousands of others|
| ABORTED    | InvalidTxnStatus  | refused    | answered   | forgotten, after thousands of others|
| unknown    | TransactionNotFound everywhere                                                   |

All that a transaction did is in the journal, and so is its end: one group with the deltas of all
its acks, or with what aborted of each ledger. So an end is all or nothing, and what is in memory
follows in the one event in which the group turns out durable: nobody sees a part of it (I11).

An end that was answered, or not heard of, may be asked for again: the answer is the same.
"""

from functools import partial
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from magnetar.ack import AckDelta, decode_delta
from magnetar.broker.auth.roles import Principal
from magnetar.broker.promise import Promise, broken, kept
from magnetar.broker.topic.transaction.pending_acks import TransactionAcks
from magnetar.broker.transaction.deadlines import Deadlines
from magnetar.broker.transaction.transaction import ABORTING, COMMITTING, OPEN, Transaction
from magnetar.broker.transaction.transaction_end import TransactionEnd
from magnetar.errors import BrokerError, StorageError
from magnetar.model import Position, ServerError
from magnetar.storage.transaction.transaction_state import (
    COMMITTED,
    EndedTransaction,
    OpenTransaction,
)

if TYPE_CHECKING:
    from magnetar.broker.broker import Broker

__all__ = ["COORDINATOR_ID", "COORDINATOR_TOPIC", "Transactions", "outcome_name"]

# What clients look up to find coordinators: its partitions, of which there is one.
COORDINATOR_TOPIC: Final = "persistent://pulsar/system/transaction_coordinator_assign"
COORDINATOR_ID: Final = 0
SWITCHED_OFF: Final = "this broker has no transactions: switch them off in the client"
# An end that the disk refused is tried again, when nobody else asks for it.
RETRY_MS: Final = 1000


@final
class Transactions:
    """See the module."""

    def __init__(self, broker: "Broker") -> None:
        self._broker: Final = broker
        self.enabled: Final = broker.settings.transactions
        self.open: Final[dict[int, Transaction]] = {}
        self._opening: int = 0
        self._deadlines: Final = Deadlines(broker.host, self._time_is_over)
        self.loaded_ms: Final = broker.host.now_ms()
        # Of all that are open: acks, and names of topics and subscriptions.
        self._acks: int = 0
        self._names: int = 0
        # Since the broker was started.
        self.opened: int = 0
        self.committed: int = 0
        self.aborted: int = 0
        self.timed_out: int = 0
        log = broker.store.transactions
        for found in log.state.open.values():
            self._load(found)

    def _load(self, found: OpenTransaction) -> None:
        """One that was open when the broker stopped. It gets its whole time again."""
        log = self._broker.store.transactions
        transaction = Transaction(
            int(found.number), log.owner(found), int(found.timeout_ms), int(found.opened_ms)
        )
        transaction.entries = sum([len(entries) for entries in found.sent.values()])
        for ledger_id in found.sent:
            name = self._topic_name(ledger_id)
            if name:
                transaction.topics.add(name)
        state = self._broker.store.log.state
        for cursor_id in found.acks:
            cursor = state.cursors.get(cursor_id)
            topic = None if cursor is None else state.topics.get(cursor.topic_id)
            if cursor is not None and topic is not None:
                transaction.subscriptions.add((topic.name, cursor.name))
        for cursor_id, body in log.deltas(found):
            delta = decode_delta(body)
            assert isinstance(delta, AckDelta)
            acks = transaction.acks.get(cursor_id)
            if acks is None or acks.epoch < delta.epoch:
                acks = transaction.acks[cursor_id] = TransactionAcks(
                    transaction.number, int(delta.epoch)
                )
            acks.load(delta)
            transaction.acked += count_acked(delta)
        self._acks += transaction.acked
        self._names += transaction.name_count
        self.open[transaction.number] = transaction

    def _topic_name(self, ledger_id: int) -> str:
        """The topic of a ledger; empty if it is gone."""
        state = self._broker.store.log.state
        ledger = state.ledgers.get(ledger_id)
        topic = None if ledger is None else state.topics.get(ledger.topic_id)
        return "" if topic is None else topic.name

    # ---- What there is -------------------------------------------------------

    @property
    def number_last(self) -> int:
        """The number of the latest transaction."""
        return int(self._broker.store.transactions.state.number_last)

    @property
    def over_before(self) -> int:
        """All transactions with lower numbers have ended."""
        return int(self._broker.store.transactions.state.over_before())

    def ended(self, number: int) -> EndedTransaction | None:
        """How a transaction ended; None if it did not, or if that is forgotten."""
        return self._broker.store.transactions.state.ended.get(number)

    def first_entries(self, number: int) -> dict[str, Position]:
        """Returns the first entry of an open transaction in each topic, loaded or not."""
        found = self._broker.store.transactions.state.open.get(number)
        firsts: dict[str, Position] = {}
        if found is not None:
            for ledger_id in sorted(found.sent):
                name = self._topic_name(ledger_id)
                if name:
                    firsts.setdefault(name, Position(ledger_id, found.sent[ledger_id][0]))
        return firsts

    # ---- Its life ------------------------------------------------------------

    def start(self) -> None:
        """Begins to count the time of those that are open; aborts all if they are switched off."""
        for transaction in self.open.values():
            delay_ms = transaction.timeout_ms if self.enabled else 0
            self._deadlines.set(transaction.number, delay_ms)

    def stop(self) -> None:
        """The broker stops: what is open stays open."""
        self._deadlines.stop()

    # ---- Opening -------------------------------------------------------------

    def require_coordinator(self, coordinator_id: int) -> None:
        """Raises BrokerError if there are no transactions, or no such coordinator."""
        if not self.enabled:
            raise BrokerError(ServerError.NotAllowedError, SWITCHED_OFF)
        if coordinator_id != COORDINATOR_ID:
            raise BrokerError(
                ServerError.TransactionCoordinatorNotFound,
                f"there is no coordinator {coordinator_id}: the only one is {COORDINATOR_ID}",
            )

    def begin(self, timeout_ms: int, principal: Principal | None) -> Promise[int]:
        """Opens a transaction; its number, once that is durable."""
        settings = self._broker.settings
        limit = settings.max_open_transactions
        if 0 < limit <= len(self.open) + self._opening:
            reason = f"{limit} transactions are open, the most that may be: end some first"
            return broken(BrokerError(ServerError.TooManyRequests, reason))
        longest = settings.transaction_timeout_max_ms
        if timeout_ms <= 0 or timeout_ms > longest:
            reason = f"a transaction takes 1 to {longest} ms, not {timeout_ms}"
            return broken(BrokerError(ServerError.NotAllowedError, reason))
        owner = "" if principal is None else principal.role
        try:
            number = self._broker.store.transactions.begin(timeout_ms, owner)
        except StorageError as error:
            return broken(BrokerError(ServerError.PersistenceError, str(error)))
        promise: Promise[int] = Promise()
        self._opening += 1

        def settled(error: Exception | None) -> None:
            self._opening -= 1
            if error is not None:
                promise.fail(BrokerError(ServerError.PersistenceError, str(error)))
                return
            opened_ms = int(self._broker.store.transactions.state.open[number].opened_ms)
            transaction = Transaction(number, owner, timeout_ms, opened_ms)
            self.open[number] = transaction
            self.opened += 1
            self._deadlines.set(number, timeout_ms)
            promise.keep(number)

        self._broker.commits.wait_for(self._broker.store.ticket_last).when_done(settled)
        self._broker.host.kick()
        return promise

    def _time_is_over(self, number: int) -> i64:
        transaction = self.open.get(number)
        if transaction is None or transaction.state != OPEN:
            return 1
        self.timed_out += 1
        self._end(transaction, commit=False)
        return transaction.end_cost

    # ---- Using ---------------------------------------------------------------

    def find(self, most: int, least: int, principal: Principal | None) -> Transaction:
        """An open transaction that somebody may use. Raises BrokerError."""
        self.require_coordinator(most)
        transaction = self.open.get(least)
        if transaction is None:
            ended = self.ended(least)
            if ended is None:
                raise BrokerError(
                    ServerError.TransactionNotFound, f"there is no transaction ({most},{least})"
                )
            raise BrokerError(
                ServerError.InvalidTxnStatus,
                f"transaction ({most},{least}) was {outcome_name(int(ended.outcome))} already",
            )
        access = self._broker.access
        role = "" if principal is None else principal.role
        if access.enabled and role != transaction.owner and not access.is_superuser(principal):
            raise BrokerError(
                ServerError.AuthorizationError,
                f"{transaction.title} was opened by another role than {role!r}",
            )
        return transaction

    def require_open(self, transaction: Transaction) -> None:
        """Raises BrokerError if its end has begun."""
        if transaction.state != OPEN:
            raise BrokerError(
                ServerError.InvalidTxnStatus, f"{transaction.title} is {transaction.state}"
            )

    def require_few(self, count: int) -> None:
        """Raises BrokerError for more names than any transaction may be about: unread, for there
        may be as many as a frame has room for."""
        limit = self._broker.settings.max_topics_per_transaction
        if 0 < limit < count:
            raise BrokerError(
                ServerError.NotAllowedError,
                f"the transaction would be about {count} topics and subscriptions, and {limit} are "
                "allowed",
            )

    def register(
        self, transaction: Transaction, topics: list[str], subscriptions: list[tuple[str, str]]
    ) -> None:
        """A client says what its transaction will be about. Raises BrokerError."""
        self.require_open(transaction)
        count = len(transaction.topics | set(topics))
        count += len(transaction.subscriptions | set(subscriptions))
        settings = self._broker.settings
        limit = settings.max_topics_per_transaction
        if 0 < limit < count:
            raise BrokerError(
                ServerError.NotAllowedError,
                f"{transaction.title} would be about {count} topics and subscriptions, and "
                f"{limit} are allowed",
            )
        total = self._names + count - transaction.name_count
        limit = settings.max_topics_of_transactions
        if 0 < limit < total:
            raise BrokerError(
                ServerError.TooManyRequests,
                f"open transactions would be about {total} topics and subscriptions, and {limit} "
                "are allowed: end some first",
            )
        self._names = total
        transaction.topics.update(topics)
        transaction.subscriptions.update(subscriptions)

    def for_send(
        self, most: int, least: int, topic: str, principal: Principal | None
    ) -> Transaction:
        """The transaction that an entry is published in. Raises BrokerError."""
        transaction = self.find(most, least, principal)
        if topic not in transaction.topics:
            self.register(transaction, [topic], [])
        self.require_open(transaction)
        limit = self._broker.settings.max_entries_per_transaction
        if 0 < limit <= transaction.entries:
            raise BrokerError(
                ServerError.NotAllowedError,
                f"{transaction.title} has {limit} entries, the most that it may have",
            )
        return transaction

    def sent(self, transaction: Transaction, position: Position) -> int:
        """The entry that was queued last is its own; the ticket of that."""
        transaction.entries += 1
        transaction.ticket = self._broker.store.transactions.sent(transaction.number, position)
        return transaction.ticket

    def for_ack(
        self,
        most: int,
        least: int,
        topic: str,
        subscription: str,
        count: int,
        principal: Principal | None,
    ) -> Transaction:
        """The transaction in which so many ids are acknowledged. Raises BrokerError."""
        transaction = self.find(most, least, principal)
        if (topic, subscription) not in transaction.subscriptions:
            self.register(transaction, [], [(topic, subscription)])
        self.require_open(transaction)
        settings = self._broker.settings
        limit = settings.max_acks_per_transaction
        if 0 < limit < transaction.acked + count:
            raise BrokerError(
                ServerError.NotAllowedError,
                f"{transaction.title} would have {transaction.acked + count} acks, and {limit} "
                "are allowed",
            )
        limit = settings.max_acks_of_transactions
        if 0 < limit < self._acks + count:
            raise BrokerError(
                ServerError.TooManyRequests,
                f"open transactions would have {self._acks + count} acks, and {limit} are "
                "allowed: end some first",
            )
        return transaction

    def have_acked(self, transaction: Transaction, count: int) -> None:
        """So many acks are its own now, or are not after all if it is below 0."""
        transaction.acked += count
        self._acks += count

    def acks_of(self, cursor_id: int) -> list[TransactionAcks]:
        """What open transactions have acked for a cursor that is loaded now."""
        numbers = self._broker.store.transactions.state.by_cursor.get(cursor_id)
        if not numbers:
            return []
        found = [self.open[number] for number in sorted(numbers) if number in self.open]
        return [one.acks[cursor_id] for one in found if cursor_id in one.acks]

    # ---- Ending --------------------------------------------------------------

    def end(
        self, most: int, least: int, principal: Principal | None, *, commit: bool
    ) -> Promise[None]:
        """Commits a transaction, or aborts it; kept when that is durable, and to be seen."""
        try:
            transaction = self.find(most, least, principal)
        except BrokerError as error:
            ended = self.ended(least) if error.code == ServerError.InvalidTxnStatus else None
            if ended is not None and (ended.outcome == COMMITTED) == commit:
                return kept(None)
            return broken(error)
        wanted = COMMITTING if commit else ABORTING
        if transaction.state == OPEN:
            self._end(transaction, commit=commit)
        promise: Promise[None] = Promise()
        if transaction.state == wanted:
            transaction.ended.then(promise.keep, promise.fail)
            return promise
        # Told only when the other end is there: who hears of an abort asks for what it gives back.
        refusal = BrokerError(
            ServerError.InvalidTxnStatus, f"{transaction.title} is {transaction.state}"
        )
        transaction.ended.then(lambda _: promise.fail(refusal), promise.fail)
        return promise

    def _end(self, transaction: Transaction, *, commit: bool) -> None:
        """Begins the end, once all that is on its way of it is settled."""
        transaction.state = COMMITTING if commit else ABORTING
        self._broker.commits.wait_for(transaction.ticket).when_done(
            lambda error: self._write(transaction, commit=commit)
        )

    def _write(self, transaction: Transaction, *, commit: bool) -> None:
        broker = self._broker
        end = TransactionEnd(broker, transaction, commit=commit)
        try:
            end.write().when_done(partial(self._ended, transaction, commit))
        except StorageError as error:
            self._ended(transaction, commit, error)
            return
        broker.host.kick()

    def _ended(self, transaction: Transaction, commit: bool, error: Exception | None) -> None:
        """The end is durable and applied, or the disk refused it."""
        waiting = transaction.ended
        if error is not None:
            transaction.state = OPEN
            transaction.ended = Promise()
            if transaction.number not in self._deadlines:
                self._deadlines.set(transaction.number, RETRY_MS)
            reason = f"{transaction.title} is open as before: {error}"
            waiting.fail(BrokerError(ServerError.PersistenceError, reason))
            return
        if self.open.pop(transaction.number, None) is not None:
            self._acks -= transaction.acked
            self._names -= transaction.name_count
        self._deadlines.cancel(transaction.number)
        if commit:
            self.committed += 1
        else:
            self.aborted += 1
        waiting.keep(None)


def count_acked(delta: AckDelta) -> int:
    """How many entries and parts of entries a delta names."""
    return sum([len(entries) + len(records) for _, entries, records in delta.ledgers])


def outcome_name(outcome: int) -> str:
    return "committed" if outcome == COMMITTED else "aborted"
