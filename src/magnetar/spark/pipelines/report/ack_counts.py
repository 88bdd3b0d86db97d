"""What the ack states of a subscription say: how far it is, its holes, its partly acked batches."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from magnetar.arrow.snapshot import state_of
from magnetar.model import Position
from magnetar.spark.pipelines.subscription import Subscription

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["AckFigures"]

# Holes and batches that are named; of others there is the number.
NAMED = 10
# Entries that consumers gave back most often, of each topic partition.
REDELIVERED = 20
_PARTITIONS = (
    "topic string, mark_delete string, last_acked string, last string, messages long, "
    "entries long, holes long, acked_ranges long, partly_acked long"
)
_HOLES = "topic string, first string, last string, entries long"
_BATCHES = "topic string, position string, size long, remaining long"


class AckFigures:
    """The state of each topic partition at one moment."""

    def __init__(self, subscription: Subscription, topics: Iterable[str]) -> None:
        self.partitions: list[dict[str, Any]] = []
        # The last entry of each partition that anything was acked of, if there are holes.
        self.last_acked: dict[str, Position] = {}
        # How often an entry was given back, by topic and position.
        self.redelivered: dict[tuple[str, str], int] = {}
        self.holes: list[dict[str, Any]] = []
        # Batches that are acked in part.
        self.batches: list[dict[str, Any]] = []
        for topic in topics:
            self._add(subscription, topic)

    def _add(self, subscription: Subscription, topic: str) -> None:
        pages = state_of(subscription.rest, topic, subscription.name)
        holes = _joined([hole for page in pages for hole in page["holes"]])
        batches = [batch for page in pages for batch in page["batches"]]
        state = pages[0]
        self.partitions.append(
            {
                "topic": topic,
                "mark_delete": state["markDeletePosition"],
                "last_acked": state["lastAckedPosition"],
                "last": state["lastPosition"],
                "messages": state["msgBacklogMessages"],
                "entries": state["msgBacklog"],
                "holes": len(holes),
                "acked_ranges": state["ackedRanges"],
                "partly_acked": state["partiallyAckedBatches"],
            }
        )
        if holes or batches:
            self.last_acked[topic] = Position.parse(state["lastAckedPosition"])
        self.holes += [{"topic": topic, **hole} for hole in holes]
        self.batches += [
            {
                "topic": topic,
                "position": batch["position"],
                "size": batch["batchSize"],
                "remaining": len(batch["remaining"]),
            }
            for batch in batches
        ]
        path = subscription.path(topic, "ackState")
        said = subscription.rest.get(path, limit=1, redelivered=REDELIVERED)
        for entry in said.get("redelivered", []):
            self.redelivered[topic, entry["position"]] = entry["count"]

    def frames(self, spark: "SparkSession") -> "dict[str, DataFrame]":
        """Returns all of it as tables."""
        return {
            "partitions": spark.createDataFrame(self.partitions, _PARTITIONS),
            "holes": spark.createDataFrame(self.holes, _HOLES),
            "batches": spark.createDataFrame(self.batches, _BATCHES),
        }

    def facts(self) -> dict[str, Any]:
        largest = sorted(self.holes, key=lambda hole: -hole["entries"])
        fullest = sorted(self.batches, key=lambda batch: -batch["remaining"])
        return {
            "partitions": self.partitions,
            "hole_count": len(self.holes),
            "holes": largest[:NAMED],
            "batch_count": len(self.batches),
            "batches": fullest[:NAMED],
        }


def _joined(holes: list[Any]) -> list[dict[str, Any]]:
    """Holes with their sizes; one that a page ended in is one again."""
    found: list[dict[str, Any]] = []
    for hole in holes:
        first, last = Position.parse(hole["first"]), Position.parse(hole["last"])
        entries = last.entry_id - first.entry_id + 1
        if found:
            before = Position.parse(found[-1]["last"])
            if Position(before.ledger_id, before.entry_id + 1) == first:
                found[-1]["last"] = hole["last"]
                found[-1]["entries"] += entries
                continue
        found.append({"first": hole["first"], "last": hole["last"], "entries": entries})
    return found
