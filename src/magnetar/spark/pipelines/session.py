"""A Spark for a pipeline: the one that is there, or one of its own that ends with it.

| there is already         | then                                                               |
|--------------------------|--------------------------------------------------------------------|
| a SparkSession           | it is used and left running                                        |
| spark-submit             | a session by its settings; ended                                   |
| nothing                  | a JVM here with `master`, all cores if none is named; ended        |

Of a JVM here everything that it and its workers log goes to a file in the directory for temporary
files, so that a terminal shows progress alone. The file is kept, and named, if Spark itself fails,
and left if all is killed; whoever starts a Spark more than a day later removes it.

Acks are attached to the session: a micro-batch is acknowledged once Spark has committed it.

Errors that Spark raises leave the block as errors of ours.
"""

import contextlib
import fcntl
import importlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from magnetar.errors import MagnetarError, SettingsError
from magnetar.spark import attach
from magnetar.spark.pipelines.failure import PipelineError, failure_of
from magnetar.spark.pipelines.java import find_java
from magnetar.spark.pipelines.letter.target import Target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["LOCAL", "session"]

# All cores; a task is tried four times, as on a cluster, which plain `local[*]` does not.
LOCAL = "local[*,4]"
# How long a log is of use that nobody writes any more.
LOG_KEPT_S = 86_400
# What a session of ours is told unless `conf` says otherwise.
_LOCAL_CONF = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "8",
}
_CONF = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


@contextlib.contextmanager
def session(
    name: str, target: Target, *, master: str = "", conf: Mapping[str, str] | None = None
) -> "Iterator[SparkSession]":
    """A SparkSession whose micro-batches are acked. Raises SettingsError without Java or Spark."""
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession

        gateway_error: type[Exception] = importlib.import_module("py4j.protocol").Py4JError
    except ImportError as error:
        raise SettingsError("spark", f"{error}: pip install '.[spark]' in a clone") from None
    taken = SparkSession.getActiveSession()
    options = {k: v for k, v in target.options().items() if k != "serviceUrl"}
    with _log(name, wanted=taken is None and "PYSPARK_GATEWAY_PORT" not in os.environ) as started:
        try:
            spark = taken or _make(name, master, conf or {})
            started()
            with attach(spark, **options):
                yield spark
        except (PySparkException, gateway_error) as error:
            raise failure_of(error) from error
        finally:
            if taken is None and (made := SparkSession.getActiveSession()) is not None:
                made.stop()


def _make(name: str, master: str, conf: Mapping[str, str]) -> "SparkSession":
    from pyspark.sql import SparkSession

    settings = {"spark.app.name": f"magnetar {name}", **_CONF}
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        os.environ["JAVA_HOME"] = str(find_java())
        # Workers must have what this interpreter has.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        master = master or LOCAL
    if master:
        settings["spark.master"] = master
        if master.startswith("local"):
            settings.update(_LOCAL_CONF)
    builder = SparkSession.builder
    for key, value in {**settings, **conf}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


@contextlib.contextmanager
def _log(name: str, *, wanted: bool) -> "Iterator[_Started]":
    """Sends standard error of the JVM that is started inside to a file, until it is started."""
    if not wanted:
        yield _Started(None)
        return
    _remove_old_logs()
    descriptor, path = tempfile.mkstemp(prefix=f"magnetar-{name}-", suffix=".log")
    # Held by the JVM too, for as long as it lives.
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    sys.stderr.flush()
    ours = os.dup(2)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    started = _Started(ours)
    try:
        yield started
    except Exception as error:
        if isinstance(error, MagnetarError) and not isinstance(error, PipelineError):
            Path(path).unlink(missing_ok=True)
        else:
            error.add_note(f"the log of Spark is {path}")
        raise
    else:
        Path(path).unlink(missing_ok=True)
    finally:
        started()


def _remove_old_logs() -> None:
    """Removes the logs of a Spark that was killed, or failed, and is not there any more."""
    for path in Path(tempfile.gettempdir()).glob("magnetar-*-*.log"):
        # Somebody else's stays, and so does one that is in use.
        with contextlib.suppress(OSError), path.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if time.time() - path.stat().st_mtime > LOG_KEPT_S:
                path.unlink()


class _Started:
    """Gives standard error back, once."""

    def __init__(self, ours: int | None) -> None:
        self._ours = ours

    def __call__(self) -> None:
        if self._ours is not None:
            os.dup2(self._ours, 2)
            os.close(self._ours)
            self._ours = None
