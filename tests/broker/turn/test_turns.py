"""I10: what one peer asks for at once is handled in turns, and what waits for it is bounded."""

from functools import partial
from typing import Any

import pytest
from support.wire_client import Refused, Shared, WireClient, refused
from support.world import World, never

from magnetar.broker.namespace.namespace_topics import FOUND_BYTES_MAX, FoundTopics, NamespaceTopics
from magnetar.broker.peer import OUTBOX_BYTES_MAX, OUTBOX_FRAMES_MAX, Peer
from magnetar.broker.session.session import FULL, OPEN, QUEUED
from magnetar.broker.turn.turns import (
    COMMAND_COST_MAX,
    FIRST_TURN_COST,
    FIRST_TURNS_COST,
    LOOK_COST,
    TURN_COST,
)
from magnetar.model import SchemaType, ServerError
from magnetar.protocol import CommandFlow, CommandSend, MessageMetadata, encode, encode_entry
from magnetar.protocol import pulsar_pb2 as pb

NAMESPACE = "public/default"
TOPIC = f"persistent://{NAMESPACE}/t"


def lookups(count: int) -> bytes:
    return b"".join(
        [encode(pb.CommandLookupTopic(topic=TOPIC, request_id=n)) for n in range(count)]
    )


def list_request(number: int, pattern: str = "", **fields: Any) -> bytes:
    return encode(
        pb.CommandGetTopicsOfNamespace(
            request_id=number, namespace=NAMESPACE, topics_pattern=pattern, **fields
        )
    )


def watch_request(number: int, pattern: str) -> bytes:
    return encode(
        pb.CommandWatchTopicList(
            request_id=number, watcher_id=number, namespace=NAMESPACE, topics_pattern=pattern
        )
    )


def make_topics(world: World, count: int) -> list[str]:
    names = [f"persistent://{NAMESPACE}/topic-{number:04d}" for number in range(count)]
    for number, name in enumerate(names):
        world.broker._remember(name, 10_000 + number)
    return names


def put_schema(client: WireClient, size: int) -> None:
    text = '{"type": "record", "name": "r", "fields": [], "doc": "%s"}' % ("x" * size)
    schema = pb.Schema(name="s", type=SchemaType.Avro, schema_data=text.encode())
    client.request(pb.CommandProducer(topic=TOPIC, producer_id=77, schema=schema))


def schema_requests(count: int) -> bytes:
    return b"".join([encode(pb.CommandGetSchema(topic=TOPIC, request_id=n)) for n in range(count)])


def numbers(client: WireClient) -> list[int]:
    found = [command.request_id for command in client.received]
    client.received.clear()
    return found


def watch_turns(world: World) -> list[tuple[str, int, int]]:
    turns: list[tuple[str, int, int]] = []
    world.broker.turns.watcher = lambda *turn: turns.append(turn)
    return turns


# ---- Turns -------------------------------------------------------------------


def test_a_read_of_many_requests_is_handled_in_turns_and_in_order(world: World) -> None:
    client, turns = world.connect(), watch_turns(world)
    client.say_bytes(lookups(500))
    assert numbers(client) == list(range(500))
    assert len(turns) > 500 * 11 // (TURN_COST + LOOK_COST)
    assert max(cost for _, cost, _ in turns) <= TURN_COST + LOOK_COST
    assert client.session._input == OPEN
    assert client.port.reading


def test_of_those_who_come_in_one_round_one_has_a_long_turn(world: World) -> None:
    clients, turns = [world.connect() for _ in range(3)], watch_turns(world)
    for client in clients[:2]:
        client.session.receive(lookups(20))
    first, second = [cost for _, cost, _ in turns]
    assert FIRST_TURN_COST + LOOK_COST < first <= TURN_COST
    assert second <= FIRST_TURN_COST + LOOK_COST
    # While that one waits for the rest of its turn nobody else has a long one.
    clients[2].session.receive(lookups(20))
    assert turns[2][1] <= FIRST_TURN_COST + LOOK_COST
    world.settle()
    clients[2].session.receive(lookups(20))
    assert turns[-1][1] == first


def test_who_comes_in_the_next_round_may_have_a_long_turn_again(world: World) -> None:
    clients, turns = [world.connect() for _ in range(2)], watch_turns(world)
    for client in clients:
        client.session.receive(lookups(20))
        world.host.soon.popleft()()
    assert len(turns) == 2
    assert turns[0][1] == turns[1][1] > FIRST_TURN_COST + LOOK_COST


