"""Which consumer gets the chunks of a message, against plain dicts."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from magnetar.broker.chunk_owners import UUIDS_MAX, ChunkOwners

UUIDS = st.sampled_from([f"producer-{i}" for i in range(6)])
CONSUMERS = st.integers(0, 2)
KEYS = st.integers(0, 3)


class ChunkOwnersMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.chunks = ChunkOwners(uuids_max=4)
        self.owners: list[tuple[str, int]] = []  # the oldest first
        self.parked: dict[str, set[int]] = {}

    @rule(uuid=UUIDS, consumer_id=CONSUMERS)
    def assign(self, uuid: str, consumer_id: int) -> None:
        self.chunks.assign(uuid, consumer_id)
        self.owners = [pair for pair in self.owners if pair[0] != uuid]
        self.owners = [*self.owners, (uuid, consumer_id)][-4:]

    @rule(uuid=UUIDS)
    def finish(self, uuid: str) -> None:
        self.chunks.finish(uuid)
        self.owners = [pair for pair in self.owners if pair[0] != uuid]

    @rule(consumer_id=CONSUMERS)
    def drop_consumer(self, consumer_id: int) -> None:
        freed = self.chunks.drop_consumer(consumer_id)
        assert freed == [uuid for uuid, owner in self.owners if owner == consumer_id]
        self.owners = [pair for pair in self.owners if pair[1] != consumer_id]

    @rule(uuid=UUIDS, key=KEYS)
    def park(self, uuid: str, key: int) -> None:
        self.chunks.park(uuid, key)
        self.parked.setdefault(uuid, set()).add(key)
        self.parked = dict(list(self.parked.items())[-4:])

    @rule(uuid=UUIDS, key=KEYS)
    def unpark(self, uuid: str, key: int) -> None:
        self.chunks.unpark(uuid, key)
        self.parked.get(uuid, set()).discard(key)
        self.parked = {uuid: keys for uuid, keys in self.parked.items() if keys}

    @rule()
    def clear(self) -> None:
        self.chunks.clear()
        self.owners.clear()
        self.parked.clear()

    @invariant()
    def agrees(self) -> None:
        assert len(self.chunks) == len(self.owners)
        for i in range(6):
            uuid = f"producer-{i}"
            assert self.chunks.owner(uuid) == dict(self.owners).get(uuid, -1)
            for key in range(5):
                waits = any(before < key for before in self.parked.get(uuid, ()))
                assert self.chunks.waits_before(uuid, key) == waits


TestChunkOwners = ChunkOwnersMachine.TestCase


def test_messages_that_never_end_are_forgotten() -> None:
    chunks = ChunkOwners()
    for i in range(UUIDS_MAX + 5):
        chunks.assign(f"uuid-{i}", 1)
        chunks.park(f"uuid-{i}", i)
    assert len(chunks) == UUIDS_MAX
    assert [chunks.owner(f"uuid-{i}") for i in (0, 4, 5)] == [-1, -1, 1]
    assert [chunks.waits_before(f"uuid-{i}", i + 1) for i in (0, 4, 5)] == [False, False, True]
