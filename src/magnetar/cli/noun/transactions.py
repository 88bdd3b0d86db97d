"""`magnetar transactions`: what is open, what it has done, and how it ended.

`list`, `show` and `abort` are for people; the other verbs are `pulsar-admin`'s.
"""

import time
from datetime import UTC, datetime
from typing import Annotated, TypeAlias

import typer

from magnetar.cli.confirm import Yes, confirm
from magnetar.cli.option import Json, SubscriptionName, TopicArgument, duration_s
from magnetar.cli.show import show_json, show_rows, show_value
from magnetar.cli.status.amount import age_text
from magnetar.cli.target import current
from magnetar.errors import SettingsError
from magnetar.rest.path import transactions_path

__all__ = ["app"]

app: typer.Typer = typer.Typer(help="Manage transactions.", no_args_is_help=True)

Txn: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="TXN", help="Id of the transaction: 0:17 or (0,17).", show_default=False
    ),
]
MostBits: TypeAlias = Annotated[
    int,
    typer.Option(
        "-m",
        "--most-sig-bits",
        metavar="NUMBER",
        min=0,
        help="First half of the transaction id: the coordinator.",
    ),
]
LeastBits: TypeAlias = Annotated[
    int,
    typer.Option(
        "-l",
        "--least-sig-bits",
        metavar="NUMBER",
        min=0,
        help="Second half of the transaction id: its number.",
    ),
]
Coordinator: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "-c", "--coordinator-id", metavar="NUMBER", min=0, help="Coordinator (default: all)."
    ),
]
LowWaterMark: TypeAlias = Annotated[
    bool,
    typer.Option(
        "-l", "--low-water-mark", help="Show the position up to which all transactions have ended."
    ),
]


# ---- For people ------------------------------------------------------------------------


@app.command("list")
def list_transactions(
    open_for: Annotated[
        str,
        typer.Option(
            "--open-for",
            metavar="TIME",
            help="Show transactions open for at least this long: seconds, or e.g. 5min.",
        ),
    ] = "0",
    as_json: Json = False,
) -> None:
    """List the open transactions, oldest first."""
    seconds = _seconds("--open-for", open_for)
    with current().admin() as admin:
        found = admin.get(transactions_path("slowTransactions", str(seconds * 1000)))
    if as_json or not isinstance(found, dict):
        show_json(found)
        return
    now = time.time()
    rows = [
        [
            name,
            one.get("status"),
            age_text(now - int(one.get("openTimestamp", 0)) / 1000),
            age_text(int(one.get("timeoutAt", 0)) / 1000),
            len(one.get("producedPartitions") or {}),
            sum(len(each) for each in (one.get("ackedPartitions") or {}).values()),
            one.get("owner") or "-",
        ]
        for name, one in found.items()
    ]
    if not rows:
        typer.echo("no transaction is open")
        return
    show_rows(
        ["transaction~", "status~", "open for~", "of~", "topics#", "subscriptions#", "owner"], rows
    )


@app.command()
def show(transaction: Txn, as_json: Json = False) -> None:
    """Show what a transaction has done, or how it ended."""
    from magnetar.rest.plan.transactions import halves

    with current().admin() as admin:
        found = admin.get(transactions_path("transactionMetadata", *halves(transaction)))
    if as_json or not isinstance(found, dict):
        show_json(found)
        return
    for field in ("openTimestamp", "endTimestamp"):
        found[field] = _time(found.get(field))
    found["timeoutAt"] = age_text(int(found.get("timeoutAt") or 0) / 1000)
    produced = found.pop("producedPartitions", None) or {}
    acked = found.pop("ackedPartitions", None) or {}
    show_value(found, as_json=False)
    sent = [["sends to", topic, one.get("startPosition") or "-"] for topic, one in produced.items()]
    acks = [
        ["acks", f"{topic}, {subscription}", one.get("cumulativeAckPosition") or "-"]
        for topic, subscriptions in acked.items()
        for subscription, one in subscriptions.items()
    ]
    if sent or acks:
        show_rows(["~", "topic", "position~"], sent + acks)


@app.command()
def abort(transaction: Txn, yes: Yes = False) -> None:
    """Abort a transaction: nobody sees what it sent, and what it acked comes again."""
    from magnetar.rest.plan.transactions import halves

    pieces = halves(transaction)
    confirm(f"Abort transaction {transaction}?", yes=yes)
    _abort(*pieces)


def _abort(most: str, least: str) -> None:
    with current().admin() as admin:
        admin.post(transactions_path("abortTransaction", most, least))
    typer.echo(f"aborted transaction ({most},{least})")


