"""Messages: what an application reads of them, in a batch or alone."""

from client.consumer_model import TOPIC
from hypothesis import given
from hypothesis import strategies as st

from magnetar.client.consumer.message import Delivery, Message
from magnetar.model import MessageId
from magnetar.protocol import MessageMetadata, SingleMessage, encode_batch


def delivery_of(
    metadata: MessageMetadata, payload: bytes, batch_size: int = 0, redelivery_count: int = 0
) -> Delivery:
    unacked = (1 << max(batch_size, 1)) - 1
    return Delivery(TOPIC, 2, 7, 5, metadata, payload, batch_size, unacked, redelivery_count, None)


def batched(single: SingleMessage, metadata: MessageMetadata | None = None) -> Message:
    """The message, the second of two."""
    before = encode_batch([SingleMessage(b"first", 0)])
    payload = before + encode_batch([single])
    metadata = metadata or MessageMetadata("maker", 40, 1_000)
    data_first = len(payload) - len(single.payload)
    return Message(delivery_of(metadata, payload, 2), 1, len(before), data_first, len(payload))


def alone(metadata: MessageMetadata, payload: bytes = b"hello") -> Message:
    return Message(delivery_of(metadata, payload), -1, 0, 0, len(payload))


def test_what_is_absent_is_empty() -> None:
    for message in (batched(SingleMessage(b"")), alone(MessageMetadata("maker", 41, 1_000), b"")):
        assert message.data() == b""
        assert message.value() == b""
        assert message.properties() == {}
        assert message.partition_key() == ""
        assert message.ordering_key() == ""
        assert message.ordering_key_bytes() is None
        assert message.event_timestamp() == 0
        assert message.publish_timestamp() == 1_000
        assert message.schema_version() == ""
        assert message.int_schema_version() == -1
        assert message.producer_name() == "maker"
        assert message.sequence_id() == 41
        assert message.redelivery_count() == 0
        assert not message.has_null_value()
        assert message.encryption_context() is None
        assert message.topic_name() == TOPIC
        assert message.length() == 0


def test_a_message_of_a_batch_has_metadata_of_its_own() -> None:
    single = SingleMessage(b"payload", 17)
    single.properties = [("a", "1"), ("b", "2"), ("a", "3")]
    single.partition_key = "key"
    single.ordering_key = b"order"
    single.event_time = 123
    message = batched(single)
    assert message.data() == b"payload"
    assert message.properties() == {"a": "3", "b": "2"}
    assert message.partition_key() == "key"
    assert message.ordering_key() == "order"
    assert message.event_timestamp() == 123
    assert message.sequence_id() == 17
    assert message._single() is message._single()
    assert message.message_id() == MessageId(2, 7, 5, 1)
    assert message.message_id().batch_size() == 2
    assert message.message_id().topic_name() == TOPIC
    assert repr(message) == "Message((7,5,2,1), 7 bytes)"


def test_a_message_alone_has_the_metadata_of_its_entry() -> None:
    metadata = MessageMetadata("maker", 9, 1_000)
    metadata.properties = [("a", "1")]
    metadata.partition_key = "key"
    metadata.ordering_key = b"\xff"
    metadata.event_time = 5
    metadata.schema_version = (3).to_bytes(8, "big")
    message = alone(metadata)
    assert message.properties() == {"a": "1"}
    assert message.partition_key() == "key"
    assert message.ordering_key().encode("utf-8", "surrogateescape") == b"\xff"
    assert message.event_timestamp() == 5
    assert message.schema_version() == "\0\0\0\0\0\0\0\3"
    assert message.int_schema_version() == 3
    assert message.sequence_id() == 9
    assert message.message_id() == MessageId(2, 7, 5)


def test_a_message_without_a_value_has_none() -> None:
    single = SingleMessage(b"")
    single.null_value = True
    metadata = MessageMetadata("maker", 0, 0)
    metadata.null_value = True
    for message in (batched(single), alone(metadata, b"")):
        assert message.has_null_value()
        assert message.value() is None
        assert message.data() == b""


def test_the_schema_makes_the_value() -> None:
    delivery = Delivery(
        TOPIC, -1, 7, 5, MessageMetadata("maker", 0, 0), b"41", 0, 1, 3, lambda m: int(m.data()) + 1
    )
    message = Message(delivery, -1, 0, 0, 2)
    assert message.value() == 42
    assert message.redelivery_count() == 3


@given(st.binary(max_size=50), st.dictionaries(st.text(max_size=5), st.text(max_size=5)))
def test_payload_and_properties_are_what_was_sent(
    payload: bytes, properties: dict[str, str]
) -> None:
    single = SingleMessage(payload)
    single.properties = list(properties.items())
    message = batched(single)
    assert message.data() == payload
    assert message.properties() == properties
