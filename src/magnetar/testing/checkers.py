"""Judges of a history: each is a function over facts, and cites the invariant it stands for.

| function        | invariant | says                                                              |
|-----------------|-----------|-------------------------------------------------------------------|
| delivered       | I1, I3    | what has a receipt reached every subscription, unless skipped     |
| stays_acked     | I2, I5    | the broker shows no message again whose ack it confirmed, or      |
|                 |           | that it skipped                                                   |
| acked_once      | I2        | a program does not see a message again that it acked with success |
| settled         | I2        | the same while an ack is on its way, where acks are retried       |
| permitted       | I3        | no consumer is sent more than it asked for                        |
| answered        | I3        | every ACK that asks for an answer gets one (upstream 23261)       |
| in_order        | I4        | the broker's first deliveries are in order: per topic where one   |
|                 |           | consumer is active, per key on Key_Shared                         |
| one_holder      | I4        | a key is with one consumer of a Key_Shared subscription at a time |
| published_order | I4        | receipts of one producer are in the order of its sends            |
| counted         | I7        | counters equal those of a plain set                               |
| one_name        | I9        | a place names one message                                         |
| whole           | I6        | what is received was sent so; a part of a message is none         |
| stored_once     |           | with deduplication a message is stored once                       |

The broker's part is judged by what it heard and said (`wiretap.py`), the client's by what
the program saw. A seek begins anew: what was acked before it may come again.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from magnetar.testing.history import (
    AckAnswered,
    AckAsked,
    AckCame,
    AckFailed,
    AckKept,
    Counted,
    Dismissed,
    Dispatched,
    Fact,
    Granted,
    History,
    LineEnded,
    Nacked,
    Opened,
    Place,
    Quiet,
    Received,
    RedeliverCame,
    SeekAnswered,
    SeekCame,
    Sent,
    Skipped,
    Sought,
    Stored,
    Subscribed,
)

__all__ = [
    "CHECKERS",
    "Checker",
    "Violation",
    "ViolationError",
    "acked_once",
    "answered",
    "check",
    "counted",
    "delivered",
    "in_order",
    "one_holder",
    "one_name",
    "permitted",
    "published_order",
    "settled",
    "stays_acked",
    "stored_once",
    "undelivered",
    "unreturned",
    "whole",
]

Line = tuple[int, int]  # a consumer of a connection
Entry = tuple[int, int]
SINGLE: Final = ("Exclusive", "Failover")
KEY_SHARED: Final = "KeyShared"
# More are of no use to the one who reads them.
VIOLATIONS_SHOWN: Final = 10


@dataclass(frozen=True)
class Violation:
    """Something that must not be."""

    invariant: str
    text: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.text}"


class ViolationError(AssertionError):
    """A history in which an invariant does not hold."""

    def __init__(self, violations: list[Violation]) -> None:
        shown = "\n".join(f"  {violation}" for violation in violations[:VIOLATIONS_SHOWN])
        super().__init__(f"{len(violations)} violations:\n{shown}")
        self.violations = violations


Checker = Callable[[History], Iterable[Violation]]


def check(history: History, checkers: "Iterable[Checker] | None" = None) -> None:
    """Raises ViolationError unless every checker is content."""
    chosen = CHECKERS if checkers is None else checkers
    violations = [violation for checker in chosen for violation in checker(history)]
    if violations:
        raise ViolationError(violations)


# ---- I9: names ---------------------------------------------------------------


def one_name(history: History) -> Iterable[Violation]:
    """I9: a place never names two messages, neither in receipts nor in deliveries."""
    sent = {(fact.producer, fact.number): fact.payload for fact in history.of(Sent)}
    named: dict[Place, bytes] = {}
    for fact in history.facts:
        if isinstance(fact, Stored):
            place, payload = fact.place, sent[fact.producer, fact.number]
            if place.ledger < 0:
                continue  # deduplicated: the broker does not say where the first one is
        elif isinstance(fact, Received):
            place, payload = fact.place, fact.payload
        else:
            continue
        before = named.setdefault(place, payload)
        if before != payload:
            yield Violation("I9", f"{place} names {before!r} and {payload!r}")


def whole(history: History) -> Iterable[Violation]:
    """I6: what is received was sent so, every byte of it; a part of a message is none."""
    sent = {fact.payload for fact in history.of(Sent)}
    for fact in history.of(Received):
        if fact.payload not in sent:
            yield Violation("I6", f"{fact} was never sent")


def stored_once(history: History) -> Iterable[Violation]:
    """With deduplication, what a producer sent once is stored once. For unique payloads."""
    places: dict[bytes, Place] = {}
    for fact in history.of(Received):
        before = places.setdefault(fact.payload, fact.place)
        if before != fact.place:
            yield Violation("dedup", f"{fact.payload!r} is stored at {before} and {fact.place}")


# ---- I1, I3: everything arrives ----------------------------------------------


def delivered(history: History) -> Iterable[Violation]:
    """I1, I3: what has a receipt was received on every subscription, unless it was skipped.

    For histories that end when nothing is left to do. A seek may leave messages out.
    """
    for subscription, stored in undelivered(history):
        yield Violation("I1", f"{stored} never reached {subscription}")


def undelivered(history: History) -> Iterable[tuple[str, Stored]]:
    """What has a receipt and did not reach a subscription yet."""
    moved = {fact.subscription for fact in history.of(Sought)}
    opened = {fact.subscription: None for fact in history.of(Opened)}
    payloads = {(fact.producer, fact.number): fact.payload for fact in history.of(Sent)}
    arrived: set[tuple[str, Place | bytes]] = set()
    for fact in history.of(Received):
        arrived |= {(fact.subscription, fact.place), (fact.subscription, fact.payload)}
    for skip in history.of(Skipped):
        arrived |= {(skip.subscription, place) for place in skip.places}
    for stored in history.of(Stored):
        payload = payloads[stored.producer, stored.number]
        # A broker that deduplicates may not say where the message is.
        what = payload if stored.split or stored.place.ledger < 0 else stored.place
        for subscription in opened:
            if (subscription, what) not in arrived and subscription not in moved:
                yield subscription, stored


def unreturned(history: History) -> Iterable[Nacked]:
    """What a program refused and nobody received since, or acked at any time."""
    waiting: dict[tuple[str, Place], Nacked] = {}
    topics: dict[Place, str] = {}
    acked: set[tuple[str, Place]] = set()
    for fact in history.facts:
        if isinstance(fact, Nacked):
            if (fact.subscription, fact.place) not in acked:
                waiting[fact.subscription, fact.place] = fact
        elif isinstance(fact, Received):
            topics[fact.place] = fact.topic
            waiting.pop((fact.subscription, fact.place), None)
        elif isinstance(fact, AckAsked) and fact.cumulative:
            for name, place in list(waiting):
                covered = place <= fact.places[0] and topics[place] == fact.topic
                if name == fact.subscription and covered:
                    del waiting[name, place]
        elif isinstance(fact, (AckAsked, Skipped)):
            for place in fact.places:
                acked.add((fact.subscription, place))
                waiting.pop((fact.subscription, place), None)
        elif isinstance(fact, Sought):
            waiting = {key: nack for key, nack in waiting.items() if key[0] != fact.subscription}
    return waiting.values()


# ---- I2, I5: what is acked stays acked ---------------------------------------


class _Acked:
    """What the broker has confirmed on one topic of one subscription."""

    def __init__(self) -> None:
        self._left: Final[dict[Entry, int]] = {}
        self._through: Entry = (-1, -1)

    def ack(self, entries: "Iterable[tuple[int, int, int]]", *, cumulative: bool) -> None:
        for ledger, entry, left in entries:
            key = (ledger, entry)
            self._left[key] = self._left.get(key, -1) & left
            if cumulative:
                self._through = max(self._through, (ledger, entry - 1))

    def again(self, fact: Dispatched) -> int:
        """The bits of what is shown although it is acked."""
        if (fact.ledger, fact.entry) <= self._through:
            return fact.unacked
        return fact.unacked & ~self._left.get((fact.ledger, fact.entry), -1)


class _Seats:
    """Which consumer of which line belongs to what, and which of its requests wait."""

    def __init__(self) -> None:
        self.topic: dict[Line, tuple[str, str]] = {}
        self.type: dict[tuple[str, str], str] = {}

    def take(self, fact: Fact) -> None:
        if isinstance(fact, Subscribed):
            where = (fact.topic, fact.subscription)
            self.topic[fact.line, fact.consumer] = where
            self.type[where] = fact.type


class _Moves:
    """Seeks: from the time that one comes until it is answered, anything may be meant.

    One that is never answered, since its line ended, may be done or not: nothing is known of
    that subscription any more.
    """

    def __init__(self, seats: _Seats) -> None:
        self._seats: Final = seats
        self._asked: Final[dict[tuple[int, int], tuple[str, str]]] = {}
        self.under_way: Final[dict[tuple[str, str], int]] = {}
        # How often each began or ended to move: what is asked before may be meant before.
        self.count: Final[dict[tuple[str, str], int]] = {}

    def take(self, fact: Fact) -> tuple[str, str] | None:
        """The topic and subscription that begins anew with this fact, if one does."""
        if isinstance(fact, SeekCame):
            where = self._seats.topic[fact.line, fact.consumer]
            self._asked[fact.line, fact.request] = where
            self.under_way[where] = self.under_way.get(where, 0) + 1
            self.count[where] = self.count.get(where, 0) + 1
            return where
        if isinstance(fact, SeekAnswered):
            where = self._asked.pop((fact.line, fact.request))
            self.under_way[where] -= 1
            if self.under_way[where] == 0:
                del self.under_way[where]
            self.count[where] += 1
            return where
        return None


def stays_acked(history: History) -> Iterable[Violation]:
    """I2, I5: an ack that the broker confirmed, or a skip, is not forgotten."""
    seats = _Seats()
    moves = _Moves(seats)
    acked: dict[tuple[str, str], _Acked] = {}
    waiting: dict[tuple[int, int, int], tuple[AckCame, int]] = {}
    for fact in history.facts:
        seats.take(fact)
        moved = moves.take(fact)
        if moved is not None:
            acked.pop(moved, None)
        elif isinstance(fact, AckCame) and fact.request >= 0:
            where = seats.topic.get((fact.line, fact.consumer), ("", ""))
            waiting[fact.line, fact.consumer, fact.request] = (fact, moves.count.get(where, 0))
        elif isinstance(fact, AckAnswered):
            where = seats.topic.get((fact.line, fact.consumer), ("", ""))
            found = waiting.pop((fact.line, fact.consumer, fact.request), None)
            if found is None or fact.error or where in moves.under_way:
                continue
            ack, count = found
            if count == moves.count.get(where, 0):
                acked.setdefault(where, _Acked()).ack(ack.entries, cumulative=ack.cumulative)
        elif isinstance(fact, Skipped):
            where = (fact.topic, fact.subscription)
            if where not in moves.under_way:
                acked.setdefault(where, _Acked()).ack(_bits(fact.places), cumulative=False)
        elif isinstance(fact, Dispatched):
            where = seats.topic[fact.line, fact.consumer]
            again = acked[where].again(fact) if where in acked else 0
            if again:
                yield Violation("I2", f"{fact} shows {again:b} again, which {where} has acked")


def _bits(places: "Iterable[Place]") -> "list[tuple[int, int, int]]":
    return [(p.ledger, p.entry, 0 if p.index < 0 else ~(1 << p.index)) for p in places]


def acked_once(history: History) -> Iterable[Violation]:
    """I2: what a program acked, and was told is kept, it does not see again."""
    return _seen_again(history, pending=False)


def settled(history: History) -> Iterable[Violation]:
    """I2, PIP-377: with retries not even while the ack is on its way."""
    return _seen_again(history, pending=True)


def _seen_again(history: History, *, pending: bool) -> Iterable[Violation]:
    strict = {fact.consumer for fact in history.of(Opened) if fact.retries and pending}
    asked: dict[tuple[str, int], tuple[AckAsked, int]] = {}
    moves: dict[str, int] = {}
    seeking: dict[str, dict[str, None]] = {}
    acked: dict[str, dict[Place, None]] = {}
    through: dict[tuple[str, str], Place] = {}

    def keep(ack: AckAsked, moved: int) -> None:
        if moved != moves.get(ack.subscription, 0) or seeking.get(ack.subscription):
            return  # the subscription was moved meanwhile, or is being moved
        if ack.cumulative:
            key = (ack.consumer, ack.topic)
            through[key] = max(through.get(key, Place(-1, -1)), ack.places[0])
        else:
            acked.setdefault(ack.consumer, {}).update(dict.fromkeys(ack.places))

    for fact in history.facts:
        if isinstance(fact, AckAsked):
            asked[fact.consumer, fact.number] = (fact, moves.get(fact.subscription, 0))
            if fact.consumer in strict:
                keep(*asked[fact.consumer, fact.number])
        elif isinstance(fact, AckKept) and not pending:
            keep(*asked[fact.consumer, fact.number])
        elif isinstance(fact, AckFailed) and fact.consumer in strict:
            acked.pop(fact.consumer, None)
            for key in [key for key in through if key[0] == fact.consumer]:
                del through[key]
        elif isinstance(fact, Sought):
            moves[fact.subscription] = moves.get(fact.subscription, 0) + 1
            under_way = seeking.setdefault(fact.subscription, {})
            under_way[fact.consumer] = None
            if fact.done:
                del under_way[fact.consumer]
            acked.clear()
            through.clear()
        elif isinstance(fact, Received):
            done = fact.place in acked.get(fact.consumer, {})
            last = through.get((fact.consumer, fact.topic), Place(-1, -1))
            if done or fact.place <= last:
                yield Violation("I2", f"{fact.consumer} acked {fact.place} and was handed it again")


# ---- I3: permits and answers -------------------------------------------------


def permitted(history: History) -> Iterable[Violation]:
    """I3: who has no permits is sent nothing."""
    permits: dict[Line, int] = {}
    for fact in history.facts:
        if isinstance(fact, Subscribed):
            permits[fact.line, fact.consumer] = 0
        elif isinstance(fact, Granted):
            permits[fact.line, fact.consumer] = (
                permits.get((fact.line, fact.consumer), 0) + fact.permits
            )
        elif isinstance(fact, Dispatched):
            line = (fact.line, fact.consumer)
            if permits.get(line, 0) <= 0:
                yield Violation("I3", f"{fact} was sent without a permit")
            permits[line] = permits.get(line, 0) - fact.unacked.bit_count()


def answered(history: History) -> Iterable[Violation]:
    """I3: an ACK that asks for an answer has it when all is quiet (upstream 23261)."""
    waiting: dict[tuple[int, int, int], AckCame] = {}
    for fact in history.facts:
        if isinstance(fact, AckCame) and fact.request >= 0:
            waiting[fact.line, fact.consumer, fact.request] = fact
        elif isinstance(fact, AckAnswered):
            waiting.pop((fact.line, fact.consumer, fact.request), None)
        elif isinstance(fact, LineEnded):
            waiting = {key: ack for key, ack in waiting.items() if key[0] != fact.line}
        elif isinstance(fact, Quiet):
            for ack in waiting.values():
                yield Violation("I3", f"{ack} was never answered")
            waiting.clear()


# ---- I4: order ---------------------------------------------------------------


def in_order(history: History) -> Iterable[Violation]:
    """I4: what comes for the first time comes in order; what is delayed has none."""
    seats = _Seats()
    seen: dict[tuple[str, str], dict[Entry, None]] = {}
    last: dict[tuple[str, str, bytes], Entry] = {}
    # What came while a seek was under way, perhaps already from where it leads to.
    during: dict[tuple[str, str], dict[Entry, None]] = {}
    moves = _Moves(seats)
    for fact in history.facts:
        seats.take(fact)
        moved = moves.take(fact)
        if moved is not None and isinstance(fact, SeekAnswered):
            meanwhile = during.pop(moved, {})
            if fact.error:
                seen.setdefault(moved, {}).update(meanwhile)
                continue
            seen[moved] = meanwhile
            for key in [key for key in last if key[:2] == moved]:
                del last[key]
        if not isinstance(fact, Dispatched) or fact.delayed:
            continue
        where = seats.topic[fact.line, fact.consumer]
        type = seats.type[where]
        if type not in SINGLE and type != KEY_SHARED:
            continue
        entry = (fact.ledger, fact.entry)
        if where in moves.under_way:
            during.setdefault(where, {})[entry] = None
            continue
        if entry in seen.setdefault(where, {}):
            continue
        seen[where][entry] = None
        key = (*where, b"" if type in SINGLE else fact.key)
        before = last.get(key, (-1, -1))
        if entry < before:
            yield Violation("I4", f"{fact} came to {where} for the first time after {before}")
        last[key] = max(before, entry)


def one_holder(history: History) -> Iterable[Violation]:
    """I4: entries of a key are with one consumer at a time; the next waits until it let go."""
    seats = _Seats()
    held: dict[tuple[str, str], dict[bytes, dict[Line, dict[Entry, int]]]] = {}

    def forget(match: "Callable[[Line], bool]") -> None:
        for keys in held.values():
            for holders in keys.values():
                for line in [line for line in holders if match(line)]:
                    del holders[line]

    # An ack counts whoever sends it, and also if it comes before the entry goes out once more.
    acked: dict[tuple[tuple[str, str], Entry], int] = {}

    def settle(line: Line, entry: Entry, left: int) -> None:
        where = seats.topic.get(line, ("", ""))
        acked[where, entry] = acked.get((where, entry), -1) & left
        for holders in held.get(seats.topic.get(line, ("", "")), {}).values():
            for entries in holders.values():
                if entry in entries:
                    entries[entry] &= left
                    if entries[entry] == 0:
                        del entries[entry]

    for fact in history.facts:
        seats.take(fact)
        if isinstance(fact, AckCame):
            for ledger, number, left in fact.entries:
                settle((fact.line, fact.consumer), (ledger, number), left)
        elif isinstance(fact, RedeliverCame):
            line = (fact.line, fact.consumer)
            for holders in held.get(seats.topic.get(line, ("", "")), {}).values():
                for entry in list(holders.get(line, {})):
                    if entry in fact.entries or not fact.entries:
                        del holders[line][entry]
        elif isinstance(fact, Skipped):
            for keys in held.get((fact.topic, fact.subscription), {}).values():
                for entries in keys.values():
                    for ledger, number, left in _bits(fact.places):
                        if (ledger, number) in entries:
                            entries[ledger, number] &= left
        elif isinstance(fact, (Dismissed, Subscribed)):
            forget(lambda line, gone=(fact.line, fact.consumer): line == gone)  # type: ignore[misc]
        elif isinstance(fact, LineEnded):
            forget(lambda line, gone=fact.line: line[0] == gone)  # type: ignore[misc]
        elif isinstance(fact, Dispatched):
            line = (fact.line, fact.consumer)
            where = seats.topic[line]
            if seats.type[where] != KEY_SHARED:
                continue
            holders = held.setdefault(where, {}).setdefault(fact.key, {})
            others = [other for other, entries in holders.items() if entries and other != line]
            if others:
                yield Violation("I4", f"{fact} of {where}: {others} hold entries of its key")
            entry = (fact.ledger, fact.entry)
            left = fact.unacked & acked.get((where, entry), -1)
            if left:
                holders.setdefault(line, {})[entry] = left


def published_order(history: History) -> Iterable[Violation]:
    """I4: what one producer sent to one partition, under one key, is stored in that order.

    Under one key, for batches by key and partitions keep no other order.
    """
    sent = {(fact.producer, fact.number): fact for fact in history.of(Sent)}
    last: dict[tuple[str, int, str], tuple[int, Place]] = {}
    for fact in sorted(history.of(Stored), key=lambda fact: (fact.producer, fact.number)):
        if fact.place.ledger < 0:
            continue
        message = sent[fact.producer, fact.number]
        key = (fact.producer, fact.partition, message.key)
        before = last.get(key)
        if before is not None and fact.place <= before[1] and not message.delayed:
            yield Violation("I4", f"{fact} is stored before number {before[0]} at {before[1]}")
        if not message.delayed:
            last[key] = (fact.number, fact.place)


# ---- I7: counters ------------------------------------------------------------


def counted(history: History) -> Iterable[Violation]:
    """I7: what the broker counts is what there is."""
    for fact in history.of(Counted):
        if fact.counted != fact.expected:
            yield Violation(
                "I7",
                f"{fact.what} of {fact.subscription} on {fact.topic} is {fact.counted}, "
                f"a plain set has {fact.expected}",
            )


# For every history; `stored_once` only where the broker deduplicates.
CHECKERS: Final[tuple[Checker, ...]] = (
    one_name,
    whole,
    delivered,
    stays_acked,
    acked_once,
    settled,
    permitted,
    answered,
    in_order,
    one_holder,
    published_order,
    counted,
)
