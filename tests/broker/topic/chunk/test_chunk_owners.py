"""Who is in the middle of which chunked message, against plain dicts."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from magnetar.broker.topic.chunk.chunk_owners import ChunkOwners

UUIDS_COUNT = 4
SLOTS_COUNT = 3
KEYS_COUNT = 12
KEYS = st.integers(0, KEYS_COUNT - 1)
SLOTS = st.integers(0, SLOTS_COUNT - 1)
CONSUMERS = st.integers(0, 2)


def uuid_of(key: int) -> str:
    """Entries do not change: each is a chunk of one message."""
    return f"producer-{key % UUIDS_COUNT}"


class ChunkOwnersMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.chunks = ChunkOwners()
        self.known: set[int] = set()
        # By message: its consumer, its slot, and the chunks that are held.
        self.begun: dict[str, tuple[int, int, set[int]]] = {}
        self.parked: set[int] = set()

    def owners(self) -> dict[int, int]:
        """By slot; the machine gives a slot to one consumer at a time."""
        return {slot: consumer for consumer, slot, _ in self.begun.values()}

    def freed(self, slots: set[int]) -> int:
        """The slot that had messages before and has none now."""
        return next(iter(slots - set(self.owners())), -1)

    @rule(key=KEYS)
    def know(self, key: int) -> None:
        self.chunks.know(uuid_of(key), key)
        self.known.add(key)

    @rule(key=KEYS, consumer_id=CONSUMERS, slot=SLOTS)
    def take(self, key: int, consumer_id: int, slot: int) -> None:
        if key not in self.known:
            return
        consumer_id = self.owners().get(slot, consumer_id)
        uuid, slots = uuid_of(key), set(self.owners())
        if self.begun.get(uuid, (-1, -1))[:2] != (consumer_id, slot):
            self.begun[uuid] = (consumer_id, slot, set())
        self.begun[uuid][2].add(key)
        freed = self.chunks.take(key, consumer_id, slot)
        assert freed in (self.freed(slots), slot)

    @rule(key=KEYS)
    def let_go(self, key: int) -> None:
        slots = set(self.owners())
        self.drop(key)
        assert self.chunks.let_go(key) == self.freed(slots)

    @rule(key=KEYS)
    def forget(self, key: int) -> None:
        slots = set(self.owners())
        self.drop(key)
        self.known.discard(key)
        self.parked.discard(key)
        assert self.chunks.forget(key) == self.freed(slots)

    def drop(self, key: int) -> None:
        begun = self.begun.get(uuid_of(key))
        if begun is not None:
            begun[2].discard(key)
            if not begun[2]:
                del self.begun[uuid_of(key)]

    @rule(key=KEYS)
    def finish(self, key: int) -> None:
        slots = set(self.owners())
        self.begun.pop(uuid_of(key), None)
        assert self.chunks.finish(uuid_of(key)) == self.freed(slots)

    @rule(key=KEYS)
    def park(self, key: int) -> None:
        self.chunks.park(key)
        if key in self.known:
            self.parked.add(key)

    @rule(key=KEYS)
    def unpark(self, key: int) -> None:
        self.chunks.unpark(key)
        self.parked.discard(key)

    @rule()
    def clear(self) -> None:
        self.chunks.clear()
        self.known.clear()
        self.begun.clear()
        self.parked.clear()

    @invariant()
    def agrees(self) -> None:
        self.chunks.check()
        assert len(self.chunks) == len(self.known)
        assert sorted(self.chunks.known()) == sorted(self.known)
        for slot in range(SLOTS_COUNT):
            assert self.chunks.slot_owner(slot) == self.owners().get(slot, -1)
        for number in range(UUIDS_COUNT):
            uuid = uuid_of(number)
            assert self.chunks.owner(uuid) == self.begun.get(uuid, (-1, -1))[0]
            parked = [key for key in self.parked if uuid_of(key) == uuid]
            for key in range(KEYS_COUNT):
                waits = any(before < key for before in parked)
                assert self.chunks.waits_before(uuid, key) == waits
        held = {key: begun[0] for begun in self.begun.values() for key in begun[2]}
        assert self.chunks.held() == held


TestChunkOwners = ChunkOwnersMachine.TestCase
