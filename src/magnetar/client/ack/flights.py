"""ACKs that asked for an answer and have none yet."""

from typing import Final, final

from mypy_extensions import i64

from magnetar.client.ack.entry_acks import Cumulative, EntryAcks
from magnetar.model.message_id_data import MessageIdData

__all__ = ["Flight", "Flights"]


@final
class Flight:
    """One ACK that asked for an answer, and what it named."""

    def __init__(
        self,
        acks: list[EntryAcks],
        ids: list[MessageIdData],
        cumulative: Cumulative | None,
        begun_ms: int,
        due_ms: int,
    ) -> None:
        self.acks: Final = acks
        self.ids: Final = ids
        self.cumulative: Final = cumulative
        self.begun_ms: Final = begun_ms
        self.due_ms: Final = due_ms

    @property
    def names_parts(self) -> bool:
        """Whether it names single messages of a batch; not as the end of a cumulative ack."""
        if self.cumulative is not None:
            return False
        for id in self.ids:
            if id.ack_set:
                return True
        return False

    def left(self, at: i64) -> int:
        """What it left unacked of the entry that it names there."""
        return self.ids[at].ack_set or 0


@final
class Flights:
    """All of one consumer, by request id; the first is the oldest."""

    def __init__(self) -> None:
        self._flights: dict[int, Flight] = {}
        self._request_id: i64 = 0
        # How many ids they name, and how many cumulative acks there are among them.
        self.ids: i64 = 0
        self.cumulatives: i64 = 0

    def __len__(self) -> int:
        return len(self._flights)

    def all(self) -> list[Flight]:
        return list(self._flights.values())

    def begin(self, flight: Flight) -> int:
        """Returns its request id."""
        self._request_id += 1
        self._flights[self._request_id] = flight
        self.ids += len(flight.ids)
        if flight.cumulative is not None:
            self.cumulatives += 1
        return self._request_id

    def end(self, request_id: int) -> Flight | None:
        """Removes and returns one, unless it has ended before."""
        flight = self._flights.pop(request_id, None)
        if flight is not None:
            self.ids -= len(flight.ids)
            if flight.cumulative is not None:
                self.cumulatives -= 1
        return flight

    def late(self, now_ms: int) -> list[int]:
        """The request ids of those whose answer did not come in time."""
        late: list[int] = []
        for request_id, flight in self._flights.items():
            if flight.due_ms > now_ms:
                break
            late.append(request_id)
        return late

    def end_all(self) -> list[Flight]:
        """Removes and returns all of them."""
        flights = self.all()
        self._flights.clear()
        self.ids = 0
        self.cumulatives = 0
        return flights

    def next_ms(self) -> int | None:
        """When the answer to the oldest is late."""
        for flight in self._flights.values():
            return flight.due_ms
        return None

    def through(self) -> list[Cumulative]:
        """The cumulative acks among them."""
        found: list[Cumulative] = []
        if self.cumulatives:
            for flight in self._flights.values():
                if flight.cumulative is not None:
                    found.append(flight.cumulative)
        return found
