"""Looking at messages through admin REST, which moves no cursor.

REST peeks entry by entry and knows of batches only as a whole. Where the broker says which
indexes of a batch are left (`ackState`, Magnetar's own), those that are acked are not shown.
"""

from collections.abc import Iterator

import typer

from magnetar.cli.message.messages import Entry, Shown, print_message, read_entry
from magnetar.cli.target import current
from magnetar.model import Position, TopicName
from magnetar.rest.admin_client import AdminClient
from magnetar.rest.admin_error import AdminError
from magnetar.rest.path import subscription_path, topic_path
from magnetar.rest.skip.ledger_map import partition_topics
from magnetar.rest.skip.skip_plan import require_subscription

__all__ = ["run_examine", "run_get", "run_peek"]


def run_peek(
    topic: str, subscription: str, count: int, *, as_json: bool, hex: bool, hide_content: bool
) -> None:
    """Prints the next messages of a subscription."""
    name = TopicName.parse(topic)
    shown = 0
    with current().admin() as admin:
        for part in admin.do(partition_topics(name)):
            # Asked for one that is not there, Pulsar would make it.
            admin.do(require_subscription(part, subscription))
            for number, message in enumerate(_unacked(admin, part, subscription)):
                if number == count:
                    break
                print_message(message, as_json=as_json, hex=hex, hide_content=hide_content)
                shown += 1
    if not shown and not as_json:
        typer.echo(f"{subscription} of {name} has no unacked messages", err=True)


def _unacked(admin: AdminClient, topic: TopicName, subscription: str) -> Iterator[Shown]:
    left = _Left(admin, subscription_path(topic, subscription, "ackState"))
    number = 0
    while True:
        number += 1
        path = subscription_path(topic, subscription, "position", str(number))
        try:
            entry = Entry(admin.request("GET", path), str(topic), topic.partition)
        except AdminError as error:
            if error.status == 404:
                return
            raise
        indexes = left.of(entry.ledger_id, entry.entry_id) if entry.batch_size else None
        for message in entry.messages():
            if indexes is None or message.id.batch_index() in indexes:
                yield message


class _Left:
    """The unacked indexes of partly acked batches, asked for page by page, in order."""

    def __init__(self, admin: AdminClient, path: str) -> None:
        self._admin = admin
        self._path = path
        self._batches: dict[Position, set[int]] = {}
        # Where the next page begins; None if there is none.
        self._next: Position | None = Position(-1, -1)

    def of(self, ledger_id: int, entry_id: int) -> set[int] | None:
        """None for an entry that is not partly acked, or where the broker does not tell."""
        position = Position(ledger_id, entry_id)
        while self._next is not None and position >= self._next:
            self._load(self._next)
        return self._batches.get(position)

    def _load(self, first: Position) -> None:
        start = str(first) if first.ledger_id >= 0 else None
        try:
            found = self._admin.get(self._path, **{"from": start})
        except AdminError as error:
            if error.status not in (404, 405):
                raise
            found = {}
        assert isinstance(found, dict)
        for batch in found.get("batches", []):
            self._batches[Position.parse(batch["position"])] = set(batch["remaining"])
        following = found.get("next")
        self._next = None if following is None else Position.parse(following)


def run_examine(topic: str, place: str, number: int, *, as_json: bool) -> None:
    """Prints the n-th entry from either end."""
    name = TopicName.parse(topic)
    with current().admin() as admin:
        answer = admin.request(
            "GET",
            topic_path(name, "examinemessage"),
            query={"initialPosition": place, "messagePosition": number},
        )
    _print_entry(Entry(answer, str(name), name.partition), as_json=as_json)


def run_get(topic: str, ledger_id: int, entry_id: int, *, as_json: bool) -> None:
    """Prints the messages of an entry."""
    name = TopicName.parse(topic)
    with current().admin() as admin:
        entry = read_entry(admin, name, ledger_id, entry_id)
    _print_entry(entry, as_json=as_json)


def _print_entry(entry: Entry, *, as_json: bool) -> None:
    for message in entry.messages():
        print_message(message, as_json=as_json)
