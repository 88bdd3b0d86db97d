"""Resource groups: namespaces that share a rate."""

from support.wire_client import WireClient, WireConsumer
from support.world import World

from magnetar.broker.policy.policy import Policies
from magnetar.broker.rate.resource_group import ResourceGroup
from magnetar.protocol import CommandSendReceipt

NAMESPACES = ("public/one", "public/two")
FREE = "public/free"


def world_of_groups() -> World:
    world = World()
    for namespace in (*NAMESPACES, FREE):
        world.broker.directory.put_namespace(namespace, Policies())
    return world


def put_group(world: World, **numbers: int) -> None:
    world.broker.directory.put_group("g", ResourceGroup(numbers))
    world.done(world.broker.group_changed("g"))


def join(world: World, namespace: str, group: str) -> None:
    policies = Policies()
    policies.resource_group = group
    world.broker.directory.put_namespace(namespace, policies)
    world.done(world.broker.policies_changed(namespace))


def publish(client: WireClient, namespace: str, count: int) -> None:
    producer = client.producer(f"persistent://{namespace}/t")
    for number in range(count):
        producer.publish(f"{number}")


def receipts(client: WireClient) -> int:
    return len(client.take(CommandSendReceipt))


def subscribe(world: World, namespace: str, backlog: int) -> WireConsumer:
    topic = f"persistent://{namespace}/t"
    consumer = world.connect().subscribe(topic)
    publish(world.connect(), namespace, backlog)
    return consumer


def test_namespaces_of_a_group_share_its_publish_rate_and_others_do_not() -> None:
    world = world_of_groups()
    put_group(world, publishRateInMsgs=10)
    for namespace in NAMESPACES:
        join(world, namespace, "g")
    clients = [world.connect() for _ in range(3)]
    for client, namespace in zip(clients, (*NAMESPACES, FREE), strict=True):
        publish(client, namespace, 100)
    one, two, free = (receipts(client) for client in clients)
    assert one + two <= 11
    assert free == 100
    world.advance(10_000)
    one, two = receipts(clients[0]), receipts(clients[1])
    assert 98 <= one + two <= 102
    assert abs(one - two) <= 1
    world.close()


def test_namespaces_of_a_group_share_its_dispatch_rate() -> None:
    world = world_of_groups()
    put_group(world, dispatchRateInMsgs=10)
    for namespace in NAMESPACES:
        join(world, namespace, "g")
    consumers = [subscribe(world, namespace, 100) for namespace in NAMESPACES]
    for consumer in consumers:
        consumer.flow(1000)
    world.advance(9000)
    counts = [len(consumer.payloads()) for consumer in consumers]
    assert sum(counts) == 100
    assert min(counts) > 30
    subscription = world.subscription("persistent://public/one/t", "sub")
    assert subscription.held.messages["resourceGroup"] > 0
    world.close()


def test_a_group_that_changes_is_followed_at_once() -> None:
    world = world_of_groups()
    put_group(world)
    join(world, NAMESPACES[0], "g")
    consumer = subscribe(world, NAMESPACES[0], 50)
    put_group(world, dispatchRateInMsgs=1, publishRateInMsgs=1)
    consumer.flow(1000)
    assert len(consumer.payloads()) == 1
    client = world.connect()
    publish(client, NAMESPACES[0], 5)
    assert receipts(client) == 1
    put_group(world)
    assert len(consumer.payloads()) == 54
    assert receipts(client) == 4
    world.close()


def test_a_namespace_that_leaves_its_group_does_not_wait_for_it_any_more() -> None:
    world = world_of_groups()
    put_group(world, dispatchRateInMsgs=1, publishRateInMsgs=1)
    join(world, NAMESPACES[0], "g")
    client = world.connect()
    publish(client, NAMESPACES[0], 5)
    assert receipts(client) == 1
    consumer = world.connect().subscribe(f"persistent://{NAMESPACES[0]}/t", initialPosition=1)
    consumer.flow(1000)
    join(world, NAMESPACES[0], "")
    assert receipts(client) == 4
    assert len(consumer.payloads()) == 5
    world.close()


def test_groups_and_who_is_in_them_outlive_a_restart() -> None:
    world = world_of_groups()
    put_group(world, publishRateInMsgs=10)
    join(world, NAMESPACES[0], "g")
    world.restart()
    client = world.connect()
    publish(client, NAMESPACES[0], 30)
    assert receipts(client) == 10
    world.close()
