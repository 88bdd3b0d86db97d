"""Every metric by a case in which it is known what its number must be.

The broker stands in a world whose clock and disk the tests hold; what only a process has (its
memory, its descriptors, its disk) is asked of a real one.
"""

import asyncio
import os
import platform
import re
import resource
import shutil
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.broker_process import BrokerProcess
from support.requirement import need
from support.served import Served
from support.tokens import SECRET_SETTING
from support.waiting import wait_until
from support.wire_client import KeyShared, Refused, Shared, WireProducer, but, refused
from support.wire_transaction import WireTransaction
from support.world import BROKEN, FULL, World

import magnetar
from magnetar.admin.metric.declaration import METRICS
from magnetar.admin.metric.resting import RestingTopics
from magnetar.admin.route.metrics import make_scrape
from magnetar.broker.setting.settings import BrokerSettings
from magnetar.broker.topic.skip.skip import Skip
from magnetar.model import ServerError
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import CommandMessage, CommandSend
from magnetar.protocol import pulsar_pb2 as pb

T = "persistent://public/default/t"
MIB = 1 << 20
GIB = 1 << 30


class Numbers:
    """What a scrape says."""

    def __init__(self, text: str) -> None:
        self._found: dict[tuple[str, str, str], float] = {}
        self.labels: dict[str, dict[str, str]] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                labels = sample.labels
                place = labels.get("topic", ""), labels.get("subscription", "")
                name = f"{sample.name} {float(labels['le'])}" if "le" in labels else sample.name
                self._found[name, *place] = sample.value
                self.labels[sample.name] = labels

    def broker(self, name: str) -> float:
        return self._found[name, "", ""]

    def topic(self, name: str, topic: str = T) -> float:
        return self._found[name, topic, ""]

    def sub(self, name: str, subscription: str = "sub") -> float:
        return self._found[name, T, subscription]

    def has(self, name: str) -> bool:
        return any(found == name for found, _, _ in self._found)


def numbers(world: World) -> Numbers:
    scrape = asyncio.run(make_scrape(world.broker, RestingTopics()))
    return Numbers(b"".join(scrape.pieces).decode())


def test_every_metric_has_its_case_here() -> None:
    cases = "\n".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    named = set(re.findall(r'"((?:pulsar|magnetar|process)_\w+)"', cases))
    without = [name for name in METRICS if not any(one.startswith(name) for one in named)]
    assert without == []


# ---- What goes in and out --------------------------------------------------------------


def test_what_was_published_and_delivered_is_counted_and_has_a_rate() -> None:
    world = World()
    client = world.connect()
    producer = client.producer("t")
    client.producer("t")
    consumer = client.subscribe("t", "sub", Shared)
    producer.publish("a")
    producer.publish("b", "c", "d")
    consumer.flow(100)
    sent = [c.entry for c in client.received if isinstance(c, CommandMessage)]
    size = sum(map(len, sent))
    assert len(sent) == 2
    found = numbers(world)
    assert found.topic("pulsar_producers_count") == 2
    assert found.topic("pulsar_consumers_count") == 1
    assert found.topic("pulsar_in_messages_total") == 4
    assert found.topic("pulsar_in_bytes_total") == size
    assert found.topic("pulsar_out_messages_total") == 4
    assert found.topic("pulsar_out_bytes_total") == size
    assert found.sub("pulsar_subscription_out_messages_total") == 4
    assert found.topic("pulsar_rate_in") == 0  # no interval is over
    world.advance(10_000)
    found = numbers(world)
    assert found.topic("pulsar_rate_in") == 0.4
    assert found.topic("pulsar_rate_out") == 0.4
    assert found.topic("pulsar_throughput_in") == size / 10
    assert found.topic("pulsar_throughput_out") == size / 10
    assert found.sub("pulsar_subscription_msg_rate_out") == 0.4
    assert found.sub("pulsar_subscription_msg_throughput_out") == size / 10
    world.advance(10_000)
    assert numbers(world).topic("pulsar_rate_in") == 0


