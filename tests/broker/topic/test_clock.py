"""Somebody sets the time of day, by an hour, forward or back: what goes by it and what does not.

Intervals do not. What was said as a time of day does, and is looked at once a minute at least.
The table is in docs/internals/broker.md.
"""

from support.tokens import by_secret, token
from support.wire_client import Shared, WireConsumer
from support.world import START_MS, World

from magnetar.broker.auth.permissions import Permissions
from magnetar.protocol import pulsar_pb2 as pb

HOUR_MS = 3_600_000
MINUTE_MS = 60_000
TOPIC = "persistent://public/default/t"


# ---- Delayed messages -----------------------------------------------------------


def delayed(world: World, delay_ms: int) -> WireConsumer:
    """A consumer that waits for a delayed message."""
    client = world.connect()
    consumer = client.subscribe("t", "sub", Shared)
    consumer.flow(10)
    client.producer("t").send("later", deliver_at_time=world.host.now_ms() + delay_ms)
    return consumer


def test_a_delayed_message_comes_when_the_clock_is_set_past_its_time() -> None:
    world = World()
    consumer = delayed(world, 2 * HOUR_MS)
    world.jump_clock(HOUR_MS)
    world.advance(MINUTE_MS)
    assert consumer.receive() == []
    world.jump_clock(HOUR_MS)
    world.advance(MINUTE_MS)
    assert consumer.receive() == ["later"]


def test_a_delayed_message_waits_for_its_time_of_day_when_the_clock_is_set_back() -> None:
    world = World()
    consumer = delayed(world, MINUTE_MS)
    world.jump_clock(-HOUR_MS)
    world.advance(HOUR_MS)
    assert consumer.receive() == []
    world.advance(MINUTE_MS)
    assert consumer.receive() == ["later"]


# ---- Time to live ---------------------------------------------------------------


def unacked(world: World) -> int:
    return world.subscription("t", "sub").cursor.unacked_entries()


def test_messages_expire_by_the_time_of_day() -> None:
    world = World(ttl_seconds=1800, ttl_check_ms=1000)
    client = world.connect()
    client.subscribe("t", "sub", Shared)
    client.producer("t").send("a")
    world.jump_clock(-HOUR_MS)
    world.advance(HOUR_MS)
    assert unacked(world) == 1  # set back, they live that much longer
    world.jump_clock(HOUR_MS)
    world.advance(2000)
    assert unacked(world) == 0  # set forward, that much shorter


# ---- Topics that nobody uses ----------------------------------------------------


def test_a_clock_that_is_set_forward_does_not_make_topics_unused() -> None:
    world = World(delete_inactive_topics=True, inactive_topic_ms=10 * MINUTE_MS)
    client = world.connect()
    client.producer("t").send("a")
    client.drop()
    world.jump_clock(HOUR_MS)
    world.advance(MINUTE_MS)
    assert TOPIC in world.broker.topics
    world.jump_clock(-10 * HOUR_MS)
    world.advance(11 * MINUTE_MS)
    assert TOPIC not in world.broker.topics


# ---- Tokens ---------------------------------------------------------------------


def test_a_token_ends_within_a_minute_of_a_clock_that_is_set_past_its_end() -> None:
    world = World(authentication=by_secret())
    permissions = Permissions().with_namespace("me", ("produce",))
    world.broker.directory.put_permissions("public/default", permissions)
    text = token("me", exp=START_MS // 1000 + 7200)
    client = world.connect(auth_method_name="token", auth_data=text.encode())
    client.producer("t").send("a")
    world.jump_clock(-HOUR_MS)
    world.advance(2 * HOUR_MS)
    left = client.hung_up
    world.jump_clock(HOUR_MS)
    world.advance(MINUTE_MS)
    # Before, by the time of day, there was an hour left.
    assert (left, client.hung_up) == (False, True)
    assert client.take(pb.CommandAuthChallenge) == []
