"""The same chaos with retries of acks and without, as a table.

    PYTHONPATH=.build/compiled:tests .venv/bin/python tests/chaos/compare.py --messages 100000

`again, same` counts messages that a worker was handed once more though it had acked them, which
is what retries are there to prevent. `again, other` counts all others that were handed out more
than once: nobody had acked them, or another worker had, whose ack was not confirmed when its
connection ended or it was killed. Without retries acks have receipts, and one that fails is not
given again.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from chaos.run import Plan, run
from rich.console import Console
from rich.table import Table

TYPES = [("KeyShared", 3, False), ("Failover", 2, True), ("Exclusive", 1, True)]
COLUMNS = (
    "sent",
    "lost",
    "out of order",
    "acked, came back",
    "again, same",
    "again, other",
    "failed",
)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--type", choices=[type for type, _, _ in TYPES], help="only this one")
    chosen = parser.parse_args()
    table = Table(title=f"{chosen.messages:,} messages, kill -9 of broker and workers")
    table.add_column("subscription")
    table.add_column("retries")
    for column in (*COLUMNS, "kills", "workers"):
        table.add_column(column, justify="right")
    fine = True
    for type, workers, cumulative in TYPES:
        if chosen.type not in (None, type):
            continue
        for retries in (True, False):
            plan = Plan(type, workers, cumulative, retries, chosen.messages, chosen.seconds)
            plan.pause_s, plan.seed = 2.0, chosen.seed
            with tempfile.TemporaryDirectory() as directory:
                ran, facts = run(plan, Path(directory))
            verdict, count = facts.judge(ran.sent), facts.count
            fine &= verdict.fine or not retries
            wrong = (verdict.lost, verdict.out_of_order, verdict.came_back + verdict.twice)
            other = count.again - count.same_worker
            cells = [len(ran.sent), *map(len, wrong), count.same_worker, other, count.acks_failed]
            cells += [count.kills, count.workers]
            table.add_row(type, "on" if retries else "off", *(f"{cell:,}" for cell in cells))
            print(f"{type}, retries {'on' if retries else 'off'}: done", file=sys.stderr)
    Console(width=140).print(table)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
