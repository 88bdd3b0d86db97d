"""What passed in the last minutes is there for who looks now."""

from support.wire_client import Shared
from support.world import World

from magnetar.broker.rate_history import POINTS_MAX, RateHistory
from magnetar.broker.topic.counters import RATE_INTERVAL_MS


def told(world: World) -> list[tuple[float, float]]:
    return [(one.rate_in, one.rate_out) for one in world.broker.upkeep.rates.points]


def test_each_interval_is_a_point_of_all_topics_together() -> None:
    world = World()
    client = world.connect()
    producers = [client.producer(name) for name in ("a", "b")]
    reader = client.subscribe("a", "s", Shared)
    reader.flow(100)
    for producer in producers:
        for number in range(20):
            producer.publish(f"{number}")
    world.advance(RATE_INTERVAL_MS)
    # The round is over when the next begins.
    assert told(world) == []
    world.advance(RATE_INTERVAL_MS)
    assert told(world) == [(4.0, 2.0)]
    began = world.broker.upkeep.rates.points[0].time_ms
    world.advance(RATE_INTERVAL_MS)
    assert told(world) == [(4.0, 2.0), (0.0, 0.0)]
    assert world.broker.upkeep.rates.points[1].time_ms == began + RATE_INTERVAL_MS


def test_the_oldest_points_are_forgotten() -> None:
    history = RateHistory()
    # Nothing is a point before a round began.
    history.add(1.0, 1.0)
    for number in range(POINTS_MAX + 3):
        history.begin(number)
        history.add(1.0, 0.5)
        history.add(2.0, 0.5)
    assert [one.time_ms for one in history.points] == list(range(2, POINTS_MAX + 2))
    assert {(one.rate_in, one.rate_out) for one in history.points} == {(3.0, 1.0)}
