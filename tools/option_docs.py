"""The options in the docstrings of the doors, for editors and `help()`, by tools/reference.py.

A docstring has text of its own, and a section `Args:` at its end, which is written anew from
`magnetar.client.option.meaning`: one line for each parameter, in the order of the signature.
"""

import ast
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from magnetar.client.door.arguments import SendKeywords
from magnetar.client.option import keywords, meaning

SOURCES: Final = Path(__file__).parent.parent / "src" / "magnetar" / "client"
WIDTH: Final = 100
ARGS: Final = "Args:"


class Documented(NamedTuple):
    """A function, what its parameters mean, and those that `**options` stands for."""

    path: str
    function: str
    meanings: dict[str, str]
    unpacked: type


_CLIENT = meaning.DOOR | meaning.CLIENT
_PRODUCER = meaning.DOOR | meaning.PRODUCER
_CONSUMER = meaning.DOOR | meaning.SUBSCRIBE | meaning.CONSUMER
_READER = meaning.DOOR | meaning.READER

DOCUMENTED: Final = (
    Documented("door/aio.py", "Client.__init__", _CLIENT, keywords.ClientKeywords),
    Documented("door/aio.py", "Client.create_producer", _PRODUCER, keywords.ProducerKeywords),
    Documented("door/aio.py", "Client.subscribe", _CONSUMER, keywords.ConsumerKeywords),
    Documented("door/aio.py", "Client.create_reader", _READER, keywords.ReaderKeywords),
    Documented("door/blocking.py", "Client.__init__", _CLIENT, keywords.OurClientKeywords),
    Documented(
        "door/blocking.py", "Client.create_producer", _PRODUCER, keywords.OurProducerKeywords
    ),
    Documented("door/blocking.py", "Client.subscribe", _CONSUMER, keywords.OurConsumerKeywords),
    Documented("door/blocking.py", "Client.create_reader", _READER, keywords.OurReaderKeywords),
    Documented(
        "worker/runner/decorator.py",
        "worker",
        _CONSUMER | meaning.WORKER,
        keywords.WorkerKeywords,
    ),
    Documented("door/aio_producer.py", "Producer.send", meaning.MESSAGE, SendKeywords),
    Documented("door/aio_producer.py", "Producer.send_when_room", meaning.MESSAGE, SendKeywords),
    Documented("door/threads/producer.py", "Producer.send", meaning.MESSAGE, SendKeywords),
    Documented("door/threads/producer.py", "Producer.send_async", meaning.MESSAGE, SendKeywords),
    Documented("worker/runner/run.py", "run", _CLIENT | meaning.WORKER, keywords.ClientKeywords),
)


def files() -> list[Path]:
    """The sources that have such docstrings."""
    return sorted({SOURCES / one.path for one in DOCUMENTED})


def meanings_of(function: Callable[..., object]) -> dict[str, str]:
    """What the arguments of a function mean, if they are written here."""
    module = function.__module__.removeprefix("magnetar.client.").replace(".", "/") + ".py"
    for one in DOCUMENTED:
        if (one.path, one.function) == (module, function.__qualname__):
            return one.meanings
    return {}


def completed(path: Path) -> str:
    """The source with the sections as they should be."""
    text = path.read_text()
    for one in DOCUMENTED:
        if SOURCES / one.path == path:
            text = _documented(text, one)
    return text


def _documented(text: str, one: Documented) -> str:
    function = _function(ast.parse(text), one.function)
    node = function.body[0]
    prose = (ast.get_docstring(function) or "").partition(f"\n\n{ARGS}\n")[0]
    indent = " " * node.col_offset
    lines = [
        f'{indent}"""{prose.splitlines()[0]}',
        *(f"{indent}{line}".rstrip() for line in prose.splitlines()[1:]),
        "",
        f"{indent}{ARGS}",
        *_args(function, one, indent + "    "),
        f'{indent}"""',
    ]
    before = text.splitlines()
    return "\n".join(before[: node.lineno - 1] + lines + before[node.end_lineno :]) + "\n"


def _function(tree: ast.Module, name: str) -> ast.FunctionDef | ast.AsyncFunctionDef:
    scope: list[ast.stmt] = tree.body
    *classes, last = name.split(".")
    for kind in classes:
        scope = next(n.body for n in scope if isinstance(n, ast.ClassDef) and n.name == kind)
    functions = [n for n in scope if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    return next(n for n in functions if n.name == last)


def _args(
    function: ast.FunctionDef | ast.AsyncFunctionDef, one: Documented, indent: str
) -> Iterator[str]:
    for name in _parameters(function, one):
        yield from textwrap.wrap(
            f"{name}: {one.meanings[name]}.",
            WIDTH,
            initial_indent=indent,
            subsequent_indent=indent + "    ",
        )


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef, one: Documented) -> Iterator[str]:
    arguments = function.args
    named = [arguments.vararg] if arguments.vararg is not None else []
    for argument in [*arguments.args, *named, *arguments.kwonlyargs]:
        if argument.arg != "self":
            yield argument.arg
    if arguments.kwarg is not None:
        # In the order of the meanings, which is that of the options.
        yield from [name for name in one.meanings if name in one.unpacked.__annotations__]
