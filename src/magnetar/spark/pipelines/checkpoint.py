"""What Spark's checkpoint of a query says: the last batch that began, and the last committed.

A batch begins with its end in `offsets/N`, and is done with `commits/N`. Each is a file that is
there whole or not at all; its name is a number, or a number with a suffix if older ones were
put together. See docs/spark.md for what an offset is.
"""

from typing import TYPE_CHECKING

from magnetar.errors import SettingsError
from magnetar.spark.pipelines.files import Files
from magnetar.spark.plan.offsets import Offsets, offsets_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Checkpoint", "batch_last"]


class Checkpoint:
    """The checkpoint of a query of one source, which need not be there."""

    def __init__(self, spark: "SparkSession", path: str) -> None:
        self.files: Files = Files(spark, path)

    def began(self) -> int:
        """Returns the last batch that began; -1 if there is none."""
        return batch_last(self.files, "offsets")

    def committed(self) -> int:
        """Returns the last batch that is done; -1 if there is none."""
        return batch_last(self.files, "commits")

    def offsets(self) -> Offsets:
        """Returns where the last batch that is done ends. Raises UsageError, SettingsError."""
        batch = self.committed()
        if batch < 0:
            return Offsets()
        # A version, the settings of the batch, and the end of each source, a line each.
        lines = self.files.read(f"offsets/{batch}").splitlines()
        if len(lines) != 3:
            raise SettingsError(
                "--checkpoint", f"{self.files.uri} is not of a query with one source"
            )
        return offsets_of(lines[2])


def batch_last(files: Files, name: str) -> int:
    """Returns the highest number that a file in a log of Spark has; -1 if there is none."""
    numbers = [one.partition(".")[0] for one in files.names(name) if one[0] != "."]
    return max((int(number) for number in numbers if number.isdigit()), default=-1)
