"""The reference of the Python API, as docs/reference has it; tools/reference.py writes it.

It is made of what the interpreter knows: `__all__`, signatures and docstrings, and of options the
declarations in `magnetar.client.option`. A public name that no page was made for is written to
the page of the other names, so that none is left out.
"""

import ast
import inspect
import itertools
import re
import sys
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple, get_args, get_type_hints

import option_docs
from option_docs import ARGS

import magnetar
import magnetar.spark
import magnetar.testing
from magnetar import aio, errors, schema
from magnetar.client.option import meaning, options

# As wide as a block of code on a page.
WIDTH: Final = 88
STARS: Final = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}


class Options(NamedTuple):
    """The options of one noun: where they are declared, what they mean, and who takes them."""

    declared: type
    meanings: dict[str, str]
    taken_by: tuple[Callable[..., Any], ...]


CLIENT: Final = Options(
    options.ClientOptions, meaning.CLIENT, (magnetar.Client.__init__, aio.Client.__init__)
)
PRODUCER: Final = Options(
    options.ProducerOptions,
    meaning.PRODUCER,
    (magnetar.Client.create_producer, aio.Client.create_producer),
)
CONSUMER: Final = Options(
    options.ConsumerOptions,
    meaning.CONSUMER,
    (magnetar.Client.subscribe, aio.Client.subscribe),
)
READER: Final = Options(
    options.ReaderOptions,
    meaning.READER,
    (magnetar.Client.create_reader, aio.Client.create_reader),
)
ALL_OPTIONS: Final = (CLIENT, PRODUCER, CONSUMER, READER)


# ---- Which names there are -------------------------------------------------------------


class Name(NamedTuple):
    """A public name, and what it names."""

    path: str
    value: Any


def names_of(module: ModuleType) -> list[Name]:
    """The public names of a module, as users write them."""
    public = "magnetar.aio" if module is aio else module.__name__
    return [Name(f"{public}.{name}", getattr(module, name)) for name in module.__all__]


def placed() -> set[str]:
    """The names that a page was made for."""
    made = {name.path for names in PAGE_NAMES.values() for name in names}
    return made | {f"magnetar.{name}" for name in errors.__all__}


def others() -> list[Name]:
    """The other names, and those of modules that no page was made for."""
    found: list[Name] = []
    for name in names_of(magnetar):
        if inspect.ismodule(name.value):
            if name.value not in (aio, schema, magnetar.exceptions):
                found += names_of(name.value)
        elif name.path not in placed():
            found.append(name)
    return found


def _chosen(module: ModuleType, *wanted: str) -> list[Name]:
    return [name for name in names_of(module) if name.path.rpartition(".")[2] in wanted]


PAGE_NAMES: Final[dict[str, list[Name]]] = {
    "python client": _chosen(magnetar, "Client", "Transaction")
    + _chosen(aio, "Client", "Transaction"),
    "python producer": _chosen(magnetar, "Producer") + _chosen(aio, "Producer"),
    "python consumer": _chosen(magnetar, "Consumer") + _chosen(aio, "Consumer"),
    "python reader": _chosen(magnetar, "Reader", "TableView", "read_arrow", "scan_arrow")
    + _chosen(aio, *(set(aio.__all__) - {"Client", "Producer", "Consumer", "Transaction"})),
    "python message": _chosen(
        magnetar, "Message", "MessageId", "ChunkMessageId", "Position", "TopicName"
    ),
    "python schema": names_of(schema),
    "python testing": names_of(magnetar.testing),
    "python spark": names_of(magnetar.spark),
}


# ---- What is written of them -----------------------------------------------------------


def index() -> Iterator[str]:
    """One line for each name."""
    yield from ("| name | is |", "|---|---|")
    for name in sorted(_index_names(), key=lambda name: name.path.lower()):
        yield f"| `{name.path}` | {first_sentence(name)} |"


