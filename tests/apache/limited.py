"""What Java and Go clients check of rates and limits, and the topics that they do it with."""

from typing import Final

import httpx
from apache.harness import Broker

__all__ = ["CHECKS", "make_topics"]

CHECKS: Final = {
    "publish": "a producer over its rate is slowed down, and nothing is lost",
    "dispatch": "a backlog comes at the rate, and whole",
    "again": "what is delivered again is held to the rate too",
    "producers": "one producer too many is refused, until another one leaves",
    "consumers": "one consumer too many is refused, until another one leaves",
    "subscriptions": "one subscription too many is refused, until another one goes",
    "neighbour": "another tenant publishes and receives while one is held up",
}


def make_topics(broker: Broker, name: str) -> str:
    """Makes a topic of a loud tenant and one of a quiet tenant; returns the loud one's name."""
    for tenant in ("loud", "quiet"):
        admin = f"{broker.http_url}/admin/v2"
        body = {"adminRoles": [], "allowedClusters": ["standalone"]}
        httpx.put(f"{admin}/tenants/{tenant}", json=body, timeout=60)
        httpx.put(f"{admin}/namespaces/{tenant}/ns", timeout=60)
        answer = httpx.put(f"{admin}/persistent/{tenant}/ns/{name}", timeout=60)
        answer.raise_for_status()
    return f"loud/ns/{name}"