def test_thousands_who_come_in_one_round_wait_for_the_next(world: World) -> None:
    """A round is bounded, and not only the turn of each: sockets are read between rounds."""
    clients, turns = [world.connect() for _ in range(200)], watch_turns(world)
    for client in clients:
        client.session.receive(lookups(8))
    costs = []
    while True:
        costs.append(sum([cost for _, cost, _ in turns]))
        turns.clear()
        if not world.host.soon:
            break
        for _ in range(len(world.host.soon)):
            world.host.soon.popleft()()
    assert max(costs) <= FIRST_TURNS_COST + TURN_COST
    assert sum(costs) == 200 * 8 * 11
    world.settle()
    assert all(numbers(client) == list(range(8)) for client in clients)
    assert all(client.port.reading for client in clients)


def test_who_waits_for_a_first_turn_comes_before_those_that_have_had_one(world: World) -> None:
    clients, turns = [world.connect() for _ in range(10)], watch_turns(world)
    for client in clients:
        client.session.receive(lookups(100))
    had = [address for address, _, _ in turns]
    assert 3 < len(had) < 10
    last = world.connect(greet=False)
    last.session.receive(encode(pb.CommandConnect(client_version="x", protocol_version=21)))
    assert last.session.outbox_bytes == 0
    waited, addresses = 0, [client.session.address for client in [*clients, last]]
    while last.session.outbox_bytes == 0:
        waited += 1
        for _ in range(len(world.host.soon)):
            world.host.soon.popleft()()
    assert list(dict.fromkeys(address for address, _, _ in turns)) == addresses
    assert waited <= (11 - len(had)) * FIRST_TURN_COST // TURN_COST + 1


def test_what_a_lone_publisher_sends_is_one_turn(world: World) -> None:
    client, turns = world.connect(), watch_turns(world)
    producer = client.producer("t")
    turns.clear()
    entry = encode_entry(MessageMetadata("p", 0, 1).encode(), bytes(1024))
    sends = [encode(CommandSend(producer.id, number, entry)) for number in range(250)]
    client.say_bytes(b"".join(sends))
    assert [cost for _, cost, _ in turns] == [250]
    assert len(client.send_answers()) == 250


def test_what_is_not_stored_costs_its_publisher_each_delivery(world: World) -> None:
    client, reader, turns = world.connect(), world.connect(), watch_turns(world)
    topic = "non-persistent://public/default/t"
    for number in range(50):
        reader.subscribe(topic, f"s{number}", Shared).flow(100)
    producer = client.producer(topic)
    turns.clear()
    entry = encode_entry(MessageMetadata("p", 0, 1).encode(), b"x")
    sends = [encode(CommandSend(producer.id, number, entry)) for number in range(20)]
    client.say_bytes(b"".join(sends))
    assert sum([cost for _, cost, _ in turns]) == 20 * 51
    assert len(turns) == 20 * 51 // TURN_COST + 1
    assert len(client.send_answers()) == 20


def test_a_session_is_not_read_while_it_has_commands_left(world: World) -> None:
    client = world.connect()
    client.session.receive(lookups(500))
    assert client.session._input == QUEUED
    assert not client.port.reading
    # What is under way already is kept.
    client.session.receive(lookups(3))
    world.settle()
    assert len(numbers(client)) == 503
    assert client.port.reading


def test_whoever_has_commands_left_waits_behind_others(world: World) -> None:
    busy, other = world.connect(), world.connect()
    busy.session.receive(lookups(500))
    busy.session.take_outbox()
    assert len(world.broker.turns) == 1
    other.session.receive(lookups(500))
    other.session.take_outbox()
    assert len(world.broker.turns) == 2
    # One turn in each round of the loop, one after the other.
    for session in (busy.session, other.session, busy.session):
        before = session.outbox_bytes
        world.host.soon.popleft()()
        assert session.outbox_bytes > before
    # And one that comes anew is answered at once.
    third = world.connect(greet=False)
    third.session.receive(encode(pb.CommandConnect(client_version="x", protocol_version=21)))
    assert third.session.outbox_bytes > 0


