"""Choices and policies that options are made of: where messages go, which come together.

Each policy is a value: made once, checked as it is made, never changed.
"""

from collections.abc import Callable
from enum import IntEnum
from itertools import pairwise
from typing import Final, TypeAlias, final

from magnetar.client.option import check
from magnetar.client.option.check import INT_MAX, MS_MAX
from magnetar.errors import SettingsError
from magnetar.model.enums import KeySharedMode
from magnetar.wire.integer import INT64_MAX

__all__ = [
    "BatchingType",
    "ConsumerBatchReceivePolicy",
    "ConsumerCryptoFailureAction",
    "ConsumerDeadLetterPolicy",
    "ConsumerKeySharedPolicy",
    "HashingScheme",
    "MessageRouter",
    "PartitionsRoutingMode",
]

# Hash ranges of a Key_Shared subscription: slots 0 to 65535.
SLOT_MAX: Final = 65535

# A router of the user's own: a `RoutedMessage` and the number of partitions give the
# partition. Whether that is a number is checked each time.
MessageRouter: TypeAlias = Callable[[object, int], object]


class PartitionsRoutingMode(IntEnum):
    """To which partition a message without a key goes."""

    UseSinglePartition = 0
    RoundRobinDistribution = 1
    CustomPartition = 2


class BatchingType(IntEnum):
    """Which messages may share a batch: any, or only those of one key."""

    Default = 0
    KeyBased = 1


class HashingScheme(IntEnum):
    """How a key is hashed to choose its partition.

    BoostHash is what the official Python client uses, and lets one choose no other;
    JavaStringHash is the default of the Java and Go clients. Producers of one topic must
    agree, or messages of one key end in different partitions.
    """

    Murmur3_32Hash = 0
    BoostHash = 1
    JavaStringHash = 2


class ConsumerCryptoFailureAction(IntEnum):
    """What a consumer does with a message that it cannot decrypt."""

    FAIL = 0
    DISCARD = 1
    CONSUME = 2


@final
class ConsumerDeadLetterPolicy:
    """After how many redeliveries a message goes elsewhere, and where.

    Topics that are None have Pulsar's names, made from topic and subscription.
    """

    def __init__(
        self,
        max_redeliver_count: object,
        dead_letter_topic: object = None,
        initial_subscription_name: object = None,
        *,
        retry_letter_topic: object = None,
    ) -> None:
        self.max_redeliver_count: Final[int] = check.number(
            "max_redeliver_count", max_redeliver_count, 1, INT_MAX
        )
        self.dead_letter_topic: Final[str | None] = check.text_or_none(
            "dead_letter_topic", dead_letter_topic
        )
        self.initial_subscription_name: Final[str | None] = check.text_or_none(
            "initial_subscription_name", initial_subscription_name
        )
        self.retry_letter_topic: Final[str | None] = check.text_or_none(
            "retry_letter_topic", retry_letter_topic
        )


@final
class ConsumerBatchReceivePolicy:
    """When `batch_receive` has enough; a limit of 0 or less is none, but one must be set."""

    def __init__(
        self,
        max_num_message: object = -1,
        max_num_bytes: object = 10 * 1024 * 1024,
        timeout_ms: object = 100,
    ) -> None:
        self.max_num_message: Final[int] = check.number(
            "max_num_message", max_num_message, -INT_MAX, INT_MAX
        )
        self.max_num_bytes: Final[int] = check.number(
            "max_num_bytes", max_num_bytes, -INT64_MAX, INT64_MAX
        )
        self.timeout_ms: Final[int] = check.number("timeout_ms", timeout_ms, -MS_MAX, MS_MAX)
        if self.max_num_message <= 0 and self.max_num_bytes <= 0 and self.timeout_ms <= 0:
            raise SettingsError(
                "batch_receive_policy",
                "without any limit it would wait for ever: "
                "set one of max_num_message, max_num_bytes, timeout_ms",
            )


@final
class ConsumerKeySharedPolicy:
    """Which keys of a Key_Shared subscription a consumer gets."""

    def __init__(
        self,
        key_shared_mode: object = KeySharedMode.AutoSplit,
        allow_out_of_order_delivery: object = False,
        sticky_ranges: object = None,
    ) -> None:
        self.key_shared_mode: Final[KeySharedMode] = check.choice(
            "key_shared_mode", key_shared_mode, KeySharedMode
        )
        self.allow_out_of_order_delivery: Final[bool] = check.flag(
            "allow_out_of_order_delivery", allow_out_of_order_delivery
        )
        self.sticky_ranges: Final[list[tuple[int, int]]] = _ranges("sticky_ranges", sticky_ranges)
        if self.key_shared_mode == KeySharedMode.Sticky and not self.sticky_ranges:
            raise SettingsError("sticky_ranges", "KeySharedMode.Sticky needs at least one range")


def _ranges(name: str, value: object) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    if value is None:
        return ranges
    if not isinstance(value, (list, tuple)):
        raise check.wrong_type(name, value, "a list of pairs")
    for pair in value:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise SettingsError(name, f"{pair!r:.40} is not a pair of numbers")
        first = check.number(name, pair[0], 0, SLOT_MAX)
        ranges.append((first, check.number(name, pair[1], first, SLOT_MAX)))
    ordered = sorted(ranges)
    for before, after in pairwise(ordered):
        if after[0] <= before[1]:
            raise SettingsError(name, f"{before} and {after} overlap: both ends belong to a range")
    return ranges
