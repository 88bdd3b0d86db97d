"""The views of a data directory as tables for people.

Lists that could go on for pages end after a few lines, with the number of those left out;
the JSON form has them all.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from magnetar.cli.console import print_table, printable
from magnetar.cli.data.view import (
    CursorView,
    DirectoryView,
    LedgerView,
    RangeView,
    TopicView,
    TransactionView,
)
from magnetar.cli.show import grid, runs

__all__ = ["print_cursor", "print_directory", "print_files"]

# How many ranges, batches and ledgers of one cursor or topic are shown.
ROWS_MAX: Final = 20
INDEX_RANGES_MAX: Final = 12


CURSOR_NUMBERS: Final = (
    "mark-delete#",
    "backlog\nentries#",
    "backlog\nmessages#",
    "acked\nranges#",
    "partly\nacked#",
)


def print_directory(console: Console, view: DirectoryView) -> None:
    """An overview of the topics, then each with its ledgers and cursors."""
    if not view["closedInOrder"]:
        console.print("not closed in order: the next start recovers it")
    for cut in view["cuts"]:
        console.print(
            f"{cut['path']} will be cut at byte {cut['offset']}: {cut['bytes']} bytes "
            f"and {cut['records']} records behind it had not reached the disk"
        )
    if view["openTransactions"]:
        print_table(console, _transactions(view["openTransactions"]))
        console.print()
    if not view["topics"]:
        console.print("no topics")
        return
    if len(view["topics"]) > 1:
        print_table(console, _overview(view["topics"]))
        console.print()
    for i, topic in enumerate(view["topics"]):
        if i > 0:
            console.print()
        _print_heading(console, f"{topic['name']} (topic {topic['id']})")
        for part in _topic_parts(topic):
            _print_indented(console, part)


def print_cursor(console: Console, topic: str, view: CursorView) -> None:
    """Prints one cursor of a topic."""
    _print_heading(console, topic)
    table = grid("cursor", *CURSOR_NUMBERS)
    table.add_row(printable(view["name"]), *_cursor_numbers(view))
    _print_indented(console, table)
    for part in _cursor_details(view):
        _print_indented(console, part)


def print_files(console: Console, rows: list[tuple[str, str, str, int]]) -> None:
    """Files that were written: name, topic, cursor, bytes."""
    table = grid("file", "topic", "cursor", "bytes#")
    for file, topic, cursor, size in rows:
        table.add_row(file, printable(topic), printable(cursor), f"{size:,}")
    print_table(console, table)


def _print_heading(console: Console, text: str) -> None:
    console.print(Text(printable(text), style="bold"))


def _print_indented(console: Console, part: RenderableType) -> None:
    indented = Padding(part, (0, 0, 0, 2), expand=False)
    if isinstance(part, Table):
        print_table(console, indented)
    else:
        console.print(indented)


def _transactions(transactions: list[TransactionView]) -> Table:
    table = grid("transaction~", "opened (UTC)#", "sent\nentries#", "acked\nentries#", "owner")
    for one in transactions[:ROWS_MAX]:
        acked = [sum(counts.values()) for counts in one["ackedEntries"].values()]
        table.add_row(
            one["txnId"],
            _time(one["openedAt"]),
            f"{sum(one['producedEntries'].values()):,}",
            f"{sum(acked):,}",
            printable(one["owner"] or "-"),
        )
    if len(transactions) > ROWS_MAX:
        table.add_row(f"{len(transactions) - ROWS_MAX:,} more", "", "", "", "")
    return table


def _overview(topics: list[TopicView]) -> Table:
    table = grid("topic", "ledgers#", "entries#", "messages#", "bytes#", "cursors#")
    for topic in topics:
        ledgers = topic["ledgers"]
        counts = (
            len(ledgers),
            sum(ledger["entries"] for ledger in ledgers),
            sum(ledger["messages"] for ledger in ledgers),
            sum(ledger["bytes"] for ledger in ledgers),
            len(topic["cursors"]),
        )
        table.add_row(printable(topic["name"]), *(f"{count:,}" for count in counts))
    return table


def _topic_parts(topic: TopicView) -> Iterator[RenderableType]:
    if topic["ledgers"]:
        yield _ledgers(topic["ledgers"])
    else:
        yield "no ledgers"
    view = topic["compacted"]
    if view is not None:
        kept = f"{view['keptMessages']:,} messages of {view['keptEntries']:,} entries"
        yield f"compacted view {view['id']} through {view['through']}: {kept}"
    aborted = sum(ledger["abortedEntries"] for ledger in topic["ledgers"])
    uncommitted = sum(ledger["uncommittedEntries"] for ledger in topic["ledgers"])
    if aborted or uncommitted:
        yield f"entries of transactions: {uncommitted:,} uncommitted, {aborted:,} aborted"
    if not topic["cursors"]:
        yield "no cursors"
        return
    table = grid("cursor", "id#", *CURSOR_NUMBERS)
    for cursor in topic["cursors"]:
        table.add_row(printable(cursor["name"]), str(cursor["id"]), *_cursor_numbers(cursor))
    yield table
    for cursor in topic["cursors"]:
        yield from _cursor_details(cursor)


def _cursor_numbers(view: CursorView) -> list[str]:
    """Returns the columns of CURSOR_NUMBERS."""
    return [
        view["markDeletePosition"],
        f"{view['msgBacklog']:,}",
        f"{view['msgBacklogMessages']:,}",
        f"{len(view['ackedRanges']):,}",
        f"{len(view['partlyAcked']):,}",
    ]


def _ledgers(ledgers: list[LedgerView]) -> Table:
    table = grid("ledger#", "entries#", "messages#", "bytes#", "created (UTC)#", "sealed (UTC)#")
    shown = ledgers[-ROWS_MAX:]
    if len(shown) < len(ledgers):
        table.add_row(f"{len(ledgers) - len(shown):,} older")
    for ledger in shown:
        sealed_at = ledger["sealedAt"]
        table.add_row(
            str(ledger["id"]),
            f"{ledger['entries']:,}",
            f"{ledger['messages']:,}",
            f"{ledger['bytes']:,}",
            _time(ledger["createdAt"]),
            "open" if sealed_at is None else _time(sealed_at),
        )
    return table


def _cursor_details(view: CursorView) -> Iterator[RenderableType]:
    name = printable(view["name"])
    ranges, batches = view["ackedRanges"], view["partlyAcked"]
    if ranges:
        shown = ", ".join(_range(acked) for acked in ranges[:ROWS_MAX])
        yield f"{name}: acked above mark-delete: {shown}{_more(ranges, ROWS_MAX)}"
    if batches:
        table = grid("batch", "size#", "left#", "unacked indexes")
        for batch in batches[:ROWS_MAX]:
            table.add_row(
                f"{batch['ledgerId']}:{batch['entryId']}",
                f"{batch['batchSize']:,}",
                f"{len(batch['unacked']):,}",
                runs(batch["unacked"], INDEX_RANGES_MAX),
            )
        yield f"{name}: partly acked{_more(batches, ROWS_MAX)}:"
        yield table


def _range(acked: RangeView) -> str:
    last = acked["end"] - 1
    first = f"{acked['ledgerId']}:{acked['first']}"
    return first if acked["first"] == last else f"{first}-{last}"


def _more(rows: Sequence[object], shown: int) -> str:
    return f" (the first {shown} of {len(rows):,})" if len(rows) > shown else ""


def _time(time_ms: int) -> str:
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return str(time_ms)  # no calendar has it, whoever's clock said so
