"""Coverage-guided fuzzing: bytes that take new branches are kept and changed further.

    python tests/fuzz/run.py --seconds 20                   every target in turn
    python tests/fuzz/run.py --seconds 20 --blind           the same without atheris, on any build
    python tests/fuzz/run.py --seconds 600 --target rest    one of them, for longer
    python tests/fuzz/run.py --target rest --input FILE     one input again, without atheris

Interpreters with atheris and the interpreted build (PYTHONPATH=src) are needed, for atheris sees
the branches of that one; .venv/fuzz has them after `make test-long`. What was found worth keeping
is in .build/fuzz/TARGET and is where the next run begins. An input that fails is written to
.build/fuzz/TARGET-failed, the command that repeats it is printed, and the exit code is 1.

An input of a session takes 11 ms interpreted, about twice that under atheris, and 5 ms compiled.
So `--blind` goes on from what atheris kept, with PYTHONPATH=.build/compiled: it changes those
inputs at random, several times as many in the same time, and tries the build that is shipped.
"""

import argparse
import gc
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any, Final

TESTS: Final = Path(__file__).parent.parent
CORPUS: Final = TESTS.parent / ".build" / "fuzz"
TARGETS: Final = ("protocol", "session", "recovery", "rest", "websocket")
INPUT_BYTES_MAX: Final = 4096
# What a single input may take by the clock; the judge's limits are shorter, and in CPU time.
HANG_SECONDS: Final = 60
RSS_MIB_MAX: Final = 2048
# Inputs to begin with, where a target has none of its own.
RANDOM_SEEDS: Final = 40
# How many changes are made to an input, at most, and of how many bytes.
CHANGES_MAX: Final = 8
CHANGED_BYTES_MAX: Final = 16


def main() -> int:
    options = parse()
    sys.path.insert(0, str(TESTS))
    if options.input is not None:
        play(options.target[0], options.input)
        return 0
    if options.guided:
        guide(options.target[0], options.seconds)
        return 0
    if options.blind:
        names = options.target or TARGETS
        failed = [name for name in names if not ran_blind(name, options.seconds, options.seed)]
        return 1 if failed else 0
    failed = [name for name in options.target or TARGETS if not ran(name, options.seconds)]
    return 1 if failed else 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=int, default=20, help="for each target")
    parser.add_argument("--target", choices=TARGETS, action="append", help="default: all")
    parser.add_argument("--blind", action="store_true", help="change known inputs at random")
    parser.add_argument("--seed", type=int, default=0, help="of --blind: other inputs")
    parser.add_argument("--input", type=Path, help="a file with an input to repeat")
    parser.add_argument("--guided", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.input is not None and len(options.target or ()) != 1:
        parser.error("--input needs the one --target that it is for")
    return options


def play(name: str, file: Path) -> None:
    """Raises what the input makes fail."""
    import_module(f"fuzz.fuzz_{name}").one_input(file.read_bytes())
    print(f"{file}: no failure")


def ran(name: str, seconds: int) -> bool:
    """Fuzzes a target in a process of its own; whether nothing failed."""
    print(f"== fuzzing {name} for {seconds} s", flush=True)
    known = set(failures(name))
    command = [sys.executable, __file__, "--guided", "--target", name, "--seconds", str(seconds)]
    code = subprocess.run(command, check=False).returncode
    found = [file for file in failures(name) if file not in known]
    for file in found:
        print(f"FAILED: {name}, input in {file}; to repeat it:")
        print(f"  PYTHONPATH=src python tests/fuzz/run.py --target {name} --input {file}")
    if code and not found:
        print(f"FAILED: {name} ended with exit code {code}")
    return code == 0 and not found


def ran_blind(name: str, seconds: int, seed: int) -> bool:
    """Tries inputs that are known ones, changed at random; whether none failed."""
    target: Any = import_module(f"fuzz.fuzz_{name}")
    known = sorted((CORPUS / name).glob("*")) if (CORPUS / name).is_dir() else []
    inputs = [file.read_bytes() for file in known]
    inputs += getattr(target, "SEEDS", random_seeds()).values()
    random = Random(seed)
    print(f"== {name} for {seconds} s, blind, from {len(inputs)} inputs", flush=True)
    target.one_input(b"")
    gc.freeze()
    count, longest = 0, 0.0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        data = changed(inputs, random)
        began = time.thread_time()
        try:
            target.one_input(data)
        except Exception:
            traceback.print_exc()
            failed = CORPUS / f"{name}-failed"
            failed.mkdir(parents=True, exist_ok=True)
            file = failed / f"blind-{seed}-{count}"
            file.write_bytes(data)
            print(f"FAILED: {name}, input in {file}; to repeat it:")
            print(f"  python tests/fuzz/run.py --target {name} --input {file}")
            return False
        count, longest = count + 1, max(longest, time.thread_time() - began)
    print(f"{count} inputs, the longest took {longest:.3f} s")
    return True


def changed(inputs: list[bytes], random: Random) -> bytes:
    """One of the inputs with some bytes changed, left out, put in, or taken from another one."""
    data = bytearray(random.choice(inputs))
    for _ in range(random.randint(1, CHANGES_MAX)):
        at = random.randint(0, len(data))
        length = random.randint(1, CHANGED_BYTES_MAX)
        kind = random.randrange(4)
        if kind == 0:
            data[at : at + length] = random.randbytes(length)
        elif kind == 1:
            del data[at : at + length]
        elif kind == 2:
            data[at:at] = random.randbytes(length)
        else:
            other = random.choice(inputs)
            begin = random.randint(0, len(other))
            data[at:] = other[begin:]
    return bytes(data[:INPUT_BYTES_MAX])


def failures(name: str) -> list[Path]:
    folder = CORPUS / f"{name}-failed"
    return sorted(folder.iterdir()) if folder.is_dir() else []


def guide(name: str, seconds: int) -> None:
    """Hands this process to the fuzzer, which ends it."""
    import atheris

    with atheris.instrument_imports(include=["magnetar"]):
        target: Any = import_module(f"fuzz.fuzz_{name}")
    corpus, failed = CORPUS / name, CORPUS / f"{name}-failed"
    for folder in (corpus, failed):
        folder.mkdir(parents=True, exist_ok=True)
    for title, data in getattr(target, "SEEDS", random_seeds()).items():
        (corpus / title).write_bytes(data)
    one_input: Callable[[bytes], None] = target.one_input
    one_input(b"")  # imports and tables, which are no input's fault
    gc.freeze()
    flags = [
        f"-max_total_time={seconds}",
        f"-max_len={INPUT_BYTES_MAX}",
        f"-timeout={HANG_SECONDS}",
        f"-rss_limit_mb={RSS_MIB_MAX}",
        f"-artifact_prefix={failed}/",
        "-print_final_stats=1",
        "-verbosity=1",
    ]
    atheris.Setup([sys.argv[0], str(corpus), *flags], one_input)
    atheris.Fuzz()


def random_seeds() -> dict[str, bytes]:
    random = Random(1)
    return {f"random-{i}": random.randbytes(random.randrange(1, 400)) for i in range(RANDOM_SEEDS)}


if __name__ == "__main__":
    sys.exit(main())
