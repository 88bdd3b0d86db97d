"""The traps of Spark's API, each with the test that guards against it.

Most are guarded where they belong; those that belong nowhere else are here.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import BinaryType, StructType
from support.tables import Tables, path_of
from support.waiting import wait_until

from magnetar.spark.connect import client_of, drop_clients
from magnetar.spark.digests import DigestMismatchError, Digests
from magnetar.spark.frame import arrow_schema
from magnetar.spark.plan.options import ReadOptions, WriteOptions
from magnetar.spark.publish import TaskId
from magnetar.spark.publish import publish as publish_rows
from magnetar.spark.sink import StreamWriter, Written
from magnetar.spark.source import MagnetarDataSource

Publish = Callable[..., None]

# Trap: file, test.
GUARDS = {
    "initialOffset is asked for twice": ("test_streaming", "test_a_stream_from_the_end"),
    "initialOffset is asked for after a restart": (
        "test_streaming",
        "test_a_start_is_pinned_by_the_subscription",
    ),
    "offsets are compared as text, key order included": (
        "plan/test_offsets",
        "test_they_come_back_from_json_as_the_same_text",
    ),
    "a restart with an uncommitted batch": (
        "test_spark",
        "test_a_batch_that_was_not_committed_is_run_again",
    ),
    "an uncommitted batch is planned from its offsets alone": (
        "test_streaming",
        "test_an_uncommitted_batch_is_planned_alike_by_another_process",
    ),
    "abort after commit": ("test_guards", "test_an_abort_after_a_commit_undoes_nothing"),
    "an idle query polls a hundred times in seconds": (
        "test_streaming",
        "test_an_idle_stream_does_not_ask_at_every_poll",
    ),
    "a partition is added": ("test_streaming", "test_partitions_that_are_added_are_read"),
    "a ledger is trimmed": ("test_reading", "test_a_position_that_was_trimmed_is_a_loss"),
    "a ledger is trimmed under a stream": (
        "test_bad_input",
        "test_a_stream_whose_place_was_trimmed",
    ),
    "a batch is split in its middle": (
        "test_streaming",
        "test_rows_per_trigger_are_exact_inside_of_batches",
    ),
    "stop is never called, but for SIGTERM": ("test_guards", "test_sigterm_closes_what_is_open"),
    "the broker reconnects in the middle of a split": (
        "test_reading",
        "test_connections_that_break_in_the_middle_of_a_split",
    ),
    "the same DataFrame twice": ("test_spark", "test_a_topic_is_a_table"),
    "pushFilters with its conf on and off": (
        "test_spark",
        "test_filters_are_right_whether_spark_pushes_them_down_or_not",
    ),
    "neither latestOffset nor commit after the last batch of a query that is stopped": (
        "test_spark",
        "test_a_listener_acks_the_last_batch_of_a_query_that_is_stopped",
    ),
    "the last batch of AvailableNow is never committed in its run": (
        "test_spark",
        "test_a_stream_goes_on_where_it_was",
    ),
    "a replay of a sink has its rows in another order": (
        "test_sinking",
        "test_a_second_run_publishes_nothing_more",
    ),
    "a replay of a sink has other rows": (
        "test_sinking",
        "test_other_rows_in_a_second_run_fail_and_send_nothing",
    ),
    "a plan without splits": (
        "test_guards",
        "test_a_plan_without_splits_has_one_that_is_none",
    ),
    "only the first record batch of a task is checked": (
        "test_guards",
        "test_every_record_batch_is_as_the_schema_says",
    ),
    "workers are forked from a daemon that may have connections": (
        "test_guards",
        "test_a_forked_worker_has_a_client_of_its_own",
    ),
    "Trigger.Once asks for no offset after its batch": (
        "test_spark",
        "test_each_batch_is_acked_when_it_is_committed_and_not_before",
    ),
    "tables by SQL have not their options, views have": (
        "test_spark",
        "test_a_view_by_sql_has_its_options",
    ),
    "rows that time out must not be overtaken by later ones": (
        "test_sinking",
        "test_nothing_overtakes_rows_that_a_broker_did_not_answer",
    ),
    "rows that are refused must not count as stored": (
        "test_sinking",
        "test_rows_that_a_topic_refused_are_never_taken_for_sent",
    ),
    "importing a package that Spark looks into must not raise": (
        "test_package",
        "test_importing_it_never_raises",
    ),
    "workers without this Python's packages": (
        "test_cluster",
        "test_tasks_of_a_read_run_on_both_workers",
    ),
}


@pytest.mark.parametrize("trap", GUARDS)
def test_each_trap_has_its_guard(trap: str) -> None:
    file, test = GUARDS[trap]
    assert f"def {test}(" in (Path(__file__).parent / f"{file}.py").read_text()


def test_an_abort_after_a_commit_undoes_nothing(
    options: dict[str, str], checkpoint: str, tables: Tables
) -> None:
    """Spark aborts a micro-batch whose commit has failed, though all of it may be published."""
    given = {**options, "checkpointLocation": checkpoint}
    rows = pa.RecordBatch.from_pydict({"value": pa.array([b"a", b"b"], pa.binary())})
    publish_rows(WriteOptions(given), TaskId("q", 5, 0, 0), iter([rows]))
    writer = StreamWriter(given, StructType().add("value", BinaryType()), False)
    Digests(checkpoint, "q").claim(5, 1, "of a task that this run does not have", {})
    with pytest.raises(DigestMismatchError):
        writer.commit([Written("q", 0, 2)], 5)
    writer.abort([Written("q", 0, 2), None], 5)
    assert tables.values() == ["a", "b"]
    # And the second run finds the digests that it must compare with.
    assert Digests(checkpoint, "q").tasks(5) == {0, 1}


def test_a_plan_without_splits_has_one_that_is_none(tables: Tables) -> None:
    """Spark makes a task nonetheless, and hands it a partition without anything."""
    assert list(tables._reader("value binary", {}).read(InputPartition(None))) == []


def test_every_record_batch_is_as_the_schema_says(
    publish: Publish, topic: str, options: dict[str, str], tables: Tables
) -> None:
    """Spark compares the first one; others it would take for what they are not."""
    publish(topic, ["plain"] * 5)
    publish(topic, ["full"] * 5, batch=2, partition_key="k", properties={"a": "b"})
    publish(topic, ["timed"] * 5, ordering_key="o", event_timestamp=5, deliver_at=6)
    given = {**options, "badRecords": "column", "rowsPerBatch": "2", "valueSchema": "string"}
    source = MagnetarDataSource(given)
    reader = source.reader(source.schema())
    (split,) = reader.partitions()
    batches = list(reader.read(split))
    assert len(batches) > 5
    assert {str(batch.schema) for batch in batches} == {str(arrow_schema(source.schema()))}


def test_a_forked_worker_has_a_client_of_its_own(
    options: dict[str, str], tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = ReadOptions(options, streaming=False).connection
    first = client_of(connection)
    assert client_of(connection) is first
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: 1)
        own = client_of(connection)
        assert own is not first
        drop_clients()
    first.close()


READER = """
import sys, time
from support.tables import Tables
reader = Tables({"serviceUrl": sys.argv[1], "topic": sys.argv[2]}).stream()
reader.initialOffset()
try:
    print("ready", flush=True)
    time.sleep(600)
finally:
    reader.stop()
    print("stopped", flush=True)
"""


def test_sigterm_closes_what_is_open(
    publish: Publish, topic: str, options: dict[str, str], rest: httpx.Client
) -> None:
    """Spark ends a reader's process by SIGTERM; nobody is left behind at the broker."""
    publish(topic, ["v"])
    tests = str(Path(__file__).parent.parent)
    path = os.pathsep.join([tests, os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [sys.executable, "-c", READER, options["serviceUrl"], topic],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        assert subscriptions(rest, topic) == 1
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert (said, process.returncode) == ("stopped\n", 0)
    wait_until(lambda: not subscriptions(rest, topic), lambda: "the reader did not say goodbye")


def subscriptions(rest: httpx.Client, topic: str) -> int:
    return len(rest.get(f"{path_of(topic)}/stats").raise_for_status().json()["subscriptions"])
