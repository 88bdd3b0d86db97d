"""Java is found where people put it, if it is new enough."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("find_java", ROOT / "tools" / "find_java.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def java(home: Path, version: str) -> Path:
    """A home whose java says that it is of this version."""
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-01' >&2\n")
    program.chmod(0o755)
    return home


def test_java_home_counts_first(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = java(tmp_path / "new", "17.0.15")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert tool.find_java() == home


def test_an_old_one_is_passed_over(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = java(tmp_path / "old", "1.8.0_392"), java(tmp_path / "new", "21")
    monkeypatch.setenv("JAVA_HOME", str(old))
    monkeypatch.setenv("PATH", str(new / "bin"))
    assert tool.version_of(old) == 1
    assert tool.find_java() == new


def test_none_is_said(
    tool: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(tool, "candidates", lambda: iter([tmp_path / "nothing"]))
    monkeypatch.setattr("sys.argv", ["find_java.py"])
    assert tool.find_java() is None
    assert tool.main() == 1
    assert "apt-get install openjdk-17-jre-headless" in capsys.readouterr().err


def test_only_root_installs(tool: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert tool.install_java() is None
