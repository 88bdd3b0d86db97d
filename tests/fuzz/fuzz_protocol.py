"""Coverage-guided fuzzing of everything that takes bytes from a peer.

    make test-long                                   two minutes, from scratch
    MAGNETAR_FUZZ_SECONDS=3600 make test-long        longer

It runs the interpreted build, where atheris sees every branch. Any exception but those
that `transcript` expects stops it, with the input printed.
"""

import os
import sys
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parent.parent))

with atheris.instrument_imports(include=["magnetar"]):
    from support.exercise import transcript
    from support.seeds import SEEDS

SECONDS = int(os.environ.get("MAGNETAR_FUZZ_SECONDS", "120"))


def one_input(data: bytes) -> None:
    transcript(data)


def main() -> None:
    corpus = Path(sys.argv[1] if len(sys.argv) > 1 else ".build/fuzz")
    corpus.mkdir(parents=True, exist_ok=True)
    for name, seed in SEEDS.items():
        (corpus / name).write_bytes(seed)
    options = [f"-max_total_time={SECONDS}", "-max_len=4096", "-print_final_stats=1"]
    atheris.Setup([sys.argv[0], str(corpus), *options], one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
