"""Small data directories, and the damage that is done to them.

A directory is what a store left behind: closed in order, or killed. Damage is a bit that rots, a
cut, a file that is gone, a file from before (somebody restored one), bytes that stand where others
were. Forged damage has the checksums of headers and indexes made good again, which no disk does.
It leads behind them, where nothing is promised but an error of ours. Not so records: who can forge
one may as well write what he likes.
"""

import struct
from functools import cache
from random import Random
from typing import Final

from fuzz.draw import Draw
from storage.workload import Workload, small_options

from magnetar.storage import MemoryDisk
from magnetar.storage.ids import IDS, encode_ids
from magnetar.storage.ledger.ledger_index import HEADER_BYTES
from magnetar.storage.log.record import crc_bytes
from magnetar.storage.log.segment import (
    GROUP_HEADER_BYTES,
    GROUP_MAGIC,
    SEGMENT_HEADER_BYTES,
    SEGMENT_MAGIC,
)

Files = dict[str, bytes]

STEPS: Final = 60
SEEDS: Final = (1, 2, 3)
LENGTH: Final = struct.Struct("<I")
# How much is damaged at once: mostly one thing, or nothing would ever open.
COUNTS: Final = (1, 1, 1, 2, 3, 8)


class Life:
    """What a store left behind, and what it must know."""

    def __init__(self, seed: int, *, closed: bool) -> None:
        random = Random(seed)
        self.salt: Final = seed
        self.closed: Final = closed
        disk = MemoryDisk(salt=seed)
        work = Workload(small_options())
        work.open(disk)
        for _ in range(STEPS // 2):
            work.step(random)
        work.flush()
        self.before: Final[Files] = taken(disk)
        for _ in range(STEPS // 2):
            work.step(random)
        work.flush()
        self.now_ms: Final = work.clock.now_ms
        self.topics: Final = work.store.topics()
        kept = work.stored()
        self.kept: Final = set(kept)
        self.entries: Final = dict(work.entries)
        self.acks: Final = {name: set(acks) for name, acks in work.acks_queued.items()}
        if closed:
            work.store.close()
        self.files: Final[Files] = taken(disk)
        self.last: Final = max(path for path in self.files if path.endswith(".log"))


@cache
def life(number: int) -> Life:
    return Life(SEEDS[number // 2], closed=number % 2 == 0)


LIVES: Final = 2 * len(SEEDS)


def taken(disk: MemoryDisk) -> Files:
    return {path: bytes(data) for path, data in disk.files.items()}


class Damage:
    """Changes files as the input says. `touched` are the paths that are no more what they were."""

    def __init__(self, draw: Draw, life: Life) -> None:
        self._draw: Final = draw
        self._life: Final = life
        self.files: Final[Files] = dict(life.files)
        self.touched: Final[set[str]] = set()
        self.forged: Final = draw.rarely(4)

    def run(self) -> None:
        for _ in range(self._draw.pick(COUNTS)):
            if self.files:
                self._one()
        if self.forged:
            for path in self.touched & set(self.files):
                self.files[path] = resealed(path, self.files[path], self._life.salt)

    def _path(self) -> str:
        """A file; inputs that are short mean the journal."""
        return self._draw.pick(
            sorted(self.files, key=lambda path: (not path.endswith(".log"), path))
        )

    def _one(self) -> None:
        draw = self._draw
        path = self._path()
        data = bytearray(self.files[path])
        kind = draw.below(10)
        if kind == 7:
            del self.files[path]
        elif kind == 8:
            other = self._path()
            self.files[path], self.files[other] = self.files[other], self.files[path]
            self.touched.add(other)
        elif kind == 9:
            older = self._life.before.get(path)
            if older is not None:
                self.files[path] = older
        else:
            self._change(data, kind)
            self.files[path] = bytes(data)
        self.touched.add(path)

    def _change(self, data: bytearray, kind: int) -> None:
        draw = self._draw
        at = draw.below(len(data) + 1)
        if kind < 2:
            data[at : at + 1] = bytes([draw.byte()])
        elif kind == 2:
            data[at : at + 8] = draw.integer().to_bytes(8, "little")
        elif kind == 3:
            del data[at:]
        elif kind == 4:
            size = draw.below(64 if draw.below(2) else len(data) + 1)
            data[at : at + size] = bytes(len(data[at : at + size]))
        elif kind == 5:
            data[at:at] = draw.some()
        else:
            other = self.files[self._path()]
            first = draw.below(len(other) + 1)
            piece = other[first : first + draw.below(200)]
            data[at : at + len(piece)] = piece


# ---- Forgery -------------------------------------------------------------------------


def resealed(path: str, data: bytes, salt: int) -> bytes:
    """A file with checksums that fit what is in it, as far as it looks like one."""
    if path.endswith(".log"):
        return _sealed_segment(bytearray(data), salt)
    if path.endswith(".idx") and len(data) >= HEADER_BYTES:
        columns = crc_bytes(data[HEADER_BYTES:], salt)
        data = data[:48] + columns + data[52:]
        return data[:8] + crc_bytes(data[12:HEADER_BYTES], salt) + data[12:]
    line = data.partition(b"\n")[0]
    if path == IDS and line.isdigit() and len(line) < 20:
        return encode_ids(int(line), salt)
    return data


def _sealed_segment(data: bytearray, salt: int) -> bytes:
    if len(data) < SEGMENT_HEADER_BYTES:
        return bytes(data)
    data[8:12] = crc_bytes(SEGMENT_MAGIC + bytes(data[12:SEGMENT_HEADER_BYTES]), salt)
    at = SEGMENT_HEADER_BYTES
    while data[at : at + 4] == GROUP_MAGIC and at + GROUP_HEADER_BYTES <= len(data):
        end = at + GROUP_HEADER_BYTES
        data[at + 4 : at + 8] = crc_bytes(GROUP_MAGIC + bytes(data[at + 8 : end]), salt)
        at = end + LENGTH.unpack_from(data, at + 8)[0]
    return bytes(data)
