"""Every example runs, against a real broker, and does what it says."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from support.broker_process import BrokerProcess
from support.java import spark_environment
from support.program import load

import magnetar

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"

# What each example prints, to a broker that nobody else uses.
PRINTS = {
    "work_queue.py": [
        "done: resize to 640",
        "try 1: 'wide' is no width",
        "done: resize to 1280",
        "try 2: 'wide' is no width",
        "try 3: 'wide' is no width",
        "try 4: 'wide' is no width",
        'put aside: {"job": "resize", "width": "wide"}',
    ],
    "large_files.py": [
        "sent noise.bin: 12,582,912 bytes in 3 chunks",
        "received noise.bin: 12,582,912 bytes, intact",
    ],
    "scheduled_jobs.py": [
        "cancelled: remind of the invoice",
        "run: greet",
        "run: send the invoice",
        "run: close the books",
        "nothing else came",
    ],
    "lost_ack.py": [
        "auto_retry_acknowledgement=False",
        "a got 10 messages and acked them; the ACK was swallowed",
        "b joined; these keys are stuck: k2 k8",
        "the broker says: a holds 10, b holds 0",
        "after 40 s b has got: nothing",
        "the broker says: a holds 10, b holds 0",
        "a is closed: b gets 12 messages, 10 of them for the second time",
        "auto_retry_acknowledgement=True",
        "a got 10 messages and acked them; the ACK was swallowed",
        "b joined; these keys are stuck: k2 k8",
        "the broker says: a holds 10, b holds 0",
        "after 40 s b has got: k2 k8",
        "the broker says: a holds 0, b holds 0",
    ],
}
# Those that ask the broker's REST too.
REST = {"lost_ack.py", "scheduled_jobs.py"}
# Those that have a test of their own.
OTHERS = {"fastapi_app.py", "spark_to_parquet.py", "wire_tour.py", "worker.py"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker") / "data") as process:
        yield process


def run(name: str, *arguments: str) -> list[str]:
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout.splitlines()


def test_every_example_has_a_test() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == PRINTS.keys() | OTHERS


def test_the_page_about_lost_acks_shows_what_the_example_prints() -> None:
    page = ROOT / "docs" / "howto" / "find-a-lost-ack.md"
    assert "\n".join(PRINTS["lost_ack.py"]) in page.read_text()


@pytest.mark.parametrize("name", PRINTS)
def test_an_example_prints_what_it_did(name: str, broker: BrokerProcess) -> None:
    rest = [broker.http_url] if name in REST else []
    assert run(name, broker.url, *rest) == PRINTS[name]


def test_the_wire_tour_needs_no_broker() -> None:
    assert "deliver" in "\n".join(run("wire_tour.py"))


def test_files_of_ones_own_arrive(broker: BrokerProcess, tmp_path: Path) -> None:
    for name, size in (("a", 0), ("b", 6 << 20)):
        (tmp_path / name).write_bytes(bytes(size))
    assert run("large_files.py", broker.url, str(tmp_path / "a"), str(tmp_path / "b")) == [
        "sent a: 0 bytes in 1 chunks",
        "sent b: 6,291,456 bytes in 2 chunks",
        "received a: 0 bytes, intact",
        "received b: 6,291,456 bytes, intact",
    ]


def test_the_web_service_takes_orders_and_works_on_them(broker: BrokerProcess) -> None:
    app: FastAPI = load(EXAMPLES / "fastapi_app.py").make_app(broker.url)

    async def use() -> None:
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://web") as web,
        ):
            await app.state.producer.send(b"no order")  # by a program that does not check
            for amount in (3, 4):
                answer = await web.post("/orders", json={"customer": "alice", "amount": amount})
                assert answer.status_code == 202
                assert "id" in answer.json()
            refused = await web.post("/orders", json={"customer": "alice"})
            assert refused.status_code == 422
            deadline = time.monotonic() + 30
            while (await web.get("/customers/alice")).json() != {"total": 7}:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.01)  # else the worker beside it would never have its turn
            assert (await web.get("/customers/bob")).json() == {"total": 0}
            health = (await web.get("/health")).json()
            assert (health["running"], health["handled"], health["failed"] > 0) == (True, 2, True)

    asyncio.run(use())


def test_the_worker_handles_orders_until_it_is_told_to_end(broker: BrokerProcess) -> None:
    command = [sys.executable, str(EXAMPLES / "worker.py"), broker.url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as worker:
        assert worker.stdout is not None
        with magnetar.Client(broker.url) as client:
            producer = client.create_producer("billing-orders")
            for order in (
                b'{"customer": "alice", "amount": 3}',
                b'{"customer": "bob", "amount": 0}',
            ):
                producer.send(order)
            # Both lines come, in whichever order the two tasks have them.
            lines = sorted(worker.stdout.readline() for _ in range(2))
        assert lines == ["alice pays 3\n", "bob pays nothing?\n"]
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0
        assert worker.stdout.read() == "handled 1, failed 1\n"


def test_a_stream_goes_to_parquet_and_is_acked(broker: BrokerProcess, tmp_path: Path) -> None:
    environment = os.environ | spark_environment(tmp_path)
    lake = tmp_path / "lake"
    command = [sys.executable, str(EXAMPLES / "spark_to_parquet.py"), broker.url, str(lake)]
    # Spark has much to say on standard error.
    ran = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == ["rows: 1000, sensors: 10"]
    topic = f"{broker.http_url}/admin/v2/persistent/public/default/readings"
    stats = httpx.get(f"{topic}/stats").raise_for_status().json()
    assert stats["subscriptions"]["lake"]["msgBacklog"] == 0
