"""Real processes and real trouble: three clients, one broker, and the simulation's judges.

    PYTHONPATH=.build/compiled:tests python tests/jepsen/run.py --minutes 60 --directory DIR

Programs of the official Python client, of the Java client and of ours, through both its doors,
send and consume on topics with every type of subscription, each behind a proxy of its own.
Meanwhile processes are killed and stopped, the disk is filled, the broker's clock jumps, and
connections break (`troubles.py`). A run has rounds: at the end of each trouble ends, everything
must arrive and be acked without help, and `judge.py` judges what all of them wrote down. The
broker and its directory live through all rounds, the topics of each are new.

A round that is not well leaves its files, and what to read them with is printed. With PYTHONPATH
leading to src/, JEPSEN_PLANT plants a bug in the broker (`tapped_serve.py`), which must be found.
"""

import argparse
import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import httpx
from chaos.run import ChaosProxy
from jepsen.fact_file import FactFile
from jepsen.judge import Verdict, judge
from jepsen.role import full
from jepsen.troubles import Clock, SmallDisk
from support.broker_process import BrokerProcess

from magnetar.testing.checker.history import Counted, Quiet

HERE = Path(__file__).parent
PATIENCE_S = 240.0
# What connections of one life of the broker are numbered from.
LINES = 1_000_000
SUBSCRIPTION = "sub"
KEYS = 12
TYPES = {"failover": "Failover", "keys": "KeyShared", "shared": "Shared", "alone": "Exclusive"}
PROGRAMS = ("aio1", "aio2", "blocking", "official1", "official2", "java")
OF_PROXIES = ("cut", "stall", "silence", "frays")
# Nobody outlives the run, however it ends.
BOUND = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
# Watermark and segments that suit a small disk.
OPTIONS = ("deduplication=true", "watermark_bytes=16MiB", "segment_bytes=8MiB")


