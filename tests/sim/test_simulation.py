"""The kit itself: what docs/simulation.md shows works, and checkers find what they are for."""

import asyncio
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sim.ack_plants import ACK_PLANTS
from sim.plants import PLANTS
from sim.rot_plants import ROT_PLANTS
from sim.transaction_plants import TRANSACTION_PLANTS

from magnetar.testing import (
    CHECKERS,
    History,
    Place,
    Simulation,
    ViolationError,
    check,
)
from magnetar.testing.checker import checkers as judges
from magnetar.testing.checker.history import (
    AckAnswered,
    AckAsked,
    AckCame,
    AckFailed,
    AckGivenUp,
    AckKept,
    Counted,
    Dispatched,
    Fact,
    Granted,
    LineEnded,
    Nacked,
    Opened,
    Quiet,
    Recalled,
    Received,
    RedeliverCame,
    ResetCame,
    ResetEnded,
    SeekAnswered,
    SeekCame,
    Sent,
    SkipAsked,
    Skipped,
    Sought,
    Stored,
    Subscribed,
    Turn,
    TxnAckCame,
    TxnEndTold,
    TxnFound,
    TxnOutput,
    TxnRead,
)

DOCUMENT = Path(__file__).parents[2] / "docs" / "simulation.md"


def test_the_example_of_the_documentation_works() -> None:
    (program,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(program, str(DOCUMENT), "exec"), names)
    names["test_every_order_is_booked_whatever_happens"]()


def test_the_documentation_lists_every_planted_bug_and_every_checker() -> None:
    text = DOCUMENT.read_text()
    plants = [*PLANTS, *ACK_PLANTS, *ROT_PLANTS, *TRANSACTION_PLANTS]
    assert [plant.name for plant in plants if f"| {plant.name} |" not in text] == []
    assert [judge.__name__ for judge in CHECKERS if f"`{judge.__name__}`" not in text] == []


def test_nobody_looks_into_a_broker_whose_power_went() -> None:
    """Its machine is taken away a little later; meanwhile its disk raises whatever is read."""
    with Simulation(1) as simulation:
        broker = simulation.broker

        async def main() -> None:
            await broker.start()
            producer = await simulation.client().create_producer("t")
            assert broker.is_loaded("persistent://public/default/t")
            assert len(broker.loaded()) == 1
            broker.disk.lose_power_after(1)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1):
                    await producer.send(b"m")
            assert broker.disk.dead
            assert not broker.is_loaded("persistent://public/default/t")
            assert broker.loaded() == []

        simulation.run(main())


# ---- Each checker, on a history by hand ----------------------------------------


def history(*facts: Fact) -> History:
    found = History()
    for fact in facts:
        found.add(fact)
    return found


def test_facts_of_some_kinds_come_in_their_order_with_their_places() -> None:
    facts = [asked(1), received(1), Quiet(), received(2), asked(2)]
    found = history(*facts)
    assert list(found.among(Received, AckAsked)) == [
        (0, facts[0]),
        (1, facts[1]),
        (3, facts[3]),
        (4, facts[4]),
    ]
    assert list(found.of(Received)) == [facts[1], facts[3]]
    assert list(found.among(Sought)) == []


def received(entry: int, payload: bytes = b"m", consumer: str = "c") -> Received:
    return Received(consumer, "s", "t", Place(1, entry), 0, payload, "", 0)


def asked(
    entry: int, number: int = 0, *, cumulative: bool = False, consumer: str = "c"
) -> AckAsked:
    return AckAsked(consumer, "s", number, (Place(1, entry),), cumulative, "t")


def opened(*, retries: bool = False) -> Opened:
    return Opened("c", "s", "Shared", True, retries)


def subscribed(line: int, type: str = "Shared") -> Subscribed:
    return Subscribed(line, 1, "t", "s", type, f"c{line}")


