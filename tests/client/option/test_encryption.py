"""What is encrypted, with which key, how large it becomes, and what happens without the key."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from client.ack_bench import tracker
from client.consumer_model import LEDGER, command
from client.producer_model import take_send
from hypothesis import given
from hypothesis import strategies as st
from support.tokens import ec_key, private_pem, public_bytes, rsa_key

from magnetar.client.consumer.arrival.incoming import KEPT_BACK_MAX, Incoming, Start
from magnetar.client.consumer.chunk.assembler import ChunkAssembler
from magnetar.client.consumer.dead_letter import DeadLetters
from magnetar.client.option.crypto_key_reader import CryptoKeyReader
from magnetar.client.option.encryption import (
    KNOWN_MAX,
    ROTATE_MS,
    TAG_SIZE,
    DataKey,
    Opener,
    Sealer,
)
from magnetar.client.option.encryption_context import EncryptionContext
from magnetar.client.option.options import ConsumerCryptoFailureAction, ProducerOptions
from magnetar.client.producer.chunks import Part
from magnetar.client.producer.core import ProducerCore
from magnetar.client.producer.outgoing import Outgoing
from magnetar.errors import CryptoError, MessageTooLargeError, SettingsError
from magnetar.model import MessageId
from magnetar.model.enums import CompressionType, ValidationError
from magnetar.protocol import (
    EncryptionKeys,
    MessageMetadata,
    decode_batch,
    decompress,
    encode_entry,
    split_entry,
)

TOPIC = "persistent://public/default/secret"
FAIL, DISCARD, CONSUME = ConsumerCryptoFailureAction


# ---- Something that stands for RSA, and for chance ---------------------------


def wrap(name: str, key: bytes) -> EncryptionKeys:
    return EncryptionKeys(name, name.encode() + key[::-1], [("of", name)])


def unwrap(keys: EncryptionKeys) -> bytes:
    if keys.key == "unknown":
        raise CryptoError("there is no such key")
    return keys.value.removeprefix(keys.key.encode())[::-1]


def counting() -> Callable[[int], bytes]:
    numbers = itertools.count(1)
    return lambda size: next(numbers).to_bytes(size, "big")


def sealer(*names: str) -> Sealer:
    return Sealer(list(names or ("k",)), wrap, counting(), 0)


def metadata_of(**fields: object) -> MessageMetadata:
    metadata = MessageMetadata("maker", 0, 1)
    for name, value in fields.items():
        setattr(metadata, name, value)
    return metadata


# ---- Data keys ---------------------------------------------------------------


@given(st.binary(max_size=2000))
def test_what_is_sealed_opens_again(payload: bytes) -> None:
    metadata = metadata_of()
    sealed = sealer().key.seal(metadata, memoryview(payload))
    assert len(sealed) == len(payload) + TAG_SIZE
    assert len(payload) < 4 or payload not in sealed
    assert Opener(unwrap).open(metadata, sealed) == payload


def test_every_payload_has_a_vector_of_its_own() -> None:
    key = sealer().key
    one, other = metadata_of(), metadata_of()
    assert key.seal(one, b"same") != key.seal(other, b"same")
    assert one.encryption_param != other.encryption_param
    assert one.encryption_keys == other.encryption_keys


def test_what_was_changed_does_not_open() -> None:
    metadata = metadata_of()
    sealed = bytearray(sealer().key.seal(metadata, b"payload"))
    sealed[2] ^= 1
    with pytest.raises(CryptoError, match="was changed"):
        Opener(unwrap).open(metadata, bytes(sealed))
    with pytest.raises(CryptoError, match="was changed"):
        Opener(unwrap).open(metadata, b"short")
    for vector in (None, b"", b"x"):
        metadata.encryption_param = vector
        with pytest.raises(CryptoError):
            Opener(unwrap).open(metadata, bytes(sealed))


def test_any_of_the_keys_opens_it() -> None:
    metadata = metadata_of()
    sealed = sealer("unknown", "mine").key.seal(metadata, b"for two")
    assert Opener(unwrap).open(metadata, sealed) == b"for two"
    assert metadata.encryption_keys is not None
    del metadata.encryption_keys[1]
    with pytest.raises(CryptoError, match="no such key"):
        Opener(unwrap).open(metadata, sealed)


def test_a_data_key_is_asked_for_once_and_forgotten_when_there_are_many() -> None:
    asked: list[str] = []

    def ask(keys: EncryptionKeys) -> bytes:
        asked.append(keys.key)
        return unwrap(keys)

    opener = Opener(ask)
    random = counting()
    sealed = []
    for number in range(KNOWN_MAX + 1):
        metadata = metadata_of()
        key = Sealer([f"k{number}"], wrap, random, 0).key
        sealed.append((metadata, key.seal(metadata, b"x")))
        for _ in range(2):
            opener.open(*sealed[-1])
    assert asked == [f"k{number}" for number in range(KNOWN_MAX + 1)]
    asked.clear()
    opener.open(*sealed[1])  # known, and used last now
    assert asked == []
    opener.open(*sealed[0])  # the one that was forgotten
    opener.open(*sealed[2])
    assert asked == ["k0", "k2"]


def test_a_data_key_of_another_size_is_refused() -> None:
    with pytest.raises(CryptoError, match="16 bytes"):
        DataKey(bytes(16), [], counting())
    metadata = metadata_of(encryption_keys=[EncryptionKeys("k", b"k123", [])])
    with pytest.raises(CryptoError, match="3 bytes"):
        Opener(unwrap).open(metadata, bytes(20))


def test_data_keys_are_replaced_in_time() -> None:
    broken: list[bool] = []

    def maybe(name: str, key: bytes) -> EncryptionKeys:
        if broken:
            raise CryptoError("the key is gone")
        return wrap(name, key)

    keys = Sealer(["k"], maybe, counting(), 1000)
    first = keys.key
    keys.renew(1000 + ROTATE_MS - 1)
    assert keys.key is first
    broken.append(True)
    with pytest.raises(CryptoError, match="gone"):
        keys.renew(1000 + ROTATE_MS)
    assert keys.key is first
    broken.clear()
    keys.renew(1000 + ROTATE_MS)
    second = keys.key
    assert second is not first
    keys.renew(1000 + 2 * ROTATE_MS - 1)
    assert keys.key is second


# ---- Keys of readers ---------------------------------------------------------


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    directory = tmp_path_factory.mktemp("keys")
    public, private = directory / "public.pem", directory / "private.pem"
    public.write_bytes(public_bytes(rsa_key()))
    private.write_bytes(private_pem(rsa_key()))
    return public, private


def test_a_pair_wraps_and_unwraps(pair: tuple[Path, Path]) -> None:
    reader = CryptoKeyReader(str(pair[0]), str(pair[1]))
    data_key = bytes(range(32))
    wrapped = reader.wrap("k", data_key)
    assert wrapped.key == "k"
    assert len(wrapped.value) == 256
    assert wrapped.value != reader.wrap("k", data_key).value
    assert reader.unwrap(wrapped) == data_key
    with pytest.raises(CryptoError, match="cannot encrypt"):
        reader.wrap("k", bytes(500))


def test_functions_give_keys_by_name() -> None:
    public = {"k": public_bytes(rsa_key()).decode()}
    asked: list[object] = []

    def private(name: str, metadata: dict[str, str]) -> bytes:
        asked.append((name, metadata))
        return private_pem(rsa_key())

    reader = CryptoKeyReader(lambda name, metadata: public[name], private)
    wrapped = reader.wrap("k", bytes(32))
    wrapped.metadata.append(("version", "2"))
    assert reader.unwrap(wrapped) == bytes(32)
    assert asked == [("k", {"version": "2"})]
    with pytest.raises(CryptoError, match="public key 'other' cannot be had: KeyError"):
        reader.wrap("other", bytes(32))
    number: object = 5
    with pytest.raises(CryptoError, match="the function returned 5"):
        CryptoKeyReader(lambda name, metadata: number, None).wrap("k", bytes(32))  # type: ignore[arg-type]


def test_what_is_wrong_with_a_key_is_said(pair: tuple[Path, Path], tmp_path: Path) -> None:
    public, private = pair
    wrapped = CryptoKeyReader(str(public), None).wrap("k", bytes(32))
    garbage = tmp_path / "garbage"
    garbage.write_text("no key")
    curve_public, curve_private = tmp_path / "curve.pub", tmp_path / "curve"
    curve_public.write_bytes(public_bytes(ec_key()))
    curve_private.write_bytes(private_pem(ec_key()))
    other = tmp_path / "other"
    other.write_bytes(private_pem(rsa_key(3072)))
    missing = str(tmp_path / "missing")

    def fails(path: object, says: str) -> None:
        with pytest.raises(CryptoError, match=f"public key 'k'.*{says}"):
            CryptoKeyReader(path, None).wrap("k", bytes(32))  # type: ignore[arg-type]

    def fails_private(path: object, says: str) -> None:
        with pytest.raises(CryptoError, match=f"private key 'k'.*{says}"):
            CryptoKeyReader(None, path).unwrap(wrapped)  # type: ignore[arg-type]

    fails(None, "give public_key_path")
    fails("", "give public_key_path")
    fails(missing, "No such file.*check public_key_path")
    fails(garbage, "cannot be read as PEM")
    fails(private, "cannot be read as PEM")
    fails(curve_public, "is no RSA key but EC.*make an RSA pair")
    fails_private(None, "give private_key_path")
    fails_private(missing, "No such file.*check private_key_path")
    fails_private(garbage, "cannot be read as PEM")
    fails_private(curve_private, "is no RSA key")
    fails_private(other, "not of the pair")
    with pytest.raises(SettingsError, match="neither a path nor a function"):
        CryptoKeyReader(5, None)  # type: ignore[arg-type]


def test_a_producer_needs_the_name_and_the_key() -> None:
    reader = CryptoKeyReader("public", None)
    assert ProducerOptions().encryption_keys == []
    options = ProducerOptions(encryption_key=["a", "b", "a"], crypto_key_reader=reader)
    assert options.encryption_keys == ["a", "b"]
    given: list[dict[str, object]] = [
        {"encryption_key": "k"},
        {"crypto_key_reader": reader},
        {"encryption_key": [], "crypto_key_reader": reader},
        {"encryption_key": ["k", 5], "crypto_key_reader": reader},
        {"encryption_key": "", "crypto_key_reader": reader},
    ]
    for wrong in given:
        with pytest.raises(SettingsError, match="encryption_key"):
            ProducerOptions(**wrong)  # type: ignore[arg-type]


# ---- Producers ---------------------------------------------------------------


@dataclass
class Rig:
    """A producer's core that encrypts; what it wrote, as a broker reads it."""

    options: dict[str, object] = field(default_factory=dict)
    limit: int = 5000
    names: tuple[str, ...] = ("k",)
    now_ms: int = 0
    inbox: bytearray = field(default_factory=bytearray)
    wrap: Callable[[str, bytes], EncryptionKeys] = wrap

    def __post_init__(self) -> None:
        self.core = ProducerCore(
            ProducerOptions(**self.options),  # type: ignore[arg-type]
            TOPIC,
            1,
            now_ms=lambda: self.now_ms,
            write=self.write,
            sealer=Sealer(list(self.names), self.wrap, counting(), 0),
        )
        self.core.connected("maker", -1, b"", self.limit)

    def write(self, parts: list[Part], hurried: bool) -> None:
        for part in parts:
            self.inbox += part

    def take(self) -> list[tuple[MessageMetadata, bytes]]:
        """The metadata and the payload, decrypted, of each entry; none is too large."""
        found: list[tuple[MessageMetadata, bytes]] = []
        while True:
            before = len(self.inbox)
            send = take_send(self.inbox)
            if send is None:
                return found
            entry = split_entry(send.entry)
            assert entry.intact()
            assert len(entry.payload()) <= self.limit
            assert before - len(self.inbox) <= self.limit + 10 * 1024
            metadata = entry.metadata()
            found.append((metadata, Opener(unwrap).open(metadata, entry.payload())))


