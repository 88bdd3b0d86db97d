"""The Java that Spark runs on, as tools/find_java.py finds it."""

import importlib.util
from pathlib import Path

_TOOL = Path(__file__).parent.parent.parent / "tools" / "find_java.py"


def find_java() -> Path | None:
    spec = importlib.util.spec_from_file_location("find_java", _TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Path | None = module.find_java()
    return found
