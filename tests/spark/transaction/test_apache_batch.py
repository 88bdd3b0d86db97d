"""Micro-batches in transactions of Apache Pulsar: the same protocol, and another coordinator."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from spark.transaction import query
from spark.transaction.query import begin, rows_of_task, run_batch, run_task, topics_of

import magnetar
from magnetar.spark.connect import drop_clients
from magnetar.spark.sink import StreamWriter

pytestmark = pytest.mark.apache


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    from apache.harness import ApachePulsar, require_artifacts

    require_artifacts()
    with ApachePulsar(fsync=False, transactions=True) as server:
        yield server.url
        drop_clients()


def test_each_micro_batch_is_there_once_whoever_dies_when(
    url: str, checkpoint: str, topic: str
) -> None:
    given = query.write_options(url, checkpoint, topic)
    with magnetar.Client(url, stats_interval_in_seconds=0) as client:
        reader = client.subscribe(topics_of(topic), "seen")
        run_batch(given, 0, topic)
        # The driver died before Spark wrote down that it was committed.
        run_batch(given, 0, topic)
        # It died before the commit, and left the transaction open.
        left = begin(given)
        run_task(left, 1, 0, topic)
        run_batch(given, 1, topic)
        # Another one knows nothing of it.
        zombie = begin(given)
        written = [run_task(zombie, 2, task, topic) for task in range(query.TASKS)]
        (Path(checkpoint) / "magnetar-sink" / "transaction").unlink()
        run_batch(given, 2, topic)
        StreamWriter(given, query.SCHEMA, False).commit(list(written), 2)
        wanted = Counter(
            value
            for batch_id in range(3)
            for task in range(query.TASKS)
            for _, value in rows_of_task(batch_id, task, topic)
        )
        found: Counter[str] = Counter()
        while sum(found.values()) < sum(wanted.values()):
            found[reader.receive(30_000).data().decode()] += 1
        with pytest.raises(magnetar.Timeout):
            reader.receive(1000)
        assert found == wanted