@pytest.mark.parametrize("kind", [CompressionType.NONE, CompressionType.ZSTD])
def test_payloads_are_compressed_then_encrypted(kind: CompressionType) -> None:
    rig = Rig({"compression_type": kind})
    rig.core.send(Outgoing(b"payload" * 50, properties={"open": "yes"}))
    ((metadata, payload),) = rig.take()
    assert metadata.properties == [("open", "yes")]
    assert metadata.uncompressed_size == 350
    assert decompress(int(kind), payload, 350, 350) == b"payload" * 50


def test_a_batch_is_encrypted_as_a_whole() -> None:
    rig = Rig({"batching_enabled": True}, names=("a", "b"))
    for number in range(3):
        rig.core.send(Outgoing(b"message-%d" % number))
    rig.core.flush()
    ((metadata, payload),) = rig.take()
    assert metadata.num_messages_in_batch == 3
    assert [one.payload for one in decode_batch(payload, 3)] == [
        b"message-0",
        b"message-1",
        b"message-2",
    ]
    assert metadata.encryption_keys is not None
    assert [keys.key for keys in metadata.encryption_keys] == ["a", "b"]


@given(st.lists(st.integers(0, 4500), min_size=1, max_size=8))
def test_batches_leave_room_for_keys(sizes: list[int]) -> None:
    """Forty readers take more than the overhead that a broker allows."""
    rig = Rig({"batching_enabled": True}, limit=25_000, names=tuple(f"k{n}" for n in range(40)))
    for size in sizes:
        rig.core.send(Outgoing(bytes(size)))
    rig.core.flush()
    found = []
    for metadata, payload in rig.take():
        assert metadata.num_messages_in_batch is not None
        found += decode_batch(payload, metadata.num_messages_in_batch)
    assert [len(one.payload) for one in found] == sizes


