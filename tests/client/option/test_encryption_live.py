"""Encrypted messages between clients: ours and the official one, each way; and without the key."""

import contextlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pulsar
import pytest
from client.conftest import QUIET_MS, WAIT_MS, Engine
from support.tokens import ec_key, private_pem, public_bytes, rsa_key
from support.waiting import wait_until

import magnetar
from magnetar import (
    CompressionType,
    ConsumerCryptoFailureAction,
    ConsumerDeadLetterPolicy,
    ConsumerType,
    CryptoError,
    CryptoKeyReader,
    InitialPosition,
    MessageId,
    Timeout,
)
from magnetar.client.door.blocking import Client

MIB = 1 << 20

# What a producer is told, and the sizes of its messages.
FORMS: dict[str, tuple[dict[str, Any], list[int]]] = {
    "unbatched": ({}, [0, 1, 100_000]),
    "batched": ({"batching_enabled": True, "batching_max_messages": 5}, [10] * 5 + [0, 70_000]),
    "compressed": ({"compression_type": "ZSTD"}, [1, 5000]),
    "compressed-batched": (
        {"compression_type": "LZ4", "batching_enabled": True, "batching_max_messages": 3},
        [100] * 3,
    ),
    "chunked": ({"chunking_enabled": True}, [10, 5 * MIB + 1, 11 * MIB]),
    "chunked-compressed": ({"chunking_enabled": True, "compression_type": "ZLib"}, [6 * MIB]),
}
EARLIEST = InitialPosition.Earliest


def contents(sizes: list[int]) -> list[bytes]:
    return [random.Random(number).randbytes(size) for number, size in enumerate(sizes)]


@dataclass
class Keys:
    public: str
    private: str

    def reader(self) -> CryptoKeyReader:
        return CryptoKeyReader(self.public, self.private)

    def official(self) -> Any:
        return pulsar.CryptoKeyReader(self.public, self.private)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    directory = tmp_path_factory.mktemp("keys")
    public, private = directory / "public.pem", directory / "private.pem"
    public.write_bytes(public_bytes(rsa_key()))
    private.write_bytes(private_pem(rsa_key()))
    return Keys(str(public), str(private))


