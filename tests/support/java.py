"""The Java that Spark runs on, as tools/find_java.py finds it."""

import importlib.util
from pathlib import Path

from support.requirement import need

_TOOL = Path(__file__).parent.parent.parent / "tools" / "find_java.py"


def find_java() -> Path | None:
    spec = importlib.util.spec_from_file_location("find_java", _TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Path | None = module.find_java()
    return found


def need_java() -> Path:
    """Where Java is; without it the test is skipped, or fails where it may not be missing."""
    home = find_java()
    need("spark", home is not None, "Spark needs Java 17: python tools/find_java.py --install")
    assert home is not None
    return home
