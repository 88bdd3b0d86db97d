"""Offsets: how far a stream is, as the JSON that Spark keeps in its checkpoint.

    {"topics": {"persistent://public/default/orders-partition-0": {"b": 0, "e": 17, "l": 4}},
     "v": 1}

One place for each topic partition: ledger, entry and batch index of the first message that
is not read yet. `n` is there where the place is inside of a batch, and tells its size, which
an ack of the first half needs. `h` is there where a message in chunks has begun before the
place and ends behind it: the entry of its first chunk, up to which acks go. Keys are sorted:
Spark compares offsets as text, and takes another order for new data.

A partition that only the later of two offsets has was found meanwhile, and is read from the
beginning. One that only the earlier has is gone.
"""

import json
from typing import Final, final

from magnetar.arrow.plan.range_end import BEGINNING, Place, Range
from magnetar.errors import UsageError

__all__ = ["Offsets", "offsets_of"]

_VERSION: Final = 1


@final
class Offsets:
    """A place for each topic partition, the sizes of the batches that places are in, and holds."""

    def __init__(
        self,
        places: dict[str, Place] | None = None,
        sizes: dict[str, int] | None = None,
        holds: dict[str, Place] | None = None,
    ) -> None:
        self.places: Final[dict[str, Place]] = {} if places is None else places
        self.sizes: Final[dict[str, int]] = {} if sizes is None else sizes
        self.holds: Final[dict[str, Place]] = {} if holds is None else holds

    def acked(self, topic: str) -> Place:
        """Returns up to where acks may go: not beyond the beginning of a message that is not whole
        yet."""
        return min(self.places[topic], self.holds.get(topic, self.places[topic]))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Offsets):
            return NotImplemented
        return self.places == other.places

    def __hash__(self) -> int:
        return hash(frozenset(self.places.items()))

    def to_value(self) -> dict[str, object]:
        """Returns what Spark is given; its keys are in order."""
        topics: dict[str, object] = {}
        for topic in sorted(self.places):
            ledger, entry, index = self.places[topic]
            value: dict[str, object] = {"b": index, "e": entry, "l": ledger}
            if index > 0 and topic in self.sizes:
                value["n"] = self.sizes[topic]
            if topic in self.holds:
                value["h"] = list(self.holds[topic][:2])
            topics[topic] = dict(sorted(value.items()))
        return {"topics": topics, "v": _VERSION}

    def ranges_to(self, end: "Offsets") -> list[Range]:
        """Returns what is between this and a later one, without the ranges that are empty."""
        found: list[Range] = []
        for topic in sorted(end.places):
            start = self.places.get(topic, BEGINNING)
            if start < end.places[topic]:
                found.append((topic, start, end.places[topic]))
        return found


def offsets_of(value: object) -> Offsets:
    """Reads what `to_value` gave, or its JSON. Raises UsageError."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise _bad(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise _bad("not a JSON object")
    if value.get("v") != _VERSION:
        raise _bad(f"version {value.get('v')!r}, this connector reads {_VERSION}")
    topics = value.get("topics")
    if not isinstance(topics, dict):
        raise _bad("`topics` is missing")
    places: dict[str, Place] = {}
    sizes: dict[str, int] = {}
    holds: dict[str, Place] = {}
    for topic, fields in topics.items():
        if not isinstance(topic, str) or not isinstance(fields, dict):
            raise _bad(f"{topic!r:.80} has no place")
        places[topic] = (
            _number(topic, fields.get("l")),
            _number(topic, fields.get("e")),
            _number(topic, fields.get("b")),
        )
        if "n" in fields:
            sizes[topic] = _number(topic, fields["n"])
        if "h" in fields:
            held = fields["h"]
            if not isinstance(held, list) or len(held) != 2:
                raise _bad(f"{topic}: {held!r:.40} is not an entry")
            holds[topic] = (_number(topic, held[0]), _number(topic, held[1]), 0)
    return Offsets(places, sizes, holds)


def _number(topic: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _bad(f"{topic}: {value!r:.40} is not a number")
    return value


def _bad(reason: str) -> UsageError:
    return UsageError(
        f"an offset of the checkpoint cannot be read ({reason}): "
        "was the checkpoint made by this connector?"
    )
