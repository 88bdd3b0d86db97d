"""Compaction against a dict: whatever is published, compacted, trimmed and cut off on the way.

Who reads the view and then the topic knows the last value of each key, at all times; who reads the
topic gets every message; and the view is the last message of each key up to where it goes.
"""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support.compacted import Keyed, begin, folded, reader, received, send, send_batch
from support.wire_client import Earliest, WireConsumer
from support.world import World

from magnetar.broker.topic.compaction.topic_compaction import CompactionStatus
from magnetar.model import CompressionType
from magnetar.model.message_id_data import MessageIdData

KEYS = st.sampled_from(["a", "b", "c", "d" * 100])
SOME_KEY = st.one_of(st.none(), KEYS)
VALUES = st.one_of(st.just(""), st.text("xyz", min_size=1, max_size=3))


class CompactionMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.sent: list[Keyed] = []
        self.acked = 0

    def teardown(self) -> None:
        self.world.close()

    @initialize(small=st.booleans(), retain=st.booleans())
    def begin(self, small: bool, retain: bool) -> None:
        self.world.close()
        # Nothing is trimmed that was not compacted, since a policy wants compaction.
        self.world = World(
            compaction_retain_null_key=retain, cache_bytes=0, compaction_threshold_bytes=1 << 40
        )
        self.small, self.retain = small, retain
        self.connect()

    def connect(self) -> None:
        if self.small:
            self.world.broker.pieces.be_small()
        self.client = self.world.connect()
        self.producer = self.client.producer("t")
        self.ordinary = self.subscribe()

    def subscribe(self) -> WireConsumer:
        return self.client.subscribe("t", "ordinary", initialPosition=Earliest)

    @rule(key=SOME_KEY, value=VALUES)
    def publish(self, key: str | None, value: str) -> None:
        self.sent.append(send(self.producer, key, value))

    @rule(
        messages=st.lists(st.tuples(SOME_KEY, VALUES), min_size=1, max_size=6),
        compression=st.sampled_from(CompressionType),
    )
    def publish_batch(self, messages: Any, compression: int) -> None:
        self.sent += send_batch(self.producer, *messages, compression=compression)

    @rule()
    def compact(self) -> None:
        self.world.settle()
        compaction = self.world.topic("t").compaction
        begin(self.world)
        self.world.settle()
        assert compaction.status == CompactionStatus.SUCCESS, compaction.error

    @rule(steps=st.integers(0, 60))
    def begin_to_compact(self, steps: int) -> None:
        if not self.world.topic("t").compaction.busy:
            begin(self.world)
        for _ in range(steps):
            self.world._step()

    @rule(how=st.sampled_from(["unload", "restart", "crash"]))
    def end(self, how: str) -> None:
        self.world.end(how)
        self.connect()

    @rule()
    def trim(self) -> None:
        self.world.trim("t")

    @precondition(lambda self: self.sent)
    @rule()
    def ack(self) -> None:
        """The ordinary subscription gets all that it has not acked, and acks it."""
        found = received(self.ordinary)
        assert [m.place for m in found] == [m.place for m in self.sent[self.acked :]]
        if found:
            ledger_id, entry_id, _ = found[-1].place
            self.ordinary.acked(MessageIdData(ledger_id, entry_id), cumulative=True)
        self.acked = len(self.sent)
        self.ordinary.client.drop()
        self.client = self.world.connect()
        self.producer = self.client.producer("t")
        self.ordinary = self.subscribe()

    @invariant()
    def a_reader_knows_the_last_of_each_key(self) -> None:
        if not self.sent:
            return
        client = self.world.connect()
        found = received(reader(client))
        view = self.world.topic("t").compaction.view
        assert [m.place for m in found] == sorted(m.place for m in found)
        assert folded(found) == folded(self.sent)
        end = (-1, -1)
        if view is not None:
            end = (int(view.facts.through.ledger_id), int(view.facts.through.entry_id))
        before = [m for m in self.sent if m.place[:2] <= end]
        expected = self.kept(before) + [m.place for m in self.sent if m.place[:2] > end]
        if view is not None:
            assert [m.place for m in found] == expected
            assert view.facts.messages == len(self.kept(before))
        client.drop()

    def kept(self, messages: list[Keyed]) -> list[tuple[int, int, int]]:
        last = {m.key: m for m in messages if m.key is not None}
        return [
            m.place
            for m in messages
            if (m.key is None and self.retain) or (last.get(m.key) is m and m.value)  # type: ignore[arg-type]
        ]


TestCompaction = CompactionMachine.TestCase
