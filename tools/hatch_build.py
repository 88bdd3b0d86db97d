"""Compiles the rooms that decide, while a wheel is built: hatchling calls `CompileHook`.

A wheel is compiled where a C compiler and Python.h are, and pure where not; the build says
which and why, and so does `magnetar --version` of what was built. MAGNETAR_COMPILE=no asks for
the pure one, MAGNETAR_COMPILE=yes makes it an error that nothing can be compiled.

How it works:

1. mypyc checks the types and writes one C file for each module. They are one group, so a call
   between modules is a plain call in C. One file of everything keeps one core busy for minutes,
   and its code was no faster where both were measured (ARCHITECTURE.md).
2. The C files are compiled side by side, as many as there are cores. All else in the library
   is hidden, so that no call goes through the table of the linker.
3. One library is linked of all of them, and a small one for each module, which imports it.

MAGNETAR_OBJECTS names a directory that keeps what was compiled, each file under a digest of
all that it was made from. mypyc numbers constants and lists all declarations in one header, so
a change of a signature or a new constant compiles all files again, another change only one.

Nothing is written into the sources: the libraries go straight into the wheel.
"""

import contextlib
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pathspec
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# All of the package's C is in one library of this name.
GROUP = "_magnetar"
# No debugger and no warnings: nobody reads or mends generated C. The rest of what mypyc and
# Python's own flags say stays.
FLAGS = ("-O3", "-g0", "-w", "-fvisibility=hidden")


class CompileHook(BuildHookInterface[Any]):
    def dependencies(self) -> list[str]:
        """What must be installed for the build: nothing more for a pure one."""
        return [] if obstacle() else needed_to_compile(Path(self.root))

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compiles, and adds what came of it to the wheel; raises if the compiler fails."""
        if version == "editable":
            return
        self._scratch = tempfile.mkdtemp(prefix="magnetar-build-")
        why = obstacle()
        if not why:
            self.app.display_info("magnetar is compiled by mypyc")
            libraries = compiled(Path(self.root), self.config, Path(self._scratch))
            build_data["infer_tag"] = True
            build_data["pure_python"] = False
            build_data["force_include"] |= {str(path): name for name, path in libraries.items()}
            return
        if os.environ.get("MAGNETAR_COMPILE") == "yes":
            raise SystemExit(f"magnetar cannot be compiled: {why}")
        self.app.display_warning(f"magnetar is built pure, not compiled: {why}")
        # pip shows nothing of a build that went well: `magnetar --version` reads this.
        reason = Path(self._scratch) / "build.txt"
        reason.write_text(f"{why}\n")
        build_data["force_include"][str(reason)] = "magnetar/build.txt"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Removes what only the build needed."""
        shutil.rmtree(getattr(self, "_scratch", ""), ignore_errors=True)


def obstacle() -> str:
    """Why nothing can or may be compiled here, or an empty string."""
    if os.environ.get("MAGNETAR_COMPILE") == "no":
        return "MAGNETAR_COMPILE is no"
    if platform.python_implementation() != "CPython" or os.name != "posix":
        return "only CPython on Linux and macOS compiles it"
    return missing_compiler()


def missing_compiler() -> str:
    """What the C compiler lacks, or an empty string."""
    include = sysconfig.get_path("include")
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "probe.c"
        source.write_text("#include <Python.h>\n")
        command = [*c_compiler(), f"-I{include}", "-c", str(source), "-o", f"{source}.o"]
        try:
            probe = subprocess.run(command, capture_output=True)
        except OSError:
            return f"there is no C compiler ({c_compiler()[0]})"
    if probe.returncode != 0:
        return f"the C compiler finds no Python.h in {include}"
    return ""


def c_compiler() -> list[str]:
    return shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")


def needed_to_compile(root: Path) -> list[str]:
    """What pip installs beside hatchling: mypy, and the libraries whose types it reads."""
    project = tomllib.loads((root / "pyproject.toml").read_text())
    tools: list[str] = project["dependency-groups"]["build"]
    libraries: list[str] = project["project"].get("dependencies", [])
    return [*(tool for tool in tools if not tool.startswith("hatchling")), *libraries]


def sources(root: Path, config: dict[str, Any]) -> list[str]:
    """The files that pyproject.toml has compiled, relative to the root: no shell is."""
    project = tomllib.loads((root / "pyproject.toml").read_text())
    shells = set(shells_of(root, project))
    included = pathspec.GitIgnoreSpec.from_lines(config["include"])
    excluded = pathspec.GitIgnoreSpec.from_lines(config["exclude"])
    names = [n for n in _files(root) if n not in shells]
    return [n for n in names if included.match_file(n) and not excluded.match_file(n)]


def shells_of(root: Path, project: dict[str, Any]) -> list[str]:
    """The files that are shells, by [tool.magnetar] of pyproject.toml, relative to the root."""
    ours = project["tool"].get("magnetar", {})
    shells = _spec(ours.get("shells", []))
    deciding = _spec(ours.get("deciding", []))
    return [n for n in _files(root) if shells.match_file(n) and not deciding.match_file(n)]


def _files(root: Path) -> list[str]:
    return sorted(p.relative_to(root).as_posix() for p in (root / "src").rglob("*.py"))


def _spec(names: list[str]) -> pathspec.GitIgnoreSpec:
    return pathspec.GitIgnoreSpec.from_lines([f"/src/magnetar/{name}" for name in names])


