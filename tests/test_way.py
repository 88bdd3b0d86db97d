"""The way of a message as ARCHITECTURE.md draws it: each hop is there, and is passed in order."""

import ast
import asyncio
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from magnetar import ConsumerType, aio
from magnetar.broker.setting.settings import BrokerSettings
from magnetar.broker.shell.server import BrokerServer
from magnetar.storage.catalog.catalog import Catalog
from magnetar.storage.disk.memory_disk import MemoryDisk

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "magnetar"
ROW = re.compile(r"^\| [^|]+ \| `([\w/]+\.py)` \| `([\w.]+)` \|$")
TITLE = re.compile(r"^\*\*([\w -]+)\*\*.* (\d+) hops\.")

Hop = tuple[str, str]


def drawn() -> Iterator[tuple[str, int, list[Hop]]]:
    """Each way: its title, how many hops the text says it has, and its hops."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    section = text.split("\n## The way of a message\n")[1].split("\n## ")[0]
    for part in re.split(r"\n(?=\*\*)", section)[1:]:
        title = TITLE.match(part)
        assert title is not None, part[:80]
        rows = [line for line in part.splitlines() if line.startswith("| ")][1:]
        hops: list[Hop] = []
        for row in rows:
            found = ROW.match(row)
            assert found is not None, f"not a hop: {row}"
            hops.append((found[1], found[2]))
        yield title[1], int(title[2]), hops


WAYS = {title: (count, hops) for title, count, hops in drawn()}


def functions_of(tree: ast.Module) -> set[str]:
    """All functions of a file and of its classes, as `Class.function`."""
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    found.add(f"{node.name}.{inner.name}")
    return found


def test_the_ways_are_drawn() -> None:
    assert list(WAYS) == ["Publish", "Dispatch", "Ack", "Skip", "Commit", "A micro-batch of Spark"]


@pytest.mark.parametrize("title", WAYS)
def test_every_hop_that_is_drawn_is_there(title: str) -> None:
    count, hops = WAYS[title]
    assert len(hops) == count
    for file, function in hops:
        tree = ast.parse((PACKAGE / file).read_text())
        assert function in functions_of(tree), f"{file} has no {function}"


class Passed:
    """Which of our functions were called, in order, on any thread."""

    def __init__(self) -> None:
        self.hops: list[Hop] = []

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(str(PACKAGE)):
            name = Path(file).relative_to(PACKAGE).as_posix()
            self.hops.append((name, frame.f_code.co_qualname))

    def missing(self, way: list[Hop]) -> Hop | None:
        """The first hop of a way that was not passed after those before it."""
        left = iter(self.hops)
        for hop in way:
            if hop not in left:
                return hop
        return None


async def one_message(passed: Passed) -> None:
    """A message is sent, received and acknowledged, then another one in a transaction.

    The answer to the plain ack is waited for: by closing its consumer.
    """
    server = BrokerServer(
        MemoryDisk(), Catalog, BrokerSettings(transactions=True), host="127.0.0.1"
    )
    await server.start()
    client = aio.Client(server.url)
    try:
        producer = await client.create_producer("way", batching_enabled=False)
        consumer = await client.subscribe("way", "s", consumer_type=ConsumerType.Shared)
        sys.setprofile(passed)
        await producer.send(b"payload")
        await consumer.acknowledge(await consumer.receive())
        await consumer.close()  # which sends the acks that are still gathered, and waits for them
        sys.setprofile(None)
        consumer = await client.subscribe("way", "s", consumer_type=ConsumerType.Shared)
        await producer.send(b"second")
        second = await consumer.receive()
        transaction = await client.transaction()
        await producer.send(b"third", transaction=transaction)
        sys.setprofile(passed)
        await consumer.acknowledge(second, transaction=transaction)
        await transaction.commit()
        sys.setprofile(None)
    finally:
        await client.close()
        await server.stop()


def test_a_message_passes_the_hops_that_are_drawn() -> None:
    import magnetar.broker.commits

    if not str(magnetar.broker.commits.__file__).endswith(".py"):
        pytest.skip("compiled functions are not seen by a profiler")
    passed = Passed()
    before = sys.getprofile()
    threading.setprofile(passed)
    try:
        asyncio.run(one_message(passed))
    finally:
        threading.setprofile(None)
        sys.setprofile(before)
    for title in ("Publish", "Dispatch", "Ack", "Commit"):
        assert passed.missing(WAYS[title][1]) is None, title
