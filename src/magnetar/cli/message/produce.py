"""`magnetar produce`: messages from the command line or files, like `pulsar-client produce`."""

import json
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from magnetar import errors
from magnetar.cli.console import counted, status, track, warn
from magnetar.cli.interrupt import Check, uninterrupted
from magnetar.cli.message.lines import lines_of
from magnetar.cli.message.pace import paced
from magnetar.cli.option import Json, TopicArgument, pairs
from magnetar.cli.target import current
from magnetar.errors import PulsarException, SettingsError
from magnetar.rest.id_text import id_text

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
    lines: Annotated[
        bool,
        typer.Option(
            "-l",
            "--lines",
            help="Send each line as a message: of standard input, or of the files.",
        ),
    ] = False,
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
    source = _Source(messages or [], files or [], separator, count, lines)
    if chunking and not disable_batching:
        raise SettingsError("--chunking", "batches are not split: give --disable-batching too")
    found = pairs("-p", properties or []) or None
    sent = _Sent()
    target = current()
    try:
        with target.client() as client:
            with status(f"connecting to {target.url}"):
                producer = client.create_producer(
                    topic,
                    batching_enabled=not disable_batching,
                    chunking_enabled=chunking,
                )
            sent.begun = True
            try:
                with uninterrupted() as check:
                    for number, payload in enumerate(paced(source.payloads(check), rate, check)):
                        while number - sent.answered >= WINDOW:
                            time.sleep(FULL_S)
                            check()
                        sent.given += 1
                        producer.send_async(
                            payload,
                            partial(sent.have_answer, number),
                            properties=found,
                            partition_key=key,
                            deliver_at=_due_ms(deliver_after),
                        )
                        check()
            finally:
                # After Ctrl-C too: what was given is stored, and counted. A second one ends this.
                producer.flush()
            producer.close()
    except KeyboardInterrupt:
        if sent.begun:
            if as_json:
                sent.print_ids()
            warn(f"sent {counted(len(sent.ids), 'message')} to {topic} until Ctrl-C")
        raise
    # Callbacks are done once the client is closed.
    if as_json:
        sent.print_ids()
    if sent.failure is not None:
        missing = sent.given - len(sent.ids)
        raise sent.error(f"{missing:,} of {sent.given:,} messages were not stored")
    if not as_json:
        typer.echo(f"sent {counted(sent.given, 'message')} to {topic}")


def _due_ms(deliver_after_s: float) -> int | None:
    return int((time.time() + deliver_after_s) * 1000) if deliver_after_s else None


class _Source:
    """What is to be sent. Raises SettingsError if there is nothing, or it cannot be read."""

    def __init__(
        self,
        messages: list[str],
        files: list[Path],
        separator: str | None,
        count: int,
        lines: bool,
    ) -> None:
        self._count = count
        self._lines_of: list[Path] | None = None
        if lines:
            if messages or count > 1:
                raise SettingsError("--lines", "lines are sent once, and without --messages")
            self._lines_of = files or [Path("-")]
        else:
            self._payloads = _payloads(messages, files, separator)

    def payloads(self, check: Check) -> Iterator[bytes]:
        """Yields one payload after the other, with a bar on a terminal if it is known how many
        there are."""
        if self._lines_of is None:
            stream = (payload for _ in range(self._count) for payload in self._payloads)
            yield from track(stream, "sending", self._count * len(self._payloads))
            return
        if Path("-") in self._lines_of and sys.stdin.isatty():
            typer.echo("one message for each line; Ctrl-D ends", err=True)
        yield from lines_of(self._lines_of, check)


class _Sent:
    """What became of the messages."""

    def __init__(self) -> None:
        # By the number of the message: receipts of several partitions come in any order.
        self.ids: dict[int, MessageId] = {}
        self.answered = 0
        # Whether there is a producer, and how many messages it was given.
        self.begun = False
        self.given = 0
        self.failure: Result | None = None

    def have_answer(self, number: int, result: "Result", id: "MessageId") -> None:
        from magnetar.client.errors import Result

        if result == Result.Ok:
            self.ids[number] = id
        else:
            self.failure = self.failure or result
        self.answered += 1

    def error(self, text: str) -> PulsarException:
        """Returns why some were not stored."""
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
        raise SettingsError(
            "produce", "there is nothing to send: give --messages, --files or --lines"
        )
    return found
