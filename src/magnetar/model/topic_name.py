"""Topic names, in the forms that people write and the one that Pulsar means.

`orders`, `acme/shop/orders` and `persistent://acme/shop/orders` are all accepted; the
last is the full form. A partition of a partitioned topic is a topic of its own, named
after it with `-partition-N` behind.
"""

import re
from typing import Final, final

from magnetar.errors import InvalidTopicNameError

PERSISTENT: Final = "persistent"
NON_PERSISTENT: Final = "non-persistent"
DEFAULT_NAMESPACE: Final = "public/default"
PARTITION_SUFFIX: Final = "-partition-"

# What Pulsar allows in the name of a tenant or a namespace.
_ENTITY: Final = re.compile(r"[-=:.\w]+", re.ASCII)
# As Java prints the number of a partition: no sign, no leading zero, at most 2**31-1.
_PARTITION_DIGITS: Final = re.compile(r"0|[1-9][0-9]{0,9}")
_PARTITION_MAX: Final = 0x7FFFFFFF


@final
class TopicName:
    """A topic's full name in its parts.

    >>> name = TopicName.parse("orders")
    >>> str(name), name.namespace
    ('persistent://public/default/orders', 'public/default')
    >>> str(name.with_partition(3)), name.with_partition(3).partition
    ('persistent://public/default/orders-partition-3', 3)
    """

    __slots__ = ("domain", "local_name", "namespace")

    def __init__(self, domain: str, namespace: str, local_name: str) -> None:
        self.domain: Final = domain
        self.namespace: Final = namespace
        self.local_name: Final = local_name

    @staticmethod
    def parse(name: str) -> "TopicName":
        """Returns the topic that a short or full name means. Raises InvalidTopicNameError."""
        domain, scheme, path = name.rpartition("://")
        if not scheme:
            domain = PERSISTENT
            if "/" not in path:
                path = f"{DEFAULT_NAMESPACE}/{path}"
        if domain not in (PERSISTENT, NON_PERSISTENT):
            raise InvalidTopicNameError(
                name, f"unknown domain {domain!r}, use {PERSISTENT}:// or {NON_PERSISTENT}://"
            )
        parts = path.split("/")
        if len(parts) != 3:
            raise InvalidTopicNameError(name, "write it as topic or tenant/namespace/topic")
        for part in parts[:2]:
            if _ENTITY.fullmatch(part) is None:
                raise InvalidTopicNameError(
                    name, f"tenant and namespace take letters, digits and -=:._, not {part!r}"
                )
        if not parts[2].strip():
            raise InvalidTopicNameError(name, "the topic itself has no name")
        return TopicName(domain, f"{parts[0]}/{parts[1]}", parts[2])

    @property
    def persistent(self) -> bool:
        """Whether the topic's messages are stored."""
        return self.domain == PERSISTENT

    @property
    def tenant(self) -> str:
        """The tenant that the namespace belongs to."""
        return self.namespace.partition("/")[0]

    @property
    def partition(self) -> int:
        """The partition that this topic is, or -1 if it is none."""
        topic, _, digits = self.local_name.rpartition(PARTITION_SUFFIX)
        if not topic or _PARTITION_DIGITS.fullmatch(digits) is None:
            return -1
        number = int(digits)
        return number if number <= _PARTITION_MAX else -1

    @property
    def partitioned(self) -> "TopicName":
        """The partitioned topic that this one is a partition of; else the topic itself."""
        if self.partition < 0:
            return self
        return TopicName(
            self.domain, self.namespace, self.local_name.rpartition(PARTITION_SUFFIX)[0]
        )

    def with_partition(self, number: int) -> "TopicName":
        """Returns the name of partition `number` of this topic."""
        if self.partition >= 0:
            raise InvalidTopicNameError(str(self), "a partition has no partitions of its own")
        if not 0 <= number <= _PARTITION_MAX:
            raise InvalidTopicNameError(str(self), f"no partition has the number {number}")
        return TopicName(
            self.domain, self.namespace, f"{self.local_name}{PARTITION_SUFFIX}{number}"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TopicName):
            return NotImplemented
        return str(self) == str(other)

    def __hash__(self) -> int:
        return hash((self.domain, self.namespace, self.local_name))

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, TopicName):
            return NotImplemented
        return str(self) < str(other)

    def __str__(self) -> str:
        return f"{self.domain}://{self.namespace}/{self.local_name}"

    def __repr__(self) -> str:
        return f"TopicName.parse({str(self)!r})"

    def __reduce__(self) -> tuple[type["TopicName"], tuple[str, str, str]]:
        return (TopicName, (self.domain, self.namespace, self.local_name))
