"""`import magnetar as pulsar`: what the official package has, Magnetar has, or says why not.

The walk below goes through every public name of the pinned package, the members of its
classes, their parameters and defaults. What it misses is a gap, named like this:

    Function                      a class, a module or an enum that is not there
    MessageId.wrap                a member of a class
    Client.subscribe(schema)      a parameter that is missing, elsewhere, or has another default

Every gap stands in a table of docs/compatibility-client.md under "The client", with its reason; and
what stands there must be one.
"""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import pulsar
import pulsar.asyncio
import pulsar.schema
import pytest

import magnetar
import magnetar.aio
import magnetar.exceptions
import magnetar.schema

DOCUMENT = Path(__file__).parents[3] / "docs" / "compatibility-client.md"
VERSION = "3.13.0"

MODULES: list[tuple[ModuleType, ModuleType]] = [
    (pulsar, magnetar),
    (pulsar.exceptions, magnetar.exceptions),
    (pulsar.schema, magnetar.schema),
]


def listed_gaps() -> dict[str, str]:
    """The gaps of the table in the section, each with its reason."""
    section = re.split(r"^## ", DOCUMENT.read_text(), flags=re.M)
    (client,) = [text for text in section if text.startswith("The client\n")]
    found: dict[str, str] = {}
    for names, reason in re.findall(r"^\| (`.*`) \| (.+) \|$", client, flags=re.M):
        for name in re.findall(r"`([^`]+)`", names):
            assert name not in found, f"{name} is listed twice"
            found[name] = reason
    return found


GAPS = listed_gaps()


def is_official(value: object) -> bool:
    """Whether a name of the package is its own, not something that it imports to work."""
    return inspect.isclass(value) and value.__module__.split(".")[0] in ("pulsar", "_pulsar")


def classes_of(module: ModuleType) -> dict[str, Any]:
    return {n: v for n, v in vars(module).items() if not n.startswith("_") and is_official(v)}


CLASSES = [
    pytest.param(name, official, ours, id=f"{module.__name__}.{name}")
    for module, ours in MODULES
    for name, official in sorted(classes_of(module).items())
]


def gaps_of_class(name: str, official: Any, ours: Any) -> Iterator[str]:
    if issubclass(official, Exception):
        if not issubclass(ours, magnetar.exceptions.PulsarException):
            yield name
    elif hasattr(official, "__members__"):
        yield from gaps_of_enum(name, official, ours)
    else:
        yield from gaps_of_members(name, official, ours)


def gaps_of_enum(name: str, official: Any, ours: Any) -> Iterator[str]:
    for member, value in official.__members__.items():
        if member not in ours.__members__ or ours[member] != value.value:
            yield f"{name}.{member}"


# How to make one of a class whose attributes only an instance has.
EXAMPLES: dict[str, tuple[Any, ...]] = {
    "ConsumerDeadLetterPolicy": (1,),
    "ConsumerKeySharedPolicy": (),
}


def gaps_of_members(name: str, official: Any, ours: Any) -> Iterator[str]:
    if inspect.isfunction(vars(official).get("__init__")):
        yield from gaps_of_call(f"{name}.__init__", official, ours)
    for member in public_members(official):
        full = f"{name}.{member}"
        theirs, mine = getattr(official, member), getattr(ours, member, None)
        if isinstance(theirs, property) and name in EXAMPLES:
            if not hasattr(ours(*EXAMPLES[name]), member):
                yield full
        elif mine is None or mine is getattr(object, member, None):
            yield full
        elif callable(theirs) != callable(mine):
            yield full  # one is called, the other is not
        elif inspect.isroutine(theirs) and not member.startswith("_"):
            yield from gaps_of_call(full, theirs, mine)


# What Python defines by itself, or derives from __eq__.
IMPLIED = {"__init__", "__module__", "__doc__", "__dict__", "__weakref__", "__ne__", "__hash__"}


def public_members(official: Any) -> list[str]:
    names = {name for name in dir(official) if not name.startswith("_")}
    names |= {name for name in vars(official) if name.startswith("__")} - IMPLIED
    return sorted(names)


def gaps_of_call(name: str, official: Any, ours: Any) -> Iterator[str]:
    theirs, mine = parameters(official), parameters(ours)
    places = list(mine)
    for place, (parameter, wanted) in enumerate(theirs.items()):
        found = mine.pop(parameter, None)
        if found is None or found.kind != wanted.kind:
            yield f"{name}({parameter})"
            continue
        moved = wanted.kind == wanted.POSITIONAL_OR_KEYWORD and places.index(parameter) != place
        has_default = wanted.default is not wanted.empty
        if moved or (has_default and plain(found.default) != plain(wanted.default)):
            yield f"{name}({parameter})"
    for parameter, extra in mine.items():
        if extra.default is extra.empty and extra.kind not in (
            extra.VAR_KEYWORD,
            extra.VAR_POSITIONAL,
        ):
            yield f"{name}({parameter})"  # old calls would not give it


def parameters(call: Any) -> dict[str, inspect.Parameter]:
    found = dict(inspect.signature(call).parameters)
    found.pop("self", None)
    return found


def plain(value: Any) -> Any:
    """A default so that those of the two packages can be compared."""
    if hasattr(type(value), "__members__"):
        return (type(value).__name__, value.name)
    if hasattr(value, "schema_info"):
        return type(value).__name__
    return value


def all_gaps(name: str, official: Any, ours: Any) -> set[str]:
    found = getattr(ours, name, None)
    return {name} if found is None else set(gaps_of_class(name, official, found))


