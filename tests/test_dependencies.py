"""What is installed with the package: each dependency has a use, and a reason in the docs."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import requires
from pathlib import Path

import hatch_build
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from magnetar.cli import main

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "src"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
INSTALL = (ROOT / "docs" / "install.md").read_text()
# Packages whose modules are called otherwise.
MODULES = {
    "google-crc32c": "google_crc32c",
    "google-re2": "re2",
    "mypy-extensions": "mypy_extensions",
    "opentelemetry-api": "opentelemetry",
    "protobuf": "google",
    "pyjwt": "jwt",
}
# What users of the extra call themselves: Spark writes with it.
FOR_USERS = {"pandas"}
# Modules that only a certain caller imports, who has them: pytest loads our plugin, and type
# checkers bring typing_extensions.
CALLERS = {"pytest", "_pytest", "py4j", "IPython", "typing_extensions"}


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[^\w-]", text)[0] for text in requirements}


NEEDED = names(PROJECT["project"]["dependencies"])
EXTRAS = {
    extra: names(texts) for extra, texts in PROJECT["project"]["optional-dependencies"].items()
}


OURS = {"magnetar", "pyspark_magnetar"}


def imported() -> set[str]:
    """The packages that the sources import anywhere, ours and Python's own left out."""
    return packages_of({one for path in SOURCES.rglob("*.py") for one in imports(path)})


def packages_of(modules: set[str]) -> set[str]:
    found = {module.partition(".")[0] for module in modules}
    return found - OURS - set(sys.stdlib_module_names)


def imports(path: Path) -> Iterator[str]:
    """The modules that a source imports; `from a import b` may name a module `a.b`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def dots_of(name: str) -> Iterator[int]:
    return (at for at, character in enumerate(name) if character == ".")


def source_of(module: str) -> Path | None:
    path = SOURCES.joinpath(*module.split("."))
    found = [one for one in (path.with_suffix(".py"), path / "__init__.py") if one.exists()]
    return found[0] if found else None


def read_by_the_compiler() -> set[str]:
    """The packages that mypyc meets: it reads all that the compiled sources import, shells too."""
    project = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]
    left = [ROOT / name for name in hatch_build.sources(ROOT, project)]
    read: set[Path] = set()
    found: set[str] = set()
    while left:
        path = left.pop()
        if path not in read:
            read.add(path)
            named = set(imports(path))
            found |= named
            packages = {name[:at] for name in named for at in dots_of(name)}
            left += [one for one in map(source_of, sorted(named | packages)) if one is not None]
    return packages_of(found)


def rows_under(heading: str) -> list[str]:
    """The first cells of the table whose first heading this is."""
    table = INSTALL.partition(f"| {heading} |")[2].partition("\n\n")[0]
    return re.findall(r"^\| `?([\w-]+)`? \|", table, re.MULTILINE)


def test_the_page_has_the_reason_for_each_dependency() -> None:
    assert rows_under("package") == sorted(NEEDED)
    assert rows_under("extra") == sorted(EXTRAS)


def closure(wanted: set[str]) -> set[str]:
    """What is installed with these: they, and all that they need, on this machine."""
    found: set[str] = set()
    left = [(canonicalize_name(name), "") for name in wanted]
    while left:
        name, extra = left.pop()
        found.add(name)
        for text in requires(name) or []:
            one = Requirement(text)
            if one.marker is None or one.marker.evaluate({"extra": extra}):
                needed = canonicalize_name(one.name)
                more = [(needed, each) for each in one.extras]
                left += more + ([(needed, "")] if needed not in found else [])
    return found


def test_the_page_lists_all_that_a_clean_installation_has() -> None:
    listed = re.search(r"without pip and setuptools\n(.*?)```", INSTALL, re.DOTALL)
    assert listed is not None
    names_listed = [canonicalize_name(name) for name in listed[1].split()]
    assert names_listed == sorted(names_listed)
    texts = PROJECT["project"]["dependencies"]
    wanted = {Requirement(text).name for text in texts}
    assert set(names_listed) == closure(wanted) | {"magnetar"}
    count = re.search(r"^(\d+) packages and", INSTALL, re.MULTILINE)
    assert count is not None
    assert int(count[1]) == len(names_listed)


def test_what_is_imported_is_declared_and_what_is_declared_is_imported() -> None:
    declared = NEEDED.union(*EXTRAS.values())
    modules = {MODULES.get(name, name) for name in declared}
    assert imported() - modules - CALLERS == set()
    assert modules - imported() - FOR_USERS == set()


def test_a_build_of_pip_has_all_that_the_compiler_reads_or_need_not_have_it() -> None:
    """pip builds in isolation: what only `.venv` has is not there, and the build would fail."""
    built_with = {Requirement(text).name for text in hatch_build.needed_to_compile(ROOT)}
    there = {MODULES.get(name, name) for name in built_with}
    ignored = re.findall(r"([\w.]+)\.\*", hatch_build.settings_of_mypy(ROOT))
    met = read_by_the_compiler()
    assert {"msgspec", "pyarrow"} <= met
    assert met - there - set(ignored) - {"typing_extensions"} == set()


def test_the_extra_for_spark_brings_what_spark_pipelines_needs() -> None:
    brought = PROJECT["project"]["optional-dependencies"]["spark"]
    assert [text for text in brought if text.startswith("pyspark[pipelines]")]
    needed = [text for text in requires("pyspark") or [] if 'extra == "pipelines"' in text]
    assert "pyyaml" in names(needed)


CLIENTS = ("import magnetar", "from magnetar import aio", "from magnetar import Client, schema")
# Rooms of the broker and of the command line, and what only they need.
NOT_FOR_CLIENTS = (
    *(f"magnetar.{room}" for room in ("broker", "storage", "admin", "cli", "testing", "spark")),
    *("uvicorn", "h11", "click", "typer", "rich", "jwt", "re2", "pyspark", "pyarrow", "pandas"),
    *("fastavro", "cryptography", "importlib.metadata", "urllib.request"),
)


@pytest.mark.parametrize("statement", CLIENTS)
def test_a_client_loads_no_server_and_no_command_line(statement: str) -> None:
    # Without `site`, in which an editable installation or a coverage may import what they like.
    program = f"""
