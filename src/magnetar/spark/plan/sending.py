"""Rows into a producer, many at a time: what is done for each of them is compiled.

Of most messages nobody asks what became of them one by one: the producer counts what is stored
and what failed. Some are marked with `done`, which then hears why: so are delayed ones, each of
which is an entry of its own. With an `enlistment` they are part of its transaction.
"""

from typing import Final

from mypy_extensions import i64

from magnetar.client.producer.core import ProducerCore
from magnetar.client.producer.outgoing import Done, Outgoing
from magnetar.client.transaction.enlistment import Enlistment
from magnetar.spark.plan.rows import Row

__all__ = ["send_rows", "send_values"]

# One message of so many is marked, and the last.
MARKED: Final = 64


def send_values(
    core: ProducerCore, data: bytes, ends: bytes, done: Done, enlistment: Enlistment | None = None
) -> None:
    """Sends values that lie one behind the other in `data`.

    `ends` has an int64 for each, little-endian: where it ends.
    """
    count: i64 = len(ends) // 8
    first: i64 = 0
    for row in range(count):
        end = _int64(ends, row * 8)
        marked = row % MARKED == 0 or row == count - 1
        if enlistment is None:
            core.send(Outgoing(data[first:end], done if marked else None))
        else:
            _send_in(core, Outgoing(data[first:end], done if marked else None), enlistment)
        first = end


def _int64(data: bytes, at: i64) -> i64:
    value: i64 = 0
    for i in range(8):
        value |= i64(data[at + i]) << (i * 8)
    return value


def send_rows(
    core: ProducerCore, rows: list[Row], done: Done, enlistment: Enlistment | None = None
) -> None:
    """Sends rows; where they go was decided before."""
    count: i64 = len(rows)
    for at in range(count):
        alone = rows[at][5] is not None
        marked = at % MARKED == 0 or at == count - 1 or alone
        outgoing = _outgoing(rows[at], done if marked else None)
        if enlistment is None:
            core.send(outgoing)
        else:
            _send_in(core, outgoing, enlistment)


def _send_in(core: ProducerCore, message: Outgoing, enlistment: Enlistment) -> None:
    enlistment.transaction.join()
    message.take_part(enlistment)
    try:
        core.send(message)
    except BaseException:
        enlistment.transaction.leave(1, None)
        raise


def _outgoing(row: Row, done: Done | None) -> Outgoing:
    _, value, key, ordering_key, event_time, deliver_at, properties = row
    return Outgoing(
        value or b"",
        done,
        properties=dict(properties) if properties else None,
        partition_key=key,
        ordering_key=ordering_key,
        event_timestamp=event_time or 0,
        deliver_at=deliver_at,
        null_value=value is None,
    )
