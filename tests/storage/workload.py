"""A store under work, and a plain model of what it must know.

The model holds every entry that was ever given a position and every ack that was ever
queued, with its fate: receipted, failed, or unknown because the power went first. After a
crash the store must have all that was receipted, nothing that was never queued, and no
position that names two messages.

Acks are toy cursors: a delta is one number, a snapshot the sorted list of them.
"""

from random import Random

from magnetar.model import Position
from magnetar.storage import (
    Disk,
    Outcome,
    Retention,
    StorageFullError,
    Store,
    StoreOptions,
    open_store,
)

SMALL = {
    "segment_bytes": 16 * 1024,
    "group_bytes_max": 4 * 1024,
    "ledger_entries_max": 12,
    "cache_bytes": 8 * 1024,
    "watermark_bytes": 0,
    "reserve_segments": 2,
}
START = Position(0, 0)


def small_options(fsync: str = "always", **changes: int) -> StoreOptions:
    """Limits so small that everything rolls over within a few entries."""
    return StoreOptions(fsync=fsync, **(SMALL | changes))


class Clock:
    def __init__(self) -> None:
        self.now_ms = 1_800_000_000_000

    def __call__(self) -> int:
        self.now_ms += 7
        return self.now_ms


class Workload:
    def __init__(self, options: StoreOptions) -> None:
        self.options = options
        self.clock = Clock()
        self.entries: dict[tuple[int, int], bytes] = {}
        self.topic_of: dict[tuple[int, int], str] = {}
        self.receipted: set[tuple[int, int]] = set()
        self.trimmed: set[tuple[int, int]] = set()
        self.acks_queued: dict[str, set[int]] = {}
        self.acks_receipted: dict[str, set[int]] = {}
        self.topics: dict[str, int] = {}
        self.cursors: dict[str, int] = {}
        self.refused = 0
        self.serial = 0
        # What waits for its ticket.
        self._waiting_entries: dict[int, tuple[int, int]] = {}
        self._waiting_acks: dict[int, tuple[str, int]] = {}
        self.store: Store

    # ---- Life ----------------------------------------------------------------

    def open(self, disk: Disk) -> None:
        self._waiting_entries.clear()
        self._waiting_acks.clear()
        self.store = open_store(disk, self.clock, self.options)
        found = {name: id for id, name in self.store.topics().items()}
        for name in ("a", "b", "quiet"):
            if name not in found:
                found[name] = self.store.create_topic(name)
        self.topics = found
        self.flush()
        self.cursors = {}
        for name, topic_id in self.topics.items():
            ids = self.store.cursor_ids(topic_id)
            if ids:
                self.cursors[name] = ids[0]
            else:
                self.cursors[name] = self.store.create_cursor(topic_id, "sub", b"")
        self.flush()

    def flush(self) -> list[Outcome]:
        outcomes = self.store.flush()
        for outcome in outcomes:
            self.take(outcome)
        return outcomes

    def take(self, outcome: Outcome) -> None:
        for ticket in range(outcome.first, outcome.end):
            position = self._waiting_entries.pop(ticket, None)
            if position is not None and outcome.error is None:
                self.receipted.add(position)
            ack = self._waiting_acks.pop(ticket, None)
            if ack is not None and outcome.error is None:
                self.acks_receipted.setdefault(ack[0], set()).add(ack[1])

    # ---- Work ----------------------------------------------------------------

    def publish(self, topic: str, size: int) -> None:
        self.serial += 1
        data = f"{topic} {self.serial} ".encode().ljust(size, b".")
        try:
            position = self.store.append(
                self.topics[topic],
                data,
                batch_size=1 + self.serial % 5,
                publish_time_ms=self.clock.now_ms,
            )
        except StorageFullError:
            self.refused += 1
            return
        key = (position.ledger_id, position.entry_id)
        assert key not in self.entries, f"{key} names two messages"
        self.entries[key] = data
        self.topic_of[key] = topic
        self._waiting_entries[self.store.ticket_last] = key

    def ack(self, topic: str) -> None:
        self.serial += 1
        ticket = self.store.append_delta(self.cursors[topic], 0, str(self.serial).encode())
        self.acks_queued.setdefault(topic, set()).add(self.serial)
        self._waiting_acks[ticket] = (topic, self.serial)

    def snapshot(self, topic: str, slices: int) -> None:
        """Takes a snapshot of what is durable, in slices with other work between them."""
        writer = self.store.begin_snapshot(self.cursors[topic])
        text = " ".join(str(n) for n in sorted(self.acked(topic))).encode()
        step = len(text) // slices + 1
        for i in range(slices):
            writer.add(text[i * step : (i + 1) * step], last=i == slices - 1)
            if i < slices - 1:
                self.ack(topic)

    def acked(self, topic: str) -> set[int]:
        image = self.store.cursor_image(self.cursors[topic])
        return {int(n) for n in image.snapshot.split()} | {int(n) for n in image.deltas}

    def trim(self, topic: str, keep: int) -> None:
        """Trims all but the last `keep` ledgers of the topic."""
        ledgers = self.store.ledgers(self.topics[topic])
        sealed = [ledger for ledger in ledgers if ledger.sealed]
        if len(sealed) <= keep:
            return
        last = sealed[-1 - keep]
        gone = self.store.trim(self.topics[topic], Position(last.id, last.entries - 1), Retention())
        self.trimmed |= {key for key in self.entries if key[0] in gone}

    def step(self, random: Random) -> None:
        """Something at random, in the proportions of a broker that is trimmed and reclaimed."""
        choice = random.randrange(12)
        topic = random.choice(("a", "b"))
        if choice < 5:
            for _ in range(random.randrange(1, 6)):
                self.publish(topic, random.randrange(20, 1500))
            if random.random() < 0.1:
                self.publish("quiet", 50)
        elif choice < 8:
            self.ack(topic)
        elif choice == 8:
            self.snapshot(topic, random.randrange(1, 4))
        elif choice == 9:
            self.trim(topic, keep=1)
            if random.random() < 0.5:
                self.flush()
        elif choice == 10:
            for _ in range(random.randrange(1, 10)):
                self.store.maintain()
                if random.random() < 0.7:
                    self.flush()
        else:
            self.flush()

    # ---- Judgement -----------------------------------------------------------

    def stored(self) -> dict[tuple[int, int], bytes]:
        found = {}
        for topic_id in self.store.topics():
            for entry in self.store.read(topic_id, START, entries_max=10**6, bytes_max=1 << 40):
                assert entry.data is not None
                found[(int(entry.ledger_id), int(entry.entry_id))] = entry.data
        return found

    def verify(self) -> None:
        """The store has what it must have, and nothing that it must not have."""
        found = self.stored()
        for key, data in found.items():
            assert self.entries[key] == data, f"{key} is not what was published"
        missing = self.receipted - self.trimmed - set(found)
        assert not missing, f"receipted but lost: {sorted(missing)}"
        for topic in self.cursors:
            acked = self.acked(topic)
            lost = self.acks_receipted.get(topic, set()) - acked
            assert not lost, f"acks of {topic} receipted but forgotten: {sorted(lost)}"
            assert acked <= self.acks_queued.get(topic, set())
