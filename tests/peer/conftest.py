"""A broker as a process, its data on disk, and the official Python client to use it."""

import contextlib
import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import httpx
import pulsar
import pytest
from support.broker_process import BrokerProcess
from support.waiting import wait_until

# How long anything that must come may take, on a machine with other things to do.
WAIT_MS = 30_000
# How long one look at a consumer lasts that may have nothing.
LOOK_MS = 5

NEVER_FLUSH_MS = 60_000
MARKER = b"the marker: nothing else is left before it"

TYPES = (
    pulsar.ConsumerType.Exclusive,
    pulsar.ConsumerType.Failover,
    pulsar.ConsumerType.Shared,
    pulsar.ConsumerType.KeyShared,
)
every_type = pytest.mark.parametrize("type", TYPES, ids=lambda type: type.name)
batched_or_not = pytest.mark.parametrize("batching", [True, False], ids=["batched", "single"])

_numbers = itertools.count()


@pytest.fixture(scope="module")
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerProcess]:
    """One for the module, with the options that the module names."""
    options = getattr(request.module, "BROKER_OPTIONS", ())
    with BrokerProcess(tmp_path_factory.mktemp("broker") / "data", options=options) as broker:
        yield broker


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")
    return f"persistent://public/default/{name}-{next(_numbers)}"


@pytest.fixture
def connect(broker: BrokerProcess) -> Iterator[Callable[[], Any]]:
    """Makes clients, and closes them at the end."""
    clients: list[Any] = []

    def connect() -> Any:
        clients.append(new_client(broker.url))
        return clients[-1]

    yield connect
    for client in clients:
        # Not shutdown(), which waits for threads of its own, at times for ten seconds.
        with contextlib.suppress(pulsar.AlreadyClosed):
            client.close()


@pytest.fixture
def client(connect: Callable[[], Any]) -> Any:
    return connect()


def new_client(url: str) -> Any:
    # A logging.Logger is called from threads of the client's own, even as Python ends.
    logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    return pulsar.Client(url, logger=logger)


def new_batcher(client: Any, topic: str, size: int, **options: Any) -> Any:
    """A producer whose batches have `size` messages, and wait until they do."""
    return client.create_producer(
        topic,
        batching_enabled=True,
        batching_max_messages=size,
        batching_max_publish_delay_ms=NEVER_FLUSH_MS,
        block_if_queue_full=True,
        **options,
    )


def new_producer(client: Any, topic: str, *, batching: bool = False, **options: Any) -> Any:
    """Batches of ten, or none."""
    if batching:
        return new_batcher(client, topic, 10, **options)
    return client.create_producer(topic, block_if_queue_full=True, **options)


def publish(producer: Any, payloads: Iterable[Any], **fields: Any) -> list[Any]:
    """Sends all; returns their ids, in the order of the payloads.

    A field that can be called gives each message its own value, from its number.
    """
    answers: list[tuple[int, Any, Any]] = []
    sent = 0
    for number, payload in enumerate(payloads):
        own = {name: value(number) if callable(value) else value for name, value in fields.items()}

        def done(result: Any, id: Any, number: int = number) -> None:
            answers.append((number, result, id))

        producer.send_async(payload, done, **own)
        sent += 1
    producer.flush()
    wait_until(lambda: len(answers) == sent, lambda: f"{len(answers)} of {sent} sends answered")
    assert {result for _, result, _ in answers} <= {pulsar.Result.Ok}
    return [id for _, _, id in sorted(answers, key=lambda answer: answer[0])]


def receive(consumer: Any, count: int) -> list[Any]:
    """The next messages; fails if they do not come."""
    got: list[Any] = []
    for _ in range(count):
        try:
            got.append(consumer.receive(WAIT_MS))
        except pulsar.Timeout:
            raise AssertionError(f"{len(got)} of {count} came: {texts(got)}") from None
    return got


def receive_until_marker(consumer: Any) -> list[Any]:
    """Everything before the marker, which is acknowledged; the rest is not."""
    got: list[Any] = []
    while True:
        (message,) = receive(consumer, 1)
        if message.data() == MARKER:
            consumer.acknowledge(message)
            return got
        got.append(message)


def look(consumer: Any) -> Any | None:
    """A message if one is there, or comes at once."""
    try:
        return consumer.receive(LOOK_MS)
    except pulsar.Timeout:
        return None


def look_at_all(consumers: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """A turn over consumers: a few messages of each, with the consumer, if any are there."""
    for consumer in consumers:
        for _ in range(10):
            message = look(consumer)
            if message is None:
                break
            yield consumer, message


def datas(messages: Iterable[Any]) -> list[bytes]:
    return [message.data() for message in messages]


def texts(messages: Iterable[Any]) -> list[str]:
    return [message.data()[:40].decode(errors="replace") for message in messages]


def payloads(count: int, first: int = 0) -> list[bytes]:
    return [b"message-%05d" % number for number in range(first, first + count)]


def rest(broker: BrokerProcess, method: str, path: str, **options: Any) -> httpx.Response:
    """Asks the broker's REST, and fails unless it agrees."""
    url = f"{broker.http_url}/admin/v2/{path}"
    answer = httpx.request(method, url, timeout=WAIT_MS / 1000, **options)
    assert answer.is_success, f"{method} {url}: {answer.status_code} {answer.text}"
    return answer


def rest_path(topic: str) -> str:
    return topic.replace("://", "/")


def unload(broker: BrokerProcess, topic: str) -> None:
    rest(broker, "PUT", f"{rest_path(topic)}/unload")
