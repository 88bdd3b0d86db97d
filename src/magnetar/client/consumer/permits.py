"""How many messages the broker may send: exact, at any moment.

On every connection the broker gets as many permits as the queue has places. A message takes
one of them with it: from the broker to the queue, and out of the queue or past it to those
that are given back, half a queue at a time. So

    permits at the broker + messages in the queue + permits not given back yet = queue size

With a queue of size 0 there is a permit at the broker for each call that waits, and no more.

| no permit is given while | those that are due are given                          |
|--------------------------|-------------------------------------------------------|
| disconnected             | by `connected`, which begins anew: as many as places  |
| paused                   | by `resume`                                           |
| acks are crowded         | by `acks_ended`, when half of those acks have ended   |
"""

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from magnetar.client.ack.tracker import AckTracker
from magnetar.client.consumer.receive_queue import ReceiveQueue
from magnetar.protocol.command import Command
from magnetar.protocol.message import CommandFlow

__all__ = ["Permits"]


@final
class Permits:
    """See the module. `queue` says how many messages are in it, `acks` whether it is crowded."""

    def __init__(
        self,
        consumer_id: i64,
        queue_size: i64,
        queue: ReceiveQueue,
        acks: AckTracker,
        write: Callable[[list[Command]], None],
    ) -> None:
        self._consumer_id: Final[i64] = consumer_id
        self.queue_size: Final[i64] = queue_size
        self._flow_min: Final[i64] = max(queue_size // 2, 1)
        self._queue: Final = queue
        self._acks: Final = acks
        self._write: Final = write
        self._online: bool = False
        self._paused: bool = False
        # Permits are kept back, since too many acks are unconfirmed.
        self._crowded: bool = False
        # Less than 0 after a large batch.
        self.at_broker: i64 = 0
        self._unreturned: i64 = 0
        # Of messages that were taken to be given back later.
        self._held: i64 = 0
        # How many calls wait for a message, where there is no queue.
        self._waiting: i64 = 0

    @property
    def unreturned(self) -> int:
        """How many were used and not given back yet."""
        return self._unreturned + self._held

    def connected(self) -> None:
        """A new connection, and the queue is empty."""
        self._online = True
        self.at_broker = 0
        self._unreturned = self.queue_size
        self._held = 0
        self._flow()

    def disconnected(self) -> None:
        self._online = False

    def taken(self, held: bool) -> None:
        """A message was taken from the queue; if it is held, `release` gives its permit back."""
        if self.queue_size == 0:
            if self._waiting > 0:
                self._waiting -= 1
        elif held:
            self._held += 1
        else:
            self._unreturned += 1
            if self._unreturned >= self._flow_min:
                self._flow()

    def release(self) -> None:
        """A held message is done with. What was held on an older connection does not count."""
        if self._held > 0:
            self._held -= 1
            self.give_back(1)

    def give_back(self, permits: i64) -> None:
        """Gives back the permits of messages that went past the queue, or were dropped from it."""
        if self.queue_size == 0:
            self._flow()
            return
        self._unreturned += permits
        if self._unreturned >= self._flow_min:
            self._flow()

    def request(self, waiting: int) -> None:
        """Without a queue: so many calls wait for a message now."""
        self._waiting = waiting
        self._flow()

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self._flow()

    def acks_ended(self) -> None:
        """Some acks may have: there may be room again."""
        if self._crowded and self._acks.roomy:
            self._crowded = False
            self._flow()

    def _flow(self) -> None:
        """Gives the broker all permits it may have."""
        if not self._online or self._paused:
            return
        if self._acks.crowded:
            self._crowded = True
            return
        if self.queue_size == 0:
            permits = self._waiting - self._queue.length - self.at_broker
        else:
            permits = self._unreturned
            self._unreturned = 0
        if permits > 0:
            self.at_broker += permits
            self._write([CommandFlow(self._consumer_id, permits)])
