"""Where the acks of one entry are: one value, and what each event makes of it.

| state     | means                                                                             |
|-----------|-----------------------------------------------------------------------------------|
| idle      | nothing is to be sent; the record is kept to know when the batch is done          |
| pending   | something of it was not sent yet: it is in the group that is being gathered       |
| waiting   | its ACK failed, and is to be sent again when its time has come (`retry.py`)       |
| in flight | an ACK of it was sent with a request id, and has no answer                        |
| followed  | likewise, and more of it was acked since: that follows when the answer has come   |
| hurried   | likewise, and what follows is in the group, which is sent at once                 |
| twice     | two of its ACKs have no answer, as the consumer is about to be closed             |

| event   | means                                                                               |
|---------|-------------------------------------------------------------------------------------|
| added   | there is something to send: it was acked, or its ACK failed and goes again          |
| sent    | an ACK names it that asks for an answer                                             |
| written | an ACK names it that asks for none: what was written counts as received             |
| landed  | one of its ACKs was kept or refused, or its answer will not come                    |
| put off | its ACK failed, and it is to wait for its time                                      |
| due     | its time has come, or need not be waited for                                        |
| dropped | there is nothing left to send: it was taken back, or a cumulative ack took it over  |
| hurry   | the consumer is about to be closed: what follows does not wait for the answer       |

`TABLE` has the moves, which `EntryAcks.move` makes. A cell without a state is a mistake of ours,
and raises.
"""

from typing import Final

__all__ = [
    "ADDED",
    "DROPPED",
    "DUE",
    "EVENTS",
    "FOLLOWED",
    "HURRIED",
    "HURRY",
    "IDLE",
    "IN_FLIGHT",
    "LANDED",
    "NEXT",
    "NO",
    "PENDING",
    "PUT_OFF",
    "SENT",
    "TABLE",
    "TWICE",
    "WAITING",
    "WRITTEN",
]

# All from IN_FLIGHT on have an ACK without an answer.
IDLE: Final = 0
PENDING: Final = 1
WAITING: Final = 2
IN_FLIGHT: Final = 3
FOLLOWED: Final = 4
HURRIED: Final = 5
TWICE: Final = 6

ADDED: Final = 0
SENT: Final = 1
WRITTEN: Final = 2
LANDED: Final = 3
PUT_OFF: Final = 4
DUE: Final = 5
DROPPED: Final = 6
HURRY: Final = 7

EVENTS: Final = 8
NO: Final = 255

TABLE: Final[tuple[tuple[int, ...], ...]] = (
    #          added      sent       written  landed    put off  due      dropped  hurry
    (IDLE,      PENDING,  NO,        NO,      NO,       WAITING, NO,      IDLE,    NO),
    (PENDING,   PENDING,  IN_FLIGHT, IDLE,    NO,       NO,      NO,      IDLE,    NO),
    (WAITING,   WAITING,  NO,        NO,      NO,       NO,      PENDING, IDLE,    NO),
    (IN_FLIGHT, FOLLOWED, NO,        NO,      IDLE,     NO,      NO,      NO,      NO),
    (FOLLOWED,  FOLLOWED, NO,        NO,      IDLE,     NO,      NO,      NO,      HURRIED),
    (HURRIED,   NO,       TWICE,     NO,      NO,       NO,      NO,      NO,      NO),
    (TWICE,     TWICE,    NO,        NO,      FOLLOWED, NO,      NO,      NO,      NO),
)  # fmt: skip

# The same, row after row, EVENTS to each: a byte is quickly found.
NEXT: Final = bytes([following for row in TABLE for following in row[1:]])
