"""A transaction without a broker: its clock, its coordinator and who takes part, all by hand."""

from magnetar.client.transaction.core import TransactionCore
from magnetar.client.transaction.enlistment import Enlistment, Participant
from magnetar.model.txn_id import TxnId

ID = TxnId(3, 5)


class Bench:
    """One transaction of 1000 ms, and a participant that notes what it is told."""

    def __init__(self, id: TxnId = ID) -> None:
        self.now = 10_000
        self.wants = 0
        self.told: list[str] = []
        self.core = TransactionCore(id, 1000, self.now, now_ms=lambda: self.now, wants=self._want)
        self.participant = Participant(
            enlisted=lambda: self.told.append("enlisted"),
            flush=lambda: self.told.append("flush"),
            ended=lambda transaction, end: self.told.append(f"ended {end}"),
        )

    def _want(self) -> None:
        self.wants += 1

    def enlist(self, topic: str = "t", subscription: str = "") -> Enlistment:
        return self.core.enlist(topic, subscription, self.participant)

    def answer(self, error: Exception | None = None) -> None:
        """The coordinator answers all that it is asked for."""
        for enlistment in self.core.take_wanted():
            enlistment.answered(error)
