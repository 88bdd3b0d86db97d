"""Judges of acks: what is acked stays acked, and what a seek brings back comes (I2, I5).

The broker's part is judged by what it heard and said, the client's by what the program saw.
A seek begins anew: what was acked before it may come again, and what is before its target does
not. What is acked after it stays acked like anything else.
"""

from collections.abc import Iterable
from typing import Final

from magnetar.testing.checker.chunk_facts import ChunkFacts
from magnetar.testing.checker.history import (
    AckAnswered,
    AckAsked,
    AckCame,
    AckFailed,
    AckGivenUp,
    AckKept,
    Dispatched,
    History,
    Nacked,
    Opened,
    Place,
    Received,
    SkipAsked,
    Skipped,
    Sought,
)
from magnetar.testing.checker.seeks import NOWHERE, Seats, Seek, Seeks, Where
from magnetar.testing.checker.violation import Violation

__all__ = [
    "Acked",
    "Bits",
    "ack_taken_back",
    "acked_once",
    "bits_of",
    "patient",
    "settled",
    "sought",
    "stays_acked",
]

Bits = tuple[int, int, int]  # a ledger, an entry, and which of its messages are left


def bits_of(places: Iterable[Place]) -> list[Bits]:
    """Acks one by one as they stand on the wire."""
    return [(p.ledger, p.entry, 0 if p.index < 0 else ~(1 << p.index)) for p in places]


class Acked:
    """What was acked on one topic of one subscription."""

    def __init__(self) -> None:
        self._left: Final[dict[tuple[int, int], int]] = {}
        self._through: tuple[int, int] = (-1, -1)
        # What a seek left behind, but for messages in chunks that end later.
        self._passed: tuple[int, int] = (-1, -1)

    def ack(self, entries: Iterable[Bits], *, cumulative: bool) -> None:
        for ledger, entry, left in entries:
            key = (ledger, entry)
            self._left[key] = self._left.get(key, -1) & left
            if cumulative:
                self._through = max(self._through, (ledger, entry - 1))

    def ask(self, ack: AckAsked) -> None:
        """Takes an ack as a program asks for it."""
        if not ack.cumulative:
            self.ack(bits_of(ack.places), cumulative=False)
            return
        place = ack.places[0]
        left = 0 if place.index < 0 else -1 << (place.index + 1)
        self.ack([(place.ledger, place.entry, left)], cumulative=True)

    def begin(self, target: Place) -> None:
        """Takes everything that ends before a place as acked."""
        left = -1 << max(target.index, 0)
        self.ack([(target.ledger, target.entry, left)], cumulative=False)
        self._passed = max(self._passed, (target.ledger, target.entry - 1))

    def take_back(self, place: Place) -> None:
        """A single message is acked no more, unless by a cumulative ack."""
        key = (place.ledger, place.entry)
        if key in self._left:
            self._left[key] |= -1 if place.index < 0 else 1 << place.index

    def again(self, fact: Dispatched, chunks: ChunkFacts) -> int:
        """Returns the bits of what is shown although it is acked."""
        entry = (fact.ledger, fact.entry)
        if entry <= self._through:
            return fact.unacked
        if entry <= self._passed:
            end = chunks.end(entry) if fact.chunk >= 0 else entry
            if end is not None and end <= self._passed:
                return fact.unacked
        return fact.unacked & ~self._left.get(entry, -1)

    def has(self, place: Place) -> bool:
        key = (place.ledger, place.entry)
        return (
            key <= max(self._through, self._passed)
            or not self._left.get(key, -1) >> max(place.index, 0) & 1
        )


# ---- The broker --------------------------------------------------------------


