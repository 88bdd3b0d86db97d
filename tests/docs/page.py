"""A page of the documentation as a program: its code blocks, in order, against a broker.

| language  | what is done with a block                                                       |
|-----------|---------------------------------------------------------------------------------|
| `python`  | executed; all blocks of a page share names, and `await` works outside functions  |
|           | those with `def test_` are run by pytest instead, all together at the end        |
| `console` | each line after `$ ` is run by a shell and must succeed; what stands below it    |
|           | is compared with what was printed, where `...` stands for anything              |
|           | `magnetar serve` goes on until the page ends, on loopback and free ports         |
| `toml`    | read as a broker's settings; with `# magnetar.toml` on top it becomes that file, |
|           | with `# config.toml` it is read as the command line's configuration             |
| `json`    | each line is a document, or the whole is one                                     |
| `text`    | nothing: a picture, or a form                                                    |

`print(...)  # this` in Python says what is printed. A block inside an HTML comment is run and
not shown; `<!-- broker: transactions=true -->` gives the page's broker a setting. The addresses of
a broker that was started by hand, `pulsar://localhost:6650` and `http://localhost:8080`, stand for
those of the broker that the page gets.
"""

import ast
import asyncio
import contextlib
import doctest
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from magnetar.broker.setting.settings_load import load_settings, reserved_values
from magnetar.cli.target import parse

ROOT = Path(__file__).parents[2]
SETTING = re.compile(r"^<!-- broker: (\S+) -->$", re.MULTILINE)
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
SERVICE = re.compile(r"pulsar://(?:localhost|127\.0\.0\.1):6650")
REST = re.compile(r"http://(?:localhost|127\.0\.0\.1):8080")
LANGUAGES = {"python", "console", "toml", "json", "text"}
COMPARE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


