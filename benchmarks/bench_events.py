"""The longest events of a broker in which a lot is to be done for one peer's sake (I10).

    make bench                                      compiled
    .venv/bin/python benchmarks/bench_events.py     interpreted
    ... bench_events.py --messages 5000 --crowd 500 a short form

The broker runs in this thread, on a disk in memory. An event is what the loop does before others
have their turn: a callback, a command, the end of a write. Of each case the longest event, its
CPU time, and all events together.

    leave       a consumer that holds all messages closes; another one is there
    drop        the same, by the end of its connection
    last        the same, and nobody else is there
    redeliver   a consumer that holds all messages asks for them anew
    nack        the same, but it names them, in any order
    chunks      the same of messages in chunks, of which it names the last ones
    ack         a consumer that holds all messages acks most of them in one command, in any order
    free        one command acks all of hundreds of enormous batches of which a part was acked
    clear       an operator clears the backlog that a consumer holds
    pass        the same, and all of it was given back: it waits, and was counted
    slots       a consumer joins while as many keys wait, and gets some of them
    skip        an operator skips by id what two consumers hold
    seek        one of a crowd of consumers seeks
    unload      a topic with a crowd of consumers is unloaded
    partitions  a topic of a thousand partitions is created
    fan         a hundred subscriptions, each with a consumer that has room, get what comes at once
    group       thousands of messages of a hundred publishers become durable
    last        the last message is asked for, behind thousands of chunks that came to nothing
    load        a topic with a crowd of subscriptions is asked for, which is not in memory
    end         a transaction ends with as many acks and topics as it may have
    compact     a topic of as many keys is compacted
    policies    a policy of a namespace changes, and so it does for thousands of topics
    throttled   a crowd of producers of one topic is held up by its rate, and then it is lifted
    metered     the same of consumers, each of a subscription of its own
    grouped     the same of producers, each of a topic of its own, and the rate of a resource group
    ticks       rates of thousands of topics are reckoned, and dispatch rates that follow them
    tick        the same of a topic with thousands of subscriptions
    log-ins     a crowd waits for the keys of one issuer, which do not come, or for one password
    longest     commands as long as a frame can be: ids, ranges, texts, properties, tiny messages
"""

import argparse
import base64
import gc
import json
import random
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from timing import print_build, print_table

HERE: Final = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

from support.wire_client import (  # noqa: E402
    EARLIEST_ID,
    Failover,
    KeyShared,
    Shared,
    WireClient,
    WireConsumer,
    WireProducer,
)
from support.wire_transaction import ABORT, COMMIT, WireTransaction  # noqa: E402
from support.world import World  # noqa: E402

from magnetar.broker.auth.issuer_keys import KeyTimes  # noqa: E402
from magnetar.broker.auth.issuers import Issuers  # noqa: E402
from magnetar.broker.auth.jwks import issuer_error  # noqa: E402
from magnetar.broker.auth.log_ins import LogIns  # noqa: E402
from magnetar.broker.auth.password import read_passwords  # noqa: E402
from magnetar.broker.auth.roles import Authentication  # noqa: E402
from magnetar.broker.auth.token import TokenKey, TokenRules, load_library  # noqa: E402
from magnetar.broker.peer import unsigned  # noqa: E402
from magnetar.broker.rate.resource_group import ResourceGroup  # noqa: E402
from magnetar.broker.shell.garbage import THRESHOLDS  # noqa: E402
from magnetar.broker.topic.persistent_topic import PersistentTopic  # noqa: E402
from magnetar.broker.topic.skip.skip import PIECE_IDS, Skip  # noqa: E402
from magnetar.model import TopicName  # noqa: E402
from magnetar.model.message_id_data import MessageIdData  # noqa: E402
from magnetar.protocol import (  # noqa: E402
    CommandAck,
    CommandFlow,
    CommandSend,
    CommandSendReceipt,
    encode,
    encode_entry,
    message_id_to_pb,
)
from magnetar.protocol import pulsar_pb2 as pb  # noqa: E402
from magnetar.wire.ack_set import BATCH_SIZE_MAX  # noqa: E402

