"""The store against the bare system calls, side by side in one run.

    make bench                                            compiled
    .venv/bin/python benchmarks/bench_storage.py          interpreted
    ... bench_storage.py --entries 100000                 a short form

Both sides write the same payload to the same disk and make it durable as often. Figures
of a shared machine vary; what is compared are ratios within one run.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

from timing import fastest, print_table

import magnetar
from magnetar.model import Position
from magnetar.storage import FileDisk, Outcome, Store, StoreOptions, open_store
from magnetar.storage.ledger_index import HeapIndex, decode_index
from magnetar.storage.writer import StoreWriter

T = TypeVar("T")

ENTRY = bytes(range(256)) * 4
START = Position(0, 0)
EVERYTHING = 1 << 40

APPEND_RATIO_TARGET = 0.60
TOPICS_RATIO_TARGET = 0.80
CATCH_UP_RATIO_TARGET = 0.50
REOPEN_TARGET_S = 2.0
HEAP_TARGET_BYTES = 24
PAUSE_TARGET_MS = 5.0


def now_ms() -> int:
    return int(time.time() * 1000)


def open_at(directory: Path, **changes: str | int) -> Store:
    options = StoreOptions(watermark_bytes=0, **changes)  # type: ignore[arg-type]
    return open_store(FileDisk(directory), now_ms, options)


def abandon(store: Store) -> None:
    """Leaves the store as kill -9 would."""
    store.log.disk.close()


# ---- Appending ---------------------------------------------------------------


class Bare:
    """What the operating system can do: one writev and one fdatasync for each group."""

    def __init__(self, path: Path) -> None:
        self.file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)

    def write(self, groups: int, size: int) -> None:
        parts = [ENTRY] * size
        for _ in range(groups):
            for first in range(0, size, 1000):  # Linux takes 1024 buffers at a time
                os.writev(self.file, parts[first : first + 1000])
            os.fdatasync(self.file)


def append(store: Store, topics: list[int], groups: int, size: int) -> None:
    count = len(topics)
    n = 0
    for _ in range(groups):
        for _ in range(size):
            store.append(topics[n % count], ENTRY, batch_size=1, publish_time_ms=n)
            n += 1
        store.flush()


def bench_append(scratch: Path) -> None:
    rows = []
    for size, groups in ((1, 200), (200, 40), (2000, 8)):
        bare = Bare(scratch / f"bare{size}")
        store = open_at(scratch / f"store{size}", group_bytes_max=16 << 20)
        topic = store.create_topic("t")
        # A store that has rolled over twice has zeroed segments ahead, as any busy one has.
        append(store, [topic], 80, 2000)
        best = fastest(
            {
                "bare": lambda b=bare, g=groups, s=size: b.write(g, s),  # type: ignore[misc]
                "store": lambda st=store, t=topic, g=groups, s=size: append(st, [t], g, s),  # type: ignore[misc]
            },
            rounds=7,
        )
        count = groups * size
        rows.append(
            (
                f"groups of {size}",
                f"{count / best['bare']:,.0f}/s",
                f"{count / best['store']:,.0f}/s",
                f"{best['store'] / count * 1e6:.1f} us",
                f"{best['bare'] / best['store']:.0%}",
                f"{APPEND_RATIO_TARGET:.0%}" if size == 200 else "",
            )
        )
        store.close()
        os.close(bare.file)
    header = ("1 KiB entries, fsync", "writev+fdatasync", "store", "each", "ratio", "target")
    print_table("Appending", header, rows)


class Sustained:
    """The store on its own threads, as a broker runs it: groups are what has gathered."""

    WAITING_MAX = 4000

    def __init__(self, directory: Path) -> None:
        self.store = open_at(directory)
        self.topic = self.store.create_topic("t")
        self.posted: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.durable = 0
        self.groups = 0
        self.writer = StoreWriter(self.store, self.posted.put, self.note)

    def note(self, outcome: Outcome) -> None:
        assert outcome.error is None
        self.durable = outcome.end
        self.groups += 1

    def run(self, entries: int) -> None:
        store = self.store
        for n in range(entries):
            store.append(self.topic, ENTRY, batch_size=1, publish_time_ms=n)
            if n % 100 == 99:
                self.writer.kick()
                while not self.posted.empty():
                    self.posted.get()()
            while store.ticket_last - self.durable > self.WAITING_MAX:
                self.posted.get()()
        while self.durable <= store.ticket_last:
            self.writer.kick()
            self.posted.get()()

    def close(self) -> None:
        self.writer.stop()
        self.store.close()


def bench_sustained(scratch: Path) -> None:
    """Half a gigabyte, with all that goes with it: rolling, zeroing, heads, indexes."""
    entries = 500_000
    bare = Bare(scratch / "bare_sustained")
    start = time.perf_counter()
    bare.write(entries // 2000, 2000)
    bare_s = time.perf_counter() - start
    os.close(bare.file)
    work = Sustained(scratch / "sustained")
    start = time.perf_counter()
    work.run(entries)
    store_s = time.perf_counter() - start
    work.close()
    rows = [
        (
            f"{entries:,} x 1 KiB",
            f"{entries / bare_s:,.0f}/s",
            f"{entries / store_s:,.0f}/s",
            f"{entries / work.groups:,.0f}",
            f"{bare_s / store_s:.0%}",
        )
    ]
    header = ("fsync, threads", "writev+fdatasync by 2000", "store", "each group", "ratio")
    print_table("Appending for longer", header, rows)


def bench_topics(scratch: Path) -> None:
    one, many = open_at(scratch / "one"), open_at(scratch / "many")
    lone = [one.create_topic("t")]
    thousand = [many.create_topic(f"t{i}") for i in range(1000)]
    append(one, lone, 1, 2000)
    append(many, thousand, 1, 2000)
    best = fastest(
        {
            "one": lambda: append(one, lone, 6, 2000),
            "many": lambda: append(many, thousand, 6, 2000),
        },
        rounds=5,
    )
    rows = [
        (
            "1 KiB, groups of 2000",
            f"{12000 / best['one']:,.0f}/s",
            f"{12000 / best['many']:,.0f}/s",
            f"{best['one'] / best['many']:.0%}",
            f"{TOPICS_RATIO_TARGET:.0%}",
        )
    ]
    header = ("work", "one topic", "a thousand", "ratio", "target")
    print_table("A thousand topics round robin", header, rows)
    one.close()
    many.close()


# ---- Reopening ---------------------------------------------------------------


def bench_reopen(scratch: Path, entries: int) -> None:
    directory = scratch / "reopen"
    store = open_at(directory, fsync="never", cache_bytes=0)
    topic = store.create_topic("t")
    append(store, [topic], entries // 1000, 1000)
    abandon(store)
    rows = []
    for name in ("with heads and indexes", "from the log alone"):
        if name == "from the log alone":
            for derived in [*directory.rglob("*.heads"), *directory.rglob("*.idx")]:
                derived.unlink()
        start = time.perf_counter()
        store = open_at(directory)
        seconds = time.perf_counter() - start
        found = sum(ledger.entries for ledger in store.ledgers(topic))
        assert found == entries // 1000 * 1000, found
        abandon(store)
        target = f"{REOPEN_TARGET_S} s" if name.startswith("with") else ""
        rows.append((name, f"{found:,}", f"{seconds:.2f} s", target))
    print_table("Reopening after kill -9", ("how", "1 KiB entries", "took", "target"), rows)


# ---- Reading -----------------------------------------------------------------


def drop_caches(directory: Path) -> None:
    """Asks the kernel to forget what it has of the directory."""
    for path in directory.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fdatasync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def catch_up(store: Store, topic: int) -> int:
    first, count = START, 0
    while True:
        entries = store.read(topic, first, entries_max=500, bytes_max=1 << 20)
        if not entries:
            return count
        count += len(entries)
        first = Position(entries[-1].ledger_id, entries[-1].entry_id + 1)


def gather(store: Store, topics: list[int]) -> tuple[float, float]:
    """Seals the topics, as their age would, and lets the store gather them.

    Returns how long that took, and the longest call on the owner's thread.
    """
    for topic in topics:
        store.seal_topic(topic)
    append(store, [store.create_topic("behind")], 150, 1000)
    owner, waits, start = Owner(store), 0, time.perf_counter()
    while waits < 5:
        busy = owner.call(store.maintain)
        waits = 0 if owner.run_jobs() or busy else waits + 1
    return time.perf_counter() - start, owner.longest


class Owner:
    """What a store costs the thread that it lives on, jobs apart, which others run."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.longest = 0.0

    def call(self, work: Callable[[], T]) -> T:
        start = time.perf_counter()
        result = work()
        self.longest = max(self.longest, time.perf_counter() - start)
        return result

    def run_jobs(self) -> bool:
        """Whether a group was among them."""
        store, wrote = self.store, False
        while True:
            if (group := self.call(store.next_write)) is not None:
                group.run(store.log.disk)
                self.call(partial(store.finish_write, group, None))
                wrote = True
            elif (chore := self.call(store.next_chore)) is not None:
                chore.run(store.log.disk)
                self.call(partial(store.finish_chore, chore, None))
            else:
                return wrote


