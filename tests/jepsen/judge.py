"""Judges a run of real processes by the checkers that judge the simulation.

    python judge.py DIRECTORY        of fact files, as a run leaves them

Each topic is a history of its own: checkers expect every subscription to have every message.

| checkers                                      | judge                                            |
|-----------------------------------------------|--------------------------------------------------|
| one_name, whole, stored_once, published_order | everybody's sends and receipts                   |
| delivered, and `returned`                     | everybody: lost, or refused and never seen again |
| stays_acked, in_order, one_holder, permitted, | the broker, by its wiretap: exactly, for the tap |
| answered                                      | stands where bytes leave and enter the broker    |
| acked_once, settled, patient, ack_taken_back  | our clients alone                                |
| counted                                       | what REST says in the end                        |

Official clients keep what they were sent in a queue, and hand it out though it was acked
meanwhile: by themselves before a connection broke, or by another consumer. That is theirs; what
the broker may not do is to *send* a message after it confirmed an ack of it, to whomever, and
`stays_acked` judges that at the moment of sending. An ack without a receipt (the official Python
client has none) confirms nothing. How often a program was handed what it had acked is counted.

Not judged: `bounded`, for it needs what the broker's turns cost; `sought` and `taken_back`, for
nobody seeks or skips here. An operation that was never answered may have been done or not, and
no checker takes it for either.
"""

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from jepsen.fact_file import Timed, merged

from magnetar.testing.checker.checkers import (
    Checker,
    Violation,
    ack_taken_back,
    acked_once,
    answered,
    counted,
    delivered,
    in_order,
    one_holder,
    one_name,
    patient,
    permitted,
    published_order,
    settled,
    stays_acked,
    stored_once,
    unreturned,
    whole,
)
from magnetar.testing.checker.history import (
    AckAsked,
    AckKept,
    Dispatched,
    Fact,
    History,
    LineEnded,
    Nacked,
    Opened,
    Place,
    Quiet,
    Received,
    Sent,
    Stored,
    Subscribed,
)

__all__ = ["Verdict", "judge", "judge_topic"]

# Programs whose clients are not ours to judge: see the module.
OFFICIAL = ("java", "official")


def returned(history: History) -> Iterable[Violation]:
    """I3: what a program refused comes again, to it or to another."""
    for nack in unreturned(history):
        yield Violation("I3", f"{nack} never came again")


OF_ALL: tuple[Checker, ...] = (
    one_name,
    whole,
    stored_once,
    published_order,
    delivered,
    returned,
    stays_acked,
    in_order,
    one_holder,
    permitted,
    answered,
    counted,
)
OF_OURS: tuple[Checker, ...] = (acked_once, settled, patient, ack_taken_back)


@dataclass
class Verdict:
    """What is wrong, by topic; and what happened."""

    violations: dict[str, list[Violation]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def fine(self) -> bool:
        return not any(self.violations.values())

    def __str__(self) -> str:
        said = ", ".join(f"{number:,} {what}" for what, number in self.counts.items())
        wrong = [f"{topic}: {one}" for topic, all in self.violations.items() for one in all]
        return "\n".join([said, *wrong[:20], f"{len(wrong)} violations"])


def judge(directory: Path) -> Verdict:
    """All that is wrong with the run whose facts are in a directory."""
    verdict = Verdict()
    facts = merged(directory)
    verdict.counts["connections"] = sum(isinstance(fact, LineEnded) for _, fact in facts)
    for topic, history in sorted(by_topic(facts).items()):
        verdict.violations[topic] = judge_topic(history)
        verdict.counts.update(count(history))
    return verdict


def judge_topic(history: History) -> list[Violation]:
    ours = _without_official(history)
    found = [violation for checker in OF_ALL for violation in checker(history)]
    return found + [violation for checker in OF_OURS for violation in checker(ours)]


def by_topic(facts: Iterable[Timed]) -> dict[str, History]:
    """A history for each topic. Facts that are of none, such as the end of a line, are of all."""
    split = _Split()
    for _, fact in facts:
        split.add(fact)
    return split.histories


class _Split:
    """Tells of each fact which topic it is of: by itself, its program's, or its line's."""

    def __init__(self) -> None:
        self.histories: dict[str, History] = {}
        # Programs call their producers and consumers NAME.LIFE/TOPIC/...
        self._lines: dict[tuple[int, int], str] = {}

    def add(self, fact: Fact) -> None:
        if isinstance(fact, (LineEnded, Quiet)):
            for history in self.histories.values():
                history.add(fact)
            return
        if isinstance(fact, Subscribed):
            self._lines[fact.line, fact.consumer] = _short(fact.topic)
        topic = self._topic(fact)
        if topic is not None:
            self.histories.setdefault(topic, History()).add(fact)

    def _topic(self, fact: Fact) -> str | None:
        line = getattr(fact, "line", None)
        if line is not None:
            # A consumer that nobody subscribed, as the runner's own, is of no topic here.
            return self._lines.get((line, getattr(fact, "consumer", -1)))
        who = getattr(fact, "producer", "") or getattr(fact, "consumer", "")
        if who:
            return str(who).split("/")[1]
        return _short(getattr(fact, "topic"))  # noqa: B009, facts of no program have one


def _short(topic: str) -> str:
    return topic.rpartition("/")[2]


def _without_official(history: History) -> History:
    ours = History()
    for fact in history.facts:
        consumer = getattr(fact, "consumer", "")
        if not (isinstance(consumer, str) and consumer.startswith(OFFICIAL)):
            ours.add(fact)
    return ours


def count(history: History) -> Counter[str]:
    """What happened, which may be right or not."""
    kinds = Counter(type(fact) for fact in history.facts)
    counts: Counter[str] = Counter()
    counts["sent"] = kinds[Sent]
    counts["with receipts"] = kinds[Stored]
    counts["dispatched entries"] = kinds[Dispatched]
    counts["received"] = kinds[Received]
    counts["received, distinct"] = len({fact.place for fact in history.of(Received)})
    counts["acks asked for"] = kinds[AckAsked]
    counts["acks confirmed"] = kinds[AckKept]
    counts["refused"] = kinds[Nacked]
    counts["consumers"] = kinds[Opened]
    counts["seen again by an official client that acked it"] = _again(history)
    return counts


def _again(history: History) -> int:
    """How often an official client handed a program what that had acked, and was told is kept."""
    asked: dict[tuple[str, int], tuple[Place, ...]] = {}
    kept: set[tuple[str, Place]] = set()
    again = 0
    for fact in history.facts:
        if isinstance(fact, AckAsked) and fact.consumer.startswith(OFFICIAL):
            asked[fact.consumer, fact.number] = fact.places
        elif isinstance(fact, AckKept):
            kept |= {
                (fact.consumer, place) for place in asked.get((fact.consumer, fact.number), ())
            }
        elif isinstance(fact, Received):
            again += (fact.consumer, fact.place) in kept
    return again


if __name__ == "__main__":
    found = judge(Path(sys.argv[1]))
    print(found)
    sys.exit(not found.fine)