def test_what_left_with_its_consumer_is_counted_all_the_same() -> None:
    world = World()
    client = world.connect()
    consumer = client.subscribe("t", "sub", Shared)
    client.producer("t").publish("a", "b")
    consumer.flow(10)
    consumer.redeliver()
    consumer.acked(consumer.deliveries()[-1])
    consumer.close()
    found = numbers(world)
    assert found.sub("pulsar_subscription_out_messages_total") == 4
    assert found.sub("magnetar_subscription_redelivered_messages_total") == 2
    assert found.sub("magnetar_subscription_acked_ids_total") == 1
    assert found.sub("pulsar_subscription_consumers_count") == 0


def test_latencies_are_by_the_clock() -> None:
    """A publish waits for the disk, and a delivery for its consumer."""
    world = World()
    client = world.connect()
    consumer = client.subscribe("t", "sub", Shared)
    producer = client.producer("t")
    world.hold_disk()
    producer.publish("a", "b")
    world.advance(700)
    world.release_disk()
    world.advance(2_300)
    consumer.flow(10)
    found = numbers(world)
    publish, dispatch = "magnetar_publish_latency_seconds", "magnetar_dispatch_latency_seconds"
    for name, seconds, below, above in ((publish, 0.7, 0.5, 1.0), (dispatch, 3, 1.0, 5.0)):
        assert found.broker(f"{name}_count") == 1
        assert found.broker(f"{name}_sum") == seconds
        assert found.broker(f"{name}_bucket {below}") == 0
        assert found.broker(f"{name}_bucket {above}") == 1
        assert found.broker(f"{name}_bucket inf") == 1


def test_groups_are_counted_with_their_records_and_bytes() -> None:
    world = World()
    producer = world.connect().producer("t")
    producer.send("the first, which begins a ledger")
    before = numbers(world)
    world.hold_disk()
    for _ in range(5):
        producer.publish("x" * 1000)
    world.release_disk()
    found = numbers(world)

    def more(name: str) -> float:
        return found.broker(name) - before.broker(name)

    assert more("magnetar_group_records_count") == more("magnetar_group_bytes_count") == 1
    assert more("magnetar_fsync_latency_seconds_count") == 1
    assert more("magnetar_group_records_sum") == 5
    assert 5_000 < more("magnetar_group_bytes_sum") < 6_000


# ---- What waits ------------------------------------------------------------------------


def test_a_backlog_is_told_in_entries_messages_bytes_and_holes() -> None:
    world = World()
    client = world.connect()
    consumer = client.subscribe("t", "sub", Shared)
    client.subscribe("t", "other", Shared)
    producer = client.producer("t")
    ids = [producer.send("m", "m", "m") for _ in range(6)]
    consumer.flow(100)
    got = consumer.deliveries()
    assert len(got) == 6
    consumer.acked(got[0])
    consumer.acked(got[2], got[3])
    consumer.acked(got[4].index(1))
    found = numbers(world)
    assert found.sub("pulsar_subscription_back_log") == 3
    assert found.sub("pulsar_subscription_back_log_messages") == 3 + 2 + 3
    assert found.sub("pulsar_subscription_unacked_messages") == 3 + 2 + 3
    assert found.sub("pulsar_subscription_acked_ranges") == 1
    assert found.sub("pulsar_subscription_partially_acked_batches") == 1
    size = found.sub("pulsar_subscription_partially_acked_bytes")
    assert 0 < size == found.broker("pulsar_ack_state_bytes")
    assert found.topic("pulsar_subscriptions_count") == 2
    assert found.topic("pulsar_msg_backlog") == 3 + 6
    stored = sum(len(one.command.entry) for one in got)
    assert found.topic("pulsar_storage_size") == stored
    # Behind the slowest, which has acked nothing.
    assert found.topic("pulsar_storage_backlog_size") == stored
    assert found.sub("magnetar_subscription_acked_ids_total") == 4
    assert found.sub("magnetar_subscription_acked_again_total") == 0
    consumer.acked(got[0], but(ids[2], 3, 0))
    assert numbers(world).sub("magnetar_subscription_acked_again_total") == 2


