"""Frames that are half said: what all peers together may have of them, and who is read on."""

from support.wire_client import WireClient
from support.world import World

from magnetar.broker.turn.inbound import LITTLE_BYTES, PATIENCE_MS, PROGRESS_BYTES
from magnetar.protocol import CommandSend, MessageMetadata, encode, encode_entry

BUDGET = 400_000
SIZE = 300_000


def small_world() -> World:
    return World(max_inbound_bytes=BUDGET, segment_bytes=4 << 20)


def message(client: WireClient) -> bytes:
    producer = client.producer("t")
    entry = encode_entry(MessageMetadata(f"{client.session.address}", 0, 1).encode(), bytes(SIZE))
    return encode(CommandSend(producer.id, 0, entry))


def say(client: WireClient, data: bytes) -> None:
    """As a socket brings it."""
    for first in range(0, len(data), 50_000):
        client.session.receive(data[first : first + 50_000])
    client.world.settle()


def begun(world: World, count: int) -> tuple[list[WireClient], list[bytes]]:
    """Clients that have said two thirds of a large frame."""
    clients = [world.connect() for _ in range(count)]
    messages = [message(client) for client in clients]
    for client, data in zip(clients, messages, strict=True):
        say(client, data[: SIZE * 2 // 3])
    return clients, messages


def hung_up(clients: list[WireClient]) -> list[bool]:
    return [client.hung_up for client in clients]


def reading(clients: list[WireClient]) -> list[bool]:
    return [client.port.reading for client in clients]


def test_who_has_said_all_holds_nothing() -> None:
    """Thousands of producers that are idle would hold their last large message each."""
    world = small_world()
    client = world.connect()
    data = message(client)
    say(client, data)
    assert client.send_answers() == [(0, None)]
    assert client.session._connection.size == 0
    assert world.broker.inbound.bytes == 0
    client.session.receive(data[:10])
    assert world.broker.inbound.bytes == 10


def test_while_the_budget_is_spent_the_first_goes_on_and_others_wait() -> None:
    world = small_world()
    clients, messages = begun(world, 3)
    assert reading(clients) == [True, False, False]
    # Those that hold little are served.
    other = world.connect()
    assert other.producer("t").send("small") is not None
    for number, client in enumerate(clients):
        say(client, messages[number][SIZE * 2 // 3 :])
        assert client.send_answers() == [(0, None)]
        assert reading(clients) == [True, True, number > 0]
    assert world.broker.inbound.bytes == 0
    assert hung_up(clients) == [False] * 3


def test_a_first_that_stops_is_hung_up_on_if_others_wait_for_it() -> None:
    world = small_world()
    clients, messages = begun(world, 2)
    world.advance(PATIENCE_MS - 1)
    assert hung_up(clients) == [False, False]
    world.advance(1)
    assert hung_up(clients) == [True, False]
    assert "while others wait for its memory" in world.host.warnings[-1]
    clients[0].drop()
    assert reading(clients[1:]) == [True]
    say(clients[1], messages[1][SIZE * 2 // 3 :])
    assert clients[1].send_answers() == [(0, None)]


def test_a_first_that_is_slow_but_gets_on_is_waited_for() -> None:
    world = small_world()
    clients, messages = begun(world, 2)
    for first in range(SIZE * 2 // 3, len(messages[0]), PROGRESS_BYTES):
        world.advance(PATIENCE_MS - 1)
        say(clients[0], messages[0][first : first + PROGRESS_BYTES])
    assert clients[0].send_answers() == [(0, None)]
    assert reading(clients) == [True, True]


def test_a_first_whose_frames_follow_each_other_is_not_hung_up_on() -> None:
    """It never holds little, and less each time than before: but it gets on."""
    world = small_world()
    clients, messages = begun(world, 3)
    stream = messages[0][SIZE * 2 // 3 :] + messages[0] + messages[0]
    for first in range(0, len(stream), SIZE // 2):
        world.advance(PATIENCE_MS - 1)
        clients[0].session.receive(stream[first : first + SIZE // 2])
        world.settle()
    assert hung_up(clients) == [False] * 3
    assert [error for _, error in clients[0].send_answers()] == [None] * 3


def test_a_slow_peer_that_nobody_waits_for_has_all_the_time() -> None:
    world = small_world()
    (client,), (data,) = begun(world, 1)
    world.advance(10 * PATIENCE_MS)
    say(client, data[SIZE * 2 // 3 :])
    assert client.send_answers() == [(0, None)]


def test_a_first_that_waits_for_the_disk_is_not_hung_up_on() -> None:
    world = small_world()
    clients, messages = begun(world, 2)
    clients[0].session.pause()
    world.advance(10 * PATIENCE_MS)
    assert hung_up(clients) == [False, False]
    clients[0].session.resume()
    say(clients[0], messages[0][SIZE * 2 // 3 :])
    assert reading(clients) == [True, True]


def test_who_says_more_when_the_budget_is_spent_twice_is_hung_up_on() -> None:
    world = small_world()
    clients, _ = begun(world, 6)
    assert hung_up(clients) == [False] * 3 + [True] * 3
    assert world.broker.inbound.bytes < 2 * BUDGET + 3 * 50_000
    for client in clients:
        client.drop()
    assert world.broker.inbound.bytes == 0


def test_frames_of_a_little_are_read_whatever_others_hold() -> None:
    world = small_world()
    begun(world, 3)
    many = [world.connect() for _ in range(20)]
    for client in many:
        client.session.receive((LITTLE_BYTES * 2).to_bytes(4, "big") + bytes(LITTLE_BYTES // 2))
    assert reading(many) == [True] * 20