class Program:
    """A process that is a client, and its next lives."""

    def __init__(
        self, name: str, command: Sequence[str], proxy: ChaosProxy, roles: list[str], place: Path
    ) -> None:
        self.name = name
        self.proxy = proxy
        self._command = list(command)
        self._roles = roles
        self._place = place
        self._life = 0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        life = f"{self.name}.{self._life}"
        self._life += 1
        files = [self._place / f"{life}.facts", self._place / "stop"]
        words = [life, self.proxy.url, *map(str, files), *self._roles]
        with (self._place / f"{self.name}.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*BOUND, *self._command, *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def send_signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def check(self) -> None:
        assert self._process is not None
        code = self._process.poll()
        log = self._place / f"{self.name}.log"
        assert code is None, f"{self.name} ended with {code}: {log.read_text()[-2000:]}"


class TappedBroker(BrokerProcess):
    """Whose tap has a new file for each life."""

    def __init__(self, disk: SmallDisk, clock: Clock) -> None:
        options = [word for option in OPTIONS for word in ("--set", option)]
        super().__init__(disk.data, options=options)
        self._clock = clock
        self._life = 0
        self.place = Path()

    def start(self) -> None:
        self._life += 1
        tap = [str(self.place / f"broker.{self._life}.facts"), str(self._life * LINES)]
        serve = [sys.executable, str(HERE / "tapped_serve.py"), *tap, "serve"]
        self.command = [*BOUND, *self._clock.command(), *serve]
        super().start()

    def send_signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    @property
    def runs(self) -> bool:
        return self._process is not None

    def _end(self, how: signal.Signals) -> int:
        pid = self.pid
        try:
            return super()._end(how)
        finally:
            self._clock.forget(pid)


class Round:
    """Some minutes of trouble, and then peace and judgement."""

    def __init__(
        self,
        number: int,
        place: Path,
        broker: TappedBroker,
        disk: SmallDisk,
        clock: Clock,
        random: Random,
        programs: Sequence[str],
        rate: float,
    ) -> None:
        self._number = number
        self._place = place
        self._broker = broker
        self._disk = disk
        self._clock = clock
        self._random = random
        self._names = programs
        self._rate = rate
        self._topics = {f"{name}-{number}": type for name, type in TYPES.items()}
        self._programs: dict[str, Program] = {}
        self.troubles: Counter[str] = Counter()
        self._doing: set[asyncio.Task[None]] = set()
        self._log = (place / "troubles.log").open("a")

    async def go(self, seconds: float) -> Verdict:
        proxies = {name: ChaosProxy(self._broker.url, self._random) for name in self._names}
        try:
            for proxy in proxies.values():
                await proxy.__aenter__()
            await asyncio.to_thread(self._begin, proxies)
            await self._make_trouble(seconds)
            await self._make_peace()
        finally:
            for program in self._programs.values():
                program.kill()
            for proxy in proxies.values():
                await proxy.__aexit__()
            self._log.close()
        return await asyncio.to_thread(judge, self._place)

    def _begin(self, proxies: dict[str, ChaosProxy]) -> None:
        for topic in self._topics:
            path = full(topic).replace("://", "/")
            url = f"{self._broker.http_url}/admin/v2/{path}"
            httpx.put(url).raise_for_status()
            answer = httpx.put(f"{url}/subscription/{SUBSCRIPTION}", json="earliest")
            answer.raise_for_status()
        alone = self._names[self._number % len(self._names)]
        for name in self._names:
            roles = []
            for topic, type in self._topics.items():
                keys = KEYS if type == "KeyShared" else 0
                roles.append(f"produce:{topic}:{self._rate}:{keys}")
                if type != "Exclusive" or name == alone:
                    roles.append(f"consume:{topic}:{SUBSCRIPTION}:{type}")
            program = Program(
                name, command_of(name, self._place), proxies[name], roles, self._place
            )
            self._programs[name] = program
            program.start()

    # ---- Trouble -------------------------------------------------------------

    async def _make_trouble(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            await asyncio.sleep(self._random.uniform(0.5, 4))
            for program in self._programs.values():
                program.check()
            await self._one()
        await asyncio.gather(*self._doing)

    async def _one(self) -> None:
        random = self._random
        program = self._programs[random.choice(sorted(self._programs))]
        kinds: dict[str, tuple[float, Callable[[], object]]] = {
            "kill broker": (18, self._kill_broker),
            "kill program": (14, lambda: self._kill(program)),
            "stop broker": (
                8,
                lambda: self._stop(self._broker.send_signal, random.uniform(0.2, 5)),
            ),
            "stop program": (12, lambda: self._stop(program.send_signal, random.uniform(0.2, 20))),
            "full disk": (8, lambda: self._fill(random.choice([0, 4 << 20]))),
            "clock jump": (12, lambda: self._clock.jump(random)),
            "cut": (8, program.proxy.cut),
            "stall": (6, lambda: program.proxy.stall(random.uniform(0.2, 4))),
            "silence": (6, lambda: program.proxy.be_silent(random.uniform(0.2, 4))),
            "frays": (8, lambda: program.proxy.cut_often(random.choice([0, 0.01]))),
        }
        for trouble, kind in ((self._disk, "full disk"), (self._clock, "clock jump")):
            if trouble.why_not:
                del kinds[kind]
        name = random.choices(list(kinds), [weight for weight, _ in kinds.values()])[0]
        self.troubles[name] += 1
        self._note(name, program.name)
        # Who is stopped is so while others are in trouble; one who is killed then is not stopped
        # any more.
        doing = asyncio.create_task(self._do(name, kinds[name][1]))
        self._doing.add(doing)
        doing.add_done_callback(self._doing.discard)
        if name != "stop program":
            await doing

    async def _do(self, name: str, trouble: Callable[[], object]) -> None:
        if name in OF_PROXIES:
            trouble()  # they are on this loop
        else:
            await asyncio.to_thread(trouble)
        self._note(name, "over")

    def _note(self, *words: object) -> None:
        self._log.write(json.dumps([time.monotonic_ns(), *words]) + "\n")
        self._log.flush()

    def _kill_broker(self) -> None:
        self._broker.kill()
        self._broker.start()

    def _kill(self, program: Program) -> None:
        program.kill()
        program.start()

    def _stop(self, send: Callable[[signal.Signals], None], seconds: float) -> None:
        send(signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            send(signal.SIGCONT)

    def _fill(self, left_bytes: int) -> None:
        try:
            self._disk.fill(left_bytes)
            time.sleep(self._random.uniform(1, 5))
            if self._random.random() < 0.25:
                self._broker.kill()  # and once more with room, as an operator would
        finally:
            self._disk.free()
        if not self._broker.runs:
            self._broker.start()

    # ---- Peace ---------------------------------------------------------------

    async def _make_peace(self) -> None:
        for program in self._programs.values():
            program.proxy.cut_often(0)
        (self._place / "stop").touch()
        deadline = time.monotonic() + PATIENCE_S
        while True:
            left = {topic: await asyncio.to_thread(self._left, topic) for topic in self._topics}
            if not any(any(counts) for counts in left.values()):
                break
            for program in self._programs.values():
                program.check()
            assert time.monotonic() < deadline, (
                f"stuck: producers, backlog and unacked are {left}; see {self._place}"
            )
            await asyncio.sleep(1)
        # Answers that are on their way, and acks that say again what is acked.
        await asyncio.sleep(3)
        facts = FactFile(self._place / "runner.facts")
        for topic in self._topics:
            _, backlog, unacked = await asyncio.to_thread(self._left, topic)
            for what, counted in (("backlog", backlog), ("unacked", unacked)):
                facts.add(Counted(full(topic), SUBSCRIPTION, what, counted, 0))
        facts.add(Quiet())

    def _left(self, topic: str) -> tuple[int, int, int]:
        """How many producers there are still, and messages that are not acked, or acked yet."""
        path = full(topic).replace("://", "/")
        answer = httpx.get(f"{self._broker.http_url}/admin/v2/{path}/stats", timeout=30).json()
        of = answer["subscriptions"][SUBSCRIPTION]
        return len(answer["publishers"]), of["msgBacklogMessages"], of["unackedMessages"]


def command_of(name: str, place: Path) -> list[str]:
    if name.startswith("aio"):
        return [sys.executable, str(HERE / "aio_program.py")]
    if name.startswith("java"):
        return java_command(place.parent / "classes")
    library = "pulsar" if name.startswith("official") else "magnetar"
    return [sys.executable, str(HERE / "blocking_program.py"), library]


def java_command(classes: Path) -> list[str]:
    """The Java program, compiled once."""
    from apache.artifacts import classpath
    from apache.harness import jvm

    jars = os.pathsep.join(str(jar) for jar in classpath("server"))
    if not classes.exists():
        compile = ["javac", "-cp", jars, "-d", str(classes), str(HERE / "Program.java")]
        subprocess.run(compile, check=True)
    memory = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command = jvm("server", memory, "off")
    at = command.index("-cp") + 1
    command[at] = os.pathsep.join([str(classes), command[at]])
    return [*command, "Program"]


def why_no_java() -> str:
    from apache.harness import why_not

    return why_not() or ("" if shutil.which("javac") else "no javac command")


async def run(
    minutes: float, directory: Path, *, seed: int, rounds: int, rate: float, keep: bool = False
) -> bool:
    """Whether everything was well."""
    random = Random(seed)
    programs = [name for name in PROGRAMS if name != "java"]
    clock = Clock(directory)
    reason = await asyncio.to_thread(why_no_java)
    if not reason:
        programs.append("java")
    fine, all_counts, all_troubles = True, Counter[str](), Counter[str]()
    with SmallDisk(directory) as disk:
        for text in (disk.why_not, clock.why_not, reason and f"no Java client: {reason}"):
            if text:
                print(f"goes without: {text}")
        broker = TappedBroker(disk, clock)
        for number in range(rounds):
            place = directory / f"round-{number}"
            place.mkdir()
            broker.place = place
            clock.set(0)
            await asyncio.to_thread(broker.restart if number else broker.start)
            try:
                one = Round(number, place, broker, disk, clock, random, programs, rate)
                verdict = await one.go(minutes * 60 / rounds)
            except BaseException:
                print(broker.stderr[-3000:], file=sys.stderr)
                if broker.runs:
                    broker.kill()
                raise
            all_counts += verdict.counts
            all_troubles += one.troubles
            print(f"round {number}: {verdict}", flush=True)
            if verdict.fine:
                if not keep:
                    shutil.rmtree(place)
            else:
                fine = False
                print(f"to see it again: python tests/jepsen/judge.py {place}")
        await asyncio.to_thread(broker.stop)
    for title, counts in (("in all", all_counts), ("troubles", all_troubles)):
        print(f"{title}: " + ", ".join(f"{number:,} {what}" for what, number in counts.items()))
    print("0 violations" if fine else "VIOLATIONS: see above")
    return fine


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=0, help="one for each five minutes")
    parser.add_argument("--rate", type=float, default=3, help="of each producer, in a second")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--directory", type=Path, help="where files are left if it is not well")
    parser.add_argument("--keep", action="store_true", help="leaves the files of all rounds")
    chosen = parser.parse_args()
    directory = chosen.directory or Path(tempfile.mkdtemp(prefix="jepsen-"))
    directory.mkdir(parents=True, exist_ok=True)
    rounds = chosen.rounds or max(1, round(chosen.minutes / 5))
    fine = asyncio.run(
        run(
            chosen.minutes,
            directory,
            seed=chosen.seed,
            rounds=rounds,
            rate=chosen.rate,
            keep=chosen.keep,
        )
    )
    if fine and not chosen.keep:
        shutil.rmtree(directory)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
