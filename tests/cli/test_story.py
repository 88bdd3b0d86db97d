"""The operators' story by the command line: one poison message inside of a batch, among many.

`tests/admin/test_operators_story.py` tells it with 200,000 messages.
"""

import json
from collections import Counter
from pathlib import Path

from cli.broker_cli import BrokerCli
from support.broker_process import BrokerProcess

import magnetar

BEFORE, BEHIND = 12_000, 7_997


def test_the_poison_message_goes_and_nothing_else(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        cli = BrokerCli(broker.url, broker.http_url)
        cli.ok("topics", "create", "orders")
        cli.ok("topics", "create-subscription", "orders", "-s", "billing")
        cli.ok("produce", "orders", "-m", "fine", "-n", str(BEFORE))
        cli.ok("produce", "orders", "-m", "left", "-m", "poison", "-m", "right")
        cli.ok("produce", "orders", "-m", "fine", "-n", str(BEHIND))

        lines = cli.ok("peek", "orders", "-s", "billing", "-n", "1000000", "--json").splitlines()
        assert len(lines) == BEFORE + 3 + BEHIND
        (poison,) = [line for line in lines if '"data": "poison"' in line]
        id = json.loads(poison)["id"]
        assert id.endswith(":1")
        skip = ["topics", "skip-messages", "orders", "-s", "billing", "--messageId-triplet", id]
        assert cli.ok(*skip, "--dry-run").splitlines()[1] == "poison"
        cli.ok(*skip)

        broker.kill()
        broker.start()
        assert contents(broker.url) == {"fine": BEFORE + BEHIND, "left": 1, "right": 1}


def contents(url: str) -> Counter[str]:
    """All that the subscription gets."""
    found: Counter[str] = Counter()
    with magnetar.Client(url) as client:
        consumer = client.subscribe("orders", "billing", magnetar.ConsumerType.Shared)
        while found.total() < BEFORE + 2 + BEHIND:
            message = consumer.receive(30_000)
            found[message.data().decode()] += 1
            consumer.acknowledge(message)
    return found
