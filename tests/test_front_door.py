"""What `import magnetar` offers."""

import ast
import builtins
import importlib
import importlib.metadata
import inspect
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

import magnetar
from magnetar import errors, model, protocol


@pytest.mark.parametrize("module", [magnetar, errors, model, protocol], ids=lambda m: m.__name__)
def test_public_names_exist_once_and_in_order(module: object) -> None:
    names: list[str] = module.__all__  # type: ignore[attr-defined]
    assert all(hasattr(module, name) for name in names)
    assert len(set(names)) == len(names)
    constants = sorted(n for n in names if n.isupper())
    classes = sorted(n for n in names if not n.isupper() and n[0].isupper())
    functions = sorted(n for n in names if n[0].islower())
    assert names == constants + classes + functions


def test_every_error_is_offered_and_is_one_of_ours() -> None:
    for name in errors.__all__:
        error = getattr(errors, name)
        assert getattr(magnetar, name) is error
        assert issubclass(error, magnetar.MagnetarError)


VALUES: dict[str, object] = {"int": 5, "str": "some text"}


@pytest.mark.parametrize("name", errors.__all__)
def test_errors_pickle_with_their_fields_and_tell_them(name: str) -> None:
    kind: type[Exception] = getattr(errors, name)
    own = inspect.isfunction(kind.__init__)
    fields = list(inspect.signature(kind.__init__).parameters.values())[1:] if own else []
    arguments = [VALUES[field.annotation.__name__] for field in fields]
    error = kind(*arguments)
    assert all(str(value) in str(error) for value in arguments)
    back = pickle.loads(pickle.dumps(error))
    assert (type(back), str(back), vars(back)) == (type(error), str(error), vars(error))


def test_the_version_is_the_packages() -> None:
    assert importlib.metadata.version("magnetar") == magnetar.__version__


PUBLIC_NAMES = Path(__file__).parent / "public_names.txt"
FRONT_DOORS = ["magnetar", "magnetar.aio", "magnetar.cloudevents", "magnetar.exceptions"]
FRONT_DOORS += ["magnetar.schema", "magnetar.testing"]


def public_names() -> list[str]:
    return [
        f"{module}.{name}"
        for module in FRONT_DOORS
        for name in sorted(importlib.import_module(module).__all__)
    ]


def test_the_public_names_are_those_that_are_listed() -> None:
    """Whoever takes one away breaks programs; whoever adds one keeps it for years.

    After a change that is meant, write them anew: `python tests/test_front_door.py`.
    """
    assert public_names() == PUBLIC_NAMES.read_text().splitlines()


def misread(source: str) -> Iterator[str]:
    """Annotations in a class that name a method of it where a builtin is meant.

    Python 3.14 reads annotations when somebody asks for them, `help()` for example: by then the
    class has its method `type`, and `type[Enum]` is an error.
    """
    for kind in ast.walk(ast.parse(source)):
        if isinstance(kind, ast.ClassDef):
            functions = [
                n for n in kind.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)
            ]
            hidden = {function.name for function in functions} & set(vars(builtins))
            for function in functions:
                arguments = function.args
                named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
                for annotation in [*(one.annotation for one in named), function.returns]:
                    for node in ast.walk(annotation) if annotation is not None else ():
                        if isinstance(node, ast.Name) and node.id in hidden:
                            yield f"{kind.name}.{function.name}: {node.id}"


def test_no_annotation_names_a_method_where_a_builtin_is_meant() -> None:
    source = "class A:\n def list(self) -> list[int]: ...\n def f(self, a: 'list[int]') -> int: ..."
    assert list(misread(source)) == ["A.list: list"]
    sources = (Path(__file__).parents[1] / "src" / "magnetar").rglob("*.py")
    assert [one for path in sources for one in misread(path.read_text())] == []


if __name__ == "__main__":
    PUBLIC_NAMES.write_text("\n".join(public_names()) + "\n")
