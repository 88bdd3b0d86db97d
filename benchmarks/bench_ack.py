"""The ack state at the sizes it is made for: memory, speed, and the pauses of a snapshot.

    make bench                                       compiled
    .venv/bin/python benchmarks/bench_ack.py         interpreted

*Memory* is the growth of the resident set of a fresh process while it builds the state
and nothing else; the bitmaps live outside Python's heap, where tracemalloc sees nothing.
It includes the ledgers and whatever the allocators keep.

*Acks* come as a broker gets them: lists of 1000 decoded ids, each list planned and
applied, and in another row encoded for the journal too. Decoding the command is not in it.

*Pauses* are the time that one slice takes, the longest of a whole snapshot. Of several
snapshots the best counts, since this machine has other things to do.
"""

import gc
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from pyroaring import BitMap
from timing import print_build, print_table

from magnetar.ack import (
    Acks,
    BatchSizes,
    Cursor,
    Ledgers,
    encode_delta,
    encode_snapshot,
    snapshot_slices,
)
from magnetar.model.message_id_data import MessageIdData
from magnetar.model.position import Position

LEDGERS = 2_000
LEDGER_ENTRIES = 50_000
HOLES = 1_000_000
LIST_IDS = 1_000
BATCHES = 100_000

MIB = 1024 * 1024
ACKS_TARGET_PER_S = 1_000_000
PAUSE_TARGET_MS = 5.0


class OneSize(BatchSizes):
    """All batches alike, so that no table of sizes is measured along."""

    def __init__(self, size: int) -> None:
        self.size = size

    def batch_size(self, ledger_id: int, entry_id: int) -> int:
        return self.size

    def message_count(self, ledger_id: int, first: int, end: int) -> int:
        return self.size * (end - first)


def new_ledgers(ledger_count: int, batch_size: int = 1) -> Ledgers:
    # The plain BatchSizes (unknown, so 1) stands for an index in compiled code.
    ledgers = Ledgers(None if batch_size == 1 else OneSize(batch_size))
    for ledger_id in range(ledger_count):
        ledgers.add(ledger_id, LEDGER_ENTRIES)
    return ledgers


def new_cursor(ledger_count: int, batch_size: int = 1) -> Cursor:
    return Cursor(new_ledgers(ledger_count, batch_size), Position(0, -1))


