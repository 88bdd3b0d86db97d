"""Dead letters as consumers publish them, and what is in topics that they went back to."""

from collections.abc import Callable
from typing import Any

import magnetar


def letters(
    client: magnetar.Client, dlq: str, numbers: range, real: Callable[[int], str], **more: Any
) -> None:
    """Publishes them; every second one has a key."""
    producer = client.create_producer(dlq, **more)
    for n in numbers:
        properties = {
            "n": str(n),
            "REAL_TOPIC": real(n),
            "REAL_SUBSCRIPTION": "s",
            "ORIGIN_MESSAGE_ID": f"1:{n}:-1",
        }
        producer.send_async(
            b"v%d" % n,
            lambda result, id: None,
            properties=properties,
            partition_key=f"k{n % 5}" if n % 2 else None,
            event_timestamp=1000 + n,
        )
    producer.flush()
    producer.close()


def arrived(client: magnetar.Client, topics: list[str]) -> list[magnetar.Message]:
    found: list[magnetar.Message] = []
    for topic in topics:
        reader = client.create_reader(topic, magnetar.MessageId.earliest)
        while reader.has_message_available():
            found.append(reader.read_next(30_000))
        reader.close()
    return found
