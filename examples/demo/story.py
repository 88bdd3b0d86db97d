"""What happens in the demo, with real processes: broker, workers, Spark.

| when                  | what                                                                 |
|-----------------------|----------------------------------------------------------------------|
| at once               | the broker starts, then workers, and Spark beside them               |
| while orders are sent | some are refused and come again; a delayed one is cancelled          |
|                       | one can never be handled: it is found, looked at and skipped by id   |
|                       | a worker is killed, then the broker; both are started again          |
| when all is sent      | workers finish; Spark archives the rest, and lists the lake          |

It decides nothing about the outcome: it writes down facts, and `checks` judges them.
"""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import httpx

from examples.demo.broker import Broker
from examples.demo.facts import Facts, Place
from examples.demo.orders import Plan
from examples.demo.screen import Now, Screen
from examples.demo.sender import Sender
from examples.demo.watch import Watch
from examples.demo.worker import now_ms, place_of
from magnetar.cli.message.messages import Entry
from magnetar.model import MessageId
from magnetar.rest.answer import Answer

TOPIC = "persistent://public/default/orders"
WORKERS = "warehouse"
ARCHIVE = "lake"
# So often must an order have been refused before somebody looks at it.
REFUSALS = 3
# How long one thing may take before the demo gives up, on a machine with other things to do.
PATIENCE_S = 300.0
TICK_S = 0.1
# By then Spark has begun its next micro-batch.
MEANWHILE_S = 0.5
SERVICE_UNAVAILABLE = 503
ROOT = Path(__file__).parent.parent.parent


