"""Long answers let others have their turn (I10)."""

import asyncio
from typing import Any

import pytest
from support.served import Served, made

from magnetar.admin.http import breather
from magnetar.admin.http.breather import Breather


def turns_of_others(work: Any) -> int:
    """How often others have their turn while something is at work."""
    turns = 0
    done = False

    async def others() -> None:
        nonlocal turns
        while not done:
            turns += 1
            await asyncio.sleep(0)

    async def both() -> None:
        nonlocal done
        waiting = asyncio.create_task(others())
        await asyncio.sleep(0)
        await work()
        done = True
        await waiting

    asyncio.run(both())
    return turns


def test_others_have_their_turn_when_a_slice_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        resting = Breather()
        for _ in range(50):
            await resting.rest()

    monkeypatch.setattr(breather, "SLICE_SECONDS", 0.0)
    assert turns_of_others(work) >= 50
    monkeypatch.setattr(breather, "SLICE_SECONDS", 1e9)
    assert turns_of_others(work) <= 3


@pytest.mark.parametrize("question", ["ackMap", "messages"])
def test_what_the_console_asks_of_a_subscription_is_answered_in_slices(
    served: Served, monkeypatch: pytest.MonkeyPatch, question: str
) -> None:
    topic = made(served)
    served.publish(topic, 300)
    rests = 0
    rest = Breather.rest

    async def counted(self: Breather) -> None:
        nonlocal rests
        rests += 1
        await rest(self)

    monkeypatch.setattr(Breather, "rest", counted)
    path = f"/persistent/{topic}/subscription/s/{question}"
    assert served.http.get(path, params={"limit": 300} if question == "messages" else {}).is_success
    assert rests >= 300
