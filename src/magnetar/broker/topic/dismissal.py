"""Consumers that the broker closed, by a reset or an unload: each is told in its turn.

A subscription may have thousands of them, and telling them all in one event would hold everybody
up (I10). So all are closed at once: they are sent nothing from then on, and may not ack. But
they are told a few at a time.
"""

from functools import partial

from magnetar.broker.host import Host
from magnetar.broker.promise import Promise, kept
from magnetar.broker.topic.consumer import Consumer
from magnetar.broker.turn.pieces import Pieces
from magnetar.broker.turn.slices import Step, in_slices

__all__ = ["dismiss"]


def dismiss(host: Host, pieces: Pieces, consumers: list[Consumer]) -> Promise[None]:
    """Tells consumers that they are closed; kept when all are told."""
    steps: list[Step] = [partial(_tell, consumer) for consumer in consumers]
    return in_slices(host, steps, pieces.consumers)


def _tell(consumer: Consumer) -> Promise[None]:
    # One that is over was closed by its client meanwhile, who may have subscribed anew.
    if not consumer.is_over and not consumer.recalled:
        consumer.tell_closed()
    consumer.drop_all()
    return kept(None)
