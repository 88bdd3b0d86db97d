"""The producer's core against a broker that is a list."""

from typing import Any

import pytest
from client.producer_model import LEDGER, TOPIC, Fixture, connected, receipt

from magnetar.client.option.options import BatchingType, ProducerOptions
from magnetar.client.producer.chunks import Part
from magnetar.client.producer.core import ProducerCore
from magnetar.client.producer.outgoing import Outgoing
from magnetar.errors import (
    AlreadyClosed,
    BrokerPersistenceError,
    ChecksumError,
    MessageTooBig,
    MessageTooLargeError,
    NotAllowedError,
    ProducerQueueIsFull,
    Timeout,
    TopicTerminated,
    UsageError,
)
from magnetar.model.enums import CompressionType, ServerError
from magnetar.model.message_id import MessageId
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol.limit import MESSAGE_SIZE_MAX
from magnetar.protocol.send import CommandSendReceipt

# ---- Entries and ids ---------------------------------------------------------


def test_message_without_batching_is_an_entry_with_all_its_fields() -> None:
    fixture = connected()
    fixture.core.send(
        Outgoing(
            b"hello",
            fixture.told(b"hello"),
            properties={"a": "1", "b": ""},
            partition_key="key",
            ordering_key=b"order",
            event_timestamp=77,
            deliver_at=5000,
            replication_clusters=["east"],
        )
    )
    fixture.answer_all()
    stored = fixture.broker.stored[0]
    metadata = stored.metadata
    assert metadata.producer_name == "producer-1"
    assert metadata.publish_time == 1000
    assert metadata.properties == [("a", "1"), ("b", "")]
    assert metadata.partition_key == "key"
    assert metadata.ordering_key == b"order"
    assert metadata.event_time == 77
    assert metadata.deliver_at_time == 5000
    assert metadata.replicate_to == ["east"]
    assert metadata.num_messages_in_batch is None
    assert metadata.schema_version is None
    assert stored.send.highest_sequence_id == 0
    assert fixture.done == {b"hello": (None, MessageId(3, LEDGER, 0))}


def test_batch_has_ids_by_index_and_the_first_messages_keys() -> None:
    fixture = connected(batching_enabled=True)
    fixture.send(b"a", partition_key="k", ordering_key=b"o", properties={"x": "y"})
    fixture.send(b"b", event_timestamp=9)
    fixture.send(b"", null_value=True)
    assert fixture.broker.inbox == b""
    fixture.core.flush()
    fixture.answer_all()
    (stored,) = fixture.broker.stored
    assert stored.metadata.partition_key == "k"
    assert stored.metadata.ordering_key == b"o"
    assert stored.metadata.properties is None
    assert (stored.send.sequence_id, stored.send.highest_sequence_id) == (0, 2)
    a, b, c = stored.messages
    assert (a.partition_key, a.ordering_key, a.properties) == ("k", b"o", [("x", "y")])
    assert b.event_time == 9
    assert c.null_value
    ids = [fixture.done[payload][1] for payload in (b"a", b"b", b"")]
    assert ids == [MessageId(3, LEDGER, 0, index) for index in range(3)]
    assert [message_id.batch_size() for message_id in ids if message_id] == [3, 3, 3]


@pytest.mark.parametrize("kind", list(CompressionType))
@pytest.mark.parametrize("batching", [False, True])
def test_whole_payload_is_compressed(kind: CompressionType, batching: bool) -> None:
    fixture = connected(compression_type=kind, batching_enabled=batching)
    for i in range(10):
        fixture.send(b"%d " % i * 200)
    fixture.core.flush()
    fixture.answer_all()
    assert fixture.broker.payloads() == [b"%d " % i * 200 for i in range(10)]
    assert {stored.metadata.compression for stored in fixture.broker.stored} == {kind}


