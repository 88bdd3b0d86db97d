"""Retry letters of a consumer: messages that it publishes to be received again later.

After as many rounds as the dead letter policy says a message is a dead letter instead. Whoever
published it acks it where it came from.
"""

from typing import TYPE_CHECKING

from magnetar.client.consumer.dead_letter import (
    RECONSUME_TIMES_MAX,
    reconsume_times,
    retry_letter_properties,
)
from magnetar.client.consumer.message import Message
from magnetar.client.engine.letters import Letters
from magnetar.client.option.options import ConsumerOptions
from magnetar.client.transaction.core import TransactionCore

if TYPE_CHECKING:
    from magnetar.client.engine.client import Engine

__all__ = ["RetryLetters"]


class RetryLetters:
    """Those of one consumer, for all of its topics."""

    def __init__(
        self,
        engine: "Engine",
        letters: Letters,
        options: ConsumerOptions,
        retry_topic: str,
        dead_topic: str,
    ) -> None:
        self._engine = engine
        self._letters = letters
        self._options = options
        self._retry_topic = retry_topic
        self.dead_topic = dead_topic

    async def publish(
        self,
        message: Message,
        delay_ms: int,
        properties: dict[str, str] | None,
        transaction: TransactionCore | None,
    ) -> None:
        """Publishes a message to be received again after a delay, or as a dead letter."""
        policy = self._options.dead_letter_policy
        times_max = RECONSUME_TIMES_MAX if policy is None else policy.max_redeliver_count
        merged = retry_letter_properties(
            message, self._options.subscription_name, delay_ms, properties
        )
        if reconsume_times(message) < times_max:
            at_ms = self._engine.day_ms() + delay_ms
            await self._letters.publish(
                self._retry_topic, message, merged, deliver_at=at_ms, transaction=transaction
            )
            return
        await self._letters.publish(
            self.dead_topic,
            message,
            merged,
            initial_subscription=None if policy is None else policy.initial_subscription_name,
            transaction=transaction,
        )
