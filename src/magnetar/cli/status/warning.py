"""What an operator should know of at once, and what to do about it.

| is wrong (exit code 1)                         | deserves a look                                |
|------------------------------------------------|------------------------------------------------|
| the broker says that it is not well            | a backlog that nobody consumes                 |
| its disk is nearly full, or work of it fails   | consumers that are there, and a message that   |
| a damaged entry stops a subscription           | has waited for an hour all the same            |
| a subscription is blocked by unacked messages  |                                                |
"""

import time
from collections.abc import Iterator
from typing import Final

from magnetar.cli.console import counted
from magnetar.cli.status.amount import age_text, bytes_text, short_name
from magnetar.cli.status.broker_view import BrokerView
from magnetar.cli.status.survey import Survey
from magnetar.cli.status.view import SubscriptionView

__all__ = ["Warned", "gathered", "warnings_of"]

# Somebody consumes, so a message of this age is one that is not got rid of.
OLD_S: Final = 3600.0
# So many times what publishes need to have: time enough to do something.
ROOM: Final = 4
# Sentences that say the same of several subscriptions, before the others are only counted.
SAME_MAX: Final = 3

# What is said of many subscriptions together.
DAMAGED: Final = "are stuck at damaged entries"
BLOCKED: Final = "get no more messages"
UNATTENDED: Final = "have a backlog and no consumer"
SLOW: Final = "have consumers, and messages that have waited for more than an hour"


class Warned:
    """A sentence, what it would be of many subscriptions, and whether something is wrong."""

    def __init__(self, text: str, *, wrong: bool, of_many: str = "") -> None:
        self.text = text
        self.wrong = wrong
        self.of_many = of_many


def gathered(warned: list[Warned]) -> list[Warned]:
    """Returns warnings so that they fit a screen: of many that say the same a few, and how many
    more there are."""
    found: list[Warned] = []
    for kind in dict.fromkeys(one.of_many for one in warned):
        same = [one for one in warned if one.of_many == kind]
        shown = same if not kind or len(same) <= SAME_MAX + 1 else same[:SAME_MAX]
        found += shown
        if len(shown) < len(same):
            more = counted(len(same) - len(shown), "subscription")
            found.append(Warned(f"and {more} more {kind}: --json lists them", wrong=same[0].wrong))
    return found


def warnings_of(broker: BrokerView, found: Survey, namespace: str) -> list[Warned]:
    """Returns the warnings, what is wrong first, then by backlog."""
    all_of_them = [one for view in found.topics.values() for one in view.subscriptions.values()]
    by_backlog = sorted(all_of_them, key=lambda one: -one.backlog)
    warned = [
        *_of_broker(broker),
        *[text for one in by_backlog for text in _of_subscription(one, namespace)],
    ]
    return sorted(warned, key=lambda one: not one.wrong)


def _of_broker(broker: BrokerView) -> Iterator[Warned]:
    if broker.ill:
        yield Warned(f"the broker is not well: {broker.ill}", wrong=True)
    for kind, why in broker.retrying.items():
        yield Warned(f"{kind} fails and is tried again: {why}", wrong=True)
    free, watermark = broker.free_bytes, broker.watermark_bytes
    if free is not None and watermark is not None and free < ROOM * watermark:
        yield Warned(
            f"the disk has {bytes_text(free)} left, and publishes are refused below "
            f"{bytes_text(watermark)}: free some space",
            wrong=True,
        )


def _of_subscription(one: SubscriptionView, namespace: str) -> Iterator[Warned]:
    topic = short_name(one.topic, namespace)
    title = f"{one.name} of {topic}"
    if one.damaged_at:
        yield Warned(
            f"{title} is stuck at {one.damaged_at}: {one.damaged_why}. If no backup has it: "
            f"magnetar subscriptions skip-damaged {topic} -s {one.name}",
            wrong=True,
            of_many=DAMAGED,
        )
    if one.blocked:
        yield Warned(
            f"{title} gets no more messages: its consumers hold {one.unacked:,} of them unacked",
            wrong=True,
            of_many=BLOCKED,
        )
    if not one.waiting:
        return
    noun = "entries" if one.messages is None else "messages"
    if not one.consumers:
        text = f"{title} has {one.waiting:,} {noun} and no consumer"
        yield Warned(text, wrong=False, of_many=UNATTENDED)
        return
    age_s = time.time() - (one.oldest_ms or time.time() * 1000) / 1000
    if age_s > OLD_S and not one.delayed:
        yield Warned(
            f"{title} has consumers, but its oldest message has waited for {age_text(age_s)}: "
            f"magnetar peek {topic} -s {one.name}",
            wrong=False,
            of_many=SLOW,
        )
