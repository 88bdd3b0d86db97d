"""Coverage-guided fuzzing: bytes that take new branches are kept and changed further.

    python tests/fuzz/run.py --seconds 20                   every target in turn
    python tests/fuzz/run.py --seconds 600 --target rest    one of them, for longer
    python tests/fuzz/run.py --target rest --input FILE     one input again, without atheris

Interpreters with atheris and the interpreted build (PYTHONPATH=src) are needed, for atheris sees
the branches of that one; .venv/fuzz has them after `make test-long`. What was found worth keeping
is in .build/fuzz/TARGET and is where the next run begins. An input that fails is written to
.build/fuzz/TARGET-failed, the command that repeats it is printed, and the exit code is 1.
"""

import argparse
import gc
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any, Final

TESTS: Final = Path(__file__).parent.parent
CORPUS: Final = TESTS.parent / ".build" / "fuzz"
TARGETS: Final = ("protocol", "session", "recovery", "rest")
INPUT_BYTES_MAX: Final = 4096
# What a single input may take by the clock; the judge's limits are shorter, and in CPU time.
HANG_SECONDS: Final = 60
RSS_MIB_MAX: Final = 2048
# Inputs to begin with, where a target has none of its own.
RANDOM_SEEDS: Final = 40


def main() -> int:
    options = parse()
    sys.path.insert(0, str(TESTS))
    if options.input is not None:
        play(options.target[0], options.input)
        return 0
    if options.guided:
        guide(options.target[0], options.seconds)
        return 0
    failed = [name for name in options.target or TARGETS if not ran(name, options.seconds)]
    return 1 if failed else 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=int, default=20, help="for each target")
    parser.add_argument("--target", choices=TARGETS, action="append", help="default: all")
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
