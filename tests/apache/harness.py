"""Apache Pulsar's own server, tools and Java client, for tests and benchmarks.

    require_artifacts()                                    in a test: or skip, in one line
    with ApachePulsar(fsync=True) as apache:
        run = perf(apache, "produce", topic, "-m", "1000")
    admin(broker, "topics", "stats", topic)                any broker will do, ours too
    java(source_file, broker.url, broker.http_url)         a program of one file

Everything listens on loopback only, on ports free at the time, and keeps its files in a
directory that goes away with it. Every process that is started here is ended here: when
its block is left, when its time is up, and (on Linux) when this process dies.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol

from apache.artifacts import HERE, ArtifactsMissing, cached, classpath, fetch, java_version
from support.ports import free_ports
from support.requirement import need

# The long form: fetch what is missing, and have the older client check everything too.
LONG = bool(os.environ.get("MAGNETAR_APACHE_LONG"))
# Have the tests drive Apache Pulsar itself, to see whether it is they who are wrong.
AGAINST_APACHE = os.environ.get("MAGNETAR_APACHE_TARGET") == "apache"

READY_S = 120.0
STOP_S = 40.0
TOOL_S = 180.0

# What the release runs its server with, and what is enough for a test.
SHIPPED_MEMORY: Final[tuple[str, ...]] = (
    "-Xms2g",
    "-Xmx2g",
    "-XX:MaxDirectMemorySize=4g",
    "-XX:+AlwaysPreTouch",
    "-XX:+UseZGC",
    "-XX:+PerfDisableSharedMem",
)
SMALL_MEMORY: Final[tuple[str, ...]] = ("-Xmx1g", "-XX:MaxDirectMemorySize=1g", "-XX:+UseG1GC")
# For programs that are gone before a better compiler would pay.
BRIEF_MEMORY: Final[tuple[str, ...]] = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

OPENED: Final = (
    "java.io",
    "java.lang",
    "java.nio",
    "java.util.zip",
    "sun.net",
    "jdk.internal.misc",
    "jdk.internal.platform",
)

PERF = "org.apache.pulsar.testclient.PulsarPerfTestTool"
ADMIN = "org.apache.pulsar.admin.cli.PulsarAdminTool"
SERVER = "org.apache.pulsar.PulsarStandaloneStarter"


class Broker(Protocol):
    """Where a broker is: ours in a process, or Apache's."""

    url: str
    http_url: str


def require_artifacts() -> None:
    """Goes on if Apache Pulsar can be run here, else skips or fails as `need` does."""
    reason = why_not()
    need("apache", not reason, reason)


@cache
def why_not() -> str:
    """Why Apache Pulsar cannot be run here, in one line; empty if it can. May fetch it."""
    wanted = LONG or "apache" in os.environ.get("MAGNETAR_REQUIRE", "").split()
    try:
        java_version()
        if not cached():
            if not wanted:
                return "not fetched yet; tests/apache/artifacts.py fetches it (minutes, 400 MB)"
            fetch()
    except ArtifactsMissing as missing:
        return str(missing)
    return ""


# ---- Tools -------------------------------------------------------------------


class PerfRun:
    """What pulsar-perf said."""

    # "... --- 1234.5 msg/s --- ..." of the lines that pulsar-perf writes every 10 s.
    RATE: Final = re.compile(r"Throughput (?:produced|received):.*?--- +([\d.]+) +msg/s")
    TOTAL: Final = re.compile(r"Aggregated throughput stats --- (\d+) records")

    def __init__(self, output: str) -> None:
        self.output = output

    @property
    def rates(self) -> list[float]:
        """Messages a second of each interval; the first one is that of a cold JVM."""
        return [float(rate) for rate in self.RATE.findall(self.output)]

    @property
    def total(self) -> int:
        """How many messages pulsar-perf sent or received in all, by its own account."""
        found = self.TOTAL.search(self.output)
        assert found, f"pulsar-perf gives no total:\n{self.output}"
        return int(found[1])


def perf(broker: Broker, command: str, *arguments: str, timeout: float = TOOL_S) -> PerfRun:
    """Runs pulsar-perf; `command` is produce, consume or read."""
    return PerfRun(_run_tool(PERF, broker, [command, *arguments], SMALL_MEMORY, timeout))


def admin(broker: Broker, *arguments: str, timeout: float = TOOL_S) -> str:
    """Runs pulsar-admin, and returns what it prints."""
    return _run_tool(ADMIN, broker, list(arguments), BRIEF_MEMORY, timeout)


def java(source: Path, *arguments: str, client: str = "tools", timeout: float = TOOL_S) -> str:
    """Runs a Java program of one file, and returns what it prints.

    `client` is the profile of pom.xml whose Java client it uses.
    """
    return _run([*jvm(client, BRIEF_MEMORY, "off"), str(source), *arguments], timeout)


def _run_tool(
    main_class: str, broker: Broker, arguments: list[str], memory: Sequence[str], timeout: float
) -> str:
    log_level = "info" if main_class == PERF else "warn"
    # pulsar-perf leaves histograms where it runs.
    with tempfile.TemporaryDirectory(prefix="client-") as folder:
        conf = Path(folder) / "client.conf"
        conf.write_text(f"webServiceUrl={broker.http_url}\nbrokerServiceUrl={broker.url}\n")
        command = [*jvm("tools", memory, log_level), main_class, str(conf), *arguments]
        return _run(command, timeout, folder)


