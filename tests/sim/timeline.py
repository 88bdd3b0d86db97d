"""The steps of a failing run that matter, in lanes: for a terminal, and as a page.

A violation names messages by their places. Of all facts those matter that are about one of
these places, and what befell the connections and programs that had to do with them. Where no
place is named everything is shown.
"""

import html
import re
from collections.abc import Iterable
from dataclasses import dataclass, fields

from magnetar.testing import Simulation, ViolationError
from magnetar.testing.checker.history import (
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
    Opened,
    Place,
    Quiet,
    Received,
    RedeliverCame,
    ResetCame,
    ResetEnded,
    SeekAnswered,
    SeekCame,
    Sent,
    Stored,
    Subscribed,
    Turn,
    text_of,
)
from magnetar.testing.sim.loop import START_NS

WORKER = re.compile(r"s\d+-c")
LEDGER = re.compile(r"\b\d{12,}\b")
NAMED = re.compile(r"ledger=(\d+), entry=(\d+)")
# What says nothing by itself.
NOISE = (Granted, Turn, Quiet)
ACTS = ("Dispatched", "Received", "AckCame")
STEPS_MAX = 400
# What the lane says already, and what is as it nearly always is.
SAID = ("line=", "producer=", "uuid=", "topic=", "subscription=", "consumer=")
USUAL = (
    "delayed=False",
    "chunk=-1",
    "chunks=0",
    "partition=-1",
    "split=False",
    "cumulative=False",
    "whole=()",
    "error=",
    "request=-1",
    "unsent=False",
)
TEXT_CHARS = 60

Entry = tuple[int, int]


@dataclass(frozen=True)
class Step:
    """One mark of the timeline."""

    at_s: float
    lane: str
    title: str
    text: str
    kind: str  # the colour: program, wire, operator, trouble
    wrong: bool = False


