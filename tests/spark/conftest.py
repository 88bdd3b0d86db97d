"""One Spark and one broker for all tests of the connector; topics and checkpoints are each test's.

Spark needs Java: without one these tests are skipped with the reason, or fail where
MAGNETAR_REQUIRE names `spark`.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from support.broker_process import BrokerProcess
from support.java import find_java
from support.requirement import need
from support.tables import SMALL_LEDGER, Tables
from support.tokens import SECRET_SETTING, token

import magnetar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_numbers = count()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    home = find_java()
    need("spark", home is not None, "Spark needs Java 17: python tools/find_java.py --install")
    os.environ["JAVA_HOME"] = str(home)
    # Workers must have what this interpreter has.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    from pyspark.sql import SparkSession

    scratch = tmp_path_factory.mktemp("spark")
    session = (
        SparkSession.builder.master("local[2]")
        .appName("magnetar-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        # It is gone before a better compiler would pay.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.pollingDelay", "20ms")
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .config("spark.local.dir", str(scratch / "local"))
        .config("spark.log.level", "OFF")
        .getOrCreate()
    )
    yield session
    session.stop()
    _end_jvm()


def _end_jvm() -> None:
    """Ends the JVM that PySpark started, which else would outlive the tests by a moment."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    assert gateway is not None
    SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    process = gateway.proc
    # It goes when nobody is left to write to it.
    process.stdin.close()
    process.wait(60)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    # On a busy machine a topic may wait for Spark longer than an idle one lives, or its ledgers.
    settings = (
        f"ledger_entries_max={SMALL_LEDGER}",
        "delete_inactive_topics=false",
        "retention_minutes=-1",
        "retention_mb=-1",
        "transactions=true",
    )
    options = [word for setting in settings for word in ("--set", setting)]
    with BrokerProcess(tmp_path_factory.mktemp("broker") / "data", options=options) as process:
        yield process


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that asks for tokens: `root` may all, `reader` may consume, `nobody` nothing.

    There is one message, v0, in the topic `guarded`.
    """
    from magnetar.spark.connect import drop_clients

    options = ["--set", "authentication=true", "--set", f"token_secret_key={SECRET_SETTING}"]
    options += ["--set", "super_user_roles=root", "--set", "delete_inactive_topics=false"]
    with BrokerProcess(tmp_path_factory.mktemp("guarded") / "data", options=options) as process:
        headers = {"Authorization": f"Bearer {token('root')}"}
        namespace = f"{process.http_url}/admin/v2/namespaces/public/default"
        grant = f"{namespace}/permissions/reader"
        httpx.post(grant, json=["consume"], headers=headers).raise_for_status()
        with magnetar.Client(
            process.url, authentication=magnetar.AuthenticationToken(token("root"))
        ) as client:
            client.create_producer("guarded").send(b"v0")
        yield process
        drop_clients()


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[magnetar.Client]:
    client = magnetar.Client(broker.url, stats_interval_in_seconds=0)
    yield client
    client.close()


@pytest.fixture
def topic() -> str:
    """A topic that no other test has."""
    return f"persistent://public/default/spark-{next(_numbers)}"


@pytest.fixture
def publish(client: magnetar.Client) -> Callable[..., None]:
    """Publishes texts to a topic, in batches of a size."""

    def publish(topic: str, texts: list[str], *, batch: int = 1, **options: Any) -> None:
        producer = client.create_producer(
            topic,
            batching_enabled=batch > 1,
            batching_max_messages=max(batch, 2),
            batching_max_publish_delay_ms=60_000,
            block_if_queue_full=True,
        )
        for text in texts:
            producer.send_async(text.encode(), lambda result, id: None, **options)
        producer.flush()
        producer.close()

    return publish


@pytest.fixture
def options(broker: BrokerProcess, topic: str) -> dict[str, str]:
    return {"serviceUrl": broker.url, "adminUrl": broker.http_url, "topic": topic}


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoint")


@pytest.fixture
def tables(options: dict[str, str]) -> Iterator[Tables]:
    from magnetar.spark.connect import drop_clients

    before = signal.getsignal(signal.SIGTERM)
    yield Tables(options)
    drop_clients()
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def rest(broker: BrokerProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"{broker.http_url}/admin/v2", timeout=30) as http:
        yield http
