"""What happened in a simulation, as facts: who sent, received, acked and was told what.

Workloads write facts and judge nothing; checkers (`checkers.py`) read them and simulate
nothing. A fact is a small value without a time of its own: facts stand in the order in which
they became known, and each adds a line with its time to the trace of the loop.

| written by               | facts                                                              |
|--------------------------|--------------------------------------------------------------------|
| a recorded producer      | Sent, Stored, SendFailed, TxnSent                                  |
| a recorded consumer      | Opened, Received, AckAsked, AckKept, AckFailed, AckGivenUp,        |
|                          | Nacked, Sought, Left, TxnAckAsked                                  |
| a program, in its        | TxnOutput, TxnEndAsked, TxnEndTold                                 |
| transactions             |                                                                    |
| the wiretap              | Subscribed, Granted, Dispatched, AckCame, AckAnswered, SeekCame,   |
|                          | SeekAnswered, RedeliverCame, Dismissed, LineEnded, TxnAckCame      |
| whoever looks on         | SkipAsked, Skipped, Recalled, ResetCame, ResetEnded, Counted,      |
|                          | Quiet, TxnFound, TxnRead                                           |
| the broker, if asked to  | Turn                                                               |

A `Place` is a ledger, an entry and an index in its batch, -1 where it is none. Ledgers are
numbered for the whole broker, so a place needs no topic.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final, TypeVar, cast

from magnetar.model import MessageId
from magnetar.testing.sim.trace import fingerprint

if TYPE_CHECKING:
    from magnetar.testing.sim.loop import SimLoop

__all__ = [
    "AckAnswered",
    "AckAsked",
    "AckCame",
    "AckFailed",
    "AckGivenUp",
    "AckKept",
    "Counted",
    "Dismissed",
    "Dispatched",
    "Fact",
    "Granted",
    "History",
    "Left",
    "LineEnded",
    "Nacked",
    "Opened",
    "Place",
    "Quiet",
    "Recalled",
    "Received",
    "RedeliverCame",
    "ResetCame",
    "ResetEnded",
    "SeekAnswered",
    "SeekCame",
    "SendFailed",
    "Sent",
    "SkipAsked",
    "Skipped",
    "Sought",
    "Stored",
    "Subscribed",
    "Turn",
    "TxnAckAsked",
    "TxnAckCame",
    "TxnEndAsked",
    "TxnEndTold",
    "TxnFound",
    "TxnOutput",
    "TxnRead",
    "TxnSent",
    "place_of",
]


@dataclass(frozen=True, order=True, slots=True)
class Place:
    """Where a message is stored."""

    ledger: int
    entry: int
    index: int = -1


def place_of(id: MessageId) -> Place:
    return Place(id.ledger_id(), id.entry_id(), id.batch_index())


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that happened."""


# ---- Producers ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sent(Fact):
    """A program gave a message to its producer, as the `number`-th."""

    producer: str
    number: int
    topic: str
    payload: bytes
    key: str
    delayed: bool


@dataclass(frozen=True, slots=True)
class Stored(Fact):
    """The producer was told that a message is kept, and where.

    A split message may be there twice, in part, and consumers name it by the other one.
    """

    producer: str
    number: int
    place: Place
    partition: int
    split: bool = False


@dataclass(frozen=True, slots=True)
class SendFailed(Fact):
    producer: str
    number: int
    error: str


@dataclass(frozen=True, slots=True)
class TxnSent(Fact):
    """What the producer sends as its `number`-th is part of a transaction."""

    txn: str
    producer: str
    number: int


# ---- Consumers ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Opened(Fact):
    """A program has a consumer. `retries` says that acks are tried again until they are kept."""

    consumer: str
    subscription: str
    type: str
    receipts: bool
    retries: bool


@dataclass(frozen=True, slots=True)
class Received(Fact):
    """A program was handed a message."""

    consumer: str
    subscription: str
    topic: str
    place: Place
    size: int
    payload: bytes
    key: str
    redelivery_count: int


@dataclass(frozen=True, slots=True)
class AckAsked(Fact):
    """A program acks messages, or with `cumulative` all of a topic through one."""

    consumer: str
    subscription: str
    number: int
    places: tuple[Place, ...]
    cumulative: bool
    topic: str


@dataclass(frozen=True, slots=True)
class TxnAckAsked(Fact):
    """A program acks messages in a transaction. A cumulative ack names all that it is to ack."""

    txn: str
    consumer: str
    subscription: str
    places: tuple[Place, ...]
    cumulative: bool


