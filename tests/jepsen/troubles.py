"""What goes wrong in a run, drawn from its seed: each is real, and done by the system itself.

| trouble         | how                                                                           |
|-----------------|-------------------------------------------------------------------------------|
| kill broker     | SIGKILL, and a new process on the same directory                              |
| kill program    | SIGKILL, and a new process that knows nothing                                 |
| stop broker     | SIGSTOP for seconds, then SIGCONT                                             |
| stop program    | the same                                                                      |
| full disk       | the file system is filled to its last block for seconds (an ext4 image)       |
| clock jump      | the broker's time of day jumps by up to a day, both ways (libfaketime)        |
| cut, stall,     | connections break, now or in the middle of frames, wait, or swallow           |
| silence, frays  |                                                                               |

A file system of its own takes root, and the clock takes libfaketime, a package of Debian; a
machine that has none of these goes without them, and the run says so.
"""

import errno
import os
import shutil
import subprocess
from pathlib import Path
from random import Random

__all__ = ["Clock", "SmallDisk", "find_faketime"]

DISK_BYTES = 192 << 20
FAKETIME = "faketime/libfaketime.so.1"


class SmallDisk:
    """A file system of its own, small enough to be filled; a plain directory without root."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "disk"
        self._image = directory / "disk.img"
        self._ballast = self.path / "ballast"
        self.why_not = ""

    def __enter__(self) -> "SmallDisk":
        self.path.mkdir()
        if os.geteuid() != 0:
            self.why_not = "no full disks: mounting a file system takes root"
            return self
        with self._image.open("wb") as image:
            image.truncate(DISK_BYTES)
        for command in (
            ["mkfs.ext4", "-q", "-m", "0", str(self._image)],
            ["mount", "-o", "loop", str(self._image), str(self.path)],
        ):
            ran = subprocess.run(command, capture_output=True, text=True, check=False)
            if ran.returncode != 0:
                self.why_not = f"no full disks: {command[0]}: {ran.stderr.strip()}"
                return self
        return self

    def __exit__(self, *error: object) -> None:
        if not self.why_not:
            subprocess.run(["umount", "--lazy", str(self.path)], check=True)

    @property
    def data(self) -> Path:
        return self.path / "data"

    def fill(self, left_bytes: int) -> None:
        """Takes all room but so much; the broker takes some too, meanwhile."""
        with self._ballast.open("wb") as ballast:
            size = 0
            for step in (1 << 20, 4096):
                while shutil.disk_usage(self.path).free - step >= left_bytes:
                    try:
                        os.posix_fallocate(ballast.fileno(), size, step)
                    except OSError as error:
                        if error.errno != errno.ENOSPC:
                            raise
                        break
                    size += step

    def free(self) -> None:
        self._ballast.unlink(missing_ok=True)


def find_faketime() -> Path | None:
    found = sorted(Path("/usr/lib").glob(f"*/{FAKETIME}"))
    return found[0] if found else None


class Clock:
    """The broker's time of day. The other clock, which only goes on, is left alone, as by NTP."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "clock"
        self._library = find_faketime()
        self.why_not = "" if self._library else "no clock jumps: libfaketime is not installed"
        self.set(0)

    def set(self, seconds: int) -> None:
        """Off by so much from now on."""
        new = self._file.with_suffix(".new")
        new.write_text(f"{seconds:+d}\n")
        new.rename(self._file)

    def jump(self, random: Random) -> int:
        seconds = round(random.choice([2, 60, 3600, 86_400]) * random.uniform(-1, 1))
        self.set(seconds)
        return seconds

    def forget(self, pid: int) -> None:
        """Removes what libfaketime leaves of a process that was killed.

        Another one that the system gives the same number would wait for it for ever.
        """
        for name in ("faketime_shm", "sem.faketime_sem"):
            Path(f"/dev/shm/{name}_{pid}").unlink(missing_ok=True)

    def command(self) -> list[str]:
        """What a command begins with that is to live by this clock."""
        if self._library is None:
            return []
        return [
            "env",
            f"LD_PRELOAD={self._library}",
            f"FAKETIME_TIMESTAMP_FILE={self._file}",
            "FAKETIME_CACHE_DURATION=1",
            "FAKETIME_DONT_FAKE_MONOTONIC=1",
        ]
