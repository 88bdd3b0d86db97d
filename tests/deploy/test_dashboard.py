"""A real Prometheus scrapes a real broker, and every query of the dashboard has an answer."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pulsar
import yaml
from deploy.dashboard import queries
from support.broker_process import BrokerProcess
from support.ports import free_ports
from support.requirement import need
from support.waiting import wait_until

PROGRAM = shutil.which("prometheus")
HOW = "install Debian's package: apt-get install prometheus"
RULES = Path(__file__).parents[2] / "deploy" / "prometheus" / "alerts.yml"
BACKLOG = 'pulsar_subscription_back_log{subscription="nobody"}'


class Prometheus:
    """Asks a server."""

    def __init__(self, url: str) -> None:
        self.url = url

    def get(self, path: str, **query: str) -> Any:
        answer = httpx.get(f"{self.url}/api/v1/{path}", params=query, timeout=30)
        assert answer.status_code == 200, f"{query}: {answer.text}"
        return answer.json()["data"]

    def query(self, text: str) -> list[Any]:
        found: list[Any] = self.get("query", query=text)["result"]
        return found

    def alerts(self) -> set[str]:
        """Those that fire, or soon will."""
        return {one["labels"]["alertname"] for one in self.get("alerts")["alerts"]}

    def scrapes(self) -> int:
        """How many were taken."""
        found = self.query("sum_over_time(up[10m])")
        return int(found[0]["value"][1]) if found else 0


@contextmanager
def prometheus(folder: Path, target: str) -> Iterator[Prometheus]:
    """A server that scrapes the broker every second, with the rules that we offer."""
    need("prometheus", PROGRAM is not None, HOW)
    assert PROGRAM is not None
    folder.mkdir()
    shutil.copy(RULES, folder)
    settings = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [RULES.name],
        "scrape_configs": [{"job_name": "magnetar", "static_configs": [{"targets": [target]}]}],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(settings))
    [port] = free_ports(1)
    command = [
        PROGRAM,
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: is_ready(url), (folder / "log").read_text)
        yield Prometheus(url)
    finally:
        process.terminate()
        process.wait(30)


def is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/-/ready").status_code == 200
    except httpx.TransportError:
        return False


def use(url: str) -> None:
    """Some of everything: acks, parts of batches, deliveries again, a backlog of nobody."""
    client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    client.subscribe("left", "nobody").close()
    consumer = client.subscribe(
        "orders",
        "work",
        consumer_type=pulsar.ConsumerType.Shared,
        batch_index_ack_enabled=True,
        negative_ack_redelivery_delay_ms=10,
    )
    for topic in ("left", "orders"):
        producer = client.create_producer(
            topic, batching_enabled=True, batching_max_publish_delay_ms=1000
        )
        for number in range(20):
            producer.send_async(b"%d" % number, None)
        producer.flush()
    for number in range(20):
        message = consumer.receive(20_000)
        if number % 2:
            consumer.acknowledge(message)
    client.close()


def test_every_query_has_an_answer_and_a_backlog_outlives_a_restart(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "broker") as broker:
        use(broker.url)
        target = broker.http_url.removeprefix("http://")
        with prometheus(tmp_path / "prometheus", target) as server:
            wait_until(lambda: server.scrapes() >= 3)
            silent = [text for text in queries() if not server.query(text)]
            assert silent == []
            rules = [rule for group in server.get("rules")["groups"] for rule in group["rules"]]
            assert {rule["health"] for rule in rules} == {"ok"}
            [before] = server.query(BACKLOG)
            broker.stop()
            broker.restart()
            # What is of this life of the process, and of the same topic, which nobody has opened.
            started = f"{BACKLOG} and on() process_start_time_seconds > {before['value'][0]}"
            wait_until(lambda: len(server.query(started)) == 1)
            [after] = server.query(BACKLOG)
            assert after["value"][1] == before["value"][1] == "1"
            assert server.query("pulsar_broker_topics_loaded")[0]["value"][1] == "0"
            # With the next look at the rules.
            wait_until(lambda: "MagnetarNobodyConsumes" in server.alerts())