def dispatched(line: int, entry: int, unacked: int = 1, key: bytes = b"k") -> Dispatched:
    return Dispatched(line, 1, 1, entry, unacked, key, False)


def chunk(line: int, number: int, of: int = 3) -> Dispatched:
    """Chunks of one message, which stand in the first entries."""
    return Dispatched(line, 1, 1, number, 1, b"k", False, "u", number, of)


def came(line: int, entry: int, left: int = 0, request: int = 7) -> AckCame:
    return AckCame(line, 1, request, ((1, entry, left),), False)


SENT = Sent("p", 0, "t", b"m", "", False)
STORED = Stored("p", 0, Place(1, 0), -1)
ANSWERED = AckAnswered(1, 1, 7, "")
OTHERS: list[Fact] = [SeekCame(2, 1, 9), SeekAnswered(2, 9, "")]
SEEK: list[Fact] = [SeekCame(1, 1, 8), SeekAnswered(1, 8, "")]
ASKED = Sought("c", "s", "asked", "t", Place(1, 3))
SEEK_ON: list[Fact] = [SeekCame(1, 1, 8, Place(1, 3)), SeekAnswered(1, 8, "")]
REFUSED: list[Fact] = [SeekCame(1, 1, 8), SeekAnswered(1, 8, "ServiceNotReady")]
FAILED = SeekAnswered(1, 8, "PersistenceError")
RESET: list[Fact] = [ResetCame(0, "t", "s", Place(-1, -1)), ResetEnded(0, "done")]
ACKED = asked(0, 0, consumer="c1")
NO = AckFailed("c1", 0, "BrokerPersistenceError")
REGRET = Nacked("c1", "s", Place(1, 0), unsent=True)
GAVE_UP = AckGivenUp("c", (Place(1, 0),), "BrokerPersistenceError", 90, 90)
SOUGHT = Sought("c", "s", "done", "t", Place(1, 3))
SKIPPED: list[Fact] = [
    SkipAsked("t", "s", (Place(1, 0),)),
    Skipped("t", "s", (Place(1, 0),)),
    Recalled("t", "s", (Place(1, 0),)),
]
AGAIN: list[Fact] = [subscribed(2), dispatched(2, 0)]

FIRST_ONE: list[Fact] = [subscribed(1, "Exclusive"), dispatched(1, 1)]
AT_THE_START: list[Fact] = [subscribed(2, "Exclusive"), dispatched(2, 0), dispatched(2, 1)]

# The broker was asked to go on behind a message in chunks; then to go back, and nobody was told.
BEHIND_CHUNKS: list[Fact] = [
    *[subscribed(1, "Exclusive"), chunk(1, 0), chunk(1, 1), chunk(1, 2), *SEEK_ON],
    dispatched(1, 3),
]
WITH_CHUNKS: list[Fact] = [
    *[LineEnded(1), subscribed(2, "Exclusive")],
    *[chunk(2, 0), chunk(2, 1), chunk(2, 2), dispatched(2, 3)],
]

