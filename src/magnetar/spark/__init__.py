"""Topics as DataFrames: `spark.read.format("magnetar")`, streams, and a sink.

Spark finds the format by itself where this package is installed with `magnetar[spark]`.
`attach(spark)` acks micro-batches as soon as Spark has committed them: docs/spark.md.

Nothing of Spark is imported before it is used: what is in `plan` does without.
"""

import importlib
from types import TracebackType
from typing import Any, Protocol

__all__ = ["Attached", "attach"]


class Attached(Protocol):
    """What `attach` returns: to be closed, or to be left as a `with` block."""

    def wait(self, timeout_s: float = 60.0) -> bool:
        """Waits until the acks of all that Spark has told of so far were tried."""

    def close(self) -> None:
        """Stops to listen; acks that Spark has told of are sent before."""

    def __enter__(self) -> "Attached": ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


def attach(spark: Any, **options: str) -> Attached:
    """Acks the micro-batches of all queries of a SparkSession, once they are committed.

    `options` are those that tell how to connect, such as `authToken`; the service URL and
    the subscription come from each query.
    """
    listener = importlib.import_module("magnetar.spark.listener")
    attached: Attached = listener.AckListener.attached_to(spark, options)
    return attached
