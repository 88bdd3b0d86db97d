"""Rates and limits, with Apache Pulsar's Java client: see java/Limits.java."""

from pathlib import Path

import pytest
from apache.harness import Broker, java
from apache.limited import CHECKS, make_topics

LIMITS = Path(__file__).parent / "java" / "Limits.java"


@pytest.mark.parametrize("check", CHECKS, ids=list(CHECKS.values()))
def test_the_java_client_meets_rates_and_limits(broker: Broker, check: str) -> None:
    topic = make_topics(broker, f"limits-{check}")
    said = java(LIMITS, check, broker.url, broker.http_url, topic, client="server")
    assert said.strip().splitlines()[-1] == "ok"