TARGET: Final = "10 ms"
PARTITIONS: Final = 1000
KEYS: Final = 5000
PEERS: Final = 100
CHUNKS: Final = 10
# What one transaction may have: about a thousand topics, and ten thousand acks.
ENLISTED: Final = 900
ACKS: Final = 9000
ACKS_AT_ONCE: Final = 100
# As many as one subscription may have partly acked by default, of a million messages each.
ENORMOUS: Final = 440
# The fields of an id, or of a pair, and itself: so many make the longest command (FIELDS_MAX).
LONGEST: Final = 80_000
# What each of a crowd publishes or gets, at a rate for all of them, and for how long.
BEYOND: Final = 3
RATE: Final = 1000
THROTTLED_MS: Final = 3000
ISSUER: Final = "https://issuer"
LEDGER: Final = 392_940_748_801_933
TYPES: Final[dict[str, int]] = {"Shared": Shared, "Key_Shared": KeyShared, "Failover": Failover}


class TimedWorld(World):
    """A world that measures its events."""

    def __init__(self, **options: Any) -> None:
        self.longest = 0.0
        self.total = 0.0
        self.events = 0
        super().__init__(
            **options,
            max_unacked_per_consumer=0,
            max_unacked_per_subscription=0,
            max_topics_per_namespace=0,
            max_ack_state_bytes=0,
            transactions=True,
        )

    def event(self, callback: Callable[[], Any]) -> Any:
        began = time.thread_time()
        result = callback()
        took = time.thread_time() - began
        self.longest = max(self.longest, took)
        self.total += took
        self.events += 1
        return result

    def hear(self, client: WireClient, command: Any) -> None:
        """A client says something, and no more than that is done."""
        data = encode(command)
        self.event(lambda: client.session.receive(data))

    def begin(self) -> None:
        # What the clients here have received is not the broker's to look through for garbage.
        gc.collect()
        gc.freeze()
        # As in a broker that serves: only what is new is looked through (`garbage.py`).
        gc.set_threshold(*THRESHOLDS)
        self.longest, self.total, self.events = 0.0, 0.0, 0

    def let_pass(self, ms: int) -> None:
        """Time passes, and what falls due is done."""
        end_ms = self.host.now + ms
        while self.host.timers and self.host.timers[0][0] <= end_ms:
            self.host.now = max(self.host.now, self.host.timers[0][0])
            self.settle()
        self.host.now = end_ms

    def settle(self) -> None:
        """Clients do not read meanwhile: that is not the broker's work."""
        while True:
            while self.event(self._turn):
                pass
            if sum([client.collect() for client in self.clients]) == 0:
                return

    def _turn(self) -> bool:
        host = self.host
        if host.soon:
            host.soon.popleft()()
        elif (callback := host.due()) is not None:
            callback()
        elif host.reads:
            host.reads.popleft()()
        else:
            return host.kicked and self._write()
        return True


class Case:
    """A topic with messages, and consumers of its one subscription."""

    def __init__(self, type: int) -> None:
        self.use(TimedWorld())
        self.type = type
        self.ids: list[Any] = []

    def use(self, world: TimedWorld) -> None:
        """Another world, for a case that wants other settings."""
        self.world = world

    def subscribe(self, client: WireClient | None = None) -> WireConsumer:
        client = client or self.world.connect()
        return client.subscribe("t", "s", self.type, initialPosition=1)

    def publish(self, messages: int, keys: int = KEYS) -> None:
        producer = self.world.connect().producer("t")
        for number in range(messages):
            producer.publish("x" * 10, partition_key=f"k{number % keys}")

    def crowd(self, count: int) -> list[WireConsumer]:
        clients = [self.world.connect() for _ in range(10)]
        consumers = [self.subscribe(clients[number % 10]) for number in range(count)]
        return consumers


def hold(consumer: WireConsumer, messages: int) -> None:
    consumer.client.say(CommandFlow(consumer.id, messages))
    consumer.client.received.clear()


def leaves(case: Case, messages: int, *, last: bool, dropped: bool) -> None:
    consumer = case.subscribe()
    case.publish(messages)
    hold(consumer, messages)
    if not last:
        case.subscribe()
    world = case.world
    subscription = world.subscription("t", "s")
    assert subscription.dispatcher is not None
    assert subscription.dispatcher.unacked_count() == messages
    world.begin()
    if dropped:
        world.event(consumer.client.session.lost)
    else:
        command = pb.CommandCloseConsumer(consumer_id=consumer.id, request_id=10**6)
        world.hear(consumer.client, command)
    world.settle()
    assert subscription.dispatcher.unacked_count() == 0


