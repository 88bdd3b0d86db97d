"""Watchers of topic lists: the work is shared, and done a little at a time."""

from collections import deque
from collections.abc import Callable

import pytest
from support.world import ManualHost, World

from magnetar.broker.namespace.topic_list import TopicFilter, match_text
from magnetar.broker.namespace.topic_watch import (
    COST_AT_ONCE,
    NAMES_AT_ONCE,
    PATTERNS_MAX,
    TopicWatchers,
    Watcher,
)
from magnetar.errors import BrokerError
from magnetar.model import TopicName
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.protocol import topics_hash
from magnetar.storage.disk.memory_disk import MemoryDisk

P = "persistent://public/default/"
NAMESPACE = "public/default"

Told = list[tuple[list[str], list[str], str]]


class Topics:
    """Topics that come and go, and those who watch them."""

    def __init__(self, *topics: str, memory_max: int = 1 << 30) -> None:
        self.there = {P + topic for topic in topics}
        self.host = ManualHost(MemoryDisk(), 0)
        self.watchers = TopicWatchers(self.host, self._exists, memory_max)
        self.looks = 0

    def _exists(self, topic: str) -> bool:
        self.looks += 1
        return topic in self.there

    def watch(self, pattern: str = ".*") -> tuple[Watcher, Told]:
        told: Told = []
        filter = TopicFilter(pattern, 0)
        watcher = self.watchers.watch(
            NAMESPACE,
            pattern,
            filter,
            [topic for topic in sorted(self.there) if filter.matches_text(match_text(topic))],
            lambda came, went, hash: told.append((list(came), list(went), hash)),
        )
        return watcher, told

    def come(self, *topics: str) -> None:
        for topic in topics:
            self.there.add(P + topic)
            self.watchers.note(TopicName.parse(P + topic), created=True)

    def go(self, *topics: str) -> None:
        for topic in topics:
            self.there.discard(P + topic)
            self.watchers.note(TopicName.parse(P + topic), created=False)

    def turns(self) -> int:
        """Does all there is to do; how many turns that took."""
        count = 0
        soon: deque[Callable[[], None]] = self.host.soon
        while soon:
            soon.popleft()()
            count += 1
        return count


def test_a_watcher_does_not_hear_of_what_came_and_went_meanwhile() -> None:
    topics = Topics("a")
    _, told = topics.watch()
    topics.come("b")
    topics.go("b", "a")
    topics.come("c")
    topics.turns()
    assert told == [([P + "c"], [P + "a"], topics_hash([P + "c"]))]


def test_of_what_went_and_came_between_two_looks_nobody_hears() -> None:
    """Looked at in different phases, while nobody was told in between."""
    topics = Topics("a")
    topics.watch("b")
    _, told = topics.watch()
    pattern = topics.watchers.find(NAMESPACE, ".*")
    assert pattern is not None
    pattern.look(P + "a", f"{NAMESPACE}/a", False)
    pattern.look(P + "a", f"{NAMESPACE}/a", True)
    topics.come("none")
    topics.go("none")
    topics.turns()
    assert told == []
    assert pattern.news(pattern.version) == ([], [])


def test_a_watcher_that_comes_late_hears_of_what_is_new_to_it() -> None:
    topics = Topics()
    _, told = topics.watch()
    topics.come(*[f"t-{n}" for n in range(COST_AT_ONCE)])
    topics.host.soon.popleft()()  # some were looked at, and nobody was told yet
    late, late_told = topics.watch()
    there = len(late.pattern.topics)
    assert 0 < there < COST_AT_ONCE
    topics.turns()
    ((came, _, _),) = told
    ((late_came, _, _),) = late_told
    assert len(came) == COST_AT_ONCE
    assert len(late_came) == COST_AT_ONCE - there


def test_one_that_left_is_told_nothing_though_its_turn_had_come() -> None:
    topics = Topics()
    watcher, told = topics.watch()
    _, other_told = topics.watch()
    topics.come("a")
    topics.host.soon.popleft()()
    topics.watchers.remove(watcher)
    topics.turns()
    assert told == []
    assert len(other_told) == 1


def test_nobody_looks_at_topics_of_namespaces_that_nobody_watches() -> None:
    topics = Topics()
    topics.come("a")
    assert topics.turns() == 0
    watcher, _ = topics.watch()
    topics.come("b")
    topics.watchers.remove(watcher)
    topics.turns()
    assert topics.watchers.count == 0
    assert topics.watchers.find(NAMESPACE, ".*") is None


