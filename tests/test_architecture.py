"""The house rules of ARCHITECTURE.md, read from the imports themselves."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pathspec
import pytest
from hatch_build import shells_of, sources

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "magnetar"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
ROOMS: dict[str, list[str]] = PROJECT["tool"]["magnetar"]["rooms"]
OURS: dict[str, list[str]] = PROJECT["tool"]["magnetar"]
SHELLS = {name.removeprefix("src/magnetar/") for name in shells_of(ROOT, PROJECT)}
MYPYC: dict[str, list[str]] = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"][
    "custom"
]
COMPILED = {name.removeprefix("src/magnetar/") for name in sources(ROOT, MYPYC)}
EXCLUDED = pathspec.GitIgnoreSpec.from_lines(MYPYC["exclude"])

# What only a shell may touch: the world outside, time, chance and other threads.
WORLD = {"asyncio", "os", "random", "socket", "threading", "time"}
WORLD |= {"multiprocessing", "secrets", "select", "selectors", "shutil", "signal", "subprocess"}
WORLD |= {"concurrent", "pathlib", "mmap", "sqlite3", "tempfile", "uuid", "datetime"}

MODULES = sorted(p for p in PACKAGE.rglob("*.py"))


# The front door, and errors, of which mypyc compiles only some.
INTERPRETED = {"__init__.py", "__main__.py", "aio.py", "errors.py", "exceptions.py", "schema.py"}
INTERPRETED |= {"cloudevents.py"}


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def room_of(name: str) -> str:
    """The room a file is in; the front door is in none."""
    return name.partition("/")[0].removesuffix(".py")


def imports_of(path: Path) -> set[str]:
    """Every module that a file imports anywhere, functions included."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)} imports relatively: write the full name"
            assert node.module is not None
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def is_excluded(name: str) -> bool:
    return EXCLUDED.match_file(f"src/magnetar/{name}")


def test_there_is_something_to_check() -> None:
    assert len(MODULES) > 20


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_go_one_way(path: Path) -> None:
    room = room_of(name_of(path))
    if f"{room}.py" in INTERPRETED - {"errors.py"}:
        return  # the front doors show what the rooms hold
    assert room in ROOMS, f"{room} is a new room: say in pyproject.toml what it may import"
    found = imports_of(path)
    if room not in OURS["shells"]:
        assert "magnetar" not in found, "a room does not go in by the front door"
    ours = {m.split(".")[1] for m in found if m.startswith("magnetar.")}
    assert ours <= {room, *ROOMS[room]}


@pytest.mark.parametrize("room", ROOMS)
def test_every_arrow_is_walked(room: str) -> None:
    """An arrow that no import needs tells of a design that is not there."""
    files = [path for path in MODULES if room_of(name_of(path)) == room]
    walked = {
        m.split(".")[1] for path in files for m in imports_of(path) if m.startswith("magnetar.")
    }
    unwalked = sorted(set(ROOMS[room]) - walked)
    assert not unwalked, f"nothing in {room} imports {unwalked}: take them out of pyproject.toml"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_only_shells_touch_the_world(path: Path) -> None:
    if name_of(path) in SHELLS:
        return
    touched = {m.partition(".")[0] for m in imports_of(path)} & WORLD
    assert not touched, f"{name_of(path)} is not listed as a shell in pyproject.toml"


SPARK = [path for path in MODULES if room_of(name_of(path)) == "spark"]
# Spark's own: pyspark has no public name for the Java side of a session.
SPARKS_PRIVATE = {"_jvm", "_jsc"}


@pytest.mark.parametrize("path", SPARK, ids=name_of)
def test_spark_touches_no_private_name_of_others(path: Path) -> None:
    """What the connector needs of the client, the bulk door offers."""
    touched: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Attribute) or not node.attr.startswith("_"):
            continue
        own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls", "other")
        if not own and not node.attr.startswith("__") and node.attr not in SPARKS_PRIVATE:
            touched.append(f"{name_of(path)}:{node.lineno} {ast.unparse(node)}")
    private = [m for m in imports_of(path) if any(part.startswith("_") for part in m.split("."))]
    assert touched == []
    assert [m for m in private if m.startswith("magnetar.client")] == []


def test_every_shell_named_is_there() -> None:
    assert [s for s in OURS["shells"] + OURS["deciding"] if not (PACKAGE / s).exists()] == []


def test_the_shells_are_a_dozen_folders_and_a_few_files() -> None:
    """A long list would say that folders do not show where I/O is."""
    folders = [shell for shell in OURS["shells"] if (PACKAGE / shell).is_dir()]
    assert len(folders) <= 15
    assert len(OURS["shells"]) - len(folders) <= 5


def test_the_arrows_have_no_circles() -> None:
    done: set[str] = set()
    while len(done) < len(ROOMS):
        ready = {room for room, below in ROOMS.items() if set(below) <= done} - done
        assert ready, f"these import each other: {sorted(set(ROOMS) - done)}"
        done |= ready


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_mypyc_compiles_what_decides_and_no_shell(path: Path) -> None:
    """Every file of a room is compiled, unless it is a shell or has its reason."""
    name = name_of(path)
    assert not (name in SHELLS and is_excluded(name)), f"{name} is a shell, which is enough"
    decides = name not in SHELLS and name not in INTERPRETED and not is_excluded(name)
    assert (name in COMPILED) == decides
    if decides:
        assert "typing.Any" not in imports_of(path)


def test_the_schema_of_the_wire_is_not_compiled() -> None:
    assert is_excluded("protocol/pulsar_pb2.py")


HEAVY = ("pyspark", "pyarrow", "pandas", "starlette", "uvicorn", "httpx", "typer", "asyncio")
PROTOBUF = ("google.protobuf", "magnetar.protocol")


def test_importing_magnetar_is_light() -> None:
    program = f"import sys, magnetar; print([m for m in {HEAVY + PROTOBUF!r} if m in sys.modules])"
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "[]"


FOLDERS = sorted({path.parent for path in MODULES})
# A newcomer reads the tree before any file; more than this is no tree.
MODULES_MAX = 15


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_a_folder_has_few_modules(folder: Path) -> None:
    modules = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
    assert len(modules) <= MODULES_MAX, "give some of them a folder that says what they share"


LINES_MAX = 675
# A table of which a half would tell nothing; ARCHITECTURE.md has the reason under "Decisions".
TABLES = {"errors.py"}


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_file_is_short_unless_it_is_a_table(path: Path) -> None:
    lines = len(path.read_text().splitlines())
    long = lines > LINES_MAX
    assert long == (name_of(path) in TABLES), f"{lines} lines: what is the second noun in it?"


def test_the_folders_of_tests_are_those_of_the_code() -> None:
    """Who knows where the code is knows where its tests are."""
    tests = ROOT / "tests"
    folders = {
        path.parent.relative_to(tests) for room in ROOMS for path in tests.glob(f"{room}/**/*.py")
    }
    assert [str(folder) for folder in sorted(folders) if not (PACKAGE / folder).is_dir()] == []
