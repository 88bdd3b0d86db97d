"""`magnetar status`: the broker on one screen."""

from typing import Annotated

import typer
from rich.text import Text

from magnetar.cli.console import counted, output, print_table, printable
from magnetar.cli.console import status as busy
from magnetar.cli.exit_code import FOUND_WRONG
from magnetar.cli.option import Json, named_namespace
from magnetar.cli.target import current

__all__ = ["status"]


def status(
    namespace: Annotated[
        str,
        typer.Option(
            "-n",
            "--namespace",
            metavar="NAMESPACE",
            help="Show only this namespace (default: all).",
            callback=named_namespace,
        ),
    ] = "",
    limit: Annotated[
        int, typer.Option("-l", "--limit", help="Number of subscriptions to list.", min=0)
    ] = 10,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Ask for every topic, even those nobody has used yet."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Show rates, backlog, oldest unacked message, disk and warnings on one screen.

    Exit with 1 if something is wrong; a busy broker is not wrong.
    """
    from magnetar.cli.show import show_json
    from magnetar.cli.status.broker_view import broker_view
    from magnetar.cli.status.report import report
    from magnetar.cli.status.screen import heading, subscription_table, totals, unit_note
    from magnetar.cli.status.survey import ASKED_MAX, survey
    from magnetar.cli.status.warning import gathered, warnings_of

    target = current()
    with target.admin() as admin, busy(f"asking {target.admin_url}"):
        broker = broker_view(admin)
        found = survey(
            admin,
            namespace or target.namespace,
            everywhere=not namespace,
            most=None if everything else ASKED_MAX,
        )
    warned = warnings_of(broker, found, target.namespace)
    if as_json:
        show_json(report(broker, found, warned))
    else:
        console = output()
        console.print(heading(broker))
        console.print()
        print_table(console, totals(broker, found))
        all_of_them = [s for view in found.topics.values() for s in view.subscriptions.values()]
        behind = sorted([s for s in all_of_them if s.backlog], key=lambda one: -one.backlog)
        if behind and limit:
            console.print()
            print_table(console, subscription_table(behind[:limit], target.namespace))
            if len(behind) > limit:
                more = counted(len(behind) - limit, "subscription")
                console.print(Text(f"and {more} more: --limit {len(behind)}", style="dim"))
        if warned:
            console.print()
        for one in gathered(warned):
            console.print(Text(f"! {printable(one.text)}", style="red" if one.wrong else "yellow"))
        notes = [*unit_note(found), *found.notes()]
        if notes:
            console.print()
        for note in notes:
            console.print(Text(note, style="dim"))
    if any(one.wrong for one in warned):
        raise typer.Exit(FOUND_WRONG)