def test_a_clock_ends_a_turn_too(world: World) -> None:
    client, turns = world.connect(), watch_turns(world)
    ticks = iter(range(10**6))
    world.host.ticks_ms = lambda: next(ticks)  # type: ignore[method-assign]
    client.say_bytes(lookups(30))
    assert numbers(client) == list(range(30))
    assert len(turns) > 5


def test_a_session_that_ends_between_two_turns_handles_nothing_more(world: World) -> None:
    client, turns = world.connect(), watch_turns(world)
    client.session.receive(lookups(500))
    client.session.lost()
    world.settle()
    assert len(turns) == 1
    assert len(world.broker.turns) == 0


def test_a_session_that_waits_for_its_turn_is_not_asked_whether_it_lives(world: World) -> None:
    client = world.connect()
    client.session.receive(lookups(500))
    for _ in range(3):
        client.session.check_alive()
    alive: list[bool] = []
    client.session.probe().then(alive.append, never)
    client.session._probe_failed()
    assert alive == [True]
    assert not client.session.closed


def test_small_messages_are_handed_out_some_hundred_at_a_time(world: World) -> None:
    client, turns = world.connect(), watch_turns(world)
    producer = client.producer("t")
    consumers = [client.subscribe("t", f"s{n}", Shared) for n in range(3)]
    for number in range(1500):
        producer.send(str(number))
    turns.clear()
    client.session.receive(b"".join([encode(CommandFlow(c.id, 5000)) for c in consumers]))
    assert len(client.session.outbox) <= OUTBOX_FRAMES_MAX + 2
    world.settle()
    assert max(cost for _, cost, _ in turns) <= TURN_COST + LOOK_COST + COMMAND_COST_MAX
    for consumer in consumers:
        assert len(consumer.payloads()) == 1500


# ---- What waits for a peer ---------------------------------------------------


def test_a_peer_that_does_not_read_gets_so_many_answers_and_no_more(world: World) -> None:
    world.restart(max_outbound_bytes_per_connection=50_000)
    client = world.connect()
    put_schema(client, 10_000)
    client.received.clear()
    client.lag()
    client.say_bytes(schema_requests(100))
    session = client.session
    assert session._input == FULL
    assert 50_000 <= session.waiting_bytes < 50_000 + 2 * 11_000
    assert not client.port.reading
    client.catch_up()
    world.settle()
    assert numbers(client) == list(range(100))
    assert session._input == OPEN


def test_all_peers_share_a_budget_and_who_reads_is_served(world: World) -> None:
    world.restart(max_outbound_bytes=100_000)
    silent = [world.connect() for _ in range(5)]
    put_schema(silent[0], 10_000)
    silent[0].received.clear()
    for client in silent:
        client.lag()
        client.say_bytes(schema_requests(100))
    outbound = world.broker.outbound
    assert outbound.bytes < 100_000 + 5 * 11_000
    assert outbound.bytes == sum([client.session.waiting_bytes for client in silent])
    reader = world.connect()
    reader.say_bytes(lookups(500))
    assert numbers(reader) == list(range(500))
    # Long answers are refused meanwhile.
    reader.say_bytes(schema_requests(1))
    assert reader.received[-1].error_code == ServerError.ServiceNotReady
    assert "try again later" in reader.received[-1].error_message
    for client in silent:
        client.catch_up()
    world.advance(1000)
    for client in silent:
        assert len(client.received) == 100
    assert outbound.bytes == 0
    reader.say_bytes(schema_requests(1))
    assert reader.received[-1].schema.schema_data.startswith(b"{")


def test_messages_come_when_others_have_read_what_filled_the_budget(world: World) -> None:
    world.restart(max_outbound_bytes=20_000)
    silent, client = world.connect(), world.connect()
    put_schema(silent, 15_000)
    producer = client.producer("u")
    consumer = client.subscribe("u", "s", Shared)
    for number in range(20):
        producer.send(str(number) * 500)
    silent.lag()
    silent.say_bytes(schema_requests(1))
    client.session.receive(encode(CommandFlow(consumer.id, 100)))
    # What the socket has not taken, and nobody will be told that it has.
    client.session.take_outbox()
    client.session.have_written(9000)
    assert client.session.waiting_bytes == 9000
    client.port.unwritten = lambda: 0  # type: ignore[method-assign]
    silent.catch_up()
    world.advance(100)
    assert client.session.ready
    assert world.broker.outbound.bytes == 0


