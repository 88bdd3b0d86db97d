"""One snapshot of what a subscription has not acknowledged, from the broker's REST.

A state of up to ten thousand holes is one answer, and so of one moment. A larger one comes in
pages; if acks came between two of them, all are asked for again.
"""

from typing import Any

from magnetar.arrow.plan.backlog import Backlog, Run
from magnetar.arrow.rest import Rest
from magnetar.errors import MagnetarError, OperationNotSupported, TopicNotFound
from magnetar.model import Position
from magnetar.rest.path import subscription_path

__all__ = ["backlog_of", "state_of"]

ATTEMPTS_MAX = 5
PAGE = 10_000
# What says, page by page, that it is still the same state.
_SAME = (
    "markDeletePosition",
    "lastAckedPosition",
    "ackedRanges",
    "partiallyAckedBatches",
    "epoch",
)


def backlog_of(rest: Rest, topic: str, subscription: str) -> Backlog:
    """Returns the backlog of a topic partition, at one moment."""
    return _backlog(state_of(rest, topic, subscription), rest.ledgers(topic))


def state_of(rest: Rest, topic: str, subscription: str) -> list[Any]:
    """Returns the ack state of a topic partition at one moment, as pages of REST's answer."""
    for _ in range(ATTEMPTS_MAX):
        pages = _pages(rest, topic, subscription)
        if pages is not None:
            return pages
    raise MagnetarError(
        f"the ack state of {subscription} on {topic} has more than {PAGE} holes and changes "
        "while it is read: pause its consumers, and read again"
    )


def _pages(rest: Rest, topic: str, subscription: str) -> list[Any] | None:
    """Returns all pages of one state; None if it changed meanwhile."""
    path = subscription_path(topic, subscription, "ackState")
    pages: list[Any] = []
    following: str | None = None
    while True:
        try:
            page = rest.get(path, limit=PAGE, **{"from": following})
        except TopicNotFound as error:
            raise OperationNotSupported(
                f"{subscription} on {topic} has no ack state to read: is there such a "
                f"subscription, and is the broker Magnetar? ({error})"
            ) from error
        if pages and any(page[name] != pages[0][name] for name in _SAME):
            return None
        pages.append(page)
        following = page["next"]
        if following is None:
            return pages


def _backlog(pages: list[Any], ledgers: list[tuple[int, int]]) -> Backlog:
    runs: list[Run] = []
    picked: dict[tuple[int, int], int] = {}
    for page in pages:
        for hole in page["holes"]:
            start, stop = Position.parse(hole["first"]), Position.parse(hole["last"])
            runs.append((start.ledger_id, start.entry_id, stop.entry_id + 1))
        for batch in page["batches"]:
            at = Position.parse(batch["position"])
            left = sum(1 << index for index in batch["remaining"])
            picked[at.ledger_id, at.entry_id] = left
    acked = Position.parse(pages[0]["lastAckedPosition"])
    last = Position.parse(pages[0]["lastPosition"])
    for ledger, entries in ledgers:
        if not acked.ledger_id <= ledger <= last.ledger_id:
            continue
        first = acked.entry_id + 1 if ledger == acked.ledger_id else 0
        end = last.entry_id + 1 if ledger == last.ledger_id else entries
        if first < end:
            runs.append((ledger, first, end))
    return Backlog(runs, picked)
