"""What Apache Pulsar answered, and the operations that it has: two files beside this one.

`recording.jsonl` has an answer in each line, by chapters, `operations.txt` method and path of each
operation. `record.py` makes both from Apache Pulsar itself.
"""

import json
import re
from pathlib import Path
from typing import Any, Final

__all__ = ["LEFT_OUT", "operations", "read_recording", "template", "write_recording"]

HERE: Final = Path(__file__).parent
RECORDING: Final = HERE / "recording.jsonl"
OPERATIONS: Final = HERE / "operations.txt"

# What is not walked, and why.
LEFT_OUT: Final = {
    r"^\w+ /(v3/)?(functions?|sources?|sinks?|worker|worker-stats|packages)(/|$)": (
        "functions, connectors and packages are not the broker's"
    ),
    r"^\w+ /non-persistent/\{\}/\{\}/\{\}/permissions/\{\}$": "as of persistent topics, which are",
    r"^POST /brokers/shutdown$": "it would end the broker that is walked",
    r"^POST /clusters/\{\}/migrate$": "it would send all clients of the broker elsewhere",
}


def read_recording() -> dict[str, list[dict[str, Any]]]:
    """Answers by chapter, in the order of their requests."""
    found: dict[str, list[dict[str, Any]]] = {}
    for line in RECORDING.read_text().splitlines():
        told = json.loads(line)
        found.setdefault(told.pop("chapter"), []).append(told)
    return found


def write_recording(found: dict[str, list[dict[str, Any]]]) -> None:
    lines = [
        json.dumps({"chapter": chapter, **told})
        for chapter, answers in found.items()
        for told in answers
    ]
    RECORDING.write_text("\n".join(lines) + "\n")


def operations() -> list[str]:
    """Method and path of each operation, with `{}` for each name in it."""
    return OPERATIONS.read_text().split("\n")[:-1]


def template(path: str) -> str:
    """A path of Pulsar's annotations, by which requests are found that ask for it."""
    return re.sub(r"\{[^}]*\}", "{}", path)