def test_a_connection_that_is_gone_gives_back_its_share(world: World) -> None:
    client = world.connect()
    put_schema(client, 10_000)
    client.lag()
    client.say_bytes(schema_requests(3))
    client.session.have_written(100)
    assert world.broker.outbound.bytes > 30_000
    client.session.gone()
    assert world.broker.outbound.bytes == 0


def test_entries_that_are_read_count_for_the_peer_that_they_are_read_for(world: World) -> None:
    world.restart(cache_bytes=0)
    client = world.connect()
    consumers = []
    for number in range(6):
        producer = client.producer(f"t{number}")
        consumers.append(client.subscribe(f"t{number}", "s", Shared))
        for _ in range(4):
            producer.send("x" * 200_000)
    world.hold_reads()
    for consumer in consumers:
        consumer.flow(100)
    # The second one found that there is room; all others wait.
    assert OUTBOX_BYTES_MAX <= client.session.reading_bytes < 2 * OUTBOX_BYTES_MAX
    assert len(world.host.reads) == 2
    world.release_reads()
    assert client.session.reading_bytes == 0
    for consumer in consumers:
        assert len(consumer.payloads()) == 4


def test_many_consumers_of_one_peer_are_served_in_rounds(world: World) -> None:
    client, other = world.connect(), world.connect()
    producer = other.producer("t")
    consumers = [client.subscribe("t", f"s{number}", Shared) for number in range(120)]
    client.lag()
    for consumer in consumers:
        consumer.flow(10)
    for number in range(3):
        producer.send(str(number))
    client.catch_up()
    world.settle()
    for consumer in consumers:
        assert consumer.payloads() == ["0", "1", "2"]


def test_a_bare_peer_makes_long_answers_at_once(world: World) -> None:
    from magnetar.broker.namespace.topic_search import TopicSearch

    names = [f"persistent://{NAMESPACE}/t{number}" for number in range(1000)]
    peer = Peer(world.connect().port, "somebody", world.broker.outbound)
    found: list[FoundTopics] = []
    search = TopicSearch(names, None, 18, 1 << 20)
    search.found.then(found.append, lambda error: pytest.fail(str(error)))
    peer.begin(search)
    search.cancel()
    peer.take_turn(1, 1)
    peer.have_room()
    assert found[0].topics == names


# ---- Lists of topics ---------------------------------------------------------


def test_a_pattern_over_many_topics_takes_several_turns(world: World) -> None:
    names = make_topics(world, 3000)
    client, turns = world.connect(), watch_turns(world)
    client.say_bytes(list_request(1, f"{NAMESPACE}/topic-.*7") + lookups(1))
    answer, lookup = client.received
    assert list(answer.topics) == [name for name in names if name.endswith("7")]
    assert answer.filtered
    assert answer.changed
    assert lookup.request_id == 0
    assert len(turns) > 3
    assert max(cost for _, cost, _ in turns) <= TURN_COST + 2 * LOOK_COST
    # The same again costs nothing, until a topic comes.
    turns.clear()
    client.say_bytes(list_request(2, f"{NAMESPACE}/topic-.*7"))
    assert list(client.received[-1].topics) == list(answer.topics)
    assert len(turns) == 1
    world.connect().producer("topic-new-7")
    client.say_bytes(list_request(3, f"{NAMESPACE}/topic-.*7"))
    assert f"persistent://{NAMESPACE}/topic-new-7" in client.received[-1].topics
    client.say_bytes(list_request(4, f"{NAMESPACE}/topic-.*7", topics_hash="nonsense"))
    assert client.received[-1].changed
    same = client.received[-1].topics_hash
    client.say_bytes(list_request(5, f"{NAMESPACE}/topic-.*7", topics_hash=same))
    assert not client.received[-1].changed
    assert not client.received[-1].topics


def test_a_list_that_fits_into_no_answer_is_refused(world: World) -> None:
    world.restart(message_size_max=2048)
    make_topics(world, 500)
    client = world.connect()
    with refused(ServerError.TooManyRequests, "ask with a pattern"):
        client.request(pb.CommandGetTopicsOfNamespace(namespace=NAMESPACE))
    with refused(ServerError.TooManyRequests, "ask with a pattern"):
        client.request(
            pb.CommandWatchTopicList(namespace=NAMESPACE, watcher_id=1, topics_pattern=".*")
        )
    assert world.broker.watchers.listeners == []
    found = client.request(
        pb.CommandGetTopicsOfNamespace(namespace=NAMESPACE, topics_pattern=".*-0001")
    )
    assert len(found.topics) == 1


