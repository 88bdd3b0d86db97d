"""What must hold of a run, and the table of it. Each check is a function of the facts alone.

**Came back after ack** counts orders that were handed out although their ack was confirmed: by a
later life of the broker, or to the worker that had acked them. What another worker was already
on its way to be given when a confirmation came is at-least-once's business, and not counted.

**Out of order** counts keys. Of each key the order in which its messages were handled first is
looked at: workers refuse (`turns`) what follows a message that is to come again, so this is the
order of sending. Delayed orders have a key each, for their order is their time's.

**Lost** is what the broker confirmed as stored, and nobody handled; but for the two that were
taken out on purpose.
"""

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from examples.demo.facts import (
    Acked,
    BrokerKilled,
    Facts,
    Handed,
    Place,
    Row,
    Sent,
    Skipped,
    SparkKilled,
    WorkerKilled,
)

# As many examples of what is wrong are shown.
SHOWN = 3
# A copy may have been on its way to a worker when the skip was confirmed, and no more than one.
ON_ITS_WAY = 1
REMOVED = ("poison", "cancelled")


class Check(NamedTuple):
    name: str
    holds: bool
    says: str


# ---- What the facts amount to ------------------------------------------------


def sent(facts: Facts) -> list[Sent]:
    return [event for event in facts.events if isinstance(event, Sent)]


def handed(facts: Facts) -> list[Handed]:
    return [event for event in facts.events if isinstance(event, Handed)]


def rows(facts: Facts) -> list[Row]:
    return [event for event in facts.events if isinstance(event, Row)]


def killed(facts: Facts, kind: type[BrokerKilled | WorkerKilled | SparkKilled]) -> int:
    return sum(isinstance(event, kind) for event in facts.events)


def processed(facts: Facts) -> set[tuple[str, int]]:
    """Orders that were handled, once or more often."""
    return {(event.key, event.number) for event in handed(facts) if event.handled}


def confirmed(facts: Facts) -> set[Place]:
    return {event.place for event in facts.events if isinstance(event, Acked)}


def lost(facts: Facts) -> list[str]:
    done = processed(facts)
    return [
        f"{one.key}/{one.number}"
        for one in sent(facts)
        if one.kind not in REMOVED and (one.key, one.number) not in done
    ]


def came_back(facts: Facts) -> list[str]:
    wrong: list[str] = []
    life = 0
    acked: dict[Place, tuple[str, int]] = {}
    for event in facts.events:
        if isinstance(event, BrokerKilled):
            life += 1
        elif isinstance(event, Acked):
            acked.setdefault(event.place, (event.worker, life))
        elif isinstance(event, Handed) and event.place in acked:
            worker, then = acked[event.place]
            if then < life or worker == event.worker:
                wrong.append(f"{event.key}/{event.number} at {event.place} to {event.worker}")
    return wrong


def out_of_order(facts: Facts) -> list[str]:
    """Keys whose messages were not handled in the order of their numbers, the first time."""
    last: dict[str, int] = {}
    seen: set[tuple[str, int]] = set()
    wrong: dict[str, None] = {}
    for event in handed(facts):
        if event.handled and (event.key, event.number) not in seen:
            seen.add((event.key, event.number))
            if event.number < last.get(event.key, -1):
                wrong[event.key] = None
            last[event.key] = event.number
    return list(wrong)


def damaged(facts: Facts) -> list[str]:
    """Orders whose bytes arrived otherwise than they were sent."""
    crcs = {(one.key, one.number): one.crc for one in sent(facts)}
    return [
        f"{event.key}/{event.number}"
        for event in handed(facts)
        if crcs.get((event.key, event.number)) != event.crc
    ]


def early(facts: Facts) -> list[str]:
    """Delayed orders that came before their time."""
    due = {(one.key, one.number): one.due_ms for one in sent(facts) if one.due_ms}
    return [
        f"{event.key} {due[event.key, event.number] - event.at_ms} ms early"
        for event in handed(facts)
        if event.at_ms < due.get((event.key, event.number), 0)
    ]


def after_skip(facts: Facts, kind: str) -> int:
    """How often the order of this kind was handed out after it was skipped; -1 if it was not."""
    places = {one.place for one in sent(facts) if one.kind == kind}
    skipped = False
    count = 0
    for event in facts.events:
        if isinstance(event, Skipped) and event.place in places:
            skipped = True
        elif skipped and isinstance(event, Handed) and event.place in places:
            count += 1
    return count if skipped else -1


# ---- Checks ------------------------------------------------------------------


def everything_was_sent(facts: Facts) -> Check:
    found = {(one.key, one.number) for one in sent(facts)}
    return Check(
        "every order was stored",
        len(found) == facts.planned,
        f"{len(found):,} of {facts.planned:,}",
    )


def nothing_was_lost(facts: Facts) -> Check:
    return _none("nothing was lost", "orders lost", lost(facts))


def everything_is_acked(facts: Facts) -> Check:
    says = f"the broker has {facts.unacked:,} unacked, {len(confirmed(facts)):,} acks confirmed"
    return Check("everything is acked", facts.unacked == 0 and bool(confirmed(facts)), says)


def nothing_came_back(facts: Facts) -> Check:
    return _none("nothing came back after its ack", "orders came back", came_back(facts))


