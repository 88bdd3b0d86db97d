"""Stats of topics as tables for people: what an operator looks for first, on top."""

from collections.abc import Mapping

from rich.text import Text

from magnetar.cli.console import output, print_table, printable
from magnetar.cli.show import grid, runs, show_json

__all__ = ["print_ack_state", "print_internal_stats", "print_stats"]


def print_stats(topic: str, found: object, *, as_json: bool) -> None:
    """Rates and backlogs, then subscriptions, consumers and producers."""
    if as_json or not isinstance(found, dict):
        show_json(found)
        return
    console = output()
    console.print(Text(printable(topic), style="bold"))
    table = grid("in/s#", "in#", "out/s#", "out#", "storage bytes#", "producers#")
    table.add_row(
        _rate(found, "msgRateIn"),
        _count(found, "msgInCounter"),
        _rate(found, "msgRateOut"),
        _count(found, "msgOutCounter"),
        _count(found, "storageSize"),
        f"{len(_items(found, 'publishers')):,}",
    )
    print_table(console, table)
    subscriptions = found.get("subscriptions")
    if isinstance(subscriptions, dict) and subscriptions:
        console.print()
        _print_subscriptions(subscriptions)
    for name, partition in _tables(found, "partitions").items():
        console.print()
        print_stats(name, partition, as_json=False)


def _print_subscriptions(subscriptions: Mapping[str, object]) -> None:
    console = output()
    table = grid(
        "subscription",
        "type~",
        "backlog\nentries#",
        "backlog\nmessages#",
        "unacked#",
        "delayed#",
        "out/s#",
        "consumers#",
    )
    consumers = grid("consumer", "of", "unacked#", "permits#", "out/s#", "address")
    rows = 0
    for name, found in sorted(subscriptions.items()):
        if not isinstance(found, dict):
            continue
        table.add_row(
            printable(name),
            str(found.get("type", "-")),
            _count(found, "msgBacklog"),
            _count(found, "msgBacklogMessages"),
            _count(found, "unackedMessages"),
            _count(found, "msgDelayed"),
            _rate(found, "msgRateOut"),
            f"{len(_items(found, 'consumers')):,}",
        )
        for consumer in _items(found, "consumers"):
            rows += 1
            consumers.add_row(
                printable(str(consumer.get("consumerName", "-"))),
                printable(name),
                _count(consumer, "unackedMessages"),
                _count(consumer, "availablePermits"),
                _rate(consumer, "msgRateOut"),
                printable(str(consumer.get("address", "-"))),
            )
    print_table(console, table)
    for name, found in sorted(subscriptions.items()):
        if isinstance(found, dict):
            _print_damage(name, found)
    if rows:
        console.print()
        print_table(console, consumers)


def _print_damage(name: str, found: Mapping[str, object]) -> None:
    """Where a damaged entry stands in the way, if one does, and what to do."""
    if found.get("damagedPosition"):
        text = (
            f"{name} is stuck at {found['damagedPosition']}: {found.get('damagedReason')}. "
            "If no backup has it, skip it: magnetar subscriptions skip-damaged"
        )
        output().print(Text(printable(text), style="bold red"))


def print_internal_stats(topic: str, found: object, *, as_json: bool) -> None:
    """Ledgers and cursors."""
    if as_json or not isinstance(found, dict):
        show_json(found)
        return
    console = output()
    console.print(Text(printable(topic), style="bold"))
    console.print(
        f"entries {_count(found, 'numberOfEntries')}, bytes {_count(found, 'totalSize')}, "
        f"last {found.get('lastConfirmedEntry', '-')}"
    )
    ledgers = grid("ledger#", "entries#", "bytes#")
    for ledger in _items(found, "ledgers"):
        ledgers.add_row(
            str(ledger.get("ledgerId")), _count(ledger, "entries"), _count(ledger, "size")
        )
    console.print()
    print_table(console, ledgers)
    cursors = grid("cursor", "mark-delete#", "read position#", "acked ranges#", "state~")
    for name, cursor in sorted(_tables(found, "cursors").items()):
        cursors.add_row(
            printable(name),
            str(cursor.get("markDeletePosition", "-")),
            str(cursor.get("readPosition", "-")),
            _count(cursor, "totalNonContiguousDeletedMessagesRange"),
            str(cursor.get("state", "-")),
        )
    if cursors.row_count:
        console.print()
        print_table(console, cursors)


def print_ack_state(title: str, found: object, *, as_json: bool) -> None:
    """Mark-delete, the unacked runs above it, and what is left of batches."""
    if as_json or not isinstance(found, dict):
        show_json(found)
        return
    console = output()
    console.print(Text(printable(title), style="bold"))
    console.print(
        f"acked up to {found.get('markDeletePosition')} of {found.get('lastPosition')}, unacked "
        f"entries {_count(found, 'msgBacklog')}, messages {_count(found, 'msgBacklogMessages')}"
    )
    holes = grid("hole from#", "to#")
    for hole in _items(found, "holes"):
        holes.add_row(str(hole.get("first")), str(hole.get("last")))
    batches = grid("batch#", "size#", "left#", "unacked indexes")
    for batch in _items(found, "batches"):
        left = batch.get("remaining")
        indexes = left if isinstance(left, list) else []
        batches.add_row(
            str(batch.get("position")),
            _count(batch, "batchSize"),
            f"{len(indexes):,}",
            runs(indexes),
        )
    for table in (holes, batches):
        if table.row_count:
            console.print()
            print_table(console, table)
    if found.get("next"):
        console.print(f"more from {found['next']} on: --from {found['next']}")


def _items(found: Mapping[str, object], name: str) -> list[dict[str, object]]:
    value = found.get(name)
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _tables(found: Mapping[str, object], name: str) -> dict[str, dict[str, object]]:
    value = found.get(name)
    if not isinstance(value, dict):
        return {}
    return {str(key): one for key, one in value.items() if isinstance(one, dict)}


def _count(found: Mapping[str, object], name: str) -> str:
    value = found.get(name)
    return f"{value:,}" if isinstance(value, int) else "-"


def _rate(found: Mapping[str, object], name: str) -> str:
    value = found.get(name)
    return f"{value:,.1f}" if isinstance(value, int | float) else "-"