@dataclass(frozen=True, slots=True)
class AckKept(Fact):
    """The program was told that the ack is kept."""

    consumer: str
    number: int


@dataclass(frozen=True, slots=True)
class AckFailed(Fact):
    consumer: str
    number: int
    error: str


@dataclass(frozen=True, slots=True)
class AckGivenUp(Fact):
    """The program was told that acks are not tried again: after how long, and the least that
    their options allow. A time of -1 is not known."""

    consumer: str
    places: tuple[Place, ...]
    error: str
    tried_ms: int
    least_ms: int


@dataclass(frozen=True, slots=True)
class Nacked(Fact):
    """A program refuses a message; `unsent` says that an ack of it was asked for before, and
    is not on its way yet."""

    consumer: str
    subscription: str
    place: Place
    unsent: bool = False


@dataclass(frozen=True, slots=True)
class Sought(Fact):
    """A program moves its subscription; `stage` is asked, done or failed.

    `first` is the first place of the topic that may come now. A seek that is of all topics, or
    to a time, names no topic, and nothing is known of that.
    """

    consumer: str
    subscription: str
    stage: str
    topic: str = ""
    first: Place = Place(-1, -1)


@dataclass(frozen=True, slots=True)
class Left(Fact):
    """A program closed its consumer."""

    consumer: str


# ---- Transactions ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TxnOutput(Fact):
    """A program sends something in a transaction that nobody else ever sends."""

    txn: str
    topic: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class TxnEndAsked(Fact):
    txn: str
    commit: bool


@dataclass(frozen=True, slots=True)
class TxnEndTold(Fact):
    """What the program was told: committed, aborted or unknown."""

    txn: str
    outcome: str


@dataclass(frozen=True, slots=True)
class TxnFound(Fact):
    """How a transaction ended, by the broker's log: committed, aborted or unknown."""

    txn: str
    outcome: str


@dataclass(frozen=True, slots=True)
class TxnRead(Fact):
    """A reader of the outputs was handed this."""

    topic: str
    payload: bytes
    place: Place


# ---- On the wire, seen from the broker ---------------------------------------


@dataclass(frozen=True, slots=True)
class Subscribed(Fact):
    """A consumer asks to be let in; a line is one connection."""

    line: int
    consumer: int
    topic: str
    subscription: str
    type: str
    name: str


@dataclass(frozen=True, slots=True)
class Granted(Fact):
    line: int
    consumer: int
    permits: int


@dataclass(frozen=True, slots=True)
class Dispatched(Fact):
    """The broker wrote an entry to a consumer; `unacked` has a bit for each message shown.

    Of a message in chunks it is one: `uuid` tells which message, `chunk` which of how many.
    """

    line: int
    consumer: int
    ledger: int
    entry: int
    unacked: int
    key: bytes
    delayed: bool
    uuid: str = ""
    chunk: int = -1
    chunks: int = 0


@dataclass(frozen=True, slots=True)
class AckCame(Fact):
    """An ACK reached the broker: for each entry what it leaves unacked, 0 if nothing.

    A `request` of -1 asks for no answer. `whole` has those of them that stand for all chunks of
    their message.
    """

    line: int
    consumer: int
    request: int
    entries: tuple[tuple[int, int, int], ...]
    cumulative: bool
    whole: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class TxnAckCame(Fact):
    """An ACK in a transaction reached the broker: the same fields, and the transaction's number."""

    line: int
    consumer: int
    request: int
    entries: tuple[tuple[int, int, int], ...]
    cumulative: bool
    whole: tuple[tuple[int, int], ...]
    number: int


@dataclass(frozen=True, slots=True)
class AckAnswered(Fact):
    line: int
    consumer: int
    request: int
    error: str


@dataclass(frozen=True, slots=True)
class SeekCame(Fact):
    """A consumer wants its subscription to begin at a place; None is a time, or the end."""

    line: int
    consumer: int
    request: int
    target: Place | None = Place(-1, -1)


@dataclass(frozen=True, slots=True)
class SeekAnswered(Fact):
    """The broker's word on a seek; `error` is the name of a ServerError, or empty."""

    line: int
    request: int
    error: str


@dataclass(frozen=True, slots=True)
class RedeliverCame(Fact):
    """A consumer wants entries again; none named is all."""

    line: int
    consumer: int
    entries: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Dismissed(Fact):
    """A consumer of a line is no more: it left, or the broker closed it."""

    line: int
    consumer: int


@dataclass(frozen=True, slots=True)
class LineEnded(Fact):
    line: int


