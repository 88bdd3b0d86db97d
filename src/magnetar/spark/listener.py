"""Acks as soon as Spark has committed: a listener of streaming queries.

Spark tells listeners of a micro-batch after it is in the commit log, the last one of a run
included. The progress of a source has the offset that it ended with, and what the reader
reports beside it says which subscription that is of. The acks are sent by a thread of their
own, so that Spark's is not kept waiting; of several offsets of one source only the last counts.

An ack that fails is tried again with the next one; and the reader acks too, when it is
asked for its next offset. So nothing is lost by a listener that fails, but time.
"""

import contextlib
import json
import logging
import queue
import threading
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from magnetar.arrow.connect import client_options
from magnetar.client.door.bulk import BulkClient
from magnetar.errors import MagnetarError
from magnetar.spark.acks import ack_offsets
from magnetar.spark.plan.offsets import Offsets, offsets_of
from magnetar.spark.plan.options import ReadOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["AckListener"]

log: logging.Logger = logging.getLogger("magnetar.spark")


class AckListener(StreamingQueryListener):
    """See the module."""

    def __init__(self, spark: "SparkSession", options: dict[str, str]) -> None:
        self._spark = spark
        self._options = options
        self._acks: queue.SimpleQueue[tuple[str, str, Offsets] | threading.Event | None] = (
            queue.SimpleQueue()
        )
        self._clients: dict[str, BulkClient] = {}
        self._pending: dict[tuple[str, str], Offsets] = {}
        self._thread = threading.Thread(target=self._run, name="magnetar-acks", daemon=True)
        self._thread.start()

    @classmethod
    def attached_to(cls, spark: "SparkSession", options: dict[str, str]) -> "AckListener":
        """Returns a listener that hears of all queries of a session."""
        listener = cls(spark, options)
        spark.streams.addListener(listener)
        return listener

    # ---- What Spark says -----------------------------------------------------

    def onQueryStarted(self, event: Any) -> None:
        pass

    def onQueryProgress(self, event: Any) -> None:
        for source in event.progress.sources:
            found = _source_of(source)
            if found is not None:
                self._acks.put(found)

    def onQueryIdle(self, event: Any) -> None:
        pass

    def onQueryTerminated(self, event: Any) -> None:
        pass

    # ---- What is done about it -----------------------------------------------

    def _run(self) -> None:
        try:
            while (item := self._acks.get()) is not None:
                if isinstance(item, threading.Event):
                    self._send()
                    item.set()
                    continue
                url, subscription, offsets = item
                self._pending[url, subscription] = _later(
                    self._pending.get((url, subscription)), offsets
                )
                if self._acks.empty():
                    self._send()
        finally:
            self._send()
            for client in self._clients.values():
                with contextlib.suppress(MagnetarError):
                    client.close()

    def _send(self) -> None:
        for (url, subscription), offsets in list(self._pending.items()):
            try:
                client = self._client(url)
                client.call(ack_offsets(client.aio, subscription, offsets))
            except Exception as error:  # whatever it is, there will be a next one
                log.warning("acks of %s are late, and come with the next: %s", subscription, error)
            else:
                del self._pending[url, subscription]

    def _client(self, url: str) -> BulkClient:
        if url not in self._clients:
            connection = ReadOptions(
                {**self._options, "serviceUrl": url, "topic": "any"}, streaming=True
            ).connection
            self._clients[url] = BulkClient(url, **client_options(connection))
        return self._clients[url]

    def wait(self, timeout_s: float = 60.0) -> bool:
        """Waits until the acks of all that Spark has told of so far were tried."""
        reached = threading.Event()
        self._acks.put(reached)
        return reached.wait(timeout_s)

    def close(self) -> None:
        """Stops to listen; acks that Spark has told of are sent before."""
        self._spark.streams.removeListener(self)
        self._acks.put(None)
        self._thread.join()

    def __enter__(self) -> "AckListener":
        return self

    def __exit__(self, *why: object) -> None:
        self.close()


def _later(before: Offsets | None, offsets: Offsets) -> Offsets:
    """Returns both together, for two queries may read different topics by one subscription."""
    if before is None:
        return offsets
    holds = {t: at for t, at in before.holds.items() if t not in offsets.places}
    return Offsets(
        {**before.places, **offsets.places},
        {**before.sizes, **offsets.sizes},
        {**holds, **offsets.holds},
    )


def _source_of(source: Any) -> tuple[str, str, Offsets] | None:
    """Service URL, subscription and offsets of a source that is ours and has one."""
    try:
        latest = json.loads(source.latestOffset)
        url, subscription = latest["serviceUrl"], latest["subscription"]
        return url, subscription, offsets_of(source.endOffset)
    except (TypeError, ValueError, KeyError):
        return None