BAD: list[tuple[str, list[Fact]]] = [
    ("bounded", [Turn("peer", 1001, 0, 1000, 500)]),
    ("bounded", [Turn("peer", 9, 501, 1000, 500)]),
    ("one_name", [SENT, STORED, received(0, b"other")]),
    ("stored_once", [received(0), received(1)]),
    ("whole", [SENT, received(0, b"m and more")]),
    ("delivered", [opened(), SENT, STORED]),
    ("stays_acked", [subscribed(1), came(1, 0), ANSWERED, dispatched(1, 0)]),
    ("stays_acked", [subscribed(1), came(1, 0, 0b101), ANSWERED, dispatched(1, 0, 0b110)]),
    ("stays_acked", [subscribed(1), Skipped("t", "s", (Place(1, 0, 2),)), dispatched(1, 0, 4)]),
    ("taken_back", [subscribed(1), *SKIPPED, received(0, consumer="c1.7/1")]),
    # Who was away is back, and has nothing from before.
    (
        "taken_back",
        [
            *[subscribed(1), LineEnded(1), *SKIPPED],
            *[Subscribed(2, 1, "t", "s", "Shared", "c1"), received(0, consumer="c1.7/1")],
        ],
    ),
    # Acks that come after a seek stay, whatever became of it.
    ("stays_acked", [subscribed(1), *SEEK, came(1, 0), ANSWERED, dispatched(1, 0)]),
    (
        "stays_acked",
        [
            subscribed(1),
            SeekCame(1, 1, 8),
            LineEnded(1),
            subscribed(2),
            came(2, 0),
            AckAnswered(2, 1, 7, ""),
            dispatched(2, 0),
        ],
    ),
    # A seek that was refused changes nothing, and one that was not goes no further back.
    ("stays_acked", [subscribed(1), came(1, 0), ANSWERED, *REFUSED, dispatched(1, 0)]),
    ("stays_acked", [subscribed(1), *SEEK_ON, dispatched(1, 2)]),
    ("acked_once", [opened(), subscribed(1), *SEEK, asked(0), AckKept("c", 0), received(0)]),
    ("acked_once", [opened(), asked(0), AckKept("c", 0), subscribed(1), *REFUSED, received(0)]),
    ("sought", [SOUGHT, received(2)]),
    ("delivered", [opened(), SENT, STORED, received(0), subscribed(1), *SEEK]),
    ("delivered", [opened(), SENT, STORED, received(0), subscribed(1), *SEEK, came(1, 0)]),
    # What another consumer had acked before the seek is not acked after it.
    (
        "delivered",
        [opened(), SENT, STORED, received(0), subscribed(1), subscribed(2), *SEEK, came(2, 0)],
    ),
    (
        "in_order",
        [subscribed(1, "Exclusive"), *SEEK, dispatched(1, 1), dispatched(1, 0)],
    ),
    ("acked_once", [opened(), received(0), asked(0), AckKept("c", 0), received(0)]),
    ("acked_once", [opened(), asked(5, cumulative=True), AckKept("c", 0), received(3)]),
    ("settled", [opened(retries=True), received(0), asked(0), received(0)]),
    ("permitted", [subscribed(1), Granted(1, 1, 1), dispatched(1, 0, 3), dispatched(1, 1)]),
    ("answered", [subscribed(1), came(1, 0), Quiet()]),
    ("in_order", [subscribed(1, "Exclusive"), dispatched(1, 1), dispatched(1, 0)]),
    ("in_order", [subscribed(1, "KeyShared"), dispatched(1, 1), dispatched(1, 0)]),
    # A seek of which nobody knows whether it was done led elsewhere, or explains one return.
    ("in_order", [*BEHIND_CHUNKS, SeekCame(1, 1, 9, Place(1, 3)), *WITH_CHUNKS[:3]]),
    ("in_order", [*FIRST_ONE, SeekCame(1, 1, 8, Place(1, 1)), LineEnded(1), *AT_THE_START]),
    (
        "in_order",
        [
            *[subscribed(1, "Exclusive"), dispatched(1, 3), SeekCame(1, 1, 8), LineEnded(1)],
            *[subscribed(2, "Exclusive"), dispatched(2, 1), dispatched(2, 0)],
        ],
    ),
    (
        "one_holder",
        [
            subscribed(1, "KeyShared"),
            subscribed(2, "KeyShared"),
            dispatched(1, 0),
            dispatched(2, 1),
        ],
    ),
    (
        "one_holder",
        [
            subscribed(1, "KeyShared"),
            subscribed(2, "KeyShared"),
            dispatched(1, 0, 3),
            SkipAsked("t", "s", (Place(1, 0, 1), Place(1, 2))),
            dispatched(2, 1),
        ],
    ),
    # It gave back the last chunk but one that it has, and keeps the others.
    (
        "one_holder",
        [
            *[subscribed(1, "KeyShared"), subscribed(2, "KeyShared")],
            *[chunk(1, 0), chunk(1, 1), chunk(1, 2), RedeliverCame(1, 1, ((1, 1),)), came(1, 2)],
            chunk(2, 1),
        ],
    ),
    ("chunk_order", [subscribed(1), chunk(1, 1), chunk(1, 2), chunk(1, 0)]),
    (
        "published_order",
        [SENT, Sent("p", 1, "t", b"n", "", False), STORED, Stored("p", 1, Place(0, 9), -1)],
    ),
    ("counted", [Counted("t", "s", "msgBacklog", 1, 2)]),
    # Acks from before a seek or a reset are not applied after it, whoever gave them.
    (
        "delivered",
        [opened(), SENT, STORED, received(0), subscribed(1), subscribed(2), *SEEK, came(2, 0)],
    ),
    ("delivered", [opened(), SENT, STORED, received(0), asked(0), *RESET]),
    ("patient", [AckGivenUp("c", (Place(1, 0),), "BrokerPersistenceError", 89, 90)]),
    ("ack_taken_back", [subscribed(1), ACKED, NO, came(1, 0)]),
    ("ack_taken_back", [subscribed(1), ACKED, REGRET, came(1, 0)]),
    ("ack_taken_back", [subscribed(1), ACKED, NO, dispatched(1, 0, 3), came(1, 0)]),
    ("ack_taken_back", [subscribed(1), *SEEK, ACKED, NO, came(1, 0)]),
    # Of transactions; test_transactions.py has more.
    ("isolated", [TxnOutput("(0,7)", "t", b"o"), TxnRead("t", b"o", Place(1, 0))]),
    (
        "all_or_nothing",
        [TxnOutput("(0,7)", "t", b"o"), TxnEndTold("(0,7)", "committed")],
    ),
    ("truthful", [TxnEndTold("(0,7)", "aborted"), TxnFound("(0,7)", "committed")]),
    (
        "pending",
        [
            *[subscribed(1), TxnAckCame(1, 1, 7, ((1, 5, 0),), False, (), 7)],
            *[AckAnswered(1, 1, 7, ""), dispatched(1, 5), TxnEndTold("(0,7)", "committed")],
        ],
    ),
]

