"""What a worker is told besides the options of its consumer, and those options' defaults.

A worker's consumer differs from a plain one in what its users expect: several processes share
the subscription, an order that was sent before the first start is handled too, and acks that
fail are sent again. Whoever names one of these options has it his way.
"""

from typing import Final, final

from magnetar.client.option import check
from magnetar.client.option.check import INT_MAX
from magnetar.errors import SettingsError
from magnetar.model.enums import InitialPosition
from magnetar.model.subscription_type import ConsumerType

__all__ = [
    "CONCURRENCY_MAX",
    "GRACE_S",
    "WorkerSettings",
    "consumer_defaults",
    "output_defaults",
]

# More threads or tasks than this is a mistake in a number.
CONCURRENCY_MAX: Final = 10_000
# What Kubernetes gives a process between SIGTERM and SIGKILL is 30 s; the rest is for closing.
GRACE_S: Final = 25.0
# Enough that a fast function does not wait for the network, few enough that a slow one does not
# keep messages that another process could have.
QUEUE_SIZE_MIN: Final = 16
QUEUE_FACTOR: Final = 4


@final
class WorkerSettings:
    """How many messages are in hand at once, and how long a stop waits for them."""

    def __init__(self, concurrency: object, grace_s: object) -> None:
        self.concurrency: Final[int] = check.number("concurrency", concurrency, 1, CONCURRENCY_MAX)
        self.grace_s: Final[float] = seconds("grace_s", grace_s)


def seconds(name: str, value: object) -> float:
    """Returns a time in seconds. Raises SettingsError for what is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise check.wrong_type(name, value, "seconds as a number")
    if not 0 <= value <= INT_MAX:
        raise SettingsError(name, f"{value} is no time to wait: give 0 or more seconds")
    return float(value)


def consumer_defaults(concurrency: int) -> dict[str, object]:
    """Returns the options in which a worker's consumer differs from a plain one.

    >>> consumer_defaults(32)["receiver_queue_size"]
    128
    """
    return {
        "consumer_type": ConsumerType.Shared,
        "initial_position": InitialPosition.Earliest,
        "receiver_queue_size": max(QUEUE_SIZE_MIN, QUEUE_FACTOR * concurrency),
        "auto_retry_acknowledgement": True,
    }


def output_defaults(chunking: bool) -> dict[str, object]:
    """Returns the options in which what a transactional worker publishes with differs.

    A function may send much, and its transaction waits for all of it.
    """
    return {"block_if_queue_full": True, "batching_enabled": not chunking}
