"""Messages as people and programs see them, whichever way they came.

`Shown` is one message: from a consumer, or out of an entry that REST answered. An entry of
REST is a payload with the rest in headers; a batch comes as a whole and is taken apart here,
so that each message has the id that it can be skipped by.
"""

import base64
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import typer

from magnetar.cli.console import printable
from magnetar.errors import RemoteProtocolError, SettingsError
from magnetar.model import MessageId, TopicName
from magnetar.protocol.payload.batch import decode_batch
from magnetar.rest.admin_client import AdminClient
from magnetar.rest.admin_error import AdminError
from magnetar.rest.answer import Answer
from magnetar.rest.id_text import id_text
from magnetar.rest.skip.entry_head import HEADER, EntryHead, entry_request

if TYPE_CHECKING:
    from magnetar.client.consumer.message import Message

__all__ = ["Entry", "Shown", "message_of", "print_message", "read_entry", "time_ms"]

# A line of hex has this many bytes.
HEX_BYTES: Final = 16


class Shown:
    """One message."""

    def __init__(
        self,
        id: MessageId,
        data: bytes,
        *,
        topic: str = "",
        key: str | None = None,
        properties: Mapping[str, str] | None = None,
        publish_time: str = "",
        event_time: str = "",
        producer: str = "",
        redeliveries: int = 0,
    ) -> None:
        self.id = id
        self.data = data
        self.topic = topic
        self.key = key
        self.properties = dict(properties or {})
        self.publish_time = publish_time
        self.event_time = event_time
        self.producer = producer
        self.redeliveries = redeliveries

    def to_json(self) -> dict[str, object]:
        """Returns what `--json` prints, on one line."""
        out: dict[str, object] = {
            "id": id_text(self.id),
            "messageId": self.id.to_base64(),
            "topic": self.topic,
            "partition": self.id.partition(),
            "key": self.key,
            "properties": self.properties,
            "publishTime": self.publish_time,
            "eventTime": self.event_time or None,
            "producerName": self.producer,
            "redeliveryCount": self.redeliveries,
        }
        try:
            out["data"] = self.data.decode()
        except UnicodeDecodeError:
            out["dataBase64"] = base64.b64encode(self.data).decode()
        return out


class Entry(EntryHead):
    """An entry that REST answered, and the messages in it."""

    def __init__(self, answer: Answer, topic: str, partition: int) -> None:
        super().__init__(answer, topic, partition)
        self._headers = answer.headers
        self._body = answer.body

    @property
    def encrypted(self) -> bool:
        return self.text("is-encrypted") == "true"

    def messages(self) -> list[Shown]:
        """Returns all messages of the entry, acked or not. Raises AdminError."""
        if not self.batch_size or self.encrypted:
            return [self._shown(-1, self._body, self._key(), self._properties())]
        try:
            singles = decode_batch(self._body, self.batch_size)
        except RemoteProtocolError as error:
            where = f"{self.ledger_id}:{self.entry_id}"
            raise AdminError(200, f"the batch at {where} cannot be read: {error}") from None
        return [
            self._shown(i, one.payload, one.partition_key, dict(one.properties or []))
            for i, one in enumerate(singles)
        ]

    def _shown(self, index: int, data: bytes, key: str | None, properties: dict[str, str]) -> Shown:
        return Shown(
            self.id(index),
            data,
            topic=self.topic,
            key=key,
            properties=properties,
            publish_time=self.text("publish-time"),
            event_time=self.text("event-time"),
            producer=self.text("producer-name"),
        )

    def _key(self) -> str | None:
        return self._headers.get(f"{HEADER}partition-key")

    def _properties(self) -> dict[str, str]:
        try:
            found = json.loads(self.text("property") or "{}")
        except ValueError:
            return {}
        return {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}


def read_entry(admin: AdminClient, topic: TopicName, ledger_id: int, entry_id: int) -> Entry:
    """Returns an entry of a topic or partition, wherever its cursors are. Raises AdminError."""
    answer = admin.send(entry_request(topic, ledger_id, entry_id))
    return Entry(answer, str(topic), topic.partition)


def message_of(message: "Message") -> Shown:
    """Returns a message that a consumer received."""
    return Shown(
        message.message_id(),
        message.data(),
        topic=message.topic_name(),
        key=message.partition_key() or None,
        properties=message.properties(),
        publish_time=_time(message.publish_timestamp()),
        event_time=_time(message.event_timestamp()) if message.event_timestamp() else "",
        producer=message.producer_name(),
        redeliveries=message.redelivery_count(),
    )


def print_message(
    shown: Shown, *, as_json: bool, hex: bool = False, hide_content: bool = False
) -> None:
    """Prints one message: a line of what it is, then what it says; or a line of JSON."""
    if as_json:
        typer.echo(json.dumps(shown.to_json(), ensure_ascii=False))
        return
    facts = [id_text(shown.id)]
    if shown.id.partition() >= 0:
        facts.append(f"partition {shown.id.partition()}")
    if shown.publish_time:
        facts.append(f"published {shown.publish_time}")
    if shown.key is not None:
        facts.append(f"key {shown.key}")
    facts += [f"{name}={value}" for name, value in shown.properties.items()]
    if shown.redeliveries:
        facts.append(f"redelivered {shown.redeliveries} times")
    typer.echo(printable("----- " + "  ".join(facts)))
    if hide_content:
        typer.echo(f"{len(shown.data):,} bytes")
    elif hex:
        for line in _hex_lines(shown.data):
            typer.echo(line)
    else:
        text = shown.data.decode(errors="backslashreplace")
        # Lines of a message stay lines; what would command the terminal does not.
        typer.echo("\n".join(printable(line) for line in text.split("\n")))


def _hex_lines(data: bytes) -> list[str]:
    """Offset, bytes, and what of them is ASCII.

    >>> print(_hex_lines(b"hi\\x00")[0])
    00000000  68 69 00                                         hi.
    """
    lines: list[str] = []
    for at in range(0, len(data), HEX_BYTES):
        row = data[at : at + HEX_BYTES]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{at:08x}  {row.hex(' '):<{3 * HEX_BYTES}} {text}")
    return lines


def _time(ms: int) -> str:
    try:
        moment = datetime.fromtimestamp(ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(ms)  # no calendar has it
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def time_ms(option: str, text: str) -> int:
    """Returns a moment in ms since 1970, from such a number or a date. Raises SettingsError.

    >>> time_ms("-d", "1700000000123"), time_ms("-d", "2023-11-14T22:13:20Z")
    (1700000000123, 1700000000000)
    """
    if text.isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise SettingsError(
            option, f"{text!r} is not a time: give ms since 1970, or 2027-01-15T08:00:00Z"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)
