"""A damaged data directory starts with everything, says what is missing, or does not start.

The table of what comes of what is in docs/internals/storage.md, and is checked here.
"""

import json
import shutil
import urllib.request
from collections import defaultdict
from pathlib import Path

import pytest
from hostile.asker import LONG
from hostile.damaged_directory import KINDS, WAYS, Contents, Damage, damages, judge, look
from hostile.limited import limited
from hostile.probe import MEMORY_BYTES, Probe
from support.broker_process import BrokerProcess
from support.waiting import wait_until

import magnetar
from magnetar.schema import AvroSchema, BytesSchema, Record, Schema, String

STATES = ["stopped", "killed"]
READERS = 10 if LONG else 2
TOPICS = ("orders", "quiet")
DOCS = Path(__file__).parents[2] / "docs" / "internals" / "storage.md"
# What a start may come to. In the short form only some of it is seen.
OUTCOMES = ("whole", "told", "refused")


PRICES = "persistent/public/default/prices"
# Left open on purpose, which a transaction that is garbage would not be.
OPEN: list[magnetar.Transaction] = []


class Order(Record):
    number = String()


def ask(broker: BrokerProcess, method: str, path: str, body: object = None) -> None:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{broker.http_url}/admin/v2/{path}", data, method=method)
    request.add_header("content-type", "application/json")
    urllib.request.urlopen(request, timeout=20).close()


def told(broker: BrokerProcess, path: str) -> str:
    with urllib.request.urlopen(f"{broker.http_url}/admin/v2/{path}", timeout=20) as answer:
        return str(answer.read().decode())


def fill(broker: BrokerProcess, tenant: str) -> None:
    """Messages, acks, partly acked batches, views, transactions, policies, schemas, permissions."""
    ask(broker, "PUT", f"tenants/{tenant}", {"allowedClusters": ["standalone"]})
    ask(broker, "POST", "namespaces/public/default/permissions/guest", ["produce"])
    ask(broker, "POST", "namespaces/public/default/messageTTL", 86400)
    with magnetar.Client(broker.url) as client:
        for topic in TOPICS:
            consumer = client.subscribe(topic, "s", magnetar.ConsumerType.Shared)
            plain = topic == "orders"
            schema: Schema = BytesSchema() if plain else AvroSchema(Order)
            producer = client.create_producer(topic, schema=schema, batching_enabled=True)
            for number in range(40 if plain else 5):
                body = f"{number} ".ljust(9000)
                for index in range(4):
                    text = f"{index} {body}"
                    one = text.encode() if plain else Order(number=text)
                    producer.send_async(one, lambda result, id: None)
                producer.flush()
            for number in range(20):
                message = consumer.receive(30_000)
                if number % 3:
                    consumer.acknowledge(message)
        compact(broker, client)
        transact(client)


def compact(broker: BrokerProcess, client: magnetar.Client) -> None:
    """A topic of which a view is kept, and newer messages that are not in it."""
    for number in range(30):
        producer = client.create_producer("prices")
        producer.send(f"{number} ".ljust(3000).encode(), partition_key=f"key {number % 7}")
        if number == 25:
            ask(broker, "PUT", f"{PRICES}/compaction")
            wait_until(lambda: '"SUCCESS"' in told(broker, f"{PRICES}/compaction"))


def transact(client: magnetar.Client) -> None:
    """A transaction that was committed, one that was aborted, and one that stays open."""
    consumer = client.subscribe("paid", "s", magnetar.ConsumerType.Shared)
    producer = client.create_producer("paid")
    for _ in range(6):
        producer.send(b"before".ljust(2000))
    for end in ("commit", "abort", "", "commit"):
        transaction = client.transaction(timeout=3600)
        producer.send(f"{end} ".ljust(2000).encode(), transaction=transaction)
        consumer.acknowledge(consumer.receive(30_000), transaction=transaction)
        if end:
            getattr(transaction, end)()
        else:
            OPEN.append(transaction)


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Contents]]:
    """A directory as a stop and as kill -9 leaves it, and all that is in it."""
    path = tmp_path_factory.mktemp("directories")
    options = ["--set", "segment_bytes=1048576", "--set", "ledger_entries_max=10"]
    options += ["--set", "transactions=true"]
    with BrokerProcess(path / "running", options=options) as broker:
        fill(broker, "acme")
        broker.restart()
        fill(broker, "others")
        broker.kill()
        shutil.copytree(path / "running", path / "killed")
        broker.restart()
    (path / "running").rename(path / "stopped")
    found: dict[str, tuple[Path, Contents]] = {}
    for state in STATES:
        shutil.copytree(path / state, path / "looked-at")
        found[state] = (path / state, look(path / "looked-at"))
        shutil.rmtree(path / "looked-at")
        whole = found[state][1]
        assert whole.told == []
        assert len(whole.views) == 2
        # Each filling left one open; the others ended.
        ends = [one for one in whole.transactions.values() if one.startswith("ended")]
        assert len(ends) == 6
        assert len(whole.transactions) == 8
    return found


