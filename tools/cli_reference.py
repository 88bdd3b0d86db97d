"""The list of all commands, as docs/reference/cli.md has it; tools/reference.py writes it."""

from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from magnetar.cli.app import app

POLICIES = "Policies"


def lines() -> Iterator[str]:
    root = get_command(app)
    yield "Options of all commands, which stand before the command:"
    yield ""
    yield "| option | is |"
    yield "|---|---|"
    for option in options_of(root):
        yield f"| {cell(written(option))} | {sentence(option.help)} |"
    commands: dict[str, Any] = getattr(root, "commands")  # noqa: B009  typer does not tell its type
    yield ""
    yield "| command | does |"
    yield "|---|---|"
    for name, command in commands.items():
        if not hasattr(command, "commands"):
            yield row(name, command)
    for noun, group in commands.items():
        if hasattr(group, "commands"):
            yield from noun_lines(noun, group)


def noun_lines(noun: str, group: Any) -> Iterator[str]:
    yield ""
    yield f"### {noun}"
    yield ""
    yield "| command | does |"
    yield "|---|---|"
    policies: list[str] = []
    for name, command in group.commands.items():
        line = row(f"{noun} {name}", command)
        if command.rich_help_panel != POLICIES:
            yield line
        elif name.startswith("set-"):
            policies.append(line)
    if policies:
        yield ""
        yield "Policies. Each `set-` has a `get-`, with `--applied` and `--json`, and a `remove-`."
        yield ""
        yield "| command | does |"
        yield "|---|---|"
        yield from policies


def row(name: str, command: Any) -> str:
    pieces = [name]
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    pieces += [one.metavar or one.name.upper() for one in arguments]
    pieces += [written(one) for one in options_of(command) if "--json" not in one.opts]
    if any("--json" in one.opts for one in options_of(command)):
        pieces.append("[--json]")
    return f"| {cell(' '.join(pieces))} | {sentence(command.help)} |"


def options_of(command: Any) -> list[Any]:
    return [one for one in command.params if one.param_type_name == "option" and not one.hidden]


def written(option: Any) -> str:
    """An option as a usage line has it."""
    text = "|".join(sorted(option.opts, key=lambda name: (len(name), name)))
    if not option.is_flag:
        text += f" {option.metavar or (option.name or '').upper()}"
    if not option.required:
        text = f"[{text}]"
    return text + ("..." if option.multiple else "")


def cell(text: str) -> str:
    return "`" + text.replace("|", "\\|") + "`"


def sentence(text: str | None) -> str:
    first = (text or "").strip().partition("\n\n")[0]
    return " ".join(first.split()).replace("|", "\\|").removesuffix(".")
