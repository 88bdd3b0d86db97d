"""How long the texts may be that clients and operators give to the broker: one table.

A text that somebody sends once and the broker keeps is the cheapest attack on its memory. So
each of them has a limit, in bytes of UTF-8. `TEXT_LIMITS` is the table, which the reference
manual shows; a text that is too long is refused with its name, its size and its limit, on the
wire (NotAllowedError) and by REST (412, and 413 for a whole body) alike, and nothing has changed.

Keys, ordering keys and properties of messages have no limit of their own: they are part of the
message, are stored with it and not kept in memory, and `message_size_max` bounds them.
"""

from collections.abc import Mapping
from typing import Final, final

from magnetar.errors import BrokerError
from magnetar.model import ServerError

__all__ = [
    "BODY",
    "CHUNK_UUID",
    "CLIENT_VERSION",
    "MESSAGE_TEXTS",
    "METADATA",
    "NAME",
    "PROPERTIES",
    "SCHEMA",
    "SCHEMA_BODY",
    "SKIP_BODY",
    "STRANGER_FRAME",
    "TEXT_LIMITS",
    "TOKEN",
    "TOPICS_PATTERN",
    "UUID_BEYOND_NAME",
    "TextLimit",
    "check_count",
    "check_properties",
    "check_text",
]

KIB: Final = 1024
# What a chunk's uuid adds to the producer's name: a dash and a sequence id, as Java's client
# writes it, and some more.
UUID_BEYOND_NAME: Final = 64


@final
class TextLimit:
    """A row of the table. What a setting limits has its name in `setting`, and its default here."""

    def __init__(
        self,
        noun: str,
        bytes_max: int,
        reason: str,
        *,
        count_max: int = 0,
        things: str = "keys",
        setting: str = "",
    ) -> None:
        self.noun: Final = noun
        self.bytes_max: Final = bytes_max
        self.reason: Final = reason
        # Of a map: how many keys it may have; of a list, how many things. 0 if it is neither.
        self.count_max: Final = count_max
        self.things: Final = things
        self.setting: Final = setting


STRANGER_FRAME: Final = TextLimit(
    "a frame before CONNECT succeeded",
    64 * KIB,
    "nobody has proved anything yet; a CONNECT with a large token or certificate fits",
)
CLIENT_VERSION: Final = TextLimit(
    "the client version in CONNECT", KIB, "it is kept for each connection, and shown in stats"
)
TOKEN: Final = TextLimit(
    "a token", 16 * KIB, "it is decoded and its signature checked before anybody is known"
)
NAME: Final = TextLimit(
    "the name of a topic, subscription, producer, consumer, tenant, namespace or role; the "
    "producer's name in a message",
    KIB,
    "names are in memory, in lists and in metrics",
    setting="max_name_length",
)
CHUNK_UUID: Final = TextLimit(
    "the uuid of a message in chunks",
    KIB + UUID_BEYOND_NAME,
    f"a topic remembers its chunks; the setting and {UUID_BEYOND_NAME} more, as clients make it "
    "of the producer's name",
    setting="max_name_length",
)
METADATA: Final = TextLimit(
    "the metadata of a producer or a consumer, keys and values together",
    16 * KIB,
    "it is kept for each of them, and shown in stats",
    count_max=256,
)
PROPERTIES: Final = TextLimit(
    "the properties of a topic, a subscription or a schema, keys and values together",
    16 * KIB,
    "they are kept in memory, and written with each change",
    count_max=256,
)
HASH_RANGES: Final = TextLimit(
    "the ranges of hashes that a sticky Key_Shared consumer names",
    5 * 1024 * KIB,
    "each is compared with those of all other consumers",
    count_max=1000,
    things="ranges",
    setting="message_size_max",
)
SCHEMA: Final = TextLimit(
    "the definition of a schema",
    256 * KIB,
    "each version is kept, parsed and compared",
    setting="schema_size_max",
)
TOPICS_PATTERN: Final = TextLimit(
    "the pattern of a subscription to many topics, in characters",
    50,
    "it is matched with every topic of a namespace",
    setting="topics_pattern_length_max",
)
BODY: Final = TextLimit(
    "the body of a REST request", 1024 * KIB, "JSON takes ten times its size as objects"
)
SCHEMA_BODY: Final = TextLimit(
    "the body of a REST request with a schema",
    4 * 1024 * KIB,
    "a definition is a text in JSON there, with its quotes escaped",
)
SKIP_BODY: Final = TextLimit(
    "the body of a REST request that skips messages",
    16 * 1024 * KIB,
    "a hundred thousand ids in any form; it is read in pieces",
)
MESSAGE_TEXTS: Final = TextLimit(
    "keys and properties of messages",
    5 * 1024 * KIB,
    "they are part of the message, and are not kept in memory",
    setting="message_size_max",
)

TEXT_LIMITS: Final[tuple[TextLimit, ...]] = (
    STRANGER_FRAME,
    CLIENT_VERSION,
    TOKEN,
    NAME,
    CHUNK_UUID,
    METADATA,
    PROPERTIES,
    HASH_RANGES,
    SCHEMA,
    TOPICS_PATTERN,
    BODY,
    SCHEMA_BODY,
    SKIP_BODY,
    MESSAGE_TEXTS,
)


def check_text(what: str, size: int, bytes_max: int, setting: str = "") -> None:
    """Raises BrokerError for a text of so many bytes, if that is too much.

    `setting` is what an operator may raise, if there is such a setting.

    >>> check_text("the client version", 2000, CLIENT_VERSION.bytes_max)
    Traceback (most recent call last):
    ...
    magnetar.errors.BrokerError: the client version has 2000 bytes, and 1024 are allowed (error 22)
    """
    if size > bytes_max:
        advice = f": make it smaller, or raise {setting}" if setting else ""
        raise BrokerError(
            ServerError.NotAllowedError,
            f"{what} has {size} bytes, and {bytes_max} are allowed{advice}",
        )


def check_count(what: str, count: int, limit: TextLimit) -> None:
    """Raises BrokerError for a map or a list of so many things, if that is too many."""
    if count > limit.count_max:
        raise BrokerError(
            ServerError.NotAllowedError,
            f"{what} has {count} {limit.things}, and {limit.count_max} are allowed",
        )


def check_properties(what: str, properties: Mapping[str, str], limit: TextLimit) -> None:
    """Raises BrokerError for a map of texts that is too large."""
    check_count(what, len(properties), limit)
    size = 0
    for key, value in properties.items():
        size += len(key.encode()) + len(value.encode())
    check_text(what, size, limit.bytes_max)