def test_the_age_is_that_of_what_was_published_first_and_is_not_acked() -> None:
    world = World()
    client = world.connect()
    consumer = client.subscribe("t", "sub", Shared)
    client.subscribe("t", "other", Shared)
    producer = client.producer("t")
    producer.send("a")
    world.advance(60_000)
    producer.send("b")
    consumer.flow(10)
    first, _ = consumer.deliveries()
    consumer.acked(first)
    world.advance(5_000)
    found = numbers(world)
    assert found.sub("magnetar_subscription_oldest_unacked_seconds") == 5
    assert found.sub("magnetar_subscription_oldest_unacked_seconds", "other") == 65
    assert found.topic("pulsar_storage_backlog_age_seconds") == 65


def test_what_waits_for_its_time_and_what_is_to_come_again() -> None:
    world = World()
    client = world.connect()
    consumer = client.subscribe("t", "sub", Shared)
    producer = client.producer("t")
    producer.send("later", deliver_at_time=world.host.now + 60_000)
    for text in "abc":
        producer.send(text)
    consumer.flow(3)
    got = consumer.deliveries()
    found = numbers(world)
    assert found.sub("pulsar_subscription_delayed") == 1
    assert found.sub("pulsar_subscription_in_replay") == 0
    consumer.redeliver(got[0], got[1])  # and there are no permits
    found = numbers(world)
    assert found.sub("pulsar_subscription_in_replay") == 2
    assert found.sub("magnetar_subscription_redelivered_messages_total") == 0
    consumer.flow(3)
    found = numbers(world)
    assert found.sub("pulsar_subscription_in_replay") == 0
    assert found.sub("magnetar_subscription_redelivered_messages_total") == 2
    consumer.acked(got[0])
    world.advance(10_000)
    found = numbers(world)
    assert found.sub("pulsar_subscription_msg_rate_redeliver") == 0.2
    assert found.sub("pulsar_subscription_msg_ack_rate") == 0.1
    world.advance(60_000)
    assert numbers(world).sub("pulsar_subscription_delayed") == 0


def test_a_subscription_that_has_too_many_unacked_is_blocked() -> None:
    world = World(max_unacked_per_subscription=4)
    client = world.connect()
    consumer = client.subscribe("t", "sub", KeyShared)
    for number in range(6):
        client.producer("t").send(str(number), partition_key=str(number))
    consumer.flow(3)
    assert numbers(world).sub("pulsar_subscription_blocked_on_unacked_messages") == 0
    consumer.flow(3)
    assert numbers(world).sub("pulsar_subscription_blocked_on_unacked_messages") == 1
    consumer.acked(*consumer.deliveries())
    assert numbers(world).sub("pulsar_subscription_blocked_on_unacked_messages") == 0


def test_all_that_waits_for_the_disk_is_counted() -> None:
    world = World()
    client = world.connect()
    consumer = client.subscribe("t", "sub", Shared)
    producer = client.producer("t")
    ids = [producer.send(text) for text in "abc"]
    assert numbers(world).broker("magnetar_receipts_waiting") == 0
    world.hold_disk()
    for text in "de":
        producer.publish(text)
    consumer.ask_ack(ids[0])
    assert numbers(world).broker("magnetar_receipts_waiting") == 3
    world.release_disk()
    assert numbers(world).broker("magnetar_receipts_waiting") == 0


# ---- Who is held up ----------------------------------------------------------------------


def test_who_waited_for_a_rate_is_counted_by_whose_rate_it_was() -> None:
    world = World(dispatch_rate_bytes=100_000)
    consumer = world.connect().subscribe("t")
    world.connect().subscribe("t", "other")
    world.set_policy("publishRate", {"publishThrottlingRateInMsg": 10}, topic="t")
    world.set_policy("subscriptionDispatchRate", {"dispatchThrottlingRateInMsg": 2}, topic="t")
    producer = world.connect().producer("t")
    for _ in range(15):
        producer.publish("x")
    assert numbers(world).topic("pulsar_publish_rate_limit_times") == 1
    assert not numbers(world).has("pulsar_subscription_dispatch_throttled_msg_events")
    consumer.flow(100)
    found = numbers(world)
    # Once it was the broker's turn there would be another row, with that reason.
    assert found.sub("pulsar_subscription_dispatch_throttled_msg_events") == 1
    assert found.sub("pulsar_subscription_dispatch_throttled_bytes_events") == 0
    labels = found.labels["pulsar_subscription_dispatch_throttled_msg_events"]
    assert labels["reason"] == "subscription"
    assert not any(
        subscription == "other" and "throttled" in name for name, _, subscription in found._found
    )


