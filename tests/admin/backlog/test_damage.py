"""A damaged entry over REST: where it is, and how it is passed."""

from collections.abc import Callable

import httpx
from cli.broker_cli import BrokerCli
from support.served import Served
from support.waiting import wait_until

import magnetar
from magnetar.broker.setting.settings import BrokerSettings
from magnetar.storage import MemoryDisk

TOPIC = "public/default/damaged"
DAMAGED = "pulsar_subscription_damaged"
SUBSCRIPTION = f"/persistent/{TOPIC}/subscription/s"


def damage(served: Served, entry_id: int) -> str:
    """Flips a bit of an entry of the only topic; its position."""
    store = served.broker.store
    (ledger,) = store.log.state.ledgers.values()
    address = ledger.index.address(entry_id)
    disk = store.log.disk
    assert isinstance(disk, MemoryDisk)
    disk.files[f"journal/{address >> 32:08x}.log"][(address & 0xFFFFFFFF) + 41] ^= 1
    return f"{ledger.id}:{entry_id}"


def figures(served: Served) -> dict[str, object]:
    found: dict[str, object] = served.http.get(f"/persistent/{TOPIC}/stats").json()["subscriptions"]
    assert isinstance(found["s"], dict)
    return found["s"]


def test_a_damaged_entry_is_shown_and_skipped(
    own_broker: Callable[[BrokerSettings], Served],
) -> None:
    served = own_broker(BrokerSettings(cache_bytes=0))
    served.http.put(SUBSCRIPTION, json="earliest")
    with magnetar.Client(served.url) as client:
        producer = client.create_producer(f"persistent://{TOPIC}", batching_enabled=False)
        for text in (b"a", b"b", b"c"):
            producer.send(text)
        position = served.call(lambda: damage(served, 1))
        consumer = client.subscribe(f"persistent://{TOPIC}", "s")
        assert consumer.receive(timeout_millis=30_000).data() == b"a"
        wait_until(lambda: figures(served)["damagedPosition"] == position)
        assert "is damaged" in str(figures(served)["damagedReason"])
        metrics = httpx.get(f"{served.http_url}/metrics").text
        (line,) = [x for x in metrics.splitlines() if x.startswith(f"{DAMAGED}{{")]
        assert line.endswith(" 1")
        cli = BrokerCli(served.url, served.http_url)
        assert f"s is stuck at {position}: journal/" in cli.ok("topics", "stats", TOPIC)
        told = cli.ok("subscriptions", "skip-damaged", TOPIC, "-s", "s")
        assert told == f"skipped the damaged entry on s of {TOPIC}\n"
        assert consumer.receive(timeout_millis=30_000).data() == b"c"
        assert figures(served)["damagedPosition"] == ""
        assert figures(served)["damagedEntriesSkipped"] == 1
        again = served.http.post(f"{SUBSCRIPTION}/skipDamaged")
        assert again.status_code == 412
        assert "not stuck at a damaged entry" in again.json()["reason"]
        metrics = httpx.get(f"{served.http_url}/metrics").text
        assert "is stuck" not in cli.ok("topics", "stats", TOPIC)
        skipped = [x for x in metrics.splitlines() if x.startswith(f"{DAMAGED}_skipped_total{{")]
        assert [line[-2:] for line in skipped] == [" 1"]