def test_a_topic_that_comes_while_a_watched_list_is_made_is_told_of(world: World) -> None:
    make_topics(world, 3000)
    client, other = world.connect(), world.connect()
    client.session.receive(watch_request(1, f"{NAMESPACE}/.*"))
    assert client.session._input == QUEUED
    other.producer("late")
    world.settle()
    success, update = client.received
    assert len(success.topic) == 3000
    assert list(update.new_topics) == [f"persistent://{NAMESPACE}/late"]
    client.received.clear()
    assert (world.broker.watchers.count, world.broker.watchers.listeners) == (1, [])


def test_nobody_listens_for_a_connection_that_ended_meanwhile(world: World) -> None:
    make_topics(world, 3000)
    client = world.connect()
    client.session.receive(watch_request(1, f"{NAMESPACE}/.*"))
    assert len(world.broker.watchers.listeners) == 1
    client.session.lost()
    assert world.broker.watchers.listeners == []
    world.settle()


def test_names_come_in_order_whatever_comes_and_goes() -> None:
    topics = NamespaceTopics()
    names = partial(topics.in_order, "ns", others=False)
    assert names(persistent=True) == []
    assert names(persistent=False) == []
    assert topics.count("ns") == 0
    topics.remove("ns", "a", persistent=True)
    for name in ("c", "a", "b", "a"):
        topics.add("ns", name, persistent=True)
    kept = names(persistent=True)
    assert kept == ["a", "b", "c"]
    assert names(persistent=True) is kept
    topics.remove("ns", "b", persistent=True)
    topics.remove("ns", "b", persistent=True)
    topics.add("ns", "b", persistent=True)
    topics.add("ns", "aa", persistent=True)
    assert names(persistent=True) == ["a", "aa", "b", "c"]
    assert kept == ["a", "b", "c"]
    assert topics.count("ns") == 4
    assert topics.in_order("ns", persistent=True, others=True) == ["a", "aa", "b", "c"]
    topics.add("ns", "0", persistent=False)
    both = topics.in_order("ns", persistent=True, others=True)
    assert both == ["0", "a", "aa", "b", "c"]
    assert topics.in_order("ns", persistent=True, others=True) is both
    assert topics.in_order("ns", persistent=False, others=True) == ["0"]


def test_lists_are_kept_within_a_limit() -> None:
    topics = NamespaceTopics()
    topics.add("ns", "a", persistent=True)
    names = topics.in_order("ns", persistent=True, others=False)
    size = FOUND_BYTES_MAX // 4
    for number in range(5):
        wanted = ("ns", True, False, str(number), 18)
        topics.keep(wanted, FoundTopics(names, ["a"], "", b"x" * size))
        assert topics.find(wanted) is not None
    assert topics.find(("ns", True, False, "0", 18)) is None
    assert topics.find(("ns", True, False, "4", 18)) is not None
    topics.keep(("ns", True, False, "long", 18), FoundTopics(names, [], "", b"x" * (1 << 23)))
    assert topics.find(("ns", True, False, "long", 18)) is None
    topics.add("ns", "b", persistent=True)
    assert topics.find(("ns", True, False, "4", 18)) is None


@pytest.mark.parametrize("pattern", ["", "(", "x" * 60])
def test_a_pattern_that_is_none_leaves_the_choice_to_the_client(world: World, pattern: str) -> None:
    make_topics(world, 3)
    client = world.connect()
    found = client.request(
        pb.CommandGetTopicsOfNamespace(namespace=NAMESPACE, topics_pattern=pattern)
    )
    assert len(found.topics) == 3
    assert not found.filtered


def test_a_watch_that_may_not_be_is_refused_and_nobody_listens(world: World) -> None:
    client = world.connect()
    with pytest.raises(Refused):
        client.request(
            pb.CommandWatchTopicList(namespace=NAMESPACE, watcher_id=1, topics_pattern="(")
        )
    assert world.broker.watchers.listeners == []
