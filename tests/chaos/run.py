"""One chaotic run: a real broker and real consumers in processes of their own, a proxy between
them that breaks, stalls and swallows, and kill -9 of both, again and again.

The producer is here, with deduplication, so that what it sends again is stored once. When all
is sent, trouble ends; then every message must have been handed out and acked, without help.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import httpx
from chaos.facts import Facts
from support.broker_process import BrokerProcess
from support.proxy import Proxy

from magnetar.client.door import aio
from magnetar.client.option.policy import BatchingType

TOPIC = "persistent://public/default/chaos"
KEYS = 40
WORKER = Path(__file__).parent / "worker.py"
# How long the rest may take when trouble has ended, on a machine with other things to do.
PATIENCE_S = 180.0


@dataclass
class Plan:
    """What a run is made of."""

    type: str
    workers: int
    cumulative: bool
    retries: bool
    messages: int = 2000
    seconds: float = 6.0
    # How long there is peace between two troubles.
    pause_s: float = 1.0
    seed: int = 0


class ChaosProxy(Proxy):
    """Cuts connections in the middle of a frame, holds them up, or falls silent."""

    def __init__(self, url: str, random: Random) -> None:
        super().__init__(url)
        self._random = random
        self._stalled_until = 0.0
        self._silent_until = 0.0
        self._cut_share = 0.0

    def stall(self, seconds: float) -> None:
        self._stalled_until = time.monotonic() + seconds

    def be_silent(self, seconds: float) -> None:
        """Swallows everything, and ends the connections afterwards."""
        self._silent_until = time.monotonic() + seconds

    def cut_often(self, share: float) -> None:
        """Ends connections in the middle of this share of frames."""
        self._cut_share = share

    async def send(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        if (wait := self._stalled_until - time.monotonic()) > 0:
            await asyncio.sleep(wait)
        if (wait := self._silent_until - time.monotonic()) > 0:
            await asyncio.sleep(wait)
            raise ConnectionResetError
        if self._random.random() < self._cut_share:
            writer.write(data[: self._random.randrange(len(data))])
            await writer.drain()
            raise ConnectionResetError
        await super().send(writer, data)


class Run:
    """See the module."""

    def __init__(self, plan: Plan, directory: Path) -> None:
        self.plan = plan
        self._random = Random(plan.seed)
        self._log = directory / "facts.log"
        self._log.touch()
        self._broker = BrokerProcess(directory / "data", options=["--set", "deduplication=true"])
        self._workers: dict[str, subprocess.Popen[bytes]] = {}
        self._started = 0
        self._stderr = (directory / "workers.log").open("wb")
        self.sent: list[tuple[str, int]] = []

    def facts(self) -> Facts:
        lines = self._log.read_text().splitlines()
        return Facts(lines, cumulative=self.plan.cumulative)

    async def go(self) -> Facts:
        with self._broker, self._stderr:
            async with ChaosProxy(self._broker.url, Random(self.plan.seed)) as proxy:
                try:
                    await self._live(proxy)
                finally:
                    for worker in self._workers.values():
                        worker.kill()
                        worker.wait()
        return self.facts()

    async def _live(self, proxy: ChaosProxy) -> None:
        for _ in range(self.plan.workers):
            self._start_worker(proxy.url)
        sending = asyncio.create_task(self._send(proxy.url))
        while not sending.done():
            await asyncio.wait([sending], timeout=self.plan.pause_s)
            if not sending.done():
                await self._make_trouble(proxy)
        proxy.cut_often(0)
        await sending
        await self._until_all_is_handed_out()
        await self._until_all_is_acked()

    # ---- Messages ------------------------------------------------------------

    async def _send(self, url: str) -> None:
        plan = self.plan
        async with aio.Client(
            url, operation_timeout_seconds=30, initial_backoff_ms=10, max_backoff_ms=200
        ) as client:
            producer = await client.create_producer(
                TOPIC,
                producer_name="p",
                send_timeout_millis=0,
                max_pending_messages=0,  # all of them, while the broker is away
                batching_enabled=True,
                batching_type=BatchingType.KeyBased,
                batching_max_publish_delay_ms=5,
            )
            each_s = plan.seconds / plan.messages
            futures = []
            for n in range(plan.messages):
                key, number = f"k{n % KEYS}", n // KEYS
                last = {"last": "1"} if n == plan.messages - 1 else {}
                futures.append(
                    producer.send(str(number).encode(), partition_key=key, properties=last)
                )
                self.sent.append((key, number))
                if n % 20 == 19:
                    await asyncio.sleep(each_s * 20)
            await asyncio.gather(*futures)

    # ---- Trouble -------------------------------------------------------------

    async def _make_trouble(self, proxy: ChaosProxy) -> None:
        kinds: list[Callable[[], object]] = [
            proxy.cut,
            lambda: proxy.stall(0.5),
            lambda: proxy.be_silent(0.3),
            lambda: proxy.cut_often(0.01),
            lambda: proxy.cut_often(0),
        ]
        roll = self._random.random()
        if roll < 0.5:
            await asyncio.to_thread(self._kill_broker)
        elif roll < 0.65:
            self._kill_worker(proxy.url)
        else:
            self._random.choice(kinds)()

    def _kill_broker(self) -> None:
        self._broker.kill()
        self._broker.restart()
        with self._log.open("ab", buffering=0) as log:
            log.write(b"K\n")

    def _kill_worker(self, url: str) -> None:
        name = self._random.choice(sorted(self._workers))
        worker = self._workers.pop(name)
        worker.kill()
        worker.wait()
        self._start_worker(url)

    def _start_worker(self, url: str) -> None:
        name = f"w{self._started:03}"
        self._started += 1
        plan = {
            "name": name,
            "url": url,
            "topic": TOPIC,
            "type": self.plan.type,
            "cumulative": self.plan.cumulative,
            "retries": self.plan.retries,
            "log": str(self._log),
        }
        command = [sys.executable, str(WORKER), json.dumps(plan)]
        self._workers[name] = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stderr=self._stderr, env=dict(os.environ)
        )

    # ---- The end -------------------------------------------------------------

    async def _until_all_is_handed_out(self) -> None:
        await self._until(
            lambda: self.facts().count.distinct == len(self.sent),
            lambda: f"{self.facts().count.distinct} of {len(self.sent)} were handed out",
        )

    async def _until_all_is_acked(self) -> None:
        await self._until(lambda: self._backlog() == 0, lambda: f"{self._backlog()} are unacked")

    def _backlog(self) -> int:
        path = TOPIC.replace("://", "/")
        answer = httpx.get(f"{self._broker.http_url}/admin/v2/{path}/stats").json()
        return int(answer["subscriptions"]["sub"]["msgBacklogMessages"])

    async def _until(self, holds: Callable[[], bool], what: Callable[[], str]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        # In a thread, for the proxy is on this loop, and all facts take a while to read.
        while not await asyncio.to_thread(holds):
            assert time.monotonic() < deadline, f"stuck: {what()}"
            await asyncio.sleep(1)


def run(plan: Plan, directory: Path) -> tuple[Run, Facts]:
    directory.mkdir(parents=True, exist_ok=True)
    made = Run(plan, directory)
    return made, asyncio.run(made.go())