GOOD: list[tuple[str, list[Fact]]] = [
    ("bounded", [Turn("peer", 1000, 500, 1000, 500)]),
    ("taken_back", [subscribed(1), received(0, consumer="c1.7/1"), *SKIPPED]),
    ("taken_back", [subscribed(1), *SKIPPED, *SEEK, received(0, consumer="c1.7/1")]),
    ("taken_back", [subscribed(1), LineEnded(1), *SKIPPED, received(0, consumer="c1.7/1")]),
    # The skip was done before the seek, and answered after it.
    (
        "stays_acked",
        [subscribed(1), SKIPPED[0], *SEEK, *SKIPPED[1:], dispatched(1, 0)],
    ),
    (
        "taken_back",
        [subscribed(1), SKIPPED[0], *SEEK, *SKIPPED[1:], received(0, consumer="c1.7/1")],
    ),
    ("one_name", [SENT, STORED, received(0), received(0)]),
    ("delivered", [opened(), SENT, STORED, received(0)]),
    ("delivered", [opened(), SENT, STORED, Skipped("t", "s", (Place(1, 0),))]),
    ("stays_acked", [subscribed(1), came(1, 0), dispatched(1, 0)]),
    ("stays_acked", [subscribed(1), came(1, 0), AckAnswered(1, 1, 7, "no"), dispatched(1, 0)]),
    (
        "stays_acked",
        [
            subscribed(1),
            came(1, 0),
            ANSWERED,
            *SEEK,
            dispatched(1, 0),
        ],
    ),
    ("stays_acked", [subscribed(1), came(1, 0), *SEEK, ANSWERED, dispatched(1, 0)]),
    (
        "stays_acked",
        [subscribed(1), came(1, 0), ANSWERED, SeekCame(1, 1, 8), LineEnded(1), *AGAIN],
    ),
    (
        "stays_acked",
        [subscribed(1), came(1, 0), ANSWERED, SeekCame(1, 1, 8), FAILED, dispatched(1, 0)],
    ),
    ("acked_once", [opened(), asked(0), received(0)]),
    ("acked_once", [opened(), asked(0), AckKept("c", 0), subscribed(1), *SEEK, received(0)]),
    (
        "settled",
        [
            opened(retries=True),
            Sought("c", "s", "asked"),
            asked(0),  # the seek will decide what becomes of it
            Sought("c", "s", "done"),
            received(0),
        ],
    ),
    ("sought", [SOUGHT, received(3), received(4)]),
    ("sought", [opened(), SOUGHT, subscribed(1), *SEEK, received(0)]),
    # Another seek was done before the program heard of its own.
    (
        "sought",
        [opened(), ASKED, subscribed(1), subscribed(2), *SEEK_ON, *OTHERS, SOUGHT, received(0)],
    ),
    ("delivered", [opened(), SENT, STORED, received(0), subscribed(1), *SEEK_ON]),
    ("delivered", [opened(), SENT, STORED, received(0), subscribed(1), *SEEK, received(0)]),
    ("delivered", [opened(), SENT, STORED, received(0), subscribed(1), *SEEK, asked(0)]),
    # All of its ledger was acked before, and may be gone.
    ("delivered", [opened(), SENT, STORED, received(0), subscribed(1), came(1, 0), *SEEK]),
    ("delivered", [opened(), SENT, STORED, received(0), subscribed(1), *SEEK_ON, *SEEK]),
    (
        "in_order",
        [subscribed(1, "Exclusive"), dispatched(1, 1), *SEEK, dispatched(1, 0), dispatched(1, 1)],
    ),
    # Nobody was told that the seek was done, and it was.
    ("in_order", [*BEHIND_CHUNKS, SeekCame(1, 1, 9, Place(1, 2)), *WITH_CHUNKS]),
    ("in_order", [*FIRST_ONE, SeekCame(1, 1, 8), LineEnded(1), *AT_THE_START]),
    # A reader, of which no program said anything, sought too.
    (
        "delivered",
        [
            *[opened(), SENT, STORED, subscribed(1), came(1, 0), received(0)],
            *[Subscribed(2, 1, "t", "reader", "Exclusive", "r"), *OTHERS, *SEEK],
        ],
    ),
    ("settled", [opened(), asked(0), received(0)]),
    ("settled", [opened(retries=True), asked(0), GAVE_UP, received(0)]),
    ("settled", [opened(retries=True), asked(0), Nacked("c", "s", Place(1, 0)), received(0)]),
    ("acked_once", [opened(), asked(0), AckKept("c", 0), *RESET, received(0)]),
    # It acked what it was handed before the reset, and hears in a moment that this is no ack.
    ("settled", [opened(retries=True), received(0), *RESET, asked(0), received(0)]),
    # It was handed after the reset what the broker had sent before it.
    (
        "settled",
        [
            *[opened(retries=True), subscribed(1), dispatched(1, 0), *RESET],
            *[received(0), asked(0), received(0)],
        ],
    ),
    ("sought", [opened(), SOUGHT, *RESET, received(0)]),
    ("delivered", [opened(), SENT, STORED, received(0), *RESET, asked(0)]),
    ("delivered", [opened(), SENT, STORED, received(0), RESET[0], ResetEnded(0, "refused")]),
    ("patient", [AckGivenUp("c", (Place(1, 0),), "BrokerPersistenceError", 90, 90)]),
    ("patient", [AckGivenUp("c", (Place(1, 0),), "Interrupted", 1, 90)]),
    # It is acked once more, was acked already, or may have been under way.
    ("ack_taken_back", [subscribed(1), ACKED, NO, asked(0, 1, consumer="c1"), came(1, 0)]),
    (
        "ack_taken_back",
        [subscribed(1), ACKED, came(1, 0), AckAnswered(1, 1, 7, ""), NO, came(1, 0)],
    ),
    ("ack_taken_back", [subscribed(1), ACKED, Nacked("c1", "s", Place(1, 0)), came(1, 0)]),
    ("ack_taken_back", [subscribed(1), ACKED, NO, *RESET, came(1, 0)]),
    # It was refused for a seek that passes it, and acks it.
    ("ack_taken_back", [subscribed(1), ACKED, *SEEK_ON, NO, came(1, 0)]),
    # Seed 53000775: a part of the list was refused, and the rest was under way when the seek,
    # which leads to a place before it, ended it.
    ("ack_taken_back", [subscribed(1), ACKED, *SEEK, NO, came(1, 0)]),
    ("ack_taken_back", [subscribed(1), SEEK[0], ACKED, SEEK[1], NO, came(1, 0)]),
    # Seed 53004646: the end of a message was skipped, whose producer began to count anew; the
    # one that had its uuid before is another.
    (
        "stays_acked",
        [
            *[subscribed(1), Subscribed(2, 1, "t", "s2", "Shared", "c2")],
            Skipped("t", "s", (Place(1, 12),)),
            *[chunk(1, 0), chunk(1, 1), chunk(1, 2)],
            Dispatched(2, 1, 1, 12, 1, b"k", False, "u", 2, 3),
        ],
    ),
    # An earlier try of it was kept, unheard: the broker leaves it out, and its consumer knows.
    ("ack_taken_back", [subscribed(1), ACKED, NO, dispatched(1, 0, 2), came(1, 0)]),
    ("answered", [subscribed(1), came(1, 0), LineEnded(1), Quiet()]),
    ("in_order", [subscribed(1), dispatched(1, 1), dispatched(1, 0)]),
    (
        "one_holder",
        [
            subscribed(1, "KeyShared"),
            subscribed(2, "KeyShared"),
            dispatched(1, 0),
            came(1, 0),
            dispatched(2, 1),
        ],
    ),
    (
        "one_holder",
        [
            subscribed(1, "KeyShared"),
            subscribed(2, "KeyShared"),
            dispatched(1, 0),
            Skipped("t", "s", (Place(1, 0),)),
            dispatched(2, 1),
        ],
    ),
    # The broker lets go of a key before the operator hears of the skip, or will never hear.
    (
        "one_holder",
        [
            subscribed(1, "KeyShared"),
            subscribed(2, "KeyShared"),
            dispatched(1, 0),
            SkipAsked("t", "s", (Place(1, 0),)),
            dispatched(2, 1),
        ],
    ),
    # Who gives back the last chunk that it has of a message gives back all of them.
    (
        "one_holder",
        [
            *[subscribed(1, "KeyShared"), subscribed(2, "KeyShared")],
            *[chunk(1, 0), chunk(1, 1), RedeliverCame(1, 1, ((1, 1),)), chunk(2, 0)],
        ],
    ),
    ("chunk_order", [subscribed(1), chunk(1, 0), chunk(1, 1), chunk(1, 0)]),
    ("chunk_order", [subscribed(1), chunk(1, 1), subscribed(1), chunk(1, 0)]),
    ("chunk_order", [subscribed(1), subscribed(2), chunk(1, 1), chunk(2, 0)]),
    # A chunk that was sent again, and stands by itself behind its message.
    ("chunk_order", [subscribed(1), replace(chunk(1, 1, 2), entry=9), chunk(1, 1, 2)]),
]


