"""The pipelines as projects of `spark-pipelines`: what their tables have, and that whatever is
run again or killed changes nothing twice."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest
from spark.pipelines.connect_server import ConnectServer, copied
from spark.pipelines.dead_letters import arrived, letters
from support.broker_process import BrokerProcess
from support.tables import backlog_of, path_of

import magnetar
from magnetar.errors import SettingsError
from magnetar.spark.pipelines.letter.target import Target
from magnetar.spark.pipelines.project import Project
from magnetar.spark.pipelines.redrive import RedriveOptions, stream_options

EARLIEST = magnetar.InitialPosition.Earliest


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    server = ConnectServer(tmp_path_factory.mktemp("connect"))
    yield server
    server.kill()


@pytest.fixture
def addresses(broker: BrokerProcess) -> dict[str, str]:
    return {"serviceUrl": broker.url, "adminUrl": broker.http_url}


def rows(server: ConnectServer, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(server.warehouse / table).to_pylist()
    return found


def test_an_archive(
    server: ConnectServer,
    broker: BrokerProcess,
    publish: Callable[..., None],
    rest: httpx.Client,
    topic: str,
    tmp_path: Path,
) -> None:
    project = copied("archive", tmp_path, serviceUrl=broker.url, topics=topic)
    for run in range(2):
        publish(topic, [f"v{run}-{n}" for n in range(20)], batch=7, partition_key="alice")
        server.run(project, script=run == 0)
        assert backlog_of(rest, topic, "archive") == 0
    values = sorted(row["value"].decode() for row in rows(server, "messages"))
    assert values == sorted(f"v{run}-{n}" for run in range(2) for n in range(20))
    (row,) = rows(server, "messages_by_key")
    assert (row["key"], row["count"]) == (b"alice", 40)


@pytest.fixture
def unacked(client: magnetar.Client, rest: httpx.Client, topic: str) -> list[str]:
    """What the subscription `s` has in its backlog: of two batches one message each, and more."""
    consumer = client.subscribe(topic, "s", magnetar.ConsumerType.Shared, initial_position=EARLIEST)
    producer = client.create_producer(
        topic, producer_name="shop", batching_enabled=True, batching_max_messages=5
    )
    for n in range(20):
        producer.send_async(b"v%d" % n, None, partition_key=f"k{n % 4}")
    producer.flush()
    late_ms = int(time.time() * 1000) + 3_600_000
    client.create_producer(topic, producer_name="late").send(b"later", deliver_at=late_ms)
    received = [consumer.receive(30_000) for _ in range(20)]
    # Of the first ten all but 3 and 7.
    for message in received[:10]:
        if message.partition_key() != "k3":
            consumer.acknowledge(message)
    consumer.close()
    unacked = ["v3", "v7", *(f"v{n}" for n in range(10, 20)), "later"]
    assert backlog_of(rest, topic, "s") == len(unacked)
    return unacked


def test_an_audit(
    server: ConnectServer,
    addresses: dict[str, str],
    client: magnetar.Client,
    rest: httpx.Client,
    topic: str,
    unacked: list[str],
    tmp_path: Path,
) -> None:
    project = copied("audit", tmp_path, **addresses, topic=topic, subscription="s")
    server.run(project)
    messages = {row["value"]: row for row in rows(server, "backlog")}
    assert sorted(messages) == sorted(unacked)
    assert {v for v in messages if messages[v]["overtaken"]} == {"v3", "v7"}
    ages = rows(server, "backlog_by_age")
    assert {row["age"] for row in ages} <= {"up to 1m", "up to 10m"}
    assert sum(row["messages"] for row in ages) == len(unacked)
    assert sum(row["overtaken"] for row in ages) == 2
    keys = {row["key"]: row["messages"] for row in rows(server, "backlog_by_key")}
    assert keys == {"k0": 2, "k1": 2, "k2": 3, "k3": 5}
    producers = {row["producer"]: row["messages"] for row in rows(server, "backlog_by_producer")}
    assert producers == {"shop": 12, "late": 1}
    assert [(r["stuck"], r["messages"]) for r in rows(server, "stuck_keys")] == [("k3", 2)]
    suspects = {(row["kind"], row["value"]) for row in rows(server, "suspects")}
    assert suspects == {("overtaken", "v3"), ("overtaken", "v7"), ("delayed", "later")}
    assert [row["value"] for row in rows(server, "delayed")] == ["later"]
    (partition,) = rows(server, "partitions")
    assert (partition["topic"], partition["messages"]) == (topic, len(unacked))
    assert (partition["holes"], partition["partly_acked"]) == (len(rows(server, "holes")), 2)
    batches = [(row["size"], row["remaining"]) for row in rows(server, "partly_acked_batches")]
    assert batches == [(5, 1), (5, 1)]
    # Nothing was disturbed.
    assert backlog_of(rest, topic, "s") == len(unacked)
    # Again, the tables are made of what there is then.
    late_ms = int(time.time() * 1000) + 7_200_000
    client.create_producer(topic).send(b"last", deliver_at=late_ms)
    server.run(project)
    assert len(rows(server, "backlog")) == len(unacked) + 1
    assert sorted(row["value"] for row in rows(server, "delayed")) == ["last", "later"]
    assert ("delayed", "last") in {(row["kind"], row["value"]) for row in rows(server, "suspects")}
    assert sum(row["messages"] for row in rows(server, "backlog_by_age")) == len(unacked) + 1


def test_a_purge(
    server: ConnectServer,
    addresses: dict[str, str],
    rest: httpx.Client,
    topic: str,
    unacked: list[str],
    tmp_path: Path,
) -> None:
    def purge(where: str, dry_run: str) -> list[str]:
        given = {"topic": topic, "subscription": "s", "where": where, "dryRun": dry_run}
        server.run(copied("purge", tmp_path, **addresses, **given))
        return sorted(row["value"] for row in rows(server, "candidates"))

    # A dry run changes nothing.
    assert purge("key = 'k3'", "true") == ["v11", "v15", "v19", "v3", "v7"]
    assert backlog_of(rest, topic, "s") == len(unacked)
    assert purge("key = 'k3'", "false") == ["v11", "v15", "v19", "v3", "v7"]
    assert backlog_of(rest, topic, "s") == len(unacked) - 5
    # As if the run had been killed before Spark wrote down that it is done.
    (log,) = tmp_path.glob("storage/purge/**/commits")
    for file in log.iterdir():
        file.unlink()
    assert purge("key in ('k3', 'k0')", "false") == ["v12", "v16"]
    assert backlog_of(rest, topic, "s") == len(unacked) - 7


@pytest.fixture
def partitions(client: magnetar.Client, rest: httpx.Client, topic: str) -> list[str]:
    """Those of a topic whose dead letters are in TOPIC-DLQ."""
    rest.put(f"{path_of(topic)}/partitions", json=2).raise_for_status()
    # Without them the broker would delete what is not needed any more.
    client.subscribe(topic, "keep").close()
    client.subscribe(f"{topic}-DLQ", "keep", initial_position=EARLIEST).close()
    partitions = [f"{topic}-partition-{i}" for i in range(2)]
    batches = {"batching_enabled": True, "batching_max_messages": 20}
    # Some name no topic, and one says nothing.
    real = [partitions[1] if n % 10 else "no://topic" for n in range(159)]
    letters(client, f"{topic}-DLQ", range(159), real.__getitem__, **batches)
    client.create_producer(f"{topic}-DLQ").send(b"stray", properties={"n": "159"})
    return partitions


def chosen(numbers: range) -> list[int]:
    """The letters that lead somewhere, and that the predicate of the tests is for."""
    return [n for n in numbers if n % 4 and (n % 10 or n >= 160) and n != 159]


def redrive(addresses: dict[str, str], topic: str, tmp_path: Path, **more: str) -> Path:
    given = {"topic": f"{topic}-DLQ", "where": "properties['n'] % 4 != 0", "rate": "1000/s"}
    return copied("redrive", tmp_path, **addresses, **{**given, **more})


def test_a_redrive_is_shown_first(
    server: ConnectServer,
    addresses: dict[str, str],
    rest: httpx.Client,
    topic: str,
    partitions: list[str],
    tmp_path: Path,
) -> None:
    server.run(redrive(addresses, topic, tmp_path))
    to_go = rows(server, "letters_to_go")
    assert sorted(int(dict(row["properties"])["n"]) for row in to_go) == chosen(range(160))
    assert all(backlog_of(rest, partition, "keep") == 0 for partition in partitions)
    stats = rest.get(f"{path_of(topic)}-DLQ/stats").json()
    assert "redrive-flow" not in stats["subscriptions"]


def test_a_redrive_that_is_killed(
    server: ConnectServer,
    addresses: dict[str, str],
    client: magnetar.Client,
    rest: httpx.Client,
    topic: str,
    partitions: list[str],
    tmp_path: Path,
) -> None:
    def back() -> int:
        return sum(backlog_of(rest, partition, "keep") for partition in partitions)

    # Killed when the first letters are back, of two steps of 80.
    run = server.start(redrive(addresses, topic, tmp_path, rate="16/s", dryRun="false"))
    deadline = time.monotonic() + 300
    while not back():
        assert run.poll() is None, run.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.02)
    server.kill()
    assert back() < len(chosen(range(160)))

    letters(client, f"{topic}-DLQ", range(160, 180), lambda n: partitions[1])
    server.run(redrive(addresses, topic, tmp_path, dryRun="false"))
    messages = arrived(client, partitions)
    counts = Counter(int(message.properties()["n"]) for message in messages)
    assert counts == Counter(chosen(range(180)))
    for message in messages:
        n = int(message.properties()["n"])
        assert message.properties() == {"n": str(n), "REDRIVE_COUNT": "1"}
        assert (message.data(), message.event_timestamp()) == (b"v%d" % n, 1000 + n)
        assert message.partition_key() == (f"k{n % 5}" if n % 2 else "")
        # Without a key it is back where it was.
        assert n % 2 or message.topic_name() == partitions[1]
    kept = rows(server, "letters")
    assert sorted(int(dict(row["properties"])["n"]) for row in kept) == list(range(180))
    assert backlog_of(rest, f"{topic}-DLQ", "redrive-flow") == 0


def test_a_stream_does_not_begin_where_single_letters_are_acked(
    client: magnetar.Client, topic: str, target: Target
) -> None:
    options = RedriveOptions(target, topic, "ops")
    consumer = client.subscribe(topic, "ops", magnetar.ConsumerType.Shared)
    producer = client.create_producer(topic)
    for n in range(3):
        producer.send(b"v%d" % n)
    assert stream_options(options)["subscription"] == "ops"
    received = [consumer.receive(30_000) for _ in range(3)]
    consumer.acknowledge(received[1])
    consumer.close()
    with pytest.raises(SettingsError, match="ops has acked single letters"):
        stream_options(options)


def test_what_a_spec_may_say() -> None:
    def project(**configuration: str) -> Project:
        given = {f"magnetar.{name}": value for name, value in configuration.items()}
        spark: Any = SimpleNamespace(conf=SimpleNamespace(getAll={"spark.x": "y", **given}))
        return Project(spark, "topic", "limit", "dryRun")

    url = "pulsar://a:1"
    found = project(serviceUrl=url, adminUrl="http://a:2", authToken="x", topic="t", limit="7")
    assert found.target.options() == {
        "serviceUrl": url,
        "adminUrl": "http://a:2",
        "authToken": "x",
    }
    assert (found.text("topic"), found.number("limit", 0), found.dry_run) == ("t", 7, True)
    assert not project(serviceUrl=url, dryRun="False").dry_run
    with pytest.raises(SettingsError, match=r"magnetar\.serviceUrl: missing in the configuration"):
        project()
    with pytest.raises(SettingsError, match=r"magnetar\.dryrun: there are .*dryRun"):
        project(serviceUrl=url, dryrun="false")
    with pytest.raises(SettingsError, match=r"magnetar\.dryRun: 'no' is neither"):
        _ = project(serviceUrl=url, dryRun="no").dry_run
    with pytest.raises(SettingsError, match=r"magnetar\.limit: '-1' is not a number"):
        project(serviceUrl=url, limit="-1").number("limit", 0)
