"""Builds the compiled package beside the sources, where it can never shadow them.

mypyc's output goes to .build/compiled, from a copy of the tree: no compiled file ever
lies in src/, and one that strays in (hatch-mypyc leaves some behind) is removed. The
build is keyed by a digest of everything that goes into it, so it is redone when a source
changed and only then. Without a C compiler or Python.h there is no compiled package, and
everything runs interpreted; this says so, and fails if MAGNETAR_REQUIRE names `compiled`.

`--wheels DIR` writes the compiled wheel (where one can be built) and the pure one.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
BUILD = ROOT / ".build"
COMPILED = BUILD / "compiled"
DIGEST = BUILD / "compiled.digest"
# The wheel that the compiled package came in.
WHEEL = BUILD / "wheel"
INPUTS = ("pyproject.toml", "README.md", "LICENSE", "requirements/dev.lock")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--wheels", type=Path, metavar="DIR", help="write wheels instead")
    parser.add_argument("--possible", action="store_true", help="say whether it can be done")
    parser.add_argument("--current", action="store_true", help="say whether it is done")
    arguments = parser.parse_args()
    wheels: Path | None = arguments.wheels
    if arguments.current:
        return 0 if is_current(digest_of_inputs()) else 1
    obstacle = missing_compiler()
    if arguments.possible:
        return 1 if obstacle else 0
    sweep()
    if obstacle:
        shutil.rmtree(COMPILED, ignore_errors=True)
        DIGEST.unlink(missing_ok=True)
        print(f"not compiled: {obstacle}; everything runs interpreted")
        if "compiled" in os.environ.get("MAGNETAR_REQUIRE", "").split():
            print("MAGNETAR_REQUIRE asks for a compiled build", file=sys.stderr)
            return 1
    if wheels is not None:
        wheels = wheels.absolute()
        build_wheel(wheels, compiled=False)
        if not obstacle:
            build_wheel(wheels, compiled=True)
    elif not obstacle:
        compile_package()
    return 0


def sweep() -> None:
    """Removes compiled files from src/, where they would win over the edited source."""
    for pattern in ("*.so", "*.pyd"):
        for stray in (ROOT / "src").rglob(pattern):
            print(f"removing {stray.relative_to(ROOT)}: compiled files do not belong in src/")
            stray.unlink()


def missing_compiler() -> str:
    """Why nothing can be compiled here, or an empty string."""
    compiler = (sysconfig.get_config_var("CC") or "cc").split()
    include = sysconfig.get_path("include")
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "probe.c"
        source.write_text("#include <Python.h>\n")
        try:
            probe = subprocess.run(
                [*compiler, f"-I{include}", "-c", str(source), "-o", str(source) + ".o"],
                capture_output=True,
            )
        except OSError:
            return f"there is no C compiler ({compiler[0]})"
    if probe.returncode != 0:
        return f"the C compiler finds no Python.h in {include}"
    return ""


def is_current(digest: str) -> bool:
    """Whether there is a compiled package of these sources."""
    return DIGEST.exists() and DIGEST.read_text() == digest and COMPILED.is_dir()


def compile_package() -> None:
    digest = digest_of_inputs()
    if is_current(digest):
        return
    DIGEST.unlink(missing_ok=True)
    for old in (COMPILED, WHEEL):
        shutil.rmtree(old, ignore_errors=True)
    print("compiling the pure rooms with mypyc")
    with zipfile.ZipFile(build_wheel(WHEEL, compiled=True)) as archive:
        archive.extractall(COMPILED)
    DIGEST.write_text(digest)


def digest_of_inputs() -> str:
    total = hashlib.sha256(f"{sys.version} {sysconfig.get_platform()}".encode())
    sources = (p for p in (ROOT / "src").rglob("*") if p.is_file() and p.suffix != ".pyc")
    for path in sorted([*sources, *(ROOT / name for name in INPUTS)]):
        total.update(path.relative_to(ROOT).as_posix().encode())
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def build_wheel(into: Path, *, compiled: bool) -> Path:
    """Builds one wheel from a copy of the tree and returns its path."""
    with tempfile.TemporaryDirectory() as scratch:
        stage = Path(scratch) / "stage"
        shutil.copytree(ROOT / "src", stage / "src", ignore=shutil.ignore_patterns("__pycache__"))
        for name in INPUTS:
            (stage / name).parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / name, stage / name)
        built = subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(into)],
            cwd=stage,
            env=os.environ
            | {
                "HATCH_BUILD_HOOK_ENABLE_MYPYC": "true" if compiled else "false",
                # Nobody mends generated C, and looking for warnings in it takes the longest.
                "CFLAGS": f"{os.environ.get('CFLAGS', '')} -Wno-all".strip(),
            },
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
