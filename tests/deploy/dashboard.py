"""The dashboard of `deploy/grafana`, and what it asks of Prometheus."""

import json
from pathlib import Path
from typing import Any

__all__ = ["DASHBOARD", "queries"]

FILE = Path(__file__).parents[2] / "deploy" / "grafana" / "magnetar.json"
DASHBOARD: dict[str, Any] = json.loads(FILE.read_text())


def queries() -> list[str]:
    """What panels ask, with Grafana's variables filled in."""
    asked = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", [])]
    return [
        text.replace("$cluster", ".*").replace("$namespace", ".*").replace("$__rate_interval", "1m")
        for text in asked
    ]
