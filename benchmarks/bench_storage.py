"""The store against the bare system calls, side by side in one run.

    make bench                                            compiled
    .venv/bin/python benchmarks/bench_storage.py          interpreted
    ... bench_storage.py --entries 100000                 a short form

Both sides write the same payload to the same disk and make it durable as often. Figures
of a shared machine vary; what is compared are ratios within one run.
"""

import argparse
import gc
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

from timing import fastest, print_build, print_table

from magnetar.model import Position
from magnetar.storage import FileDisk, Outcome, Store, StoreOptions, open_store
from magnetar.storage.ledger.ledger_index import HeapIndex, decode_index
from magnetar.storage.log.writer import StoreWriter

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


def catch_up(store: Store, topic: int, first: Position = START) -> int:
    """Reads all there is from `first` on, and says how many entries that were."""
    count = 0
    while True:
        entries = store.read(topic, first, entries_max=500, bytes_max=1 << 20)
        if not entries:
            return count
        count += len(entries)
        first = Position(entries[-1].ledger_id, entries[-1].entry_id + 1)


class Owner:
    """What a store costs the thread that it lives on, jobs apart, which others run."""

    def __init__(self, store: Store) -> None:
        self.store = store
        # The longest calls by the clock and by the processor, and what they were.
        self.longest = (0.0, "")
        self.longest_cpu = (0.0, "")
        # What Python's collector of cyclic garbage took of the processor so far.
        self._collector = 0.0
        gc.callbacks.append(self._collecting)

    def _collecting(self, phase: str, info: dict[str, int]) -> None:
        self._collector += -time.thread_time() if phase == "start" else time.thread_time()

    def call(self, name: str, work: Callable[[], T]) -> T:
        start, start_cpu = time.perf_counter(), time.thread_time() - self._collector
        result = work()
        took, cpu = time.perf_counter() - start, time.thread_time() - self._collector - start_cpu
        self.longest = max(self.longest, (took, name))
        self.longest_cpu = max(self.longest_cpu, (cpu, name))
        return result

    def run_jobs(self) -> bool:
        """Whether a group was among them."""
        store, wrote = self.store, False
        while True:
            if (group := self.call("next_write", store.next_write)) is not None:
                group.run(store.log.disk)
                self.call("finish_write", partial(store.finish_write, group, None))
                wrote = True
            elif (chore := self.call("next_chore", store.next_chore)) is not None:
                chore.run(store.log.disk)
                name = f"finish_chore of {type(chore).__name__}"
                self.call(name, partial(store.finish_chore, chore, None))
            else:
                return wrote

    def maintain(self) -> None:
        """Does all maintenance there is to do."""
        waits = 0
        while waits < 5:
            busy = self.call(f"maintain ({self.store.reclaimer.state})", self.store.maintain)
            waits = 0 if self.run_jobs() or busy else waits + 1

    def row(self, what: str, entries: int, seconds: float) -> tuple[str, ...]:
        return (
            what,
            f"{entries / seconds:,.0f}/s",
            *(f"{s * 1e3:.1f} ms in {name}" for s, name in (self.longest, self.longest_cpu)),
            f"{PAUSE_TARGET_MS} ms",
        )


class Backlog:
    """Topics of a store that are alike, from where they are read, and how fast at best."""

    def __init__(self, store: Store, topics: list[int], firsts: list[Position]) -> None:
        self.store = store
        self.topics = topics
        self.firsts = firsts

    def drain(self, n: int) -> float:
        """Reads one of them; entries a second."""
        topic, first = self.topics[n % len(self.topics)], self.firsts[n % len(self.firsts)]
        start = time.perf_counter()
        count = catch_up(self.store, topic, first)
        return count / (time.perf_counter() - start)