@given(st.integers(0, 20_000), st.integers(0, 3000))
def test_chunks_are_encrypted_one_by_one(size: int, chunk_size: int) -> None:
    rig = Rig({"chunking_enabled": True, "chunk_max_message_size": chunk_size})
    payload = bytes(index * 31 & 0xFF for index in range(size))
    rig.core.send(Outgoing(payload))
    found = rig.take()
    assert b"".join(part for _, part in found) == payload
    if len(found) > 1:
        assert {metadata.total_chunk_msg_size for metadata, _ in found} == {size}
        assert [metadata.chunk_id for metadata, _ in found] == list(range(len(found)))
        assert len({metadata.encryption_param for metadata, _ in found}) == len(found)
    else:
        assert found[0][0].uuid is None


def test_a_message_that_fits_only_in_the_clear_is_too_large() -> None:
    rig = Rig()
    rig.core.send(Outgoing(bytes(5000 - TAG_SIZE)))
    with pytest.raises(MessageTooLargeError):
        rig.core.send(Outgoing(bytes(5000 - TAG_SIZE + 1)))
    assert len(rig.take()) == 1
    assert rig.core.pending_messages == 1


def test_a_message_is_refused_while_no_new_data_key_can_be_made() -> None:
    broken: list[bool] = []

    def maybe(name: str, key: bytes) -> EncryptionKeys:
        if broken:
            raise CryptoError("the key is gone")
        return wrap(name, key)

    rig = Rig(wrap=maybe)
    rig.core.send(Outgoing(b"one"))
    rig.now_ms = ROTATE_MS
    broken.append(True)
    with pytest.raises(CryptoError, match="gone"):
        rig.core.send(Outgoing(b"two"))
    assert rig.core.pending_messages == 1
    broken.clear()
    rig.core.send(Outgoing(b"three"))
    found = rig.take()
    assert [payload for _, payload in found] == [b"one", b"three"]
    keys = [metadata.encryption_keys for metadata, _ in found]
    assert keys[0] is not None
    assert keys[1] is not None
    assert keys[0][0].value != keys[1][0].value


