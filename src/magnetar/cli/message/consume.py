"""`magnetar consume`: messages of a subscription on the terminal, like `pulsar-client consume`."""

import itertools
import math
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from magnetar.cli.console import counted, refuse, status, warn
from magnetar.cli.exit_code import FOUND_WRONG
from magnetar.cli.interrupt import TURN_S, Check, uninterrupted
from magnetar.cli.message.pace import paced
from magnetar.cli.name import complete
from magnetar.cli.option import Json, TopicArgument, named_subscription
from magnetar.cli.target import current
from magnetar.errors import Timeout
from magnetar.model.subscription_type import EXCLUSIVE, TYPE_NAMES, type_named

if TYPE_CHECKING:
    import magnetar

__all__ = ["consume"]


def _known_type(value: str) -> str:
    """Returns the name of a subscription type. Raises BadParameter if it is none."""
    if value not in TYPE_NAMES:
        raise typer.BadParameter(f"{value!r} is not one of {', '.join(map(repr, TYPE_NAMES))}.")
    return value


class Position(StrEnum):
    Latest = "Latest"
    Earliest = "Earliest"


class Mode(StrEnum):
    Durable = "Durable"
    NonDurable = "NonDurable"


def consume(
    topic: TopicArgument,
    subscription: Annotated[
        str,
        typer.Option(
            "-s",
            "--subscription-name",
            metavar="SUB",
            help="The subscription; created if it does not exist.",
            callback=named_subscription,
            autocompletion=complete.subscriptions,
        ),
    ],
    count: Annotated[
        int,
        typer.Option(
            "-n", "--num-messages", help="Number of messages to receive; 0 means no limit.", min=0
        ),
    ] = 1,
    kind: Annotated[
        str,
        typer.Option(
            "-t",
            "--subscription-type",
            metavar=f"<{'|'.join(TYPE_NAMES)}>",
            help="Type of the subscription.",
            callback=_known_type,
            autocompletion=lambda: list(TYPE_NAMES),
        ),
    ] = EXCLUSIVE.name,
    position: Annotated[
        Position,
        typer.Option(
            "-p", "--subscription-position", help="Initial position of a new subscription."
        ),
    ] = Position.Latest,
    mode: Annotated[
        Mode,
        typer.Option(
            "-m",
            "--subscription-mode",
            help="Durable, or NonDurable: deleted when the consumer closes.",
        ),
    ] = Mode.Durable,
    hex: Annotated[bool, typer.Option("--hex", help="Print message contents as hex.")] = False,
    hide_content: Annotated[
        bool,
        typer.Option(
            "--hide-content", help="Print the size of each message instead of its content."
        ),
    ] = False,
    rate: Annotated[
        float, typer.Option("-r", "--rate", help="Messages per second; 0 means no limit.", min=0)
    ] = 0.0,
    regex: Annotated[
        bool,
        typer.Option(
            "--regex", help="Treat TOPIC as a regular expression that matches several topics."
        ),
    ] = False,
    queue_size: Annotated[
        int, typer.Option("-q", "--queue-size", help="Size of the receiver queue.", min=0)
    ] = 1000,
    no_ack: Annotated[
        bool,
        typer.Option("--no-ack", help="Do not acknowledge the messages; they are delivered again."),
    ] = False,
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout", help="Stop when no message arrives for this many seconds.", min=0
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Receive messages, show them and ack them.

    With --json, one line for each message. The exit code is 1 if --timeout ended it early.
    """
    earliest = position == Position.Earliest
    # No more than are wanted: what is fetched and not shown would have to be delivered again.
    fetched = min(queue_size, count) if count else queue_size
    received = 0
    target = current()
    begun = False
    try:
        with target.client() as client:
            with uninterrupted():
                from magnetar.cli.message.messages import message_of, print_message
                from magnetar.model import ConsumerType, InitialPosition, MessageId
            type = type_named(kind)
            assert type is not None
            start = MessageId.earliest if earliest else MessageId.latest
            with status(f"connecting to {target.url}"):
                consumer = client.subscribe(
                    re.compile(topic) if regex else topic,
                    subscription,
                    consumer_type=ConsumerType(type.number),
                    receiver_queue_size=max(fetched, 1) if regex else fetched,
                    initial_position=InitialPosition.Earliest
                    if earliest
                    else InitialPosition.Latest,
                    durable=mode == Mode.Durable,
                    start_message_id=None if mode == Mode.Durable else start,
                )
            begun = True
            with consumer, uninterrupted() as check:
                for message in paced(_messages(consumer, count, timeout, check), rate, check):
                    print_message(
                        message_of(message), as_json=as_json, hex=hex, hide_content=hide_content
                    )
                    if not no_ack:
                        consumer.acknowledge(message)
                    received += 1
    except KeyboardInterrupt:
        if begun:
            verb = "received" if no_ack else "received and acked"
            warn(f"{verb} {counted(received, 'message')} until Ctrl-C")
        raise
    if received < count:
        raise refuse(
            f"received {received:,} of {count:,} messages: no more came for {timeout:g} s",
            FOUND_WRONG,
        )


def _messages(
    consumer: "magnetar.Consumer", count: int, timeout_s: float | None, check: Check
) -> "Iterator[magnetar.Message]":
    """Yields so many messages, or all if `count` is 0, until none comes for the timeout."""
    for _ in range(count) if count else itertools.count():
        message = _receive(consumer, math.inf if timeout_s is None else timeout_s, check)
        if message is None:
            return
        yield message


def _receive(
    consumer: "magnetar.Consumer", timeout_s: float, check: Check
) -> "magnetar.Message | None":
    """Returns the next message; None if there was none for so long."""
    deadline = time.monotonic() + timeout_s
    while True:
        check()
        left_s = max(0.0, deadline - time.monotonic())
        with suppress(Timeout):
            return consumer.receive(int(min(left_s, TURN_S) * 1000))
        if left_s < TURN_S:
            return None
