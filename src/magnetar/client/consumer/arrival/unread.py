"""What comes to a consumer and is not handed to the application, and what the broker is told of it.

| an entry, or messages of it | the broker is told                  | counts as          |
|-----------------------------|-------------------------------------|--------------------|
| cannot be read              | an ACK that says why                | refused            |
| has nothing in it           | an ack of what is empty             |                    |
| is to stay where it is      | nothing; it is asked for again      | kept back          |

Permits of all of them go back.
"""

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from magnetar.client.ack.tracker import AckTracker
from magnetar.client.consumer.arrival.incoming import Arrival
from magnetar.client.consumer.counts import ConsumerCounts
from magnetar.client.consumer.outstanding import Outstanding
from magnetar.client.consumer.permits import Permits
from magnetar.model.enums import AckType
from magnetar.model.message_id_data import MessageIdData
from magnetar.model.position_key import wide_key
from magnetar.protocol.ack import CommandAck
from magnetar.protocol.command import Command
from magnetar.protocol.message import CommandMessage

__all__ = ["Unread"]


@final
class Unread:
    """See the module."""

    def __init__(
        self,
        topic: str,
        consumer_id: i64,
        *,
        acks: AckTracker,
        outstanding: Outstanding,
        permits: Permits,
        counts: ConsumerCounts,
        write: Callable[[list[Command]], None],
    ) -> None:
        self._topic: Final = topic
        self._consumer_id: Final[i64] = consumer_id
        self._acks: Final = acks
        self._outstanding: Final = outstanding
        self._permits: Final = permits
        self._counts: Final = counts
        self._write: Final = write
        # Told of what was refused, and why; of one thing many times over, once.
        self.warn: Callable[[str], None] | None = None
        self._last_problem: str = ""

    def tell(self, arrival: Arrival) -> None:
        """Warns of what is wrong with an entry, unless it was the same with the one before."""
        if arrival.problem == self._last_problem:
            return
        self._last_problem = arrival.problem
        becomes = "is refused" if arrival.refusal >= 0 else "is handed on as it is"
        if arrival.kept_back:
            becomes = "stays where it is"
        if self.warn is not None:
            self.warn(f"a message of {self._topic} {becomes}: {arrival.problem}")

    def answer(self, command: CommandMessage, arrival: Arrival) -> None:
        """Sees to what the application does not get."""
        if arrival.refusal >= 0:
            self._counts.entries_refused += 1
            id = MessageIdData(command.message_id.ledger_id, command.message_id.entry_id)
            refusal = int(arrival.refusal)
            self._write(
                [CommandAck(self._consumer_id, AckType.Individual.value, [id], None, refusal)]
            )
        elif arrival.empty is not None:
            empty = arrival.empty
            acks = self._acks.records.find(
                empty.ledger_id, empty.entry_id, empty.batch_size, 0, empty.hidden_now()
            )
            self._acks.acknowledge(acks, -1)
            self._acks.joined(None)
        elif arrival.kept_back:
            key = wide_key(command.message_id.ledger_id, command.message_id.entry_id)
            self._outstanding.kept_back(key, command.redelivery_count)
        self._permits.give_back(arrival.dropped)
