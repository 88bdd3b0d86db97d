"""Commands that the documentation names without running them are ones that there are.

Those in blocks of a console run (`page`). Here are the others: in the text, and on indented lines.
"""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from docs.page import PAGES, ROOT, name_of
from typer.main import get_command

from magnetar.cli import serve
from magnetar.cli.app import app

FENCED = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
# What is in backticks, or indented, with what is broken over lines put together again.
NAMED = re.compile(r"`([^`]+)`|^ {4,}(.*)$", re.MULTILINE)
MAKEFILE = (ROOT / "Makefile").read_text()
ROOT_COMMAND: Any = get_command(app)


def commands_of(page: Path) -> Iterator[list[str]]:
    """The words of each command of ours, of make and of Python."""
    text = re.sub(r"(\\| \|)\n +", r"\1 ", FENCED.sub("", page.read_text()))
    for inline, indented in NAMED.findall(text):
        for command in re.split(r" \| |  +#|; |\n", (inline or indented).replace("\\ ", "")):
            words = re.sub(
                r"(?<!\S)\[|\](?!\S)", " ", command.partition("  ")[0] if indented else command
            )
            try:
                found = shlex.split(words)
            except ValueError:
                continue  # no shell would take it, so it is no command
            while found and re.fullmatch(r"\$|[A-Z_]+=\S*", found[0]):
                del found[0]
            if len(found) > 1:
                yield found


def options_of(command: Any) -> set[str]:
    if command.name == "serve":
        return set(serve._parser()._option_string_actions)
    return {"--help", "-h"} | {o for p in command.params for o in (*p.opts, *p.secondary_opts)}


def wrong_with(words: list[str]) -> str:
    """What of a command of ours is not there; a word in capitals stands for any other."""
    command = ROOT_COMMAND
    takes_value = False
    for word in words:
        if takes_value:
            takes_value = False
        elif word.startswith("-") and len(word) > 1:
            name, equals, _ = word.partition("=")
            if name not in options_of(command):
                return name
            param = next((p for p in command.params if name in p.opts), None)
            takes_value = not equals and param is not None and not param.is_flag
        elif hasattr(command, "commands"):
            if word.isupper():
                return ""
            if word not in command.commands:
                return word
            command = command.commands[word]
    return ""


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_that_are_named_are_there(page: Path) -> None:
    for words in commands_of(page):
        said = f"{name_of(page)}: {' '.join(words)}"
        if words[0] == "magnetar":
            assert wrong_with(words[1:]) == "", said
        elif words[0] == "make" and re.fullmatch(r"[a-z-]+", words[1]):
            assert re.search(rf"^{words[1]}:", MAKEFILE, re.MULTILINE), said
            for variable in re.findall(r"\b([A-Z]+)=", " ".join(words[2:])):
                assert f"$({variable})" in MAKEFILE, said
        elif words[0].endswith("python") and words[1].endswith(".py"):
            assert (ROOT / words[1]).exists(), said


@pytest.mark.parametrize(
    ("command", "wrong"),
    [
        ("topics skip-messages orders -s a --from-file - --dry-run", ""),
        ("--profile p topics list public/default", ""),
        ("topics skip orders --bogus", "--bogus"),
        ("topics fly", "fly"),
        ("serve --memory --sett x=1", "--sett"),
    ],
)
def test_what_is_not_there_is_found(command: str, wrong: str) -> None:
    assert wrong_with(command.split()) == wrong


def test_there_are_commands_to_look_at() -> None:
    found = {page.name for page in PAGES if any("magnetar" in c for c in commands_of(page))}
    assert {"README.md", "remove-a-poison-message.md", "move-to-apache-pulsar.md"} <= found
