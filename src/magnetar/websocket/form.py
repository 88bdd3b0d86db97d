"""What travels in the texts of a WebSocket, in Pulsar's form: JSON, payloads and ids in base64."""

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any, Final, TypeVar

import msgspec

from magnetar.client.consumer.message import Message
from magnetar.client.errors import result_of
from magnetar.errors import InvalidConfiguration, InvalidMessageIdError
from magnetar.model import MessageId

__all__ = [
    "Sent",
    "Told",
    "failure",
    "message_text",
    "payload_pieces",
    "read_id",
    "read_sent",
    "read_told",
    "stored",
]

# Pulsar's numbers for what becomes of a send.
FAILED_TO_DECODE: Final = 3
UNKNOWN: Final = 2
# Properties, keys and all else that a text has beside its payload.
REST_BYTES_MAX: Final = 64 << 10
# A piece of a payload that becomes base64 in one event, which takes 1 ms: a multiple of 3.
PIECE_BYTES: Final = 3 << 18
# RFC 3339 has four digits for the year: later is told as the end of 9999.
TIME_MS_MAX: Final = 253_402_300_799_999
Milliseconds = Annotated[int, msgspec.Meta(ge=0, le=TIME_MS_MAX)]


class Sent(msgspec.Struct, rename="camel"):
    """A message that a producer is to send. What it has besides is passed over, as in Pulsar."""

    payload: msgspec.Raw = msgspec.Raw(b'""')
    properties: dict[str, str] = {}
    context: str | None = None
    key: str | None = None
    event_time: str | None = None
    replication_clusters: list[str] | None = None
    deliver_at: Milliseconds = 0
    deliver_after: Milliseconds = 0

    def content(self) -> bytes:
        """Raises InvalidConfiguration."""
        try:
            return _PAYLOAD.decode(self.payload)
        except msgspec.DecodeError:
            raise InvalidConfiguration("the payload is not base64") from None


class _Payload(msgspec.Struct):
    """A message that may have very much beside its payload."""

    payload: msgspec.Raw = msgspec.Raw(b"")


class Told(msgspec.Struct, rename="camel"):
    """What a consumer or a reader says: an ack, unless `type` names something else."""

    type: str = "acknowledge"
    message_id: str = ""
    permit_messages: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 0


T = TypeVar("T")

_SENT: Final = msgspec.json.Decoder(Sent)
_TOLD: Final = msgspec.json.Decoder(Told)
_PARTS: Final = msgspec.json.Decoder(_Payload)
_PAYLOAD: Final = msgspec.json.Decoder(bytes)


def read_sent(text: bytes) -> Sent:
    """Raises InvalidConfiguration."""
    if len(text) > REST_BYTES_MAX:
        # To look at hundreds of thousands of properties takes long.
        rest = len(text) - len(_read(_PARTS, text).payload)
        if rest > REST_BYTES_MAX:
            raise InvalidConfiguration(
                f"{rest} bytes beside the payload: at most {REST_BYTES_MAX} are taken"
            )
    return _read(_SENT, text)


def read_told(text: bytes) -> Told:
    """Raises InvalidConfiguration."""
    return _read(_TOLD, text)


def _read(decoder: "msgspec.json.Decoder[T]", text: bytes) -> T:
    try:
        return decoder.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidConfiguration(f"Failed to de-serialize from JSON: {error}") from None


def read_id(text: str) -> MessageId:
    """Raises InvalidConfiguration."""
    try:
        return MessageId.from_base64(text)
    except (InvalidMessageIdError, ValueError):
        raise InvalidConfiguration(f"messageId: {text[:100]!r} is no id in base64") from None


def stored(id: MessageId, context: str | None) -> str:
    """Returns what a producer is told of a message that is stored."""
    return _text({"result": "ok", "messageId": id.to_base64(), "context": context})


def failure(error: Exception, context: str | None) -> str:
    """Returns what it is told of one that is not."""
    decoding = isinstance(error, InvalidConfiguration)
    code = FAILED_TO_DECODE if decoding else UNKNOWN
    reason = str(error) if decoding else f"{result_of(error).name}: {error}"
    return _text(
        {"result": f"send-error:{code}", "errorCode": code, "errorMsg": reason, "context": context}
    )


def payload_pieces(payload: bytes) -> Iterator[str]:
    """Yields a payload in base64, in pieces of which each takes little time."""
    for first in range(0, len(payload), PIECE_BYTES):
        yield base64.b64encode(payload[first : first + PIECE_BYTES]).decode()


def message_text(message: Message[Any], payload: str) -> str:
    """Returns a message as consumers and readers get it; the payload is in base64 already."""
    fields: dict[str, object] = {
        "properties": message.properties(),
        "publishTime": _time(message.publish_timestamp()),
        "redeliveryCount": message.redelivery_count(),
        "key": message.partition_key() or None,
        "eventTime": _time(message.event_timestamp()) if message.event_timestamp() else None,
    }
    id = message.message_id().to_base64()
    return f'{{"messageId":"{id}","payload":"{payload}",{_text(fields)[1:]}'


def _text(fields: dict[str, object]) -> str:
    known = {name: value for name, value in fields.items() if value is not None}
    return json.dumps(known, separators=(",", ":"), ensure_ascii=False)


def _time(ms: int) -> str:
    """Returns a time that a producer gave, which may be any number."""
    ms = min(max(ms, 0), TIME_MS_MAX)
    found = datetime.fromtimestamp(ms // 1000, UTC).replace(microsecond=ms % 1000 * 1000)
    return found.isoformat(timespec="milliseconds").replace("+00:00", "Z")
