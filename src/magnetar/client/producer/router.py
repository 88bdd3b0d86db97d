"""Which partition a message goes to.

A message with a key goes where the hash of the key says, so that messages of one key keep
their order; the others go in turn, or all to one partition. With batching, taking turns is
by the batch and not by the message, or every partition would have a batch of few messages
open. A function of the user's own overrules all of this.

Producers of one topic must agree about the hash. The official Python client knows only
`boost::hash`, as recent versions of Boost have it, which is thus the default here; clients
for Java and Go hash keys like Java does unless told otherwise.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Final, SupportsIndex, final

from mypy_extensions import i64

from magnetar.client.option.options import (
    HashingScheme,
    MessageRouter,
    PartitionsRoutingMode,
    ProducerOptions,
)
from magnetar.client.producer.outgoing import Outgoing
from magnetar.errors import UsageError
from magnetar.protocol.key_hash import key_hash

__all__ = [
    "RoundRobinRouter",
    "RoutedMessage",
    "Router",
    "SinglePartitionRouter",
    "UserRouter",
    "boost_hash",
    "hash_of_key",
    "java_string_hash",
    "make_router",
]

_INT32_MAX: Final = 0x7FFFFFFF


class Router:
    """Chooses one of `partitions`; how many there are may grow from call to call."""

    @abstractmethod
    def choose(self, message: Outgoing, partitions: int, now_ms: int) -> int:
        """Returns a number from 0 up to `partitions`."""


def make_router(options: ProducerOptions, random: Callable[[], float]) -> Router:
    """Returns the router that a producer of a partitioned topic was told to use.

    `random` gives a number from 0 up to 1; it says where to begin.
    """
    if options.message_router is not None:
        return UserRouter(options.message_router)
    first = int(random() * _INT32_MAX)
    if options.message_routing_mode == PartitionsRoutingMode.UseSinglePartition:
        return SinglePartitionRouter(options, first)
    return RoundRobinRouter(options, first)


@final
class RoundRobinRouter(Router):
    """Takes turns: after each message or, with batching, after what fills a batch."""

    def __init__(self, options: ProducerOptions, first: int) -> None:
        self._scheme: Final[i64] = int(options.hashing_scheme)
        self._batching: Final[bool] = options.batching_enabled
        self._count_max: Final[i64] = options.batching_max_messages
        self._size_max: Final[i64] = options.batching_max_allowed_size_in_bytes
        self._delay_ms: Final[i64] = options.batching_max_publish_delay_ms
        self._turn: i64 = first
        # What this partition has had in its turn, and since when.
        self._count: i64 = 0
        self._size: i64 = 0
        self._since_ms: i64 = -1

    def choose(self, message: Outgoing, partitions: int, now_ms: int) -> int:
        if message.partition_key is not None:
            return hash_of_key(self._scheme, message.partition_key) % partitions
        if not self._batching:
            turn = self._turn
            self._turn += 1
            return turn % partitions
        size: i64 = len(message.payload)
        if self._since_ms < 0:
            self._since_ms = now_ms
        elif (
            self._count >= self._count_max
            or self._size + size >= self._size_max
            or now_ms - self._since_ms >= self._delay_ms
        ):
            self._turn += 1
            self._since_ms = now_ms
            self._count = 0
            self._size = 0
        self._count += 1
        self._size += size
        return self._turn % partitions


@final
class SinglePartitionRouter(Router):
    """Messages without a key all go to one partition, chosen once."""

    def __init__(self, options: ProducerOptions, choice: int) -> None:
        self._scheme: Final[i64] = int(options.hashing_scheme)
        self._choice: Final[int] = choice
        # Chosen among those that there were at first: more of them move nothing.
        self._partition: int = -1

    def choose(self, message: Outgoing, partitions: int, now_ms: int) -> int:
        if message.partition_key is not None:
            return hash_of_key(self._scheme, message.partition_key) % partitions
        if self._partition < 0:
            self._partition = self._choice % partitions
        return self._partition


@final
class UserRouter(Router):
    """Asks a function of the user's; what it raises, the sender gets."""

    def __init__(self, router: MessageRouter) -> None:
        self._router: Final[MessageRouter] = router

    def choose(self, message: Outgoing, partitions: int, now_ms: int) -> int:
        answer = self._router(RoutedMessage(message), partitions)
        if not isinstance(answer, SupportsIndex):
            raise UsageError(f"message_router returned {answer!r:.40}: it must return a number")
        partition = answer.__index__()
        if not 0 <= partition < partitions:
            raise UsageError(
                f"message_router returned {partition}: there are partitions 0 to {partitions - 1}"
            )
        return partition


@final
class RoutedMessage:
    """What a message router sees of a message, by the names that `Message` has."""

    def __init__(self, message: Outgoing) -> None:
        self._message: Final[Outgoing] = message

    def data(self) -> bytes:
        return self._message.payload

    def properties(self) -> dict[str, str]:
        return dict(self._message.properties or {})

    def partition_key(self) -> str:
        """Returns the key, or an empty text where there is none."""
        return self._message.partition_key or ""

    def ordering_key(self) -> str:
        return (self._message.ordering_key or b"").decode(errors="replace")

    def event_timestamp(self) -> int:
        return self._message.event_timestamp


def hash_of_key(scheme: i64, key: str) -> int:
    """Returns the hash of a key, without its sign."""
    if scheme == HashingScheme.JavaStringHash:
        return java_string_hash(key)
    if scheme == HashingScheme.Murmur3_32Hash:
        return key_hash(key.encode())
    return boost_hash(key.encode())


def java_string_hash(key: str) -> int:
    """Java's String.hashCode without its sign: over UTF-16, so that any key agrees."""
    units = key.encode("utf-16-le", "surrogatepass")
    h: i64 = 0
    for i in range(0, len(units), 2):
        low: i64 = units[i]
        high: i64 = units[i + 1]
        h = (31 * h + (high << 8 | low)) & 0xFFFFFFFF
    return h & _INT32_MAX


_WORD: Final = 0xFFFFFFFFFFFFFFFF
_BOOST_STEP: Final = 0x9E3779B97F4A7C15
_BOOST_FACTOR: Final = 0xDF442D22CE4859B9


def boost_hash(key: bytes) -> int:
    """Boost's hash of a string where words have 64 bits, as the C++ client cuts it to 31.

    Eight bytes at a time are multiplied into the state, as little-endian words; what is
    left over makes one last word, a zero if nothing is.
    """
    position = _folded(_BOOST_STEP)
    state = position ^ len(key)
    for first in range(0, len(key) // 8 * 8 + 1, 8):
        position = (position + _BOOST_STEP) & _WORD
        state ^= _folded(int.from_bytes(key[first : first + 8], "little") + position)
    return _folded(state + position) & _INT32_MAX


def _folded(value: int) -> int:
    product = (value & _WORD) * _BOOST_FACTOR
    return (product & _WORD) ^ (product >> 64)
