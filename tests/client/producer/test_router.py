"""Which partition a message goes to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.client.option.options import HashingScheme, PartitionsRoutingMode, ProducerOptions
from magnetar.client.producer.outgoing import Outgoing
from magnetar.client.producer.router import (
    RoundRobinRouter,
    RoutedMessage,
    Router,
    SinglePartitionRouter,
    UserRouter,
    boost_hash,
    hash_of_key,
    java_string_hash,
    make_router,
)
from magnetar.errors import UsageError

# Where the official Python client 3.13.0 put messages of these keys, in 101 partitions.
OFFICIAL = {
    "a": 13,
    "bc": 4,
    "key": 56,
    "key-1": 84,
    "hello": 22,
    "abcde": 49,
    "seven77": 34,
    "eight888": 33,
    "nine99999": 91,
    "a-much-longer-key-for-boost": 68,
    "ünïcödé": 47,
}


def router(first: float = 0.0, **options: object) -> Router:
    return make_router(ProducerOptions(**options), lambda: first)  # type: ignore[arg-type]


@pytest.mark.parametrize(("key", "partition"), OFFICIAL.items())
def test_keys_go_where_the_official_client_sends_them(key: str, partition: int) -> None:
    message = Outgoing(b"", partition_key=key)
    assert router().choose(message, 101, 0) == partition
    single = router(message_routing_mode=PartitionsRoutingMode.UseSinglePartition)
    assert single.choose(message, 101, 0) == partition


def test_hashes_have_their_known_values() -> None:
    assert java_string_hash("hello") == 99162322
    # Negative in Java, whose clients take the sign off.
    assert java_string_hash("polygenelubricants") == 0
    assert java_string_hash("😀") == 31 * 0xD83D + 0xDE00
    assert hash_of_key(HashingScheme.JavaStringHash, "") == 0
    assert hash_of_key(HashingScheme.Murmur3_32Hash, "hello") == 0x248BFA47
    assert hash_of_key(HashingScheme.Murmur3_32Hash, "key-1") == 0x98B115A0 & 0x7FFFFFFF


@given(st.text(min_size=1, max_size=40), st.sampled_from(HashingScheme), st.integers(1, 1000))
def test_key_always_goes_to_one_partition(key: str, scheme: HashingScheme, partitions: int) -> None:
    message = Outgoing(b"", partition_key=key)
    chosen = {
        router(first, hashing_scheme=scheme, batching_enabled=batching).choose(
            message, partitions, now_ms
        )
        for first, batching, now_ms in ((0.0, False, 0), (0.9, True, 50), (0.5, True, 10**12))
    }
    assert len(chosen) == 1
    assert 0 <= chosen.pop() < partitions


@given(st.binary(max_size=40))
def test_boost_hash_has_31_bits(key: bytes) -> None:
    assert 0 <= boost_hash(key) <= 0x7FFFFFFF


def test_without_batching_every_message_is_a_turn() -> None:
    turns = router()
    assert [turns.choose(Outgoing(b"x"), 3, 0) for _ in range(7)] == [0, 1, 2, 0, 1, 2, 0]


def test_where_turns_begin_is_random() -> None:
    choices = {router(n / 1000).choose(Outgoing(b"x"), 10, 0) for n in range(1000)}
    assert choices == set(range(10))


def test_with_batching_a_turn_is_a_batch_of_messages() -> None:
    turns = router(batching_enabled=True, batching_max_messages=3)
    chosen = [turns.choose(Outgoing(b"x"), 4, 0) for _ in range(10)]
    assert chosen == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]


def test_with_batching_a_turn_ends_with_its_bytes() -> None:
    turns = router(batching_enabled=True, batching_max_allowed_size_in_bytes=100)
    chosen = [turns.choose(Outgoing(b"x" * size), 4, 0) for size in (40, 40, 40, 200, 1)]
    assert chosen == [0, 0, 1, 2, 3]


def test_with_batching_a_turn_ends_with_its_delay() -> None:
    turns = router(batching_enabled=True, batching_max_publish_delay_ms=10)
    chosen = [turns.choose(Outgoing(b"x"), 4, now_ms) for now_ms in (100, 109, 110, 119, 121)]
    assert chosen == [0, 0, 1, 1, 2]


def test_keys_take_no_turns() -> None:
    turns = router(batching_enabled=True, batching_max_messages=2)
    chosen = []
    for _ in range(4):
        chosen.append(turns.choose(Outgoing(b"x"), 3, 0))
        turns.choose(Outgoing(b"x", partition_key="k"), 3, 0)
    assert chosen == [0, 0, 1, 1]


def test_single_partition_stays_when_there_are_more() -> None:
    single = router(0.5, message_routing_mode=PartitionsRoutingMode.UseSinglePartition)
    first = single.choose(Outgoing(b"x"), 4, 0)
    assert {single.choose(Outgoing(b"x"), partitions, 0) for partitions in (4, 5, 9)} == {first}


@pytest.mark.parametrize("mode", list(PartitionsRoutingMode))
def test_users_router_overrules_the_mode(mode: PartitionsRoutingMode) -> None:
    seen: list[tuple[object, int]] = []

    def choose(message: object, partitions: int) -> int:
        seen.append((message, partitions))
        return 2

    chosen = router(message_router=choose, message_routing_mode=mode)
    assert isinstance(chosen, UserRouter)
    message = Outgoing(
        b"data",
        partition_key="k",
        ordering_key=b"o",
        properties={"a": "b"},
        event_timestamp=5,
    )
    assert chosen.choose(message, 3, 0) == 2
    ((routed, partitions),) = seen
    assert partitions == 3
    assert isinstance(routed, RoutedMessage)
    assert routed.data() == b"data"
    assert (routed.partition_key(), routed.ordering_key()) == ("k", "o")
    assert (routed.properties(), routed.event_timestamp()) == ({"a": "b"}, 5)
    bare = RoutedMessage(Outgoing(b""))
    assert (bare.partition_key(), bare.ordering_key(), bare.properties()) == ("", "", {})


@pytest.mark.parametrize("answer", [-1, 3, "1", None])
def test_users_router_must_choose_a_partition(answer: object) -> None:
    chosen = UserRouter(lambda message, partitions: answer)
    with pytest.raises(UsageError, match="message_router returned"):
        chosen.choose(Outgoing(b""), 3, 0)


def test_users_router_may_answer_with_any_whole_number() -> None:
    class Two:
        def __index__(self) -> int:
            return 2

    assert UserRouter(lambda message, partitions: Two()).choose(Outgoing(b""), 3, 0) == 2


def test_modes_have_their_routers() -> None:
    assert isinstance(router(), RoundRobinRouter)
    mode = PartitionsRoutingMode.UseSinglePartition
    assert isinstance(router(message_routing_mode=mode), SinglePartitionRouter)
