"""I8: a peer that says what nobody should: no protocol at all, nearly one, or half of a frame.

What is said by half is kept by the broker until it gives such peers up, and must harm nobody
meanwhile (I10).
"""

import asyncio
import contextlib
from random import Random
from typing import TYPE_CHECKING

from magnetar.protocol import PROTOCOL_VERSION, encode
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.testing.sim.simulation import Simulation

if TYPE_CHECKING:
    from sim.workload import Book

# Of 256: how many frames are said by half.
HALF_SAID = 100
HELLO = encode(pb.CommandConnect(client_version="vandal", protocol_version=PROTOCOL_VERSION))


async def vandalise(simulation: Simulation, book: "Book") -> None:
    """I8: bytes that are no protocol, nearly one, or half of it, on connections of their own."""
    random = simulation.loop.random_for("vandal")
    while book.publishing:
        await asyncio.sleep(random.random())
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", simulation.broker.port)
            writer.write(rubbish(random))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(reader.read(), 5)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


def rubbish(random: Random) -> bytes:
    if random.random() < 0.5:
        return random.randbytes(random.randrange(1, 200))
    body = random.randbytes(random.randrange(4, 60))
    # The right length, and a command that is none; or half of a frame, of which no more will come.
    missing = int.from_bytes(body[:2], "big") if body[-1] < HALF_SAID else 0
    frame = (len(body) + 4 + missing).to_bytes(4, "big") + len(body).to_bytes(4, "big") + body
    return HELLO + frame if body[-2] % 2 else frame
