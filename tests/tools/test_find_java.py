"""Java is found where people put it, if it is new enough."""

from pathlib import Path
from types import ModuleType

import pytest
from support.program import load

from magnetar.spark.pipelines import java

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def tool() -> ModuleType:
    return load(ROOT / "tools" / "find_java.py")


def make(home: Path, version: str) -> Path:
    """A home whose java says that it is of this version."""
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-01' >&2\n")
    program.chmod(0o755)
    return home


def test_java_home_counts_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = make(tmp_path / "new", "17.0.15")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert java.find_java() == home


def test_an_old_one_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = make(tmp_path / "old", "1.8.0_392"), make(tmp_path / "new", "21")
    monkeypatch.setenv("JAVA_HOME", str(old))
    monkeypatch.setenv("PATH", str(new / "bin"))
    assert java.find_java() == new


def test_of_several_the_oldest_that_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, version in (("a", "25"), ("b", "11.0.2"), ("d/Contents/Home", "21")):
        make(tmp_path / name, version)
    home = make(tmp_path / "c", "17.0.15")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr(java, "_HOMES", (tmp_path, tmp_path / "nowhere"))
    assert java.find_java() == home


def test_none_is_said(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(java, "_candidates", lambda: iter(()))
    monkeypatch.setattr("sys.argv", ["find_java.py"])
    assert tool.main() == 1
    assert "apt-get install openjdk-17-jre-headless" in capsys.readouterr().err


def test_only_root_installs(tool: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert not tool.install_java()
