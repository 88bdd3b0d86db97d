"""A store worked by hand: filled, its jobs run one by one, its entries looked at."""

from storage.workload import START

from magnetar.model import Position
from magnetar.storage import Store, StoredEntry

EVERYTHING = 1 << 40
BEHIND_ALL = Position(1 << 60, 0)


def publish(store: Store, topic_id: int, count: int, size: int = 100) -> list[Position]:
    return [
        store.append(
            topic_id, f"{i} ".encode().ljust(size), batch_size=i + 1, publish_time_ms=1000 + i
        )
        for i in range(count)
    ]


def every(store: Store, topic_id: int, first: Position = START) -> list[StoredEntry]:
    return store.read(topic_id, first, entries_max=10_000, bytes_max=EVERYTHING)


def texts(store: Store, topic_id: int, first: Position = START) -> list[int]:
    return [int(entry.data or b"-1") for entry in every(store, topic_id, first)]


def runs(store: Store, topic_id: int) -> int:
    """How many times the entries of a topic do not lie right behind each other."""
    found, reach = 0, -1
    for ledger in store.ledgers(topic_id):
        index = store.log.state.ledgers[ledger.id].index
        for i in range(index.count()):
            found += not reach <= index.address(i) <= reach + 40
            reach = index.address(i) + 40 + index.length(i)
    return found


def read_now(store: Store) -> None:
    """Reads what the reclaimer waits for, in front of all other chores."""
    if store.log._reading is not None:
        job, store.log._reading = store.log._reading, None
        job.run(store.log.disk)
