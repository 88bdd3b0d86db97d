"""The types of subscriptions, and what each of them is able to do.

| type       | consumers | gets everything | cumulative acks | single skips | order    |
|------------|-----------|-----------------|-----------------|--------------|----------|
| Exclusive  | one       | that one        | yes             | no           | of all   |
| Failover   | many      | the active one  | yes             | no           | of all   |
| Shared     | many      | nobody          | no              | yes          | none     |
| Key_Shared | many      | nobody          | no              | yes          | by key   |

A row is a value that a dispatcher is made with, and everybody else asks the row, in the broker as
in the client: nobody asks which class serves a subscription, or compares names. A new type is
a number and a row here, and a dispatcher that the broker's `choice.py` makes.
"""

from enum import IntEnum
from typing import Final, final

__all__ = [
    "EXCLUSIVE",
    "FAILOVER",
    "KEY_SHARED",
    "SHARED",
    "SUBSCRIPTION_TYPES",
    "TYPE_NAMES",
    "ConsumerType",
    "SubscriptionType",
    "type_named",
    "type_numbered",
    "type_of",
]


class ConsumerType(IntEnum):
    """How the consumers of one subscription share its messages."""

    Exclusive = 0
    Shared = 1
    Failover = 2
    KeyShared = 3


@final
class SubscriptionType:
    """A row of the module's table. `number` is the wire's, `name` what people and REST write."""

    def __init__(
        self,
        number: ConsumerType,
        name: str,
        *,
        has_active: bool = False,
        takes_one: bool = False,
        goes_by_key: bool = False,
    ) -> None:
        self.number: Final = int(number)
        self.name: Final = name
        # Whether one consumer at a time gets everything, in order.
        self.has_active: Final = has_active
        # Whether a second consumer is refused.
        self.takes_one: Final = takes_one
        # Whether each key belongs to one consumer at a time.
        self.goes_by_key: Final = goes_by_key

    @property
    def accepts_cumulative_acks(self) -> bool:
        """Whether "everything up to here" means something: only who gets everything may say so."""
        return self.has_active

    @property
    def skips_single_messages(self) -> bool:
        """Whether an operator may skip messages by their ids (PIP-423)."""
        return not self.has_active

    @property
    def is_kept(self) -> bool:
        """Whether the type is written down with the cursor, so that an unload does not change
        what may be done with the subscription."""
        return self.has_active

    def __repr__(self) -> str:
        return f"SubscriptionType({self.name})"


EXCLUSIVE: Final = SubscriptionType(
    ConsumerType.Exclusive, "Exclusive", has_active=True, takes_one=True
)
SHARED: Final = SubscriptionType(ConsumerType.Shared, "Shared")
FAILOVER: Final = SubscriptionType(ConsumerType.Failover, "Failover", has_active=True)
KEY_SHARED: Final = SubscriptionType(ConsumerType.KeyShared, "Key_Shared", goes_by_key=True)

SUBSCRIPTION_TYPES: Final = (EXCLUSIVE, SHARED, FAILOVER, KEY_SHARED)
TYPE_NAMES: Final = tuple([type.name for type in SUBSCRIPTION_TYPES])


def type_numbered(number: int) -> SubscriptionType | None:
    """Returns the type that has this number on the wire; None if there is none."""
    for type in SUBSCRIPTION_TYPES:
        if type.number == number:
            return type
    return None


def type_of(consumer_type: ConsumerType) -> SubscriptionType:
    """Returns the type of a subscription whose consumers have this one."""
    type = type_numbered(consumer_type)
    assert type is not None
    return type


def type_named(name: str) -> SubscriptionType | None:
    """Returns the type of this name; None if there is none."""
    for type in SUBSCRIPTION_TYPES:
        if type.name == name:
            return type
    return None
