"""A store under work with transactions in it, and a plain model of what each must come to.

A transaction's fate is what was receipted of it: begun, and committed or aborted. Where the power
went before a receipt, either may be true, but all of it or nothing.
"""

from random import Random

from storage.workload import Workload

from magnetar.storage import Disk, Outcome, StorageFullError
from magnetar.storage.transaction.transaction_state import ABORTED, COMMITTED

OPEN = 0


class Work:
    """What one transaction did, as far as it was queued, and as far as it was receipted."""

    def __init__(self) -> None:
        self.begun = False
        self.entries: set[tuple[int, int]] = set()
        self.entries_receipted: set[tuple[int, int]] = set()
        self.acks: dict[int, list[int]] = {}
        self.acks_receipted: set[int] = set()
        self.ending = OPEN
        self.ended = OPEN


class TransactionWorkload(Workload):
    """The workload of a store, with transactions beside it."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self.work: dict[int, Work] = {}
        self._tickets: dict[int, tuple[int, str, object]] = {}

    def open(self, disk: Disk) -> None:
        self._tickets.clear()
        super().open(disk)

    def take(self, outcome: Outcome) -> None:
        super().take(outcome)
        for ticket in range(outcome.first, outcome.end):
            number, what, value = self._tickets.pop(ticket, (0, "", None))
            if number == 0:
                continue
            work = self.work[number]
            if outcome.error is not None:
                if what == "end":
                    work.ending = OPEN
            elif what == "begin":
                work.begun = True
            elif what == "sent":
                work.entries_receipted.add(value)  # type: ignore[arg-type]
            elif what == "ack":
                work.acks_receipted.add(value)  # type: ignore[arg-type]
            else:
                work.ended = work.ending

    def begin(self) -> None:
        number = self.store.transactions.begin(60_000, "me")
        assert number not in self.work, "a number was given twice"
        self.work[number] = Work()
        self._tickets[self.store.ticket_last] = (number, "begin", None)

    def send(self, number: int, topic: str, size: int) -> None:
        self.serial += 1
        data = f"{topic} {self.serial} ".encode().ljust(size, b".")
        try:
            position = self.store.append(
                self.topics[topic], data, batch_size=1, publish_time_ms=self.clock.now_ms
            )
        except StorageFullError:
            return
        key = (position.ledger_id, position.entry_id)
        self.entries[key] = data
        self.topic_of[key] = topic
        self.work[number].entries.add(key)
        self._tickets[self.store.transactions.sent(number, position)] = (number, "sent", key)

    def ack_in(self, number: int, topic: str) -> None:
        self.serial += 1
        cursor = self.cursors[topic]
        self.work[number].acks.setdefault(cursor, []).append(self.serial)
        ticket = self.store.transactions.ack(number, cursor, str(self.serial).encode())
        self._tickets[ticket] = (number, "ack", self.serial)

    def end(self, number: int, outcome: int) -> None:
        """Everything of it is durable first, as the broker sees to."""
        self.flush()
        work = self.work[number]
        if number not in self.store.transactions.state.open:
            return
        work.ending = outcome
        if outcome == COMMITTED:
            deltas = [
                (cursor, 0, str(serial).encode())
                for cursor, serials in work.acks.items()
                for serial in serials
                if serial in work.acks_receipted
            ]
            for topic, cursor in self.cursors.items():
                queued = self.acks_queued.setdefault(topic, set())
                queued |= set(work.acks.get(cursor, ()))
            ticket = self.store.transactions.commit(number, deltas)
        else:
            ticket = self.store.transactions.abort(number)
        self._tickets[ticket] = (number, "end", None)

    def step(self, random: Random) -> None:
        if random.random() < 0.6:
            super().step(random)
            return
        numbers = [n for n in self.store.transactions.state.open if self.work[n].ending == OPEN]
        choice = random.randrange(8)
        if choice < 2 and len(numbers) < 4:
            self.begin()
        elif numbers and choice < 5:
            for _ in range(random.randrange(1, 5)):
                self.send(random.choice(numbers), random.choice("ab"), random.randrange(20, 900))
        elif numbers and choice == 5:
            self.ack_in(random.choice(numbers), random.choice("ab"))
        elif numbers:
            self.end(random.choice(numbers), random.choice((COMMITTED, COMMITTED, ABORTED)))

    # ---- Judgement -----------------------------------------------------------

    def verify(self) -> None:
        super().verify()
        for number, work in self.work.items():
            self._verify(number, work)
            if work.ended == OPEN and number not in self.store.transactions.state.open:
                self._learn(number, work)
            work.ending = work.ended

    def _learn(self, number: int, work: Work) -> None:
        """It ended, or never was, without anybody having been told."""
        ended = self.store.transactions.state.ended.get(number)
        work.ended = ABORTED if ended is None else int(ended.outcome)

    def _verify(self, number: int, work: Work) -> None:
        state = self.store.transactions.state
        ended = state.ended.get(number)
        fate = OPEN if ended is None else int(ended.outcome)
        if number in state.open:
            assert ended is None
            assert work.ended == OPEN, f"{number} has ended, and is open again"
            sent = {(id, e) for id, all in state.open[number].sent.items() for e in all}
            kept = work.entries_receipted - self.trimmed
            assert kept <= sent <= work.entries, f"{number} has lost entries, or found some"
            waiting = {int(body) for _, body in self.store.transactions.deltas(state.open[number])}
            assert work.acks_receipted <= waiting
            work.acks_receipted |= waiting  # some were durable before anybody was told
            self._verify_nothing(number, work)
            return
        assert not work.begun or ended is not None or work.ended != OPEN, f"{number} is forgotten"
        if work.ended != OPEN:
            assert fate in (work.ended, OPEN), f"{number} ended in another way"
        if fate == COMMITTED:
            assert work.ending == COMMITTED
            self._verify_all(number, work)
        elif fate == ABORTED:
            assert work.ending == ABORTED
            self._verify_nothing(number, work)
            for ledger_id, entry_id in work.entries_receipted:
                if ledger_id in self.store.log.state.ledgers:
                    assert entry_id in self.store.transactions.aborted(ledger_id)

    def _verify_all(self, number: int, work: Work) -> None:
        for topic, cursor in self.cursors.items():
            wanted = set(work.acks.get(cursor, ())) & work.acks_receipted
            assert wanted <= self.acked(topic), f"{number} committed, and an ack of it is lost"
        for ledger_id, entry_id in work.entries:
            assert entry_id not in self.store.transactions.aborted(ledger_id)

    def _verify_nothing(self, number: int, work: Work) -> None:
        for topic, cursor in self.cursors.items():
            acked = self.acked(topic)
            assert not acked & set(work.acks.get(cursor, ())), f"an ack of {number} was applied"
