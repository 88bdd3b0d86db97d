"""Message ids: their order, their bytes, their likeness to the official client's."""

import base64
import copy
import inspect
import pickle

import pulsar
import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar import ChunkMessageId, InvalidMessageIdError, MessageId
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import pulsar_pb2 as pb

IDS = st.integers(-1, 2**63 - 1) | st.integers(-1, 3)
SMALL = st.integers(-1, 2**31 - 1) | st.integers(-1, 3)


def ids() -> st.SearchStrategy[MessageId]:
    return st.builds(
        MessageId, SMALL, IDS, IDS, SMALL, batch_size=st.integers(0, 5), topic=st.none() | st.text()
    )


def chunk_ids() -> st.SearchStrategy[MessageId]:
    """A chunk is an entry of its own, never in a batch, and all are in one partition."""
    return st.builds(
        lambda partition, topic, first, last: ChunkMessageId(
            MessageId(partition, *first, topic=topic), MessageId(partition, *last, topic=topic)
        ),
        SMALL,
        st.none() | st.text(),
        st.tuples(IDS, IDS),
        st.tuples(IDS, IDS),
    )


def parts(message_id: MessageId) -> tuple[int, int, int, int]:
    return (
        message_id.ledger_id(),
        message_id.entry_id(),
        message_id.partition(),
        message_id.batch_index(),
    )


@given(ids() | chunk_ids(), ids() | chunk_ids())
def test_order_equality_and_hash_go_by_ledger_entry_partition_and_index(
    a: MessageId, b: MessageId
) -> None:
    assert (a == b) == (parts(a) == parts(b))
    assert (a != b) == (parts(a) != parts(b))
    assert (a < b, a <= b) == (parts(a) < parts(b), parts(a) <= parts(b))
    assert (a > b, a >= b) == (parts(a) > parts(b), parts(a) >= parts(b))
    if a == b:
        assert hash(a) == hash(b)


def test_a_chunk_id_counts_as_its_last_chunk() -> None:
    first, last = MessageId(0, 7, 10), MessageId(0, 7, 12)
    chunked = ChunkMessageId(first, last)
    assert chunked == last
    assert {last: "found"}[chunked] == "found"
    assert chunked > MessageId(0, 7, 11)
    assert ChunkMessageId(MessageId(0, 7, 9), last) == chunked
    assert chunked.first_chunk_message_id() == first
    assert chunked.last_chunk_message_id() == last
    assert type(chunked.last_chunk_message_id()) is MessageId
    assert str(chunked) == repr(chunked) == "(7,10,0,-1);(7,12,0,-1)"
    for pair in ((chunked, last), (first, chunked)):
        with pytest.raises(InvalidMessageIdError, match="chunks itself"):
            ChunkMessageId(*pair)


@given(ids() | chunk_ids())
def test_bytes_and_base64_read_back(message_id: MessageId) -> None:
    for back in (
        MessageId.deserialize(message_id.serialize(), topic="t"),
        MessageId.from_base64(message_id.to_base64(), topic="t"),
    ):
        assert (back, str(back), type(back)) == (message_id, str(message_id), type(message_id))
        assert (back.batch_size(), back.topic_name()) == (message_id.batch_size(), "t")


@given(ids() | chunk_ids())
def test_the_official_client_reads_our_bytes_and_we_read_its(message_id: MessageId) -> None:
    theirs = pulsar.MessageId.deserialize(message_id.serialize())
    assert (theirs.ledger_id(), theirs.entry_id()) == parts(message_id)[:2]
    assert (theirs.partition(), theirs.batch_index()) == parts(message_id)[2:]
    assert str(theirs) == str(message_id)
    assert repr(theirs) == repr(message_id)
    back = MessageId.deserialize(theirs.serialize())
    assert (back, str(back)) == (message_id, str(message_id))


@given(ids() | chunk_ids())
def test_bytes_are_pulsars_message_id_data(message_id: MessageId) -> None:
    data = pb.MessageIdData.FromString(message_id.serialize())
    assert data.ledgerId == message_id.ledger_id() & 0xFFFFFFFFFFFFFFFF
    assert data.HasField("batch_size")  # as Java writes it, known or not
    assert data.HasField("partition") == (message_id.partition() != -1)
    assert data.HasField("first_chunk_message_id") == isinstance(message_id, ChunkMessageId)


def test_ids_of_other_writers_are_read() -> None:
    plain = bytes.fromhex("08b9601004")  # C++ and Go leave the batch size out
    assert MessageId.deserialize(plain) == MessageId(-1, 12345, 4)
    newer = plain + bytes.fromhex("f20103616263")  # a field 30 of a version to come
    assert MessageId.deserialize(newer) == MessageId(-1, 12345, 4)
    with_ack_set = plain + bytes.fromhex("2806")  # an id from a command
    assert MessageId.deserialize(with_ack_set) == MessageId(-1, 12345, 4)