def test_the_package_is_the_one_that_was_read() -> None:
    assert pulsar.__version__ == VERSION
    assert len(CLASSES) > 150


interpreted = pytest.mark.skipif(magnetar.COMPILED, reason="mypyc keeps no signatures")


@interpreted
@pytest.mark.parametrize(("name", "official", "ours"), CLASSES)
def test_every_name_is_there_or_its_absence_explained(
    name: str, official: Any, ours: ModuleType
) -> None:
    unexplained = sorted(all_gaps(name, official, ours) - set(GAPS))
    assert unexplained == [], f"add them, or list them in {DOCUMENT.name} with a reason"


@pytest.mark.parametrize("name", [info.name for info in pkgutil.iter_modules(pulsar.__path__)])
def test_every_module_is_there_or_its_absence_explained(name: str) -> None:
    if name.startswith("_") or name in GAPS:
        return
    module = importlib.import_module(f"magnetar.{name}")
    assert getattr(magnetar, name) is module


@interpreted
@pytest.mark.parametrize("gap", GAPS)
def test_every_gap_that_is_listed_is_one(gap: str) -> None:
    name = gap.partition(".")[0]
    if inspect.ismodule(getattr(pulsar, name, None)) or name == "asyncio":
        assert not hasattr(magnetar, name)
        return
    found = {
        gap
        for module, ours in MODULES
        if name in classes_of(module)
        for gap in all_gaps(name, classes_of(module)[name], ours)
    }
    assert gap in found, f"take it out of {DOCUMENT.name}: it is there now"
    assert len(GAPS[gap]) > 10


def test_a_star_import_gives_what_the_official_one_gives() -> None:
    """`from pulsar.schema import *`, which most programs with records begin with."""
    official = {n for n in classes_of(pulsar.schema) if n not in GAPS}
    assert official <= set(magnetar.schema.__all__)
    assert set(classes_of(pulsar.exceptions)) == set(magnetar.exceptions.__all__)


class Official:
    """A class as the official package could have it, for the walk's own test."""

    def __init__(self, a: int, b: int = 2) -> None: ...
    def same(self, x: int, y: str = "z") -> None: ...
    def fewer(self, x: int, y: int = 1) -> None: ...
    def other(self, x: int = 1) -> None: ...
    def moved(self, x: int, y: int) -> None: ...
    def more(self, x: int) -> None: ...
    def gone(self) -> None: ...
    @property
    def value(self) -> int:
        return 1

    def __len__(self) -> int:
        return 0


class Ours:
    def __init__(self, a: int, b: int = 2, *, c: int = 3) -> None: ...
    def same(self, x: int, y: str = "z", extra: int = 0) -> None: ...
    def fewer(self, x: int) -> None: ...
    def other(self, x: int = 2) -> None: ...
    def moved(self, y: int, x: int) -> None: ...
    def more(self, x: int, needed: int) -> None: ...
    def value(self) -> int:
        return 1


def test_the_walk_finds_every_kind_of_gap() -> None:
    assert set(gaps_of_class("Official", Official, Ours)) == {
        "Official.__len__",
        "Official.fewer(y)",
        "Official.gone",
        "Official.more(needed)",
        "Official.moved(x)",
        "Official.moved(y)",
        "Official.other(x)",
        "Official.value",
    }


# ---- asyncio -----------------------------------------------------------------

MOVE = DOCUMENT.parent / "howto" / "move-from-the-official-client.md"
# What a program for `pulsar.asyncio` must change, each told by the how-to.
AIO_DIFFERENCES = {"subscribe(is_pattern_topic)", "negative_acknowledge", "shutdown"}


def arguments(call: Callable[..., object]) -> Iterator[str]:
    """The names that a call takes, those of its options too."""
    for name, one in inspect.signature(call).parameters.items():
        if one.kind == one.VAR_KEYWORD:
            (options,) = get_args(one.annotation)
            yield from options.__annotations__
        else:
            yield name


def aio_differences() -> Iterator[str]:
    for name in ("Client", "Consumer", "Producer", "Reader"):
        for member, theirs in vars(getattr(pulsar.asyncio, name)).items():
            if member.startswith("_"):
                continue
            ours = getattr(getattr(magnetar.aio, name), member)
            # A send that is not awaited is on its way all the same: it returns a future.
            awaited = inspect.iscoroutinefunction(ours) or (name, member) == ("Producer", "send")
            if awaited != inspect.iscoroutinefunction(theirs):
                yield member
            if inspect.isroutine(theirs):
                missing = set(arguments(theirs)) - set(arguments(ours))
                yield from (f"{member}({argument})" for argument in sorted(missing))


@interpreted
def test_a_program_of_the_official_asyncio_client_changes_what_the_how_to_names() -> None:
    assert sorted(aio_differences()) == sorted(AIO_DIFFERENCES)
    text = MOVE.read_text()
    assert all(name.partition("(")[2].rstrip(")") in text for name in AIO_DIFFERENCES)
    assert all(name.partition("(")[0] in text for name in AIO_DIFFERENCES)


@interpreted
def test_both_doors_subscribe_with_the_type_at_the_same_place() -> None:
    """As every page does: `subscribe("orders", "billing", ConsumerType.Shared)`."""
    first = ["topic", "subscription_name", "consumer_type", "schema"]
    doors = [
        pulsar.asyncio.Client.subscribe,
        magnetar.aio.Client.subscribe,
        magnetar.Client.subscribe,
    ]
    for door in doors:
        by_place = [p.name for p in parameters(door).values() if p.kind == p.POSITIONAL_OR_KEYWORD]
        assert by_place[:4] == first
