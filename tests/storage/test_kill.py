"""kill -9 of a real process under load: what it receipted is there.

The number of rounds comes from MAGNETAR_KILL_ROUNDS. Five rounds share a directory: each
continues in what the last one left.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from storage.workload import START

from magnetar.storage import FileDisk, StoreOptions, check, open_store

ROUNDS = int(os.environ.get("MAGNETAR_KILL_ROUNDS", "5"))
ROUNDS_PER_DIRECTORY = 5
CHILD = Path(__file__).parent / "kill_child.py"


def run_and_kill(directory: Path, random: Random) -> list[str]:
    """Starts a child, kills it after some receipts, and returns all it managed to say."""
    command = [sys.executable, str(CHILD), str(directory), str(random.randrange(1 << 30))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        said = [child.stdout.readline() for _ in range(random.randrange(1, 3000))]
        child.send_signal(signal.SIGKILL)
        said += child.stdout.readlines()
    assert child.returncode == -signal.SIGKILL
    return [line.rstrip("\n") for line in said if line.endswith("\n")]


@pytest.mark.once
@pytest.mark.parametrize("seed", range(max(ROUNDS // ROUNDS_PER_DIRECTORY, 1)))
def test_everything_receipted_survives_kill_9_and_no_id_names_two_messages(
    tmp_path: Path, seed: int
) -> None:
    random = Random(seed)
    contents: dict[tuple[int, int], bytes] = {}
    receipted: dict[tuple[int, int], bytes] = {}
    acked: dict[str, set[int]] = {}
    trimmed: set[int] = set()
    total = 0
    for _ in range(ROUNDS_PER_DIRECTORY):
        for line in run_and_kill(tmp_path, random):
            kind, *words = line.split()
            total += kind != "T"
            if kind == "E":
                key = (int(words[1]), int(words[2]))
                assert key not in receipted
                receipted[key] = f"{words[0]} {words[3]} ".encode()
            elif kind == "A":
                acked.setdefault(words[0], set()).add(int(words[1]))
            else:
                trimmed.add(int(words[0]))
        assert check(FileDisk(tmp_path)) == []
        store = open_store(FileDisk(tmp_path), lambda: 0, StoreOptions(watermark_bytes=0))
        found = {}
        for topic_id, name in store.topics().items():
            entries = store.read(topic_id, START, entries_max=1 << 30, bytes_max=1 << 40)
            for entry in entries:
                assert entry.data is not None
                key = (int(entry.ledger_id), int(entry.entry_id))
                found[key] = entry.data
                assert contents.setdefault(key, entry.data) == entry.data
            (cursor_id,) = store.cursor_ids(topic_id)
            image = store.cursor_image(cursor_id)
            kept = {int(n) for n in (image.snapshot + b"".join(image.deltas)).split()}
            assert acked.get(name, set()) <= kept
        for key, start in receipted.items():
            if key in found:
                assert found[key].startswith(start)
            else:
                assert key[0] in trimmed, f"{key} was receipted, and is lost"
        store.close()
        assert check(FileDisk(tmp_path)) == []
    assert total > ROUNDS_PER_DIRECTORY
