"""Rates of topics and namespaces: `get-`, `set-` and `remove-` commands as `pulsar-admin` has them.

    set-publish-rate                 TOPIC -m MESSAGES -b BYTES
    set-dispatch-rate                TOPIC -md MESSAGES -bd BYTES -dt SECONDS [-p]
    set-subscription-dispatch-rate   the same, with -s of one subscription of a topic
    set-subscribe-rate               TOPIC -sr TIMES -st SECONDS

A rate of -1 is without limit, which also frees a topic from the rate of its namespace.
"""

from collections.abc import Callable
from typing import Annotated, Final, TypeAlias

import typer

from magnetar.cli.option import Json, namespace_argument, topic_argument
from magnetar.cli.show import show_value
from magnetar.cli.target import current
from magnetar.rest.path import namespace_path, topic_path

__all__ = ["add_rates"]

PANEL: Final = "Policies"

RATES: Final = {
    "publish-rate": ("publishRate", "how much may be published in a second"),
    "dispatch-rate": ("dispatchRate", "how much consumers are sent in a time"),
    "subscription-dispatch-rate": (
        "subscriptionDispatchRate",
        "how much the consumers of each subscription are sent in a time",
    ),
    "subscribe-rate": ("subscribeRate", "how often a consumer may subscribe in a time"),
}
# This one a topic may have for one of its subscriptions.
OF_SUBSCRIPTIONS: Final = "subscription-dispatch-rate"

Applied: TypeAlias = Annotated[
    bool,
    typer.Option(
        "-ap", "--applied", help="Show the value in effect, even if it is set at a higher level."
    ),
]
Subscription: TypeAlias = Annotated[
    str, typer.Option("-s", "--subscription", metavar="SUB", help="This subscription alone.")
]
Messages: TypeAlias = Annotated[
    int, typer.Option("-md", "--msg-dispatch-rate", help="Messages; -1 is no limit.", min=-1)
]
Bytes: TypeAlias = Annotated[
    int, typer.Option("-bd", "--byte-dispatch-rate", help="Bytes; -1 is no limit.", min=-1)
]
Period: TypeAlias = Annotated[
    int, typer.Option("-dt", "--dispatch-rate-period", help="In so many seconds.", min=1)
]
Relative: TypeAlias = Annotated[
    bool,
    typer.Option("-p", "--relative-to-publish-rate", help="Beside as much as is published."),
]


def add_rates(app: typer.Typer, *, of_topics: bool) -> None:
    """Gives an app the commands of all rates that topics, or namespaces, have."""
    above = "namespace's rate" if of_topics else "broker's setting"
    for noun, (piece, text) in RATES.items():
        path = _path(piece, of_topics=of_topics)
        argument = topic_argument() if of_topics else namespace_argument()
        whole = of_topics and noun == OF_SUBSCRIPTIONS
        makers = (_of_one if whole else _of_all)(noun, path, argument)
        for verb, help, function in (
            ("get", f"Show {text}.", makers[0]),
            ("remove", f"Remove the rate; the {above} applies.", makers[1]),
            ("set", f"Set {text}.", _setter(noun, path, argument, of_one=whole)),
        ):
            app.command(f"{verb}-{noun}", help=help, rich_help_panel=PANEL)(function)


Path: TypeAlias = Callable[[str, str], str]


def _path(piece: str, *, of_topics: bool) -> Path:
    def path(name: str, subscription: str) -> str:
        if subscription:
            return topic_path(name, subscription, "dispatchRate")
        return topic_path(name, piece) if of_topics else namespace_path(name, piece)

    return path


def _show(path: str, *, applied: bool, as_json: bool) -> None:
    with current().admin() as admin:
        show_value(admin.get(path, applied=applied or None), as_json=as_json)


def _put(noun: str, name: str, path: str, body: dict[str, object]) -> None:
    with current().admin() as admin:
        admin.post(path, body)
    typer.echo(f"set {noun} of {name}")


def _take_back(noun: str, name: str, path: str) -> None:
    with current().admin() as admin:
        admin.delete(path)
    typer.echo(f"removed {noun} of {name}")


def _of_all(noun: str, path: Path, argument: object) -> tuple[Callable[..., None], ...]:
    def get(
        name: Annotated[str, argument], applied: Applied = False, as_json: Json = False
    ) -> None:
        _show(path(name, ""), applied=applied, as_json=as_json)

    def remove(name: Annotated[str, argument]) -> None:
        _take_back(noun, name, path(name, ""))

    return get, remove


def _of_one(noun: str, path: Path, argument: object) -> tuple[Callable[..., None], ...]:
    def get(
        name: Annotated[str, argument],
        subscription: Subscription = "",
        applied: Applied = False,
        as_json: Json = False,
    ) -> None:
        _show(path(name, subscription), applied=applied, as_json=as_json)

    def remove(name: Annotated[str, argument], subscription: Subscription = "") -> None:
        _take_back(noun, name, path(name, subscription))

    return get, remove


def _setter(noun: str, path: Path, argument: object, *, of_one: bool) -> Callable[..., None]:
    if noun == "publish-rate":
        return _publish(noun, path, argument)
    if noun == "subscribe-rate":
        return _subscribe(noun, path, argument)
    return _dispatch_of_one(noun, path, argument) if of_one else _dispatch(noun, path, argument)


def _publish(noun: str, path: Path, argument: object) -> Callable[..., None]:
    def set_rate(
        name: Annotated[str, argument],
        messages: Annotated[
            int, typer.Option("-m", "--msg-publish-rate", help="Messages; -1 is no limit.", min=-1)
        ] = -1,
        size: Annotated[
            int, typer.Option("-b", "--byte-publish-rate", help="Bytes; -1 is no limit.", min=-1)
        ] = -1,
    ) -> None:
        body = {"publishThrottlingRateInMsg": messages, "publishThrottlingRateInByte": size}
        _put(noun, name, path(name, ""), dict(body))

    return set_rate


def _dispatch_body(messages: int, size: int, period: int, relative: bool) -> dict[str, object]:
    return {
        "dispatchThrottlingRateInMsg": messages,
        "dispatchThrottlingRateInByte": size,
        "ratePeriodInSecond": period,
        "relativeToPublishRate": relative,
    }


def _dispatch(noun: str, path: Path, argument: object) -> Callable[..., None]:
    def set_rate(
        name: Annotated[str, argument],
        messages: Messages = -1,
        size: Bytes = -1,
        period: Period = 1,
        relative: Relative = False,
    ) -> None:
        _put(noun, name, path(name, ""), _dispatch_body(messages, size, period, relative))

    return set_rate


def _dispatch_of_one(noun: str, path: Path, argument: object) -> Callable[..., None]:
    def set_rate(
        name: Annotated[str, argument],
        subscription: Subscription = "",
        messages: Messages = -1,
        size: Bytes = -1,
        period: Period = 1,
        relative: Relative = False,
    ) -> None:
        body = _dispatch_body(messages, size, period, relative)
        _put(noun, name, path(name, subscription), body)

    return set_rate


def _subscribe(noun: str, path: Path, argument: object) -> Callable[..., None]:
    def set_rate(
        name: Annotated[str, argument],
        times: Annotated[
            int, typer.Option("-sr", "--subscribe-rate", help="Times; -1 is no limit.", min=-1)
        ] = -1,
        period: Annotated[
            int, typer.Option("-st", "--subscribe-rate-period", help="In so many seconds.", min=1)
        ] = 30,
    ) -> None:
        body = {"subscribeThrottlingRatePerConsumer": times, "ratePeriodInSecond": period}
        _put(noun, name, path(name, ""), dict(body))

    return set_rate
