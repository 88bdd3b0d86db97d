"""A real Spark cluster on loopback: a standalone master and workers, each a process of its own.

    with SparkCluster(tmp_path) as cluster:
        said = cluster.submit("job.py", "argument")

Everything that is started here is ended here: executors are the workers' to end, and end
with them.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pyspark

from support.java import need_java
from support.ports import free_ports

READY_S = 60.0
STOP_S = 20.0
JOB_S = 200.0

# For what is gone before a better compiler would pay.
BRIEF_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

HOME = Path(pyspark.__file__).parent
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"


class SparkCluster:
    """One master, and workers that have a core and half a gigabyte each."""

    def __init__(self, scratch: Path, workers: int = 2) -> None:
        self._scratch = scratch
        self._workers = workers
        self._processes: list[subprocess.Popen[bytes]] = []
        self.url = ""

    def __enter__(self) -> "SparkCluster":
        java = need_java()
        self._environment = {
            **os.environ,
            "JAVA_HOME": str(java),
            "SPARK_HOME": str(HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": BRIEF_JVM,
            # Workers must have what this interpreter has.
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }
        (port,) = free_ports(1)
        self.url = f"spark://127.0.0.1:{port}"
        host = ["--host", "127.0.0.1", "--webui-port", "0"]
        try:
            self._start("master", MASTER, *host, "--port", str(port))
            self._wait_for(port)
            for number in range(self._workers):
                folder = str(self._scratch / f"work-{number}")
                size = ["--cores", "1", "--memory", "512m"]
                self._start(
                    f"worker-{number}", WORKER, *host, *size, "--work-dir", folder, self.url
                )
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *why: object) -> None:
        self._stop()

    def _start(self, name: str, *command: str) -> None:
        self._scratch.mkdir(parents=True, exist_ok=True)
        with (self._scratch / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [str(HOME / "bin" / "spark-class"), *command],
                env=self._environment,
                cwd=self._scratch,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._processes.append(process)

    def _wait_for(self, port: int) -> None:
        deadline = time.monotonic() + READY_S
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return
            assert self._processes[0].poll() is None, f"no master:\n{self.logs}"
            assert time.monotonic() < deadline, f"the master does not listen:\n{self.logs}"
            time.sleep(0.1)

    @property
    def logs(self) -> str:
        """What the daemons and executors have said at last."""
        found = sorted([*self._scratch.glob("*.log"), *self._scratch.rglob("stderr")])
        return "\n".join(
            f"{path.relative_to(self._scratch)}: {path.read_text(errors='replace')[-3000:]}"
            for path in found
        )

    def submit(self, job: Path, *arguments: str) -> str:
        """Runs a job as `spark-submit` does, and returns what it prints."""
        settings = {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.extraJavaOptions": BRIEF_JVM,
            "spark.executor.extraJavaOptions": BRIEF_JVM,
            "spark.executor.memory": "512m",
            "spark.log.level": "WARN",
            # Tasks begin when all executors are there.
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
            "spark.ui.enabled": "false",
        }
        options = [part for pair in settings.items() for part in ("--conf", "=".join(pair))]
        command = [str(HOME / "bin" / "spark-submit"), "--master", self.url, *options]
        with subprocess.Popen(
            [*command, str(job), *arguments],
            env=self._environment,
            cwd=self._scratch,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                said, complaints = process.communicate(timeout=JOB_S)
            except BaseException as error:
                os.killpg(process.pid, signal.SIGKILL)  # the JVM, and the Python that it runs
                _, complaints = process.communicate()
                error.add_note(f"{complaints[-8000:]}\n{self.logs}")
                raise
        assert process.returncode == 0, f"{said}\n{complaints[-8000:]}\n{self.logs}"
        return said

    def _stop(self) -> None:
        processes, self._processes = self._processes, []
        for process in reversed(processes):
            process.send_signal(signal.SIGTERM)
        for process in processes:
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
