"""Judges of a history: each is a function over facts, and cites the invariant it stands for.

| function        | invariant | says                                                              |
|-----------------|-----------|-------------------------------------------------------------------|
| delivered       | I1, I3    | what has a receipt reached every subscription, unless skipped,    |
|                 |           | and once more after a seek to a place before it                   |
| stays_acked     | I2, I5    | the broker shows no message again whose ack it confirmed, that it |
|                 |           | skipped, or that is before the place it sought                    |
| acked_once      | I2        | a program does not see a message again that it acked with success |
| settled         | I2        | the same while an ack is on its way, where acks are retried       |
| patient         | I2        | an ack is not given up sooner than its options say                |
| ack_taken_back  | I1        | an ack that was refused, or of a message that the program refused |
|                 |           | before the ack was under way, is not sent with that of another    |
| taken_back      | I5        | a program is not handed what was skipped and given back           |
| sought          | I5        | a program sees nothing from before a place that it sought         |
| permitted       | I3        | no consumer is sent more than it asked for                        |
| answered        | I3        | every ACK that asks for an answer gets one (upstream 23261)       |
| in_order        | I4        | the broker's first deliveries are in order: per topic where one   |
|                 |           | consumer is active, per key on Key_Shared                         |
| one_holder      | I4        | a key is with one consumer of a Key_Shared subscription at a time |
| chunk_order     | I6        | a consumer is sent the chunks of a message in order               |
| published_order | I4        | receipts of one producer are in the order of its sends            |
| counted         | I7        | counters equal those of a plain set                               |
| one_name        | I9        | a place names one message                                         |
| bounded         | I10       | no event of a peer costs more, and no more waits for a peer, than |
|                 |           | the limits say                                                    |
| all_or_nothing  | I11       | a committed transaction's messages are there, and what it acked   |
|                 |           | is not done again                                                 |
| isolated        | I11       | nobody receives what is not committed, nor what was aborted       |
| truthful        | I11       | who is told how a transaction ended is told what the log has      |
| pending         | I11       | what a committed transaction acked is not sent any more           |
| whole           | I6        | what is received was sent so; a part of a message is none         |
| stored_once     |           | with deduplication a message is stored once                       |
| sent_once       | I11       | the same of what is sent in transactions                          |

The broker's part is judged by what it heard and said (`wiretap.py`), the client's by what
the program saw. Those of acks are in `ack_checkers.py`, those of transactions in
`transaction_checkers.py`; what a seek changes is in `seeks.py`.
"""

from collections.abc import Callable, Iterable
from typing import Final

from magnetar.testing.checker.ack_checkers import (
    Acked,
    Bits,
    ack_taken_back,
    acked_once,
    bits_of,
    patient,
    settled,
    sought,
    stays_acked,
)
from magnetar.testing.checker.chunk_facts import ChunkFacts
from magnetar.testing.checker.history import (
    AckAnswered,
    AckAsked,
    AckCame,
    Counted,
    Dismissed,
    Dispatched,
    Granted,
    History,
    LineEnded,
    Nacked,
    Opened,
    Place,
    Quiet,
    Received,
    RedeliverCame,
    ResetCame,
    Sent,
    SkipAsked,
    Skipped,
    Sought,
    Stored,
    Subscribed,
    Turn,
    TxnAckCame,
)
from magnetar.testing.checker.recall_checker import taken_back
from magnetar.testing.checker.seeks import NOWHERE, Line, Seats, Seek, Seeks, Where
from magnetar.testing.checker.transaction_checkers import (
    Transactions,
    all_or_nothing,
    isolated,
    pending,
    sent_once,
    truthful,
)
from magnetar.testing.checker.violation import Violation, ViolationError

__all__ = [
    "CHECKERS",
    "Checker",
    "Violation",
    "ViolationError",
    "ack_taken_back",
    "acked_once",
    "all_or_nothing",
    "answered",
    "bounded",
    "check",
    "chunk_order",
    "counted",
    "delivered",
    "in_order",
    "isolated",
    "one_holder",
    "one_name",
    "patient",
    "pending",
    "permitted",
    "published_order",
    "sent_once",
    "settled",
    "sought",
    "stays_acked",
    "stored_once",
    "taken_back",
    "truthful",
    "undelivered",
    "unreturned",
    "whole",
]