def test_a_pattern_is_dropped_with_its_last_watcher_alone() -> None:
    topics = Topics()
    one, _ = topics.watch("a")
    two, _ = topics.watch("b")
    topics.watchers.remove(one)
    assert topics.watchers.find(NAMESPACE, "a") is None
    assert topics.watchers.find(NAMESPACE, "b") is two.pattern


@pytest.mark.parametrize("patterns", [1, 10])
def test_many_watchers_of_one_pattern_cost_one_look_at_each_topic(patterns: int) -> None:
    topics = Topics()
    watched = [topics.watch(f"(.*|{n % patterns})") for n in range(100)]
    topics.come(*[f"t-{n}" for n in range(200)])
    turns = topics.turns()
    assert topics.looks == 200  # and not for each watcher
    for watcher, told in watched:
        ((came, went, hash),) = told
        assert (len(came), went, hash) == (200, [], topics_hash(watcher.pattern.topics))
    looking = 200 * (1 + patterns) // COST_AT_ONCE
    telling = 100 * 200 // NAMES_AT_ONCE
    # Neither all at once, nor in more turns than are needed.
    assert looking + telling // 2 <= turns <= looking + telling + 5


def test_one_topic_is_held_against_many_patterns_in_several_turns() -> None:
    topics = Topics()
    watched = [topics.watch(f"(.*|{n})") for n in range(2 * COST_AT_ONCE)]
    topics.come("t")
    topics.host.soon.popleft()()
    known = [watcher for watcher, _ in watched if watcher.pattern.topics]
    assert 0 < len(known) <= COST_AT_ONCE
    topics.turns()
    assert all(told == [([P + "t"], [], topics_hash([P + "t"]))] for _, told in watched)


def test_slow_patterns_cost_more_of_a_turn() -> None:
    topics = Topics()
    watched = [topics.watch(rf"public/default/.*(\w?){{400}}|{n}") for n in range(20)]
    topics.come("ab" * 400)
    turns = topics.turns()
    assert turns > 5, "fast ones are looked at in one turn, and told in another"
    assert all(len(told) == 1 for _, told in watched)


def test_there_are_not_more_patterns_than_may_be() -> None:
    topics = Topics()
    first, _ = topics.watch("0.*")
    for number in range(1, PATTERNS_MAX):
        topics.watch(f"{number}.*")
    topics.watch("1.*")  # which is watched already
    with pytest.raises(BrokerError, match="the most that may be: ask for lists"):
        topics.watch("one-more")
    topics.watchers.remove(first)
    topics.watch("one-more")


def test_patterns_and_names_take_no_more_memory_than_they_may() -> None:
    topics = Topics(*[f"t{number}" for number in range(1000)], memory_max=110_000)
    kept = [topics.watch(f".*|{number}")[0] for number in range(10)]
    assert 100_000 < sum([watcher.pattern.memory_bytes for watcher in kept]) <= 110_000
    with pytest.raises(BrokerError, match="would take over"):
        topics.watch(".*|more")
    topics.watchers.remove(kept.pop())
    topics.watch(".*|again")


def test_a_topic_that_comes_while_others_are_told_is_told_of_afterwards() -> None:
    topics = Topics()
    _, told = topics.watch()
    topics.come("a")
    topics.host.soon.popleft()()
    topics.come("b")
    topics.turns()
    assert [came for came, _, _ in told] == [[P + "a"], [P + "b"]]


def test_listeners_hear_at_once() -> None:
    topics = Topics()
    heard: list[tuple[str, str, bool]] = []
    topics.watchers.listeners.append(lambda *what: heard.append(what))
    topics.come("a")
    assert heard == [(NAMESPACE, P + "a", True)]


def test_a_second_watcher_is_told_the_same_as_the_first() -> None:
    world = World()
    client, other = world.connect(), world.connect()
    for number, one in enumerate((client, other)):
        one.request(
            pb.CommandWatchTopicList(
                request_id=1,
                watcher_id=number,
                namespace=NAMESPACE,
                topics_pattern="public/default/.*",
            )
        )
    client.producer("a")
    first = client.one(pb.CommandWatchTopicUpdate)
    second = other.one(pb.CommandWatchTopicUpdate)
    assert (first.watcher_id, second.watcher_id) == (0, 1)
    assert first.new_topics == second.new_topics == [P + "a"]
    assert first.topics_hash == second.topics_hash