def test_what_is_sent_again_opens_too() -> None:
    rig = Rig({"chunking_enabled": True})
    payload = bytes(12_000)
    rig.core.send(Outgoing(b"first"))
    rig.core.send(Outgoing(payload))
    first = rig.take()
    rig.core.disconnected()
    rig.core.connected("maker", -1, b"", rig.limit)
    again = rig.take()
    assert [part for _, part in again] == [part for _, part in first]
    assert again[0][0].encryption_param == first[0][0].encryption_param


# ---- Consumers ---------------------------------------------------------------


def incoming(action: ConsumerCryptoFailureAction, opener: Opener | None) -> Incoming:
    assembler = ChunkAssembler(
        count_max=10, size_max=1 << 20, expire_ms=1000, ack_oldest=False, single=True
    )
    return Incoming(
        TOPIC,
        -1,
        tracker(),
        DeadLetters(None),
        action,
        None,
        assembler,
        lambda: 0,
        1 << 20,
        opener,
    )


def entries_of(rig: Rig) -> list[bytes]:
    found = []
    while (send := take_send(rig.inbox)) is not None:
        found.append(send.entry)
    return found


def batch_of(count: int, name: str = "k") -> bytes:
    rig = Rig({"batching_enabled": True, "compression_type": CompressionType.ZLib}, names=(name,))
    for number in range(count):
        rig.core.send(Outgoing(b"%d" % number))
    rig.core.flush()
    (entry,) = entries_of(rig)
    return entry