class Block:
    """Code in a page: its language, its text and the line where it begins."""

    def __init__(self, page: Path, match: re.Match[str], text: str) -> None:
        self.page = page
        self.language = match[2]
        self.line = text.count("\n", 0, match.start()) + 2
        indent = len(match[1])
        self.text = "".join(line[indent:] for line in match[3].splitlines(keepends=True))

    @property
    def place(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text()
    return [Block(page, match, text) for match in BLOCK.finditer(text)]


class PageRun:
    """One page's program, with its names, its directory and its broker."""

    def __init__(self, directory: Path, url: str, http_url: str) -> None:
        self._directory = directory
        self._url = url
        self._http_url = http_url
        self._names: dict[str, Any] = {"__name__": "__page__"}
        self._runner = asyncio.Runner()
        self._environment = self._make_environment()
        # Of brokers that the page itself starts: where it says they are, and where they are.
        self._addresses: dict[str, str] = {}
        self._servers: list[subprocess.Popen[str]] = []
        # Blocks that are tests.
        self._tests: list[Path] = []

    def __enter__(self) -> "PageRun":
        return self

    def __exit__(self, *error: object) -> None:
        self._runner.close()
        for server in self._servers:
            server.terminate()
            server.communicate(timeout=30)

    def run(self, block: Block) -> None:
        getattr(self, f"_run_{block.language}")(block)

    def finish(self) -> None:
        """Runs what was put off."""
        if self._tests:
            pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
            ran = self._command([*pytest, *self._tests])
            assert ran.returncode == 0, ran.stdout + ran.stderr

    def _make_environment(self) -> dict[str, str]:
        """Commands find this build, and the broker by their profile."""
        config = self._directory / "config"
        (config / "magnetar").mkdir(parents=True)
        profile = f'url = "{self._url}"\nadmin_url = "{self._http_url}"\n'
        text = f'default = "page"\n[profiles.page]\n{profile}'
        (config / "magnetar" / "config.toml").write_text(text)
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        given = {k: v for k, v in os.environ.items() if not k.startswith("MAGNETAR_")}
        return given | {"XDG_CONFIG_HOME": str(config), "PATH": path, "COLUMNS": "120"}

    def _here(self, text: str) -> str:
        for told, real in self._addresses.items():
            text = text.replace(told, real)
        return REST.sub(self._http_url, SERVICE.sub(self._url, text))

    # ---- One for each language -------------------------------------------------

    def _run_python(self, block: Block) -> None:
        if re.search(r"^def test_", block.text, re.MULTILINE):
            file = self._directory / f"test_line_{block.line}.py"
            file.write_text(self._here(block.text))
            self._tests.append(file)
            return
        printed = io.StringIO()
        code = compile(
            "\n" * (block.line - 1) + self._here(block.text),
            block.place,
            "exec",
            flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
        )
        with contextlib.redirect_stdout(printed), contextlib.chdir(self._directory):
            result = eval(code, self._names)
            if asyncio.iscoroutine(result):
                self._runner.run(result)
        expected = re.findall(r"^ *print\(.*\)  # (.*)$", block.text, re.MULTILINE)
        if expected:
            self._compare("\n".join(expected), printed.getvalue(), block.place)

    def _run_console(self, block: Block) -> None:
        commands = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
        assert not commands[0], f"{block.place} does not begin with a command"
        for text in commands[1:]:
            lines = text.splitlines()
            last = 0
            while lines[last].endswith("\\"):
                last += 1
            command = "\n".join(lines[: last + 1])
            expected = "\n".join(lines[last + 1 :]).strip()
            if command.startswith("magnetar serve"):
                self._serve(command, expected)
                continue
            exported = re.match(r"export (\w+)=", command)
            name = exported[1] if exported else "PWD"
            ran = self._command(["bash", "-c", f'{self._here(command)} && printf %s "${name}" >&9'])
            assert ran.returncode == 0, f"{block.place}: {command}\n{ran.stdout}{ran.stderr}"
            if exported:
                self._environment[name] = (self._directory / ".variable").read_text()
            if expected:
                self._compare(self._here(expected), ran.stdout + ran.stderr, block.place)

    def _serve(self, command: str, expected: str) -> None:
        """Starts a broker, and learns where it is; `expected` is where the page says it is."""
        told = expected.split()
        assert told[0] == "ready"
        options = "--host 127.0.0.1 --port 0 --http-port 0"
        if "ssl" in told[1]:
            options = "--host 127.0.0.1 --tls-port 0 --https-port 0"
        server = subprocess.Popen(
            ["bash", "-c", f"exec {re.sub(r' --host [^ ]+', '', command)} {options}"],
            cwd=self._directory,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._servers.append(server)
        assert server.stdout is not None
        ready = server.stdout.readline().split()
        assert ready[:1] == ["ready"], server.communicate()[1]
        self._addresses |= dict(zip(told[1:], ready[1:], strict=True))

    def _run_toml(self, block: Block) -> None:
        if block.text.startswith("# magnetar.toml\n"):
            (self._directory / "magnetar.toml").write_text(block.text)
        if block.text.startswith("# config.toml\n"):
            parse(block.text, Path("config.toml"))
            return
        load_settings(block.text, {}, None, {})
        reserved_values(block.text, {}, {})

    def _run_json(self, block: Block) -> None:
        try:
            json.loads(block.text)
        except ValueError:
            for line in block.text.splitlines():
                json.loads(line)

    def _run_text(self, block: Block) -> None:
        """Not code."""

    def _command(self, command: list[Any]) -> subprocess.CompletedProcess[str]:
        """Runs it; what a shell writes to descriptor 9 goes to a file."""
        with (self._directory / ".variable").open("wb") as variable:
            return subprocess.run(
                ["bash", "-c", f'exec "$@" 9>&{variable.fileno()}', "-", *map(str, command)],
                cwd=self._directory,
                env=self._environment,
                capture_output=True,
                text=True,
                timeout=120,
                pass_fds=[variable.fileno()],
            )

    def _compare(self, expected: str, printed: str, place: str) -> None:
        got = "\n".join(line.rstrip() for line in printed.strip().splitlines()) + "\n"
        same = doctest.OutputChecker().check_output(expected + "\n", got, COMPARE)
        assert same, f"{place} says\n{expected}\nand this came:\n{got}"
