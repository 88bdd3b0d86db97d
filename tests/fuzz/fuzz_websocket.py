"""What peers of WebSockets say: paths with parameters, and texts of JSON.

Nothing is raised but MagnetarError, which a peer is told, and nothing takes long. What is made of
a path is what a client is then made with, and of a text what a message is made of. `run.py` has
the command.
"""

import base64
import json
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote

from fuzz.draw import Draw
from fuzz.judge import bounded, timed

from magnetar.client.option.options import ConsumerOptions, ProducerOptions, ReaderOptions
from magnetar.errors import MagnetarError
from magnetar.model import MessageId
from magnetar.websocket.form import read_id, read_sent, read_told
from magnetar.websocket.talk import send_options
from magnetar.websocket.target import CONSUMER, KINDS, PRODUCER, read_target

PATHS: Final = (
    "/ws/v2/producer/persistent/public/default/t",
    "/ws/v2/consumer/persistent/public/default/t/s",
    "/ws/v2/reader/persistent/public/default/t",
    "/ws/v2/reader/non-persistent/public/default/t",
)
PARAMETERS: Final = (
    *("token", "messageId", "pullMode", "receiverQueueSize", "subscriptionType", "readerName"),
    *("subscriptionInitialPosition", "ackTimeoutMillis", "negativeAckRedeliveryDelay"),
    *("consumerName", "priorityLevel", "maxRedeliverCount", "deadLetterTopic", "producerName"),
    *("sendTimeoutMillis", "batchingEnabled", "batchingMaxMessages", "batchingMaxPublishDelay"),
    *("maxPendingMessages", "messageRoutingMode", "compressionType", "initialSequenceId"),
    *("hashingScheme", "subscriptionMode", ""),
)
WORDS: Final = (
    *("true", "false", "earliest", "latest", "Shared", "Exclusive", "ZSTD", "JavaStringHash"),
    *("SinglePartition", "9" * 5000, "-1", "0", "1", "1e9"),
)
FIELDS: Final = (
    *("payload", "properties", "context", "key", "eventTime", "replicationClusters"),
    *("deliverAt", "deliverAfter", "type", "messageId", "permitMessages", "other"),
)
TYPES: Final = ("acknowledge", "negativeAcknowledge", "permit", "unsubscribe", "x")
ID: Final = MessageId(7, 1, 0, -1).to_base64()


def target(draw: Draw) -> None:
    path = draw.pick(PATHS)
    if draw.rarely(8):
        path = path[: draw.below(len(path))] + quote(draw.text(), safe="/%")
    parts = []
    for _ in range(draw.below(4)):
        name = draw.text() if draw.rarely() else draw.pick(PARAMETERS)
        kind = draw.below(4)
        value = str(draw.integer()) if kind == 0 else draw.text() if kind == 1 else draw.pick(WORDS)
        parts.append(f"{quote(name)}={quote(ID if kind == 3 else value)}")
    query = "&".join(parts).encode()
    if draw.rarely(8):
        query += bytes(byte for byte in draw.some() if byte < 128)
    found = read_target(path.encode(), query)
    if found is None:
        return
    assert found.kind in KINDS
    assert found.queue_size > 0
    assert found.pulls in (True, False)
    if found.kind == PRODUCER:
        ProducerOptions(**found.producer_options())
    elif found.kind == CONSUMER:
        ConsumerOptions(found.subscription, **found.consumer_options())
    else:
        ReaderOptions(**found.reader_options())


def value(draw: Draw, depth: int = 0) -> Any:
    kind = draw.below(9)
    if kind == 0:
        return draw.integer() * (-1 if draw.rarely(4) else 1)
    if kind == 1:
        return base64.b64encode(draw.some()).decode()
    if kind == 2:
        return draw.pick((None, True, 1.5, 1e300, "1700000000000", ID, *TYPES))
    if kind == 3 and depth < 3:
        return {draw.text(): value(draw, depth + 1) for _ in range(draw.below(4))}
    if kind == 4 and depth < 3:
        return [value(draw, depth + 1) for _ in range(draw.below(4))]
    return draw.text()


def text(draw: Draw) -> bytes:
    if draw.rarely():
        return draw.some(200)
    fields = {draw.pick(FIELDS): value(draw) for _ in range(draw.below(6))}
    said = bytearray(json.dumps(fields, ensure_ascii=draw.below(2) == 0).encode())
    if draw.rarely(8):
        said[draw.below(len(said))] = draw.byte()
    return bytes(said)


def sent(draw: Draw) -> None:
    found = read_sent(text(draw))
    found.content()
    send_options(found)


def told(draw: Draw) -> None:
    read_id(read_told(text(draw)).message_id)


PLAYS: Final[tuple[Callable[[Draw], None], ...]] = (target, sent, told)


def one_input(data: bytes) -> None:
    draw = Draw(data)
    with bounded("the input"):
        while draw.left:
            play = draw.pick(PLAYS)
            with timed(play.__name__, 0.1):
                try:
                    play(draw)
                except MagnetarError as error:
                    assert str(error)
