"""Apache Pulsar's Go client: its module, in a copy that may be changed."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest
from apache.harness import LONG
from support.requirement import need

__all__ = ["COMPILE_S", "fetch_module", "require_go", "run"]

MODULE: Final = "github.com/apache/pulsar-client-go@v0.19.0"
FETCH_S: Final = 600.0
COMPILE_S: Final = 1800.0


def require_go() -> None:
    """Goes on in the long form, where there is a go command: to fetch and compile takes minutes."""
    need("go", shutil.which("go") is not None, "no go command")
    if not LONG and "go" not in os.environ.get("MAGNETAR_REQUIRE", "").split():
        pytest.skip("the Go client's turn is in the long form")


def run(
    command: list[str],
    timeout_s: float,
    folder: Path | None = None,
    *,
    environment: dict[str, str] | None = None,
) -> str:
    """What a program says; `environment` is added to ours."""
    ran = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        env=os.environ | (environment or {}),
    )
    assert ran.returncode == 0, f"{command} ended with {ran.returncode}:\n{ran.stderr}"
    return ran.stdout


def fetch_module(scratch: Path) -> Path:
    said = run(["go", "mod", "download", "-json", MODULE], FETCH_S)
    copy = scratch / "module"
    shutil.copytree(json.loads(said)["Dir"], copy)
    for path in [copy, *copy.rglob("*")]:
        path.chmod(path.stat().st_mode | 0o200)
    return copy
