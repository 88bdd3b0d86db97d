"""What may watch a client: told of few things as they happen, it reads the rest when it likes.

The engine knows no library for metrics or traces. Counters are read from its totals, so
watching them costs a message nothing; times are told, for each entry and each lookup, to an
observer if there is one.
"""

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from magnetar.client.consumer.message import Message
from magnetar.client.errors import Result
from magnetar.client.producer.outgoing import Outgoing
from magnetar.model import MessageId

if TYPE_CHECKING:
    from magnetar.client.telemetry.totals import Totals

__all__ = ["Observer", "SendTrace", "Tracing"]


class SendTrace(ABC):
    """One message on its way out."""

    # What the message is to be sent with.
    properties: dict[str, str]

    @abstractmethod
    def end(self, error: Exception | Result | None, id: MessageId | None) -> None:
        """It is stored, or given up. Any thread."""


class Tracing(ABC):
    """Follows messages from who sends them to who receives them."""

    @abstractmethod
    def send(self, topic: str, properties: dict[str, str] | None, size: int) -> SendTrace:
        """A message is being sent, by whatever the caller is doing now."""

    @abstractmethod
    def now_ns(self) -> int:
        """The time, for `received`."""

    @abstractmethod
    def received(self, message: Message, subscription: str, began_ns: int) -> None:
        """A message was received, by a call that began then."""

    @abstractmethod
    def process(self, message: Message, subscription: str) -> AbstractContextManager[object]:
        """The time in which a listener has a message."""

    def follow(self, topic: str, message: Outgoing) -> SendTrace:
        """Begins to trace a message that is about to be sent, and adds what it carries."""
        trace = self.send(topic, message.properties, len(message.payload))
        if trace.properties:
            message.properties = trace.properties
            message.plain = False
        return trace


class Observer(ABC):
    """Watches clients. Whatever it is told, it is told on any thread."""

    tracing: Tracing | None = None

    @abstractmethod
    def opened(self, totals: "Totals") -> None:
        """There is a client, and this is what it counts."""

    @abstractmethod
    def closed(self, totals: "Totals") -> None:
        """The client is closed: it counts no more."""

    @abstractmethod
    def stored(self, topic: str, seconds: float) -> None:
        """An entry is stored, so long after its first message was taken."""

    @abstractmethod
    def confirmed(self, topic: str, subscription: str, seconds: float) -> None:
        """A broker confirmed what an ACK named, so long after the first call for it."""

    @abstractmethod
    def processed(self, topic: str, subscription: str, seconds: float, *, good: bool) -> None:
        """A block of `consumer.processing` took so long; it is good if it raised nothing."""

    @abstractmethod
    def looked_up(self, kind: str, transport: str, seconds: float, *, found: bool) -> None:
        """A lookup was answered: `topic`, `metadata`, `list-topics` or `schema`."""
