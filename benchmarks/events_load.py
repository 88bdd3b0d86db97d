"""The CPU time that a broker takes for each message, without sockets, threads and a disk.

    PYTHONPATH=CLONE/.build/compiled python events_load.py CLONE --messages 20000

It is run by bench_console.py: with the package of one clone and then with that of another, to say
what a change costs. The broker of `tests/support/world.py` runs in this thread, and what it does in
its events is added up; what the client here does is not. Prints one line of JSON.
"""

import argparse
import gc
import json
import sys
from functools import partial
from pathlib import Path
from typing import Final

BLOCK: Final = 50
PAYLOAD: Final = bytes(range(256)) * 4


def run(messages: int) -> dict[str, float]:
    # Those of the clone that was named: what they call is of its package.
    from bench_events import TimedWorld
    from support.wire_client import Shared

    from magnetar.protocol import CommandFlow, CommandMessage, CommandSend, encode

    world = TimedWorld()
    client, other = world.connect(), world.connect()
    producer, consumer = client.producer("t"), other.subscribe("t", "s", Shared)
    frames = [
        encode(CommandSend(producer.id, n, producer.entry(PAYLOAD, n), 1)) for n in range(messages)
    ]
    blocks = [b"".join(frames[n : n + BLOCK]) for n in range(0, messages, BLOCK)]
    world.begin()
    gc.disable()
    world.hear(other, CommandFlow(consumer.id, messages))
    received = 0
    for block in blocks:
        world.event(partial(client.session.receive, block))
        world.settle()
        ids = [c.message_id for c in other.received if isinstance(c, CommandMessage)]
        received += len(ids)
        client.received.clear()
        other.received.clear()
        world.hear(other, consumer.ack_command(tuple(ids)))
        world.settle()
    assert received == messages
    return {"count": messages, "seconds": world.total, "cpu": world.total}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("clone", type=Path)
    parser.add_argument("--messages", type=int, default=20_000)
    chosen = parser.parse_args()
    sys.path[:0] = [str(chosen.clone / "tests"), str(chosen.clone / "benchmarks")]
    print(json.dumps(run(chosen.messages)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