def _index_names() -> list[Name]:
    made = [name for names in PAGE_NAMES.values() for name in names]
    return [name for name in made + others() if not inspect.ismodule(name.value)]


def page(names: Callable[[], list[Name]]) -> Callable[[], Iterator[str]]:
    """A part of the reference: these names, one after the other."""

    def lines() -> Iterator[str]:
        for name in names():
            yield from entry(name)

    return lines


def entry(name: Name) -> Iterator[str]:
    """A heading, the signature, the docstring, and of a class its members."""
    yield from (f"### {name.path}", "")
    value = name.value
    if inspect.isclass(value):
        yield from _class_lines(value)
    elif callable(value):
        yield from _function_lines(name.path.rpartition(".")[2], value)
    else:
        yield from (f"A constant, `{type(value).__name__}`. {constant_text(name)}", "")


def _class_lines(kind: type) -> Iterator[str]:
    yield from text_of(kind)
    if issubclass(kind, Enum):
        yield from (", ".join([f"`{member.name}`" for member in kind]) + ".", "")
        return
    if "__init__" in vars(kind) and not _is_made_by_others(kind):
        yield from _signature(kind.__name__, kind.__init__)
    for member, value in members_of(kind):
        yield from ("", f"#### {kind.__name__}.{member}", "")
        if isinstance(value, property):
            yield from ("A property.", "", *text_of(value))
        else:
            yield from _function_lines(member, value)


def _is_made_by_others(kind: type) -> bool:
    """Whether it is made by a method of another class, so that nobody calls it."""
    return kind in (
        magnetar.Producer,
        magnetar.Consumer,
        magnetar.Reader,
        magnetar.TableView,
        magnetar.Message,
        *(getattr(aio, name) for name in aio.__all__ if name != "Client"),
    )


