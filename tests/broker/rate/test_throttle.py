"""The line of those who wait for a rate: nobody is forgotten, and nobody is passed over."""

import pytest
from support.world import ManualHost

from magnetar.broker.rate.rate import NO_RATE, Rate
from magnetar.broker.rate.throttle import CALLED_AT_ONCE, WAIT_MS_MAX, Throttle, Waiter
from magnetar.storage.disk.memory_disk import MemoryDisk


class Somebody(Waiter):
    """Takes so much whenever it may."""

    def __init__(self, name: str, throttle: Throttle, log: list[str], messages: int = 1) -> None:
        self.name = name
        self.throttle = throttle
        self.log = log
        self.messages = messages
        self.stays = True

    def tokens_came(self) -> None:
        self.log.append(self.name)
        self.throttle.take(self.messages, 1)
        if self.stays:
            self.throttle.wait(self)


def begin() -> tuple[ManualHost, list[str]]:
    """A clock, and who was called."""
    return ManualHost(MemoryDisk(), 0), []


def run(host: ManualHost, ms: int) -> None:
    """Lets time pass, as `World.advance` does."""
    end = host.now + ms
    while True:
        while host.soon:
            host.soon.popleft()()
        callback = host.due()
        if callback is not None:
            callback()
        elif host.timers and host.timers[0][0] <= end:
            host.now = max(host.timers[0][0], host.now)
        else:
            break
    host.now = end


def emptied(clock: ManualHost, rate: Rate) -> Throttle:
    throttle = Throttle(clock, rate)
    throttle.take(rate.messages, rate.bytes)
    return throttle


def test_whoever_waits_is_called_when_tokens_come_and_not_before() -> None:
    clock, log = begin()
    throttle = emptied(clock, Rate(10))
    throttle.wait(Somebody("a", throttle, log))
    throttle.check()
    run(clock, 99)
    assert log == []
    run(clock, 1)
    assert log == ["a"]


def test_those_who_share_a_rate_have_the_same_of_it() -> None:
    clock, log = begin()
    throttle = emptied(clock, Rate(10))
    for name in "abc":
        throttle.wait(Somebody(name, throttle, log))
    run(clock, 3000)
    assert log == list("abc" * 10)
    throttle.check()


def test_those_who_come_later_are_behind_those_who_wait() -> None:
    clock, log = begin()
    throttle = emptied(clock, Rate(10))
    first = Somebody("a", throttle, log)
    assert not throttle.is_before(first)
    throttle.wait(first)
    assert throttle.is_before(Somebody("b", throttle, log))


def test_one_who_takes_nothing_does_not_hold_up_those_behind_it() -> None:
    clock, log = begin()
    throttle = emptied(clock, Rate(10))
    idle = Somebody("idle", throttle, log, messages=0)
    idle.stays = False
    throttle.wait(idle)
    throttle.wait(Somebody("b", throttle, log))
    run(clock, 101)
    assert log == ["idle", "b"]


def test_a_byte_rate_is_waited_for_too() -> None:
    clock, log = begin()
    throttle = Throttle(clock, Rate(0, 1000))
    throttle.take(1, 3000)
    throttle.wait(Somebody("a", throttle, log))
    assert not throttle.lacks_messages()
    run(clock, 2000)
    assert log == []
    run(clock, 10)
    assert log == ["a"]


def test_a_rate_that_is_lifted_lets_everybody_go_a_few_at_a_time() -> None:
    clock, log = begin()
    throttle = emptied(clock, Rate(1))
    for number in range(2 * CALLED_AT_ONCE + 1):
        one = Somebody(f"{number}", throttle, log)
        one.stays = False
        throttle.wait(one)
    throttle.change(NO_RATE)
    assert len(log) == CALLED_AT_ONCE
    run(clock, 0)
    assert log == [f"{number}" for number in range(2 * CALLED_AT_ONCE + 1)]


def test_a_higher_rate_is_not_waited_for_as_long_as_the_one_before() -> None:
    clock, log = begin()
    throttle = Throttle(clock, Rate(1))
    throttle.take(1000, 0)
    throttle.wait(Somebody("a", throttle, log))
    run(clock, 1000)
    throttle.change(Rate(1000))
    run(clock, 1100)
    assert log[0] == "a"


def test_a_debt_of_years_is_looked_at_again_in_a_while() -> None:
    """A timer of so long is nothing that every loop takes, and rates change."""
    clock, log = begin()
    throttle = Throttle(clock, Rate(0, 1))
    throttle.take(1, 1 << 40)
    throttle.wait(Somebody("a", throttle, log))
    assert clock.timers[0][0] == WAIT_MS_MAX
    run(clock, 10 * WAIT_MS_MAX)
    assert log == []
    throttle.check()


def test_who_is_gone_is_forgotten_and_the_timer_with_the_last() -> None:
    clock, log = begin()
    throttle = emptied(clock, Rate(1))
    one, other = Somebody("a", throttle, log), Somebody("b", throttle, log)
    throttle.wait(one)
    throttle.wait(other)
    throttle.forget(one)
    assert throttle.waiting == [other]
    throttle.forget(other)
    throttle.check()
    run(clock, 5000)
    assert log == []


def test_one_that_fails_does_not_keep_the_others_from_going_on() -> None:
    class Broken(Waiter):
        def tokens_came(self) -> None:
            raise ZeroDivisionError

    clock, log = begin()
    clock.faults = []
    throttle = emptied(clock, Rate(10))
    throttle.wait(Broken())
    throttle.wait(Somebody("b", throttle, log))
    run(clock, 201)
    assert log[0] == "b"
    assert [str(text) for text, _ in clock.faults] == ["something that waited for a rate failed"]


@pytest.mark.parametrize("waiting", [1, 7])
def test_what_passes_in_a_minute_is_what_the_rate_says(waiting: int) -> None:
    clock, log = begin()
    throttle = Throttle(clock, Rate(20))
    for number in range(waiting):
        throttle.wait(Somebody(f"{number}", throttle, log))
    run(clock, 60_000)
    assert 60 * 20 <= len(log) <= 61 * 20 + waiting