def test_schema_version_of_the_connection_is_in_every_entry() -> None:
    fixture = Fixture(batching_enabled=True)
    fixture.core.connected("p", -1, b"\0" * 8, MESSAGE_SIZE_MAX)
    fixture.send(b"a")
    fixture.send(b"b", deliver_at=1)
    fixture.answer_all()
    versions = [stored.metadata.schema_version for stored in fixture.broker.stored]
    assert versions == [b"\0" * 8] * 2


# ---- When batches close ------------------------------------------------------


def test_batch_closes_at_its_messages() -> None:
    fixture = connected(batching_enabled=True, batching_max_messages=3)
    for i in range(7):
        fixture.send(b"%d" % i)
    fixture.answer_all()
    assert [len(stored.messages) for stored in fixture.broker.stored] == [3, 3]


def test_batch_closes_at_its_bytes_and_before_what_does_not_fit() -> None:
    fixture = connected(batching_enabled=True, batching_max_allowed_size_in_bytes=100)
    for size in (40, 60, 50, 51, 200, 10):
        fixture.send(bytes([size]) * size)
    fixture.answer_all()
    sizes = [[len(m.payload) for m in stored.messages] for stored in fixture.broker.stored]
    assert sizes == [[40, 60], [50], [51], [200]]


def test_batch_closes_after_its_delay() -> None:
    fixture = connected(batching_enabled=True, batching_max_publish_delay_ms=10)
    assert fixture.core.next_ms() is None
    fixture.send(b"a")
    fixture.advance(4)
    fixture.send(b"b")
    assert fixture.core.next_ms() == 1010
    fixture.advance(5)
    assert not fixture.broker.take()
    fixture.advance(1)
    fixture.answer_all()
    assert fixture.broker.payloads() == [b"a", b"b"]
    assert fixture.core.next_ms() is None


@pytest.mark.parametrize("fields", [{"deliver_at": 5}, {"replication_clusters": ["east"]}])
def test_message_that_goes_alone_keeps_its_place(fields: dict[str, object]) -> None:
    fixture = connected(batching_enabled=True)
    fixture.send(b"a")
    fixture.send(b"alone", **fields)
    fixture.send(b"b")
    fixture.core.flush()
    fixture.answer_all()
    counts = [stored.metadata.num_messages_in_batch for stored in fixture.broker.stored]
    assert counts == [1, None, 1]
    assert fixture.broker.payloads() == [b"a", b"alone", b"b"]


def test_batches_by_key_are_in_the_order_of_their_first_messages() -> None:
    fixture = connected(batching_enabled=True, batching_type=BatchingType.KeyBased)
    for payload, key in ((b"a1", "a"), (b"b1", "b"), (b"a2", "a"), (b"c1", "c"), (b"b2", "b")):
        fixture.send(payload, partition_key=key)
    fixture.send(b"none")
    fixture.core.flush()
    fixture.answer_all()
    assert fixture.broker.payloads() == [b"a1", b"a2", b"b1", b"b2", b"c1", b"none"]
    keys = [stored.metadata.partition_key for stored in fixture.broker.stored]
    assert keys == ["a", "b", "c", None]
    sequence_ids = [(s.send.sequence_id, s.send.highest_sequence_id) for s in fixture.broker.stored]
    assert sequence_ids == [(0, 1), (2, 3), (4, 4), (5, 5)]


def test_batches_by_key_survive_a_broker_that_removes_duplicates() -> None:
    fixture = Fixture(deduplicates=True, batching_enabled=True, batching_type=BatchingType.KeyBased)
    fixture.connect()
    for i in range(10):
        fixture.send(b"%d" % i, partition_key=str(i % 3))
    fixture.core.flush()
    fixture.answer_all()
    assert len(fixture.broker.payloads()) == 10


def test_ordering_key_comes_before_the_partition_key() -> None:
    fixture = connected(batching_enabled=True, batching_type=BatchingType.KeyBased)
    fixture.send(b"1", partition_key="a", ordering_key=b"x")
    fixture.send(b"2", partition_key="a", ordering_key=b"y")
    fixture.send(b"3", partition_key="b", ordering_key=b"x")
    fixture.core.flush()
    fixture.answer_all()
    assert fixture.broker.payloads() == [b"1", b"3", b"2"]