def random_ids(rng: random.Random) -> list[MessageIdData]:
    entries = LEDGERS * LEDGER_ENTRIES
    drawn = [rng.randrange(1, entries) for _ in range(LIST_IDS)]
    return [MessageIdData(n // LEDGER_ENTRIES, n % LEDGER_ENTRIES) for n in drawn]


# ---- the states ----------------------------------------------------------------


def acked_at_random() -> Cursor:
    """1 M entries acked, anywhere among 100 M."""
    rng = random.Random(1)
    cursor = new_cursor(LEDGERS)
    for _ in range(HOLES // LIST_IDS):
        cursor.apply(cursor.plan_acks(random_ids(rng)))
    return cursor


def left_at_random() -> Cursor:
    """1 M entries unacked, anywhere among 100 M; made ledger by ledger, to save the time."""
    rng = random.Random(1)
    acks = Acks()
    for ledger_id in range(LEDGERS):
        own = acks.own(ledger_id)
        own.entries = BitMap(range(1, LEDGER_ENTRIES))
        own.entries -= BitMap(rng.sample(range(LEDGER_ENTRIES), HOLES // LEDGERS))
        own.entries.run_optimize()
        own.entries.shrink_to_fit()
        own.messages = len(own.entries)
    return Cursor(new_ledgers(LEDGERS), Position(0, -1), 0, acks)


def partly_acked(batch_size: int) -> Cursor:
    """100 k batches, half of each acked, in two ledgers."""
    rng = random.Random(1)
    cursor = new_cursor(BATCHES // LEDGER_ENTRIES, batch_size)
    numbers = list(range(BATCHES))
    rng.shuffle(numbers)
    for first in range(0, BATCHES, LIST_IDS):
        ids = [
            MessageIdData(
                n // LEDGER_ENTRIES,
                n % LEDGER_ENTRIES,
                ack_set=rng.getrandbits(batch_size) | 1,
            )
            for n in numbers[first : first + LIST_IDS]
        ]
        cursor.apply(cursor.plan_acks(ids))
    return cursor


STATES: dict[str, tuple[str, float, Callable[[], Cursor]]] = {
    "acked": ("1 M random acks over 100 M entries, 2,000 ledgers", 8, acked_at_random),
    "left": ("1 M random entries left of 100 M, 2,000 ledgers", 8, left_at_random),
    "batch100": ("100 k partly acked batches of 100", 16, lambda: partly_acked(100)),
    "batch1000": ("100 k partly acked batches of 1000", 32, lambda: partly_acked(1000)),
}


# ---- memory --------------------------------------------------------------------


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def measure_memory(name: str) -> None:
    """Runs in a process of its own."""
    # One small state first, so that code and allocators are warm.
    warm = new_cursor(1)
    warm.apply(warm.plan_acks([MessageIdData(0, 5)]))
    gc.collect()
    before = resident_bytes()
    cursor = STATES[name][2]()
    gc.collect()
    print(resident_bytes() - before, len(encode_snapshot(cursor)))


def memory_row(name: str) -> tuple[str, ...]:
    title, target_mib, _ = STATES[name]
    done = subprocess.run(
        [sys.executable, __file__, "--memory", name], capture_output=True, text=True, check=True
    )
    resident, written = (int(number) for number in done.stdout.split())
    return (title, f"{resident / MIB:.1f}", f"{target_mib:.0f}", f"{written / MIB:.1f}")


# ---- speed ---------------------------------------------------------------------


def ack_seconds(lists: list[list[MessageIdData]], *, encode: bool) -> float:
    cursor = new_cursor(LEDGERS)
    start = time.perf_counter()
    for ids in lists:
        delta = cursor.plan_acks(ids)
        if encode:
            encode_delta(delta)
        cursor.apply(delta)
    return time.perf_counter() - start


def in_order_ids() -> list[list[MessageIdData]]:
    """Every second entry, so that nothing is swallowed by mark-delete."""
    numbers = range(1, 2 * 200 * LIST_IDS, 2)
    ids = [MessageIdData(n // LEDGER_ENTRIES, n % LEDGER_ENTRIES) for n in numbers]
    return [ids[i : i + LIST_IDS] for i in range(0, len(ids), LIST_IDS)]


def sequential_ids() -> list[list[MessageIdData]]:
    """Every entry: mark-delete follows list by list."""
    numbers = range(200 * LIST_IDS)
    ids = [MessageIdData(n // LEDGER_ENTRIES, n % LEDGER_ENTRIES) for n in numbers]
    return [ids[i : i + LIST_IDS] for i in range(0, len(ids), LIST_IDS)]


def speed_rows() -> list[tuple[str, ...]]:
    rng = random.Random(2)
    at_random = [random_ids(rng) for _ in range(HOLES // LIST_IDS)]
    rows: list[tuple[str, ...]] = []
    for title, lists in (
        ("at random over 100 M entries", at_random),
        ("every second entry in order", in_order_ids()),
        ("every entry in order", sequential_ids()),
    ):
        for encode in (False, True):
            best = min(ack_seconds(lists, encode=encode) for _ in range(3))
            rate = len(lists) * LIST_IDS / best
            name = title + (", encoded too" if encode else "")
            rows.append((name, f"{rate / 1e6:.2f} M/s", f"{ACKS_TARGET_PER_S / 1e6:.0f} M/s"))
    return rows


# ---- pauses --------------------------------------------------------------------


def longest_slice_ms(cursor: Cursor) -> float:
    longest = 0.0
    start = time.perf_counter()
    for _ in snapshot_slices(cursor):
        longest = max(longest, time.perf_counter() - start)
        start = time.perf_counter()
    return longest * 1000


def first_ack_ms(cursor: Cursor) -> float:
    """The first ack in a ledger after a snapshot copies that ledger's acks."""
    slices = snapshot_slices(cursor)
    next(slices)
    run = cursor.next_run(Position(0, 0), 1)
    assert run is not None
    delta = cursor.plan_acks([MessageIdData(run.ledger_id, run.first)])
    start = time.perf_counter()
    cursor.apply(delta)
    return (time.perf_counter() - start) * 1000


def pause_row(name: str) -> tuple[str, ...]:
    title, _, build = STATES[name]
    cursor = build()
    slices = list(snapshot_slices(cursor))
    longest = [longest_slice_ms(cursor) for _ in range(7)]
    first = min(first_ack_ms(cursor) for _ in range(5))
    return (
        title,
        str(len(slices)),
        f"{min(longest):.2f}",
        f"{sorted(longest)[3]:.2f}",
        f"{first:.2f}",
    )


def main() -> int:
    if sys.argv[1:2] == ["--memory"]:
        measure_memory(sys.argv[2])
        return 0
    print_build()
    print_table(
        "memory, MiB of resident set; snapshot, MiB written",
        ("state", "resident", "target", "snapshot"),
        [memory_row(name) for name in STATES],
    )
    print_table(
        f"acks in lists of {LIST_IDS}, planned and applied",
        ("ids", "rate", "target"),
        speed_rows(),
    )
    print_table(
        f"snapshot, ms of the longest slice; target {PAUSE_TARGET_MS:.0f}",
        ("state", "slices", "best of 7", "median", "first ack after"),
        [pause_row(name) for name in STATES],
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
