"""A query that writes micro-batches in transactions, as Spark would, in one process without a JVM.

    python query.py URL CHECKPOINT BATCHES TARGET [STEP]

Its rows follow from the number of the micro-batch: two tasks, each to two topics. What Spark has
committed is a number in CHECKPOINT/committed, as Spark has files. With a STEP such as
`after Markers.replace` the process kills itself there, at its first micro-batch.
"""

import os
import pickle
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.types import BinaryType, StringType, StructType

from magnetar.client.engine.coordinator import COMMIT, Coordinator
from magnetar.spark import publish as publishing
from magnetar.spark.checkpoint_files import CheckpointFiles
from magnetar.spark.plan.options import WriteOptions
from magnetar.spark.publish import TaskId, publish
from magnetar.spark.sink import StreamWriter, Written
from magnetar.spark.transaction.batch import BatchTransaction
from magnetar.spark.transaction.markers import Markers

QUERY = "query"
SCHEMA = StructType().add("value", BinaryType()).add("topic", StringType())
TASKS = 2
ROWS = 6


def topics_of(target: str) -> list[str]:
    return [f"{target}-a", f"{target}-b"]


def rows_of_task(batch_id: int, task: int, target: str) -> list[tuple[str, str]]:
    """Topic and value of each row."""
    topics = topics_of(target)
    return [(topics[n % 2], f"{batch_id}-{task}-{n}") for n in range(ROWS)]


def write_options(url: str, checkpoint: str, target: str, **more: str) -> dict[str, str]:
    given = {"serviceUrl": url, "checkpointLocation": checkpoint, "delivery": "transaction"}
    return {**given, "transactionTopic": f"{target}-markers", **more}


def begin(options: dict[str, str]) -> StreamWriter:
    """Plans: the writer goes to tasks, and comes out there as another."""
    writer: StreamWriter = pickle.loads(pickle.dumps(StreamWriter(options, SCHEMA, False)))
    return writer


def run_task(
    writer: StreamWriter, batch_id: int, task: int, target: str, attempt: int = 0
) -> Written:
    rows = rows_of_task(batch_id, task, target)
    batch = pa.RecordBatch.from_pydict(
        {
            "value": pa.array([value.encode() for _, value in rows], pa.binary()),
            "topic": [topic for topic, _ in rows],
        }
    )
    transaction = writer._transaction
    assert transaction is not None
    count = publish(
        WriteOptions(writer._write._options),
        TaskId(QUERY, batch_id, task, attempt),
        iter([batch]),
        transaction,
    )
    written: Written = pickle.loads(pickle.dumps(Written(QUERY, task, count, transaction)))
    return written


def run_batch(options: dict[str, str], batch_id: int, target: str) -> None:
    writer = begin(options)
    written = [run_task(writer, batch_id, task, target) for task in range(TASKS)]
    # Spark makes another writer to commit.
    StreamWriter(options, SCHEMA, False).commit(list(written), batch_id)


# ---- Being killed ------------------------------------------------------------


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


STEPS: dict[str, tuple[type | Any, str]] = {
    "begin": (BatchTransaction, "begin"),
    "claim": (BatchTransaction, "claim"),
    "publish": (publishing._Sending, "flush"),
    "open markers": (Markers, "open"),
    "replace the marker": (Markers, "replace"),
    "write a file": (CheckpointFiles, "write"),
    "end": (Coordinator, "end"),
    "forget": (BatchTransaction, "_forget"),
}
KILLS = [f"{when} {step}" for step in STEPS for when in ("before", "after")]
# Asked, and dead before the answer.
KILLS.append("during end")


def kill_at(step: str) -> None:
    when, _, name = step.partition(" ")
    owner, attribute = STEPS[name]
    plain: Callable[..., Any] = getattr(owner, attribute)
    if name == "end":
        setattr(owner, attribute, _dying_end(when, plain))
    elif name in ("publish", "open markers", "replace the marker"):
        setattr(owner, attribute, _dying_coroutine(when, plain))
    elif name == "begin":
        setattr(owner, attribute, classmethod(_dying(when, plain.__func__)))  # type: ignore[attr-defined]
    else:
        setattr(owner, attribute, _dying(when, plain))


def _dying(when: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    def dies(*arguments: Any) -> Any:
        if when == "before":
            die()
        plain(*arguments)
        die()

    return dies


def _dying_coroutine(when: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    async def dies(*arguments: Any) -> Any:
        if when == "before":
            die()
        await plain(*arguments)
        die()

    return dies


def _dying_end(when: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    """Of commits alone: what an earlier run left open is aborted first."""

    async def end(self: Coordinator, id: Any, action: int) -> None:
        if action != COMMIT:
            await plain(self, id, action)
            return
        if when == "before":
            die()
        if when == "during":
            # What was written is with the kernel, and goes out.
            connection = await self._connect()
            write = connection.write

            def write_and_die(*arguments: Any, **named: Any) -> None:
                write(*arguments, **named)
                die()

            connection.write = write_and_die  # type: ignore[method-assign]
        await plain(self, id, action)
        die()

    return end


def main() -> None:
    url, checkpoint, batches, target, *step = sys.argv[1:]
    if step:
        kill_at(step[0])
    committed = Path(checkpoint) / "committed"
    options = write_options(url, checkpoint, target)
    first = int(committed.read_text()) + 1 if committed.exists() else 0
    for batch_id in range(first, int(batches)):
        run_batch(options, batch_id, target)
        committed.write_text(str(batch_id))
    print("done")


if __name__ == "__main__":
    main()