# ---- Sequence ids ------------------------------------------------------------


def test_sequence_ids_continue_where_the_broker_says() -> None:
    fixture = Fixture(deduplicates=True)
    fixture.broker.last_sequence_id = 41
    fixture.connect()
    assert fixture.core.last_sequence_id == 41
    fixture.send(b"a")
    fixture.answer_all()
    assert fixture.broker.stored[0].send.sequence_id == 42
    assert fixture.core.last_sequence_id == 42


def test_initial_sequence_id_is_the_one_before_the_first() -> None:
    fixture = connected(initial_sequence_id=9)
    fixture.send(b"a")
    fixture.send(b"b", sequence_id=100)
    fixture.send(b"c")
    fixture.answer_all()
    assert [stored.send.sequence_id for stored in fixture.broker.stored] == [10, 100, 101]


@pytest.mark.parametrize("kind", list(BatchingType))
def test_sequence_id_that_goes_back_takes_no_other_message_with_it(kind: BatchingType) -> None:
    fixture = Fixture(deduplicates=True, batching_enabled=True, batching_type=kind)
    fixture.connect()
    fixture.send(b"a", sequence_id=5)
    fixture.send(b"b", sequence_id=7)
    fixture.send(b"again", sequence_id=5)
    fixture.send(b"c")
    fixture.send(b"d", sequence_id=8)
    fixture.core.flush()
    fixture.answer_all()
    assert fixture.broker.payloads() == [b"a", b"b", b"c"]
    assert fixture.done[b"again"] == (None, MessageId(3, -1, -1))
    assert fixture.done[b"d"] == (None, MessageId(3, -1, -1))


# ---- Receipts ----------------------------------------------------------------


def test_receipt_of_nothing_or_of_the_past_is_ignored() -> None:
    fixture = connected(initial_sequence_id=4)
    assert fixture.core.receipt(receipt(0))
    fixture.send(b"a")
    assert fixture.core.receipt(receipt(3))
    assert fixture.done == {}


def test_receipt_from_ahead_means_connect_again() -> None:
    fixture = connected()
    fixture.send(b"a")
    fixture.send(b"b")
    assert not fixture.core.receipt(receipt(1))
    assert fixture.done == {}
    fixture.disconnect()
    fixture.connect()
    fixture.answer_all()
    assert fixture.broker.payloads() == [b"a", b"b"]


def test_nobody_needs_to_be_told() -> None:
    fixture = connected()
    fixture.core.send(Outgoing(b"a"))
    fixture.answer_all()
    assert fixture.core.messages_stored == 1
    fixture.core.send(Outgoing(b"b"))
    fixture.core.close(AlreadyClosed())
    assert fixture.core.messages_failed == 1


def test_receipt_without_an_id_is_one_of_a_duplicate() -> None:
    fixture = connected()
    fixture.send(b"a")
    assert fixture.core.receipt(CommandSendReceipt(1, 0))
    assert fixture.done == {b"a": (None, MessageId(3, -1, -1))}


def test_receipt_with_an_id_of_nothing_means_connect_again() -> None:
    fixture = connected()
    fixture.send(b"a")
    assert not fixture.core.receipt(CommandSendReceipt(1, 0, MessageIdData(-5, 2)))
    assert not fixture.core.receipt(CommandSendReceipt(1, 0, MessageIdData(5, -2)))
    assert fixture.done == {}


def test_everything_is_sent_again_with_the_same_bytes() -> None:
    fixture = connected(batching_enabled=True, batching_max_messages=2)
    for i in range(5):
        fixture.send(b"%d" % i)
    fixture.send(b"late", deliver_at=5)
    written = bytes(fixture.broker.inbox)
    fixture.disconnect()
    fixture.now_ms += 50
    fixture.connect()
    assert bytes(fixture.broker.inbox) == written
    assert fixture.core.entries_written == 8