def members_of(kind: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties of ours, but those that a public base class has already."""
    for member in dir(kind):
        if member.startswith("_") or not _is_ours(kind, member) or _is_known(kind, member):
            continue
        value = inspect.getattr_static(kind, member)
        if isinstance(value, staticmethod | classmethod):
            value = value.__func__
        if (isinstance(value, property) or inspect.isfunction(value)) and not (
            _is_machinery(kind) and not value.__doc__
        ):
            yield member, value


def _is_machinery(kind: type) -> bool:
    """Whether it stands in for a loop, a network or a disk: their methods are known."""
    return kind.__module__.startswith("magnetar.testing.sim.")


def _is_known(kind: type, member: str) -> bool:
    """Whether a base class has it that is public itself, with nothing new said of it here."""
    if member in vars(kind) and inspect.getattr_static(kind, member).__doc__:
        return False
    public = [name.value for name in _index_names()]
    return any(base in public and member in vars(base) for base in kind.__mro__[1:])


def _is_ours(kind: type, member: str) -> bool:
    """Whether it was declared by a class of ours, and by none that it must be like."""
    declared = [base for base in kind.__mro__ if member in vars(base)]
    return all(base.__module__.startswith("magnetar.") for base in declared)


def _function_lines(name: str, function: Callable[..., Any]) -> Iterator[str]:
    yield from _signature(name, function)
    yield from text_of(function)
    yield from _arguments(function)


def _arguments(function: Callable[..., Any]) -> Iterator[str]:
    """What its arguments mean, but for options that have a table of their own."""
    parameters = inspect.signature(function).parameters
    types = {name: written(parameter.annotation) for name, parameter in parameters.items()}
    elsewhere = _collapsed(function)
    for name, parameter in parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            unpacked = _unpacked(function, name)
            types |= unpacked
            if any(set(unpacked) <= {p.name for p in _declared(noun)} for noun in ALL_OPTIONS):
                elsewhere |= set(unpacked)
    meanings = option_docs.meanings_of(function)
    told = [name for name in types if name in meanings and name not in elsewhere]
    if not told:
        return
    yield from ("| argument | type | means |", "|---|---|---|")
    for name in told:
        kind = types[name].replace("|", "\\|")
        yield f"| `{name}` | `{kind}` | {meanings[name]} |"
    yield ""


def _signature(name: str, function: Callable[..., Any]) -> Iterator[str]:
    signature = inspect.signature(function)
    collapsed = _collapsed(function)
    parameters = [
        _parameter(parameter)
        for parameter in signature.parameters.values()
        if parameter.name not in ("self", "cls") and parameter.name not in collapsed
    ]
    if collapsed:
        parameters = [one for one in parameters if not one.startswith("**") and one != "*"]
        parameters.append("**options")
    result = "" if name[0].isupper() else _result(signature)
    line = f"{name}({', '.join(parameters)}){result}"
    if len(line) > WIDTH:
        inside = "".join([f"    {one},\n" for one in parameters])
        line = f"{name}(\n{inside}){result}"
    yield from ("```text", *line.splitlines(), "```", "")


def _collapsed(function: Callable[..., Any]) -> set[str]:
    """Parameters that the table of options has."""
    for noun in ALL_OPTIONS:
        if function in noun.taken_by:
            needed = {p.name for p in _declared(noun) if p.default is p.empty}
            return {p.name for p in _declared(noun)} - needed
    return set()


def _parameter(parameter: inspect.Parameter) -> str:
    name = f"{STARS.get(parameter.kind.name, '')}{parameter.name}"
    kind = written(parameter.annotation)
    if kind in ("", "object", "Any"):
        return name if parameter.default is parameter.empty else f"{name}={_value(parameter)}"
    if parameter.default is parameter.empty:
        return f"{name}: {kind}"
    return f"{name}: {kind} = {_value(parameter)}"


def _value(parameter: inspect.Parameter) -> str:
    default = parameter.default
    if isinstance(default, Enum):
        return f"{type(default).__name__}.{default.name}"
    return repr(default)


def _result(signature: inspect.Signature) -> str:
    kind = written(signature.return_annotation)
    return f" -> {kind}" if kind else ""


def written(annotation: Any) -> str:
    """A type as users write it, without the modules that we keep it in."""
    if annotation is inspect.Parameter.empty:
        return ""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    # Without the marks of type variables, and with unions and TypedDicts as sources have them.
    text = re.sub(r"[~+-](?=\w)", "", text.strip("'\""))
    text = re.sub(r"\*<class '(?:\w+\.)*(\w+)'>", r"Unpack[\1]", text)
    text = re.sub(r"\bOptional\[((?:[^\[\]]|\[[^\[\]]*\])*)\]", r"\1 | None", text)
    return re.sub(
        r"\b(?:magnetar|typing|collections|datetime|asyncio\.futures|re)\.(?:\w+\.)*", "", text
    )


def first_sentence(name: Name) -> str:
    value = name.value
    doc = doc_of(value) if callable(value) else constant_text(name)
    text = " ".join(doc.partition("\n\n")[0].split())
    return text.replace("|", "\\|").removesuffix(".")


def constant_text(name: Name) -> str:
    """The string that stands below a constant where it is assigned."""
    variable = name.path.rpartition(".")[2]
    for module in list(sys.modules.values()):
        if module.__name__.startswith("magnetar") and vars(module).get(variable) is name.value:
            text = _string_below(Path(module.__file__ or ""), variable)
            if text:
                return text
    return ""


def _string_below(path: Path, variable: str) -> str:
    body = ast.parse(path.read_text()).body
    for node, below in itertools.pairwise(body):
        assigned = ast.unparse(node).startswith((f"{variable}: ", f"{variable} = "))
        if assigned and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            return inspect.cleandoc(str(below.value.value))
    return ""


def doc_of(value: Any) -> str:
    """The docstring, without its indentation and the options, of which there are tables."""
    return inspect.cleandoc(value.__doc__ or "").partition(f"\n\n{ARGS}\n")[0]


def text_of(value: Any) -> Iterator[str]:
    """A docstring as Markdown: what is indented in it is code."""
    code: list[str] = []
    for line in doc_of(value).splitlines():
        if line.startswith((">>> ", "... ", "    ")) or (code and line.strip()):
            code.append(line)
            continue
        yield from _fenced(code)
        code = []
        yield _plain(line)
    yield from _fenced(code)
    yield ""


def _fenced(code: list[str]) -> list[str]:
    return ["```text", *code, "```"] if code else []


def _plain(line: str) -> str:
    """Prose outside of backticks may look like HTML."""
    return re.sub(r"<(?=\w)(?=[^`]*(?:`[^`]*`[^`]*)*$)", "\\<", line)


# ---- What is missing -------------------------------------------------------------------


def undocumented() -> Iterator[str]:
    """Public names, and methods and properties of public classes, that nothing is said of."""
    for name in _index_names():
        if not first_sentence(name):
            yield name.path
        if inspect.isclass(name.value) and not issubclass(name.value, Enum):
            for member, value in members_of(name.value):
                if not doc_of(value):
                    yield f"{name.path}.{member}"
    for noun in ALL_OPTIONS:
        for parameter in _declared(noun):
            if not noun.meanings.get(parameter.name):
                yield f"{noun.declared.__name__}({parameter.name}=...)"


# ---- Options ---------------------------------------------------------------------------


def options_table(noun: Options) -> Callable[[], Iterator[str]]:
    """A part of the reference: what the options of a noun are, and mean."""

    def lines() -> Iterator[str]:
        yield from ("| option | type | default | means |", "|---|---|---|---|")
        types = _types(noun)
        for parameter in _declared(noun):
            default = "" if parameter.default is parameter.empty else f"`{_value(parameter)}`"
            kind = types[parameter.name].replace("|", "\\|")
            text = noun.meanings[parameter.name]
            yield f"| `{parameter.name}` | `{kind}` | {default} | {text} |"

    return lines


def _declared(noun: Options) -> list[inspect.Parameter]:
    return list(inspect.signature(noun.declared).parameters.values())


def _types(noun: Options) -> dict[str, str]:
    """The types as the doors have them; where a door takes any, that of the attribute."""
    types = _attribute_types(noun.declared)
    for function in noun.taken_by:
        for name, parameter in inspect.signature(function).parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD:
                types |= _unpacked(function, name)
            elif written(parameter.annotation) not in ("", "Any", "object"):
                types[name] = written(parameter.annotation)
    for parameter in _declared(noun):
        types.setdefault(parameter.name, "object")
    return types


def _unpacked(function: Callable[..., Any], name: str) -> dict[str, str]:
    """The keys of a TypedDict that `**name` is annotated with."""
    for kind in get_args(get_type_hints(function).get(name)):
        return {key: written(hint) for key, hint in get_type_hints(kind).items()}
    return {}


def _attribute_types(declared: type) -> dict[str, str]:
    """What `self.name: Final[type]` says in the sources."""
    found: dict[str, str] = {}
    for node in ast.walk(_source(declared)):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Attribute):
            text = ast.unparse(node.annotation)
            found[node.target.attr] = re.sub(r"^Final\[(.*)\]$", r"\1", text)
    return found


def _source(declared: type) -> ast.ClassDef:
    """The class in the sources; where it is compiled, the interpreter has none of them."""
    path = Path(__file__).parent.parent.joinpath("src", *declared.__module__.split("."))
    tree = ast.parse(path.with_suffix(".py").read_text())
    found = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    return next(node for node in found if node.name == declared.__name__)


PARTS: Final[dict[str, Callable[[], Iterator[str]]]] = {
    "python names": index,
    "python others": page(others),
    "python client options": options_table(CLIENT),
    "python producer options": options_table(PRODUCER),
    "python consumer options": options_table(CONSUMER),
    "python reader options": options_table(READER),
    **{part: page(lambda names=names: names) for part, names in PAGE_NAMES.items()},  # type: ignore[misc]
}