def catch_up_rates(scratch: Path, store: Store, topics: list[int]) -> tuple[float, float]:
    """Entries a second from the disk, and from the page cache."""
    best = [0.0, 0.0]
    for cold in (True, False):
        for i in range(5):
            if cold:
                drop_caches(scratch)
            start = time.perf_counter()
            count = catch_up(store, topics[i % len(topics)])
            best[not cold] = max(best[not cold], count / (time.perf_counter() - start))
    return best[0], best[1]


def bench_catch_up(scratch: Path) -> None:
    # Long enough that catching up is measured, and not the first touch of a cold disk: 400
    # entries of a lone topic are read at less than half of the speed of 20,000.
    each = 2000
    options: dict[str, str | int] = {"cache_bytes": 0}
    lone = open_at(scratch / "catch1", **options)
    lone_topics = [lone.create_topic("t")]
    append(lone, lone_topics, 10, each)
    many = open_at(scratch / "catch1000", **options)
    topics = [many.create_topic(f"t{i}") for i in range(1000)]
    append(many, topics, each, 1000)
    lone_rates = catch_up_rates(scratch, lone, lone_topics)
    many_rates = catch_up_rates(scratch, many, topics)
    seconds, longest = gather(many, topics)
    gathered_rates = catch_up_rates(scratch, many, topics)
    rows = []
    for i, source in enumerate(("from the disk", "from the page cache")):
        rates = lone_rates[i], many_rates[i], gathered_rates[i]
        ratios = " / ".join(f"{rate / rates[0]:.0%}" for rate in rates[1:])
        rows.append(
            (source, *(f"{r:,.0f}/s" for r in rates), ratios, f"{CATCH_UP_RATIO_TARGET:.0%}")
        )
    header = ("1 KiB entries", "lone topic", "one of 1000", "gathered", "ratios", "target")
    print_table("Catching up, nothing in the store's own cache", header, rows)
    took = f"{seconds:.1f} s", f"{longest * 1e3:.1f} ms", f"{PAUSE_TARGET_MS} ms"
    columns = ("work", "took", "longest call", "target")
    print_table("Gathering them", columns, [(f"{1000 * each:,} x 1 KiB", *took)])
    for store in (lone, many):
        abandon(store)