class Story:
    """One run, in a directory of its own."""

    def __init__(self, plan: Plan, directory: Path, screen: Screen) -> None:
        self.plan = plan
        self.directory = directory
        self.lake = directory / "lake"
        self._screen = screen
        self.log = directory / "facts.log"
        self.log.touch()
        self._watch = Watch(self.log)
        self._stderr: IO[bytes] = (directory / "processes.log").open("wb")
        self.broker = Broker(directory / "data", self._stderr)
        self._workers: dict[str, subprocess.Popen[bytes]] = {}
        self._spark: subprocess.Popen[bytes] | None = None
        self._now = Now(planned=plan.messages)
        self._phases: dict[str, float] = {}
        self._sender: Sender | None = None
        self._ending = False

    async def run(self) -> Facts:
        """Raises TimeoutError or RuntimeError if it gets stuck. The broker is left running."""
        showing = asyncio.create_task(self._show())
        try:
            return await self._run()
        finally:
            showing.cancel()
            for process in [*self._workers.values(), self._spark]:
                if process is not None and process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
            self._watch.close()
            self._stderr.close()

    async def _run(self) -> Facts:
        with self._phase("start"):
            await asyncio.to_thread(self.broker.start)
            self._now.broker = "serving"
            self._say(f"the broker serves {self.broker.url}, REST {self.broker.http_url}")
            for subscription in (WORKERS, ARCHIVE):
                await self._ask("PUT", f"subscription/{subscription}")
            for _ in range(self.plan.workers):
                self._start_worker()
            archiving = asyncio.create_task(self._archive())
            killing = asyncio.create_task(self._kill_spark())
        sender = self._sender = Sender(self.plan, self.broker.url, TOPIC)
        with self._phase("orders"):
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(sender.run())
                tasks.create_task(self._cancel_delayed(sender))
                tasks.create_task(self._skip_poison())
                tasks.create_task(self._kill_worker(sender))
                tasks.create_task(self._kill_broker(sender))
        self._say(f"all {len(sender.stored):,} orders are stored")
        with self._phase("finish"):
            due_ms = sender.due_ms["cancelled"]
            await self._until_acked()
            # What was cancelled does not come: that can be seen only after its time.
            await self._until("its time has come", lambda: now_ms() > due_ms + 1000)
            ended_ms = now_ms()
            await self._end_workers()
        with self._phase("lake"):
            await asyncio.wait([killing, archiving], return_when=asyncio.FIRST_COMPLETED)
            if archiving.done():
                archiving.result()  # raises: it cannot have come to its end yet
            await killing
            self._ending = True
            self._end_spark()
            await asyncio.wait_for(archiving, PATIENCE_S)
        unacked, unarchived = await self._unacked(WORKERS), await self._unacked(ARCHIVE)
        with self.log.open("a") as log:
            log.writelines(sender.stored)
        lines = self.log.read_text().splitlines()
        return Facts.read(lines, self.plan.messages, ended_ms, unacked, unarchived, self._phases)

    # ---- Trouble -------------------------------------------------------------

    async def _kill_worker(self, sender: Sender) -> None:
        await self._until("enough is sent", lambda: sender.share >= self.plan.worker_killed_at)
        name = sorted(self._workers)[1 % len(self._workers)]
        worker = self._workers.pop(name)
        worker.kill()
        worker.wait()
        self._note("X", name, now_ms())
        self._now.workers[name] = ("killed", *self._now.workers[name][1:])
        new = self._start_worker()
        self._say(f"{name} is killed with SIGKILL, {new} takes its place", "red")

    async def _kill_broker(self, sender: Sender) -> None:
        await self._until("enough is sent", lambda: sender.share >= self.plan.broker_killed_at)
        self.broker.kill()
        self._note("K", now_ms())
        self._now.broker = "killed"
        self._say("the broker is killed with SIGKILL, in the middle of it all", "bold red")
        began = time.monotonic()
        await asyncio.to_thread(self.broker.start)
        self._now.broker = "serving"
        self._say(f"the broker is back after {time.monotonic() - began:.1f} s", "green")

    # ---- The operator --------------------------------------------------------

    async def _cancel_delayed(self, sender: Sender) -> None:
        await sender.cancellable.wait()
        id = sender.ids["cancelled"]
        await self._skip(id)
        self._say(f"a delayed order is cancelled: it is skipped by its id {place_of(id)}")

    async def _skip_poison(self) -> None:
        """Finds the order that workers refuse again and again, looks at it, and skips it."""
        await self._until("something is refused again and again", lambda: bool(self._suspects()))
        suspect = self._suspects()[0]
        place = self._watch.last_refused[suspect].place
        entry = await self._look_at(place)
        text = entry.messages()[place.batch_index].data.decode()
        self._say(f"an order was refused {REFUSALS} times: {text}", "yellow")
        await self._skip(entry.id(place.batch_index))
        size = entry.batch_size
        self._say(
            f"it is one of a batch of {size}; it is skipped by its id {place}, the others stay"
        )

    def _suspects(self) -> list[tuple[str, int]]:
        """Orders that were refused too often, the first of each key; others wait behind those."""
        worst = [order for order, times in self._watch.refused.items() if times >= REFUSALS]
        return sorted(worst)

    async def _look_at(self, place: Place) -> Entry:
        """The entry that stands there; nothing moves by it."""
        answer = await self._ask("GET", f"ledger/{place.ledger}/entry/{place.entry}")
        return Entry(Answer(answer.status_code, answer.headers, answer.content), TOPIC, -1)

    async def _skip(self, id: MessageId) -> None:
        """One request (PIP-423), and a line when it is confirmed."""
        body = {"type": "byteArray", "messageIds": [id.to_base64()]}
        await self._ask("POST", f"subscription/{WORKERS}/skipByMessageIds", body)
        self._note("T", place_of(id))

    # ---- Processes -----------------------------------------------------------

    def _start_worker(self) -> str:
        name = f"worker-{len(self._now.workers) + 1}"
        plan = {
            "name": name,
            "url": self.broker.url,
            "topic": TOPIC,
            "subscription": WORKERS,
            "log": str(self.log),
        }
        self._workers[name] = self._start("worker", plan, subprocess.DEVNULL, self._stderr)
        self._now.workers[name] = ("starting", 0, 0, 0)
        return name

    async def _end_workers(self) -> None:
        # One that has only just been started does not know yet what SIGTERM means here.
        begun = self._watch.counts
        await self._until("workers work", lambda: all(begun[f"W {n}"] for n in self._workers))
        for worker in self._workers.values():
            worker.send_signal(signal.SIGTERM)
        for name, worker in self._workers.items():
            code = await asyncio.to_thread(worker.wait, PATIENCE_S)
            if code != 0:
                raise RuntimeError(f"{name} ended with {code}; see {self._stderr.name}")
            self._now.workers[name] = ("done", *self._now.workers[name][1:])

    async def _archive(self) -> None:
        """Runs Spark, and starts it again when it was killed, until it has come to its end."""
        plan = {
            "url": self.broker.url,
            "http_url": self.broker.http_url,
            "topic": TOPIC,
            "subscription": ARCHIVE,
            "lake": str(self.lake),
            "scratch": str(self.directory / "spark"),
            "log": str(self.log),
        }
        while True:
            spark = self._spark = self._start("lake", plan, subprocess.PIPE, subprocess.PIPE)
            self._now.spark = "starting"
            if self._ending:
                self._end_spark()
            while line := await asyncio.to_thread(spark.stdout.readline):
                self._hear(json.loads(line))
            code = await asyncio.to_thread(spark.wait)
            if code == 0:
                return
            if code != -signal.SIGKILL:
                raise RuntimeError(f"Spark ended with {code}; see {self._stderr.name}")

    def _end_spark(self) -> None:
        """Lets it archive what is left, and end."""
        assert self._spark is not None
        assert self._spark.stdin is not None
        self._spark.stdin.close()

    async def _kill_spark(self) -> None:
        if not self.plan.spark_killed:
            return
        await self._until("something is archived", lambda: self._now.archived > 0)
        await asyncio.sleep(MEANWHILE_S)
        assert self._spark is not None
        os.killpg(self._spark.pid, signal.SIGKILL)
        self._now.spark = "killed"
        self._note("Z", now_ms())
        self._say("Spark is killed with SIGKILL, driver and workers; it starts again", "red")

    def _hear(self, said: dict[str, Any]) -> None:
        match said:
            case {"ready": version}:
                self._now.spark = "streaming"
                self._say(f"Spark {version} streams the topic to Parquet")
            case {"batch": batch, "rows": rows}:
                self._now.archived += int(rows)
                self._note("R", batch, rows, now_ms())
            case {"failed": why}:
                self._say(f"Spark goes on from its checkpoint: {why}", "yellow")
            case {"lake": rows}:
                self._now.archived, self._now.spark = int(rows), "done"
                self._say(f"the lake has {int(rows):,} rows")

    def _start(self, module: str, plan: dict[str, str], stdin: int, out: Any) -> Any:
        command = [sys.executable, "-m", f"examples.demo.{module}", json.dumps(plan)]
        # What Spark leaves behind when it is killed goes with the rest.
        scratch = self.directory / "spark"
        scratch.mkdir(exist_ok=True)
        quiet = os.environ | {"PYTHONWARNINGS": "ignore", "TMPDIR": str(scratch)}
        # A group of its own: Spark is several processes, which are killed together.
        return subprocess.Popen(
            command,
            stdin=stdin,
            stdout=out,
            stderr=self._stderr,
            cwd=ROOT,
            env=quiet,
            start_new_session=True,
        )

    # ---- The broker's REST ---------------------------------------------------

    async def _ask(self, method: str, path: str, body: object = None) -> httpx.Response:
        """An answer, if need be of the broker's next life: nothing here minds being asked twice."""
        url = f"{self.broker.http_url}/admin/v2/{TOPIC.replace('://', '/')}/{path}"
        deadline = time.monotonic() + PATIENCE_S
        async with httpx.AsyncClient(timeout=30) as http:
            while True:
                try:
                    answer = await http.request(method, url, json=body)
                except httpx.TransportError:
                    if time.monotonic() > deadline:
                        raise
                else:
                    if answer.is_error and answer.status_code != SERVICE_UNAVAILABLE:
                        raise RuntimeError(f"{method} {url}: {answer.status_code} {answer.text}")
                    if answer.is_success:
                        return answer
                await asyncio.sleep(TICK_S)

    async def _unacked(self, subscription: str) -> int:
        stats = (await self._ask("GET", "stats")).json()
        return int(stats["subscriptions"][subscription]["msgBacklogMessages"])

    # ---- Facts and figures ---------------------------------------------------

    def _note(self, *facts: object) -> None:
        with self.log.open("ab", buffering=0) as log:
            log.write(" ".join(map(str, facts)).encode() + b"\n")

    def _say(self, text: str, style: str = "") -> None:
        self._screen.say(text, style)

    async def _show(self) -> None:
        while True:
            self._watch.read()
            counts, now = self._watch.counts, self._now
            now.stored = 0 if self._sender is None else len(self._sender.stored)
            now.handled, now.acked, now.refused = counts["P"], counts["A"], counts["N"]
            for name, (state, *_) in now.workers.items():
                each = tuple(counts[f"{kind} {name}"] for kind in "PNA")
                state = "working" if state == "starting" and each[0] else state
                now.workers[name] = (state, each[0], each[1], each[2])
            self._screen.update(now)
            await asyncio.sleep(TICK_S)

    async def _until_acked(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while left := await self._unacked(WORKERS):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{PATIENCE_S:.0f} s, and {left:,} orders are not acked")
            await asyncio.sleep(TICK_S)

    async def _until(self, what: str, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{PATIENCE_S:.0f} s, and not yet: {what}")
            await asyncio.sleep(TICK_S)

    @contextlib.contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        self._screen.phase(name)
        began = time.monotonic()
        yield
        self._phases[name] = time.monotonic() - began
        self._screen.phase_done(name, self._phases[name])
