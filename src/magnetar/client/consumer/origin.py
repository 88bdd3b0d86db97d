"""Where messages came from: one life of one subscription, as long as a consumer is at it.

Positions name messages within one store. When the client goes over to another cluster, or the
subscription, its topic or the whole store was made anew, the same position is another message,
or none. An `Origin` is what all messages have in common that a consumer was given until then;
once it is `gone`, an ack of one of them would ack something else, and is not sent.

A Magnetar broker tells the life of the subscription with its answers to SUBSCRIBE and SEEK:
the id of its cursor and, behind a dot, the number of its last reset. Apache Pulsar tells none,
and there a change of cluster is all that can be known.

| the life that is joined   | what is unconfirmed             | messages the application has   |
|---------------------------|---------------------------------|--------------------------------|
| is the same, or not told  | is sent                         | can be acked                   |
| was reset by others       | is given up: the reset decides  | can be acked one by one: they  |
|                           |                                 | are the same; not cumulatively |
| has another cursor, or is | is given up                     | cannot be acked: the origin is |
| of another cluster        |                                 | gone                           |
"""

from typing import Final, final

from mypy_extensions import i64

__all__ = ["ANEW", "MOVED", "RESET", "Origin", "same_cursor"]

RESET: Final = (
    "the subscription was reset before the broker confirmed the ack, and the reset decides what "
    "is acked"
)
ANEW: Final = (
    "the subscription was made anew before the broker confirmed the ack: the message is gone, or "
    "comes again"
)
MOVED: Final = (
    "the client went over to another cluster before the broker confirmed the ack: the message is "
    "unacked where it came from"
)


@final
class Origin:
    """See the module."""

    def __init__(self) -> None:
        self.gone: bool = False
        # How often the subscription was moved, and how often by others. What was acked of a
        # batch before that may not be so any more.
        self.moves: i64 = 0
        self.resets: i64 = 0


def same_cursor(life: str, other: str) -> bool:
    """Returns whether two lives are of one subscription, which was perhaps reset in between.

    >>> same_cursor("12.0", "12.3"), same_cursor("12.0", "31.0")
    (True, False)
    """
    return life.partition(".")[0] == other.partition(".")[0]
