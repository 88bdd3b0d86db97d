"""The demo itself, in its short form: it ends well, and leaves what it says it leaves.

`make demo` sends 100,000 orders; MAGNETAR_DEMO_MESSAGES makes this one longer.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.java import need_java

from examples.demo import __main__ as demo
from examples.demo import orders
from examples.demo.checks import CHECKS
from examples.demo.orders import Plan
from magnetar.errors import SettingsError

ROOT = Path(__file__).parents[2]
MESSAGES = int(os.environ.get("MAGNETAR_DEMO_MESSAGES", "5000"))


@pytest.fixture
def broker() -> Iterator[list[int]]:
    """A place for the pid of the broker that is left running: it ends with the test."""
    pids: list[int] = []
    yield pids
    for pid in pids:
        os.kill(pid, signal.SIGTERM)


def test_it_ends_well_and_one_can_look_around(tmp_path: Path, broker: list[int]) -> None:
    need_java()
    command = [sys.executable, "-m", "examples.demo", "--keep", "--messages", str(MESSAGES)]
    command += ["--report", str(tmp_path / "report.html")]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    said = ran.stdout
    if stop := re.search(r"Stop it: kill (\d+)", said):
        broker.append(int(stop[1]))
    (directory,) = tmp_path.glob("magnetar-demo-*")
    assert ran.returncode == 0, said + ran.stderr + (directory / "processes.log").read_text()
    assert ran.stderr == ""
    assert said.count("✓") == len(CHECKS)
    for name in ("sent", "rows in the lake"):
        assert re.search(rf"{name} +│ +{MESSAGES:,} │", said)
    for name in ("came back after ack", "lost", "out of order"):
        assert re.search(rf"{name} +│ +0 │", said)
    assert (tmp_path / "report.html").read_text().count("<svg") == 3
    assert str(tmp_path / "report.html") in said
    # The commands that it tells work, in the order in which it tells them.
    told = re.search(r"alias m='(.*)'", said)
    assert told is not None
    lines = re.findall(r"^ +m (.*)$", said, re.MULTILINE)
    assert len(lines) == 5
    for line in lines:
        looked = subprocess.run(
            [*shlex.split(told[1]), *shlex.split(line)], capture_output=True, text=True, timeout=60
        )
        assert (looked.returncode, bool(looked.stdout)) == (0, True), line + looked.stderr
    assert "hello" in looked.stdout


def test_without_java_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing() -> Path:
        raise SettingsError("JAVA_HOME", "install openjdk-17-jre-headless")

    monkeypatch.setattr(demo, "find_java", missing)
    assert demo.main([]) == demo.NO_JAVA
    assert "install openjdk-17-jre-headless" in capsys.readouterr().out


@pytest.mark.parametrize("messages", [1000, 5000, 100_000])
def test_a_plan_has_as_many_orders_as_it_says(messages: int) -> None:
    plan = Plan.of(messages)
    bursts = list(orders.batched(plan))
    all_orders = [*(o for burst in bursts for o in burst), *orders.large(plan), *orders.later(plan)]
    kinds = Counter(order.kind for order in all_orders)
    assert len(all_orders) == len({order.name for order in all_orders}) == messages
    assert (kinds["poison"], kinds["cancelled"]) == (1, 1)
    assert kinds["flaky"] > 0
    assert all(len({order.key for order in burst}) == 1 for burst in bursts)
    # Numbers count up within a key, in the order of sending.
    last: dict[str, int] = {}
    for order in all_orders:
        assert order.number == last.get(order.key, -1) + 1
        last[order.key] = order.number
