"""Errors that nobody foresaw: told with their traceback, and never a stall without a word.

A topic is unloaded, and clients load it anew; a store takes nothing any more.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine

import pytest
from support.wire_client import Exclusive, Shared, WireConsumer
from support.world import World

from magnetar import aio
from magnetar.admin.http.bridge import durable
from magnetar.broker.setting.setting import MIB
from magnetar.broker.setting.settings import BrokerSettings
from magnetar.broker.shell.server import BrokerServer
from magnetar.errors import RemoteProtocolError, StorageReadOnlyError
from magnetar.model import TopicName
from magnetar.protocol import CommandSendReceipt
from magnetar.storage import Catalog, MemoryDisk

# What the dispatcher of a Shared subscription cannot read.
GARBAGE = b"no entry"


class Bug(Exception):
    pass


def bug(error: Exception | None) -> None:
    raise Bug


@pytest.fixture
def faults(world: World) -> list[tuple[str, Exception]]:
    world.host.faults = []
    return world.host.faults


def test_entries_that_cannot_be_read_by_a_bug_are_read_by_the_next_dispatcher(world: World) -> None:
    world.connect().subscribe("t", "sub", Exclusive)
    world.connect().producer("t").send("a")
    world.restart()
    faults = world.host.faults = []
    consumer = world.connect().subscribe("t", "sub", Exclusive)
    world.host.read_error = bug_found = Bug()
    consumer.flow(10)
    assert faults == [("unloading persistent://public/default/t", bug_found)]
    assert consumer.closed_by_broker()
    assert not world.broker.topics
    assert not world.store.log._pins
    world.host.read_error = None
    again = consumer.client.subscribe("t", "sub", Exclusive)
    again.flow(10)
    assert again.payloads() == ["a"]


def test_a_topic_that_cannot_be_dispatched_takes_nothing_from_the_others_of_its_group(
    world: World, faults: list[tuple[str, Exception]]
) -> None:
    consumers: dict[str, WireConsumer] = {}
    for name in ("bad", "good"):
        consumers[name] = world.connect().subscribe(name, "sub", Shared)
        consumers[name].flow(10)
    client = world.connect()
    producers = {name: client.producer(name) for name in consumers}
    world.hold_disk()
    world.store.append(world.topic("bad").id, GARBAGE, batch_size=1, publish_time_ms=0)
    for producer in producers.values():
        producer.publish("x")
    world.release_disk()
    ((text, error),) = faults
    assert text == "unloading persistent://public/default/bad"
    assert isinstance(error, RemoteProtocolError)
    assert consumers["bad"].closed_by_broker()
    assert client.closed_producers() == [producers["bad"].id]
    assert len(client.take(CommandSendReceipt)) == 2
    producers["good"].send("y")
    assert consumers["good"].payloads() == ["x", "y"]


def test_a_bug_that_permits_bring_up_does_not_end_the_connection(
    world: World, faults: list[tuple[str, Exception]]
) -> None:
    consumer = world.connect().subscribe("t", "sub", Shared)
    producer = world.connect().producer("t")
    world.store.append(world.topic("t").id, GARBAGE, batch_size=1, publish_time_ms=0)
    producer.send("x")
    consumer.flow(10)
    assert consumer.closed_by_broker()
    assert not consumer.client.hung_up
    again = consumer.client.subscribe("t", "sub", Shared)
    again.flow(10)
    assert again.closed_by_broker()
    assert len(faults) == 2


def test_what_fails_when_it_is_settled_ends_the_topic_that_it_is_about(
    world: World, faults: list[tuple[str, Exception]]
) -> None:
    client = world.connect()
    one, other = client.producer("one"), client.producer("other")
    world.hold_disk()
    one.publish("a")
    world.topic("one").wait_for(world.store.ticket_last).when_done(bug)
    world.broker.commits.wait_for(world.store.ticket_last).when_done(bug)
    other.publish("b")
    world.release_disk()
    assert [text for text, _ in faults] == [
        "unloading persistent://public/default/one",
        "something that waited for the journal failed",
    ]
    assert len(client.take(CommandSendReceipt)) == 2
    assert client.closed_producers() == [one.id]


def test_what_is_known_of_duplicates_is_read_again_when_a_topic_was_given_up(
    world: World, faults: list[tuple[str, Exception]]
) -> None:
    world.set_policy("deduplicationEnabled", True)
    client = world.connect()
    producer = client.producer("t", producer_name="p")
    producer.send("a")
    before = world.store.ticket_last
    world.topic("t").give_up(Bug())
    world.topic("t").give_up(Bug())
    world.settle()
    assert world.store.ticket_last == before, "nothing of what is in memory is written"
    assert client.closed_producers() == [producer.id]
    again = client.producer("t", producer_name="p")
    assert again.sequence_id == 0
    again.publish("a", sequence_id=0)
    consumer = client.subscribe("t", "sub", Exclusive, initialPosition=1)
    consumer.flow(10)
    assert consumer.payloads() == ["a"]


def test_upkeep_of_a_topic_that_cannot_be_loaded_leaves_that_of_others_alone(world: World) -> None:
    for name in ("bad", "good"):
        world.connect().subscribe(name, "sub", Exclusive)
        world.connect().producer(name).send("old")
    bad = world.subscription("bad", "sub")
    world.store.append_delta(bad.cursor_id, 0, b"\xff no delta")
    world.set_policy("messageTTL", 10)
    world.restart()
    faults = world.host.faults = []
    world.advance(world.settings.ttl_check_ms + 20_000)
    assert {text for text, _ in faults} == {"persistent://public/default/bad was not looked after"}
    assert world.subscription("good", "sub").cursor.unacked_entries() == 0


# ---- On a loop -------------------------------------------------------------------


class BuggyDisk(MemoryDisk):
    """A disk whose own code fails."""

    reads = False
    writes = False

    def read(self, path: str, offset: int, size: int) -> bytes:
        if self.reads:
            self.reads = False
            raise Bug
        return super().read(path, offset, size)

    def write(self, path: str, offset: int, data: bytes, *, sync: bool) -> None:
        if self.writes:
            raise Bug
        super().write(path, offset, data, sync=sync)


def tracebacks(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged with the traceback of a bug."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno == logging.ERROR and record.exc_info and record.exc_info[0] is Bug
    ]


def serve(disk: MemoryDisk, work: Callable[[BrokerServer], Coroutine[None, None, None]]) -> None:
    """A broker on this disk, which it reads what it delivers from."""

    async def run() -> None:
        settings = BrokerSettings(segment_bytes=MIB, watermark_bytes=0, cache_bytes=0)
        server = BrokerServer(disk, Catalog, settings)
        await server.start()
        try:
            async with asyncio.timeout(20):
                await work(server)
        finally:
            await server.stop()

    asyncio.run(run())


def test_a_consumer_gets_its_message_though_a_thread_that_reads_fails(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = BuggyDisk()

    async def work(server: BrokerServer) -> None:
        async with aio.Client(server.url, initial_backoff_ms=5, max_backoff_ms=50) as client:
            consumer = await client.subscribe("t", "sub")
            producer = await client.create_producer("t")
            disk.reads = True
            await producer.send(b"a")
            assert (await consumer.receive()).data() == b"a"

    serve(disk, work)
    assert not disk.reads
    assert tracebacks(caplog) == ["unloading persistent://public/default/t"]


def test_whoever_waits_is_told_if_a_thread_that_writes_fails(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = BuggyDisk()

    async def work(server: BrokerServer) -> None:
        disk.writes = True
        server.broker.create_topic(TopicName.parse("t"))
        with pytest.raises(StorageReadOnlyError, match=r"unexpected Bug\(\)"):
            await durable(server.broker)

    serve(disk, work)
    (message,) = tracebacks(caplog)
    assert message.startswith("Exception in callback")