def test_consumers_that_subscribe_too_often_are_counted_where_they_do() -> None:
    world = World()
    world.connect().producer("t")
    world.connect().producer("other")
    rate = {"subscribeThrottlingRatePerConsumer": 1, "ratePeriodInSecond": 600}
    world.set_policy("subscribeRate", rate, topic="t")
    client = world.connect()
    client.subscribe("t", consumer_name="eager", consumer_id=1).close()
    for _ in range(2):
        with refused(ServerError.NotAllowedError, "subscribe rate limit"):
            client.subscribe("t", consumer_name="eager", consumer_id=1)
    found = numbers(world)
    assert found.topic("magnetar_subscribe_rate_limit_times") == 2
    assert found.topic("magnetar_subscribe_rate_limit_times", f"{T[:-1]}other") == 0


# ---- What is taken out -----------------------------------------------------------------


def test_what_is_skipped_is_counted_and_what_consumers_gave_back_of_it() -> None:
    world = World()
    client = world.connect(feature_flags=pb.FeatureFlags(supports_magnetar=True))
    consumer = client.subscribe("t", "sub", Shared)
    producer = client.producer("t")
    ids = [producer.send("m", "m", "m"), producer.send("x"), producer.send("y")]
    consumer.flow(4)
    assert len(consumer.deliveries()) == 2
    named = [MessageIdData(ids[0].ledger_id, ids[0].entry_id, -1, index) for index in (0, 2)]
    skip = Skip([world.topic("t")], "sub", [*named, ids[2]], recall=True)
    while skip.plan_piece():
        pass
    world.done(skip.carry_out())
    recalled = skip.recalled(5_000)
    world.settle()
    question = client.one(pb.CommandWithdraw)
    client.say(
        pb.CommandWithdrawn(
            consumer_id=question.consumer_id,
            request_id=question.request_id,
            given_back=question.message_ids,
        )
    )
    world.done(recalled)
    found = numbers(world)
    assert found.sub("pulsar_subscription_skipped_messages_total") == 3
    assert found.sub("pulsar_subscription_taken_back_messages_total") == 2
    assert found.sub("pulsar_subscription_back_log_messages") == 2


def test_what_expires_is_counted() -> None:
    world = World(ttl_seconds=60, ttl_check_ms=1000)
    client = world.connect()
    client.subscribe("t", "sub", Shared)
    producer = client.producer("t")
    for text in "abc":
        producer.send(text)
    world.advance(50_000)
    producer.send("d")
    assert numbers(world).sub("pulsar_subscription_total_msg_expired") == 0
    world.advance(20_000)
    assert numbers(world).sub("pulsar_subscription_total_msg_expired") == 3


def test_a_damaged_entry_is_told_until_it_is_skipped() -> None:
    world = World()
    client = world.connect()
    client.subscribe("t", "sub", Shared).close()
    id = client.producer("t").send("a")
    world.crash()  # or the broker would have it in memory
    address = world.store.log.state.ledgers[id.ledger_id].index.address(id.entry_id)
    world.disk.files[f"journal/{address >> 32:08x}.log"][(address & 0xFFFFFFFF) + 41] ^= 1
    world.connect().subscribe("t", "sub", Shared).flow(10)
    found = numbers(world)
    assert found.sub("pulsar_subscription_damaged") == 1
    assert found.sub("pulsar_subscription_damaged_skipped_total") == 0
    world.done(world.subscription("t", "sub").damage.skip())
    found = numbers(world)
    assert found.sub("pulsar_subscription_damaged") == 0
    assert found.sub("pulsar_subscription_damaged_skipped_total") == 1


# ---- Transactions ----------------------------------------------------------------------


