"""Micro-batches in transactions: each is there once, whole or not at all, whoever dies when."""

import os
import pickle
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from spark.transaction import query
from spark.transaction.query import begin, rows_of_task, run_batch, run_task, topics_of
from support.broker_process import BrokerProcess
from support.tables import Tables, rows_of

import magnetar
from magnetar.arrow.loss import DataLossError
from magnetar.errors import (
    MagnetarError,
    SettingsError,
    TransactionConflict,
    TransactionsDisabledError,
)
from magnetar.spark.connect import drop_clients
from magnetar.spark.plan.options import WriteOptions
from magnetar.spark.publish import TaskId, publish
from magnetar.spark.sink import BatchWriter, StreamWriter
from magnetar.spark.transaction.batch import BatchTransaction, RowsSentError
from magnetar.spark.transaction.markers import Markers, MarkersGoneError

Options = dict[str, str]


@pytest.fixture
def given(broker: BrokerProcess, checkpoint: str, topic: str, tables: Tables) -> Options:
    """Options of a sink; `tables` closes the clients of this process."""
    return query.write_options(broker.url, checkpoint, topic)


@pytest.fixture
def seen(client: magnetar.Client, topic: str) -> Callable[[], Counter[str]]:
    """What is to be seen in both topics, from the beginning; nothing that is not committed."""
    reader = client.subscribe(
        topics_of(topic), "seen", initial_position=magnetar.InitialPosition.Earliest
    )
    found: Counter[str] = Counter()

    def seen() -> Counter[str]:
        while True:
            try:
                message = reader.receive(400)
            except magnetar.Timeout:
                return found
            found[message.data().decode()] += 1
            assert message.topic_name() == place_of(message.data().decode(), topic)

    return seen


def place_of(value: str, topic: str) -> str:
    return topics_of(topic)[int(value.rpartition("-")[2]) % 2]


def batches(count: int, topic: str) -> Counter[str]:
    """What micro-batches publish, each once."""
    return Counter(
        value
        for batch_id in range(count)
        for task in range(query.TASKS)
        for _, value in rows_of_task(batch_id, task, topic)
    )


def names(checkpoint: str) -> list[str]:
    return sorted(path.name for path in (Path(checkpoint) / "magnetar-sink").iterdir())


Seen = Callable[[], Counter[str]]


# ---- As it should be ---------------------------------------------------------


def test_a_micro_batch_is_seen_in_all_topics_when_it_is_committed_and_not_before(
    given: Options, topic: str, checkpoint: str, seen: Seen
) -> None:
    writer = begin(given)
    written = [run_task(writer, 0, task, topic) for task in range(query.TASKS)]
    assert seen() == Counter()
    StreamWriter(given, query.SCHEMA, False).commit(list(written), 0)
    assert seen() == batches(1, topic)
    for batch_id in range(1, 4):
        run_batch(given, batch_id, topic)
    assert seen() == batches(4, topic)
    assert names(checkpoint) == ["markers-query"], "nothing of what is done is kept"


def test_a_micro_batch_that_was_committed_before_is_not_published_again(
    given: Options, topic: str, seen: Seen
) -> None:
    for batch_id in (0, 1, 1, 1, 2):
        run_batch(given, batch_id, topic)
    assert seen() == batches(3, topic)


def test_a_micro_batch_without_rows_is_nothing(given: Options, topic: str, seen: Seen) -> None:
    run_batch(given, 0, topic)
    begin(given)
    StreamWriter(given, query.SCHEMA, False).commit([], 1)
    run_batch(given, 2, topic)
    wanted = batches(3, topic)
    assert seen() == Counter({row: n for row, n in wanted.items() if not row.startswith("1-")})


def test_a_batch_write_is_one_transaction(
    broker: BrokerProcess, checkpoint: str, topic: str, tables: Tables, seen: Seen
) -> None:
    for given in ({"checkpointLocation": checkpoint}, {}):
        options = {"serviceUrl": broker.url, "delivery": "transaction", **given}
        for publishes in (True, False):
            writer: Any = pickle.loads(pickle.dumps(BatchWriter(options, query.SCHEMA, False)))
            before = seen()
            messages: list[Any] = [run_task(writer, 0, task, topic) for task in range(2)]
            assert seen() == before
            if publishes:
                writer.commit(messages)
            else:
                writer.abort(messages)
    assert seen() == Counter(dict.fromkeys(batches(1, topic), 2))