def test_encrypted_batches_are_read() -> None:
    arrival = incoming(FAIL, Opener(unwrap)).read(command(batch_of(3), 0b101), 10)
    assert [message.data() for message in arrival.messages] == [b"0", b"2"]
    assert arrival.charged == 2
    assert arrival.problem == ""
    context = arrival.messages[0].encryption_context()
    assert context is not None
    assert not context.is_decryption_failed()
    assert context.batch_size() == 3
    assert context.compression_type() == CompressionType.ZLib
    assert context.uncompressed_message_size() > 0
    (key,) = context.keys()
    assert (key.key, key.metadata) == ("k", {"of": "k"})
    assert len(context.param()) == 12
    assert context.algorithm() == ""
    assert "is_decryption_failed=False" in repr(context)
    assert "EncryptionKey(key=k, value_len=33" in repr(context)


@pytest.mark.parametrize("opener", [None, Opener(unwrap)], ids=["no reader", "no key"])
def test_what_cannot_be_decrypted(opener: Opener | None) -> None:
    entry = batch_of(3, "unknown")
    problem = "no crypto_key_reader" if opener is None else "no such key"
    kept = incoming(FAIL, opener).read(command(entry), 10)
    assert (kept.messages, kept.refusal, kept.kept_back, kept.dropped) == ([], -1, True, 3)
    assert problem in kept.problem
    refused = incoming(DISCARD, opener).read(command(entry), 10)
    assert refused.refusal == ValidationError.DecryptionError.value
    assert (refused.messages, refused.kept_back, refused.dropped) == ([], False, 3)
    assert problem in refused.problem
    passed = incoming(CONSUME, opener).read(command(entry), 10)
    (message,) = passed.messages
    assert message.data() == split_entry(entry).payload()
    context = message.encryption_context()
    assert context is not None
    assert context.is_decryption_failed()
    assert context.batch_size() == 3
    assert (passed.refusal, passed.charged) == (-1, 3)
    # What the context has is enough for those who have the key.
    metadata = metadata_of(encryption_keys=[wrap("k", unwrap_any(context))])
    metadata.encryption_param = context.param()
    opened = Opener(unwrap).open(metadata, message.data())
    size = context.uncompressed_message_size()
    batch = decompress(int(context.compression_type()), opened, size, size)
    assert [one.payload for one in decode_batch(batch, 3)] == [b"0", b"1", b"2"]


def unwrap_any(context: EncryptionContext) -> bytes:
    (key,) = context.keys()
    return key.value.removeprefix(key.key.encode())[::-1]


def test_what_nobody_wants_is_not_passed_on() -> None:
    reading = incoming(CONSUME, None)
    reading.start = Start(MessageId(-1, LEDGER, 0), False)
    arrival = reading.read(command(batch_of(3)), 10)
    assert (arrival.messages, arrival.dropped) == ([], 3)