def redeliver(case: Case, messages: int, *, named: bool) -> None:
    consumer = case.subscribe()
    case.publish(messages)
    case.subscribe()
    consumer.client.say(CommandFlow(consumer.id, messages))
    ids = [
        message_id_to_pb(one.message_id)
        for one in consumer.client.received
        if hasattr(one, "message_id")
    ]
    consumer.client.received.clear()
    random.Random(1).shuffle(ids)
    say_redeliver(case, consumer, ids if named else [])


def say_redeliver(case: Case, consumer: WireConsumer, ids: list[Any]) -> None:
    command = pb.CommandRedeliverUnacknowledgedMessages(
        consumer_id=unsigned(consumer.id), message_ids=ids
    )
    case.world.begin()
    case.world.hear(consumer.client, command)
    case.world.settle()


def redeliver_chunks(case: Case, messages: int) -> None:
    consumer = case.subscribe()
    producer = case.world.connect().producer("t")
    ids = []
    for number in range(messages // CHUNKS):
        for chunk in range(CHUNKS):
            ids.append(producer.send_chunk(f"u{number}", chunk, CHUNKS, "x"))
    hold(consumer, messages)
    last = [message_id_to_pb(id) for id in ids[CHUNKS - 1 :: CHUNKS]]
    say_redeliver(case, consumer, last)


def ack(case: Case, messages: int) -> None:
    consumer = case.subscribe()
    case.publish(messages)
    consumer.client.say(CommandFlow(consumer.id, messages))
    ids = [one.message_id for one in consumer.client.received if hasattr(one, "message_id")]
    consumer.client.received.clear()
    random.Random(1).shuffle(ids)
    world = case.world
    world.begin()
    named = ids[: messages * 9 // 10]
    world.hear(consumer.client, CommandAck(consumer.id, 0, named, 10**6))
    world.settle()
    assert world.subscription("t", "s").cursor.unacked_entries() == messages - len(named)


def free(case: Case) -> None:
    world = case.world
    consumer = case.subscribe()
    topic = world.topic("t")
    assert isinstance(topic, PersistentTopic)
    ids: list[MessageIdData] = []
    for _ in range(ENORMOUS):
        at = world.store.append(topic.id, b"entry", batch_size=BATCH_SIZE_MAX, publish_time_ms=1)
        have_stored = partial(topic.have_stored, at, BATCH_SIZE_MAX, 5)
        stored = topic.wait_for(world.store.ticket_last)
        stored.when_done(lambda error, go_on=have_stored: go_on())  # type: ignore[misc]
        ids.append(MessageIdData(at.ledger_id, at.entry_id))
    world.host.kick()
    world.settle()
    for first in range(0, ENORMOUS, 20):
        some = ids[first : first + 20]
        parts = [MessageIdData(id.ledger_id, id.entry_id, -1, -1, 2) for id in some]
        consumer.client.say(CommandAck(consumer.id, 0, parts, first))
    cursor = world.subscription("t", "s").cursor
    assert cursor.partial_entries() == ENORMOUS
    world.begin()
    world.hear(consumer.client, CommandAck(consumer.id, 0, ids, 10**6))
    world.settle()
    assert cursor.unacked_entries() == 0


def slots(case: Case, messages: int) -> None:
    one = case.subscribe()
    case.publish(messages, keys=messages)
    hold(one, messages)
    one.client.say(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=unsigned(one.id)))
    world = case.world
    client = world.connect()
    world.begin()
    subscribe = pb.CommandSubscribe(topic="t", subscription="s", consumer_id=7, request_id=7)
    subscribe.subType = int(KeyShared)
    world.hear(client, subscribe)
    world.settle()
    world.hear(client, CommandFlow(7, 1000))
    world.settle()
    assert world.subscription("t", "s").consumers[1].unacked == 1000


def policies(case: Case, topics: int) -> None:
    world = case.world
    for number in range(topics):
        world.broker.topic(TopicName.parse(f"t{number}"), may_create=True)
        if number % 1000 == 0:
            world.settle()
    world.settle()
    world.begin()
    promise = world.event(lambda: world.broker.policies_changed("public/default"))
    world.settle()
    assert promise.done


def longest_commands() -> dict[str, bytes]:
    """Each as long as the decoder lets it be."""
    ids = [pb.MessageIdData(ledgerId=LEDGER, entryId=number) for number in range(LONGEST)]
    plain = [MessageIdData(LEDGER, number) for number in range(LONGEST)]
    subscribe: Any = {"topic": "t", "subscription": "s", "consumer_id": 9, "request_id": 9}
    ranges = pb.KeySharedMeta(keySharedMode=1)
    ranges.hashRanges.extend([pb.IntRange(start=1, end=1)] * LONGEST)
    pairs = [pb.KeyValue(key="", value="")] * LONGEST
    # A message without a payload: the size of its metadata, and its payload_size of 0.
    message = b"\x00\x00\x00\x02\x18\x00"
    count = min(BATCH_SIZE_MAX, 5_000_000 // len(message))
    dense = metadata_of(num_messages_in_batch=count)
    wide = metadata_of(properties=pairs[: LONGEST - 10])
    redeliver = pb.CommandRedeliverUnacknowledgedMessages
    return {
        "REDELIVER": encode(redeliver(consumer_id=1, message_ids=ids)),
        "ACK": encode(CommandAck(1, 0, plain, 9)),
        "WITHDRAWN": encode(pb.CommandWithdrawn(consumer_id=1, request_id=1, given_back=ids)),
        "ranges": encode(pb.CommandSubscribe(**subscribe, subType=3, keySharedMeta=ranges)),
        "metadata": encode(pb.CommandSubscribe(**subscribe, subType=1, metadata=pairs)),
        "batch": encode(
            CommandSend(1, 0, encode_entry(dense, message * count), num_messages=count)
        ),
        "properties": encode(CommandSend(1, 0, encode_entry(wide, b""))),
    }


def metadata_of(**fields: Any) -> bytes:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, **fields)
    return metadata.SerializeToString()


def longest(case: Case, name: str, data: bytes) -> None:
    client = case.world.connect()
    assert (case.subscribe(client).id, client.producer("t").id) == (1, 1)
    world = case.world
    world.begin()
    world.event(lambda: client.session.receive(data))
    world.settle()
    if name in ("batch", "properties"):
        assert client.take(CommandSendReceipt), client.received


def clear(case: Case, messages: int, *, given_back: bool = False) -> None:
    consumer = case.subscribe()
    case.publish(messages)
    hold(consumer, messages)
    if given_back:
        command = pb.CommandRedeliverUnacknowledgedMessages(consumer_id=unsigned(consumer.id))
        consumer.client.say(command)
    world = case.world
    world.begin()
    world.event(lambda: world.subscription("t", "s").clear())
    world.settle()
    assert world.subscription("t", "s").cursor.unacked_entries() == 0


def skip(case: Case, messages: int) -> None:
    one, two = case.subscribe(), case.subscribe()
    case.publish(messages)
    for _ in range(messages // PIECE_IDS + 1):
        for consumer in (one, two):
            consumer.client.say(CommandFlow(consumer.id, PIECE_IDS // 2))
    got = [*one.client.received, *two.client.received]
    ids = sorted(
        [m.message_id for m in got if hasattr(m, "message_id")],
        key=lambda i: i.entry_id * 7919 % 10007,
    )
    assert len(ids) == messages, len(ids)
    world = case.world
    world.begin()
    made = world.event(lambda: Skip([world.topic("t")], "s", ids, recall=True))
    while world.event(made.plan_piece):
        pass
    world.event(made.carry_out)
    world.settle()
    world.event(lambda: made.recalled(1000))
    world.settle()


def seek(case: Case, crowd: int) -> None:
    consumers = case.crowd(crowd)
    case.publish(10)
    world = case.world
    consumer = consumers[0]
    command = consumer.seek_command(EARLIEST_ID)
    command.request_id = 10**6
    world.begin()
    world.hear(consumer.client, command)
    world.settle()
    assert not world.subscription("t", "s").consumers


def unload(case: Case, crowd: int) -> None:
    case.crowd(crowd)
    case.publish(10)
    world = case.world
    world.begin()
    promise = world.event(lambda: world.broker.unload(TopicName.parse("t")))
    world.settle()
    assert promise.done


def load(case: Case, crowd: int) -> None:
    world = case.world
    client = world.connect()
    for number in range(crowd):
        client.subscribe("t", f"s{number}", case.type)
    world.restart()
    command = pb.CommandProducer(topic="t", producer_id=1, request_id=10**6)
    client = world.connect()
    world.begin()
    world.hear(client, command)
    world.settle()
    assert client.take(pb.CommandProducerSuccess)


def end(case: Case, acks: int, *, action: int) -> None:
    world = case.world
    consumer = case.subscribe()
    case.publish(acks)
    client = consumer.client
    producers = [client.producer(f"t{number}") for number in range(ENLISTED)]
    client.say(CommandFlow(consumer.id, acks))
    ids = [one.message_id for one in client.received if hasattr(one, "message_id")]
    client.received.clear()
    transaction = WireTransaction(client)
    for producer in producers:
        transaction.send(producer, "x")
    for first in range(0, len(ids), ACKS_AT_ONCE):
        transaction.acked(consumer, *ids[first : first + ACKS_AT_ONCE])
    command = transaction.end_command(action)
    command.request_id = 10**6
    world.begin()
    world.hear(client, command)
    world.settle()
    (answer,) = client.take(pb.CommandEndTxnResponse)
    assert not answer.HasField("error")


def compact(case: Case, keys: int) -> None:
    case.publish(keys, keys)
    world = case.world
    topic = world.topic("t")
    world.begin()
    world.event(topic.compaction.trigger)
    world.settle()
    view = topic.compaction.view
    assert view is not None
    assert view.facts.messages == keys


def partitions(case: Case, count: int) -> None:
    world = case.world
    world.begin()
    world.event(lambda: world.broker.create_partitioned(TopicName.parse("p"), count))
    world.settle()


def fan(case: Case, messages: int) -> None:
    world = case.world
    consumers = [world.connect().subscribe("t", f"s{n}", case.type) for n in range(PEERS)]
    for consumer in consumers:
        hold(consumer, messages)
    producer = world.connect().producer("t")
    world.begin()
    world.event(lambda: producer.client.session.receive(sends(producer.id, messages)))
    world.settle()
    for consumer in consumers:
        assert len(consumer.payloads()) == messages


def group(case: Case, messages: int) -> None:
    world = case.world
    producers = [world.connect().producer(f"t{number}") for number in range(PEERS)]
    world.begin()
    for producer in producers:
        data = sends(producer.id, messages)
        world.event(partial(producer.client.session.receive, data))
    world.settle()
    for producer in producers:
        assert len(producer.client.take(CommandSendReceipt)) == messages


def sends(producer_id: int, count: int) -> bytes:
    entry = encode_entry(metadata_of(), b"x" * 10)
    return b"".join([encode(CommandSend(producer_id, n, entry)) for n in range(count)])


def last_id(case: Case, chunks: int) -> None:
    consumer = case.subscribe()
    producer = case.world.connect().producer("t")
    for number in range(chunks):
        producer.send_chunk(f"u{number}", 1, 2, "x")
    command = pb.CommandGetLastMessageId(consumer_id=consumer.id, request_id=10**6)
    case.world.begin()
    case.world.hear(consumer.client, command)
    case.world.settle()
    assert consumer.client.take(pb.CommandGetLastMessageIdResponse)


def throttled(case: Case, crowd: int) -> None:
    world = case.world
    producers = [world.connect().producer("t") for _ in range(crowd)]
    change_policy(world, "publishRate", {"publishThrottlingRateInMsg": RATE})
    publish_all(world, producers)
    world.let_pass(THROTTLED_MS)
    assert world.topic("t").rates.publishes_held > 0
    change_policy(world, "publishRate", {"publishThrottlingRateInMsg": -1})
    assert_answered(world, producers)


def grouped(case: Case, crowd: int) -> None:
    world = case.world
    producers = [world.connect().producer(f"t{number}") for number in range(crowd)]
    change_group(world, {"publishRateInMsgs": RATE})
    world.broker.directory.namespaces["public/default"].resource_group = "g"
    world.broker.policies_changed("public/default")
    world.settle()
    publish_all(world, producers)
    world.let_pass(THROTTLED_MS)
    change_group(world, {})
    assert_answered(world, producers)


def change_policy(world: TimedWorld, name: str, value: object) -> None:
    directory = world.broker.directory
    policies = directory.namespaces["public/default"]
    policies.set_json(name, value)
    directory.put_namespace("public/default", policies)
    world.event(lambda: world.broker.policies_changed("public/default"))
    world.settle()


def change_group(world: TimedWorld, numbers: dict[str, int]) -> None:
    world.broker.directory.put_group("g", ResourceGroup(numbers))
    world.event(lambda: world.broker.group_changed("g"))
    world.settle()


def publish_all(world: TimedWorld, producers: list[WireProducer]) -> None:
    """At once, and more than may go through for a while."""
    said = [(one.client.session, sends(one.id, BEYOND)) for one in producers]
    world.begin()
    for session, data in said:
        world.event(partial(session.receive, data))
    world.settle()


def assert_answered(world: TimedWorld, producers: list[WireProducer]) -> None:
    for producer in producers:
        assert len(producer.client.take(CommandSendReceipt)) == BEYOND


def metered(case: Case, crowd: int) -> None:
    case.use(TimedWorld(dispatch_rate_without_backlog=True))
    world = case.world
    clients = [world.connect() for _ in range(PEERS)]
    consumers = [clients[n % PEERS].subscribe("t", f"s{n}", case.type) for n in range(crowd)]
    for consumer in consumers:
        hold(consumer, BEYOND)
    change_policy(world, "dispatchRate", {"dispatchThrottlingRateInMsg": RATE})
    producer = world.connect().producer("t")
    data = sends(producer.id, BEYOND)
    world.begin()
    world.event(lambda: producer.client.session.receive(data))
    world.settle()
    world.let_pass(THROTTLED_MS)
    assert any(one.held.messages["topic"] for one in world.topic("t").subscriptions.values())
    change_policy(world, "dispatchRate", {"dispatchThrottlingRateInMsg": -1})
    for consumer in consumers:
        assert len(consumer.payloads()) == BEYOND


def ticks(case: Case, topics: int, subscriptions: int) -> None:
    world = case.world
    clients = [world.connect() for _ in range(PEERS)]
    for number in range(topics * subscriptions):
        client = clients[number % PEERS]
        client.subscribe(f"t{number % topics}", f"s{number}", case.type)
        if number < topics:
            client.producer(f"t{number}").publish("x")
    rate = {"dispatchThrottlingRateInMsg": 10, "relativeToPublishRate": True}
    for name in ("dispatchRate", "subscriptionDispatchRate"):
        change_policy(world, name, rate)
    world.begin()
    world.event(world.broker.upkeep.tick_rates)
    world.settle()
    for name in ("dispatchRate", "subscriptionDispatchRate"):
        change_policy(world, name, rate | {"dispatchThrottlingRateInMsg": 20})


def log_ins(case: Case, crowd: int, proof: dict[str, Any]) -> None:
    case.use(TimedWorld(authentication=door()))
    world = case.world
    world.hold_reads()
    clients = [world.connect(greet=False) for _ in range(crowd)]
    hello = encode(pb.CommandConnect(client_version="c", protocol_version=21, **proof))
    world.begin()
    for client in clients:
        world.event(partial(client.session.receive, hello))
    world.settle()
    world.release_reads()
    for client in clients:
        assert client.take(pb.CommandError)


def door() -> Authentication:
    """Of an issuer that does not answer, and a user whose password nobody guesses."""

    def no_keys(issuer: str) -> dict[str, TokenKey]:
        raise issuer_error("it does not answer")

    load_library()
    times = KeyTimes(refresh_ms=60_000, expire_ms=60_000, unknown_key_ms=60_000)
    rules = TokenRules(audiences=("a",), of_issuer=True)
    users = read_passwords("f", "me:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=")
    return Authentication(
        None,
        TokenRules(),
        issuers=Issuers((ISSUER,), rules, no_keys, times),
        log_ins=LogIns(users, bytes(32)),
    )


def proofs() -> dict[str, dict[str, Any]]:
    head, claims = ({"alg": "RS256", "kid": "k"}, {"iss": ISSUER, "sub": "me", "exp": 2**40})
    parts = [json.dumps(head).encode(), json.dumps(claims).encode(), bytes(256)]
    token = b".".join([base64.urlsafe_b64encode(part).rstrip(b"=") for part in parts])
    return {
        "token": {"auth_method_name": "token", "auth_data": token},
        "password": {"auth_method_name": "basic", "auth_data": b"me:wrong"},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=50_000)
    parser.add_argument("--skips", type=int, default=20_000)
    parser.add_argument("--crowd", type=int, default=5000)
    parser.add_argument("--only", default="", help="cases with this in their names")
    options = parser.parse_args()
    shared: dict[str, int] = {"Shared": Shared, "Key_Shared": KeyShared}
    n, crowd = options.messages, options.crowd
    cases: list[tuple[str, int, Callable[[Case], None]]] = []
    for name, type in shared.items():
        cases += [
            (f"leave {name}", type, lambda c: leaves(c, n, last=False, dropped=False)),
            (f"drop {name}", type, lambda c: leaves(c, n, last=False, dropped=True)),
            (f"last {name}", type, lambda c: leaves(c, n, last=True, dropped=False)),
            (f"redeliver {name}", type, lambda c: redeliver(c, n, named=False)),
            (f"nack {name}", type, lambda c: redeliver(c, n, named=True)),
            (f"chunks {name}", type, lambda c: redeliver_chunks(c, n)),
            (f"ack {name}", type, lambda c: ack(c, n)),
            (f"free {name}", type, free),
            (f"clear {name}", type, lambda c: clear(c, n)),
            (f"pass {name}", type, lambda c: clear(c, n, given_back=True)),
            (f"skip {name}", type, lambda c: skip(c, options.skips)),
        ]
    for name, type in TYPES.items():
        cases += [
            (f"seek {name}", type, lambda c: seek(c, crowd)),
            (f"unload {name}", type, lambda c: unload(c, crowd)),
        ]
    cases += [
        ("slots", KeyShared, lambda c: slots(c, n)),
        ("load", Shared, lambda c: load(c, crowd)),
        ("end commit", Shared, lambda c: end(c, min(n, ACKS), action=COMMIT)),
        ("end abort", Shared, lambda c: end(c, min(n, ACKS), action=ABORT)),
        ("compact", Shared, lambda c: compact(c, n)),
        ("partitions", Shared, lambda c: partitions(c, PARTITIONS)),
        ("policies", Shared, lambda c: policies(c, crowd)),
        ("fan Shared", Shared, lambda c: fan(c, crowd // 10)),
        ("fan Failover", Failover, lambda c: fan(c, crowd // 10)),
        ("group", Shared, lambda c: group(c, crowd // 5)),
        ("last id", Shared, lambda c: last_id(c, crowd)),
    ]
    cases += [
        ("throttled", Shared, lambda c: throttled(c, crowd)),
        ("metered", Shared, lambda c: metered(c, crowd)),
        ("grouped", Shared, lambda c: grouped(c, crowd)),
        ("ticks", Shared, lambda c: ticks(c, crowd, 1)),
        ("tick of one", Shared, lambda c: ticks(c, 1, crowd)),
    ]
    for name, proof in proofs().items():
        cases.append((f"log-ins {name}", Shared, partial(log_ins, crowd=crowd, proof=proof)))
    for name, data in longest_commands().items():
        cases.append((f"longest {name}", Shared, partial(longest, name=name, data=data)))
    print_build()
    rows: list[tuple[str, ...]] = []
    for title, type, run in cases:
        if options.only in title:
            case = Case(type)
            run(case)
            world = case.world
            rows.append(
                (
                    title,
                    f"{world.longest * 1000:.1f} ms",
                    TARGET,
                    f"{world.events}",
                    f"{world.total * 1000:.0f} ms",
                )
            )
            world.close()
    print_table("Longest events", ("case", "longest event", "aim", "events", "all"), rows)


if __name__ == "__main__":
    main()
