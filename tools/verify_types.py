"""Fails unless every public name of the package has a type that pyright knows."""

import json
import os
import subprocess
import sys
from pathlib import Path


def main() -> int:
    binaries = Path(sys.executable).parent
    ran = subprocess.run(
        [binaries / "pyright", "--verifytypes", "magnetar", "--ignoreexternal", "--outputjson"],
        env=os.environ | {"PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        text=True,
    )
    report = json.loads(ran.stdout)["typeCompleteness"]
    for symbol in report["symbols"]:
        if symbol["isExported"] and (not symbol["isTypeKnown"] or symbol["isTypeAmbiguous"]):
            reasons = [d["message"] for d in symbol["diagnostics"] if d["severity"] == "error"]
            if reasons:  # or a part of it has one
                print(f"{symbol['name']}: {'; '.join(reasons)}")
    exported = report["exportedSymbolCounts"]
    known, all_of_them = exported["withKnownType"], sum(exported.values())
    print(f"pyright knows the types of {known} of {all_of_them} public names")
    return 0 if 0 < known == all_of_them else 1


if __name__ == "__main__":
    sys.exit(main())
