"""What the newcomer's check takes along, and how it ends."""

import os
import subprocess
from pathlib import Path
from types import ModuleType

import pytest
from support.program import load

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """tools/newcomer.py, for a project with a command that goes well and one that does not."""
    module = load(ROOT / "tools" / "newcomer.py")
    project = tmp_path / "project"
    project.mkdir()
    (project / "Makefile").write_text("good:\n\t@env > $(HOME)/seen\nbad:\n\t@exit 3\n")
    git = ["git", "-C", str(project), "-c", "user.name=x", "-c", "user.email=x@example.com"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "x"]):
        subprocess.run([*git, *command], check=True)
    places = tmp_path / "places"
    places.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(places))
    monkeypatch.setattr("sys.argv", ["newcomer.py", "--keep"])
    monkeypatch.setattr(module, "ROOT", project)
    return module


def test_nothing_leads_back(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv = tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "pyvenv.cfg").touch()
    monkeypatch.setenv("PATH", f"{venv / 'bin'}{os.pathsep}{os.environ['PATH']}")
    strange = ["PYTHONPATH", "VIRTUAL_ENV", "MAGNETAR_BUILD", "PIP_CACHE_DIR", "UV_CACHE_DIR"]
    strange += ["XDG_CONFIG_HOME", "JAVA_HOME", "SPARK_HOME", "PYTEST_ADDOPTS", "MAKEFLAGS"]
    for name in strange:
        monkeypatch.setenv(name, str(venv))
    monkeypatch.setenv("PIP_INDEX_URL", "https://packages.example.com")
    monkeypatch.setattr(tool, "COMMANDS", ("make good",))
    assert tool.main() == 0
    (seen,) = (tmp_path / "places").glob("*/home/seen")
    assert str(venv) not in seen.read_text()
    assert "PIP_INDEX_URL=https://packages.example.com" in seen.read_text()
    assert list(seen.parent.iterdir()) == [seen]


def test_it_ends_with_what_fails_and_leaves_that(
    tool: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.argv", ["newcomer.py"])
    monkeypatch.setattr(tool, "COMMANDS", ("make good", "make bad", "make good"))
    assert tool.main() == 2  # make's own word for a recipe that failed
    (left,) = (tmp_path / "places").iterdir()
    assert (left / "magnetar" / "Makefile").exists()
    assert [line.partition(",")[0] for line in capsys.readouterr().out.splitlines()[2:]] == [
        "make good: exit code 0",
        "make bad: exit code 2",
    ]
