"""Digests of what tasks have sent, kept beside the checkpoint.

    <checkpointLocation>/magnetar-sink/<query or job>/<micro-batch>/<task>
                                                                   /<task>.refused

A task writes its digest before it sends anything, and beside it how many partitions the topics
have. A task that finds one is a second run: with the same digest it goes on where the first
stopped, over as many partitions, whatever was added meanwhile; with another it fails and sends
nothing. It fails too if the broker refused rows of the first run, whose numbers are below others
that it has. Whatever file system holds the checkpoint holds them, if Arrow can reach it.
"""

import json

from magnetar.errors import MagnetarError
from magnetar.spark.checkpoint_files import CheckpointFiles

__all__ = ["DigestMismatchError", "Digests", "RefusedError"]


class DigestMismatchError(MagnetarError):
    """A task that is run again has other rows than the first time."""


class RefusedError(MagnetarError):
    """A task is run again, of whose rows the broker has refused some and stored later ones."""


class Digests:
    """The digests of one query or job."""

    def __init__(self, checkpoint: str, owner: str) -> None:
        self._files = CheckpointFiles(checkpoint, f"magnetar-sink/{owner}")

    def claim(
        self, batch_id: int, task: int, digest: str, partitions: dict[str, int]
    ) -> dict[str, int] | None:
        """Keeps the digest; if it was there before, says how many partitions topics had then.

        Raises DigestMismatchError, RefusedError.
        """
        path = f"{batch_id}/{task}"
        self._require_none_refused(batch_id, task)
        if self.has(batch_id, task):
            before, _, found = self._files.read(path).partition("\n")
            if before != digest:
                raise DigestMismatchError(
                    f"task {task} of micro-batch {batch_id} is run again with other rows than "
                    f"the first time ({digest[:12]}, not {before[:12]}), so deduplication would "
                    "drop some of them: make the plan deterministic, or use "
                    "delivery=atLeastOnce"
                )
            counts: dict[str, int] = json.loads(found)
            return counts
        self._files.write(path, f"{digest}\n{json.dumps(partitions)}")
        return None

    def has(self, batch_id: int, task: int) -> bool:
        """Returns whether a task may have sent something."""
        return self._files.has(f"{batch_id}/{task}")

    def refuse(self, batch_id: int, task: int, reason: str) -> None:
        """Keeps that the broker refused rows of a task, and took others behind them."""
        self._files.write(f"{batch_id}/{task}.refused", reason)

    def _require_none_refused(self, batch_id: int, task: int) -> None:
        path = f"{batch_id}/{task}.refused"
        if self._files.has(path):
            raise RefusedError(
                f"rows of task {task} of micro-batch {batch_id} were refused when it was first "
                f"run ({self._files.read(path)}) and rows behind them are stored, so that "
                "deduplication would drop them now: have the topic take such rows, and write "
                "them with delivery=atLeastOnce or another checkpointLocation"
            )

    def tasks(self, batch_id: int) -> set[int]:
        """Returns the tasks that have claimed anything in a micro-batch."""
        return {int(name) for name in self._files.names(str(batch_id)) if name.isdigit()}

    def forget_before(self, batch_id: int) -> None:
        """Removes what no run can ask for any more."""
        for name in self._files.names(""):
            if name.isdigit() and int(name) < batch_id:
                self._files.delete_folder(name)
