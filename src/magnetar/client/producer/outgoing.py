"""A message on its way out, as the application gave it.

`sender` is whoever wants to know what became of it, told exactly once: with None and the id that
the broker gave the message, which is (-1,-1) if the broker had it already and does not say
where; or with the error and None. Who does not want to know leaves it out, and spares the id.

To the producer's core a sender is any object. The `tell` of the core is handed the senders of
all messages of an entry at once, each with its id, or all of them with the error and no ids; it
was made by whoever made the messages, and knows what their senders are: futures, calls that
wait, callbacks. A core without a `tell` has senders that are functions (`Done`), and calls them.
"""

from collections.abc import Callable
from typing import TypeAlias, cast, final

from mypy_extensions import i64

from magnetar.client.transaction.core import TransactionCore
from magnetar.client.transaction.enlistment import Enlistment
from magnetar.errors import UsageError
from magnetar.model.message_id import MessageId
from magnetar.wire.integer import INT64_MAX

__all__ = ["Done", "Outgoing", "Sender", "Tell"]

Done: TypeAlias = Callable[[Exception | None, MessageId | None], None]
Sender: TypeAlias = object
Tell: TypeAlias = Callable[[list[Sender | None], Exception | None, list[MessageId]], None]


@final
class Outgoing:
    """One message to publish.

    An empty key is none, and so is `event_timestamp` 0. `deliver_at` is in ms since 1970; a
    message that has one, or `replication_clusters`, is published alone. A `sequence_id` of None
    is given by the producer. `plain` says that there is nothing but the payload, which most
    messages are. A message of a `transaction` has the `enlistment` of the topic that it goes to,
    once that is chosen.
    """

    def __init__(
        self,
        payload: bytes,
        sender: Sender | None = None,
        *,
        properties: dict[str, str] | None = None,
        partition_key: str | None = None,
        ordering_key: bytes | None = None,
        event_timestamp: int = 0,
        deliver_at: int | None = None,
        sequence_id: int | None = None,
        replication_clusters: list[str] | None = None,
        null_value: bool = False,
        transaction: TransactionCore | None = None,
    ) -> None:
        self.payload: bytes = payload
        self.sender: Sender | None = sender
        self.properties: dict[str, str] | None = properties
        self.partition_key: str | None = partition_key or None
        self.ordering_key: bytes | None = ordering_key or None
        self.event_timestamp: i64 = event_timestamp
        self.deliver_at: int | None = deliver_at
        self.sequence_id: int | None = sequence_id
        self.replication_clusters: list[str] | None = replication_clusters
        self.null_value: bool = null_value
        self.transaction: TransactionCore | None = transaction
        self.enlistment: Enlistment | None = None
        # Whether its transaction counts it.
        self.joined: bool = False
        # When the producer took it.
        self.taken_ms: i64 = 0
        self.plain: bool = (
            properties is None
            and not partition_key
            and not ordering_key
            and event_timestamp == 0
            and deliver_at is None
            and sequence_id is None
            and replication_clusters is None
            and not null_value
            and transaction is None
        )

    def take_part(self, enlistment: Enlistment) -> None:
        """It is part of a transaction that counts it already."""
        self.transaction = enlistment.transaction
        self.enlistment = enlistment
        self.joined = True
        self.plain = False

    @property
    def alone(self) -> bool:
        """Whether it must not share an entry with others."""
        return self.deliver_at is not None or self.replication_clusters is not None

    def check(self) -> None:
        """Raises UsageError for what no entry can carry."""
        if self.event_timestamp < 0:
            raise UsageError(f"event_timestamp {self.event_timestamp} is before 1970")
        if self.sequence_id is not None and not 0 <= self.sequence_id < INT64_MAX:
            raise UsageError(f"sequence_id {self.sequence_id} is not between 0 and 2**63 - 2")
        if self.deliver_at is not None and not 0 <= self.deliver_at <= INT64_MAX:
            raise UsageError(f"deliver_at {self.deliver_at} is not a time in ms since 1970")
        # What the application put into them is its own, whatever their types say.
        if self.properties is not None:
            for key, value in cast("dict[object, object]", self.properties).items():
                _check_text("properties", key)
                _check_text("properties", value)
        if self.partition_key is not None:
            _check_text("partition_key", self.partition_key)
        if self.replication_clusters is not None:
            for cluster in cast("list[object]", self.replication_clusters):
                _check_text("replication_clusters", cluster)

    def property_list(self) -> list[tuple[str, str]] | None:
        """The properties as an entry has them."""
        return list(self.properties.items()) if self.properties else None


def _check_text(field: str, value: object) -> None:
    if not isinstance(value, str):
        raise UsageError(
            f"{field}: expected texts, not {type(value).__name__} ({value!r:.40}): convert it"
        )
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise UsageError(f"{field}: {value!r:.40} cannot be written: {error}") from error