def test_a_plain_message_has_no_context() -> None:
    entry = encode_entry(metadata_of().encode(), b"plain")
    (message,) = incoming(FAIL, Opener(unwrap)).read(command(entry), 1).messages
    assert message.data() == b"plain"
    assert message.encryption_context() is None


def chunk_entries(payload: bytes) -> list[bytes]:
    rig = Rig({"chunking_enabled": True})
    rig.core.send(Outgoing(payload))
    return entries_of(rig)


class Flaky:
    """A private key that is there, or not."""

    def __init__(self) -> None:
        self.there = True

    def __call__(self, keys: EncryptionKeys) -> bytes:
        if not self.there:
            raise CryptoError("not now")
        return unwrap(keys)


def rotated(payload: bytes) -> list[bytes]:
    """Chunks of one message, each with a data key of its own."""
    entries = []
    for number, part in enumerate((payload[:10], payload[10:20], payload[20:])):
        metadata = metadata_of(
            uuid="maker-0",
            num_chunks_from_msg=3,
            total_chunk_msg_size=len(payload),
            chunk_id=number,
        )
        sealed = Sealer([f"k{number}"], wrap, counting(), 0).key.seal(metadata, part)
        entries.append(encode_entry(metadata.encode(), sealed))
    return entries


def test_chunks_are_decrypted_one_by_one() -> None:
    payload = bytes(index * 7 & 0xFF for index in range(12_000))
    reading = incoming(FAIL, Opener(unwrap))
    entries = chunk_entries(payload)
    assert len(entries) == 3
    arrivals = [reading.read(command(one, None, at), 9) for at, one in enumerate(entries)]
    assert [arrival.kept for arrival in arrivals] == [True, True, False]
    (message,) = arrivals[-1].messages
    assert message.data() == payload
    context = message.encryption_context()
    assert context is not None
    assert not context.is_decryption_failed()


def test_a_message_with_a_chunk_that_is_kept_back_is_kept_back_until_it_comes_again() -> None:
    """Or what could be decrypted of it would be acked, since the rest does not come."""
    key = Flaky()
    reading = incoming(FAIL, Opener(key))
    entries = rotated(bytes(range(30)))
    key.there = False
    assert reading.read(command(entries[0], None, 0), 9).kept_back
    key.there = True
    for at in (1, 2):
        arrival = reading.read(command(entries[at], None, at), 9)
        assert (arrival.kept_back, arrival.kept, arrival.dropped) == (True, False, 1)
    arrivals = [reading.read(command(one, None, at), 9) for at, one in enumerate(entries)]
    assert [one.kept_back for one in arrivals] == [False, False, False]
    assert [message.data() for message in arrivals[-1].messages] == [bytes(range(30))]


def test_of_messages_that_are_kept_back_so_many_are_remembered() -> None:
    reading = incoming(FAIL, Opener(unwrap))
    for number in range(KEPT_BACK_MAX + 1):
        metadata = metadata_of(uuid=f"maker-{number}", num_chunks_from_msg=2, chunk_id=0)
        sealer("unknown").key.seal(metadata, b"")
        reading.read(command(encode_entry(metadata.encode(), bytes(16)), None, number), 9)
    kept = []
    for number in (0, 1):
        metadata = metadata_of(
            uuid=f"maker-{number}", num_chunks_from_msg=2, total_chunk_msg_size=2, chunk_id=1
        )
        sealed = sealer().key.seal(metadata, b"x")
        arrival = reading.read(command(encode_entry(metadata.encode(), sealed), None, 5000), 9)
        kept.append((arrival.kept_back, arrival.kept))
    assert kept == [(False, True), (True, False)]


def test_chunks_that_cannot_be_decrypted_are_passed_on_each_with_its_vector() -> None:
    reading = incoming(CONSUME, None)
    entries = rotated(bytes(range(30)))
    vectors = set()
    for at, entry in enumerate(entries):
        (message,) = reading.read(command(entry, None, at), 9).messages
        assert message.data() == split_entry(entry).payload()
        context = message.encryption_context()
        assert context is not None
        vectors.add((context.keys()[0].key, context.param()))
    assert len(vectors) == 3
