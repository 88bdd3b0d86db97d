"""A Spark that projects of `spark-pipelines` are run on: a process that may be killed.

Its catalog outlives it, as one must that a project is run on twice.
"""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from support.java import need_java
from support.ports import free_ports

EXAMPLES = Path(__file__).parents[3] / "examples" / "spark_pipelines"
START_S = 120


class ConnectServer:
    """Started when it is first needed; `kill` ends it, and who runs a project, as a crash would."""

    def __init__(self, scratch: Path) -> None:
        self.warehouse = scratch / "warehouse"
        self._scratch = scratch
        self._process: subprocess.Popen[str] | None = None
        self._run: subprocess.Popen[str] | None = None
        self._port = 0
        self._environment = {
            **{name: value for name, value in os.environ.items() if name != "PYSPARK_GATEWAY_PORT"},
            "JAVA_HOME": str(need_java()),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(scratch),
            "TMPDIR": str(scratch),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }

    def _start(self) -> None:
        (self._port,) = free_ports(1)
        metastore = f"jdbc:derby:;databaseName={self._scratch / 'metastore'};create=true"
        conf = {
            "spark.connect.grpc.binding.port": self._port,
            "spark.hadoop.javax.jdo.option.ConnectionURL": metastore,
            "spark.log.level": "ERROR",
            "spark.sql.catalogImplementation": "hive",
            "spark.sql.shuffle.partitions": 2,
            "spark.sql.streaming.pollingDelay": "20ms",
            "spark.sql.warehouse.dir": self.warehouse,
            "spark.ui.enabled": "false",
        }
        java = (
            f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djava.io.tmpdir={self._scratch} "
            f"-Dderby.system.home={self._scratch}"
        )
        log = self._scratch / "server.log"
        with log.open("a") as output:
            self._process = subprocess.Popen(
                [
                    *("spark-submit", "--master", "local[2]", "--driver-memory", "1g"),
                    *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
                    *("--driver-java-options", java),
                    *(part for n, v in conf.items() for part in ("--conf", f"{n}={v}")),
                    "spark-internal",
                ],
                cwd=self._scratch,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                text=True,
            )
        deadline = time.monotonic() + START_S
        while True:
            assert self._process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port)):
                return
            time.sleep(0.1)

    def start(self, project: Path, *, script: bool = False) -> "subprocess.Popen[str]":
        """`spark-pipelines run`, which is under way when this returns.

        Unless it is to be the script, what that runs is run without the JVM that it starts.
        """
        if self._process is None:
            self._start()
        remote = f"sc://127.0.0.1:{self._port}"
        module = [sys.executable, "-m", "pyspark.pipelines.cli", "run"]
        self._run = subprocess.Popen(
            ["spark-pipelines", "run", "--remote", remote] if script else module,
            cwd=project,
            env={**self._environment, **({} if script else {"SPARK_REMOTE": remote})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
        )
        return self._run

    def run(self, project: Path, *, script: bool = False) -> None:
        """`spark-pipelines run`, to its end."""
        ran = self.start(project, script=script)
        said, _ = ran.communicate(timeout=600)
        assert ran.returncode == 0, said

    def kill(self) -> None:
        """Ends all processes at once."""
        for process in (self._process, self._run):
            if process is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
        self._process = self._run = None


def copied(name: str, scratch: Path, **configuration: str) -> Path:
    """A copy of an example with this configuration, which overrides names that it has."""
    project = scratch / name
    (project / "transformations").mkdir(parents=True, exist_ok=True)
    source = EXAMPLES / name
    for file in (source / "transformations").glob("*.py"):
        (project / "transformations" / file.name).write_text(file.read_text())
    spec = (source / "spark-pipeline.yml").read_text()
    lines = {f"  magnetar.{name}": value for name, value in configuration.items()}
    for key, value in {**lines, "storage": (scratch / "storage" / name).as_uri()}.items():
        (line,) = re.findall(rf"^{re.escape(key)}: .*$", spec, re.MULTILINE)
        spec = spec.replace(line, f"{key}: {json.dumps(value)}")
    (project / "spark-pipeline.yml").write_text(spec)
    return project