def stays_acked(history: History) -> Iterable[Violation]:
    """I2, I5: an ack that the broker confirmed, a skip and a seek are not forgotten."""
    seats, seeks, chunks = Seats(), history.view(Seeks), history.view(ChunkFacts)
    acked: dict[Where, Acked] = {}
    epochs: dict[Where, int] = {}
    moving: dict[Where, None] = {}
    # When a skip was asked for: one that is answered after a seek may have been done before it.
    asked: dict[tuple[Where, tuple[Place, ...]], int] = {}
    waiting: dict[tuple[int, int, int], tuple[AckCame, int]] = {}
    for at, fact in enumerate(history.facts):
        seats.take(fact)
        if at in seeks.came:
            where = seeks.came[at].where
            epochs[where] = epochs.get(where, 0) + 1
            acked.pop(where, None)
            moving[where] = None
        for seek in seeks.ended.get(at, []):
            moving.pop(seek.where, None)
            if seek.done and seek.target is not None:
                acked.setdefault(seek.where, Acked()).begin(seek.target)
        if isinstance(fact, AckCame) and fact.request >= 0:
            where = seats.topic.get((fact.line, fact.consumer), NOWHERE)
            waiting[fact.line, fact.consumer, fact.request] = (fact, epochs.get(where, 0))
        elif isinstance(fact, AckAnswered):
            where = seats.topic.get((fact.line, fact.consumer), NOWHERE)
            found = waiting.pop((fact.line, fact.consumer, fact.request), None)
            if found is None or fact.error or found[1] != epochs.get(where, 0):
                continue
            ack = found[0]
            acked.setdefault(where, Acked()).ack(chunks.acked(ack), cumulative=ack.cumulative)
        elif isinstance(fact, SkipAsked):
            where = (fact.topic, fact.subscription)
            asked[where, fact.places] = epochs.get(where, 0)
        elif isinstance(fact, Skipped):
            where = (fact.topic, fact.subscription)
            epoch = epochs.get(where, 0)
            if where not in moving and asked.get((where, fact.places), epoch) == epoch:
                acked.setdefault(where, Acked()).ack(chunks.bits(fact.places), cumulative=False)
        elif isinstance(fact, Dispatched):
            where = seats.topic[fact.line, fact.consumer]
            again = acked[where].again(fact, chunks) if where in acked else 0
            if again:
                yield Violation("I2", f"{fact} shows {again:b} again, which {where} has acked")


# ---- Programs ----------------------------------------------------------------


def acked_once(history: History) -> Iterable[Violation]:
    """I2: what a program acked, and was told is kept, it does not see again."""
    return _SeenAgain(history, pending=False).judge()


def settled(history: History) -> Iterable[Violation]:
    """I2, PIP-377: with retries not even while the ack is on its way."""
    return _SeenAgain(history, pending=True).judge()


class _SeenAgain:
    """What each program acked, since the last seek that came to the broker."""

    def __init__(self, history: History, *, pending: bool) -> None:
        self._history: Final = history
        self._pending: Final = pending
        self._seeks: Final = history.view(Seeks)
        self._topics: Final[dict[int, str]] = {}
        self._subscription: Final[dict[str, str]] = {}
        # Those who have their acks retried: an ack counts as soon as it is asked for.
        self._strict: Final[dict[str, None]] = {}
        # Programs in the middle of a seek of their own, which decides what becomes of acks.
        self._seeking: Final[dict[str, None]] = {}
        self._epochs: Final[dict[Where, int]] = {}
        # The epoch that a message is of which a program was handed last, which is when the broker
        # sent it: an ack of one from before a reset is given up, and the program hears of that in
        # a moment.
        self._seats: Final = Seats()
        self._sent: Final[dict[tuple[Where, int, int], int]] = {}
        self._handed: Final[dict[tuple[str, Place], int]] = {}
        self._asked: Final[dict[tuple[str, int], list[tuple[Place, str, int]]]] = {}
        self._cumulative: Final[dict[tuple[str, int], None]] = {}
        self._acked: Final[dict[tuple[str, str], Acked]] = {}

    def judge(self) -> Iterable[Violation]:
        for at, fact in enumerate(self._history.facts):
            self._seats.take(fact)
            if at in self._seeks.came:
                self._begin_anew(self._seeks.came[at])
            elif isinstance(fact, Dispatched):
                where = self._seats.topic.get((fact.line, fact.consumer), NOWHERE)
                self._sent[where, fact.ledger, fact.entry] = self._epochs.get(where, 0)
            elif isinstance(fact, Opened):
                self._subscription[fact.consumer] = fact.subscription
                if fact.retries and self._pending:
                    self._strict[fact.consumer] = None
            elif isinstance(fact, AckAsked):
                self._ask(fact)
            elif isinstance(fact, AckKept) and not self._pending:
                self._keep(fact.consumer, fact.number)
            elif isinstance(fact, Nacked):
                self._refuse(fact)
            elif isinstance(fact, (AckFailed, AckGivenUp)) and fact.consumer in self._strict:
                for key in [key for key in self._acked if key[0] == fact.consumer]:
                    del self._acked[key]
            elif isinstance(fact, Sought):
                if fact.stage == "asked":
                    self._seeking[fact.consumer] = None
                else:
                    self._seeking.pop(fact.consumer, None)
            elif isinstance(fact, Received):
                self._topics[fact.place.ledger] = fact.topic
                where = (fact.topic, fact.subscription)
                sent = (where, fact.place.ledger, fact.place.entry)
                epoch = self._sent.get(sent, self._epochs.get(where, 0))
                self._handed[fact.consumer, fact.place] = epoch
                acked = self._acked.get((fact.consumer, fact.topic))
                if acked is not None and acked.has(fact.place):
                    yield Violation(
                        "I2", f"{fact.consumer} acked {fact.place} and was handed it again"
                    )

    def _begin_anew(self, seek: Seek) -> None:
        topic, subscription = seek.where
        self._epochs[seek.where] = self._epochs.get(seek.where, 0) + 1
        for key in [key for key in self._acked if key[1] == topic]:
            if self._subscription.get(key[0]) == subscription:
                del self._acked[key]

    def _ask(self, fact: AckAsked) -> None:
        if fact.consumer in self._seeking:
            return
        key = (fact.consumer, fact.number)
        self._asked[key] = [self._dated(fact, place) for place in fact.places]
        if fact.cumulative:
            self._cumulative[key] = None
        if fact.consumer in self._strict:
            self._keep(*key)

    def _refuse(self, fact: Nacked) -> None:
        """Who changes his mind may see it again, whichever of the two reached the broker."""
        for key in [key for key in self._acked if key[0] == fact.consumer]:
            self._acked[key].take_back(fact.place)
        for asked in [asked for asked in self._asked if asked[0] == fact.consumer]:
            self._asked[asked] = [one for one in self._asked[asked] if one[0] != fact.place]

    def _dated(self, fact: AckAsked, place: Place) -> tuple[Place, str, int]:
        topic = self._topics.get(place.ledger, fact.topic)
        now = self._epochs.get((topic, fact.subscription), 0)
        return place, topic, self._handed.get((fact.consumer, place), now)

    def _keep(self, consumer: str, number: int) -> None:
        for place, topic, epoch in self._asked.get((consumer, number), []):
            where = (topic, self._subscription.get(consumer, ""))
            if epoch != self._epochs.get(where, 0):
                continue  # the subscription was moved meanwhile
            cumulative = (consumer, number) in self._cumulative
            ack = AckAsked(consumer, where[1], number, (place,), cumulative, topic)
            self._acked.setdefault((consumer, topic), Acked()).ask(ack)


