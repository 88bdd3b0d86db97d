"""What is moved in tests, and what is looked at afterwards: all of it through public doors."""

from pathlib import Path

from cli.broker_cli import BrokerCli, Ran

import magnetar
from magnetar.rest.admin import Admin

WAIT_MS = 30_000
# How long one waits to see that nothing comes.
QUIET_MS = 300
# For batches that are closed by hand.
NEVER_MS = 60_000


class Ends:
    """A source and a target, with a client and an admin of each, and the command between them."""

    def __init__(
        self, url: str, http_url: str, to_url: str, to_http_url: str, journal: Path
    ) -> None:
        self.url, self.http_url = url, http_url
        self.to_url, self.to_http_url = to_url, to_http_url
        self.journal = journal
        self.source = magnetar.Client(url)
        self.target = magnetar.Client(to_url)
        self.source_admin = Admin(http_url)
        self.target_admin = Admin(to_http_url)

    def close(self) -> None:
        for one in (self.source, self.target, self.source_admin, self.target_admin):
            one.close()

    @property
    def arguments(self) -> list[str]:
        """Those of the command, behind its name."""
        to = ["--to", self.to_url, "--admin-url", self.to_http_url]
        return [*to, "--journal", str(self.journal)]

    def run(self, *more: str) -> Ran:
        return BrokerCli(self.url, self.http_url).run("migrate", *self.arguments, *more)

    def move(self, *more: str) -> str:
        """Moves, and returns what was said; fails if anything was wrong."""
        ran = self.run("--verify", *more)
        assert ran.code == 0, ran
        return ran.out


def send_batches(client: magnetar.Client, topic: str, batches: int, size: int) -> list[bytes]:
    """Publishes batches of exactly this size; returns their contents in order."""
    producer = client.create_producer(
        topic,
        batching_enabled=True,
        batching_max_messages=size,
        batching_max_publish_delay_ms=NEVER_MS,
    )
    contents = [b"m-%06d" % number for number in range(batches * size)]
    for content in contents:
        producer.send_async(content, None)
    producer.flush()
    producer.close()
    return contents


def ack_some(
    client: magnetar.Client, topic: str, subscription: str, total: int, acked: set[int]
) -> None:
    """Receives everything and acks the messages of these numbers, for good."""
    consumer = client.subscribe(
        topic,
        subscription,
        magnetar.ConsumerType.Shared,
        initial_position=magnetar.InitialPosition.Earliest,
        ack_receipt_enabled=True,
    )
    messages = [consumer.receive(WAIT_MS) for _ in range(total)]
    consumer.acknowledge([message for number, message in enumerate(messages) if number in acked])
    consumer.close()


def drained(
    client: magnetar.Client,
    topic: str,
    subscription: str,
    count: int,
    kind: magnetar.ConsumerType = magnetar.ConsumerType.Exclusive,
) -> list[magnetar.Message]:
    """So many messages that a subscription hands out, in its order, and what comes beyond them.

    Nothing is acked.
    """
    consumer = client.subscribe(topic, subscription, kind)
    found = [consumer.receive(WAIT_MS) for _ in range(count)]
    try:
        while True:
            found.append(consumer.receive(QUIET_MS))
    except magnetar.Timeout:
        return found
    finally:
        consumer.close()


def read_all(client: magnetar.Client, topic: str) -> list[magnetar.Message]:
    """Everything that a reader finds from the beginning on."""
    reader = client.create_reader(topic, magnetar.MessageId.earliest)
    found = []
    while reader.has_message_available():
        found.append(reader.read_next(WAIT_MS))
    reader.close()
    return found


def datas(messages: list[magnetar.Message]) -> list[bytes]:
    return [message.data() for message in messages]
