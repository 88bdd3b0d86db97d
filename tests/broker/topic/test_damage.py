"""One entry that the disk has damaged: what lies before it is delivered, and it can be passed."""

import pytest
from support.wire_client import Exclusive, Failover, KeyShared, Shared, WireConsumer
from support.world import World

from magnetar.model import Position

TYPES = pytest.mark.parametrize("type", [Exclusive, Failover, Shared, KeyShared])


def damage(world: World, position: Position) -> None:
    """Flips a bit of the entry, on the disk."""
    index = world.store.log.state.ledgers[position.ledger_id].index
    address = index.address(position.entry_id)
    world.disk.files[f"journal/{address >> 32:08x}.log"][(address & 0xFFFFFFFF) + 41] ^= 1


def damaged(world: World, type: int) -> tuple[WireConsumer, Position]:
    """A subscription of five entries, the third of them damaged, and a consumer that comes."""
    client = world.connect()
    client.subscribe("t", "sub", type).close()
    ids = [client.producer("t").send(text) for text in "abcde"]
    world.crash()  # or the broker would have them in memory
    position = Position(ids[2].ledger_id, ids[2].entry_id)
    damage(world, position)
    consumer = world.connect().subscribe("t", "sub", type)
    consumer.flow(10)
    return consumer, position


@TYPES
def test_what_lies_before_the_damage_is_delivered_and_it_is_told_where_that_is(
    world: World, type: int
) -> None:
    consumer, position = damaged(world, type)
    assert consumer.receive() == ["a", "b"]
    found = world.subscription("t", "sub").damage
    assert found.position == position
    assert "is damaged" in found.reason
    world.advance(10_000)
    (warning,) = world.host.warnings
    assert f"stops at {position.ledger_id}:{position.entry_id}" in warning
    assert "skip-damaged" in warning


@TYPES
def test_an_operator_skips_the_damage_and_all_else_is_delivered(world: World, type: int) -> None:
    consumer, _ = damaged(world, type)
    assert consumer.receive() == ["a", "b"]
    found = world.subscription("t", "sub").damage
    world.done(found.skip())
    world.advance(2_000)
    assert consumer.receive() == ["d", "e"]
    assert (found.position, found.skipped) == (None, 1)
    world.crash()
    again = world.connect().subscribe("t", "sub", type)
    assert again.receive(10) == ["a", "b", "d", "e"]


@TYPES
def test_a_policy_skips_the_damage_by_itself(type: int) -> None:
    world = World(skip_damaged=True)
    consumer, position = damaged(world, type)
    world.advance(2_000)
    assert consumer.receive() == ["a", "b", "d", "e"]
    assert world.subscription("t", "sub").damage.skipped == 1
    assert (
        f"damaged entry {position.ledger_id}:{position.entry_id} was skipped"
        in (world.host.warnings[-1])
    )


@pytest.mark.parametrize("topic", ["", "t"])
def test_a_namespace_or_a_topic_decides_otherwise_than_the_broker(world: World, topic: str) -> None:
    consumer, position = damaged(world, Shared)
    assert consumer.receive() == ["a", "b"]
    world.set_policy("autoSkipNonRecoverableData", True, topic=topic)
    world.advance(2_000)
    assert consumer.receive() == ["d", "e"]
    found = world.subscription("t", "sub").damage
    assert (found.position, found.skipped) == (None, 1)
    assert str(position.entry_id) in world.host.warnings[-1]


def test_a_topic_stops_at_damage_where_its_broker_would_go_on() -> None:
    world = World(skip_damaged=True)
    world.connect().subscribe("t", "sub", Shared).close()
    world.set_policy("autoSkipNonRecoverableData", False, topic="t")
    consumer, position = damaged(world, Shared)
    world.advance(2_000)
    assert consumer.receive() == ["a", "b"]
    assert world.subscription("t", "sub").damage.position == position


@TYPES
def test_damage_that_can_be_read_again_is_in_nobodys_way(world: World, type: int) -> None:
    consumer, position = damaged(world, type)
    assert consumer.receive() == ["a", "b"]
    damage(world, position)  # flips it back
    world.advance(2_000)
    assert consumer.receive() == ["c", "d", "e"]
    assert world.subscription("t", "sub").damage.position is None


def test_where_nothing_is_damaged_nothing_is_skipped(world: World) -> None:
    world.connect().subscribe("t", "sub", Shared)
    promise = world.subscription("t", "sub").damage.skip()
    assert "not stuck at a damaged entry" in str(promise.error)
