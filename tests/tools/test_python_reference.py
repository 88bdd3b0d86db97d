"""Every public name is documented, and so is every option.

The walk is over the sources, also where the tests run compiled: signatures are read from there.
"""

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import magnetar
import magnetar.spark
import magnetar.testing
from magnetar import aio, schema
from magnetar.client.option import meaning

ROOT = Path(__file__).parents[2]
REFERENCE = "\n".join(page.read_text() for page in sorted(ROOT.glob("docs/reference/*.md")))
MODULES = {
    "magnetar": magnetar,
    "magnetar.aio": aio,
    "magnetar.schema": schema,
    "magnetar.spark": magnetar.spark,
    "magnetar.testing": magnetar.testing,
}
NAMES = [(path, name) for path, module in MODULES.items() for name in module.__all__]
TABLES = {
    "ClientOptions": meaning.CLIENT,
    "ProducerOptions": meaning.PRODUCER,
    "ConsumerOptions": meaning.CONSUMER,
    "ReaderOptions": meaning.READER,
}


def asked(code: str) -> Any:
    """What this prints as JSON, in a Python that has the sources and the tools."""
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tools")])
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(ran.stdout)


@pytest.fixture(scope="module")
def declared() -> dict[str, dict[str, str]]:
    """The options that there are, and their defaults, by class."""
    answer: dict[str, dict[str, str]] = asked(
        "import inspect, json\n"
        "from enum import Enum\n"
        "from magnetar.client.option import options\n"
        "def shown(value):\n"
        "    return f'{type(value).__name__}.{value.name}' if isinstance(value, Enum) "
        "else repr(value)\n"
        "def of(name):\n"
        "    found = inspect.signature(getattr(options, name)).parameters.values()\n"
        "    return {p.name: '' if p.default is p.empty else shown(p.default) for p in found}\n"
        f"print(json.dumps({{name: of(name) for name in {list(TABLES)}}}))"
    )
    return answer


@pytest.mark.parametrize(("path", "name"), NAMES, ids=[f"{path}.{name}" for path, name in NAMES])
def test_every_public_name_is_in_the_reference(path: str, name: str) -> None:
    value = getattr(MODULES[path], name)
    if inspect.ismodule(value):
        assert all(
            f"`{path}.{name}.{one}`" in REFERENCE or f"`{one}`" in REFERENCE
            for one in value.__all__
        )
        return
    # Errors of the library are listed by their names alone, in a table of their own.
    listed = [f"| `{path}.{name}` |", *([f"| `{name}` |"] if is_error(value) else [])]
    found = [row for row in listed if row in REFERENCE]
    assert found, f"{path}.{name} is in no page: run make reference"


def is_error(value: object) -> bool:
    """Whether the page of errors has it: AdminError is the admin API's own."""
    return inspect.isclass(value) and value.__name__ in magnetar.errors.__all__


def test_every_public_name_method_and_property_says_what_it_is() -> None:
    code = (
        "import json, python_reference as r; print(json.dumps(["
        "list(r.undocumented()), [name.path for name in r._index_names()]]))"
    )
    missing, walked = asked(code)
    assert missing == []
    assert {"magnetar.Client", "magnetar.aio.Consumer", "magnetar.spark.attach"} <= set(walked)


def test_what_says_nothing_is_found() -> None:
    code = (
        "import json, magnetar, python_reference as r\n"
        "magnetar.Client.close.__doc__ = None\n"
        "magnetar.Reader.__doc__ = None\n"
        "del r.CONSUMER.meanings['retry_enabled']\n"
        "print(json.dumps(list(r.undocumented())))"
    )
    assert asked(code) == [
        "magnetar.Client.close",
        "magnetar.Reader",
        "ConsumerOptions(retry_enabled=...)",
    ]


@pytest.mark.parametrize("noun", TABLES)
def test_every_option_has_a_meaning_and_no_meaning_is_of_none(
    noun: str, declared: dict[str, dict[str, str]]
) -> None:
    assert list(TABLES[noun]) == list(declared[noun])


@pytest.mark.parametrize("noun", TABLES)
def test_every_option_is_in_the_reference_with_default_and_meaning(
    noun: str, declared: dict[str, dict[str, str]]
) -> None:
    rows = [line for line in REFERENCE.splitlines() if line.startswith("| `")]
    for name, default in declared[noun].items():
        end = f"| {f'`{default}`' if default else ''} | {TABLES[noun][name]} |"
        assert any(row.startswith(f"| `{name}` |") and row.endswith(end) for row in rows), name
