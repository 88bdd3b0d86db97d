"""The answers to an ACK, for consumers that asked for one."""

from magnetar.broker.topic.consumer import Consumer
from magnetar.protocol import CommandAckResponse

__all__ = ["answer_ack", "refuse_ack"]


def answer_ack(consumer: Consumer, request_id: int | None) -> None:
    """Tells a consumer that its ack is kept."""
    if request_id is not None:
        consumer.peer.send(CommandAckResponse(consumer.id, request_id))


def refuse_ack(consumer: Consumer, request_id: int | None, code: int, reason: str) -> None:
    """Tells a consumer that its ack is not kept, and why."""
    if request_id is not None:
        consumer.peer.send(CommandAckResponse(consumer.id, request_id, int(code), reason))