def chosen() -> list[Damage]:
    """All of them, or one way for each kind of file in turn."""
    every = damages(STATES, 3 if LONG else 1)
    return every if LONG else every[::5]


def test_no_damaged_directory_starts_with_silently_less(
    directories: dict[str, tuple[Path, Contents]], tmp_path: Path
) -> None:
    outcomes: dict[tuple[str, str], set[str]] = defaultdict(set)
    wrong: list[str] = []
    count = 0
    for damage in chosen():
        original, whole = directories[damage.state]
        outcome = judge(original, whole, damage, tmp_path)
        if not outcome:
            continue
        count += 1
        outcomes[damage.kind, damage.way].add(outcome)
        if outcome not in OUTCOMES:
            wrong.append(f"{damage}: {outcome}")
    assert wrong == []
    assert count >= (100 if LONG else 25)
    assert_in_table(outcomes)


def table() -> dict[tuple[str, str], set[str]]:
    """What the document says, by kind of file and way of damage."""
    lines = DOCS.read_text().split("<!-- damage -->")[1].strip().splitlines()
    ways = [way.strip() for way in lines[0].strip("|").split("|")][1:]
    assert ways == list(WAYS)
    out: dict[tuple[str, str], set[str]] = {}
    for line in lines[2:]:
        kind, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        for way, cell in zip(ways, cells, strict=True):
            out[kind, way] = set() if cell == "-" else set(cell.split(", "))
    assert {kind for kind, _ in out} == set(KINDS)
    return out


def assert_in_table(outcomes: dict[tuple[str, str], set[str]]) -> None:
    promised = table()
    for place, found in outcomes.items():
        assert found <= promised[place], f"{place}: {found}, and the document has {promised[place]}"


# ---- By a process of its own -------------------------------------------------------


def copied(directories: dict[str, tuple[Path, Contents]], state: str, tmp_path: Path) -> Path:
    shutil.copytree(directories[state][0], tmp_path / "data")
    return tmp_path / "data"


def test_a_directory_that_lost_its_format_is_not_taken_for_a_new_one(
    directories: dict[str, tuple[Path, Contents]], tmp_path: Path
) -> None:
    data = copied(directories, "stopped", tmp_path)
    (data / "FORMAT").unlink()
    with (
        pytest.raises(AssertionError, match="ended with 2") as refused,
        BrokerProcess(data),
    ):
        pass
    assert "FORMAT at byte 0: the file is missing, though there is a journal" in str(refused.value)
    assert "restore the directory from a backup" in str(refused.value)
    assert not (data / "FORMAT").exists()


def test_a_broker_says_that_the_end_of_its_log_may_be_missing(
    directories: dict[str, tuple[Path, Contents]], tmp_path: Path
) -> None:
    data = copied(directories, "killed", tmp_path)
    last = sorted((data / "journal").glob("*.log"))[-1]
    content = last.read_bytes()
    last.write_bytes(content[: len(content.rstrip(b"\0")) + 100])
    command = limited(memory_bytes=MEMORY_BYTES)
    with BrokerProcess(data, command=command) as broker, Probe(broker) as probe:
        assert "the end of the log may be missing: journal/" in broker.stderr
        assert "its end is lost" in broker.stderr
        # What is left is there, for everybody who asks, and others are served all the while.
        with magnetar.Client(broker.url) as client:
            for number in range(READERS):
                reader = client.create_reader("orders", magnetar.MessageId.earliest)
                count = 0
                while reader.has_message_available():
                    text = reader.read_next(30_000).data().split()
                    assert text[0].isdigit(), f"reader {number} got {text!r}"
                    count += 1
                assert count > 0
                reader.close()
    probe.check()