def _seconds(name: str, text: str) -> int:
    seconds = duration_s(name, text)
    if seconds < 0:
        raise SettingsError(name, f"{text!r} is below 0: give a time such as 30 or 5min")
    return seconds


def _time(ms: object) -> str:
    if not isinstance(ms, int) or ms <= 0:
        return "-"
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")


# ---- As pulsar-admin has them ----------------------------------------------------------


def _show(verb: str, *more: str, topic: str = "", as_json: bool, **query: object) -> None:
    with current().admin() as admin:
        path = transactions_path(verb, *more, topic=topic)
        show_value(admin.get(path, **query), as_json=as_json)


@app.command("coordinators-list")
def coordinators_list(as_json: Json = False) -> None:
    """List the coordinators, and where they are."""
    _show("coordinators", as_json=as_json)


@app.command("coordinator-stats")
def coordinator_stats(coordinator: Coordinator = None, as_json: Json = False) -> None:
    """Show how many transactions are open at a coordinator."""
    _show("coordinatorStats", coordinatorId=coordinator, as_json=as_json)


@app.command("slow-transactions")
def slow_transactions(
    time: Annotated[
        str,
        typer.Option(
            "-t",
            "--time",
            metavar="TIME",
            help="Show transactions open for longer than this: seconds, or e.g. 5min.",
        ),
    ],
    coordinator: Coordinator = None,
    as_json: Json = False,
) -> None:
    """Show the transactions that have been open for longer than a time."""
    ms = str(_seconds("--time", time) * 1000)
    _show("slowTransactions", ms, coordinatorId=coordinator, as_json=as_json)


@app.command("transaction-metadata")
def transaction_metadata(most: MostBits, least: LeastBits, as_json: Json = False) -> None:
    """Show what a transaction has done, or how it ended."""
    _show("transactionMetadata", str(most), str(least), as_json=as_json)


@app.command("abort-transaction")
def abort_transaction(most: MostBits, least: LeastBits, yes: Yes = False) -> None:
    """Abort a transaction: nobody sees what it sent, and what it acked comes again."""
    confirm(f"Abort transaction ({most},{least})?", yes=yes)
    _abort(str(most), str(least))


@app.command("transaction-buffer-stats")
def transaction_buffer_stats(
    topic: TopicArgument, low_water_mark: LowWaterMark = False, as_json: Json = False
) -> None:
    """Show how far a topic may be read, and how many transactions have something in it."""
    _show("transactionBufferStats", topic=topic, lowWaterMarks=low_water_mark, as_json=as_json)


@app.command("transaction-in-buffer-stats")
def transaction_in_buffer_stats(
    topic: TopicArgument, most: MostBits, least: LeastBits, as_json: Json = False
) -> None:
    """Show where a transaction begins in a topic, and whether it was aborted."""
    _show("transactionInBufferStats", str(most), str(least), topic=topic, as_json=as_json)


@app.command("pending-ack-stats")
def pending_ack_stats(
    topic: TopicArgument,
    subscription: SubscriptionName,
    low_water_mark: LowWaterMark = False,
    as_json: Json = False,
) -> None:
    """Show how many transactions have acks on a subscription that wait for their ends."""
    query = {"lowWaterMarks": low_water_mark}
    _show("pendingAckStats", subscription, topic=topic, as_json=as_json, **query)


@app.command("transaction-in-pending-ack-stats")
def transaction_in_pending_ack_stats(
    topic: TopicArgument,
    subscription: SubscriptionName,
    most: MostBits,
    least: LeastBits,
    as_json: Json = False,
) -> None:
    """Show how far a transaction acks a subscription, if it does so cumulatively."""
    pieces = (subscription, str(most), str(least))
    _show("transactionInPendingAckStats", *pieces, topic=topic, as_json=as_json)


@app.command("position-stats-in-pending-ack")
def position_stats_in_pending_ack(
    topic: TopicArgument,
    subscription: SubscriptionName,
    ledger: Annotated[int, typer.Option("-l", "--ledger-id", min=0, help="Ledger of the message.")],
    entry: Annotated[int, typer.Option("-e", "--entry-id", min=0, help="Entry of the message.")],
    index: Annotated[
        int | None, typer.Option("-b", "--batch-index", min=0, help="Index in the batch.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show whether a message is acked, waits for a transaction's end, or neither."""
    pieces = (subscription, str(ledger), str(entry))
    _show("positionStatsInPendingAck", *pieces, topic=topic, batchIndex=index, as_json=as_json)
