"""Many things to do are done a few at a time, and each waits for those before it."""

from support.world import ManualHost, World

from magnetar.broker.promise import Promise, broken, kept
from magnetar.broker.turn.slices import SLICE, Step, in_slices
from magnetar.model import ConsumerType, ProducerAccessMode
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.storage.disk.memory_disk import MemoryDisk

MANY = 10 * SLICE


def run(host: ManualHost) -> int:
    turns = 0
    while host.soon:
        host.soon.popleft()()
        turns += 1
    return turns


def test_a_slice_is_done_at_once_and_the_others_in_later_turns() -> None:
    host = ManualHost(MemoryDisk(), 0)
    did: list[int] = []
    ended: list[Exception | None] = []

    def step(number: int) -> Step:
        def take() -> Promise[None]:
            did.append(number)
            return kept(None)

        return take

    in_slices(host, [step(n) for n in range(MANY)]).when_done(ended.append)
    assert did == list(range(SLICE))
    assert not ended
    assert run(host) == MANY // SLICE - 1
    assert did == list(range(MANY))
    assert ended == [None]


def test_nothing_to_do_is_done() -> None:
    ended: list[Exception | None] = []
    in_slices(ManualHost(MemoryDisk(), 0), []).when_done(ended.append)
    assert ended == [None]


def test_the_next_slice_waits_until_what_was_done_is_settled() -> None:
    host = ManualHost(MemoryDisk(), 0)
    promise: Promise[None] = Promise()
    did: list[int] = []

    def count() -> Promise[None]:
        did.append(1)
        return kept(None)

    in_slices(host, [lambda: promise, count], 1)
    assert run(host) == 0
    promise.keep(None)
    run(host)
    assert did == [1]


def test_steps_that_fail_take_nothing_from_the_others() -> None:
    host = ManualHost(MemoryDisk(), 0)
    host.faults = []
    ended: list[Exception | None] = []

    def fail() -> Promise[None]:
        raise RuntimeError("a bug")

    steps: list[Step] = [fail, lambda: broken(OSError()), lambda: kept(None)]
    in_slices(host, steps, 1).when_done(ended.append)
    run(host)
    assert ended == [None]
    assert [text for text, _ in host.faults] == ["a step of many failed"]


def test_a_connection_with_many_consumers_leaves_in_turns() -> None:
    world = World()
    client, other = world.connect(), world.connect()
    for _ in range(MANY):
        client.subscribe("t", "s", ConsumerType.Shared)
    client.session.lost()
    # Some are there still, though nobody is served any more.
    assert len(world.subscription("t", "s").consumers) == MANY - SLICE
    turns = len(world.host.soon)
    assert turns >= 1
    world.settle()
    assert world.subscription("t", "s").consumers == []
    other.subscribe("t", "s", ConsumerType.Exclusive)


def test_who_wants_an_exclusive_place_waits_until_its_holder_has_left() -> None:
    world = World()
    client, other = world.connect(), world.connect()
    for number in range(MANY):
        client.subscribe(f"t-{number}", "s", ConsumerType.Exclusive)
    client.session.lost()
    # The last of them: nothing of it was done yet.
    other.say(
        pb.CommandSubscribe(
            topic=f"t-{MANY - 1}", subscription="s", subType=0, consumer_id=1, request_id=1
        )
    )
    world.settle()
    assert isinstance(other.one(pb.CommandSuccess), pb.CommandSuccess)


def test_producers_in_line_leave_without_having_the_topic_for_a_moment() -> None:
    """Each that had it would begin an epoch, which is written."""
    world = World()
    client, other = world.connect(), world.connect()
    for _ in range(MANY):
        client.producer("t", producer_access_mode=ProducerAccessMode.WaitForExclusive)
    before = world.topic("t").admission.epoch
    client.session.lost()
    world.settle()
    assert world.topic("t").admission.epoch == before
    assert world.topic("t").admission.empty
    assert other.producer("t", producer_access_mode=ProducerAccessMode.Exclusive).success
