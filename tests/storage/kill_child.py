"""A process that publishes and acks as fast as it can, and says what was receipted.

Run by `test_kill`, which kills it. One line for each receipt, written to a pipe after the
outcome: `E topic ledger entry serial` for an entry, `A topic serial` for an ack. `T ledger`
announces that a ledger may be trimmed. The store runs on its real threads, with segments
and ledgers so small that rolling, indexing, trimming and reclaiming go on all the time.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from random import Random

from magnetar.model import Position
from magnetar.storage import FileDisk, Outcome, Retention, Store, StoreOptions, open_store
from magnetar.storage.log.writer import StoreWriter

TOPICS = ("a", "b", "c")
WAITING_MAX = 500


class Child:
    def __init__(self, directory: Path, seed: int) -> None:
        options = StoreOptions(
            segment_bytes=256 * 1024,
            ledger_entries_max=100,
            cache_bytes=64 * 1024,
            watermark_bytes=0,
        )
        self.random = Random(seed)
        self.store: Store = open_store(FileDisk(directory), self.now_ms, options)
        self.posted: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.waiting: dict[int, str] = {}
        self.serial = int(time.time() * 1000) * 1000
        self.topics = {name: id for id, name in self.store.topics().items()}
        for name in TOPICS:
            if name not in self.topics:
                self.topics[name] = self.store.create_topic(name)
                self.store.create_cursor(self.topics[name], "sub", b"")
        self.store.flush()
        self.cursors = {n: self.store.cursor_ids(id)[0] for n, id in self.topics.items()}

    @staticmethod
    def now_ms() -> int:
        return int(time.time() * 1000)

    def run(self) -> None:
        writer = StoreWriter(self.store, self.posted.put, self.receipt)
        while True:
            for _ in range(self.random.randrange(1, 30)):
                self.work()
            writer.kick()
            if len(self.waiting) > WAITING_MAX:
                self.posted.get()()
            while not self.posted.empty():
                self.posted.get()()
            self.store.maintain()

    def work(self) -> None:
        topic = self.random.choice(TOPICS)
        self.serial += 1
        choice = self.random.random()
        if choice < 0.6:
            data = f"{topic} {self.serial} ".encode().ljust(self.random.randrange(50, 2000), b".")
            position = self.store.append(
                self.topics[topic], data, batch_size=1, publish_time_ms=self.now_ms()
            )
            line = f"E {topic} {position.ledger_id} {position.entry_id} {self.serial}"
            self.waiting[self.store.ticket_last] = line
        elif choice < 0.98:
            delta = f"{self.serial} ".encode()
            ticket = self.store.append_delta(self.cursors[topic], 0, delta)
            self.waiting[ticket] = f"A {topic} {self.serial}"
        elif choice < 0.99:
            image = self.store.cursor_image(self.cursors[topic])
            writer = self.store.begin_snapshot(self.cursors[topic])
            whole = image.snapshot + b"".join(image.deltas)
            half = len(whole) // 2
            writer.add(whole[:half], last=False)
            writer.add(whole[half:], last=True)
        else:
            self.trim(topic)

    def trim(self, topic: str) -> None:
        sealed = [x for x in self.store.ledgers(self.topics[topic]) if x.sealed]
        if len(sealed) > 3:
            last = sealed[-3]
            for ledger in sealed[:-2]:
                print(f"T {ledger.id}", flush=True)
            self.store.trim(self.topics[topic], Position(last.id, last.entries - 1), Retention())

    def receipt(self, outcome: Outcome) -> None:
        assert outcome.error is None, outcome
        lines = []
        for ticket in range(outcome.first, outcome.end):
            line = self.waiting.pop(ticket, None)
            if line is not None:
                lines.append(line)
        if lines:
            print("\n".join(lines), flush=True)


if __name__ == "__main__":
    Child(Path(sys.argv[1]), int(sys.argv[2])).run()