import sys
sys.path[:0] = {sys.path!r}
{statement}
print([name for name in {NOT_FOR_CLIENTS!r} if name in sys.modules])
"""
    ran = subprocess.run(
        [sys.executable, "-S", "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "[]"


def test_a_client_does_without_what_is_for_the_broker_and_the_command_line() -> None:
    """As docs/install.md has it for small images: every module of the client can be imported."""
    users = dict(re.findall(r"^\| ([\w-]+) \| ([a-z ,]+) \|", INSTALL, re.MULTILINE))
    ours = {name for name in NEEDED if "client" in users[name]}
    line = re.search(r"^    pip install (cramjam .*)$", INSTALL, re.MULTILINE)
    assert line is not None
    assert line[1].split() == sorted(ours)
    absent = {MODULES.get(name, name) for name in NEEDED - ours}
    assert absent == set(main.NOT_FOR_CLIENTS)
    absent |= {"click", "pydantic"}
    program = f"""
import importlib, pkgutil, sys
for name in {sorted(absent)!r}:
    sys.modules[name] = None  # what makes its import fail
import magnetar, magnetar.aio, magnetar.schema, magnetar.cloudevents, magnetar.exceptions
count = 0
for room in ("wire", "model", "protocol", "client", "rest"):
    package = importlib.import_module("magnetar." + room)
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
        count += 1
print(count)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) > 150


@pytest.mark.parametrize(
    ("words", "absent"),
    [("topics list", "typer"), ("serve --memory", "uvicorn"), ("serve --data store", "uvicorn")],
)
def test_a_command_says_what_is_not_installed(words: str, absent: str, tmp_path: Path) -> None:
    program = f"""
import sys
sys.modules[{absent!r}] = None
sys.argv = ["magnetar", *{words.split()!r}]
from magnetar.cli.main import main
main()
"""
    # Without variables of the tests, which `serve` would say have no effect.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MAGNETAR_")}
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=kept, cwd=tmp_path
    )
    assert ran.returncode == 1
    assert list(tmp_path.iterdir()) == []  # nothing was begun
    wanted = f"magnetar: {absent} is not installed; all of it comes with: pip install .\n"
    assert ran.stderr == wanted


def test_wheels_are_built_for_the_pythons_that_are_named() -> None:
    named = [
        text.rpartition(" ")[2]
        for text in PROJECT["project"]["classifiers"]
        if re.search(r":: 3\.\d+$", text)
    ]
    builds = PROJECT["tool"]["cibuildwheel"]["build"]
    assert builds == [f"cp{version.replace('.', '')}-*" for version in named]


def test_the_release_builds_for_each_platform_and_publishes_tags_alone() -> None:
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    jobs = yaml.safe_load(text)["jobs"]
    wheels = {row["name"] for row in jobs["compiled"]["strategy"]["matrix"]["include"]}
    assert wheels == {"linux-x86_64", "linux-aarch64", "macos-arm64", "macos-x86_64"}
    assert set(jobs["publish"]["needs"]) == {"pure", "compiled"}
    assert jobs["publish"]["if"] == "github.ref_type == 'tag'"
    for tool in re.findall(r"tools/\w+\.py", text):
        assert (ROOT / tool).exists()