def test_what_the_broker_has_is_not_sent_again() -> None:
    fixture = Fixture(deduplicates=True)
    fixture.connect()
    for payload in (b"a", b"b", b"c"):
        fixture.send(payload)
    fixture.broker.take()
    fixture.broker.take()
    fixture.disconnect()
    fixture.connect()
    assert fixture.done == {
        b"a": (None, MessageId(3, -1, -1)),
        b"b": (None, MessageId(3, -1, -1)),
    }
    fixture.answer_all()
    assert fixture.broker.payloads() == [b"a", b"b", b"c"]
    assert fixture.done[b"c"] == (None, MessageId(3, LEDGER, 2))


# ---- Refusals ----------------------------------------------------------------


def test_entry_that_the_broker_never_takes_is_given_up_alone() -> None:
    fixture = connected()
    fixture.send(b"a")
    fixture.send(b"b")
    assert fixture.core.send_error(ServerError.NotAllowedError, "too late", 0)
    error, message_id = fixture.done[b"a"]
    assert isinstance(error, NotAllowedError)
    assert message_id is None
    assert fixture.core.receipt(receipt(1))
    assert fixture.done[b"b"][0] is None


def test_other_refusals_mean_connect_again() -> None:
    fixture = connected()
    assert not fixture.core.send_error(ServerError.NotAllowedError, "of nothing")
    fixture.send(b"a")
    assert not fixture.core.send_error(ServerError.PersistenceError, "disk")
    assert not fixture.core.send_error(ServerError.NotAllowedError, "of another", 5)
    assert fixture.done == {}


def test_entry_damaged_on_its_way_is_sent_again() -> None:
    fixture = connected()
    fixture.send(b"a")
    assert not fixture.core.send_error(ServerError.ChecksumError, "mismatch", 0)
    assert fixture.done == {}


def test_entry_damaged_in_memory_is_given_up() -> None:
    frames: list[list[Part]] = []
    fixture = Fixture()
    options = ProducerOptions()
    core = ProducerCore(
        options, TOPIC, 1, now_ms=lambda: 0, write=lambda parts, _: frames.append(parts)
    )
    core.connected("p", -1, b"", MESSAGE_SIZE_MAX)
    core.send(Outgoing(b"a", fixture.told(b"a")))
    frames[0][-1] = bytes(frames[0][-1])[:-1] + b"x"
    assert core.send_error(ServerError.ChecksumError, "mismatch", 0)
    assert isinstance(fixture.done[b"a"][0], ChecksumError)
    assert core.pending_messages == 0


def test_what_somebody_waits_for_is_written_in_a_hurry_and_nothing_else_is() -> None:
    written: list[tuple[bytes, bool]] = []
    core = ProducerCore(
        ProducerOptions(batching_enabled=True),
        TOPIC,
        1,
        now_ms=lambda: 0,
        write=lambda parts, hurried: written.append((bytes(parts[-1])[-1:], hurried)),
    )
    core.connected("p", -1, b"", MESSAGE_SIZE_MAX)
    core.send(Outgoing(b"a"))
    core.flush()
    core.send(Outgoing(b"b"), hurried=True)
    core.flush(hurried=True)
    core.send(Outgoing(b"c", deliver_at=1), hurried=True)
    core.send(Outgoing(b"d"))
    core.tick(1 << 40)
    assert written == [(b"a", False), (b"b", True), (b"c", True), (b"d", False)]


def test_terminated_topic_closes_the_producer() -> None:
    fixture = connected(batching_enabled=True)
    fixture.send(b"a")
    fixture.core.flush()
    fixture.send(b"b")
    assert fixture.core.send_error(ServerError.TopicTerminatedError, "it is over")
    assert fixture.core.state == "closed"
    assert [type(error) for error, _ in fixture.done.values()] == [TopicTerminated] * 2
    with pytest.raises(AlreadyClosed, match="it is over"):
        fixture.send(b"c")
    assert fixture.core.send_error(ServerError.UnknownError, "late")


# ---- Limits ------------------------------------------------------------------