def test_earliest_and_latest_are_pulsars() -> None:
    assert parts(MessageId.earliest) == (-1, -1, -1, -1)
    assert parts(MessageId.latest) == (2**63 - 1, 2**63 - 1, -1, -1)
    for ours, theirs in (
        (MessageId.earliest, pulsar.MessageId.earliest),
        (MessageId.latest, pulsar.MessageId.latest),
    ):
        assert str(ours) == str(theirs)
        assert MessageId.deserialize(theirs.serialize()) == ours


@given(ids() | chunk_ids())
def test_ids_pickle_and_copy(message_id: MessageId) -> None:
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        check_same(pickle.loads(pickle.dumps(message_id, protocol)), message_id)
    check_same(copy.copy(message_id), message_id)
    check_same(copy.deepcopy(message_id), message_id)


def check_same(back: MessageId, message_id: MessageId) -> None:
    assert (back, str(back), type(back)) == (message_id, str(message_id), type(message_id))
    assert back.serialize() == message_id.serialize()
    assert (hash(back), back.topic_name()) == (hash(message_id), message_id.topic_name())


def test_hashes_are_the_same_in_every_process_and_build() -> None:
    assert hash(MessageId(3, 1, 2, 4)) == hash((1, 2, 3, 4))


@pytest.mark.parametrize("name", ["anything", "ledger_id"])
def test_ids_take_no_new_values(name: str) -> None:
    with pytest.raises(AttributeError):
        setattr(MessageId(0, 1, 2), name, 5)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "MessageIdData.ledgerId at byte 0: required field is missing"),
        (b"\x08\x01", "MessageIdData.entryId at byte 2: required"),
        (b"\xff\xff", "truncated"),
        (b"abc", "MessageIdData.12 at byte 1"),
        (b"\x08\x01\x10\x01\x3a\x02\x08\x01", "MessageIdData.entryId"),
        (b"\x08\x01\x10\x01\x3a\x09\x08\x01\x10\x01\x3a\x03\x08\x01\x10", "chunks itself"),
        (b"\x08\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x10\x01", "ledger id -2"),
        (b"\x08\x01\x10\x01\x30\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "batch size -1"),
    ],
)
def test_bytes_that_are_no_id_say_what_is_wrong(data: bytes, says: str) -> None:
    with pytest.raises(InvalidMessageIdError, match="not a message id") as caught:
        MessageId.deserialize(data)
    assert says in str(caught.value)
    assert isinstance(caught.value, ValueError)  # which is what the official client raises


@pytest.mark.parametrize("text", ["!", "CLlgEAQwAA=", "CLlg EAQwAA==", "é"])
def test_text_that_is_not_base64_says_so(text: str) -> None:
    with pytest.raises(InvalidMessageIdError, match="is not base64"):
        MessageId.from_base64(text)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((-2, 0, 0, 0), "partition -2"),
        ((0, 2**63, 0, 0), "ledger id"),
        ((0, 0, -2, 0), "entry id -2"),
        ((0, 0, 0, 2**31), "batch index"),
    ],
)
def test_numbers_that_no_id_has_are_refused(
    arguments: tuple[int, int, int, int], says: str
) -> None:
    with pytest.raises(InvalidMessageIdError, match=says):
        MessageId(*arguments)


def test_other_things_are_neither_equal_nor_comparable() -> None:
    assert MessageId(0, 1, 2) != (1, 2, 0, -1)
    for compare in ("__lt__", "__le__", "__gt__", "__ge__"):
        assert getattr(MessageId(0, 1, 2), compare)(7) is NotImplemented


def test_the_official_clients_names_and_arguments_are_all_here() -> None:
    theirs = {n for n in dir(pulsar.MessageId) if not n.startswith("_")} - {"wrap"}
    assert theirs <= set(dir(MessageId))
    wanted = list(inspect.signature(pulsar.MessageId.__init__).parameters)
    assert wanted == ["self", "partition", "ledger_id", "entry_id", "batch_index"]
    assert parts(MessageId(3, 1, 2, 4)) == (1, 2, 3, 4)
    assert parts(MessageId(partition=3, ledger_id=1, entry_id=2, batch_index=4)) == (1, 2, 3, 4)
    assert parts(MessageId()) == (-1, -1, -1, -1)


def test_base64_is_the_usual_one() -> None:
    message_id = MessageId(1, 2, 3)
    assert base64.b64decode(message_id.to_base64()) == message_id.serialize()


def test_message_id_data_is_a_value() -> None:
    data = MessageIdData(1, 2, 3, 4, 5, 6, MessageIdData(7, 8))
    same_again = pickle.loads(pickle.dumps(data))
    assert (same_again, hash(same_again)) == (data, hash(data))
    assert copy.deepcopy(data) == data
    assert repr(data) == (
        "MessageIdData(1, 2, 3, 4, 0x5, 6, MessageIdData(7, 8, -1, -1, None, 0, None))"
    )
    assert data != MessageIdData(1, 2, 3, 4, 5, 6)
    assert data != "data"
