"""The interceptors of one consumer, called in their order: `consumer_interceptor.py` says when."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from magnetar.client.consumer.message import Message
from magnetar.client.intercept.consumer_interceptor import ConsumerInterceptor
from magnetar.client.intercept.failure import failure_of
from magnetar.model.message_id import MessageId

__all__ = ["ConsumerInterceptors"]


class ConsumerInterceptors:
    """All of a consumer's, in their order."""

    def __init__(self, interceptors: Sequence[ConsumerInterceptor], log: logging.Logger) -> None:
        self._interceptors = interceptors
        self._log = log

    def before_consume(self, consumer: Any, message: Message[Any]) -> Message[Any]:
        for interceptor in self._interceptors:
            try:
                found: object = interceptor.before_consume(consumer, message)
            except Exception:
                self._tell(interceptor, "before_consume")
                continue
            if isinstance(found, Message):
                message = found
            else:
                self._log.error(
                    "%s.before_consume returned a %s, not a message: it goes on as it was",
                    type(interceptor).__name__,
                    type(found).__name__,
                )
        return message

    @contextmanager
    def acknowledging(
        self, consumer: Any, messages: Sequence[Message[Any] | MessageId], *, cumulative: bool
    ) -> Iterator[None]:
        """Tells what becomes of the acknowledgement that is done in the block."""
        what = "on_acknowledge_cumulative" if cumulative else "on_acknowledge"
        ids = [one.message_id() if isinstance(one, Message) else one for one in messages]
        error: Exception | None = None
        try:
            yield
        except BaseException as failed:
            error = failure_of(failed)
            raise
        finally:
            for id in ids:
                self._each(what, consumer, id, error)

    def letter_acknowledged(self, consumer: Any, id: MessageId, error: Exception | None) -> None:
        """The consumer has acknowledged by itself what it has published elsewhere."""
        self._each("on_acknowledge", consumer, id, error)

    def redelivered(self, consumer: Any, refused: set[MessageId], late: set[MessageId]) -> None:
        """The broker is asked for these again: after negative acks, and for want of any."""
        if refused:
            self._each("on_negative_acks_send", consumer, refused)
        if late:
            self._each("on_ack_timeout_send", consumer, late)

    def close(self) -> None:
        self._each("close")

    def _each(self, what: str, *arguments: object) -> None:
        for interceptor in self._interceptors:
            try:
                getattr(interceptor, what)(*arguments)
            except Exception:
                self._tell(interceptor, what)

    def _tell(self, interceptor: ConsumerInterceptor, what: str) -> None:
        self._log.exception("%s.%s failed", type(interceptor).__name__, what)