def drain(scratch: Path, name: str, *backlogs: Backlog) -> None:
    """Prints the last of them against the others, read by turns, the best of seven each."""
    rows = []
    for source in ("disk", "page cache"):
        best = [0.0] * len(backlogs)
        for n in range(7):
            for i, backlog in enumerate(backlogs):
                if source == "disk":
                    drop_caches(scratch)
                else:
                    backlog.drain(n)
                best[i] = max(best[i], backlog.drain(n))
        *others, rate = best
        target = f"{CATCH_UP_RATIO_TARGET:.0%}" if name.endswith("gathered") else ""
        ratios = [f"{rate / other:.0%}" for other in others]
        rows.append((source, *[f"{each:,.0f}/s" for each in best], *ratios, target))
    header = ("read from", "lone", "long", "one of 1000", "of lone", "of long", "target")
    print_table(f"Catching up with {name}", header, rows)


def tail_of(store: Store, topic: int) -> Position:
    """Where the last entries of a topic begin that do not lie behind each other."""
    (ledger,) = store.ledgers(topic)
    entries = store.read(topic, START, entries_max=ledger.entries, bytes_max=EVERYTHING)
    n = len(entries) - 1
    while n > 0 and entries[n].address - entries[n - 1].address > 2 * len(ENTRY):
        n -= 1
    return Position(ledger.id, entries[n].entry_id)


def bench_catch_up(scratch: Path) -> None:
    """One topic among a thousand against lone ones, with nothing in the store's cache.

    Written by turns, an entry each. The open ledgers are gathered while the log is written, as
    a broker's maintenance does it, which here is given the time it wants after every group.
    """
    each, count = 2000, 1000
    lone, long = (lone_backlog(scratch / name, n) for name, n in (("a", each), ("b", 10 * each)))
    print(f"\nOf {each:,} entries of 1 KiB, as a lone topic; a long one has ten times as many.")

    late = open_at(scratch / "late", cache_bytes=0)
    topics = [late.create_topic(f"t{i}") for i in range(count)]
    start = time.perf_counter()
    append(late, topics, each, count)
    written_s = time.perf_counter() - start
    drain(scratch, "ledgers just written", lone, long, Backlog(late, topics, [START]))
    for topic in topics:
        late.seal_topic(topic)
    append(late, [late.create_topic("behind")], 150, 1000)
    owner = Owner(late)
    start = time.perf_counter()
    owner.maintain()
    calls = [owner.row("gathering sealed ledgers", each * count, time.perf_counter() - start)]
    drain(scratch, "sealed ledgers, gathered", lone, long, Backlog(late, topics, [START]))
    abandon(late)
    shutil.rmtree(scratch / "late")

    live = open_at(scratch / "live", cache_bytes=0)
    topics = [live.create_topic(f"t{i}") for i in range(count)]
    live.flush()
    owner = Owner(live)
    start = time.perf_counter()
    for n in range(each):
        for topic in topics:
            live.append(topic, ENTRY, batch_size=1, publish_time_ms=n)
        owner.run_jobs()
        owner.maintain()
    live_s = time.perf_counter() - start
    calls.append(owner.row("writing, and gathering open ones", each * count, live_s))
    calls.append(("writing alone", f"{each * count / written_s:,.0f}/s", "", "", ""))
    assert not any(ledger.sealed for topic in topics for ledger in live.ledgers(topic))
    drain(scratch, "open ledgers, gathered", lone, long, Backlog(live, topics, [START]))
    tails = [tail_of(live, topic) for topic in topics[:7]]
    name = f"their newest {each - tails[0].entry_id} entries, which are not"
    drain(scratch, name, lone, long, Backlog(live, topics[:7], tails))

    columns = ("work", "entries", "longest call", "by CPU, collector apart", "target")
    print_table("Gathering, jobs run in place", columns, calls)
    for store in (lone.store, long.store, live):
        abandon(store)


def lone_backlog(directory: Path, entries: int) -> Backlog:
    store = open_at(directory, cache_bytes=0)
    topic = store.create_topic("t")
    append(store, [topic], entries // 2000, 2000)
    return Backlog(store, [topic], [START])


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
    names = ("append", "sustained", "topics", "reopen", "read", "heap", "pause")
    parser.add_argument("--only", default="", choices=names)
    parser.add_argument("--dir", type=Path, default=None, help="where to write")
    chosen = parser.parse_args()
    print_build()
    gc.freeze()  # as `magnetar serve` does
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