def test_full_queue_turns_messages_away_until_there_is_room() -> None:
    fixture = connected(max_pending_messages=2, batching_enabled=True)
    fixture.send(b"a")
    fixture.send(b"b")
    for _ in range(2):
        with pytest.raises(ProducerQueueIsFull, match="max_pending_messages"):
            fixture.send(b"c")
    # Turning away has closed the batch, for nothing could join it.
    fixture.answer_all()
    fixture.send(b"c")
    fixture.core.flush()
    fixture.answer_all()
    assert fixture.broker.payloads() == [b"a", b"b", b"c"]


def test_no_limit_is_no_limit() -> None:
    fixture = connected(max_pending_messages=0)
    for i in range(2000):
        fixture.send(b"%d" % i)
    assert fixture.core.pending_messages == 2000
    assert fixture.core.pending_bytes == sum(len(b"%d" % i) for i in range(2000))


@pytest.mark.parametrize("batching", [False, True])
def test_message_that_exceeds_the_brokers_limit_is_refused(batching: bool) -> None:
    fixture = Fixture(batching_enabled=batching, batching_max_allowed_size_in_bytes=10_000)
    fixture.connect(max_message_size=1000)
    with pytest.raises(MessageTooLargeError, match="raise the broker's limit") as caught:
        fixture.send(b"x" * 1001)
    assert isinstance(caught.value, MessageTooBig)
    with pytest.raises(MessageTooLargeError):
        fixture.send(b"", properties={"p": "x" * 12_000})
    fixture.send(b"x" * 1000)
    fixture.core.flush()
    fixture.answer_all()
    assert [stored.send.sequence_id for stored in fixture.broker.stored] == [0]
    assert fixture.core.pending_messages == fixture.core.pending_bytes == 0
    assert fixture.core.messages_sent == 1


def test_large_message_may_be_compressed_to_fit() -> None:
    fixture = Fixture(batching_enabled=True, compression_type=CompressionType.ZLib)
    fixture.connect(max_message_size=1000)
    fixture.send(b"x" * 50_000)
    fixture.answer_all()
    assert fixture.broker.payloads() == [b"x" * 50_000]


def test_batches_stay_below_the_brokers_limit() -> None:
    fixture = Fixture(batching_enabled=True, batching_max_allowed_size_in_bytes=1 << 20)
    fixture.connect(max_message_size=1000)
    for i in range(40):
        fixture.send(b"%02d" % i * 50, partition_key="k" * (i % 7), properties={"p": "ü" * i})
    fixture.core.flush()
    fixture.answer_all()
    assert all(len(stored.send.entry) <= 1100 for stored in fixture.broker.stored)
    assert len(fixture.broker.payloads()) == 40


def test_entries_that_a_later_broker_does_not_take_are_given_up() -> None:
    fixture = connected()
    for size in (10, 900, 20):
        fixture.send(bytes([size % 256]) * size)
    fixture.disconnect()
    fixture.connect(max_message_size=500)
    assert isinstance(fixture.done[bytes([900 % 256]) * 900][0], MessageTooLargeError)
    fixture.answer_all()
    assert [len(payload) for payload in fixture.broker.payloads()] == [10, 20]


@pytest.mark.parametrize(
    "fields",
    [
        {"sequence_id": -1},
        {"sequence_id": 2**63 - 1},
        {"event_timestamp": -1},
        {"deliver_at": -1},
        {"properties": {"a": 1}},
        {"properties": {1: "a"}},
        {"replication_clusters": [None]},
    ],
)
def test_bad_fields_are_refused_before_anything_changes(fields: dict[str, object]) -> None:
    fixture = connected(batching_enabled=True)
    with pytest.raises(UsageError):
        fixture.send(b"a", **fields)
    assert fixture.core.pending_messages == 0
    assert fixture.core.next_ms() is None


# ---- Before the first connection ---------------------------------------------


