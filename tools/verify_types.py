"""Fails unless every public name of the library has a type that pyright knows.

The broker, its REST, its WebSockets and the command line are programs, not a library: mypy
sees to them, and to the batcher, whose attributes mypyc wants declared once.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

PROGRAMS = (
    "magnetar.broker.",
    "magnetar.admin.",
    "magnetar.cli.",
    "magnetar.websocket.",
    "magnetar.client.producer.batcher.",
)


def main() -> int:
    binaries = Path(sys.executable).parent
    ran = subprocess.run(
        [binaries / "pyright", "--verifytypes", "magnetar", "--ignoreexternal", "--outputjson"],
        env=os.environ | {"PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        text=True,
    )
    report = json.loads(ran.stdout)["typeCompleteness"]
    known = unknown = 0
    for symbol in report["symbols"]:
        if not symbol["isExported"] or symbol["name"].startswith(PROGRAMS):
            continue
        if symbol["isTypeKnown"] and not symbol["isTypeAmbiguous"]:
            known += 1
            continue
        unknown += 1
        reasons = [d["message"] for d in symbol["diagnostics"] if d["severity"] == "error"]
        if reasons:  # or a part of it has one
            print(f"{symbol['name']}: {'; '.join(reasons)}")
    print(f"pyright knows the types of {known} of {known + unknown} public names")
    return 0 if known > 0 == unknown else 1


if __name__ == "__main__":
    sys.exit(main())
