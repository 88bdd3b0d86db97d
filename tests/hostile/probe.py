"""A well-behaved user of a broker that is under attack, who writes down how long it waits.

    with Probe(broker) as probe:
        ...                       # the attack
    probe.check()

The probe runs in a process of its own: it sends a message, receives it, acknowledges it, and
begins anew, all the while. A gap is the time between two messages that arrived, less what the
broker and the probe waited in it for a core that others had: Linux counts that for each thread.
The machine itself may stall, so the probe's process also has a thread that only sleeps, and what
that thread overslept in the worst case is taken off. Of the broker's process it keeps the largest
resident size, as Linux counts it.

`check` asserts that no gap was longer than GAP_MS and no size larger than MEMORY_BYTES. With
MAGNETAR_HOSTILE_STRICT in the environment, as in `make test-long`, a gap may be 100 ms; the
short form shares its machine with other tests and forgives a second.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Final

from support.broker_process import BrokerProcess

__all__ = ["GAP_MS", "MEMORY_BYTES", "Probe"]

GAP_MS: Final = 100.0 if os.environ.get("MAGNETAR_HOSTILE_STRICT") else 1000.0
MEMORY_BYTES: Final = 256 << 20

TOPIC: Final = "persistent://public/default/hostile-probe"
# A probe that hears nothing for so long says so and ends.
SILENCE_MS: Final = 60_000
NAP_S: Final = 0.005
SAMPLE_S: Final = 0.02
END_S: Final = 90.0


class Probe:
    """See the module. It starts before the attack and has heard of one message by then."""

    def __init__(self, broker: BrokerProcess, *, topic: str = TOPIC, token: str = "") -> None:
        self._broker = broker
        self._topic = topic
        self._token = token
        self._done = threading.Event()
        self.gap_ms = 0.0
        self.overslept_ms = 0.0
        self.messages = 0
        self.memory_bytes = 0

    def __enter__(self) -> "Probe":
        command = [sys.executable, __file__, self._broker.url, self._topic, str(self._broker.pid)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ
            | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PROBE_TOKEN": self._token},
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"began\n", "the probe did not begin"
        self._sampler = threading.Thread(target=self._sample)
        self._sampler.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()
        self._sampler.join()
        self._look()
        try:
            said, _ = self._process.communicate(b"end\n", timeout=END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            raise
        if error is None:
            assert self._process.returncode == 0, "the probe failed, see its traceback"
            self._take(json.loads(said))

    def _take(self, found: dict[str, float]) -> None:
        self.gap_ms = found["gap_ms"]
        self.overslept_ms = found["overslept_ms"]
        self.messages = int(found["messages"])

    def _sample(self) -> None:
        while not self._done.wait(SAMPLE_S):
            self._look()

    def _look(self) -> None:
        with contextlib.suppress(OSError, IndexError):  # the broker is being restarted
            status = Path(f"/proc/{self._broker.pid}/status").read_text()
            kilobytes = int(status.partition("VmHWM:")[2].split()[0])
            self.memory_bytes = max(self.memory_bytes, kilobytes << 10)

    @property
    def stall_ms(self) -> float:
        """The longest gap, less what the machine itself took."""
        return max(0.0, self.gap_ms - self.overslept_ms)

    def __str__(self) -> str:
        return (
            f"{self.messages} messages, longest gap {self.gap_ms:.0f} ms "
            f"({self.overslept_ms:.0f} ms the machine's), broker {self.memory_bytes >> 20} MiB"
        )

    def check(self, *, gap_ms: float = GAP_MS, memory_bytes: int = MEMORY_BYTES) -> None:
        """Asserts that the broker served the probe all the while, and stayed small."""
        print(f"probe: {self}")
        assert self.messages > 1, "the probe heard nothing during the attack"
        assert self.stall_ms < gap_ms, str(self)
        assert self.memory_bytes < memory_bytes, str(self)


def waited_s(*pids: str) -> float:
    """How long the threads of these processes were ready to run while others had the cores."""
    waited_ns = 0
    for task in (path for pid in pids for path in Path("/proc").glob(f"{pid}/task/*/schedstat")):
        with contextlib.suppress(OSError, IndexError):  # it has ended meanwhile
            waited_ns += int(task.read_text().split()[1])
    return waited_ns / 1e9


def main(url: str, topic: str, pid: str) -> None:
    import magnetar

    done = threading.Event()
    overslept = [0.0]

    def wait_for_end() -> None:
        sys.stdin.readline()
        done.set()

    def nap() -> None:
        while not done.is_set():
            began = time.monotonic()
            time.sleep(NAP_S)
            overslept[0] = max(overslept[0], time.monotonic() - began - NAP_S)

    token = os.environ["PROBE_TOKEN"]
    proof = magnetar.AuthenticationToken(token) if token else None
    with magnetar.Client(url, authentication=proof, operation_timeout_seconds=60) as client:
        consumer = client.subscribe(topic, "probe")
        producer = client.create_producer(topic, batching_enabled=False)
        gap, messages, last, waited = 0.0, 0, 0.0, 0.0
        for target in (wait_for_end, nap):
            threading.Thread(target=target, daemon=True).start()
        while not done.is_set():
            producer.send(b"probe")
            consumer.acknowledge(consumer.receive(timeout_millis=SILENCE_MS))
            now = time.monotonic()
            if messages:
                gap = max(gap, now - last - max(0.0, waited_s(pid, "self") - waited))
            else:
                overslept[0] = 0.0
                print("began", flush=True)
            waited = waited_s(pid, "self")
            last, messages = time.monotonic(), messages + 1
    print(
        json.dumps(
            {"gap_ms": gap * 1000, "overslept_ms": overslept[0] * 1000, "messages": messages}
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