# ---- By whoever looks on -----------------------------------------------------


@dataclass(frozen=True, slots=True)
class SkipAsked(Fact):
    """An operator asks for messages to be skipped: they may be from now on, or never.

    The broker acts on it before the operator is told, which is `Skipped`.
    """

    topic: str
    subscription: str
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Recalled(Fact):
    """An operator was told that nobody will be handed these any more, and by all consumers."""

    topic: str
    subscription: str
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Skipped(Fact):
    """An operator was told that messages are skipped on a subscription."""

    topic: str
    subscription: str
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class ResetCame(Fact):
    """An operator wants a subscription to begin at a place; the broker begins with it."""

    number: int
    topic: str
    subscription: str
    target: Place


@dataclass(frozen=True, slots=True)
class ResetEnded(Fact):
    """What the operator was told: `outcome` is done, refused or unknown."""

    number: int
    outcome: str


@dataclass(frozen=True, slots=True)
class Counted(Fact):
    """What the broker counts when all is quiet, and what a plain set gives."""

    topic: str
    subscription: str
    what: str
    counted: int
    expected: int


@dataclass(frozen=True, slots=True)
class Quiet(Fact):
    """Nothing has been under way for a while: what is not answered now never will be."""


@dataclass(frozen=True, slots=True)
class Turn(Fact):
    """What one event of a peer cost the broker, in units, and how many bytes wait for it then.

    Only those are told of that cost more, or let more wait, than any before.
    """

    peer: str
    cost: int
    waiting: int
    cost_max: int
    waiting_max: int


F = TypeVar("F", bound=Fact)
V = TypeVar("V")


class History:
    """Facts in the order in which they became known."""

    def __init__(self, loop: "SimLoop | None" = None) -> None:
        self.facts: Final[list[Fact]] = []
        # The places of the facts of each kind in that list.
        self._places: Final[dict[type[Fact], list[int]]] = {}
        # When each became known, in nanoseconds of the loop.
        self.times: Final[list[int]] = []
        self._loop: Final = loop
        # What was made of the facts, and of how many of them.
        self._views: Final[dict[object, tuple[int, object]]] = {}

    def add(self, fact: Fact) -> None:
        """Adds a fact, at the present moment of the history."""
        self._places.setdefault(type(fact), []).append(len(self.facts))
        self.facts.append(fact)
        self.times.append(0 if self._loop is None else self._loop.now_ns)
        if self._loop is not None and self._loop.trace.written:
            self._loop.note("fact", text_of(fact))

    def of(self, kind: type[F]) -> Iterator[F]:
        """Returns the facts of one kind."""
        facts = self.facts
        return (cast("F", facts[at]) for at in self._places.get(kind, ()))

    def among(self, *kinds: type[Fact]) -> Iterator[tuple[int, Fact]]:
        """Returns the facts of some kinds in their order, each with its place among all facts.

        A history is looked at again and again while it grows, and most of it is of kinds that
        one question is not about.
        """
        facts = self.facts
        places = [at for kind in kinds for at in self._places.get(kind, ())]
        places.sort()
        return ((at, facts[at]) for at in places)

    def view(self, make: "Callable[[History], V]") -> V:
        """Returns what `make` makes of this history: made once, until there are more facts.

        For what several checkers need. Nobody may change it.
        """
        made = self._views.get(make)
        if made is None or made[0] != len(self.facts):
            made = self._views[make] = (len(self.facts), make(self))
        return cast("V", made[1])

    def __len__(self) -> int:
        return len(self.facts)


def text_of(fact: Fact) -> str:
    """Returns a fact as a line that is the same in every process."""
    words = [type(fact).__name__]
    for name in _names(type(fact)):
        words.append(f"{name}={_word(getattr(fact, name))}")
    return " ".join(words)


NAMES: Final[dict[type[Fact], tuple[str, ...]]] = {}


def _names(kind: type[Fact]) -> tuple[str, ...]:
    """Returns what the fields of a kind are called; looked up once."""
    names = NAMES.get(kind)
    if names is None:
        names = NAMES[kind] = tuple(field.name for field in fields(kind))
    return names


def _word(value: object) -> str:
    if type(value) in (int, str, bool):
        return str(value)
    if isinstance(value, bytes):
        return value.decode() if len(value) < 32 and value.isascii() else fingerprint(value)
    if isinstance(value, Place):
        return f"{value.ledger}:{value.entry}:{value.index}"
    if isinstance(value, tuple):
        return "(" + ",".join(_word(one) for one in value) + ")"
    return str(value)
