"""`magnetar produce`: messages from the command line or files, like `pulsar-client produce`."""

import json
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from magnetar import errors
from magnetar.cli.console import counted, status, track
from magnetar.cli.interrupt import uninterrupted
from magnetar.cli.message.message_ids import id_text
from magnetar.cli.message.pace import paced
from magnetar.cli.option import Json, TopicArgument, pairs
from magnetar.cli.target import current
from magnetar.errors import PulsarException, SettingsError

if TYPE_CHECKING:
    from magnetar.client.errors import Result
    from magnetar.model import MessageId

__all__ = ["produce"]

# Messages under way, as many as a producer takes.
WINDOW: Final = 1000
# A broker stores hundreds of messages meanwhile, so there is room again.
FULL_S: Final = 0.002


def produce(
    topic: TopicArgument,
    messages: Annotated[
        list[str] | None,
        typer.Option("-m", "--messages", metavar="TEXT", help="Message to send; may be repeated."),
    ] = None,
    files: Annotated[
        list[Path] | None,
        typer.Option(
            "-f",
            "--files",
            metavar="FILE",
            help="File with a message to send; - is standard input.",
        ),
    ] = None,
    count: Annotated[
        int,
        typer.Option("-n", "--num-produce", help="Number of times to send all messages.", min=1),
    ] = 1,
    rate: Annotated[
        float, typer.Option("-r", "--rate", help="Messages per second; 0 means no limit.", min=0)
    ] = 0.0,
    key: Annotated[
        str | None, typer.Option("-k", "--key", metavar="KEY", help="Key of the messages.")
    ] = None,
    properties: Annotated[
        list[str] | None,
        typer.Option(
            "-p",
            "--properties",
            metavar="NAME=VALUE",
            help="Property of the messages; may be repeated.",
        ),
    ] = None,
    separator: Annotated[
        str | None,
        typer.Option(
            "-s",
            "--separator",
            help="Separator that splits each -m into messages (default: no splitting).",
        ),
    ] = None,
    disable_batching: Annotated[
        bool,
        typer.Option(
            "-db",
            "--disable-batching",
            help="Send each message as its own entry, without batching.",
        ),
    ] = False,
    chunking: Annotated[
        bool, typer.Option("-c", "--chunking", help="Send messages that are too large in chunks.")
    ] = False,
    deliver_after: Annotated[
        float, typer.Option("--deliver-after", help="Delay of delivery, in seconds.", min=0)
    ] = 0.0,
    as_json: Json = False,
) -> None:
    """Send messages to a topic, and print how many were stored.

    With --json, one line for each message, with its id, in the order they were given.
    """
    payloads = _payloads(messages or [], files or [], separator)
    if chunking and not disable_batching:
        raise SettingsError("--chunking", "batches are not split: give --disable-batching too")
    found = pairs("-p", properties or []) or None
    total = count * len(payloads)
    stream = (payload for _ in range(count) for payload in payloads)
    sent = _Sent()
    target = current()
    with target.client() as client:
        with status(f"connecting to {target.url}"):
            producer = client.create_producer(
                topic,
                batching_enabled=not disable_batching,
                chunking_enabled=chunking,
            )
        with uninterrupted() as check:
            for number, payload in enumerate(track(paced(stream, rate, check), "sending", total)):
                while number - sent.settled >= WINDOW:
                    time.sleep(FULL_S)
                    check()
                producer.send_async(
                    payload,
                    partial(sent.settle, number),
                    properties=found,
                    partition_key=key,
                    deliver_at=int((time.time() + deliver_after) * 1000) if deliver_after else None,
                )
                check()
        producer.flush()
        producer.close()
    # Callbacks are done once the client is closed.
    if as_json:
        sent.print_ids()
    if sent.failure is not None:
        missing = total - len(sent.ids)
        raise sent.error(f"{missing:,} of {total:,} messages were not stored")
    if not as_json:
        typer.echo(f"sent {counted(total, 'message')} to {topic}")


class _Sent:
    """What became of the messages."""

    def __init__(self) -> None:
        # By the number of the message: receipts of several partitions come in any order.
        self.ids: dict[int, MessageId] = {}
        self.settled = 0
        self.failure: Result | None = None

    def settle(self, number: int, result: "Result", id: "MessageId") -> None:
        from magnetar.client.errors import Result

        if result == Result.Ok:
            self.ids[number] = id
        else:
            self.failure = self.failure or result
        self.settled += 1

    def error(self, text: str) -> PulsarException:
        """Why some were not stored."""
        assert self.failure is not None
        kind: type[PulsarException] = getattr(errors, self.failure.name)
        advice = ": give --chunking and --disable-batching" if kind is errors.MessageTooBig else ""
        return kind(f"{text}: {self.failure.name}{advice}")

    def print_ids(self) -> None:
        for _, id in sorted(self.ids.items()):
            found = {
                "id": id_text(id),
                "messageId": id.to_base64(),
                "partition": id.partition(),
            }
            typer.echo(json.dumps(found))


def _payloads(messages: list[str], files: list[Path], separator: str | None) -> list[bytes]:
    found: list[bytes] = []
    for message in messages:
        found += [
            piece.encode() for piece in (message.split(separator) if separator else [message])
        ]
    for file in files:
        try:
            found.append(sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes())
        except OSError as error:
            raise SettingsError("--files", f"cannot read {file}: {error.strerror}") from None
    if not found:
        raise SettingsError("produce", "there is nothing to send: give --messages or --files")
    return found