def test_transactions_are_counted_by_how_they_end() -> None:
    world = World(transactions=True)
    client = world.connect()
    producer, consumer = client.producer("t"), client.subscribe("t", "sub", Shared)
    id = producer.send("a")
    ended, aborted = WireTransaction(client), WireTransaction(client)
    ended.send(producer, "b")
    aborted.send(producer, "c")
    ended.commit()
    aborted.abort()
    world.advance(1_000)
    open = WireTransaction(client, timeout_ms=30_000)
    open.send(producer, "d")
    open.acked(consumer, id)
    world.advance(9_000)
    found = numbers(world)
    assert found.broker("pulsar_txn_active_count") == 1
    assert found.broker("pulsar_txn_created_total") == 3
    assert found.broker("pulsar_txn_committed_total") == 1
    assert found.broker("pulsar_txn_aborted_total") == 1
    assert found.broker("pulsar_txn_timeout_total") == 0
    assert found.broker("magnetar_txn_oldest_seconds") == 9
    assert found.topic("pulsar_txn_tb_active_total") == 1
    assert found.topic("pulsar_txn_tb_committed_total") == 1
    assert found.topic("pulsar_txn_tb_aborted_total") == 1
    assert found.sub("magnetar_subscription_txn_pending") == 1
    world.advance(60_000)
    found = numbers(world)
    assert found.broker("pulsar_txn_active_count") == 0
    assert found.broker("pulsar_txn_aborted_total") == 2
    assert found.broker("pulsar_txn_timeout_total") == 1
    assert found.broker("magnetar_txn_oldest_seconds") == 0
    assert found.topic("pulsar_txn_tb_aborted_total") == 2
    assert found.sub("magnetar_subscription_txn_pending") == 0
    assert not numbers(World()).has("pulsar_txn_active_count")


# ---- What is refused -------------------------------------------------------------------


def lie(producer: WireProducer) -> None:
    entry = producer.entry(b"x", 1, num_messages_in_batch=1000)
    producer.client.say(CommandSend(producer.id, 1, entry, 1000))


def test_batches_that_lie_are_counted() -> None:
    world = World()
    producer = world.connect().producer("t")
    assert numbers(world).broker("pulsar_batches_refused_total") == 0
    lie(producer)
    assert numbers(world).broker("pulsar_batches_refused_total") == 1


def test_acks_beyond_the_limit_are_counted() -> None:
    world = World(max_ack_state_bytes_per_subscription=1000)
    client = world.connect()
    consumer = client.subscribe("t", "sub", Shared)
    producer = client.producer("t")
    ids = [producer.send(*["m"] * 1000) for _ in range(20)]
    with pytest.raises(Refused):
        consumer.acked(*[but(id, 1000, 7) for id in ids])
    assert numbers(world).broker("pulsar_ack_state_refused_total") == 1


def test_log_ins_that_fail_are_counted_on_both_ports(
    own_broker: Callable[[BrokerSettings], Served],
) -> None:
    served = own_broker(BrokerSettings(authentication=True, token_secret_key=SECRET_SETTING))
    answer = httpx.get(f"{served.http_url}/admin/v2/tenants", headers={"Authorization": "Bearer x"})
    assert answer.status_code == 401
    proof = magnetar.AuthenticationToken("x")
    with (
        magnetar.Client(served.url, authentication=proof) as client,
        pytest.raises(magnetar.AuthenticationError),
    ):
        client.create_producer("t")
    text = httpx.get(f"{served.http_url}/metrics").text
    assert Numbers(text).broker("pulsar_authentication_failures_total") == 2


def test_connections_are_counted_and_those_beyond_the_limit(
    own_broker: Callable[[BrokerSettings], Served],
) -> None:
    served = own_broker(BrokerSettings(max_connections=2))

    def now() -> Numbers:
        return Numbers(httpx.get(f"{served.http_url}/metrics").text)

    host, _, port = served.url.removeprefix("pulsar://").rpartition(":")
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(socket.create_connection((host, int(port)), timeout=30))
        wait_until(lambda: now().broker("pulsar_active_connections") == 2)
        assert now().broker("pulsar_connections_refused_total") == 0
        third = stack.enter_context(socket.create_connection((host, int(port)), timeout=30))
        while third.recv(4096):
            pass  # it is told why, and hung up on
        assert now().broker("pulsar_connections_refused_total") == 1
    wait_until(lambda: now().broker("pulsar_active_connections") == 0)


# ---- The store -------------------------------------------------------------------------