class Timeline:
    """See the module."""

    def __init__(self, simulation: Simulation, error: BaseException) -> None:
        self.error = error
        self._history = simulation.history
        self._seats = _seats(simulation.history)
        told = str(error)
        if isinstance(error, ViolationError):
            told = str(error.violations[0])
        self.told = told
        # Ledgers have long numbers; here they are counted.
        self._ledgers: dict[str, str] = {}
        self._entries = _whole({(int(a), int(b)) for a, b in NAMED.findall(told)}, self._history)
        steps = [self._step(number) for number in self._chosen()]
        steps += [
            Step((event.at_ns - START_NS) / 1e9, "trouble", event.kind, "", "trouble")
            for event in simulation.trouble
        ]
        steps.sort(key=lambda step: step.at_s)
        # An act that is wrong is the end of the story; what is missing has none.
        ends = [n for n, step in enumerate(steps) if step.wrong and step.title in ACTS]
        self.steps = steps[: ends[-1] + 1 if ends else None][-STEPS_MAX:]
        if not any(step.wrong for step in self.steps):
            at_s = (simulation.loop.now_ns - START_NS) / 1e9
            self.steps.append(Step(at_s, "observer", "violation", told, "observer", wrong=True))

    @property
    def lanes(self) -> list[str]:
        """In the order of: trouble, operator, producers, connections by consumer, consumers."""
        found = dict.fromkeys(step.lane for step in self.steps)
        return sorted(found, key=_rank)

    # ---- What matters --------------------------------------------------------

    def _chosen(self) -> list[int]:
        facts = self._history.facts
        begin = next((n for n, fact in enumerate(facts) if isinstance(fact, Sent)), 0)
        if not self._entries:
            # Whoever prepared the topic was gone before the first message.
            return [
                n
                for n, fact in enumerate(facts)
                if not isinstance(fact, NOISE) and (n >= begin or self._is_of_worker(fact))
            ]
        touched = [n for n, fact in enumerate(facts) if self._entries & _entries(fact)]
        lines = {line for n in touched if (line := getattr(facts[n], "line", None)) is not None}
        consumers = {name for n in touched if (name := getattr(facts[n], "consumer", None))}
        sent = {(f.producer, f.number) for n in touched if isinstance(f := facts[n], Stored)}
        acks = {(f.line, f.request) for n in touched if isinstance(f := facts[n], AckCame)}
        asked = {(f.consumer, f.number) for n in touched if isinstance(f := facts[n], AckAsked)}
        chosen = set(touched)
        for number, fact in enumerate(facts):
            if isinstance(fact, Sent):
                matters = (fact.producer, fact.number) in sent
            elif isinstance(fact, AckAnswered):
                matters = (fact.line, fact.request) in acks
            elif isinstance(fact, (AckKept, AckFailed)):
                matters = (fact.consumer, fact.number) in asked
            elif isinstance(fact, Opened):
                matters = fact.consumer in consumers
            elif isinstance(fact, RedeliverCame):
                matters = fact.line in lines and not fact.entries
            elif isinstance(fact, (Subscribed, LineEnded, Dismissed, SeekCame, SeekAnswered)):
                matters = fact.line in lines
            else:
                matters = isinstance(fact, (ResetCame, ResetEnded))
            if matters:
                chosen.add(number)
        return sorted(chosen)

    def _is_of_worker(self, fact: Fact) -> bool:
        return bool(WORKER.match(self._lane(fact)[0].rpartition(" ")[2]))

    def _step(self, number: int) -> Step:
        fact = self._history.facts[number]
        lane, kind = self._lane(fact)
        at_s = (self._history.times[number] - START_NS) / 1e9
        wrong = str(fact) in self.told
        title = type(fact).__name__
        return Step(at_s, lane, title, self._short(_about(fact)), kind, wrong)

    def _short(self, text: str) -> str:
        def name(found: re.Match[str]) -> str:
            return self._ledgers.setdefault(found.group(), f"L{len(self._ledgers) + 1}")

        return LEDGER.sub(name, text)

    def _lane(self, fact: Fact) -> tuple[str, str]:
        line = getattr(fact, "line", None)
        if line is not None:
            return f"connection {line}{self._seats.get(line, '')}", "wire"
        for name in ("producer", "consumer"):
            who = getattr(fact, name, None)
            if isinstance(who, str):
                return who.partition(".")[0], "program"
        return ("observer", "observer") if isinstance(fact, Counted) else ("operator", "operator")

    # ---- As text and as a page -------------------------------------------------

    def text(self, *, color: bool = False) -> str:
        """A line for each step, the violation with a sign of its own."""
        width = max((len(step.lane) for step in self.steps), default=0)
        lines: list[str] = []
        for step in self.steps:
            sign = "✗" if step.wrong else " "
            line = (
                f"{sign} {step.at_s:10.6f}  {step.lane:{width}}  {step.title} {step.text}".rstrip()
            )
            lines.append(f"\033[31m{line}\033[0m" if step.wrong and color else line)
        return "\n".join(lines)

    def page(self, title: str, notes: Iterable[str]) -> str:
        """A page that needs nothing else: a column for each lane, time goes down."""
        lanes = self.lanes
        head = "".join(f"<div class='lane'>{html.escape(lane)}</div>" for lane in lanes)
        rows = [self._row(step, lanes) for step in self.steps]
        items = "".join(f"<li>{html.escape(note)}</li>" for note in notes)
        return PAGE.format(
            title=html.escape(title),
            told=html.escape(self.told),
            notes=items,
            columns=len(lanes),
            head=head,
            rows="\n".join(rows),
        )

    def _row(self, step: Step, lanes: list[str]) -> str:
        column = lanes.index(step.lane) + 2
        text = step.text if len(step.text) <= TEXT_CHARS else f"{step.text[:TEXT_CHARS]}…"
        mark = (
            f"<div class='mark {step.kind}' style='grid-column:{column}' "
            f"title='{html.escape(f'{step.title} {step.text}', quote=True)}'>"
            f"<b>{html.escape(step.title)}</b> {html.escape(text)}</div>"
        )
        return (
            f"<div class='row{' wrong' if step.wrong else ''}'>"
            f"<div class='time'>{step.at_s:.6f}</div>{mark}</div>"
        )


def _whole(entries: set[Entry], history: History) -> set[Entry]:
    """With the other chunks of messages that some of them are chunks of."""
    topics = {(fact.line, fact.consumer): fact.topic for fact in history.of(Subscribed)}
    # Partitions have names of messages in common.
    chunks = {
        (fact.ledger, fact.entry): (topics[fact.line, fact.consumer], fact.uuid)
        for fact in history.of(Dispatched)
        if fact.uuid
    }
    messages = {chunks[entry] for entry in entries if entry in chunks}
    return entries | {entry for entry, message in chunks.items() if message in messages}


def _seats(history: History) -> dict[int, str]:
    """Who is at the other end of each connection."""
    names: dict[int, list[str]] = {}
    for fact in history.of(Subscribed):
        name = fact.name or "unnamed"
        if name not in names.setdefault(fact.line, []):
            names[fact.line].append(name)
    return {line: f" of {', '.join(who)}" for line, who in names.items()}


