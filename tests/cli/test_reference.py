"""The reference lists every command with its options, as the code has them."""

import importlib.util
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]


def tool() -> ModuleType:
    path = ROOT / "tools" / "cli_reference.py"
    spec = importlib.util.spec_from_file_location("cli_reference", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_list_of_commands_is_up_to_date() -> None:
    text = (ROOT / "docs" / "reference" / "cli.md").read_text()
    assert text == tool().completed(text), "run tools/cli_reference.py"