@pytest.mark.parametrize("open_behind", [False, True])
def test_readers_pass_over_what_was_aborted_and_stop_at_what_is_open(
    given: Options, broker: BrokerProcess, topic: str, open_behind: bool
) -> None:
    run_batch(given, 0, topic)
    aborted = begin(given)
    written = [run_task(aborted, 1, task, topic) for task in range(query.TASKS)]
    StreamWriter(given, query.SCHEMA, False).abort(list(written), 1)
    run_batch(given, 1, topic)
    if open_behind:
        unfinished = begin(given)
        run_task(unfinished, 2, 0, topic)
    options = {"serviceUrl": broker.url, "topic": topics_of(topic)[0]}
    with pytest.raises(DataLossError):
        Tables(options).values()  # nobody says that they were aborted, and not lost
    options["adminUrl"] = broker.http_url
    wanted = [v for v in batches(2, topic) if place_of(v, topic) == options["topic"]]
    assert sorted(Tables(options).values()) == sorted(wanted)
    stream = Tables(options).stream(startingOffsets="earliest")
    start = stream.initialOffset()
    end = stream.latestOffset(start, ReadAllAvailable())
    rows = [row for split in stream.partitions(start, end) for row in rows_of(stream.read(split))]
    assert sorted(row["value"].decode() for row in rows) == sorted(wanted)


# ---- Tasks that are run again ------------------------------------------------


def test_a_task_that_has_sent_is_not_run_again_in_its_transaction(
    given: Options, topic: str, seen: Seen
) -> None:
    writer = begin(given)
    run_task(writer, 0, 0, topic)
    with pytest.raises(RowsSentError, match="run the query again"):
        run_task(writer, 0, 0, topic, attempt=1)
    # Spark gives up the query; whoever runs it again has it done once.
    run_batch(given, 0, topic)
    assert seen() == batches(1, topic)


def test_a_task_that_died_before_it_sent_is_run_again(
    given: Options, topic: str, seen: Seen
) -> None:
    class Lost:
        def __iter__(self) -> "Lost":
            return self

        def __next__(self) -> pa.RecordBatch:
            raise ConnectionError("the rows cannot be had")

    writer = begin(given)
    transaction = writer._transaction
    with pytest.raises(ConnectionError):
        publish(WriteOptions(given), TaskId("query", 0, 0, 0), Lost(), transaction)
    written = [run_task(writer, 0, task, topic, attempt=1 - task) for task in range(query.TASKS)]
    StreamWriter(given, query.SCHEMA, False).commit(list(written), 0)
    assert seen() == batches(1, topic)


def test_without_a_checkpoint_a_second_run_of_a_task_is_refused(
    broker: BrokerProcess, topic: str, tables: Tables
) -> None:
    options = {"serviceUrl": broker.url, "delivery": "transaction", "topic": topic}
    transaction = BatchTransaction.begin(WriteOptions(options))
    transaction.claim(0, 0)
    with pytest.raises(SettingsError, match="nobody can tell"):
        transaction.claim(0, 1)
    transaction.abort(WriteOptions(options))


def test_a_failed_micro_batch_is_aborted_at_once(given: Options, topic: str, seen: Seen) -> None:
    writer = begin(given)
    written = run_task(writer, 0, 0, topic)
    StreamWriter(given, query.SCHEMA, False).abort([None, written], 0)
    with pytest.raises(MagnetarError, match=r"aborted|no transaction"):
        StreamWriter(given, query.SCHEMA, False).commit([written], 0)
    run_batch(given, 0, topic)
    assert seen() == batches(1, topic)


# ---- Two drivers -------------------------------------------------------------


def test_a_driver_that_was_thought_to_be_dead_commits_nothing(
    given: Options, topic: str, seen: Seen
) -> None:
    run_batch(given, 0, topic)
    zombie = begin(given)
    written = [run_task(zombie, 1, task, topic) for task in range(query.TASKS)]
    run_batch(given, 1, topic)
    StreamWriter(given, query.SCHEMA, False).commit(list(written), 1)
    assert seen() == batches(2, topic)
    # It has nothing to do with a micro-batch that is not done, either.
    zombie = begin(given)
    written = [run_task(zombie, 2, task, topic) for task in range(query.TASKS)]
    begin(given)
    with pytest.raises(MagnetarError, match=r"ABORTED|aborted|no transaction|ended"):
        StreamWriter(given, query.SCHEMA, False).commit(list(written), 2)
    run_batch(given, 2, topic)
    assert seen() == batches(3, topic)


