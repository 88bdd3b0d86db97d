"""The plan of a redrive, kept where it survives: which letters go where, in which order.

| file in the checkpoint | is                                                              |
|------------------------|-----------------------------------------------------------------|
| `letters-RUN/`         | the letters, numbered; Parquet                                  |
| `plan.json`            | what was asked for, and where targets are; there when all is    |
| `done.N`               | letters below N are with their topics, and acknowledged; those  |
|                        | behind may be with them                                         |

A plan that is there is carried out before another is made: its letters may be in their topics
already, though they are not acknowledged.
"""

import json
import uuid
from typing import TYPE_CHECKING, Any

from magnetar.errors import SettingsError
from magnetar.spark.pipelines.files import Files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Plan", "PlanStore"]

_ASKED = ("topic", "subscription", "where", "to")


class Plan:
    """What was decided before the first letter went."""

    def __init__(self, value: dict[str, Any]) -> None:
        self.value = value
        self.run: str = value["run"]
        self.count: int = value["count"]
        self.lanes: int = value["lanes"]
        # Partitions of each target, as they were: letters of a second run take the same ones.
        self.targets: dict[str, list[str]] = value["targets"]
        # Topics that did not deduplicate, with the policy that each had.
        self.deduplication: dict[str, bool | None] = value["deduplication"]

    @classmethod
    def made(cls, **value: Any) -> "Plan":
        return cls({"version": 1, "run": uuid.uuid4().hex[:16], **value})


class PlanStore:
    """The checkpoint of a redrive."""

    def __init__(self, spark: "SparkSession", location: str) -> None:
        self._files = Files(spark, location)
        self.location: str = self._files.uri

    def load(self) -> Plan | None:
        """Returns the plan that is not carried out yet.

        Raises SettingsError if it cannot be read.
        """
        if not self._files.exists("plan.json"):
            return None
        try:
            return Plan(json.loads(self._files.read("plan.json")))
        except (ValueError, KeyError, TypeError) as error:
            raise SettingsError(
                "checkpoint", f"{self.location}/plan.json is not a plan of a redrive: {error!r}"
            ) from None

    def letters_of(self, plan: Plan) -> str:
        return f"{self.location}/letters-{plan.run}"

    def save(self, plan: Plan) -> None:
        """From now on the plan is carried out, whatever happens."""
        self._files.write("plan.json", json.dumps(plan.value, indent=1))

    def done(self) -> int:
        """Returns the number of the first letter that is not acknowledged yet."""
        return max(self._marks(), default=0)

    def begun(self) -> bool:
        """Returns whether letters may have been sent."""
        return bool(self._marks())

    def mark(self, done: int) -> None:
        before = self._marks()
        self._files.write(f"done.{done}", "")
        for number in before:
            if number != done:
                self._files.delete(f"done.{number}")

    def clear(self) -> None:
        """Forgets everything; the plan itself first, so that no half of one is left."""
        self._files.delete("plan.json")
        for name in self._files.names(""):
            if name.startswith(("letters-", "done.")):
                self._files.delete(name)

    def _marks(self) -> list[int]:
        names = [name.removeprefix("done.") for name in self._files.names("")]
        return [int(name) for name in names if name.isdigit()]

    def require_same(self, plan: Plan, asked: dict[str, Any]) -> None:
        """Raises SettingsError if the plan is that of another command."""
        others = [name for name in _ASKED if plan.value[name] != asked[name]]
        if others:
            was = ", ".join(f"{name} {plan.value[name] or 'not given'}" for name in others)
            raise SettingsError(
                others[0],
                f"{self.location} has a redrive that is not finished, {self.done()} of its "
                f"{plan.count} letters are back ({was}): give the same to finish it first, or "
                "another --checkpoint",
            )
