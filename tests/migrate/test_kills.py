"""A move that is killed again and again, and in the end has lost nothing and doubled nothing."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from apache.harness import ApachePulsar, require_artifacts
from migrate.world import Ends, ack_some, datas, drained
from support.waiting import WAIT_S, wait_until

from magnetar.testing.embedded import EmbeddedBroker

pytestmark = pytest.mark.once

ROUNDS = int(os.environ.get("MAGNETAR_MIGRATE_KILLS", "5"))
TOPIC = "persistent://public/default/much"
# A chunk of the copy is a megabyte, and so is a line of the journal.
SIZE = 20_000
MESSAGES = 120 * (ROUNDS + 1)


TARGETS = ["ours", pytest.param("apache", marks=pytest.mark.apache)]


@contextmanager
def target_of(kind: str) -> Iterator[tuple[str, str]]:
    """A broker to move to: its two addresses."""
    if kind == "ours":
        with EmbeddedBroker() as ours:
            yield ours.url, ours.http_url
        return
    require_artifacts()
    with ApachePulsar(fsync=False) as apache:
        yield apache.url, apache.http_url


@pytest.fixture(params=TARGETS)
def ends(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ends]:
    with (
        EmbeddedBroker() as source,
        target_of(request.param) as target,
        closing(Ends(source.url, source.http_url, *target, tmp_path / "journal")) as ends,
    ):
        yield ends


def reads_of(journal: Path) -> int:
    """How many chunks were about to be sent, by the journal."""
    return journal.read_bytes().count(b'"read"') if journal.exists() else 0


def killed(ends: Ends) -> None:
    """Begins to move, and is killed when a chunk more is under way."""
    before = reads_of(ends.journal)
    command = [sys.executable, "-m", "magnetar", "--url", ends.url, "--admin-url", ends.http_url]
    with subprocess.Popen([*command, "migrate", *ends.arguments]) as process:
        try:
            wait_until(
                lambda: reads_of(ends.journal) > before or process.poll() is not None,
                # A Python starts, connects, and unloads a topic of another server.
                seconds=4 * WAIT_S,
            )
        finally:
            process.kill()
    assert process.wait() == -9, "it was done before it was killed"


def test_no_message_is_lost_or_doubled_however_often_a_move_is_killed(ends: Ends) -> None:
    ends.source_admin.topics.create(TOPIC)
    ends.source_admin.subscriptions.create(TOPIC, "all", position="earliest")
    producer = ends.source.create_producer(TOPIC, batching_enabled=False)
    contents = [b"%06d" % number + b"." * SIZE for number in range(MESSAGES)]
    for content in contents:
        producer.send_async(content, None)
    producer.flush()
    producer.close()
    ack_some(ends.source, TOPIC, "all", MESSAGES, set(range(0, MESSAGES, 3)))
    for _ in range(ROUNDS):
        killed(ends)
    ends.move()
    # What is acked may be trimmed by now; `--verify` compared all of it before.
    left = [content for number, content in enumerate(contents) if number % 3]
    assert datas(drained(ends.target, TOPIC, "all", len(left))) == left
