"""The connector on a real cluster: a standalone master, and two workers in processes of their own.

One job does it all, submitted as users submit theirs; each test looks at a part of it.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest
from support import cluster_job
from support.broker_process import BrokerProcess
from support.spark_cluster import SparkCluster
from support.tables import Tables, path_of

import magnetar
from magnetar.spark.connect import drop_clients

TOPIC = "persistent://public/default/cluster"
SINK = "persistent://public/default/cluster-sink"
TEXTS = sorted(f"v{i}" for i in range(400))


@pytest.fixture(scope="module")
def found(broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with magnetar.Client(broker.url, stats_interval_in_seconds=0) as client:
        client.subscribe(
            TOPIC,
            "apps",
            magnetar.ConsumerType.Shared,
            initial_position=magnetar.InitialPosition.Earliest,
        ).close()
        producer = client.create_producer(
            TOPIC,
            batching_enabled=True,
            batching_max_messages=7,
            batching_max_publish_delay_ms=9999,
        )
        for i in range(len(TEXTS)):
            producer.send_async(b"v%d" % i, None, partition_key=f"k{i % 3}")
        producer.flush()
    scratch = tmp_path_factory.mktemp("cluster")
    given = {"serviceUrl": broker.url, "adminUrl": broker.http_url, "topic": TOPIC, "sink": SINK}
    with SparkCluster(scratch / "spark") as cluster:
        said = cluster.submit(
            Path(cluster_job.__file__), json.dumps({**given, "scratch": str(scratch)})
        )
    found = json.loads(said.splitlines()[-1])
    found["streamed"] = streamed(scratch / "out")
    yield found
    drop_clients()


def streamed(out: Path) -> list[bytes]:
    """What a stream has committed; tasks that were killed leave files that nobody reads."""
    logs = [path for path in (out / "_spark_metadata").iterdir() if path.name.isdigit()]
    lines = [line for path in logs for line in path.read_text().splitlines()[1:]]
    files = [json.loads(line)["path"].removeprefix("file://") for line in lines]
    return [value for file in files for value in pq.read_table(file).column("value").to_pylist()]


def test_tasks_of_a_read_run_on_both_workers(found: Any) -> None:
    assert found["read"] == TEXTS
    assert len(found["executors"]) == 2


def test_a_stream_survives_an_executor_that_is_killed(found: Any, rest: httpx.Client) -> None:
    assert found["batches"] == 2
    assert sorted(value.decode() for value in found["streamed"]) == TEXTS
    stats = rest.get(f"{path_of(TOPIC)}/stats").raise_for_status().json()
    assert stats["subscriptions"]["archive"]["msgBacklog"] == 0
    assert stats["subscriptions"]["archive"]["consumers"] == []


def test_tasks_of_a_sink_publish_once(found: Any, options: dict[str, str]) -> None:
    sink = Tables({**options, "topic": SINK})
    assert sorted(sink.values()) == TEXTS
    rows = sink.read("key binary, producer string")
    assert {row["key"] for row in rows} == {b"k0", b"k1", b"k2"}
    assert len({row["producer"] for row in rows}) > 1


def test_what_a_query_finds_is_skipped(found: Any, options: dict[str, str]) -> None:
    left = Tables({**options, "topic": TOPIC}).values(mode="backlog", subscription="apps")
    assert sorted(left) == [text for text in TEXTS if not text.startswith("v1")]
