"""One call of `batch_receive`: what it has so far, and whether it goes on.

It ends when its policy has enough messages or bytes, or when its time is up. Until then the
application has none of it, and the broker may take messages back.
"""

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from magnetar.client.consumer.message import Message
from magnetar.client.consumer.withdrawal import Withdrawal
from magnetar.client.option.policy import ConsumerBatchReceivePolicy

__all__ = ["BatchReceive"]


@final
class BatchReceive:
    """See the module. `now_s` is a clock that only goes on."""

    def __init__(self, policy: ConsumerBatchReceivePolicy, now_s: Callable[[], float]) -> None:
        self.messages: Final[list[Message]] = []
        self._bytes: i64 = 0
        self._policy: Final = policy
        self._now_s: Final = now_s
        self._began_s: Final[float] = now_s()

    @property
    def open(self) -> bool:
        """Whether it takes another message."""
        policy = self._policy
        if 0 < policy.max_num_message <= len(self.messages):
            return False
        if 0 < policy.max_num_bytes <= self._bytes:
            return False
        left_ms = self.left_ms()
        return left_ms is None or left_ms > 0

    def left_ms(self) -> int | None:
        """How long it may wait for the next one; None is any time."""
        if self._policy.timeout_ms <= 0:
            return None
        passed_ms = int((self._now_s() - self._began_s) * 1000)
        return max(self._policy.timeout_ms - passed_ms, 0)

    def add(self, message: Message) -> None:
        self.messages.append(message)
        self._bytes += message.length()

    def withdraw(self, topic: str, withdrawal: Withdrawal | None) -> None:
        """Drops messages of a topic that are taken back or come again, or all of it; the
        application does not have them yet."""
        for message in list(self.messages):
            if message.topic_name() != topic:
                continue
            if withdrawal is None or withdrawal.takes(message):
                self.messages.remove(message)
                self._bytes -= message.length()
