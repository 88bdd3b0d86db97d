"""Everything that takes bytes from a peer, and nothing around it: frames, commands, entries, ids.

Any exception but those that `transcript` expects is a failure. `run.py` has the command.
"""

from fuzz.judge import bounded, timed
from support.exercise import transcript
from support.seeds import SEEDS

__all__ = ["SEEDS", "one_input"]


def one_input(data: bytes) -> None:
    with bounded("the input"), timed("the input"):
        transcript(data)
