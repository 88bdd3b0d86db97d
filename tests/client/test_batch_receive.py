"""One call of `batch_receive`: when it has enough, and how long it may wait."""

from client.consumer_model import TOPIC

from magnetar.client.batch_receive import BatchReceive
from magnetar.client.message import Delivery, Message
from magnetar.client.policy import ConsumerBatchReceivePolicy
from magnetar.protocol import MessageMetadata


def message(size: int) -> Message:
    metadata = MessageMetadata("maker", 0, 0)
    delivery = Delivery(TOPIC, -1, 7, 0, metadata, bytes(size), 0, 1, 0, None)
    return Message(delivery, -1, 0, 0, size)


def test_enough_is_so_many_messages_or_bytes() -> None:
    for policy, sizes in (
        (ConsumerBatchReceivePolicy(3, -1, -1), [1, 1, 1]),
        (ConsumerBatchReceivePolicy(-1, 10, -1), [4, 4, 4]),
        (ConsumerBatchReceivePolicy(3, 10, -1), [10]),
    ):
        batch = BatchReceive(policy, lambda: 0.0)
        for size in sizes:
            assert batch.open
            assert batch.left_ms() is None
            batch.add(message(size))
        assert not batch.open
        assert [one.length() for one in batch.messages] == sizes


def test_its_time_begins_with_the_call() -> None:
    now_s = 50.0
    batch = BatchReceive(ConsumerBatchReceivePolicy(10, -1, 200), lambda: now_s)
    assert (batch.open, batch.left_ms()) == (True, 200)
    now_s += 0.125
    assert (batch.open, batch.left_ms()) == (True, 75)
    now_s += 1.0
    assert (batch.open, batch.left_ms()) == (False, 0)
