"""`skip-messages`: single messages off a subscription, by id (PIP-423).

All ids go in one request, and the broker skips all of them or none; see `skip_request` for a
list that is too long. On a terminal the command shows what became of each id. A cluster that has no
such request is told in another way, see `skip_fallback`, and the command says so.
"""

from pathlib import Path
from typing import Final

import typer

from magnetar.cli.console import counted, output, print_table, printable, warn
from magnetar.cli.exit_code import FOUND_WRONG
from magnetar.cli.message.message_ids import read_ids
from magnetar.cli.message.messages import Entry, Shown, print_message, read_entry
from magnetar.cli.show import grid, show_json
from magnetar.cli.skip.skip_request import send_skips
from magnetar.cli.target import current
from magnetar.errors import SettingsError
from magnetar.model import MessageId, TopicName
from magnetar.model.message_id import ChunkMessageId
from magnetar.rest.admin_client import AdminClient
from magnetar.rest.admin_error import AdminError
from magnetar.rest.id_text import id_text, parse_base64, parse_triplet
from magnetar.rest.skip.ledger_map import LedgerMap
from magnetar.rest.skip.skip_plan import require_subscription
from magnetar.rest.skip.skipped import Skipped, SkippedId

__all__ = ["run_skip"]

# How many ids are shown one by one; --json has all of them.
ROWS_MAX: Final = 20


def run_skip(
    topic: str,
    subscription: str,
    triplets: list[str],
    base64s: list[str],
    from_file: Path | None,
    *,
    dry_run: bool,
    recall: bool | None,
    as_json: bool,
) -> None:
    """Carries out the command, with its options as they were given."""
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
        skipped: Skipped | None = None
        try:
            skipped = send_skips(admin, name, subscription, ids, recall=recall)
        except AdminError as error:
            if error.status != 404:
                raise
            # If all that was named is there, it is the request that is not.
            admin.do(require_subscription(name, subscription))
        if skipped is None:
            from magnetar.cli.skip.skip_fallback import skip_by_acks

            gone = skip_by_acks(admin, name, subscription, ids)
            if gone:
                warn(f"{gone:,} of {len(ids):,} were acked and deleted already")
    if as_json:
        show_json({"ids": len(ids), "byAcks": skipped is None, **_as_json(skipped)})
    else:
        how = " by acknowledging them" if skipped is None else ""
        typer.echo(f"skipped {counted(len(ids), 'id')} on {subscription} of {name}{how}")
        _show_rows(skipped)
    if skipped is not None and skipped.unconfirmed:
        warn(
            f"{counted(skipped.unconfirmed, 'consumer')} did not confirm that what was queued is "
            "given back: their applications may still be handed it"
        )


# ---- What became of them ---------------------------------------------------------

TAKERS: Final = {
    "taken_back_from": "taken back from",
    "handed_out_to": "handed out before to",
    "closed": "emptied the queue of",
    "unconfirmed": "perhaps still with",
}


def _as_json(skipped: Skipped | None) -> dict[str, object]:
    if skipped is None or not skipped.message_ids:
        return {}
    return {
        "skipped": skipped.skipped,
        "unconfirmed": skipped.unconfirmed,
        "requests": skipped.requests,
        "messageIds": [row.to_json() for row in skipped.message_ids],
    }


def _show_rows(skipped: Skipped | None) -> None:
    console = output()
    if skipped is None or not skipped.message_ids or not console.is_terminal:
        return
    table = grid("id~", "result~", "consumers")
    for row in skipped.message_ids[:ROWS_MAX]:
        place = [row.ledger_id, row.entry_id, row.batch_index]
        text = ":".join(str(number) for number in place if number is not None)
        table.add_row(text, row.result, printable(_takers(row)))
    print_table(console, table)
    if len(skipped.message_ids) > ROWS_MAX:
        left = len(skipped.message_ids) - ROWS_MAX
        console.print(f"... and {left:,} more: --json has all of them")


def _takers(row: SkippedId) -> str:
    """Returns who had the message, in words."""
    said: list[str] = []
    for name, words in TAKERS.items():
        names = getattr(row, name)
        if names is not None:
            said.append(f"{words} {', '.join(names)}")
    return "; ".join(said)


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
    admin.do(require_subscription(topic, subscription))
    ledgers = admin.do(LedgerMap.load(topic))
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
                "message: all of them would be skipped"
            )
    if missing:
        warn(f"{missing:,} of {len(ids):,} ids are bad: nothing would be skipped")
        raise typer.Exit(FOUND_WRONG)
    warn(f"{counted(len(ids), 'id')} would be skipped on {subscription}; nothing was changed")


def _named(entry: Entry, id: MessageId) -> list[Shown]:
    """Returns the messages of an entry that an id names; none if it does not fit."""
    messages = entry.messages()
    if id.batch_index() < 0:
        return messages
    if not entry.batch_size or id.batch_index() >= entry.batch_size:
        return []
    # What is encrypted cannot be taken apart.
    return messages if entry.encrypted else [messages[id.batch_index()]]


def _misfit(entry: Entry) -> str:
    if not entry.batch_size:
        return "the entry is not a batch: leave out the batch index"
    return f"the batch has {entry.batch_size} messages, 0 to {entry.batch_size - 1}"