def test_messages_wait_for_the_first_connection() -> None:
    fixture = Fixture(deduplicates=True, batching_enabled=True)
    fixture.broker.last_sequence_id = 9
    fixture.send(b"a")
    fixture.send(b"b")
    assert fixture.core.state == "connecting"
    assert fixture.core.pending_messages == 2
    fixture.connect()
    assert fixture.core.state == "ready"
    fixture.core.flush()
    fixture.answer_all()
    assert [m.sequence_id for m in fixture.broker.stored[0].messages] == [10, 11]


def test_waiting_message_that_is_too_large_fails_alone() -> None:
    fixture = Fixture()
    for size in (1, 200, 2):
        fixture.send(bytes([size]) * size)
    fixture.connect(max_message_size=100)
    fixture.answer_all()
    assert isinstance(fixture.done[bytes([200]) * 200][0], MessageTooLargeError)
    assert [len(payload) for payload in fixture.broker.payloads()] == [1, 2]
    assert fixture.core.pending_messages == fixture.core.pending_bytes == 0


def test_waiting_messages_time_out() -> None:
    fixture = Fixture(send_timeout_millis=100)
    idle: list[bool] = []
    fixture.send(b"a")
    fixture.advance(60)
    fixture.send(b"b")
    fixture.core.when_idle(lambda: idle.append(True))
    assert fixture.core.next_ms() == 1100
    fixture.advance(40)
    assert list(fixture.done) == [b"a", b"b"]
    assert isinstance(fixture.done[b"b"][0], Timeout)
    assert idle == [True]
    assert fixture.core.next_ms() is None


# ---- Timeouts ----------------------------------------------------------------


def test_late_messages_time_out_and_their_receipts_are_ignored() -> None:
    fixture = connected(send_timeout_millis=100)
    fixture.send(b"a")
    assert fixture.core.next_ms() == 1100
    fixture.advance(99)
    assert fixture.done == {}
    fixture.advance(1)
    error, _ = fixture.done.pop(b"a")
    assert isinstance(error, Timeout)
    assert "100 ms" in str(error)
    fixture.send(b"b")
    fixture.answer_all()
    assert list(fixture.done) == [b"b"]
    assert fixture.done[b"b"][0] is None


def test_with_a_late_message_all_behind_it_time_out() -> None:
    """As in the official clients: what is stored is a beginning, and can be sent again safely."""
    fixture = connected(batching_enabled=True, send_timeout_millis=100)
    fixture.send(b"a")
    fixture.core.flush()
    fixture.core.disconnected()
    fixture.advance(50)
    fixture.send(b"b")
    fixture.core.flush()
    fixture.advance(49)
    fixture.send(b"open in a batch")
    assert fixture.done == {}
    fixture.advance(1)
    assert list(fixture.done) == [b"a", b"b", b"open in a batch"]
    assert all(isinstance(error, Timeout) for error, _ in fixture.done.values())
    assert fixture.core.pending_messages == fixture.core.pending_bytes == 0
    fixture.done.clear()
    fixture.connect()
    fixture.send(b"c")
    fixture.core.flush()
    fixture.answer_all()
    assert fixture.done[b"c"][0] is None


def test_without_a_timeout_messages_wait_for_ever() -> None:
    fixture = connected(send_timeout_millis=0)
    fixture.send(b"a")
    assert fixture.core.next_ms() is None
    fixture.advance(10**9)
    assert fixture.done == {}


# ---- Idle, close, callbacks --------------------------------------------------


def test_idle_is_when_everything_sent_before_is_done() -> None:
    fixture = connected(batching_enabled=True)
    calls: list[str] = []
    fixture.core.when_idle(lambda: calls.append("at once"))
    assert calls == ["at once"]
    fixture.send(b"a")
    fixture.core.when_idle(lambda: calls.append("a"))
    fixture.send(b"b")
    fixture.core.when_idle(lambda: calls.append("b"))
    assert calls == ["at once"]
    fixture.broker.take()
    assert fixture.core.receipt(fixture.broker.outbox.pop())
    assert calls == ["at once", "a"]
    fixture.answer_all()
    assert calls == ["at once", "a", "b"]