# What a broker says no with, so that nothing of the ack is under way any more.
REFUSALS: Final = (
    "BrokerMetadataError",
    "BrokerPersistenceError",
    "NotAllowedError",
    "ServiceUnitNotReady",
    "UnknownError",
)


def patient(history: History) -> Iterable[Violation]:
    """I2, PIP-377: an ack that is refused is tried for as long as its options say."""
    for fact in history.of(AckGivenUp):
        if fact.error in REFUSALS and 0 <= fact.tried_ms < fact.least_ms:
            yield Violation("I2", f"{fact} was given up too soon")


def ack_taken_back(history: History) -> Iterable[Violation]:
    """I1: an ack that was taken back is not sent with that of another message.

    It is when the broker refused it, or the program refused the message before the ack was
    under way; and until the program acks it once more.
    """
    return _TakenBack(history).judge()


class _TakenBack:
    """What the programs of each name took back. Each seek begins anew."""

    def __init__(self, history: History) -> None:
        self._history: Final = history
        self._seeks: Final = history.view(Seeks)
        self._seats: Final = Seats()
        # Each call, and which fact tells of it.
        self._asked: Final[dict[tuple[str, int], tuple[int, AckAsked]]] = {}
        self._chunks: Final = history.view(ChunkFacts)
        # The last call that acked it.
        self._last: Final[dict[tuple[str, Place], int]] = {}
        self._taken: Final[dict[tuple[str, Place], None]] = {}
        self._waiting: Final[dict[tuple[int, int, int], AckCame]] = {}
        # What the broker has, by subscription: whoever knows that may say it again.
        self._confirmed: Final[dict[str, Acked]] = {}
        # The last seek, which acks what it passes.
        self._sought: Final[dict[Where, Seek]] = {}

    def judge(self) -> Iterable[Violation]:
        for at, fact in enumerate(self._history.facts):
            self._seats.take(fact)
            if at in self._seeks.came:
                self._taken.clear()
                self._confirmed.clear()
                seek = self._seeks.came[at]
                self._sought[seek.where] = seek
            if isinstance(fact, AckAsked):
                self._ask(fact, at)
            elif isinstance(fact, AckFailed) and fact.error in REFUSALS:
                self._failed(fact, at)
            elif isinstance(fact, Nacked) and fact.unsent:
                self._take(fact, [fact.place])
            elif isinstance(fact, AckCame):
                yield from self._came(fact)
            elif isinstance(fact, AckAnswered):
                self._answered(fact)
            elif isinstance(fact, Dispatched):
                self._show(fact)
            elif isinstance(fact, Skipped):
                self._of(fact.subscription).ack(bits_of(fact.places), cumulative=False)

    def _failed(self, fact: AckFailed, at: int) -> None:
        asked_at, asked = self._asked.get((fact.consumer, fact.number), (-1, None))
        if asked is None or asked.cumulative:
            return
        seek = self._sought.get((asked.topic, asked.subscription))
        if seek is not None and asked_at < seek.ended < at:
            # The seek ended it: a part was refused, and another may have been under way.
            return
        places = [p for p in asked.places if self._last[_key(asked, p)] == fact.number]
        self._take(asked, places)

    def _ask(self, fact: AckAsked, at: int) -> None:
        self._asked[fact.consumer, fact.number] = (at, fact)
        self._last.update({_key(fact, place): fact.number for place in fact.places})
        name = _program(fact.consumer)
        # To ack a message in chunks is to ack them all.
        named = dict.fromkeys(fact.places)
        for ledger, entry, _ in self._chunks.bits(fact.places):
            named[Place(ledger, entry)] = None
        for key in list(self._taken):
            again = key[1] <= fact.places[0] if fact.cumulative else key[1] in named
            if key[0] == name and again:
                del self._taken[key]

    def _take(self, fact: AckAsked | Nacked, places: Iterable[Place]) -> None:
        for place in places:
            if not self._of(fact.subscription).has(place):
                self._taken[_key(fact, place)] = None

    def _of(self, subscription: str) -> Acked:
        return self._confirmed.setdefault(subscription, Acked())

    def _came(self, fact: AckCame) -> Iterable[Violation]:
        line = (fact.line, fact.consumer)
        where = self._seats.topic.get(line, NOWHERE)
        subscription, seek = where[1], self._sought.get(where)
        name = self._seats.name.get(line, "")
        acked = Acked()
        acked.ack(fact.entries, cumulative=False)
        for program, place in self._taken:
            if fact.cumulative or program != name or self._of(subscription).has(place):
                continue
            if acked.has(place) and (seek is None or not seek.passes(place)):
                yield Violation("I1", f"{fact} acks {place}, which {name} took back")
        if fact.request < 0:
            self._of(subscription).ack(fact.entries, cumulative=fact.cumulative)
        else:
            self._waiting[fact.line, fact.consumer, fact.request] = fact

    def _show(self, fact: Dispatched) -> None:
        """What the broker leaves out of an entry is acked, and its consumer knows that."""
        where = self._seats.topic.get((fact.line, fact.consumer), NOWHERE)
        self._of(where[1]).ack([(fact.ledger, fact.entry, fact.unacked)], cumulative=False)

    def _answered(self, fact: AckAnswered) -> None:
        ack = self._waiting.pop((fact.line, fact.consumer, fact.request), None)
        if ack is not None and not fact.error:
            where = self._seats.topic.get((fact.line, fact.consumer), NOWHERE)
            self._of(where[1]).ack(ack.entries, cumulative=ack.cumulative)


