"""The judge of real runs finds what must not be, and lets alone what may be."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from jepsen.fact_file import FactFile, merged, read
from jepsen.judge import by_topic, count, judge
from support.broker_process import BrokerProcess

import magnetar
from magnetar.testing.checker.history import (
    AckAnswered,
    AckAsked,
    AckCame,
    AckKept,
    Counted,
    Dispatched,
    Fact,
    Granted,
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

TOPIC = "persistent://public/default/keys"
OURS = "aio1.0/keys/0"
OTHER = "aio2.0/keys/0"
JAVA = "java.0/keys/0"
SENDER = "official1.0/keys/0"
FIRST, SECOND, THIRD, FOURTH = (Place(1, entry) for entry in range(4))


def sent(number: int, place: Place) -> list[Fact]:
    return [
        Sent(SENDER, number, TOPIC, b"message %d" % number, "k", False),
        Stored(SENDER, number, place, -1),
    ]


def subscribed(line: int, consumer: str) -> list[Fact]:
    name = consumer.partition(".")[0]
    return [
        Opened(consumer, "sub", "KeyShared", True, name.startswith("aio")),
        Subscribed(line, 0, TOPIC, "sub", "KeyShared", name),
        Granted(line, 0, 100),
    ]


def dispatched(line: int, place: Place) -> Fact:
    return Dispatched(line, 0, place.ledger, place.entry, 1, b"k", False)


def received(consumer: str, number: int, place: Place) -> Fact:
    return Received(consumer, "sub", TOPIC, place, 0, b"message %d" % number, "k", 0)


def acked(line: int, consumer: str, number: int, place: Place) -> list[Fact]:
    return [
        AckAsked(consumer, "sub", number, (place,), False, TOPIC),
        AckCame(line, 0, number, ((place.ledger, place.entry, 0),), False),
        AckAnswered(line, 0, number, ""),
        AckKept(consumer, number),
    ]


GOOD: list[Fact] = [
    *subscribed(1, OURS),
    *sent(0, FIRST),
    *sent(1, SECOND),
    dispatched(1, FIRST),
    received(OURS, 0, FIRST),
    *acked(1, OURS, 0, FIRST),
    dispatched(1, SECOND),
    received(OURS, 1, SECOND),
    *acked(1, OURS, 1, SECOND),
    Counted(TOPIC, "sub", "backlog", 0, 0),
]


TWO_MORE: list[Fact] = [*sent(2, THIRD), *sent(3, FOURTH)]


def handed(line: int, consumer: str, number: int, place: Place) -> list[Fact]:
    return [dispatched(line, place), received(consumer, number, place)]


HANDED_TO_BOTH: list[Fact] = [*handed(1, OURS, 2, THIRD), *handed(2, OTHER, 3, FOURTH)]


def judged(facts: list[Fact], directory: Path) -> list[str]:
    """The invariants that are broken by facts which were written to files and read again."""
    files = {True: FactFile(directory / "broker.1.facts"), False: FactFile(directory / "p.facts")}
    for fact in [*facts, Quiet()]:
        files[hasattr(fact, "line")].add(fact)
    return sorted({violation.invariant for violation in judge(directory).violations["keys"]})


def test_a_good_run_is_fine(tmp_path: Path) -> None:
    assert judged(GOOD, tmp_path) == []


def without(*kinds: type[Fact], place: Place) -> list[Fact]:
    """The good run but for what was told of a place in these ways."""
    key = (place.ledger, place.entry)
    return [
        fact
        for fact in GOOD
        if not isinstance(fact, kinds)
        or (
            (getattr(fact, "ledger", -1), getattr(fact, "entry", -1)) != key
            and getattr(fact, "place", None) != place
            and place not in getattr(fact, "places", ())
        )
    ]


WRONG: dict[str, tuple[list[Fact], list[str]]] = {
    "lost": (without(Received, place=SECOND), ["I1"]),
    "back, from the broker": ([*GOOD, *subscribed(2, OTHER), dispatched(2, FIRST)], ["I2"]),
    "back, through our client": ([*GOOD, received(OURS, 0, FIRST)], ["I2"]),
    "back, after kill -9": (
        [*GOOD, LineEnded(1), *subscribed(1_000_000, OURS), dispatched(1_000_000, SECOND)],
        ["I2"],
    ),
    "out of order": (
        [*GOOD, *TWO_MORE, *handed(1, OURS, 3, FOURTH), *handed(1, OURS, 2, THIRD)],
        ["I4"],
    ),
    "a key with two consumers": (
        [*GOOD, *subscribed(2, OTHER), *TWO_MORE, *HANDED_TO_BOTH],
        ["I4"],
    ),
    "stored in another order": (
        [*GOOD, *sent(2, Place(1, 9)), *sent(3, Place(1, 8))],
        ["I1", "I4"],
    ),
    "one name for two": (
        [*GOOD, Sent(SENDER, 2, TOPIC, b"another", "k", False), Stored(SENDER, 2, SECOND, -1)],
        ["I4", "I9"],
    ),
    "stored twice": (
        [*GOOD, dispatched(1, Place(2, 0)), received(OURS, 0, Place(2, 0))],
        ["dedup"],
    ),
    "never sent": ([*GOOD, dispatched(1, Place(2, 0)), received(OURS, 7, Place(2, 0))], ["I6"]),
    "refused, and never again": (
        [*GOOD, *sent(2, THIRD), *handed(1, OURS, 2, THIRD), Nacked(OURS, "sub", THIRD)],
        ["I3"],
    ),
    "an ack without an answer": (
        [*GOOD, AckCame(1, 0, 9, ((1, 5, 0),), False)],
        ["I3"],
    ),
    "without a permit": ([fact for fact in GOOD if not isinstance(fact, Granted)], ["I3"]),
    "a counter": ([*GOOD, Counted(TOPIC, "sub", "unacked", 1, 0)], ["I7"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_found(name: str, tmp_path: Path) -> None:
    facts, invariants = WRONG[name]
    assert judged(facts, tmp_path) == invariants


def test_what_an_official_client_had_in_its_queue_is_counted_and_no_fault(tmp_path: Path) -> None:
    facts = [of_java(fact) for fact in GOOD]
    facts.append(received(JAVA, 0, FIRST))
    assert judged(facts, tmp_path) == []
    (history,) = by_topic(merged(tmp_path)).values()
    assert count(history)["seen again by an official client that acked it"] == 1


def of_java(fact: Fact) -> Fact:
    if isinstance(fact, (Opened, Received, AckAsked, AckKept)):
        return replace(fact, consumer=JAVA)
    return fact


def test_an_ack_that_nobody_confirmed_may_be_lost(tmp_path: Path) -> None:
    asked = AckAsked(OURS, "sub", 2, (THIRD,), False, TOPIC)
    came = AckCame(1, 0, 2, ((1, 2, 0),), False)
    again = [*subscribed(1_000_000, OTHER), dispatched(1_000_000, THIRD)]
    facts = [*GOOD, *sent(2, THIRD), dispatched(1, THIRD)]
    facts += [received(OURS, 2, THIRD), asked, came, LineEnded(1), *again]
    assert judged(facts, tmp_path) == []


# ---- Files -------------------------------------------------------------------


def test_facts_are_read_as_they_were_written(tmp_path: Path) -> None:
    file = FactFile(tmp_path / "a.facts")
    for fact in GOOD:
        file.add(fact)
    assert [fact for _, fact in read(tmp_path / "a.facts")] == GOOD


def test_a_line_that_was_not_ended_was_never_known(tmp_path: Path) -> None:
    file = FactFile(tmp_path / "a.facts")
    file.add(GOOD[0])
    with (tmp_path / "a.facts").open("ab") as end:
        end.write(b'[12, "AckKept", "aio1.0')
    assert [fact for _, fact in read(tmp_path / "a.facts")] == GOOD[:1]


def test_facts_of_files_stand_in_the_order_of_their_times(tmp_path: Path) -> None:
    files = [FactFile(tmp_path / f"{name}.facts") for name in "abc"]
    for number, fact in enumerate(GOOD):
        files[number % 3].add(fact)
    assert [fact for _, fact in merged(tmp_path)] == GOOD


def test_facts_outlive_the_process_that_wrote_them(tmp_path: Path) -> None:
    path = tmp_path / "a.facts"
    program = (
        "import os, pathlib, sys; from jepsen.fact_file import FactFile;"
        "from magnetar.testing.checker.history import Quiet;"
        "FactFile(pathlib.Path(sys.argv[1])).add(Quiet()); os.kill(os.getpid(), 9)"
    )
    here = os.pathsep.join(path for path in sys.path if path)
    environment = {**os.environ, "PYTHONPATH": here}
    began = time.monotonic_ns()
    ran = subprocess.run([sys.executable, "-c", program, str(path)], env=environment, check=False)
    assert ran.returncode == -signal.SIGKILL
    ((at, fact),) = read(path)
    assert fact == Quiet()
    assert began < at < time.monotonic_ns(), "processes have different clocks"


def test_lines_of_a_broker_that_was_killed_end_with_it(tmp_path: Path) -> None:
    FactFile(tmp_path / "broker.1.facts").add(Granted(1, 0, 1))
    FactFile(tmp_path / "broker.2.facts").add(Granted(2, 0, 1))
    assert [fact for _, fact in merged(tmp_path)] == [
        Granted(1, 0, 1),
        LineEnded(1),
        Granted(2, 0, 1),
        LineEnded(2),
    ]


def test_the_tap_of_a_real_broker_tells_what_it_hears_and_says(tmp_path: Path) -> None:
    tap = Path(__file__).parent / "tapped_serve.py"
    file = tmp_path / "broker.1.facts"
    command = [sys.executable, str(tap), str(file), "7", "serve"]
    # The tap is of the tests, and found where they are.
    command = ["env", f"PYTHONPATH={os.pathsep.join(path for path in sys.path if path)}", *command]
    with BrokerProcess(tmp_path / "data", command=command) as broker:
        client = magnetar.Client(broker.url)
        consumer = client.subscribe("keys", "sub", ack_receipt_enabled=True, consumer_name="c")
        client.create_producer("keys").send(b"one")
        message = consumer.receive(30_000)
        consumer.acknowledge(message)
        client.close()
    id = message.message_id()
    facts = [fact for _, fact in read(file)]
    lines = {fact.line for fact in facts if isinstance(fact, (Subscribed, Granted, LineEnded))}
    assert min(lines) >= 7
    (one,) = [fact for fact in facts if isinstance(fact, Dispatched)]
    assert (one.ledger, one.entry, one.unacked) == (id.ledger_id(), id.entry_id(), 1)
    (came,) = [fact for fact in facts if isinstance(fact, AckCame)]
    assert came.entries == ((id.ledger_id(), id.entry_id(), 0),)
    (answered,) = [fact for fact in facts if isinstance(fact, AckAnswered)]
    assert (answered.request, answered.error) == (came.request, "")
    assert facts.index(one) < facts.index(came) < facts.index(answered)
