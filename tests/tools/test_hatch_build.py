"""The build hook: what it compiles, when it does not, and what it keeps for the next build."""

import os
import stat
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import hatch_build
import pytest
from support.requirement import need

# A package of which all is compiled but a shell.
PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "small"
version = "1"
dependencies = ["msgspec>=0.19"]
[dependency-groups]
build = ["hatchling==1.33.0", "mypy"]
[tool.hatch.build.targets.wheel]
packages = ["src/small"]
[tool.hatch.build.targets.wheel.hooks.custom]
path = "hatch_build.py"
include = ["/src/small"]
exclude = ["/src/small/shell.py"]
[[tool.mypy.overrides]]
module = ["nowhere.*"]
ignore_missing_imports = true
"""
SHOW = "import small.rule, small.shell; print(small.rule.__file__, small.rule.double(21))"


@pytest.fixture(autouse=True)
def _nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CC", "MAGNETAR_COMPILE", "MAGNETAR_OBJECTS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A project of its own with our hook."""
    package = tmp_path / "project" / "src" / "small"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "rule.py").write_text("def double(n: int) -> int:\n    return n * 2\n")
    (package / "other.py").write_text("def half(n: int) -> int:\n    return n // 2\n")
    (package / "shell.py").write_text("print = print\n")
    project = tmp_path / "project"
    (project / "pyproject.toml").write_text(PROJECT)
    (project / "hatch_build.py").write_text(Path(hatch_build.__file__).read_text())
    return project


def build(project: Path, **settings: str) -> tuple[Path, str]:
    """The wheel that was built, and what was said."""
    into = project / "dist"
    ran = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(into)],
        cwd=project,
        env=os.environ | settings,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (wheel,) = into.glob("*.whl")
    return wheel, ran.stdout + ran.stderr


def shown(wheel: Path, place: Path) -> str:
    """What the package in a wheel does when it is imported."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place)
    ran = subprocess.run(
        [sys.executable, "-c", SHOW],
        env=os.environ | {"PYTHONPATH": str(place)},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def need_compiler() -> None:
    need("compiled", not hatch_build.obstacle(), hatch_build.obstacle())


def test_with_a_compiler_the_wheel_is_compiled(small: Path, tmp_path: Path) -> None:
    need_compiler()
    wheel, said = build(small)
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    assert "compiled by mypyc" in said
    assert wheel.name.startswith(f"small-1-cp{sys.version_info.major}{sys.version_info.minor}-")
    assert shown(wheel, tmp_path / "here").endswith(f"rule{suffix} 42")
    names = zipfile.ZipFile(wheel).namelist()
    assert not [name for name in names if "shell" in name and name.endswith(suffix)]
    # Nothing stays in the sources.
    assert not list((small / "src").rglob(f"*{suffix}"))


def test_a_shell_may_import_what_is_not_there_for_the_build(small: Path, tmp_path: Path) -> None:
    """As magnetar imports pyarrow, which nobody wants to download for a build."""
    need_compiler()
    shell = small / "src" / "small" / "shell.py"
    shell.write_text("def table() -> None:\n    import nowhere.part\n\n    nowhere.part.show()\n")
    rule = small / "src" / "small" / "rule.py"
    rule.write_text("from small import shell as shell\n" + rule.read_text())
    wheel, _ = build(small)
    assert shown(wheel, tmp_path / "here").endswith("42")


def test_without_a_compiler_the_wheel_is_pure_and_says_why(small: Path, tmp_path: Path) -> None:
    wheel, said = build(small, CC="no-such-compiler")
    assert "not compiled: there is no C compiler (no-such-compiler)" in said
    assert wheel.name.endswith("-none-any.whl")
    # What pip does not show is there to be read later.
    said = zipfile.ZipFile(wheel).read("magnetar/build.txt").decode()
    assert said == "there is no C compiler (no-such-compiler)\n"
    assert shown(wheel, tmp_path / "here").endswith("rule.py 42")


def test_only_a_wheel_that_is_compiled_needs_more_than_hatchling(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hatchling.build import get_requires_for_build_wheel

    monkeypatch.chdir(small)
    monkeypatch.setenv("MAGNETAR_COMPILE", "no")
    assert get_requires_for_build_wheel() == []
    monkeypatch.delenv("MAGNETAR_COMPILE")
    need_compiler()
    assert get_requires_for_build_wheel() == ["mypy", "msgspec>=0.19"]


def test_a_compiler_without_headers_is_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_compiler()
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path))
    assert "finds no Python.h" in hatch_build.obstacle()


def test_what_did_not_change_is_not_compiled_again(small: Path, tmp_path: Path) -> None:
    need_compiler()
    compiled = tmp_path / "compiled"
    compiler = tmp_path / "cc"
    real = " ".join(hatch_build.c_compiler())
    compiler.write_text(f'#!/bin/sh\necho "$@" >> {compiled}\nexec {real} "$@"\n')
    compiler.chmod(compiler.stat().st_mode | stat.S_IEXEC)
    settings = {"CC": str(compiler), "MAGNETAR_OBJECTS": str(tmp_path / "objects")}

    def compiled_files() -> set[str]:
        """The C files of modules that the build gave to the compiler."""
        compiled.write_text("")
        build(small, **settings)
        words = compiled.read_text().split()
        return {Path(word).name for word in words if word.endswith(".c") and "___" in word}

    assert compiled_files() == {"__native_small___rule.c", "__native_small___other.c"}
    assert compiled_files() == set()
    rule = small / "src" / "small" / "rule.py"
    rule.write_text(rule.read_text().replace("n * 2", "n + n"))
    assert compiled_files() == {"__native_small___rule.c"}
