"""Records what Apache Pulsar answers to the walk, for the tests to compare with.

    PYTHONPATH=src:tests .venv/bin/python tests/surface/record.py http://127.0.0.1:8080
    PYTHONPATH=src:tests .venv/bin/python tests/surface/record.py

The first walks a standalone broker that runs already and has fresh data, the second starts one of
its own (tests/apache). Then the operations are read from the annotations in the broker's jar, if
its jars are there. It takes some five minutes: policies of topics take effect a little later there.
"""

import json
import os
import subprocess
import sys

from apache.artifacts import HERE as APACHE
from apache.artifacts import ArtifactsMissing, classpath, fetch
from apache.harness import ApachePulsar
from surface.player import play
from surface.recording import OPERATIONS, template, write_recording

TENANT = "walk"


def record(url: str) -> None:
    told = play(url, TENANT, pause=True)
    write_recording(told)
    print(f"recorded {sum(map(len, told.values()))} answers")


def record_operations() -> None:
    """Reads method and path of each operation from Pulsar's own annotations."""
    jars = os.pathsep.join(str(jar) for jar in classpath("server"))
    program = str(APACHE / "java" / "Operations.java")
    ran = subprocess.run(["java", "-cp", jars, program], capture_output=True, text=True, check=True)
    found = set()
    for line in ran.stdout.splitlines():
        resource, method, path = line.split("\t")[:3]
        if ".v3." in resource:
            path = f"/v3{path}"
        elif resource.startswith("rest."):
            path = f"/topics{path}"
        elif resource.startswith("lookup."):
            path = f"/lookup{path}"
        found.add(f"{method} {template(path)}")
    OPERATIONS.write_text("".join(f"{one}\n" for one in sorted(found)))
    print(f"found {len(found)} operations")


def main(arguments: list[str]) -> int:
    if arguments:
        record(arguments[0])
    else:
        with ApachePulsar() as apache:
            record(apache.http_url)
    try:
        fetch()
    except ArtifactsMissing as missing:
        print(json.dumps({"operations": f"kept as they are: {missing}"}))
        return 0
    record_operations()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