Entry = tuple[int, int]
SINGLE: Final = ("Exclusive", "Failover")
KEY_SHARED: Final = "KeyShared"
# Behind all there are.
UNKNOWN_LEDGER: Final = 1 << 62
# Before all there are.
NO_PLACE: Final = Place(-1, -1)

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

    For histories that end when nothing is left to do. After a seek all of that comes again,
    from its target on.
    """
    for subscription, stored in undelivered(history):
        yield Violation("I1", f"{stored} never reached {subscription}")


def undelivered(history: History) -> Iterable[tuple[str, Stored]]:
    """Yields what has a receipt and did not reach a subscription yet, or not since the last
    seek."""
    seeks, chunks = history.view(Seeks), history.view(ChunkFacts)
    opened = {fact.subscription: None for fact in history.of(Opened)}
    sent = {(fact.producer, fact.number): fact for fact in history.of(Sent)}
    # Which fact told of it last.
    arrived: dict[tuple[str, Place | bytes], int] = {}
    for at, fact in history.among(Received, SkipAsked, Skipped):
        if isinstance(fact, Received):
            arrived[fact.subscription, fact.place] = at
            arrived[fact.subscription, fact.payload] = at
        elif isinstance(fact, (SkipAsked, Skipped)):
            arrived.update({(fact.subscription, place): at for place in fact.places})
    spared: dict[Seek, _Spared] = {}
    transactions = history.view(Transactions)
    for stored in history.of(Stored):
        if not transactions.counts(stored):
            continue
        message = sent[stored.producer, stored.number]
        # A broker that deduplicates may not say where the message is.
        vague = stored.split or stored.place.ledger < 0
        what = message.payload if vague else stored.place
        topic = _topic_of(message, stored)
        for subscription in opened:
            seek = seeks.last_done((topic, subscription))
            since = -1 if seek is None or stored.place.ledger < 0 else seek.came
            if arrived.get((subscription, what), -1) > since:
                continue
            if stored.split and (subscription, stored.place) in arrived:
                continue  # It was skipped: consumers are named other things by it.
            later = seeks.unknown_since((topic, subscription), since)
            if any(one.passes(stored.place) for one in later):
                continue
            if seek is not None:
                if seek not in spared:
                    spared[seek] = _Spared(history, seeks, seek, list(opened))
                if seek.passes(stored.place) or spared[seek].has(stored.place):
                    continue
                first = chunks.first(stored.place) if stored.split else stored.place
                if first is None or spared[seek].has(first):
                    continue  # Its beginning may be gone, and with it all of it.
            yield subscription, stored


def _topic_of(message: Sent, stored: Stored) -> str:
    if stored.partition < 0:
        return message.topic
    return f"{message.topic}-partition-{stored.partition}"


class _Spared:
    """What needs not come again after a seek.

    - What programs acked after it.
    - What may be gone: ledgers of which every subscription has acked everything before it, or
      sought past it.
    """

    def __init__(
        self, history: History, seeks: Seeks, seek: Seek, subscriptions: list[str]
    ) -> None:
        self._acked: Final = Acked()
        topic, subscription = seek.where
        before = {name: Acked() for name in subscriptions}
        for one in seeks.came.values():
            # A reader's own subscription holds nothing up.
            if one.where[1] not in before:
                continue
            if one.where[0] == topic and one is not seek and one.came < seek.ended:
                before[one.where[1]].begin(one.target or Place(UNKNOWN_LEDGER, 0))
        seats = Seats()
        acks = (AckAsked, AckCame, TxnAckCame)
        for at, fact in history.among(Subscribed, *acks, SkipAsked, Skipped):
            seats.take(fact)
            if isinstance(fact, AckAsked) and at > seek.ended:
                # Places of other topics do no harm; a cumulative ack of one would.
                if fact.subscription == subscription and (
                    not fact.cumulative or fact.topic == topic
                ):
                    self._acked.ask(fact)
            elif isinstance(fact, (AckCame, TxnAckCame)):
                line = (fact.line, fact.consumer)
                where = seats.topic.get(line, NOWHERE)
                if at < seek.ended and where[0] == topic and where[1] in before:
                    before[where[1]].ack(fact.entries, cumulative=fact.cumulative)
            elif isinstance(fact, (SkipAsked, Skipped)) and at < seek.ended and fact.topic == topic:
                before[fact.subscription].ack(bits_of(fact.places), cumulative=False)
        sent = {(fact.producer, fact.number): fact for fact in history.of(Sent)}
        transactions = history.view(Transactions)
        self._ledger: Final = min(
            (
                stored.place.ledger
                for stored in history.of(Stored)
                if _topic_of(sent[stored.producer, stored.number], stored) == topic
                and stored.place.ledger >= 0
                and transactions.counts(stored)
                and not all(acked.has(stored.place) for acked in before.values())
            ),
            default=UNKNOWN_LEDGER,
        )

    def has(self, place: Place) -> bool:
        return place.ledger < self._ledger or self._acked.has(place)


# What tells of messages that programs refused.
OF_REFUSALS: Final = (Nacked, Received, AckAsked, SkipAsked, Skipped, Sought, ResetCame)


def unreturned(history: History) -> Iterable[Nacked]:
    """Yields what a program refused and nobody received since, or acked at any time.

    A seek decides what comes of all that was received before it, whoever refuses it then; and
    of what was sent before it and waited in a consumer's queue meanwhile.
    """
    waiting: dict[tuple[str, Place], Nacked] = {}
    topics: dict[Place, str] = {}
    acked: set[tuple[str, Place]] = set()
    # By subscription and topic: how far somebody acked.
    through: dict[tuple[str, str], Place] = {}
    current: set[tuple[str, Place]] = set()
    for _, fact in history.among(*OF_REFUSALS):
        if isinstance(fact, Nacked):
            key = (fact.subscription, fact.place)
            if key in current and key not in acked:
                waiting[key] = fact
        elif isinstance(fact, Received):
            topics[fact.place] = fact.topic
            current.add((fact.subscription, fact.place))
            waiting.pop((fact.subscription, fact.place), None)
        elif isinstance(fact, AckAsked) and fact.cumulative:
            where = (fact.subscription, fact.topic)
            through[where] = max(through.get(where, NO_PLACE), fact.places[0])
        elif isinstance(fact, (AckAsked, SkipAsked, Skipped)):
            for place in fact.places:
                acked.add((fact.subscription, place))
                waiting.pop((fact.subscription, place), None)
        elif isinstance(fact, (Sought, ResetCame)):
            waiting = {key: nack for key, nack in waiting.items() if key[0] != fact.subscription}
            current = {key for key in current if key[0] != fact.subscription}
    for (name, place), nack in waiting.items():
        topic = topics[place]
        if place > through.get((name, topic), NO_PLACE) and not _left_out(
            history, (topic, name), place
        ):
            yield nack


def _left_out(history: History, where: Where, place: Place) -> bool:
    """Returns whether a seek may have passed a message over, and the broker did not send it
    since."""
    seeks = history.view(Seeks)
    last = seeks.last_done(where)
    passed = [] if last is None else [last]
    passed += seeks.unknown_since(where, -1 if last is None else last.came)
    passed = [seek for seek in passed if seek.passes(place)]
    if not passed:
        return False
    dispatches = history.view(_Dispatches)
    return dispatches.last.get((where, place.ledger, place.entry), -1) < passed[-1].ended


class _Dispatches:
    """Which fact told last that the broker wrote an entry to a consumer of a subscription."""

    def __init__(self, history: History) -> None:
        self.last: Final[dict[tuple[Where, int, int], int]] = {}
        seats = Seats()
        for at, fact in history.among(Subscribed, Dispatched):
            seats.take(fact)
            if isinstance(fact, Dispatched):
                where = seats.topic.get((fact.line, fact.consumer), NOWHERE)
                self.last[where, fact.ledger, fact.entry] = at


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
    waiting: dict[tuple[int, int, int], AckCame | TxnAckCame] = {}
    for fact in history.facts:
        if isinstance(fact, (AckCame, TxnAckCame)) and fact.request >= 0:
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
    seats, seeks, chunks = Seats(), history.view(Seeks), history.view(ChunkFacts)
    seen: dict[Where, dict[Entry, None]] = {}
    last: dict[tuple[str, str, bytes], Entry] = {}
    # What came while a seek was under way, perhaps already from where it leads to.
    during: dict[Where, dict[Entry, None]] = {}
    # Seeks of which nobody knows whether they were done. What comes next may tell.
    perhaps: dict[Where, Seek] = {}
    for at, fact in enumerate(history.facts):
        seats.take(fact)
        if at in seeks.came:
            seek = seeks.came[at]
            perhaps.pop(seek.where, None)
            if seek.done:
                during[seek.where] = {}
            else:
                perhaps[seek.where] = seek
        for seek in seeks.ended.get(at, []):
            if seek.done:
                seen[seek.where] = during.pop(seek.where, {})
                for key in [key for key in last if key[:2] == seek.where]:
                    del last[key]
        if not isinstance(fact, Dispatched) or fact.delayed:
            continue
        where = seats.topic[fact.line, fact.consumer]
        type = seats.type[where]
        if type not in SINGLE and type != KEY_SHARED:
            continue
        entry = (fact.ledger, fact.entry)
        if where in during:
            during[where][entry] = None
            continue
        if entry in seen.setdefault(where, {}):
            continue
        seen[where][entry] = None
        key = (*where, b"" if type in SINGLE else fact.key)
        before = last.get(key, (-1, -1))
        if entry < before and where in perhaps and _leads_to(perhaps[where], fact, chunks):
            del perhaps[where]
            seen[where] = {entry: None}
            for old in [old for old in last if old[:2] == where]:
                del last[old]
        elif entry < before:
            yield Violation("I4", f"{fact} came to {where} for the first time after {before}")
        last[key] = max(last.get(key, entry), entry)


def _leads_to(seek: Seek, fact: Dispatched, chunks: ChunkFacts) -> bool:
    """Returns whether what was handed out may come after a seek.

    Chunks in front of its target do, if their message ends behind it or nobody knows where.
    """
    if fact.chunk < 0:
        return not seek.passes(Place(fact.ledger, fact.entry))
    end = chunks.end((fact.ledger, fact.entry))
    return end is None or not seek.passes(Place(*end))


def one_holder(history: History) -> Iterable[Violation]:
    """I4: entries of a key are with one consumer at a time; the next waits until it let go."""
    seats, held, chunks = Seats(), _Held(), ChunkFacts(history)
    outcome = history.view(Transactions).outcome
    for fact in history.facts:
        seats.take(fact)
        if isinstance(fact, (AckCame, TxnAckCame)):
            line = (fact.line, fact.consumer)
            where, acked = seats.topic.get(line, NOWHERE), list(chunks.acked(fact))
            held.ack(where, acked)
            if isinstance(fact, TxnAckCame) and outcome.get(f"(0,{fact.number})") != "committed":
                held.will_give_back(where, line, acked)
        elif isinstance(fact, Skipped):
            held.ack((fact.topic, fact.subscription), chunks.bits(fact.places))
        elif isinstance(fact, SkipAsked):
            held.doubt((fact.topic, fact.subscription), chunks.bits(fact.places))
        elif isinstance(fact, RedeliverCame):
            line = (fact.line, fact.consumer)
            held.give_back(seats.topic.get(line, NOWHERE), line, fact.entries, chunks)
        elif isinstance(fact, (Dismissed, Subscribed)):
            held.forget(fact.line, fact.consumer)
        elif isinstance(fact, LineEnded):
            held.forget(fact.line)
        elif isinstance(fact, Dispatched):
            where = seats.topic[fact.line, fact.consumer]
            if seats.type[where] != KEY_SHARED:
                continue
            others = held.take(where, fact)
            if others:
                yield Violation("I4", f"{fact} of {where}: {others} hold entries of its key")


class _Held:
    """Which consumers hold what: of each key, the entries of which something is unacked."""

    def __init__(self) -> None:
        self._held: Final[dict[Where, dict[bytes, dict[Line, dict[Entry, int]]]]] = {}
        # An ack counts whoever sends it, and also if it comes before the entry goes out again.
        self._left: Final[dict[tuple[Where, Entry], int]] = {}
        # The same of skips that were asked for: what may be left is what others may hold.
        self._certain: Final[dict[tuple[Where, Entry], int]] = {}
        # What a consumer gives back at some time, for it acked a part of it in a transaction
        # that is aborted.
        self._going: Final[set[tuple[Where, Line, Entry]]] = set()

    def take(self, where: Where, fact: Dispatched) -> list[Line]:
        """Notes that a consumer is handed an entry; returns who else holds entries of its key."""
        line, entry = (fact.line, fact.consumer), (fact.ledger, fact.entry)
        holders = self._held.setdefault(where, {}).setdefault(fact.key, {})
        self._going.discard((where, line, entry))
        left = fact.unacked & self._left.get((where, entry), -1)
        if left:
            holders.setdefault(line, {})[entry] = left
        return [
            other
            for other, entries in holders.items()
            if other != line and any(self._is_held(where, other, *one) for one in entries.items())
        ]

    def _is_held(self, where: Where, line: Line, entry: Entry, left: int) -> bool:
        if (where, line, entry) in self._going:
            return False
        return bool(left & self._certain.get((where, entry), -1))

    def will_give_back(self, where: Where, line: Line, entries: Iterable[Bits]) -> None:
        """A consumer acked a part of them, and that comes to nothing."""
        for ledger, number, _ in entries:
            self._going.add((where, line, (ledger, number)))

    def doubt(self, where: Where, entries: Iterable[Bits]) -> None:
        """Somebody asked for these to be skipped: they may be let go of at any time."""
        for ledger, number, left in entries:
            at = (where, (ledger, number))
            self._certain[at] = self._certain.get(at, -1) & left

    def ack(self, where: Where, entries: Iterable[Bits]) -> None:
        for ledger, number, left in entries:
            entry = (ledger, number)
            self._left[where, entry] = self._left.get((where, entry), -1) & left
            for holders in self._held.get(where, {}).values():
                for mine in holders.values():
                    if entry in mine:
                        mine[entry] &= left
                        if mine[entry] == 0:
                            del mine[entry]

    def give_back(
        self, where: Where, line: Line, entries: Iterable[Entry], chunks: ChunkFacts
    ) -> None:
        """A consumer wants entries again; none named is all."""
        named = set(entries)
        for holders in self._held.get(where, {}).values():
            mine = holders.get(line, {})
            for entry in chunks.with_others(named, mine) if named else list(mine):
                mine.pop(entry, None)

    def forget(self, line: int, consumer: int | None = None) -> None:
        """A consumer of a connection is gone, or all of them."""
        for keys in self._held.values():
            for holders in keys.values():
                for one in [one for one in holders if one[0] == line]:
                    if consumer in (None, one[1]):
                        del holders[one]


def chunk_order(history: History) -> Iterable[Violation]:
    """I6: a consumer is sent the chunks of a message in order, or it could not use them.

    Of a copy of the message, which is another one, and for the first time: what it gives back
    comes again, and where one consumer is active at a time, so does what it had when it was.
    """
    chunks = ChunkFacts(history)
    # By consumer and copy: the chunks that it was sent, each with its number. One that a producer
    # sent again may stand alone behind its message: it has no order with what has its number.
    sent: dict[tuple[Line, Entry], dict[Entry, int]] = {}
    for fact in history.facts:
        if isinstance(fact, Subscribed):
            line = (fact.line, fact.consumer)
            sent = {key: entries for key, entries in sent.items() if key[0] != line}
        elif isinstance(fact, Dispatched) and fact.chunk >= 0:
            entry = (fact.ledger, fact.entry)
            copy = ((fact.line, fact.consumer), min(chunks.whole(entry)))
            before = sent.setdefault(copy, {})
            later = [one for one, number in before.items() if entry < one and fact.chunk < number]
            if entry not in before and later:
                yield Violation("I6", f"{fact} was sent after {max(later)}, which it precedes")
            before[entry] = fact.chunk


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


# ---- I10: limits -------------------------------------------------------------


def bounded(history: History) -> Iterable[Violation]:
    """I10: no event of a peer costs more than a turn may, and no outbox grows beyond its limit."""
    for fact in history.of(Turn):
        if fact.cost > fact.cost_max:
            yield Violation("I10", f"{fact.peer} had a turn of {fact.cost} units")
        if fact.waiting > fact.waiting_max:
            yield Violation("I10", f"{fact.waiting} bytes wait for {fact.peer}")


CHECKERS: Final[tuple[Checker, ...]] = (
    one_name,
    whole,
    delivered,
    stays_acked,
    taken_back,
    acked_once,
    settled,
    patient,
    ack_taken_back,
    sought,
    permitted,
    answered,
    in_order,
    one_holder,
    chunk_order,
    published_order,
    counted,
    bounded,
    all_or_nothing,
    isolated,
    truthful,
    pending,
)
"""The checkers for every history; brokers that deduplicate have `stored_once`, `sent_once` too."""
