"""How long a broker with many topics takes until it listens.

    .venv/bin/python benchmarks/bench_restart.py                    20,000 topics, interpreted
    ... bench_restart.py --topics 2000 --entries 300                other sizes

Each topic has a cursor and some entries. The store is opened three ways: after kill -9, when
all ledgers are open in the log; after a stop in order, when they are sealed and none has its
index file; and once those are written.
"""

import argparse
import shutil
import tempfile
import time
from pathlib import Path

from timing import print_build, print_table

from magnetar.storage import FileDisk, Store, StoreOptions, open_store

TARGET_S = 3.0


def clock_ms() -> int:
    return time.time_ns() // 1_000_000


def fill(directory: Path, topics: int, entries: int) -> None:
    """A store that was killed."""
    store = open_store(FileDisk(directory), clock_ms, StoreOptions(fsync="never"))
    ids = [store.create_topic(f"persistent://public/default/t{i}") for i in range(topics)]
    for topic_id in ids:
        store.create_cursor(topic_id, "sub", b"")
    for _ in range(entries):
        for topic_id in ids:
            store.append(topic_id, b"x" * 50, batch_size=1, publish_time_ms=clock_ms())
        store.flush()
    store.log.disk.close()


def opened(directory: Path) -> tuple[Store, float]:
    begin = time.perf_counter()
    store = open_store(FileDisk(directory), clock_ms, StoreOptions())
    return store, time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=20_000)
    parser.add_argument("--entries", type=int, default=5)
    parser.add_argument("--dir", type=Path, default=None)
    given = parser.parse_args()
    print_build()
    directory = Path(tempfile.mkdtemp(dir=given.dir))
    try:
        fill(directory, given.topics, given.entries)
        rows: list[tuple[str, ...]] = []
        for what in ("killed", "stopped, no index files", "with index files"):
            store, seconds = opened(directory)
            rows.append((what, f"{seconds:.2f} s", "ok" if seconds < TARGET_S else "too long"))
            if what == "stopped, no index files":
                store.flush()
            store.close()
        print_table("Restart", ("the store was", "opened in", f"under {TARGET_S:.0f} s"), rows)
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
