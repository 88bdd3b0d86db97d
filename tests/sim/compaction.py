"""A broker whose topics are compacted all the time, and what readers of the views must see.

Programs publish and consume as in any life; beside them somebody has topics compacted, and
somebody reads their views. When nobody publishes any more, all is compacted once more, and the view
of each topic must have the last message of every key, and nothing else.
"""

import asyncio
from functools import partial

from sim.scenario import Scenario
from sim.workload import CLIENT, Book

from magnetar.broker.promise import Promise, kept
from magnetar.broker.shell.server import BrokerServer
from magnetar.broker.topic.compaction.topic_compaction import CompactionStatus
from magnetar.client.door.aio import Client
from magnetar.errors import MagnetarError, Timeout
from magnetar.model import MessageId, TopicName
from magnetar.testing.checker.history import Place, Sent, Stored, place_of
from magnetar.testing.sim.simulation import Simulation

# Of virtual time.
PATIENCE_S = 400
READ_MS = 60_000
LOOK_MS = 500
# Nothing goes from a topic before it is in its view.
THRESHOLD = ("compaction_threshold_bytes", 1 << 40)
# A message of a view: where it is, its key and its payload.
Seen = tuple[Place, str, bytes]


async def compact_some(simulation: Simulation, book: Book, scenario: Scenario) -> None:
    """An operator who has topics compacted, whatever else goes on."""
    random = simulation.loop.random_for("compactor")
    while book.publishing:
        await asyncio.sleep(random.random() * 1.5)
        topic = random.choice(scenario.topics)
        try:
            await simulation.broker.ask(partial(_begin, topic=topic))
        except MagnetarError:
            continue  # the broker is down, or the topic is just being unloaded


def _begin(server: BrokerServer, topic: str) -> Promise[CompactionStatus]:
    """Begins a compaction unless one is under way; how the last one stood."""
    compaction = server.broker.find(TopicName.parse(topic)).compaction
    before = compaction.status
    if before != CompactionStatus.RUNNING:
        compaction.trigger()
    return kept(before)


def _status(server: BrokerServer, topic: str) -> Promise[CompactionStatus]:
    return kept(server.broker.find(TopicName.parse(topic)).compaction.status)


async def view_some(simulation: Simulation, book: Book, scenario: Scenario) -> None:
    """A reader of views while all goes wrong: what it gets ascends, and was published."""
    random = simulation.loop.random_for("viewer")
    client = simulation.client(**CLIENT)
    while book.publishing:
        await asyncio.sleep(random.random() * 2)
        topic = random.choice(scenario.topics)
        try:
            seen = await _read(client, topic, LOOK_MS)
        except (MagnetarError, TimeoutError):
            continue
        _judge_order(simulation, topic, seen)
    await client.close()


async def read_views(simulation: Simulation, scenario: Scenario) -> None:
    """The view of each topic is the last message of every key."""
    client = simulation.client(**CLIENT)
    for topic in scenario.topics:
        await _compact(simulation, topic)
        async with asyncio.timeout(PATIENCE_S):
            seen = await _read(client, topic, READ_MS)
        _judge_order(simulation, topic, seen)
        _judge(simulation, topic, seen)
    await client.close()


async def _compact(simulation: Simulation, topic: str) -> None:
    """Compacts a topic up to its end. One that is under way may have begun too early."""
    for _ in range(2):
        await _settled(simulation, topic)
        await simulation.broker.ask(partial(_begin, topic=topic))
    status = await _settled(simulation, topic)
    assert status == CompactionStatus.SUCCESS, f"the compaction of {topic} ended with {status}"


async def _settled(simulation: Simulation, topic: str) -> CompactionStatus:
    for _ in range(2 * PATIENCE_S):
        status = await simulation.broker.ask(partial(_status, topic=topic))
        if status != CompactionStatus.RUNNING:
            return status
        await asyncio.sleep(0.5)
    raise AssertionError(f"I3: the compaction of {topic} does not end")


async def _read(client: Client, topic: str, wait_ms: int) -> list[Seen]:
    reader = await client.create_reader(topic, MessageId.earliest, is_read_compacted=True)
    seen: list[Seen] = []
    try:
        while await reader.has_message_available():
            message = await reader.read_next(wait_ms)
            place = place_of(message.message_id())
            seen.append((place, message.partition_key(), message.data()))
    except Timeout:
        if wait_ms == READ_MS:
            raise AssertionError(f"I3: a reader of the view of {topic} waits in vain") from None
    finally:
        await reader.close()
    return seen


def _judge_order(simulation: Simulation, topic: str, seen: list[Seen]) -> None:
    places = [place for place, _, _ in seen]
    assert places == sorted(set(places)), f"I4: the view of {topic} does not ascend: {places}"
    sent = {(fact.payload, fact.key) for fact in simulation.history.of(Sent)}
    for place, key, payload in seen:
        assert (payload, key) in sent, f"the view of {topic} has at {place} what was never sent"


def _judge(simulation: Simulation, topic: str, seen: list[Seen]) -> None:
    found = {key: place for place, key, _ in seen}
    assert "" not in found, f"the view of {topic} has a message without a key"
    assert len(found) == len(seen), f"the view of {topic} has two messages of one key"
    sent = {(fact.producer, fact.number): fact for fact in simulation.history.of(Sent)}
    partition = TopicName.parse(topic).partition
    for fact in simulation.history.of(Stored):
        key = sent[fact.producer, fact.number].key
        if fact.partition != partition or not key or fact.place.ledger < 0 or fact.split:
            continue
        last = found.get(key)
        assert last is not None, f"I1: the view of {topic} has lost the key {key!r} of {fact}"
        assert last >= fact.place, f"the view of {topic} has {key!r} of {last}, not {fact}"
