"""What is gone from a topic before it was read, and what becomes of a read that finds out.

A broker that was told to begin at an entry which is not there any more begins with the next
one. That is a loss, unless a ledger just ended there: an entry is missing for certain if its
neighbours in the same ledger are there, or the first entries of a ledger are not. Where a
read goes over to another ledger, the one before it ended, if it is still there at all: if not,
nobody can tell what it had. A subscription that nothing was acknowledged on beyond the read
keeps ledgers, so there it counts as read.

Entries of aborted transactions are missing too, and are no loss. Our broker's REST can tell which
they are; where it cannot be asked, and at Apache Pulsar, they look like losses.
"""

import logging

from magnetar.arrow.plan.settings import ReadSettings
from magnetar.arrow.rest import Rest
from magnetar.client.consumer.start.entry_range import Gap
from magnetar.client.door.bulk import BulkClient
from magnetar.errors import AuthorizationError, MagnetarError, TopicNotFound
from magnetar.rest.path import transactions_path

__all__ = ["DataLossError", "Losses"]

log: logging.Logger = logging.getLogger("magnetar.arrow")


class DataLossError(MagnetarError):
    """Messages that were to be read are gone. `topic`, `first` and `end` say which."""

    def __init__(
        self, topic: str, first: str, end: str, why: str, option: str = "onDataLoss"
    ) -> None:
        super().__init__(topic, first, end, why, option)
        self.option = option
        self.topic = topic
        self.first = first
        self.end = end
        self.why = why

    def __str__(self) -> str:
        lost = "everything"
        if self.first:
            lost = f"its entries from {self.first} up to {self.end}, which is not included"
        return (
            f"{self.topic} lost {lost} ({self.why}): set {self.option} to warn to read on without"
        )


class Losses:
    """Looks at the gaps of one read."""

    def __init__(self, client: BulkClient, topic: str, settings: ReadSettings) -> None:
        self._client = client
        self._topic = topic
        self._settings = settings

    def check(self, gaps: list[Gap], ledgers_seen: set[int]) -> None:
        """Raises DataLossError for the first gap that is a loss, or logs each."""
        for (ledger, entry), (to_ledger, to_entry) in gaps:
            first = entry if ledger == to_ledger else 0
            aborted = to_entry > first and self._aborted(to_ledger, first, to_entry)
            if ledger == to_ledger:
                if aborted:
                    continue
                why = "trimmed, expired or deleted"
            elif to_entry > 0 and not aborted:
                why = "the ledgers that had them were trimmed, or the topic was made anew"
            elif (
                ledger in ledgers_seen or self._settings.protected or self._is_there(ledger, entry)
            ):
                continue
            else:
                why = f"ledger {ledger} is gone, and what it had behind them is not known"
            self._tell(f"{ledger}:{entry}", f"{to_ledger}:{to_entry}", why)

    def _aborted(self, ledger: int, first: int, end: int) -> bool:
        """Returns whether all these entries are of aborted transactions, as far as that is told."""
        connection = self._settings.connection
        if connection is None or not connection.admin_url:
            return False
        path = transactions_path("abortedEntries", str(ledger), str(first), topic=self._topic)
        rest = Rest(connection, self._settings.names.admin_url)
        try:
            told = rest.get(path, end=end)
        except (TopicNotFound, AuthorizationError):
            return False  # Apache Pulsar has no such thing to ask
        return bool(told["aborted"] == end - first)

    def _is_there(self, ledger: int, entry: int) -> bool:
        """Returns whether the entry before is still there, and with it its ledger."""
        if entry == 0:
            return False
        start, end = (ledger, entry - 1), (ledger, entry)
        with self._client.entries(
            self._topic, start, end, timeout_s=self._settings.timeout_s
        ) as entries:
            return bool(entries.next(1))

    def _tell(self, first: str, end: str, why: str) -> None:
        error = DataLossError(self._topic, first, end, why, self._settings.names.data_loss)
        if not self._settings.warns_of_loss:
            raise error
        log.warning("%s", error)
