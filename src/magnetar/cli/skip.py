"""`skip-messages`: single messages off a subscription, by id (PIP-423).

All ids go in one request, and the broker skips all of them or none. A cluster that has no
such request is told in another way, see `skip_fallback`, and the command says so.
"""

from pathlib import Path

import typer

from magnetar.cli.admin_client import AdminClient
from magnetar.cli.console import counted, status, warn
from magnetar.cli.exit_code import FOUND_WRONG, AdminError
from magnetar.cli.ledger_map import LedgerMap
from magnetar.cli.message_ids import id_text, parse_base64, parse_triplet, read_ids
from magnetar.cli.messages import Entry, Shown, print_message, read_entry
from magnetar.cli.path import subscription_path
from magnetar.cli.peek import require_subscription
from magnetar.cli.show import show_json
from magnetar.cli.target import current
from magnetar.errors import SettingsError
from magnetar.model import MessageId, TopicName
from magnetar.model.message_id import ChunkMessageId

__all__ = ["request_body", "run_skip"]


def request_body(ids: list[MessageId]) -> dict[str, object]:
    """The body of the one request: plain numbers where they say it all.

    >>> request_body([MessageId(ledger_id=1, entry_id=2, batch_index=3)])["messageIds"]
    [{'ledgerId': 1, 'entryId': 2, 'batchIndex': 3}]
    """
    plain = all(id.partition() < 0 and not isinstance(id, ChunkMessageId) for id in ids)
    if not plain:
        return {"type": "byteArray", "messageIds": [id.to_base64() for id in ids]}
    items: list[dict[str, int]] = []
    for id in ids:
        item = {"ledgerId": id.ledger_id(), "entryId": id.entry_id()}
        if id.batch_index() >= 0:
            item["batchIndex"] = id.batch_index()
        items.append(item)
    return {"type": "messageId", "messageIds": items}


def run_skip(
    topic: str,
    subscription: str,
    triplets: list[str],
    base64s: list[str],
    from_file: Path | None,
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    """The command, with its options as they were given."""
    ids = [parse_triplet(text) for text in triplets] + [parse_base64(text) for text in base64s]
    if from_file is not None:
        ids += read_ids(from_file)
    if not ids:
        raise SettingsError(
            "skip-messages",
            "no ids were given: use --messageId-triplet, --messageId-base64 or --from-file",
        )
    name = TopicName.parse(topic)
    with current().admin() as admin:
        if dry_run:
            _dry_run(admin, name, subscription, ids, as_json=as_json)
            return
        by_fallback = False
        try:
            with status(f"skipping {counted(len(ids), 'id')}"):
                path = subscription_path(name, subscription, "skipByMessageIds")
                admin.post(path, request_body(ids))
        except AdminError as error:
            if error.status != 404:
                raise
            # If all that was named is there, it is the request that is not.
            require_subscription(admin, name, subscription)
            by_fallback = True
        if by_fallback:
            from magnetar.cli.skip_fallback import skip_by_acks

            gone = skip_by_acks(admin, name, subscription, ids)
            if gone:
                warn(f"{gone:,} of {len(ids):,} were acked and deleted already")
    if as_json:
        show_json({"ids": len(ids), "byAcks": by_fallback})
    else:
        how = " by acknowledging them" if by_fallback else ""
        typer.echo(f"skipped {counted(len(ids), 'id')} on {subscription} of {name}{how}")


# ---- Looking first ---------------------------------------------------------------


def _dry_run(
    admin: AdminClient,
    topic: TopicName,
    subscription: str,
    ids: list[MessageId],
    *,
    as_json: bool,
) -> None:
    """Shows each message that would go; nothing is changed."""
    require_subscription(admin, topic, subscription)
    ledgers = LedgerMap.load(admin, topic)
    # All ids before the first message, as the broker does it.
    places = [(id, ledgers.find(id)) for id in ids]
    missing = 0
    for id, part in places:
        if part is None:
            typer.echo(f"----- {id_text(id)}  gone: it was acked and deleted already", err=as_json)
            continue
        entry = read_entry(admin, part, id.ledger_id(), id.entry_id())
        shown = _named(entry, id)
        if not shown:
            missing += 1
            warn(f"{id_text(id)}: {_misfit(entry)}")
        for message in shown:
            print_message(message, as_json=as_json)
        if entry.chunk_count > 1 and not isinstance(id, ChunkMessageId):
            warn(
                f"{id_text(id)} is chunk {entry.chunk_id + 1} of {entry.chunk_count} of one "
                "message, and the others would stay: give the id of the message in base64"
            )
    if missing:
        warn(f"{missing:,} of {len(ids):,} ids are bad: nothing would be skipped")
        raise typer.Exit(FOUND_WRONG)
    warn(f"{counted(len(ids), 'id')} would be skipped on {subscription}; nothing was changed")


def _named(entry: Entry, id: MessageId) -> list[Shown]:
    """The messages of an entry that an id names; none if it does not fit."""
    messages = entry.messages()
    if id.batch_index() < 0:
        return messages
    if not entry.batch_size or id.batch_index() >= entry.batch_size:
        return []
    # What is encrypted cannot be taken apart.
    return messages if entry.encrypted else [messages[id.batch_index()]]


def _misfit(entry: Entry) -> str:
    if not entry.batch_size:
        return "the entry is no batch: leave the batch index out"
    return f"the batch has {entry.batch_size} messages, 0 to {entry.batch_size - 1}"
