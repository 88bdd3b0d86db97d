"""Files below a path, on whatever file system Spark knows: checkpoints and archives."""

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Files"]


class Files:
    """A directory, which need not be there."""

    def __init__(self, spark: "SparkSession", root: str) -> None:
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._path: Any = jvm.org.apache.hadoop.fs.Path(root)
        configuration = spark.sparkContext._jsc.hadoopConfiguration()
        self._system: Any = self._path.getFileSystem(configuration)
        self.uri: str = self._system.makeQualified(self._path).toString()

    def _at(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._path, name) if name else self._path

    def exists(self, name: str = "") -> bool:
        return bool(self._system.exists(self._at(name)))

    def names(self, name: str) -> list[str]:
        """Returns the names in a directory below; none if it is not there."""
        if not self.exists(name):
            return []
        return [str(one.getPath().getName()) for one in self._system.listStatus(self._at(name))]

    def read(self, name: str) -> str:
        stream = self._system.open(self._at(name))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """Writes a file, whole or not at all."""
        draft, target = self._at(f".{name}.draft"), self._at(name)
        stream = self._system.create(draft, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        self._system.rename(draft, target)

    def delete(self, name: str) -> None:
        """Deletes a file, or a directory with all that is in it, if it is there."""
        self._system.delete(self._at(name), True)

    def data(self, suffix: str) -> dict[str, int]:
        """Returns the sizes of all files with this ending, by URI; what is hidden is left out."""
        if self.uri.startswith("file:"):
            return _local(self.uri, suffix)
        found: dict[str, int] = {}
        files = self._system.listFiles(self._path, True)
        while files.hasNext():
            one = files.next()
            uri = str(one.getPath().toString())
            if uri.endswith(suffix) and not _hidden(uri[len(self.uri) :]):
                found[uri] = int(one.getLen())
        return found


def _local(uri: str, suffix: str) -> dict[str, int]:
    """Returns the sizes of files on this machine, without a call for each."""
    root = uri.removeprefix("file:")
    found: dict[str, int] = {}
    for directory, directories, names in os.walk(root):
        directories[:] = [name for name in directories if name[0] not in "_."]
        for name in names:
            if name.endswith(suffix) and name[0] not in "_.":
                path = os.path.join(directory, name)
                found[f"file:{path}"] = os.path.getsize(path)
    return found


def _hidden(path: str) -> bool:
    return any(part[:1] in ("_", ".") for part in path.split("/") if part)