def test_idle_before_the_first_connection() -> None:
    fixture = Fixture(batching_enabled=True)
    calls: list[str] = []
    fixture.core.when_idle(lambda: calls.append("nothing"))
    fixture.send(b"a")
    fixture.core.when_idle(lambda: calls.append("a"))
    assert calls == ["nothing"]
    fixture.connect()
    fixture.send(b"b")
    fixture.answer_all()
    assert calls == ["nothing", "a"]


@pytest.mark.parametrize("kind", list(BatchingType))
@pytest.mark.parametrize("connects", [False, True])
def test_close_gives_up_everything(kind: BatchingType, connects: bool) -> None:
    fixture = Fixture(batching_enabled=True, batching_type=kind, max_pending_messages=4)
    calls: list[str] = []
    if connects:
        fixture.connect()
    fixture.send(b"a")
    fixture.core.flush()
    fixture.send(b"b", partition_key="x")
    fixture.core.when_idle(lambda: calls.append("idle"))
    fixture.send(b"c", partition_key="x")
    fixture.send(b"d", partition_key="y")
    with pytest.raises(ProducerQueueIsFull):
        fixture.send(b"e")
    reason = BrokerPersistenceError("gone")
    fixture.core.close(reason)
    fixture.core.close(reason)
    assert fixture.done == dict.fromkeys((b"a", b"b", b"c", b"d"), (reason, None))
    assert calls == ["idle"]
    assert fixture.core.pending_messages == fixture.core.pending_bytes == 0
    assert fixture.core.messages_failed == 4
    with pytest.raises(AlreadyClosed, match="gone"):
        fixture.send(b"f")
    fixture.connect()
    assert fixture.core.state == "closed"
    assert fixture.core.receipt(receipt(0))
    assert fixture.core.next_ms() is None


def test_callback_that_raises_hinders_no_other() -> None:
    fixture = connected(batching_enabled=True)

    def bad(error: Exception | None, message_id: MessageId | None) -> None:
        raise KeyError("mine")

    problems: list[Exception] = []
    fixture.core.callback_failed = problems.append
    for _ in range(2):
        fixture.core.send(Outgoing(b"bad", bad))
        fixture.send(b"good%d" % len(problems))
        fixture.core.flush()
        fixture.answer_all()
    assert list(fixture.done) == [b"good0", b"good1"]
    assert [str(problem) for problem in problems] == ["'mine'"] * 2
    fixture.core.callback_failed = None
    fixture.core.send(Outgoing(b"bad", bad))
    fixture.send(b"left")
    with pytest.raises(KeyError):
        fixture.core.close(AlreadyClosed())
    assert isinstance(fixture.done[b"left"][0], AlreadyClosed)


def test_callback_may_close_the_producer() -> None:
    fixture = connected(batching_enabled=True)

    def close(error: Exception | None, message_id: MessageId | None) -> None:
        fixture.core.close(AlreadyClosed("by the callback"))
        fixture.core.flush()

    fixture.core.send(Outgoing(b"closes", close))
    fixture.send(b"same batch")
    fixture.core.flush()
    fixture.send(b"open")
    fixture.answer_all()
    assert fixture.done[b"same batch"][0] is None
    assert isinstance(fixture.done[b"open"][0], AlreadyClosed)


@pytest.mark.parametrize("batching", [False, True])
@pytest.mark.parametrize(
    "fields",
    [
        {"properties": {"a": "\ud800"}},
        {"properties": {"\ud800": "a"}},
        {"partition_key": "\ud800"},
        {"replication_clusters": ["\ud800"]},
    ],
)
def test_texts_that_cannot_be_written_are_refused_and_leave_nothing_behind(
    fields: dict[str, Any], batching: bool
) -> None:
    for fixture in (connected(batching_enabled=batching), Fixture(batching_enabled=batching)):
        with pytest.raises(UsageError, match="cannot be written"):
            fixture.send(b"bad", **fields)
        assert (fixture.core.pending_messages, fixture.core.messages_sent) == (0, 0)