@pytest.mark.parametrize(("name", "facts"), BAD)
def test_a_checker_finds_what_it_is_for(name: str, facts: list[Fact]) -> None:
    with pytest.raises(ViolationError) as caught:
        check(history(*facts), [getattr(judges, name)])
    assert len(caught.value.violations) == 1
    assert str(caught.value.violations[0]) in str(caught.value)


@pytest.mark.parametrize(("name", "facts"), GOOD)
def test_a_checker_lets_pass_what_may_be(name: str, facts: list[Fact]) -> None:
    check(history(*facts), [getattr(judges, name)])


def test_every_checker_has_a_history_that_it_finds_fault_with() -> None:
    assert {name for name, _ in BAD} >= {judge.__name__ for judge in CHECKERS}


def test_what_was_refused_is_waited_for_until_it_comes_or_is_acked() -> None:
    nack = Nacked("c", "s", Place(1, 3))
    assert list(judges.unreturned(history(received(3), nack))) == [nack]
    for end in (received(3), asked(3), asked(4, cumulative=True), Sought("c", "s", "asked")):
        assert list(judges.unreturned(history(received(3), nack, end))) == []


def test_what_was_refused_after_somebody_acked_through_it_need_not_come() -> None:
    """Failover: one consumer had it queued, and the other, cut off, had the ack to send."""
    nack = Nacked("c", "s", Place(1, 3))
    for through in (3, 4):
        acked = asked(through, cumulative=True)
        assert list(judges.unreturned(history(acked, received(3), nack))) == []
    assert list(judges.unreturned(history(asked(2, cumulative=True), received(3), nack))) == [nack]


