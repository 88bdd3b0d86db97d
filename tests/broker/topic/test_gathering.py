"""What the store is told of consumption, so that it copies together no more than a backlog."""

from support.wire_client import Shared
from support.world import World

from magnetar.model import Position
from magnetar.model.message_id_data import MessageIdData

NOTHING = Position(0, -1)


def test_the_slowest_cursor_says_up_to_where_a_topic_is_consumed(world: World) -> None:
    client = world.connect()
    slow, quick = (client.subscribe("t", name, Shared) for name in ("slow", "quick"))
    producer = client.producer("t")
    for text in ("a", "b", "c"):
        producer.publish(text)
    topic = world.topic("t")
    ledger_id = topic.ledgers.last().ledger_id
    ids = [MessageIdData(ledger_id, entry_id) for entry_id in range(3)]
    consumed = world.store.reclaimer.scattered.consumed
    for id in ids:
        quick.ack(id)
    slow.ack(ids[0])
    assert consumed(topic.id) == Position(ledger_id, 0)
    slow.ack(ids[1])
    assert consumed(topic.id) == Position(ledger_id, 1)


def test_what_is_retained_or_of_a_topic_that_nobody_has_loaded_counts_as_unread(
    world: World,
) -> None:
    client = world.connect()
    client.producer("t").publish("a")
    topic = world.topic("t")
    consumed = world.store.reclaimer.scattered.consumed
    assert consumed(topic.id) is None, "nobody has subscribed to it"
    world.set_policy("retention", {"retentionTimeInMinutes": 1, "retentionSizeInMB": -1})
    assert consumed(topic.id) == NOTHING
    world.unload("t")
    assert consumed(topic.id) == NOTHING
