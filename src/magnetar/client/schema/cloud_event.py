"""CloudEvents in properties: who says what of a message, in a way that others understand.

CloudEvents (1.0.2) has a binary mode: the payload is the data as it is, and each attribute stands
beside it. There is no binding for Pulsar's protocol, so the names are those of the binding for
Kafka, whose records have headers like our properties: `ce_` before each attribute, and
`content-type` for datacontenttype. A bridge between the two can copy them as they are.

Values are text on the wire, so extensions come back as text too.
"""

import re
from collections.abc import Mapping
from typing import Final, final

from magnetar.errors import InvalidMessage, UsageError

__all__ = ["CONTENT_TYPE", "PREFIX", "SPEC_VERSION", "CloudEvent"]

PREFIX: Final = "ce_"
CONTENT_TYPE: Final = "content-type"
SPEC_VERSION: Final = "1.0"

_REQUIRED: Final = ("id", "source", "type")
# Names that an extension cannot have; `data` is the payload.
_RESERVED: Final = frozenset(
    {*_REQUIRED, "specversion", "subject", "time", "dataschema", "datacontenttype", "data"}
)
_EXTENSION: Final = re.compile(r"[a-z0-9]{1,20}")
# RFC 3339, which wants the offset from UTC.
_TIME: Final = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})")


@final
class CloudEvent:
    """The attributes of one event; `id` and `source` together name it.

    >>> event = CloudEvent(id="7", source="/shop", type="org.example.order.placed")
    >>> event.properties()["ce_type"]
    'org.example.order.placed'
    >>> CloudEvent.from_properties(event.properties()) == event
    True
    """

    def __init__(
        self,
        *,
        id: str,
        source: str,
        type: str,
        subject: str | None = None,
        time: object = None,
        datacontenttype: str | None = None,
        dataschema: str | None = None,
        extensions: Mapping[str, str] | None = None,
    ) -> None:
        """`time` is text as RFC 3339 has it, or a datetime that knows its zone.

        Raises UsageError for a required attribute that is empty, a time that is none, and an
        extension whose name is not of lower-case letters and digits, 20 at most.
        """
        self.id: Final[str] = _text("id", id)
        self.source: Final[str] = _text("source", source)
        self.type: Final[str] = _text("type", type)
        self.subject: Final[str | None] = _text_or_none("subject", subject)
        self.time: Final[str | None] = _time(time)
        self.datacontenttype: Final[str | None] = _text_or_none("datacontenttype", datacontenttype)
        self.dataschema: Final[str | None] = _text_or_none("dataschema", dataschema)
        self.extensions: Final[dict[str, str]] = _extensions(extensions)

    def properties(self) -> dict[str, str]:
        """Returns the attributes as properties of a message, for `send(properties=...)`."""
        found = {
            f"{PREFIX}specversion": SPEC_VERSION,
            f"{PREFIX}id": self.id,
            f"{PREFIX}source": self.source,
            f"{PREFIX}type": self.type,
        }
        optional = (("subject", self.subject), ("time", self.time), ("dataschema", self.dataschema))
        for name, value in optional:
            if value is not None:
                found[PREFIX + name] = value
        if self.datacontenttype is not None:
            found[CONTENT_TYPE] = self.datacontenttype
        for name, value in self.extensions.items():
            found[PREFIX + name] = value
        return found

    @staticmethod
    def is_in(properties: Mapping[str, str]) -> bool:
        """Says whether properties of a message claim to be an event's."""
        return f"{PREFIX}specversion" in properties

    @staticmethod
    def from_properties(properties: Mapping[str, str]) -> "CloudEvent":
        """Returns the event that properties tell of; other properties are passed over.

        Raises InvalidMessage if they tell of none, lack what is required, or break a rule.
        """
        version = properties.get(f"{PREFIX}specversion")
        if version is None:
            raise InvalidMessage(f"no CloudEvent: there is no property {PREFIX}specversion")
        if version != SPEC_VERSION:
            raise InvalidMessage(f"a CloudEvent of version {version!r}, not {SPEC_VERSION}")
        for name in _REQUIRED:
            if not properties.get(PREFIX + name):
                raise InvalidMessage(f"no CloudEvent: the property {PREFIX}{name} is missing")
        try:
            return _event(properties)
        except UsageError as error:
            raise InvalidMessage(f"no CloudEvent: {error}") from error

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CloudEvent) and self.properties() == other.properties()

    def __hash__(self) -> int:
        return hash((self.id, self.source))

    def __repr__(self) -> str:
        return f"CloudEvent({self.type!r}, id={self.id!r}, source={self.source!r})"


def _event(properties: Mapping[str, str]) -> CloudEvent:
    found = {
        name.removeprefix(PREFIX): value
        for name, value in properties.items()
        if name.startswith(PREFIX)
    }
    return CloudEvent(
        id=found["id"],
        source=found["source"],
        type=found["type"],
        subject=found.get("subject"),
        time=found.get("time"),
        datacontenttype=properties.get(CONTENT_TYPE),
        dataschema=found.get("dataschema"),
        extensions={name: value for name, value in found.items() if name not in _RESERVED},
    )


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise UsageError(f"{name} of a CloudEvent: expected text that is not empty, not {value!r}")
    return value


def _text_or_none(name: str, value: object) -> str | None:
    return None if value is None else _text(name, value)


def _time(value: object) -> str | None:
    if value is None:
        return None
    written = getattr(value, "isoformat", None)
    text = value if written is None else written()
    if not isinstance(text, str) or _TIME.fullmatch(text) is None:
        raise UsageError(
            f"time of a CloudEvent: {value!r} is not a time of RFC 3339; give a datetime with its "
            "zone, such as datetime.now(UTC), or text like 2026-11-18T12:30:00Z"
        )
    return text


def _extensions(given: Mapping[str, str] | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in (given or {}).items():
        if name in _RESERVED:
            raise UsageError(
                f"{name} is an attribute of every CloudEvent: no extension is called so"
            )
        if _EXTENSION.fullmatch(name) is None:
            raise UsageError(
                f"extension {name!r}: names have lower-case letters and digits only, 20 at most"
            )
        found[name] = _text(f"extension {name}", value)
    return found