def _rank(lane: str) -> tuple[int, str]:
    order = ("trouble", "operator")
    if lane in order:
        return order.index(lane), lane
    if lane == "observer":
        return 9, lane
    if lane.startswith("connection"):
        # Beside the program that it is of.
        return 3, lane.partition(" of ")[2] + " " + lane
    return (2 if re.fullmatch(r"p\d+|publishers", lane) else 3), lane


def _entries(fact: Fact) -> set[Entry]:
    """The entries that a fact is about."""
    if isinstance(fact, Dispatched):
        return {(fact.ledger, fact.entry)}
    found: set[Entry] = set()
    for field in fields(fact):
        value = getattr(fact, field.name)
        for one in value if isinstance(value, tuple) else (value,):
            if isinstance(one, Place):
                found.add((one.ledger, one.entry))
            elif isinstance(one, tuple):
                found.add((one[0], one[1]))
    return found


def _about(fact: Fact) -> str:
    """What a fact says beyond its kind and its lane."""
    if isinstance(fact, Received):
        return f"{fact.payload[:20]!r} at {_where(fact.place)}, redelivery {fact.redelivery_count}"
    if isinstance(fact, Sent):
        return f"{fact.payload[:20]!r}"
    words = text_of(fact).split(" ")[1:]
    return " ".join(word for word in words if not word.startswith(SAID) and word not in USUAL)


def _where(place: Place) -> str:
    return f"{place.ledger}:{place.entry}" + (f":{place.index}" if place.index >= 0 else "")


PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{title}</title>
<style>
:root {{ color-scheme: light dark; --ink: #1c2430; --dim: #6a7686; --paper: #ffffff;
  --rule: #e3e8ee; --program: #e3f0ff; --wire: #eef1f4; --operator: #fff2d6;
  --trouble: #ffe3d6; --wrong: #c62828; --wrong-paper: #fdeaea; }}
@media (prefers-color-scheme: dark) {{ :root {{ --ink: #e4e9f0; --dim: #93a0b0; --paper: #14181f;
  --rule: #2a323d; --program: #17324f; --wire: #232a33; --operator: #4a3a12;
  --trouble: #4f2a18; --wrong: #ff8a80; --wrong-paper: #3a1b1b; }} }}
body {{ font: 14px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  margin: 2rem; }}
h1 {{ font-size: 1.3rem; margin: 0 0 .5rem; }}
.told {{ border-left: 4px solid var(--wrong); background: var(--wrong-paper); padding: .6rem .9rem;
  border-radius: 0 6px 6px 0; overflow-wrap: anywhere; white-space: pre-wrap; }}
ul {{ color: var(--dim); padding-left: 1.2rem; }}
.chart {{ overflow-x: auto; padding-bottom: 1rem; }}
.head, .row {{ display: grid; width: max-content; min-width: 100%;
  grid-template-columns: 6.5rem repeat({columns}, 14rem); }}
.row {{ background-image: repeating-linear-gradient(to right, var(--rule) 0 1px,
  transparent 1px 14rem); background-position: 6.5rem 0; background-repeat: no-repeat; }}
.head {{ position: sticky; top: 0; background: var(--paper);
  border-bottom: 2px solid var(--rule); }}
.lane {{ font-weight: 600; padding: .4rem .6rem; overflow-wrap: anywhere; align-self: end; }}
.row {{ border-bottom: 1px solid var(--rule); padding: .15rem 0; align-items: center; }}
.row:hover {{ background-color: color-mix(in srgb, var(--ink) 5%, transparent); }}
.time {{ font: 12px ui-monospace, monospace; color: var(--dim); text-align: right;
  padding-right: .5rem; }}
.mark {{ border-radius: 6px; padding: .15rem .5rem; background: var(--wire); margin: 0 .6rem;
  font-size: 12.5px; overflow-wrap: anywhere; }}
.mark.program {{ background: var(--program); }}
.mark.operator {{ background: var(--operator); }}
.mark.trouble {{ background: var(--trouble); }}
.row.wrong {{ background-color: var(--wrong-paper); }}
.row.wrong .mark {{ outline: 2px solid var(--wrong); }}
.row.wrong .time {{ color: var(--wrong); font-weight: 700; }}
</style>
<h1>{title}</h1>
<p class="told">{told}</p>
<ul>{notes}</ul>
<div class="chart">
<div class="head"><div class="lane">seconds</div>{head}</div>
{rows}
</div>
</html>
"""