def test_an_ack_through_a_message_of_another_topic_or_subscription_does_not_bring_it() -> None:
    nack = Nacked("c", "s", Place(1, 3))
    for topic, subscription in (("t2", "s"), ("t", "s2")):
        acked = AckAsked("c2", subscription, 1, (Place(1, 9),), True, topic)
        assert list(judges.unreturned(history(acked, received(3), nack))) == [nack]
        assert list(judges.unreturned(history(received(3), nack, acked))) == [nack]


def test_what_was_refused_after_somebody_else_sought_need_not_come() -> None:
    nack = Nacked("c", "s", Place(1, 3))
    sought = Sought("another", "s", "done", "t", Place(1, 9))
    assert list(judges.unreturned(history(received(3), sought, nack))) == []
    elsewhere = Sought("another", "s2", "done", "t", Place(1, 9))
    assert list(judges.unreturned(history(received(3), elsewhere, nack))) == [nack]
    assert list(judges.unreturned(history(sought, received(3), nack))) == [nack]


def test_what_waited_in_a_queue_while_a_seek_passed_it_need_not_come() -> None:
    """Seed 19845914: it was handed out while a reset to a later place was being written."""
    nack = Nacked("c", "s", Place(1, 3))
    sent = [subscribed(1), dispatched(1, 3)]
    refused = [received(3), nack]
    reset = ResetCame(0, "t", "s", Place(1, 9))

    def waited_for(*facts: Fact) -> bool:
        return list(judges.unreturned(history(*facts))) == [nack]

    for outcome in ("done", "unknown"):
        ended = ResetEnded(0, outcome)
        assert not waited_for(*sent, reset, *refused, ended)
        assert not waited_for(*sent, reset, ended, *refused)
    assert not waited_for(*sent, SeekCame(1, 1, 8, None), *refused, SeekAnswered(1, 8, ""))
    # But what a reset refused, what lies behind its target and what was sent since must come.
    assert waited_for(*sent, reset, *refused, ResetEnded(0, "refused"))
    for target in (Place(1, 3), Place(-1, -1)):
        back = ResetCame(1, "t", "s", target)
        assert waited_for(*sent, back, *refused, ResetEnded(1, "done"))
        assert waited_for(
            *sent, reset, ResetEnded(0, "done"), back, ResetEnded(1, "done"), *refused
        )
    assert waited_for(subscribed(1), reset, ResetEnded(0, "unknown"), dispatched(1, 3), *refused)
