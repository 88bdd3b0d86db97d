"""The version of a data directory, checked before anything else is touched.

The file FORMAT holds two lines: the version, and the salt that every checksum of this
directory begins from. It is the last file that a new directory gets, before it has a journal, and
the first that is read. A journal without it is none of a new directory.

The upgrade rule: a version reads its own format and nothing newer. When a release changes
the format, it raises FORMAT_VERSION and brings a function for each older version it still
reads, which brings a directory one version up; FORMAT is written last, so a crash in
between leaves a directory that is upgraded again. There is one version so far, and hence
no such function.
"""

from typing import Final

from magnetar.errors import CorruptionError, FormatVersionError
from magnetar.storage.disk.disk import Disk
from magnetar.storage.log.segment import FORMAT_VERSION

__all__ = ["FORMAT", "read_salt", "write_format"]

FORMAT: Final = "FORMAT"
PREFIX: Final = "magnetar data "
SALT: Final = "salt "
JOURNAL: Final = "journal"
HEX: Final = "0123456789abcdef"


def read_salt(disk: Disk) -> int | None:
    """Returns the salt of a directory of this version, or None if it is a new directory.

    Raises `DataDirectoryError` if it is of another version, or the file is damaged or gone.
    """
    # Looked at first, for another process may be making a directory, and FORMAT comes before.
    journal = disk.names(JOURNAL)
    if disk.size(FORMAT) < 0:
        if journal:
            raise CorruptionError(FORMAT, 0, "the file is missing, though there is a journal")
        return None
    text = disk.read(FORMAT, 0, 256).decode(errors="replace")
    lines = text.splitlines()
    if len(lines) != 2 or lines[0] != f"{PREFIX}{FORMAT_VERSION}" or lines[1][:5] != SALT:
        found = lines[0].removeprefix(PREFIX) if lines else "unknown"
        raise FormatVersionError(found, FORMAT_VERSION)
    digits = lines[1].removeprefix(SALT)
    if len(digits) != 8 or any(digit not in HEX for digit in digits):
        raise CorruptionError(
            FORMAT, len(lines[0]) + 1, "the salt is not a number of eight hex digits"
        )
    return int(digits, 16)


def write_format(disk: Disk, salt: int) -> None:
    disk.replace(FORMAT, f"{PREFIX}{FORMAT_VERSION}\n{SALT}{salt:08x}\n".encode())
