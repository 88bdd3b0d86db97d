"""The wheel works where nothing else of this project is: pure, compiled, and with extras."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from support.program import load
from support.requirement import need

import magnetar
from magnetar.admin.console.files import files

ROOT = Path(__file__).parent.parent
UV = Path(sys.executable).parent / "uv"


@pytest.fixture(scope="module")
def pure_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tool = load(ROOT / "tools" / "compile.py")
    built: Path = tool.build_wheel(tmp_path_factory.mktemp("wheel"), compiled=False)
    return built


def install(place: Path, wheel: Path, extras: str = "") -> Path:
    """A clean environment with the wheel and what it asks for; where its commands are."""
    lock = (ROOT / "requirements" / "dev.lock").read_text()
    constraints = place / "constraints.txt"
    constraints.write_text("\n".join(re.findall(r"^(\S+==[^\\\n]+?) \\$", lock, re.MULTILINE)))
    venv = place / "venv"
    commands: tuple[list[str | Path], ...] = (
        ["venv", "--quiet", "--python", sys.executable, venv],
        ["pip", "install", "--quiet", "--python", venv, "-c", constraints, f"{wheel}{extras}"],
    )
    for command in commands:
        ran = subprocess.run([UV, *command], capture_output=True, text=True, env=environment())
        assert ran.returncode == 0, ran.stderr
    return venv / "bin"


def environment() -> dict[str, str]:
    """This one, without what leads back to the project."""
    ours = ("MAGNETAR_", "PYTHON", "VIRTUAL_ENV", "COVERAGE")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def run(place: Path, *command: str) -> str:
    ran = subprocess.run(
        command, cwd=place, capture_output=True, text=True, timeout=120, env=environment()
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def first_steps(place: Path, bin: Path) -> str:
    return run(place, str(bin / "python"), str(ROOT / "tools" / "first_steps.py"))


def test_the_pure_wheel_is_all_one_needs(pure_wheel: Path, tmp_path: Path) -> None:
    bin = install(tmp_path, pure_wheel)
    assert first_steps(tmp_path, bin) == "hello False []\n"
    assert magnetar.__version__ in run(tmp_path, str(bin / "magnetar"), "--version")
    # What needs an extra says which.
    for extra, package in (("avro", "fastavro"), ("otel", "opentelemetry-api")):
        ran = subprocess.run(
            [bin / "python", "-c", BROUGHT[extra]], cwd=tmp_path, capture_output=True, text=True
        )
        assert ran.returncode == 1
        assert f"pip install {package}" in ran.stderr


def test_the_wheel_has_every_file_of_the_console(pure_wheel: Path) -> None:
    with zipfile.ZipFile(pure_wheel) as wheel:
        names = set(wheel.namelist())
    wanted = {f"magnetar/admin/console/static/{name}" for name in files()}
    assert len(wanted) > 10
    assert wanted <= names


def test_the_compiled_wheel_works_the_same(tmp_path: Path) -> None:
    wheels = list((ROOT / ".build" / "wheel").glob("*.whl"))
    need("compiled", magnetar.COMPILED and len(wheels) == 1, "`make compiled` builds it")
    assert first_steps(tmp_path, install(tmp_path, wheels[0])) == "hello True []\n"


# Spark's takes minutes to copy: `make test-long` asks for it.
EXTRAS = os.environ.get("MAGNETAR_WHEEL_EXTRAS", "avro,otel")
BROUGHT = {
    "avro": "import magnetar.schema as s; s.AvroSchema(None, {'type': 'string'})",
    "otel": "import magnetar.client.telemetry.telemetry",
    "arrow": "import magnetar.arrow.scan",
    "spark": "import magnetar.spark, pyspark_magnetar, deltalake, matplotlib, yaml",
}


def test_extras_bring_what_they_name(pure_wheel: Path, tmp_path: Path) -> None:
    bin = install(tmp_path, pure_wheel, f"[{EXTRAS}]")
    for extra in EXTRAS.split(","):
        assert run(tmp_path, str(bin / "python"), "-c", BROUGHT[extra] + "; print(1)") == "1\n"
