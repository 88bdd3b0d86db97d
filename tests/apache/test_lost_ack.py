"""PIP-377: one lost ack sticks its keys on Apache Pulsar too, and our client's retries free them.

`examples/lost_ack.py` tells the story; this runs it against the server of the release.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from apache.harness import ApachePulsar, require_artifacts

EXAMPLE = Path(__file__).parents[2] / "examples" / "lost_ack.py"
TIMEOUT_S = 180

pytestmark = pytest.mark.apache


@pytest.fixture(scope="module")
def apache() -> Iterator[ApachePulsar]:
    require_artifacts()
    with ApachePulsar() as started:
        yield started


def test_a_lost_ack_sticks_its_keys_until_it_is_sent_again(apache: ApachePulsar) -> None:
    command = [sys.executable, str(EXAMPLE), apache.url, apache.http_url]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert ran.returncode == 0, ran.stderr
    plain, _, retried = ran.stdout.partition("auto_retry_acknowledgement=True")
    assert "b joined; these keys are stuck: k2 k8" in plain
    assert "after 40 s b has got: nothing" in plain
    assert "b joined; these keys are stuck: k2 k8" in retried
    assert "after 40 s b has got: k2 k8" in retried
    assert "the broker says: a holds 0, b holds 0" in retried
