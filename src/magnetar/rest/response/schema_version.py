"""A version of a topic's schema."""

from msgspec import field

from magnetar.rest.response.record import Record

__all__ = ["SchemaVersion"]


class SchemaVersion(Record, frozen=True):
    """A version of a topic's schema."""

    version: int = 0
    """The number of the version, from 0."""
    type: str = "NONE"
    """`AVRO`, `JSON`, `STRING`, `BYTES`, `PROTOBUF` or another of Pulsar's types."""
    timestamp: int = 0
    """When it was added, in ms since 1970."""
    data: str = ""
    """The definition, as a text."""
    properties: dict[str, str] = field(default_factory=dict)
    """Properties of the schema."""
