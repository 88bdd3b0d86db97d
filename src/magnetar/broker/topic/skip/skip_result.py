"""What became of the ids that a skip named, one by one: for whoever asked, in words.

| result        | means                                                                |
|---------------|----------------------------------------------------------------------|
| skipped       | something of it was not acked, and is now                            |
| already acked | all of it was acked before                                           |
| trimmed       | its ledger is gone, since every subscription had acked it             |

| a consumer is in | if                                                                |
|------------------|-------------------------------------------------------------------|
| taken_back_from  | its client dropped it: its application was not handed it           |
| handed_out_to    | its application had been handed it before                          |
| closed           | its client was made to empty its queue; what its application was   |
|                  | handed before that is not known                                    |
| unconfirmed      | it did not confirm in time, or its connection ended: its           |
|                  | application may still be handed it                                 |
"""

from typing import Final, final

from magnetar.broker.topic.skip.recall import ANSWERED, EMPTIED, Recall, Withdrawal
from magnetar.model import Position
from magnetar.model.message_id_data import MessageIdData

__all__ = ["IdResult", "Takers"]


@final
class IdResult:
    """One id, as it was found. `topic_id` says which partition has it, -1 if none any more."""

    def __init__(
        self, id: MessageIdData, topic_id: int, *, acked: bool = False, trimmed: bool = False
    ) -> None:
        self.id: Final = id
        self.topic_id: Final = topic_id
        self.acked: Final = acked
        self.trimmed: Final = trimmed

    @property
    def text(self) -> str:
        if self.trimmed:
            return "trimmed"
        return "already acked" if self.acked else "skipped"


@final
class Takers:
    """Who had messages that were skipped, by name."""

    def __init__(self, recall: Recall) -> None:
        self._recall: Final = recall
        # By position: who was asked for it, under which key.
        self._asked: Final[dict[Position, list[tuple[Withdrawal, int]]]] = {}

        self._looked: int = 0

    def look(self) -> bool:
        """Looks at what some were asked for, a piece of it; False if that was all."""
        if self._looked >= len(self._recall.withdrawals):
            return False
        withdrawal = self._recall.withdrawals[self._looked]
        self._looked += 1
        ledgers = withdrawal.subscription.topic.ledgers
        for key in withdrawal.asked:
            self._asked.setdefault(ledgers.position(key), []).append((withdrawal, key))
        return True

    def of(self, result: IdResult) -> dict[str, list[str]]:
        """Returns the lists of the module's table, without those that are empty."""
        while self.look():
            pass
        found: dict[str, list[str]] = {}
        id = result.id
        index = int(id.batch_index)
        for withdrawal, key in self._asked.get(Position(id.ledger_id, id.entry_id), ()):
            self._put(found, withdrawal, key, index)
        if not result.acked and not result.trimmed:
            for consumer in self._recall.strays.get(result.topic_id, ()):
                if not consumer.emptied:
                    found.setdefault("unconfirmed", []).append(consumer.name)
        return found

    def _put(
        self, found: dict[str, list[str]], withdrawal: Withdrawal, key: int, index: int
    ) -> None:
        asked = withdrawal.asked[key]
        if index >= 0:
            asked &= 1 << index
        if asked == 0:
            return
        given_back = withdrawal.given_back.get(key, 0)
        if withdrawal.state == EMPTIED:
            kinds = ["closed"]
        elif withdrawal.state == ANSWERED:
            kinds = ["taken_back_from"] if asked & given_back else []
            if asked & ~given_back:
                kinds.append("handed_out_to")
        else:
            kinds = ["unconfirmed"]
        for kind in kinds:
            found.setdefault(kind, []).append(withdrawal.consumer.name)

    def unconfirmed(self) -> int:
        """Returns how many consumers did not confirm."""
        names = {w.consumer.key for w in self._recall.withdrawals if w.state not in SURE}
        for consumers in self._recall.strays.values():
            names.update(consumer.key for consumer in consumers if not consumer.emptied)
        return len(names)


SURE: Final = (ANSWERED, EMPTIED)