def compiled(root: Path, config: dict[str, Any], scratch: Path) -> dict[str, Path]:
    """The libraries made of the sources, by their path in the wheel."""
    extensions = written_in_c(root, sources(root, config), scratch)
    kept = os.environ.get("MAGNETAR_OBJECTS")
    workshop = Workshop(extensions[0], scratch, Cache(Path(kept) if kept else scratch / "kept"))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        # All files at once, so that none waits for the last of another library.
        files = [name for extension in extensions for name in extension.sources]
        objects = dict(zip(files, pool.map(workshop.compile, files), strict=True))
        parts = [[objects[name] for name in extension.sources] for extension in extensions]
        libraries = list(pool.map(workshop.link, parts))
    workshop.cache.forget_unused()
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    names = [extension.name.replace(".", "/") + suffix for extension in extensions]
    return dict(zip(names, libraries, strict=True))


def written_in_c(root: Path, names: list[str], scratch: Path) -> list[Any]:
    """The extensions that mypyc writes in C: that of all modules, then one for each module."""
    # mypycify wants setuptools to have been imported.
    import setuptools  # type: ignore[import-untyped]  # noqa: F401
    from mypyc.build import mypycify

    # Without the project's own settings of mypy, which are for `make check`, and its cache.
    settings = scratch / "mypy.ini"
    settings.write_text(settings_of_mypy(root))
    options = [f"--config-file={settings}", f"--cache-dir={scratch / 'mypy'}"]
    with contextlib.chdir(root):
        return mypycify(
            [*options, *names], multi_file=True, group_name=GROUP, target_dir=str(scratch / "c")
        )


def settings_of_mypy(root: Path) -> str:
    """All that a build takes from the project's settings: which libraries need not be there.

    Shells import more than pip installs to build them, and mypy reads the shells too.
    """
    project = tomllib.loads((root / "pyproject.toml").read_text())
    lines = ["[mypy]"]
    for override in project["tool"].get("mypy", {}).get("overrides", []):
        if override.get("ignore_missing_imports"):
            lines += [f"[mypy-{','.join(override['module'])}]", "ignore_missing_imports = True"]
    return "\n".join(lines) + "\n"


class Cache:
    """Files by the digest of what they are made from; it outlives a build, or not."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._used: set[Path] = set()

    def get(self, digest: str, make: Callable[[Path], None]) -> Path:
        """The file of this digest; `make` writes it if it is not there."""
        path = self._directory / digest
        self._used.add(path)
        if not path.exists():
            unfinished = path.with_suffix(".new")
            make(unfinished)
            unfinished.rename(path)
        return path

    def forget_unused(self) -> None:
        for path in set(self._directory.iterdir()) - self._used:
            path.unlink()


class Workshop:
    """Compiles and links, with the compiler and the flags that Python itself was built with."""

    def __init__(self, extension: Any, scratch: Path, cache: Cache) -> None:
        self.cache = cache
        self._scratch = scratch
        self._flags = [
            *shlex.split(sysconfig.get_config_var("CFLAGS") or ""),
            *shlex.split(sysconfig.get_config_var("CCSHARED") or ""),
            *extension.extra_compile_args,
            *shlex.split(os.environ.get("ARCHFLAGS", "")),
            *shlex.split(os.environ.get("CFLAGS", "")),
            *FLAGS,
        ]
        own = os.fspath(scratch / "c")
        runtime = [name for name in extension.include_dirs if name != own]
        self._include = [f"-I{name}" for name in (own, *runtime, sysconfig.get_path("include"))]
        # ccache keeps objects for other clones, where somebody has it.
        self._compiler = [*(["ccache"] if shutil.which("ccache") else []), *c_compiler()]
        version = subprocess.run([*c_compiler(), "--version"], capture_output=True).stdout
        said = [sys.version, sysconfig.get_platform(), *c_compiler(), *self._flags]
        headers = sorted(p for name in (own, *runtime) for p in Path(name).rglob("*.[ch]"))
        # Python's headers are known by its version. mypyc's C files are included by each other.
        shared = [p for p in headers if p.suffix == ".h" or Path(own) not in p.parents]
        self._basis = digest(
            version, *(s.encode() for s in said), *(p.read_bytes() for p in shared)
        )

    def compile(self, name: str) -> Path:
        """The object made of a C file."""
        made_from = digest(self._basis.encode(), Path(name).read_bytes())
        command = [*self._compiler, *self._flags, *self._include, "-c", name, "-o"]
        return self.cache.get(made_from, lambda path: run([*command, str(path)]))

    def link(self, objects: list[Path]) -> Path:
        """The library made of objects."""
        command = shlex.split(os.environ.get("LDSHARED") or sysconfig.get_config_var("LDSHARED"))
        flags = shlex.split(os.environ.get("LDFLAGS", "") + " " + os.environ.get("ARCHFLAGS", ""))
        names = [str(path) for path in objects]
        made_from = digest(*(part.encode() for part in (*command, *flags)), *map(named, objects))
        return self.cache.get(
            made_from, lambda path: run([*command, *names, *flags, "-o", str(path)])
        )


def named(path: Path) -> bytes:
    return path.name.encode()


def digest(*parts: bytes) -> str:
    total = hashlib.sha256()
    for part in parts:
        total.update(len(part).to_bytes(8, "big") + part)
    return total.hexdigest()


def run(command: list[str]) -> None:
    """Runs a compiler; raises what it said if it fails."""
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode != 0:
        raise SystemExit(
            f"{shlex.join(command)} failed; MAGNETAR_COMPILE=no builds without it:\n{ran.stderr}"
        )
