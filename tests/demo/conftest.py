"""The demo is a program at the root: `python -m examples.demo`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))