def test_of_two_transactions_behind_one_marker_one_is_committed(
    given: Options, topic: str, checkpoint: str, seen: Seen
) -> None:
    """Though neither knows of the other, as if each had a copy of the checkpoint."""
    run_batch(given, 0, topic)
    first = begin(given)
    mine = [run_task(first, 1, task, topic) for task in range(query.TASKS)]
    (Path(checkpoint) / "magnetar-sink" / "transaction").unlink()
    second = begin(given)
    others = [run_task(second, 1, task, topic) for task in range(query.TASKS)]
    StreamWriter(given, query.SCHEMA, False).commit(list(others), 1)
    StreamWriter(given, query.SCHEMA, False).commit(list(mine), 1)
    assert seen() == batches(2, topic)


def test_a_marker_that_another_transaction_holds_is_a_conflict(
    given: Options, topic: str, client: magnetar.Client, monkeypatch: pytest.MonkeyPatch, seen: Seen
) -> None:
    run_batch(given, 0, topic)
    replace = Markers.replace

    async def late(self: Any, batch_id: int, transaction: Any) -> None:
        # Somebody else was quicker.
        assert self._marker is not None
        await self._consumer.acknowledge(self._marker)
        await replace(self, batch_id, transaction)

    writer = begin(given)
    written = [run_task(writer, 1, task, topic) for task in range(query.TASKS)]
    with monkeypatch.context() as patch:
        patch.setattr(Markers, "replace", late)
        with pytest.raises((TransactionConflict, magnetar.Interrupted)):
            StreamWriter(given, query.SCHEMA, False).commit(list(written), 1)
    assert seen() == batches(1, topic)


# ---- What is refused ---------------------------------------------------------


def test_markers_that_are_gone_are_not_taken_for_a_new_query(
    given: Options, topic: str, client: magnetar.Client, seen: Seen
) -> None:
    run_batch(given, 0, topic)
    consumer = client.subscribe(f"{topic}-markers", "magnetar-sink")
    consumer.acknowledge(consumer.receive(30_000))
    consumer.close()
    with pytest.raises(MarkersGoneError, match="no marker of the last micro-batch"):
        run_batch({**given, "operationTimeoutSeconds": "1"}, 1, topic)
    assert seen() == batches(1, topic)


def test_a_broker_without_transactions_is_told_of(
    tmp_path: Path, checkpoint: str, topic: str, tables: Tables
) -> None:
    with BrokerProcess(tmp_path / "plain") as plain:
        with pytest.raises(TransactionsDisabledError):
            begin(query.write_options(plain.url, checkpoint, topic))
        drop_clients()


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"transactionTimeout": "0"}, "transactionTimeout"),
        ({"transactionTimeout": "soon"}, "transactionTimeout"),
        ({"delivery": "atLeastOnce", "transactionTimeout": "1m"}, "transactionTimeout"),
        ({"delivery": "atLeastOnce", "transactionTopic": "t"}, "transactionTopic"),
        ({"checkpointLocation": ""}, "checkpointLocation"),
        ({"delivery": "transactions"}, "delivery"),
    ],
)
def test_options_that_make_no_sense_are_refused(wrong: Options, named: str) -> None:
    options = {"serviceUrl": "pulsar://nowhere", "delivery": "transaction", "topic": "t"}
    with pytest.raises(SettingsError, match=named):
        StreamWriter({**options, "checkpointLocation": "/nowhere", **wrong}, query.SCHEMA, False)


# ---- Killed ------------------------------------------------------------------


@pytest.mark.once
def test_a_query_that_is_killed_before_and_after_each_step_publishes_each_row_once(
    given: Options, broker: BrokerProcess, checkpoint: str, topic: str, seen: Seen
) -> None:
    """Each process is killed in its first micro-batch, and the next one does that again."""
    Path(checkpoint).mkdir()
    count = len(query.KILLS)
    run: list[Any] = [sys.executable, query.__file__, broker.url, checkpoint, str(count), topic]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for step in query.KILLS:
        killed = subprocess.run([*run, step], env=environment, timeout=120, check=False)
        assert killed.returncode == -signal.SIGKILL, step
    ran = subprocess.run(
        run, env=environment, timeout=120, check=False, capture_output=True, text=True
    )
    assert ran.stdout == "done\n", ran.stderr
    assert seen() == batches(count, topic)