def test_a_full_disk_and_one_that_fails_are_told_apart() -> None:
    world = World()
    producer = world.connect().producer("t")
    names = ("pulsar_storage_full", "pulsar_storage_read_only")
    assert [numbers(world).broker(name) for name in names] == [0, 0]
    room, world.disk.capacity = world.disk.capacity, world.disk.used_bytes()
    world.fail_disk(FULL)
    with pytest.raises(Refused):
        producer.send("a")
    assert [numbers(world).broker(name) for name in names] == [1, 0]
    world.disk.capacity = room
    world.fail_disk(None)
    world.advance(60_000)
    assert [numbers(world).broker(name) for name in names] == [0, 0]
    world.fail_disk(BROKEN)
    with pytest.raises(Refused):
        world.connect().producer("t").send("a")
    assert [numbers(world).broker(name) for name in names] == [0, 1]


def test_work_of_the_store_that_fails_is_counted_until_it_is_done() -> None:
    world = World()
    setbacks = world.store.setbacks
    names = ("pulsar_storage_retrying", "pulsar_storage_retries_total")
    assert [numbers(world).broker(name) for name in names] == [0, 0]
    for _ in range(2):
        setbacks.failed("an index", OSError("no descriptors"))
    assert [numbers(world).broker(name) for name in names] == [1, 2]
    setbacks.passed("an index")
    assert [numbers(world).broker(name) for name in names] == [0, 2]


def test_topics_are_counted_whether_they_are_loaded_or_not() -> None:
    world = World()
    for name in ("t", "u", "v", "non-persistent://public/default/w"):
        world.connect().subscribe(name, "sub", Shared).close()
    world.unload("u")
    found = numbers(world)
    assert found.broker("pulsar_broker_topics_loaded") == 3
    assert found.broker("pulsar_topics_count") == 4
    assert found.labels["pulsar_topics_count"]["namespace"] == "public/default"


def test_a_disk_in_memory_has_no_space_to_tell_of() -> None:
    found = numbers(World())
    assert not found.has("magnetar_disk_free_bytes")
    assert not found.has("magnetar_disk_watermark_bytes")


# ---- The process -----------------------------------------------------------------------


def status_bytes(pid: int, field: str) -> int:
    """What the system tells of a process; the metrics come from elsewhere."""
    text = Path(f"/proc/{pid}/status").read_text()
    found = re.search(rf"^{field}:\s+(\d+) kB", text, re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


def test_a_process_tells_what_the_system_tells_of_it(tmp_path: Path) -> None:
    need("/proc", Path("/proc/self/status").exists(), "Linux")
    began = time.time()
    with BrokerProcess(tmp_path / "data") as broker:

        def now() -> Numbers:
            return Numbers(httpx.get(f"{broker.http_url}/metrics").text)

        found = now()
        assert began - 0.1 <= found.broker("process_start_time_seconds") <= began + broker.ready_s
        for name, field in (
            ("process_resident_memory_bytes", "VmRSS"),
            ("process_virtual_memory_bytes", "VmSize"),
        ):
            assert abs(found.broker(name) - status_bytes(broker.pid, field)) < 64 * MIB
        limit = resource.prlimit(broker.pid, resource.RLIMIT_NOFILE)[0]
        assert found.broker("process_max_fds") == limit
        free = shutil.disk_usage(broker.data).free
        assert abs(found.broker("magnetar_disk_free_bytes") - free) < 4 * GIB
        watermark = BrokerSettings().watermark_bytes
        assert found.broker("magnetar_disk_watermark_bytes") == watermark
        assert found.labels["magnetar_build_info"] == {
            "cluster": "standalone",
            "version": magnetar.__version__,
            "compiled": "true" if magnetar.COMPILED else "false",
            "python": platform.python_version(),
        }
        assert found.broker("magnetar_build_info") == 1
        assert found.labels["pulsar_version_info"]["version"] == magnetar.__version__
        # A client is a descriptor more; and whoever works takes time.
        host, _, port = broker.url.removeprefix("pulsar://").rpartition(":")
        before = found.broker("process_open_fds")
        with ExitStack() as stack:
            for _ in range(20):
                stack.enter_context(socket.create_connection((host, int(port)), timeout=30))
            wait_until(lambda: now().broker("process_open_fds") == before + 20)
        fields = Path(f"/proc/{broker.pid}/stat").read_text().rpartition(")")[2].split()
        taken = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        told = now().broker("process_cpu_seconds_total")
        assert taken - 0.02 <= told <= taken + 5
