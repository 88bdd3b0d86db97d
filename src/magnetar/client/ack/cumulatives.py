"""Cumulative acks on their way: the newest, which is to be sent, and those in flight.

An earlier one than the newest says nothing more, so only the newest is kept. With retries one
is on its way at a time, in flight or waiting to be sent again, and the newest is behind it.
"""

from typing import Final, final

from magnetar.client.ack.entry_acks import Cumulative, EntryAcks
from magnetar.client.ack.flights import Flights
from magnetar.client.ack.retry import CUMULATIVE, AckRetries

__all__ = ["Cumulatives"]


@final
class Cumulatives:
    """Those of one consumer."""

    def __init__(self, flights: Flights, retries: AckRetries | None) -> None:
        self._flights: Final = flights
        self._retries: Final = retries
        # To be sent.
        self.newest: Cumulative | None = None
        # With retries: one is in flight, or it waits to be sent again.
        self.busy: bool = False

    @property
    def exist(self) -> bool:
        """Whether there is any."""
        return self.newest is not None or self._flights.cumulatives > 0

    def clear(self) -> None:
        self.newest = None
        self.busy = False

    def add(self, cumulative: Cumulative) -> None:
        """Adds a cumulative ack; one that is earlier than the newest adds nothing."""
        newest = self.newest
        if newest is None:
            self.newest = cumulative
        elif not newest.reaches(cumulative):
            cumulative.take_over(newest)
            self.newest = cumulative
            self._renew()

    def add_again(self, cumulative: Cumulative) -> None:
        """Has a cumulative ack sent again, unless a newer one says the same: that has all of its
        tries."""
        newest = self.newest
        if newest is not None and newest.reaches(cumulative):
            newest.take_over(cumulative)
            self._renew()
            return
        if newest is not None:
            cumulative.take_over(newest)
        self.newest = cumulative

    def _renew(self) -> None:
        if self._retries is not None:
            self._retries.renewed(CUMULATIVE)

    # ---- What they cover -----------------------------------------------------

    def beyond(self, key: int, unacked: int) -> int:
        """Returns what none of them covers of an entry."""
        if self.newest is not None:
            unacked = self.newest.unacked(key, unacked)
        for cumulative in self._flights.through():
            unacked = cumulative.unacked(key, unacked)
        return unacked

    def hold_back(self, key: int, unacked: int) -> int:
        """Returns what none of them covers of an entry that came again; those that cover some of it
        note that."""
        if self.newest is not None:
            unacked = self.newest.hold_back(key, unacked)
        for cumulative in self._flights.through():
            unacked = cumulative.hold_back(key, unacked)
        return unacked

    def cover(self, acks: EntryAcks) -> Cumulative | None:
        """Returns one of them that covers all that was acked of an entry."""
        newest = self.newest
        if newest is not None and _covers(newest, acks):
            return newest
        for cumulative in self._flights.through():
            if _covers(cumulative, acks):
                return cumulative
        return None

    def spare(self, key: int, bits: int) -> int:
        """Returns those of some messages of an entry that no ACK names which reaches into the
        entry."""
        if self._flights.cumulatives:
            for flight in self._flights.all():
                through = flight.cumulative
                if through is not None and through.key == key and through.index >= 0:
                    bits &= flight.left(0)
        return bits


def _covers(cumulative: Cumulative, acks: EntryAcks) -> bool:
    return cumulative.unacked(acks.key, acks.known) & ~acks.unacked() == 0
