"""The archive as a job that spark-submit starts; test_projects has declarative pipelines."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from pyspark.sql import SparkSession
from support.broker_process import BrokerProcess
from support.java import find_java
from support.spark_cluster import BRIEF_JVM
from support.tables import path_of

EXAMPLES = Path(__file__).parents[3] / "examples"
Publish = Callable[..., None]


def texts(count: int) -> list[str]:
    return [f"v{i}" for i in range(count)]


def backlog(rest: httpx.Client, topic: str) -> int:
    stats = rest.get(f"{path_of(topic)}/stats").raise_for_status().json()
    found: int = stats["subscriptions"]["archive"]["msgBacklogMessages"]
    return found


def run(command: list[str], directory: Path) -> None:
    """A command of PySpark's, with this interpreter for its workers."""
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYSPARK_GATEWAY_PORT"},
        "JAVA_HOME": str(find_java()),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(directory),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    ran = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, timeout=600
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def values(spark: SparkSession, path: Path) -> list[str]:
    rows = spark.read.parquet(str(path)).select("value").collect()
    return sorted(row.value.decode() for row in rows)


@pytest.fixture
def scratch(spark: SparkSession, tmp_path: Path) -> Path:
    """A directory, where there is a Java."""
    return tmp_path


def test_spark_submit(
    spark: SparkSession,
    broker: BrokerProcess,
    publish: Publish,
    topic: str,
    rest: httpx.Client,
    scratch: Path,
) -> None:
    publish(topic, texts(40), batch=7)
    submit = ["spark-submit", "--master", "local[2]", "--driver-memory", "1g"]
    submit += ["--driver-java-options", BRIEF_JVM]
    conf = ["--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.log.level=ERROR"]
    at = ["--url", broker.url, "--admin-url", broker.http_url]
    archive = ["archive", "--topic", topic, "--subscription", "archive", "--to", "out"]
    run(
        [*submit, *conf, str(EXAMPLES / "spark" / "pipeline.py"), *at, "pipeline", *archive],
        scratch,
    )
    assert values(spark, scratch / "out") == sorted(texts(40))
    assert backlog(rest, topic) == 0