def keys_are_in_order(facts: Facts) -> Check:
    return _none("every key is in order", "keys out of order", out_of_order(facts))


def nothing_was_damaged(facts: Facts) -> Check:
    return _none("every byte arrived, chunks included", "damaged", damaged(facts))


def nothing_was_early(facts: Facts) -> Check:
    return _none("no delayed order was early", "early", early(facts))


def the_poison_is_gone(facts: Facts) -> Check:
    poison = [one for one in sent(facts) if one.kind == "poison"]
    count = after_skip(facts, "poison")
    handled = any((one.key, one.number) in processed(facts) for one in poison)
    done = processed(facts)
    mates = [one for one in sent(facts) if _mates(one, poison)]
    unhandled = [one for one in mates if (one.key, one.number) not in done]
    holds = len(poison) == 1 and 0 <= count <= ON_ITS_WAY and not handled
    says = "it was never skipped" if count < 0 else f"handed out {count} times after its skip"
    says += f", {len(mates) - len(unhandled)} of {len(mates)} others of its batch were handled"
    return Check(
        "the poison message is gone, its batch is not",
        holds and bool(mates) and not unhandled,
        says,
    )


def the_cancelled_never_came(facts: Facts) -> Check:
    orders = [one for one in sent(facts) if one.kind == "cancelled"]
    places = {one.place for one in orders}
    count = sum(event.place in places for event in handed(facts))
    was_due = bool(orders) and all(facts.ended_ms > one.due_ms for one in orders)
    holds = after_skip(facts, "cancelled") == 0 and was_due and count == 0
    when = "its time has passed" if was_due else "its time has not come"
    return Check("the cancelled order never came", holds, f"handed out {count} times, {when}")


def there_was_trouble(facts: Facts) -> Check:
    nacks = sum(not event.handled for event in handed(facts))
    kills = killed(facts, BrokerKilled), killed(facts, WorkerKilled)
    says = f"killed: broker {kills[0]}, workers {kills[1]}, Spark {killed(facts, SparkKilled)}"
    says += f"; {nacks:,} nacks"
    return Check("there was trouble to survive", all(kills) and nacks > 0, says)


def the_lake_is_exact(facts: Facts) -> Check:
    found = Counter(rows(facts))
    wanted = {Row(one.key, one.number, one.crc) for one in sent(facts)}
    twice = sum(found.values()) - len(found)
    missing, unknown = wanted - found.keys(), found.keys() - wanted
    says = f"{len(missing):,} missing, {twice:,} twice, {len(unknown):,} that nobody sent"
    holds = bool(found) and not (twice or missing or unknown)
    return Check("the lake has every order exactly once", holds, says)


def the_archive_is_acked(facts: Facts) -> Check:
    says = f"{facts.unarchived:,} unacked on Spark's subscription"
    return Check("what is archived is acked", facts.unarchived == 0, says)


CHECKS: list[Callable[[Facts], Check]] = [
    everything_was_sent,
    nothing_was_lost,
    everything_is_acked,
    nothing_came_back,
    keys_are_in_order,
    nothing_was_damaged,
    nothing_was_early,
    the_poison_is_gone,
    the_cancelled_never_came,
    there_was_trouble,
    the_lake_is_exact,
    the_archive_is_acked,
]


def judge(facts: Facts) -> list[Check]:
    return [check(facts) for check in CHECKS]


# ---- The table ---------------------------------------------------------------


def figures(facts: Facts) -> list[tuple[str, int, str]]:
    """The table of a run: a name, a number, and what to know of it."""
    all_sent, done = sent(facts), processed(facts)
    all_handed = handed(facts)
    kinds = Counter(one.kind for one in all_sent)
    removed = sum(kinds[kind] for kind in REMOVED)
    again = len(all_handed) - len({event.place for event in all_handed})
    left = len(all_sent) - removed - facts.unacked
    batches = len({one.place[:2] for one in all_sent if one.place.batch_index >= 0})
    return [
        (
            "sent",
            len(all_sent),
            f"{batches:,} batches, {kinds['large']} in chunks, "
            f"{kinds['later'] + kinds['cancelled']} delayed",
        ),
        ("processed", len(done), "all but the poison message and the cancelled one"),
        ("acked", left, f"{len(confirmed(facts)):,} confirmed to workers that lived to tell"),
        ("handed out again", again, "before an ack: nacks, a crash, kill -9"),
        ("came back after ack", len(came_back(facts)), "handed out after a confirmed ack"),
        ("lost", len(lost(facts)), "stored, and never handled"),
        ("out of order", len(out_of_order(facts)), "keys, by first handling"),
        ("rows in the lake", len(rows(facts)), "Parquet, with the poison and the cancelled one"),
    ]


def _mates(one: Sent, poison: list[Sent]) -> bool:
    """Whether it was in the batch of the poison message."""
    return any(bad.place[:2] == one.place[:2] and bad.place != one.place for bad in poison)


def _none(name: str, what: str, wrong: list[str]) -> Check:
    examples = f": {', '.join(wrong[:SHOWN])}" if wrong else ""
    return Check(name, not wrong, f"{len(wrong):,} {what}{examples}")
