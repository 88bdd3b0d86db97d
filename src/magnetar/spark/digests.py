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

from pyarrow import fs

from magnetar.errors import MagnetarError, SettingsError

__all__ = ["DigestMismatchError", "Digests", "RefusedError"]


class DigestMismatchError(MagnetarError):
    """A task that is run again has other rows than the first time."""


class RefusedError(MagnetarError):
    """A task is run again, of whose rows the broker has refused some and stored later ones."""


class Digests:
    """The digests of one query or job."""

    def __init__(self, checkpoint: str, owner: str) -> None:
        location = checkpoint if "://" in checkpoint or checkpoint[:5] == "file:" else None
        try:
            if location is None:
                self._fs, root = fs.LocalFileSystem(), checkpoint
            else:
                # Hadoop writes file:/path, Arrow wants an empty host.
                if location.startswith("file:/") and not location.startswith("file://"):
                    location = "file://" + location.removeprefix("file:")
                self._fs, root = fs.FileSystem.from_uri(location)
        except (OSError, ValueError) as error:
            raise SettingsError(
                "checkpointLocation",
                f"{checkpoint}: the digests of an exactly-once sink cannot be kept there "
                f"({error}): use delivery=atLeastOnce",
            ) from error
        self._root = f"{root.rstrip('/')}/magnetar-sink/{owner}"

    def claim(
        self, batch_id: int, task: int, digest: str, partitions: dict[str, int]
    ) -> dict[str, int] | None:
        """Keeps the digest; if it was there before, says how many partitions topics had then.

        Raises DigestMismatchError, RefusedError.
        """
        folder = f"{self._root}/{batch_id}"
        path = f"{folder}/{task}"
        self._require_none_refused(batch_id, task)
        if self.has(batch_id, task):
            before, _, found = self._read(path).partition("\n")
            if before != digest:
                raise DigestMismatchError(
                    f"task {task} of micro-batch {batch_id} is run again with other rows than "
                    f"the first time ({digest[:12]}, not {before[:12]}), so deduplication would "
                    "drop some of them: make the plan deterministic, or use "
                    "delivery=atLeastOnce"
                )
            counts: dict[str, int] = json.loads(found)
            return counts
        self._fs.create_dir(folder, recursive=True)
        self._write(path, f"{digest}\n{json.dumps(partitions)}")
        return None

    def has(self, batch_id: int, task: int) -> bool:
        """Whether a task may have sent something."""
        return self._is_there(f"{self._root}/{batch_id}/{task}")

    def _is_there(self, path: str) -> bool:
        return bool(self._fs.get_file_info(path).type != fs.FileType.NotFound)

    def refuse(self, batch_id: int, task: int, reason: str) -> None:
        """Keeps that the broker refused rows of a task, and took others behind them."""
        self._write(f"{self._root}/{batch_id}/{task}.refused", reason)

    def _require_none_refused(self, batch_id: int, task: int) -> None:
        path = f"{self._root}/{batch_id}/{task}.refused"
        if self._is_there(path):
            raise RefusedError(
                f"rows of task {task} of micro-batch {batch_id} were refused when it was first "
                f"run ({self._read(path)}) and rows behind them are stored, so that "
                "deduplication would drop them now: have the topic take such rows, and write "
                "them with delivery=atLeastOnce or another checkpointLocation"
            )

    def _read(self, path: str) -> str:
        with self._fs.open_input_stream(path) as file:
            return str(file.read().decode())

    def _write(self, path: str, text: str) -> None:
        # Under another name first: a file that is there is whole.
        with self._fs.open_output_stream(f"{path}.new") as file:
            file.write(text.encode())
        self._fs.move(f"{path}.new", path)

    def tasks(self, batch_id: int) -> set[int]:
        """The tasks that have claimed anything in a micro-batch."""
        selector = fs.FileSelector(f"{self._root}/{batch_id}", allow_not_found=True)
        names = [info.base_name for info in self._fs.get_file_info(selector)]
        return {int(name) for name in names if name.isdigit()}

    def forget_before(self, batch_id: int) -> None:
        """Removes what no run can ask for any more."""
        selector = fs.FileSelector(self._root, allow_not_found=True)
        for info in self._fs.get_file_info(selector):
            if info.base_name.isdigit() and int(info.base_name) < batch_id:
                self._fs.delete_dir(info.path)