@pytest.fixture
def official(engine: Engine) -> Iterator[Any]:
    client = pulsar.Client(engine.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    yield client
    with contextlib.suppress(pulsar.AlreadyClosed):
        client.close()


def send_all(module: Any, client: Any, topic: str, form: str, reader: Any) -> list[bytes]:
    options, sizes = FORMS[form]
    options = dict(options)
    if "compression_type" in options:
        options["compression_type"] = getattr(module.CompressionType, options["compression_type"])
    producer = client.create_producer(
        topic, encryption_key="orders", crypto_key_reader=reader, **options
    )
    sent = contents(sizes)
    for content in sent:
        producer.send_async(content, None)
    producer.flush()
    return sent


@pytest.mark.both_engines
@pytest.mark.parametrize("form", FORMS)
def test_it_reads_what_we_encrypt(
    official: Any, client: Client, topic: str, keys: Keys, form: str
) -> None:
    consumer = official.subscribe(
        topic,
        "sub",
        initial_position=pulsar.InitialPosition.Earliest,
        crypto_key_reader=keys.official(),
    )
    for content in send_all(magnetar, client, topic, form, keys.reader()):
        message = consumer.receive(WAIT_MS)
        assert message.data() == content
        assert message.encryption_context().keys()[0].key == "orders"
        consumer.acknowledge(message)


@pytest.mark.both_engines
@pytest.mark.parametrize("form", FORMS)
def test_we_read_what_it_encrypts(
    official: Any, client: Client, topic: str, keys: Keys, form: str
) -> None:
    consumer = client.subscribe(
        topic, "sub", initial_position=EARLIEST, crypto_key_reader=keys.reader()
    )
    for content in send_all(pulsar, official, topic, form, keys.official()):
        message = consumer.receive(WAIT_MS)
        assert message.data() == content
        context = message.encryption_context()
        assert context is not None
        assert context.keys()[0].key == "orders"
        assert not context.is_decryption_failed()
        consumer.acknowledge(message)


@pytest.mark.parametrize("module", [pulsar, magnetar], ids=["official", "ours"])
def test_what_is_handed_on_undecrypted_says_the_same(
    engine: Engine, client: Client, topic: str, keys: Keys, module: Any
) -> None:
    """Both clients, one batch and one message, no key."""
    sent = send_all(magnetar, client, topic, "compressed-batched", keys.reader())
    peer = module.Client(engine.url)
    try:
        consumer = peer.subscribe(
            topic,
            "sub",
            initial_position=module.InitialPosition.Earliest,
            crypto_failure_action=module.ConsumerCryptoFailureAction.CONSUME,
        )
        sent += send_all(magnetar, client, topic, "unbatched", keys.reader())
        found = [consumer.receive(WAIT_MS) for _ in range(4)]
        assert not {message.data() for message in found} & set(sent)
        contexts = [message.encryption_context() for message in found]
        assert [context.is_decryption_failed() for context in contexts] == [True] * 4
        assert [context.batch_size() for context in contexts] == [3, -1, -1, -1]
        assert contexts[0].compression_type().name == "LZ4"
        assert contexts[0].uncompressed_message_size() > 300
        assert [len(context.param()) for context in contexts] == [12] * 4
        assert len({context.keys()[0].value for context in contexts}) == 2
        for message in found:
            consumer.acknowledge(message)
    finally:
        peer.close()


def test_without_the_key_a_message_stays_until_it_is_there(
    engine: Engine, client: Client, topic: str, keys: Keys
) -> None:
    sent = send_all(magnetar, client, topic, "batched", keys.reader())
    blind = client.subscribe(topic, "sub", initial_position=EARLIEST)
    with pytest.raises(Timeout):
        blind.receive(QUIET_MS)
    blind.close()
    assert backlog(engine, topic) > 0
    consumer = client.subscribe(topic, "sub", crypto_key_reader=keys.reader())
    for content in sent:
        message = consumer.receive(WAIT_MS)
        assert message.data() == content
        consumer.acknowledge(message)
    wait_until(lambda: backlog(engine, topic) == 0, lambda: str(engine.stats(topic)))


def backlog(engine: Engine, topic: str) -> int:
    return int(engine.stats(topic)["subscriptions"]["sub"]["msgBacklog"])


def test_the_ack_timeout_brings_it_again(client: Client, topic: str, keys: Keys) -> None:
    """The private key comes late, and the consumer needs no restart."""
    late: list[bytes] = []
    asked: list[str] = []

    def private(name: str, metadata: dict[str, str]) -> bytes:
        asked.append(name)
        return late[0]

    consumer = client.subscribe(
        topic,
        "sub",
        consumer_type=ConsumerType.Shared,
        unacked_messages_timeout_ms=1000,
        crypto_key_reader=CryptoKeyReader(None, private),
    )
    sent = send_all(magnetar, client, topic, "chunked-compressed", keys.reader())
    wait_until(lambda: len(asked) >= 2, lambda: str(asked))
    late.append(Path(keys.private).read_bytes())
    assert consumer.receive(WAIT_MS).data() == sent[0]


def test_what_cannot_be_decrypted_can_be_thrown_away(
    engine: Engine, client: Client, topic: str, keys: Keys
) -> None:
    consumer = client.subscribe(
        topic,
        "sub",
        initial_position=EARLIEST,
        crypto_failure_action=ConsumerCryptoFailureAction.DISCARD,
    )
    send_all(magnetar, client, topic, "chunked", keys.reader())
    producer = client.create_producer(topic)
    producer.send(b"in the clear")
    message = consumer.receive(WAIT_MS)
    assert message.data() == b"in the clear"
    consumer.acknowledge(message)
    wait_until(lambda: backlog(engine, topic) == 0, lambda: str(engine.stats(topic)))


def test_readers_and_table_views_decrypt(client: Client, topic: str, keys: Keys) -> None:
    producer = client.create_producer(
        topic, encryption_key=["orders", "audit"], crypto_key_reader=keys.reader()
    )
    producer.send(b"one", partition_key="a")
    producer.send(b"two", partition_key="b")
    reader = client.create_reader(topic, MessageId.earliest, crypto_key_reader=keys.reader())
    assert reader.read_next(WAIT_MS).data() == b"one"
    message = reader.read_next(WAIT_MS)
    assert message.data() == b"two"
    context = message.encryption_context()
    assert context is not None
    names = context.keys()
    assert [key.key for key in names] == ["orders", "audit"]
    view = client.create_table_view(topic, crypto_key_reader=keys.reader())
    assert (view.get("a"), view.get("b")) == (b"one", b"two")
    producer.send(b"three", partition_key="a")
    wait_until(lambda: view.get("a") == b"three", lambda: str(view))
    view.close()


def dead_letters(client: Client, topic: str, reader: CryptoKeyReader | None) -> Any:
    return client.subscribe(
        topic,
        "sub",
        consumer_type=ConsumerType.Shared,
        initial_position=EARLIEST,
        negative_ack_redelivery_delay_ms=10,
        crypto_key_reader=reader,
        crypto_failure_action=ConsumerCryptoFailureAction.CONSUME,
        dead_letter_policy=ConsumerDeadLetterPolicy(1, f"{topic}-dead"),
    )


def test_dead_letters_are_encrypted_again(client: Client, topic: str, keys: Keys) -> None:
    dead = client.subscribe(f"{topic}-dead", "dead", crypto_key_reader=keys.reader())
    consumer = dead_letters(client, topic, keys.reader())
    send_all(magnetar, client, topic, "chunked-compressed", keys.reader())
    for _ in range(2):
        message = consumer.receive(WAIT_MS)
        consumer.negative_acknowledge(message)
    letter = dead.receive(WAIT_MS)
    assert letter.data() == message.data()
    context = letter.encryption_context()
    assert context is not None
    assert context.keys()[0].key == "orders"


@pytest.mark.parametrize("decrypts", [True, False])
def test_letters_are_never_published_in_the_clear_nor_without_their_keys(
    engine: Engine,
    client: Client,
    topic: str,
    keys: Keys,
    decrypts: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """No public key to encrypt it with, or no private one to decrypt it: it stays."""
    dead = client.subscribe(f"{topic}-dead", "dead")
    sent = send_all(magnetar, client, topic, "compressed", keys.reader())
    consumer = dead_letters(
        client, topic, CryptoKeyReader(None, keys.private) if decrypts else None
    )
    for _ in range(2 * len(sent)):
        message = consumer.receive(WAIT_MS)
        assert (message.data() in sent) == decrypts
        consumer.negative_acknowledge(message)
    says = "give public_key_path" if decrypts else "so it stays where it is"
    wait_until(lambda: says in caplog.text, lambda: caplog.text)
    consumer.close()
    with pytest.raises(Timeout):
        dead.receive(QUIET_MS)
    assert backlog(engine, topic) == len(sent)


def test_a_producer_without_its_key_is_not_made(
    client: Client, topic: str, keys: Keys, tmp_path: Path
) -> None:
    curve = tmp_path / "curve"
    curve.write_bytes(public_bytes(ec_key()))
    for path, says in ((str(tmp_path / "none"), "check public_key_path"), (str(curve), "no RSA")):
        with pytest.raises(CryptoError, match=f"public key 'orders'.*{says}"):
            client.create_producer(
                topic, encryption_key="orders", crypto_key_reader=CryptoKeyReader(path, None)
            )
    # Nothing of it is left: the topic is as free as before.
    producer = client.create_producer(topic, access_mode=magnetar.ProducerAccessMode.Exclusive)
    producer.send(b"free")


def test_the_broker_sees_no_more_than_the_metadata(
    engine: Engine, client: Client, topic: str, keys: Keys
) -> None:
    producer = client.create_producer(
        topic,
        encryption_key="orders",
        crypto_key_reader=keys.reader(),
        compression_type=CompressionType.NONE,
    )
    consumer = client.subscribe(
        topic,
        "sub",
        initial_position=EARLIEST,
        crypto_failure_action=ConsumerCryptoFailureAction.CONSUME,
    )
    producer.send(b"a secret of some length", properties={"seen": "yes"})
    message = consumer.receive(WAIT_MS)
    assert b"secret" not in message.data()
    assert message.properties() == {"seen": "yes"}
