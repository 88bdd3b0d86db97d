"""Lists of topics for clients that subscribe by a pattern: filtered and hashed.

A pattern is matched by RE2, whose time grows with the text alone: nobody can hold the
broker up with an expression. But it grows with the program that the pattern becomes too, and a few
characters can become millions of instructions: so programs are bounded, and each match has a cost.

It is matched against names without their domain and without `-partition-N`, as clients do when
they filter themselves: `t-[ab]` has the partitions of `t-a`, and `t-a-partition-0` has none
(Apache's pull requests 21885 and 22025).
"""

from collections.abc import Callable
from typing import Final, final

import re2  # type: ignore[import-untyped]
from mypy_extensions import i64

from magnetar.errors import BrokerError
from magnetar.model import ServerError, TopicName
from magnetar.protocol.topics_hash import topics_hash

__all__ = ["TopicFilter", "match_text", "topics_hash"]

# Clients are told what is wrong with their patterns; RE2 would print them on standard error too.
OPTIONS: Final = re2.Options()
OPTIONS.log_errors = False
# What compiling takes, and matching later on: 8 MiB as RE2 has it.
OPTIONS.max_mem = 256 << 10
# Instructions of a program: against the longest name it takes 6 ms at worst.
PROGRAM_MAX: Final = 3000
# What a thousand of them, against a name of eight characters, may take: 17 us.
COST_BITS: Final = 13
# For the estimate of memory: of an instruction, and of all else that a pattern has.
INSTRUCTION_BYTES: Final = 20
PATTERN_BYTES: Final = 2048


@final
class TopicFilter:
    """A topics pattern, compiled. Raises BrokerError for one that cannot be."""

    def __init__(self, pattern: str, length_max: int) -> None:
        if length_max > 0 and len(pattern) > length_max:
            raise BrokerError(
                ServerError.NotAllowedError,
                f"the topics pattern has {len(pattern)} characters, {length_max} are allowed",
            )
        try:
            compiled = re2.compile(without_domain(pattern), OPTIONS)
        except re2.error as error:
            raise BrokerError(
                ServerError.NotAllowedError, f"no topics pattern: {pattern!r}: {error}"
            ) from error
        self._size: Final[i64] = compiled.programsize
        if self._size > PROGRAM_MAX:
            raise BrokerError(
                ServerError.NotAllowedError,
                f"the topics pattern {pattern!r} becomes {self._size} instructions, "
                f"{PROGRAM_MAX} are allowed: repeat less in it",
            )
        self._matches: Final[Callable[[str], object]] = compiled.fullmatch
        # About what it takes as long as it is kept.
        self.memory_bytes: Final[int] = PATTERN_BYTES + INSTRUCTION_BYTES * int(self._size)

    def cost(self, text: str) -> i64:
        """What holding a text against the pattern costs: 1, or more of a long text and pattern."""
        size: i64 = len(text)
        if not text.isascii():
            size *= 4
        return 1 + (self._size * size >> COST_BITS)

    def matches_text(self, text: str) -> bool:
        """Returns whether a topic matches, by what `match_text` makes of its name."""
        return self._matches(text) is not None


def match_text(topic: str) -> str:
    """Returns what patterns match of a topic's name."""
    name = TopicName.parse(topic)
    return f"{name.namespace}/{name.partitioned.local_name}"


def without_domain(pattern: str) -> str:
    """Returns the pattern as people write it, without `persistent://`."""
    return pattern.partition("://")[2] or pattern
