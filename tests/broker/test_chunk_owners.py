"""Which consumer gets the chunks of a message, against plain dicts."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from magnetar.broker.chunk_owners import UUIDS_MAX, ChunkOwners

UUIDS = st.sampled_from([f"producer-{i}" for i in range(6)])
CONSUMERS = st.integers(0, 2)


class ChunkOwnersMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.chunks = ChunkOwners(uuids_max=4)
        self.owners: list[tuple[str, int]] = []  # the oldest first
        self.parked: dict[str, int] = {}

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

    @rule(uuid=UUIDS)
    def park(self, uuid: str) -> None:
        self.chunks.park(uuid)
        self.parked[uuid] = self.parked.get(uuid, 0) + 1
        self.parked = dict(list(self.parked.items())[-4:])

    @rule(uuid=UUIDS)
    def unpark(self, uuid: str) -> None:
        self.chunks.unpark(uuid)
        self.parked[uuid] = self.parked.get(uuid, 0) - 1
        if self.parked[uuid] <= 0:
            del self.parked[uuid]

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
            assert self.chunks.parked(uuid) == (uuid in self.parked)


TestChunkOwners = ChunkOwnersMachine.TestCase


def test_messages_that_never_end_are_forgotten() -> None:
    chunks = ChunkOwners()
    for i in range(UUIDS_MAX + 5):
        chunks.assign(f"uuid-{i}", 1)
        chunks.park(f"uuid-{i}")
    assert len(chunks) == UUIDS_MAX
    assert [chunks.owner(f"uuid-{i}") for i in (0, 4, 5)] == [-1, -1, 1]
    assert [chunks.parked(f"uuid-{i}") for i in (0, 4, 5)] == [False, False, True]
