"""The pytest plugin as a project of somebody else's would use it, and the broker in it."""

import socket
import subprocess
import sys
import threading
from importlib.metadata import entry_points
from pathlib import Path

import httpx
import pytest

from magnetar import Client, MessageId
from magnetar.broker.setting.settings import BrokerSettings
from magnetar.errors import MagnetarError, UsageError
from magnetar.testing import EmbeddedBroker, pytest_plugin

# Named only where the package was installed without its entry point: twice would be an error.
INSTALLED = entry_points(group="pytest11", name="magnetar")
WITH_PLUGIN = () if INSTALLED else ("-p", "magnetar.testing.pytest_plugin")
RUN_S = 120

# A project of somebody else's: each file is one of the facts below.
PROJECT = {
    "test_client.py": """
def test_an_order_is_published(magnetar_broker, magnetar_client):
    topic = magnetar_broker.topic("orders")
    consumer = magnetar_client.subscribe(topic, "billing")
    magnetar_client.create_producer(topic).send(b"order 1")
    message = consumer.receive(timeout_millis=30_000)
    assert message.data() == b"order 1"
    consumer.acknowledge(message)
""",
    "test_scopes.py": """
seen = []

def test_first(magnetar_broker, magnetar_client):
    seen.append((magnetar_broker, magnetar_client))
    assert magnetar_broker.topic() != magnetar_broker.topic()

def test_second(magnetar_broker, magnetar_client):
    broker, client = seen[0]
    assert magnetar_broker is broker
    assert magnetar_client is not client
    try:
        client.create_producer("t")
    except Exception as error:
        assert "closed" in str(error)
    else:
        raise AssertionError("the first test's client is open")
""",
    "test_official.py": """
import pulsar

def test_they_talk(magnetar_broker, magnetar_client):
    topic = magnetar_broker.topic()
    consumer = magnetar_client.subscribe(topic, "s")
    official = pulsar.Client(magnetar_broker.url)
    official.create_producer(topic).send(b"hello")
    assert consumer.receive(30_000).data() == b"hello"
    official.close()
""",
}
WITHOUT_BROKER = """
import sys

def test_nothing_was_loaded():
    heavy = ("magnetar.broker", "magnetar.storage", "magnetar.admin", "magnetar.client.door")
    assert [name for name in heavy if name in sys.modules] == []
    assert "magnetar.testing.pytest_plugin" in sys.modules
"""


def run_pytest(directory: Path, *arguments: str) -> str:
    """What a pytest of its own says, where every warning is an error."""
    (directory / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    ran = subprocess.run(
        # As in pyproject.toml: a plugin of another tool would only make it begin later.
        [sys.executable, "-m", "pytest", "-p", "no:schemathesis", *WITH_PLUGIN, *arguments],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What a run of the whole project says of each of its tests."""
    directory = tmp_path_factory.mktemp("project")
    for name, text in PROJECT.items():
        (directory / name).write_text(text)
    return run_pytest(directory, "-q", "-rA")


def test_a_test_gets_a_client_of_a_broker(project: str) -> None:
    assert "PASSED test_client.py::test_an_order_is_published" in project


def test_the_broker_is_one_for_all_tests_and_the_client_is_new_in_each(project: str) -> None:
    assert "PASSED test_scopes.py::test_first" in project
    assert "PASSED test_scopes.py::test_second" in project


def test_the_official_client_uses_the_same_broker(project: str) -> None:
    assert "PASSED test_official.py::test_they_talk" in project


def test_a_run_that_wants_no_broker_loads_none(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(WITHOUT_BROKER)
    assert "1 passed" in run_pytest(tmp_path, "-q")


def test_the_fixtures_are_told_of(tmp_path: Path) -> None:
    told = run_pytest(tmp_path, "--fixtures", "-v")
    for name in pytest_plugin.__all__:
        assert name in told


# ---- The broker itself -------------------------------------------------------


def test_it_serves_until_it_is_stopped_and_leaves_no_thread() -> None:
    before = threading.active_count()
    with EmbeddedBroker() as broker:
        url = broker.url
        with Client(url) as client:
            client.create_producer(broker.topic()).send(b"m")
        assert httpx.get(f"{broker.http_url}/admin/v2/brokers/health", timeout=30).is_success
        assert broker.http_url == broker.http_url
    assert threading.active_count() == before
    host, _, port = url.removeprefix("pulsar://").partition(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=5)


def test_several_have_nothing_in_common() -> None:
    with EmbeddedBroker() as one, EmbeddedBroker() as other:
        assert one.url != other.url
        topic = "persistent://public/default/same"
        with Client(one.url) as client:
            client.create_producer(topic).send(b"here")
        with Client(other.url) as client:
            reader = client.create_reader(topic, MessageId.earliest)
            assert not reader.has_message_available()


def test_it_takes_settings() -> None:
    with (
        EmbeddedBroker(BrokerSettings(message_size_max=2000)) as broker,
        Client(broker.url) as client,
    ):
        producer = client.create_producer(broker.topic())
        with pytest.raises(MagnetarError, match="2000"):
            producer.send(b"x" * 3000)


def test_it_has_an_address_only_while_it_runs() -> None:
    broker = EmbeddedBroker()
    with pytest.raises(UsageError, match="not started"):
        _ = broker.url
    broker.stop()
    broker.start()
    with pytest.raises(UsageError, match="running"):
        broker.start()
    broker.stop()
    broker.stop()
    with pytest.raises(UsageError, match="stopped"):
        _ = broker.http_url
    with pytest.raises(UsageError, match="stopped"):
        broker.start()


def test_a_process_that_forgets_it_ends_all_the_same() -> None:
    program = """
from magnetar.testing import EmbeddedBroker
broker = EmbeddedBroker()
broker.start()
print(broker.url)
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=RUN_S, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("pulsar://127.0.0.1:")


def test_a_port_that_cannot_be_had_is_said_and_leaves_nothing() -> None:
    before = threading.active_count()
    broker = EmbeddedBroker(host="203.0.113.1")  # an address for documentation: nobody has it
    with pytest.raises(OSError, match=r"203\.0\.113\.1"):
        broker.start()
    assert threading.active_count() == before