# ---- Memory and pauses -------------------------------------------------------


def bench_heap(scratch: Path) -> None:
    """What tracemalloc sees of an index of 200,000 entries, open and then sealed."""
    count = 200_000
    disk = FileDisk(scratch)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    heap = HeapIndex()
    for i in range(count):
        heap.put(
            i,
            (1 << 32) + i * 1064,
            length=1024,
            batch_size=1,
            publish_time_ms=1_800_000_000_000 + i,
        )
    open_bytes = (tracemalloc.get_traced_memory()[0] - before) / count
    disk.replace("sealed.idx", heap.encode(1, 0))
    before = tracemalloc.get_traced_memory()[0]
    mapped = decode_index(disk.map("sealed.idx"), 1, 0)
    sealed_bytes = (tracemalloc.get_traced_memory()[0] - before) / count
    tracemalloc.stop()
    assert mapped is not None
    assert mapped.address(count - 1) == heap.address(count - 1)
    rows = [
        ("open ledger", f"{open_bytes:.1f}", str(HEAP_TARGET_BYTES)),
        ("sealed ledger", f"{sealed_bytes:.3f}", "0"),
    ]
    print_table("Heap for each entry", ("where", "bytes", "target"), rows)
    disk.close()


def bench_pause(scratch: Path) -> None:
    """The longest single call on the owner's thread while 64 MiB of snapshot went out.

    Taking the snapshot itself is the ack room's, and measured there.
    """
    store = open_at(scratch / "pause")
    cursor = store.create_cursor(store.create_topic("t"), "sub", b"")
    store.flush()
    data = bytes(64 * 1024)
    writer = store.begin_snapshot(cursor)
    longest = 0.0

    for i in range(1024):
        start = time.perf_counter()
        writer.add(data, last=i == 1023)
        longest = max(longest, time.perf_counter() - start)
        if i % 8 < 7:
            continue
        start = time.perf_counter()
        job = store.next_write()
        longest = max(longest, time.perf_counter() - start)
        assert job is not None
        job.run(store.log.disk)  # what the writer's thread does
        start = time.perf_counter()
        store.finish_write(job, None)
        longest = max(longest, time.perf_counter() - start)
    rows = [("slices of 64 KiB", f"{longest * 1e3:.2f} ms", f"{PAUSE_TARGET_MS} ms")]
    header = ("snapshot of 64 MiB", "longest call", "target")
    print_table("The loop while a snapshot is written", header, rows)
    store.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--entries", type=int, default=1_000_000, help="to reopen with")
    parser.add_argument(
        "--only", default="", help="append, sustained, topics, reopen, read, heap, pause"
    )
    parser.add_argument("--dir", type=Path, default=None, help="where to write")
    chosen = parser.parse_args()
    print(f"magnetar {magnetar.__version__}, {'compiled' if magnetar.COMPILED else 'interpreted'}")
    scratch = Path(tempfile.mkdtemp(dir=chosen.dir, prefix="bench_storage_"))
    benches: dict[str, Callable[[], None]] = {
        "append": lambda: bench_append(scratch),
        "sustained": lambda: bench_sustained(scratch),
        "topics": lambda: bench_topics(scratch),
        "reopen": lambda: bench_reopen(scratch, chosen.entries),
        "read": lambda: bench_catch_up(scratch),
        "heap": lambda: bench_heap(scratch),
        "pause": lambda: bench_pause(scratch),
    }
    try:
        for name, bench in benches.items():
            if chosen.only in ("", name):
                bench()
    finally:
        shutil.rmtree(scratch)
    return 0


if __name__ == "__main__":
    sys.exit(main())
