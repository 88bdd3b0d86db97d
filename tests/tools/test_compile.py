"""A compiled file never shadows an edited one."""

from pathlib import Path
from types import ModuleType

import pytest
from support.program import load

ROOT = Path(__file__).parent.parent.parent
PROJECT = """
[project]
name = "magnetar"
[dependency-groups]
build = ["mypy==2.4.1"]
"""


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """tools/compile.py, working on a tree of its own."""
    module = load(ROOT / "tools" / "compile.py")
    (tmp_path / "src" / "magnetar").mkdir(parents=True)
    (tmp_path / "src" / "magnetar" / "__init__.py").write_text("x = 1\n")
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "hatch_build.py").write_text("")
    (tmp_path / "README.md").write_text("")
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "COMPILED", tmp_path / ".build" / "compiled")
    monkeypatch.setattr(module, "DIGEST", tmp_path / ".build" / "compiled.digest")
    return module


def test_compiled_files_in_the_sources_are_removed(tool: ModuleType, tmp_path: Path) -> None:
    stray = tmp_path / "src" / "magnetar" / "wire.cpython-311-x86_64-linux-gnu.so"
    stray.write_bytes(b"stale")
    tool.sweep()
    assert not stray.exists()
    assert (tmp_path / "src" / "magnetar" / "__init__.py").exists()


def test_every_change_of_a_source_asks_for_a_new_build(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "src" / "magnetar" / "__init__.py"
    digests = [tool.digest_of_inputs()]
    source.write_text("x = 2\n")
    digests.append(tool.digest_of_inputs())
    source.with_name("new.py").write_text("")
    digests.append(tool.digest_of_inputs())
    source.with_name("new.py").rename(source.with_name("other.py"))
    digests.append(tool.digest_of_inputs())
    (tmp_path / "tools" / "hatch_build.py").write_text("flags = 1")
    digests.append(tool.digest_of_inputs())
    (tmp_path / "pyproject.toml").write_text(f"{PROJECT}[tool.hatch.build]\na = 1")
    digests.append(tool.digest_of_inputs())
    monkeypatch.setattr(tool.metadata, "distributions", list)
    digests.append(tool.digest_of_inputs())  # mypy is another one, or gone
    assert len(set(digests)) == len(digests)


def test_what_does_not_matter_to_the_build_asks_for_none(tool: ModuleType, tmp_path: Path) -> None:
    before = tool.digest_of_inputs()
    (tmp_path / "src" / "magnetar" / "__init__.pyc").write_text("bytecode")
    (tmp_path / "README.md").write_text("A better sentence.")
    (tmp_path / "pyproject.toml").write_text(f"{PROJECT}[tool.ruff]\nline-length = 100")
    assert tool.digest_of_inputs() == before


def test_a_build_is_current_until_a_source_changes(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["compile.py", "--current"])
    assert tool.main() == 1
    tool.COMPILED.mkdir(parents=True)
    tool.DIGEST.write_text(tool.digest_of_inputs())
    assert tool.main() == 0
    (tmp_path / "src" / "magnetar" / "__init__.py").write_text("x = 3\n")
    assert tool.main() == 1


def test_without_a_compiler_there_is_no_compiled_build_and_a_word_about_it(
    tool: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    stale = tmp_path / ".build" / "compiled" / "magnetar"
    stale.mkdir(parents=True)
    monkeypatch.setenv("CC", "no-such-compiler")
    monkeypatch.setattr("sys.argv", ["compile.py"])
    monkeypatch.setenv("MAGNETAR_REQUIRE", "")
    assert tool.main() == 0
    assert not stale.exists()
    assert (
        "no C compiler (no-such-compiler); everything runs interpreted" in capsys.readouterr().out
    )
    monkeypatch.setenv("MAGNETAR_REQUIRE", "spark compiled")
    assert tool.main() == 1


def test_a_demo_waits_for_the_compiler_only_if_an_earlier_build_left_most_of_it(
    tool: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    built: list[bool] = []
    monkeypatch.setattr(tool, "OBJECTS", tmp_path / ".build" / "objects")
    monkeypatch.setattr(tool, "obstacle", lambda: "")
    monkeypatch.setattr(tool, "compile_package", lambda: built.append(True))
    monkeypatch.setattr("sys.argv", ["compile.py", "--if-quick"])
    assert tool.main() == 0
    assert "`make compiled` does it" in capsys.readouterr().out
    assert not built
    tool.OBJECTS.mkdir(parents=True)
    (tool.OBJECTS / "a.o").touch()
    assert tool.main() == 0
    assert built
