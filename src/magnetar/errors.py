"""Every error that Magnetar raises, grouped by who must act.

    MagnetarError
    ├── UsageError (also a ValueError)     fix the call
    │   ├── InvalidMessageIdError          bytes or numbers that are no message id
    │   ├── InvalidTopicNameError          a name that Pulsar would refuse
    │   ├── MessageTooLargeError           more bytes than one message may have
    │   ├── NoSuchEntryError               a position that was never in its topic
    │   └── BatchIndexError                an index that cannot be placed in its batch
    ├── CorruptAckError                    bytes that no ack state was written as
    └── ProtocolError                      the conversation itself is broken
        ├── LocalProtocolError             we were about to say something invalid
        └── RemoteProtocolError            the peer said something invalid

Errors carry fields; the text is built from them. This file stays interpreted, since
mypyc compiles only some exception bases.
"""

__all__ = [
    "BatchIndexError",
    "CorruptAckError",
    "InvalidMessageIdError",
    "InvalidTopicNameError",
    "LocalProtocolError",
    "MagnetarError",
    "MessageTooLargeError",
    "NoSuchEntryError",
    "ProtocolError",
    "RemoteProtocolError",
    "UsageError",
]


class MagnetarError(Exception):
    """The root: whatever Magnetar raises on purpose is one of these."""


class UsageError(MagnetarError, ValueError):
    """The call cannot work as made; nothing was changed."""


class InvalidMessageIdError(UsageError):
    """Bytes, text or numbers that name no message."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"not a message id: {self.reason}"


class InvalidTopicNameError(UsageError):
    """A topic name that Pulsar would refuse."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name = name
        self.reason = reason

    def __str__(self) -> str:
        return f"invalid topic name {self.name!r}: {self.reason}"


class MessageTooLargeError(UsageError):
    """A message, or what is fixed of it, exceeds what one message may take."""

    def __init__(self, size: int, size_max: int, advice: str) -> None:
        super().__init__(size, size_max, advice)
        self.size = size
        self.size_max = size_max
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.size} bytes exceed the limit of {self.size_max}: {self.advice}"


class NoSuchEntryError(UsageError):
    """An ack names an entry that the topic does not have and never had."""

    def __init__(self, ledger_id: int, entry_id: int, reason: str) -> None:
        super().__init__(ledger_id, entry_id, reason)
        self.ledger_id = ledger_id
        self.entry_id = entry_id
        self.reason = reason

    def __str__(self) -> str:
        return f"no entry {self.ledger_id}:{self.entry_id} in this topic: {self.reason}"


class BatchIndexError(UsageError):
    """A batch index or `ack_set` that does not fit the entry, or fits nobody knows what.

    It is never widened to the whole entry: that would ack what nobody asked for.
    """

    def __init__(self, ledger_id: int, entry_id: int, reason: str) -> None:
        super().__init__(ledger_id, entry_id, reason)
        self.ledger_id = ledger_id
        self.entry_id = entry_id
        self.reason = reason

    def __str__(self) -> str:
        return f"entry {self.ledger_id}:{self.entry_id}: {self.reason}"


class CorruptAckError(MagnetarError):
    """Bytes that are no delta or snapshot. `offset` is where the reader gave up."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(offset, reason)
        self.offset = offset
        self.reason = reason

    def __str__(self) -> str:
        return f"corrupt ack state at byte {self.offset}: {self.reason}"


class ProtocolError(MagnetarError):
    """Bytes that break the rules of Pulsar's protocol, sent or received."""


class LocalProtocolError(ProtocolError):
    """We were asked to send what the protocol cannot carry."""


class RemoteProtocolError(ProtocolError):
    """The peer sent bytes that break the protocol; its connection is of no more use.

    `field` names the offending field (`CommandSend.sequence_id`) or part of the frame,
    `offset` is where it stands, counted in bytes from the start of what was decoded: the
    frame for a connection, the entry or the batch for those.
    """

    def __init__(self, field: str, offset: int, reason: str) -> None:
        super().__init__(field, offset, reason)
        self.field = field
        self.offset = offset
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.field} at byte {self.offset}: {self.reason}"
