"""Dead letters on their way back: where each goes, in which lane, and with which properties.

| of a letter       | goes back as                                                             |
|-------------------|--------------------------------------------------------------------------|
| value, key,       | they are                                                                 |
| ordering key,     |                                                                          |
| event time        |                                                                          |
| schema version    | the same schema, by whatever version the topic has it                    |
| properties        | its own, without those of dead letters; REDRIVE_COUNT counts its returns |

The properties of dead letters must go: a letter that dies again would else keep its first
origin, and one that was retried before would be out of retries.

Letters with the same key share a lane and a partition, and a lane keeps their order.
"""

import binascii
from collections.abc import Mapping
from typing import Final

from magnetar.client.consumer.dead_letter import (
    DELAY_TIME,
    ORIGIN_MESSAGE_ID,
    ORIGIN_MESSAGE_ID_LEGACY,
    REAL_SUBSCRIPTION,
    REAL_TOPIC,
    RECONSUME_TIMES,
)
from magnetar.client.option.options import ProducerOptions
from magnetar.client.producer.router import hash_of_key
from magnetar.model import TopicName

__all__ = ["REDRIVE_COUNT", "key_text", "lane_of", "origin_of", "restored", "target_of"]

REDRIVE_COUNT: Final = "REDRIVE_COUNT"
_OF_LETTERS: Final = frozenset(
    (
        REAL_TOPIC,
        REAL_SUBSCRIPTION,
        ORIGIN_MESSAGE_ID,
        ORIGIN_MESSAGE_ID_LEGACY,
        RECONSUME_TIMES,
        DELAY_TIME,
    )
)


def restored(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns the properties that a letter had before it died, and how often it was redriven.

    >>> restored({"REAL_TOPIC": "t", "RECONSUMETIMES": "3", "colour": "red"})
    {'colour': 'red', 'REDRIVE_COUNT': '1'}
    """
    found = {name: text for name, text in properties.items() if name not in _OF_LETTERS}
    before = found.get(REDRIVE_COUNT, "0")
    digits = before.isascii() and before.isdigit() and len(before) < 10
    found[REDRIVE_COUNT] = str(int(before) + 1 if digits else 1)
    return found


def origin_of(real_topic: str) -> tuple[str, int]:
    """Returns the topic that a letter comes from, and its partition there, -1 for none.

    Raises InvalidTopicNameError.

    >>> origin_of("persistent://public/default/orders-partition-3")
    ('persistent://public/default/orders', 3)
    """
    name = TopicName.parse(real_topic)
    return str(name.partitioned), name.partition


def key_text(key: bytes | None) -> str | None:
    """Returns a key as messages have it; one that is not text goes as base64, which others hash
    alike."""
    if key is None:
        return None
    try:
        return key.decode()
    except UnicodeDecodeError:
        return binascii.b2a_base64(key, newline=False).decode()


def target_of(number: int, key: str | None, came_from: int, partitions: list[str]) -> str:
    """Returns the topic partition that a letter goes to: by its key, else back to where it was."""
    if key is not None:
        slot = hash_of_key(ProducerOptions().hashing_scheme.value, key)
    elif 0 <= came_from < len(partitions):
        slot = came_from
    else:
        slot = number
    return partitions[slot % len(partitions)]


def lane_of(number: int, key: str | None, lanes: int) -> int:
    """Returns which of the lanes a letter takes."""
    slot = number if key is None else hash_of_key(ProducerOptions().hashing_scheme.value, key)
    return slot % lanes
