"""Builds the compiled package beside the sources, where it can never shadow them.

The package goes to .build/compiled, unpacked from the wheel that tools/hatch_build.py compiles:
no compiled file ever lies in src/, and one that strays in is removed. The build is keyed by a
digest of what matters to it, so it is redone when a source changed and only then; what a change
leaves as it was comes from .build/objects. Without a C compiler or Python.h there is no compiled
package, and everything runs interpreted; this says so, and fails if MAGNETAR_REQUIRE names
`compiled`.

`--if-quick` leaves it where nothing was compiled before: `make demo` should begin soon.
`--wheels DIR` writes the compiled wheel (where one can be built) and the pure one.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Any

from hatch_build import obstacle

ROOT = Path(__file__).parent.parent
BUILD = ROOT / ".build"
COMPILED = BUILD / "compiled"
DIGEST = BUILD / "compiled.digest"
# The wheel that the compiled package came in.
WHEEL = BUILD / "wheel"
# Objects of earlier builds.
OBJECTS = BUILD / "objects"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--wheels", type=Path, metavar="DIR", help="write wheels instead")
    parser.add_argument("--possible", action="store_true", help="say whether it can be done")
    parser.add_argument(
        "--if-quick", action="store_true", help="do it if an earlier build left most of it"
    )
    parser.add_argument("--current", action="store_true", help="say whether it is done")
    arguments = parser.parse_args()
    wheels: Path | None = arguments.wheels
    if arguments.current:
        return 0 if is_current(digest_of_inputs()) else 1
    why_not = obstacle()
    if arguments.possible:
        return 1 if why_not else 0
    if arguments.if_quick and not why_not and not is_quick():
        print("interpreted, for to compile takes minutes the first time: `make compiled` does it")
        return 0
    sweep()
    if why_not:
        shutil.rmtree(COMPILED, ignore_errors=True)
        DIGEST.unlink(missing_ok=True)
        print(f"not compiled: {why_not}; everything runs interpreted")
        if "compiled" in os.environ.get("MAGNETAR_REQUIRE", "").split():
            print("MAGNETAR_REQUIRE asks for a compiled build", file=sys.stderr)
            return 1
    if wheels is not None:
        wheels = wheels.absolute()
        build_wheel(wheels, compiled=False)
        if not why_not:
            build_wheel(wheels, compiled=True)
    elif not why_not:
        compile_package()
    return 0


def sweep() -> None:
    """Removes compiled files from src/, where they would win over the edited source."""
    for pattern in ("*.so", "*.pyd"):
        for stray in (ROOT / "src").rglob(pattern):
            print(f"removing {stray.relative_to(ROOT)}: compiled files do not belong in src/")
            stray.unlink()


def is_current(digest: str) -> bool:
    """Whether there is a compiled package of these sources."""
    return DIGEST.exists() and DIGEST.read_text() == digest and COMPILED.is_dir()


def is_quick() -> bool:
    """Whether it is done, or an earlier build left objects, so that it takes a minute or so."""
    return is_current(digest_of_inputs()) or any(OBJECTS.glob("*"))


def compile_package() -> None:
    digest = digest_of_inputs()
    if is_current(digest):
        return
    DIGEST.unlink(missing_ok=True)
    for old in (COMPILED, WHEEL):
        shutil.rmtree(old, ignore_errors=True)
    print("compiling the pure rooms with mypyc", flush=True)
    with zipfile.ZipFile(build_wheel(WHEEL, compiled=True)) as archive:
        archive.extractall(COMPILED)
    DIGEST.write_text(digest)


def digest_of_inputs() -> str:
    """What tells one compiled package from another: sources, settings and tools of the build."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    settings = [project.get(part) for part in ("build-system", "project")]
    settings.append(project.get("tool", {}).get("hatch"))
    said = [sys.version, sysconfig.get_platform(), repr(settings), repr(tools_of(project))]
    total = hashlib.sha256("\n".join(said).encode())
    sources = (p for p in (ROOT / "src").rglob("*") if p.is_file() and p.suffix != ".pyc")
    for path in sorted([*sources, ROOT / "tools" / "hatch_build.py"]):
        total.update(path.relative_to(ROOT).as_posix().encode())
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def tools_of(project: dict[str, Any]) -> list[tuple[str, str]]:
    """The packages that compile, and those whose types they read, with their versions."""
    wanted = {re.split(r"[^\w.-]", text)[0] for text in project["dependency-groups"]["build"]}
    return sorted((d.name, d.version) for d in metadata.distributions() if d.name in wanted)


def build_wheel(into: Path, *, compiled: bool) -> Path:
    """Builds one wheel and returns its path."""
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(into)],
        cwd=ROOT,
        env=os.environ
        | {"MAGNETAR_COMPILE": "yes" if compiled else "no", "MAGNETAR_OBJECTS": str(OBJECTS)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if built.returncode != 0:
        print(built.stdout, file=sys.stderr)
        raise SystemExit("the build failed, see above")
    tag = "cp" if compiled else "py3-none-any"
    (wheel,) = (p for p in into.glob("magnetar-*.whl") if f"-{tag}" in p.name)
    print(f"built {wheel.name}")
    return wheel


if __name__ == "__main__":
    sys.exit(main())
