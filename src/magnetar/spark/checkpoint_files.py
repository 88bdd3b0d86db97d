"""Small files beside a checkpoint, on whatever file system holds it, if Arrow can reach that."""

from pyarrow import fs

from magnetar.errors import SettingsError

__all__ = ["CheckpointFiles"]


class CheckpointFiles:
    """Files below a folder of a checkpoint; a file that is there is whole."""

    def __init__(self, checkpoint: str, folder: str) -> None:
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
                f"{checkpoint}: what a sink must remember cannot be kept there "
                f"({error}): use delivery=atLeastOnce",
            ) from error
        self._root = f"{root.rstrip('/')}/{folder}"

    def has(self, path: str) -> bool:
        info = self._fs.get_file_info(f"{self._root}/{path}")
        return bool(info.type != fs.FileType.NotFound)

    def names(self, folder: str) -> list[str]:
        """Returns the names in a folder, none if there is no such folder."""
        selector = fs.FileSelector(f"{self._root}/{folder}".rstrip("/"), allow_not_found=True)
        return [info.base_name for info in self._fs.get_file_info(selector)]

    def read(self, path: str) -> str:
        with self._fs.open_input_stream(f"{self._root}/{path}") as file:
            return str(file.read().decode())

    def write(self, path: str, text: str) -> None:
        whole = f"{self._root}/{path}"
        self._fs.create_dir(whole.rpartition("/")[0], recursive=True)
        # Under another name first: a file that is there is whole.
        with self._fs.open_output_stream(f"{whole}.new") as file:
            file.write(text.encode())
        self._fs.move(f"{whole}.new", whole)

    def delete(self, path: str) -> None:
        """Deletes a file; it may be gone already."""
        if self.has(path):
            self._fs.delete_file(f"{self._root}/{path}")

    def delete_folder(self, folder: str) -> None:
        """Deletes a folder with all that is in it; it may be gone already."""
        if self.has(folder):
            self._fs.delete_dir(f"{self._root}/{folder}")