def _run(command: list[str], timeout: float, folder: str | None = None) -> str:
    """The output of a process that ends well and in time."""
    with subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            _kill_group(process)
            output, _ = process.communicate()
            raise AssertionError(f"not done after {timeout:.0f} s:\n{output}") from None
        except BaseException:
            _kill_group(process)
            raise
    assert process.returncode == 0, f"ended with {process.returncode}:\n{output}"
    return output


def jvm(profile: str, memory: Sequence[str], log_level: str) -> list[str]:
    """The java command up to the class to run, with the flags that the release's scripts give."""
    command = ["java", "-cp", os.pathsep.join(str(jar) for jar in classpath(profile)), *memory]
    if "-XX:+UseZGC" in memory and java_version() in (21, 22):
        command.append("-XX:+ZGenerational")
    if java_version() >= 23:
        command.append("--sun-misc-unsafe-memory-access=allow")
    for package in OPENED:
        command += ["--add-opens", f"java.base/{package}=ALL-UNNAMED"]
    command += ["--enable-native-access=ALL-UNNAMED", "-Djava.net.preferIPv4Stack=true"]
    command += ["-Dio.netty.tryReflectionSetAccessible=true"]
    command += ["-Dio.netty.recycler.maxCapacityPerThread=4096", "-Dio.netty.allocator.maxOrder=10"]
    command += [f"-Dlog4j.configurationFile={HERE / 'log4j2.xml'}", f"-Dlog.level={log_level}"]
    # Nothing that is started here outlives whoever started it.
    bound = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
    return bound + command


def _kill_group(process: "subprocess.Popen[str] | subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


# ---- The server --------------------------------------------------------------


class ApachePulsar:
    """Apache Pulsar standalone: a broker and a bookie in one JVM, with fresh data.

    With `fsync` the bookie syncs its journal before anything is acknowledged, which the
    release leaves off in standalone mode. With `transactions` it has a coordinator of them.
    """

    def __init__(
        self,
        *,
        fsync: bool = True,
        memory: Sequence[str] = SMALL_MEMORY,
        transactions: bool = False,
    ) -> None:
        broker_port, http_port, self._bookie_port = free_ports(3)
        self.url = f"pulsar://127.0.0.1:{broker_port}"
        self.http_url = f"http://127.0.0.1:{http_port}"
        self._settings = (
            f"brokerServicePort={broker_port}\nwebServicePort={http_port}\n"
            f"journalSyncData={str(fsync).lower()}\n"
            f"transactionCoordinatorEnabled={str(transactions).lower()}\n"
        )
        self._memory = memory
        self._process: subprocess.Popen[bytes] | None = None
        self._directory: Path | None = None

    def __enter__(self) -> "ApachePulsar":
        directory = self._directory = Path(tempfile.mkdtemp(prefix="apache-pulsar-"))
        conf = directory / "standalone.conf"
        conf.write_text((HERE / "standalone.conf").read_text() + self._settings)
        try:
            with (directory / "output").open("wb") as output:
                self._process = subprocess.Popen(
                    self._command(directory, conf),
                    cwd=directory,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            self._wait_ready(self._process)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    @property
    def pid(self) -> int:
        assert self._process is not None, "Apache Pulsar does not run"
        return self._process.pid

    @property
    def output(self) -> str:
        """The end of what the server has said."""
        assert self._directory is not None
        return (self._directory / "output").read_text(errors="replace")[-4000:]

    def _command(self, directory: Path, conf: Path) -> list[str]:
        drivers = "org.apache.pulsar.metadata.bookkeeper.PulsarMetadata"
        return [
            *jvm("server", self._memory, "info"),
            *("--add-opens", "java.management/sun.management=ALL-UNNAMED"),
            *("--add-opens", "jdk.management/com.sun.management.internal=ALL-UNNAMED"),
            *("-XX:+ExitOnOutOfMemoryError", "-Dpulsar.allocator.exit_on_oom=true"),
            "-Dlog4j2.is.webapp=false",
            f"-Dbookkeeper.metadata.bookie.drivers={drivers}BookieDriver",
            f"-Dbookkeeper.metadata.client.drivers={drivers}ClientDriver",
            SERVER,
            *("-c", str(conf), "-a", "127.0.0.1"),
            *("--no-functions-worker", "--no-stream-storage", "--num-bookies", "1"),
            *("--bookkeeper-port", str(self._bookie_port)),
            *("--metadata-dir", str(directory / "metadata")),
            *("--bookkeeper-dir", str(directory / "bookkeeper")),
            *("--zookeeper-dir", str(directory / "zookeeper")),
        ]

    def _wait_ready(self, process: subprocess.Popen[bytes]) -> None:
        """Until the namespace is there, which comes last, and the broker's own check passes."""
        deadline = time.monotonic() + READY_S
        while not (
            self._answers("/admin/v2/namespaces/public/default")
            and self._answers("/admin/v2/brokers/health")
        ):
            code = process.poll()
            assert code is None, f"Apache Pulsar ended with {code}:\n{self.output}"
            assert time.monotonic() < deadline, f"Apache Pulsar is not ready:\n{self.output}"
            time.sleep(0.1)

    def _answers(self, path: str) -> bool:
        try:
            with urllib.request.urlopen(self.http_url + path, timeout=10) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                _kill_group(process)
                process.wait()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