def _key(fact: AckAsked | Nacked, place: Place) -> tuple[str, Place]:
    return _program(fact.consumer), place


def _program(consumer: str) -> str:
    """Returns who a consumer belongs to, whichever of its lives it is."""
    return consumer.partition(".")[0]


def sought(history: History) -> Iterable[Violation]:
    """I5: whoever was told that a seek is done is handed nothing from before its target.

    Unless another consumer sought meanwhile: then nobody knows whose target it is now.
    """
    seeks = history.view(Seeks)
    subscription = {fact.consumer: fact.subscription for fact in history.of(Opened)}
    first: dict[tuple[str, str], Place] = {}
    # While one is under way: who else moves the subscription.
    movers: dict[tuple[str, str], dict[str, None]] = {}
    for at, fact in enumerate(history.facts):
        if at in seeks.came:
            topic, name = seeks.came[at].where
            for key in [key for key in first if key[1] == topic]:
                if subscription.get(key[0]) == name:
                    del first[key]
            for key, who in movers.items():
                if key[1] == topic and subscription.get(key[0]) == name:
                    who[seeks.came[at].seeker] = None
        elif isinstance(fact, Sought) and fact.topic:
            key = (fact.consumer, fact.topic)
            if fact.stage == "asked":
                movers[key] = {}
            elif len(movers.pop(key, {})) <= 1 and fact.stage == "done":
                first[key] = fact.first
        elif isinstance(fact, Received):
            least = first.get((fact.consumer, fact.topic))
            if least is not None and fact.place < least:
                yield Violation("I5", f"{fact} came after a seek to {least}")
