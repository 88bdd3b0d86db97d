"""Thousands of consumers and producers: what one of them costs does not grow with the others.

Nobody measures time here. What is counted is how many others are looked at.
"""

from collections.abc import Iterator

import pytest
from support.wire_client import Earliest, WireConsumer, refused
from support.world import World

from magnetar.broker.topic.consumer import Consumer
from magnetar.broker.topic.dispatch.dispatcher import LOOKS_FREE
from magnetar.broker.topic.dispatch.failover import Candidates
from magnetar.broker.topic.publish.admission import DISMISSED_AT_ONCE
from magnetar.broker.upkeep import TURN_RATES
from magnetar.model import ConsumerType, ProducerAccessMode, ServerError

CROWD = 3 * LOOKS_FREE
TYPES = [ConsumerType.Shared, ConsumerType.KeyShared, ConsumerType.Failover]


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.close()


class Counted(list[Consumer]):
    """Consumers, and how often somebody went through all of them."""

    walks = 0

    def __iter__(self) -> Iterator[Consumer]:
        self.walks += 1
        return super().__iter__()

    def __contains__(self, consumer: object) -> bool:
        self.walks += 1
        return super().__contains__(consumer)


def crowd(world: World, type: ConsumerType) -> list[WireConsumer]:
    client = world.connect()
    return [client.subscribe("t", "s", type) for _ in range(CROWD)]


@pytest.mark.parametrize("type", TYPES)
def test_a_consumer_that_leaves_looks_at_no_others(world: World, type: ConsumerType) -> None:
    consumers = crowd(world, type)
    dispatcher = world.subscription("t", "s").dispatcher
    assert dispatcher is not None
    counted = Counted(dispatcher.consumers)
    dispatcher.consumers = counted
    consumers[0].close()
    consumers[-1].close()
    assert counted.walks == 0
    assert len(counted) == CROWD - 2


@pytest.mark.parametrize("type", TYPES[:2])
def test_permits_that_come_while_there_is_nothing_look_at_no_others(
    world: World, type: ConsumerType
) -> None:
    consumers = crowd(world, type)
    dispatcher = world.subscription("t", "s").dispatcher
    assert dispatcher is not None
    counted = Counted(dispatcher.consumers)
    dispatcher.consumers = counted
    for consumer in consumers:
        consumer.flow(1)
    assert counted.walks == 0


@pytest.mark.once
@pytest.mark.parametrize("type", TYPES)
def test_a_crowd_is_served_all_the_same(world: World, type: ConsumerType) -> None:
    consumers = crowd(world, type)
    producer = world.connect().producer("t")
    for number in range(CROWD):
        producer.send(f"m-{number}", partition_key=str(number))
    for consumer in consumers:
        consumer.flow(CROWD)
    world.advance(world.settings.failover_delay_ms + 1)
    got = [payload for consumer in consumers for payload in consumer.payloads()]
    assert sorted(got) == sorted([f"m-{number}" for number in range(CROWD)])


def test_unacked_messages_of_all_consumers_are_counted_as_they_change(world: World) -> None:
    consumers = crowd(world, ConsumerType.Shared)
    producer = world.connect().producer("t")
    for number in range(10):
        producer.send(f"m-{number}")
    consumers[0].flow(5)
    consumers[1].flow(5)
    dispatcher = world.subscription("t", "s").dispatcher
    assert dispatcher is not None
    assert dispatcher.unacked_count() == 10
    consumers[0].ack(consumers[0].deliveries()[0])
    assert dispatcher.unacked_count() == 9
    consumers[1].close()
    assert dispatcher.unacked_count() == 4


def test_candidates_of_failover_are_kept_in_order() -> None:
    candidates = Candidates(1, "t")
    for number in range(CROWD):
        candidates.add(number // 2, f"c{number}", number)
    served = []
    for _ in range(CROWD):
        served.append(candidates.pick())
        candidates.remove(served[-1])
    assert sorted(served) == list(range(CROWD))
    assert [number // 2 for number in served] == [number // 2 for number in range(CROWD)]
    assert candidates.pick() == -1


def test_a_shared_producer_is_refused_by_whoever_is_first_in_line(world: World) -> None:
    client = world.connect()
    client.producer("t")
    client.producer("t", producer_access_mode=ProducerAccessMode.WaitForExclusive)
    with refused(ServerError.ProducerBusy):
        client.producer("t")


def test_many_producers_are_turned_out_in_turns_and_publish_nothing_meanwhile(
    world: World,
) -> None:
    client, other = world.connect(), world.connect()
    producers = [client.producer("t") for _ in range(2 * DISMISSED_AT_ONCE)]
    topic = world.topic("t")
    topic.admission.dismiss_all()
    assert topic.admission.empty
    assert len(client.session._producers._producers) == DISMISSED_AT_ONCE  # told in a moment
    producers[-1].publish("too late")
    world.settle()
    assert client.send_answers() == []  # it hears that it is closed instead
    assert sorted(client.closed_producers()) == sorted(producer.id for producer in producers)
    assert client.subscribe("t", initialPosition=Earliest).receive() == []
    assert not client.session._producers._producers
    assert other.producer("t", producer_access_mode=ProducerAccessMode.Exclusive).success


def test_what_is_sent_to_a_topic_that_is_unloading_comes_again_with_its_producer(
    world: World,
) -> None:
    """A SEND that is refused makes official clients give up the connection, consumers and all."""
    client = world.connect()
    producers = [client.producer("t") for _ in range(2 * DISMISSED_AT_ONCE)]
    topic = world.topic("t")
    world.hold_disk()
    world.broker.unload(topic.name)
    producers[-1].publish("too late")
    world.release_disk()
    assert client.send_answers() == []
    assert sorted(client.closed_producers()) == sorted(producer.id for producer in producers)


def test_rates_of_a_crowd_are_reckoned_in_turns(world: World) -> None:
    client = world.connect()
    producers = [client.producer("t") for _ in range(TURN_RATES + 1)]
    producers[-1].send("a")
    world.broker.upkeep.tick_rates()
    last = list(world.topic("t").producers.values())[-1]
    assert last.traffic.message_rate == 0
    world.settle()
    assert last.traffic.message_rate > 0
