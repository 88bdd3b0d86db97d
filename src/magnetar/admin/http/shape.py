"""Shapes of queries, bodies and answers, as JSON Schema, for routes to say what they take and give.

Bodies have the shape that Pulsar's clients keep to; what else is taken (numbers as texts, above
all) is not advertised.
"""

from typing import Final, TypeAlias

__all__ = [
    "AMOUNT",
    "ANYTHING",
    "FLAG",
    "FORCE",
    "INT32_MAX",
    "INT64_MAX",
    "NOTHING",
    "NULL",
    "NUMBER",
    "OBJECT",
    "OCTETS",
    "PLACE",
    "PLAIN",
    "POSITION",
    "REFUSAL",
    "TEXT",
    "TEXTS",
    "TEXT_MAP",
    "WHOLE",
    "Answer",
    "Json",
    "answers",
    "each",
    "either",
    "integer",
    "list_of",
    "map_of",
    "object_of",
    "one_of",
    "record",
]

Json: TypeAlias = dict[str, object]

INT32_MAX: Final = (1 << 31) - 1
INT64_MAX: Final = (1 << 63) - 1


def integer(least: int, most: int = INT64_MAX) -> Json:
    return {"type": "integer", "minimum": least, "maximum": most}


def one_of(*words: str) -> Json:
    return {"type": "string", "enum": list(words)}


def list_of(items: Json, *, least: int = 0) -> Json:
    found: Json = {"type": "array", "items": items}
    return found | {"minItems": least} if least else found


def map_of(values: Json) -> Json:
    return {"type": "object", "additionalProperties": values}


def object_of(required: tuple[str, ...] = (), **fields: Json) -> Json:
    found: Json = {"type": "object", "properties": fields}
    return found | {"required": list(required)} if required else found


def record(optional: tuple[str, ...] = (), /, **fields: Json) -> Json:
    """Returns an object that has all of these fields, but those that it need not have."""
    return object_of(tuple(name for name in fields if name not in optional), **fields)


def each(shape: Json, *names: str) -> dict[str, Json]:
    """Fields of one shape."""
    return dict.fromkeys(names, shape)


def either(*shapes: Json) -> Json:
    return {"anyOf": list(shapes)}


# ---- What several routes share ---------------------------------------------------------

ANYTHING: Final[Json] = {}
TEXT: Final[Json] = {"type": "string"}
FLAG: Final[Json] = {"type": "boolean"}
NUMBER: Final[Json] = integer(0)
# In answers: -1 stands for what is not known or not limited, and rates are no whole numbers.
WHOLE: Final[Json] = {"type": "integer"}
AMOUNT: Final[Json] = {"type": "number"}
NULL: Final[Json] = {"type": "null"}
OBJECT: Final[Json] = {"type": "object"}
TEXTS: Final[Json] = list_of(TEXT)
TEXT_MAP: Final[Json] = map_of(TEXT)
# A message's id, as answers have it, and as a body names where to begin.
PLACE: Final[Json] = object_of(
    ("ledgerId", "entryId"),
    ledgerId=integer(-1),
    entryId=integer(-1),
    partitionIndex=integer(-1, INT32_MAX),
    batchIndex=integer(-1, INT32_MAX),
    batchSize=integer(0, INT32_MAX),
)
POSITION: Final[Json] = {
    "oneOf": [
        one_of("earliest", "latest"),
        object_of(
            ("ledgerId", "entryId"),
            ledgerId=integer(-1),
            entryId=integer(-1),
            partitionIndex=integer(-1, INT32_MAX),
            batchIndex=integer(-1, INT32_MAX),
            isExcluded=FLAG,
            properties=TEXT_MAP,
        ),
    ]
}
FORCE: Final[dict[str, Json]] = {"force": FLAG}


# ---- Answers ---------------------------------------------------------------------------


class Answer:
    """What a request that was granted is answered: bodies by status; none if it never is."""

    def __init__(self, statuses: tuple[int, ...], media: str = "", shape: Json = ANYTHING) -> None:
        self.statuses = statuses
        # Of status 200.
        self.media = media
        self.shape = shape


NOTHING: Final = Answer((204,))
PLAIN: Final = Answer((200,), "text/plain", TEXT)
OCTETS: Final = Answer((200,), "application/octet-stream", {"type": "string", "format": "binary"})
# There for Pulsar's clients to ask, and always refused.
REFUSAL: Final = Answer(())


def answers(shape: Json, *, optional: bool = False) -> Answer:
    """JSON of a shape; or 204, if it is optional."""
    return Answer((200, 204) if optional else (200,), "application/json", shape)
