"""What a program is told to do: who it is, and its roles.

    NAME URL FACT_FILE STOP_FILE ROLE...

    produce:TOPIC:RATE:KEYS             so many messages a second, under so many keys; 0 is none
    consume:TOPIC:SUBSCRIPTION:TYPE     acks one by one; on Exclusive and Failover cumulatively

Producers end when STOP_FILE is there; consumers go on until the program is ended. The programs of
all languages read these words.
"""

from dataclasses import dataclass
from pathlib import Path
from random import Random

__all__ = ["STRIDE", "Consume", "Payloads", "Plan", "Produce"]

NAMESPACE = "persistent://public/default/"
# A cumulative ack for so many messages; for the rest of them when no more come.
STRIDE = 10
# Of the messages that come for the first time, so many are refused.
NACK_SHARE = 0.03
NACK_DELAY_MS = 300
# Brokers here are back in seconds; who waits for a minute has no part in the next trouble.
MAX_BACKOFF_MS = 2000


@dataclass(frozen=True)
class Produce:
    topic: str
    rate: float
    keys: int


@dataclass(frozen=True)
class Consume:
    topic: str
    subscription: str
    type: str

    @property
    def cumulative(self) -> bool:
        return self.type in ("Exclusive", "Failover")


@dataclass(frozen=True)
class Plan:
    name: str
    url: str
    facts: Path
    stop: Path
    roles: tuple[Produce | Consume, ...]

    @property
    def program(self) -> str:
        """The name without its life."""
        return self.name.partition(".")[0]

    def called(self, role: Produce | Consume) -> str:
        return f"{self.name}/{role.topic}"


def parse(words: list[str]) -> Plan:
    name, url, facts, stop, *roles = words
    return Plan(name, url, Path(facts), Path(stop), tuple(map(_role, roles)))


def _role(word: str) -> Produce | Consume:
    kind, topic, *rest = word.split(":")
    if kind == "produce":
        return Produce(topic, float(rest[0]), int(rest[1]))
    return Consume(topic, rest[0], rest[1])


def full(topic: str) -> str:
    return NAMESPACE + topic


class Payloads:
    """Messages of a producer: no two are alike, whoever sent them."""

    def __init__(self, producer: str, keys: int) -> None:
        self._producer = producer
        self._keys = keys
        self._random = Random(producer)
        self.number = -1

    def next(self) -> tuple[int, str, bytes]:
        """A number, a key and a payload."""
        self.number += 1
        key = f"k{self._random.randrange(self._keys)}" if self._keys else ""
        padding = "x" * self._random.randrange(300)
        return self.number, key, f"{self._producer}:{self.number}:{padding}".encode()
