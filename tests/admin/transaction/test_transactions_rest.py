"""Transactions over REST: what is open, where it stands, how it ended, and aborts."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from support.served import Served
from support.wire_client import Shared
from support.wire_transaction import WireTransaction
from support.world import World

import magnetar
from magnetar.broker.setting.settings import BrokerSettings
from magnetar.errors import InvalidTxnStatusError
from magnetar.model.message_id_data import MessageIdData

X = "/admin/v3/transactions"


def get(served: Served, path: str, status: int = 200) -> Any:
    answer = served.http.get(f"{served.http_url}{X}/{path}")
    assert answer.status_code == status, answer.text
    return answer.json()


def abort(served: Served, number: int, coordinator: int = 0) -> httpx.Response:
    return served.http.post(f"{served.http_url}{X}/abortTransaction/{coordinator}/{number}")


def number_of(txn: Any) -> int:
    return int(txn.id.strip("()").partition(",")[2])


@contextmanager
def busy(served: Served, topic: str) -> Iterator[tuple[Any, Any, Any, Any]]:
    """A client with a consumer that has two messages of a batch of three, and a transaction."""
    with magnetar.Client(served.url) as client:
        consumer = client.subscribe(
            topic, "billing", magnetar.ConsumerType.Shared, ack_receipt_enabled=True
        )
        producer = client.create_producer(
            topic, batching_enabled=True, batching_max_publish_delay_ms=60_000
        )
        for text in (b"a", b"b", b"c"):
            producer.send_async(text, None)
        producer.flush()
        got = [consumer.receive(30_000) for _ in range(3)]
        txn = client.transaction(timeout=60)
        yield client, consumer, got, txn


def test_what_a_transaction_does_is_seen_where_it_does_it(served: Served, topic: str) -> None:
    full = f"persistent://{topic}"
    with busy(served, full) as (client, consumer, got, txn):
        consumer.acknowledge(got[1], transaction=txn)
        bills = client.create_producer(f"{full}-bills")
        bills.send(b"bill", transaction=txn)
        number = number_of(txn)
        found = get(served, f"transactionMetadata/0/{number}")
        assert found["txnId"] == f"(0,{number})"
        assert found["status"] == "OPEN"
        assert found["timeoutAt"] == 60_000
        assert found["openTimestamp"] > 0 == found["endTimestamp"]
        assert (found["entries"], found["acks"]) == (1, 1)
        start = found["producedPartitions"][f"{full}-bills"]["startPosition"]
        assert found["ackedPartitions"] == {full: {"billing": {"cumulativeAckPosition": None}}}
        assert get(served, "slowTransactions/0")[f"(0,{number})"] == found
        assert f"(0,{number})" not in get(served, "slowTransactions/3600000")
        assert get(served, f"transactionInBufferStats/{topic}-bills/0/{number}") == {
            "startPosition": start,
            "aborted": False,
        }
        buffer = get(served, f"transactionBufferStats/{topic}-bills?lowWaterMarks=true")
        assert (buffer["state"], buffer["ongoingTxnSize"]) == ("Ready", 1)
        assert buffer["lowWaterMarks"] == {"0": number - 1}
        pending = get(served, f"pendingAckStats/{topic}/billing?lowWaterMarks=true")
        assert (pending["state"], pending["ongoingTxnSize"]) == ("Ready", 1)
        get(served, f"transactionInPendingAckStats/{topic}/billing/0/{number}")
        id = got[1].message_id()
        at = f"positionStatsInPendingAck/{topic}/billing/{id.ledger_id()}/{id.entry_id()}"
        consumer.acknowledge(got[2])
        states = [get(served, f"{at}?batchIndex={index}")["state"] for index in range(3)]
        assert states == ["NotInPendingAck", "PendingAck", "MarkDelete"]
        get(served, f"{at}?batchIndex=3", 400)
        beyond = f"{id.ledger_id()}/{id.entry_id() + 1}"
        beyond_path = f"positionStatsInPendingAck/{topic}/billing/{beyond}"
        assert get(served, beyond_path)["state"] == "InvalidPosition"
        txn.commit()
        assert get(served, f"{at}?batchIndex=1")["state"] == "MarkDelete"
        ended = get(served, f"transactionMetadata/0/{number}")
        assert ended["status"] == "COMMITTED"
        assert ended["endTimestamp"] >= found["openTimestamp"]
        assert f"(0,{number})" not in get(served, "slowTransactions/0")
        get(served, f"transactionInPendingAckStats/{topic}/billing/0/{number}", 404)


def test_stats_of_a_topic_say_how_far_it_may_be_read(served: Served, topic: str) -> None:
    def stats() -> tuple[list[int], str, str, int]:
        at = f"/persistent/{topic}"
        found = served.http.get(f"{at}/stats").json()
        below = served.http.get(f"{at}/internalStats").json()
        counts = [found[f"{name}TxnCount"] for name in ("ongoing", "committed", "aborted")]
        positions = [below[name].rpartition(":")[2] for name in LAST]
        return counts, *positions, below["numberOfEntries"]

    LAST = ("maxReadPosition", "lastConfirmedEntry")
    with magnetar.Client(served.url) as client:
        producer = client.create_producer(f"persistent://{topic}")
        producer.send(b"before")
        one, other = client.transaction(), client.transaction()
        producer.send(b"in one", transaction=one)
        producer.send(b"in other", transaction=other)
        assert stats() == ([2, 0, 0], "0", "2", 3)
        one.commit()
        assert stats() == ([1, 1, 0], "1", "2", 3)
        other.abort()
        assert stats() == ([0, 1, 1], "2", "2", 3)


def test_entries_that_were_aborted_are_told_from_those_that_are_lost(
    served: Served, topic: str
) -> None:
    full = f"persistent://{topic}"
    with magnetar.Client(served.url) as client:
        producer = client.create_producer(full)
        client.subscribe(full, "keeps").close()
        id = producer.send(b"before")
        for ends in ("abort", "commit", "abort"):
            txn = client.transaction()
            producer.send(b"m", transaction=txn)
            getattr(txn, ends)()
        place = f"abortedEntries/{topic}/{id.ledger_id()}"
        first = id.entry_id()
        assert get(served, f"{place}/{first}?end={first + 4}") == {"aborted": 2}
        assert get(served, f"{place}/{first + 1}") == {"aborted": 1}
        assert get(served, f"{place}/{first + 2}?end={first + 3}") == {"aborted": 0}
        assert get(served, f"{place}/{first + 3}?end={first}") == {"aborted": 0}
        # A ledger of another topic, or of none.
        assert get(served, f"abortedEntries/{topic}/1/0?end=9") == {"aborted": 0}


def test_an_operator_aborts_a_transaction_and_its_client_is_told(
    served: Served, topic: str
) -> None:
    full = f"persistent://{topic}"
    with busy(served, full) as (client, consumer, got, txn):
        consumer.acknowledge(got[0], transaction=txn)
        client.create_producer(f"{full}-bills").send(b"bill", transaction=txn)
        number = number_of(txn)
        assert abort(served, number).status_code == 204
        assert get(served, f"transactionMetadata/0/{number}")["status"] == "ABORTED"
        buffer = get(served, f"transactionInBufferStats/{topic}-bills/0/{number}")
        assert buffer == {"startPosition": None, "aborted": True}
        assert abort(served, number).status_code == 204  # it is what was asked for
        with pytest.raises(InvalidTxnStatusError):
            txn.commit()
        # The batch comes again with what was not acked of it, which is all.
        assert consumer.receive(30_000).data() == b"a"


def test_what_was_committed_cannot_be_aborted(served: Served) -> None:
    with magnetar.Client(served.url) as client:
        txn = client.transaction()
        txn.commit()
        answer = abort(served, number_of(txn))
    assert answer.status_code == 409
    assert "was committed" in answer.json()["reason"]


def test_a_cumulative_ack_says_how_far_it_goes(served: Served, topic: str) -> None:
    full = f"persistent://{topic}"
    with magnetar.Client(served.url) as client:
        consumer = client.subscribe(full, "s", ack_receipt_enabled=True)
        ids = [client.create_producer(full).send(b"x") for _ in range(3)]
        for _ in ids:
            last = consumer.receive(30_000)
        txn = client.transaction()
        consumer.acknowledge_cumulative(last, transaction=txn)
        number = number_of(txn)
        found = get(served, f"transactionInPendingAckStats/{topic}/s/0/{number}")
        place = f"{ids[2].ledger_id()}:{ids[2].entry_id()}"
        assert found == {"cumulativeAckPosition": place}
        state = f"positionStatsInPendingAck/{topic}/s/{ids[0].ledger_id()}/{ids[0].entry_id()}"
        assert get(served, state) == {"state": "PendingAck"}
        txn.abort()
        assert get(served, state) == {"state": "NotInPendingAck"}


def test_the_coordinator_tells_of_itself(served: Served) -> None:
    assert get(served, "coordinators") == [{"id": 0, "brokerServiceUrl": served.url}]
    with magnetar.Client(served.url) as client:
        before = get(served, "coordinatorStats?coordinatorId=0")
        txn = client.transaction()
        after = get(served, "coordinatorStats")["0"]
        assert after["ongoingTxnSize"] == before["ongoingTxnSize"] + 1
        assert after["leastSigBits"] == number_of(txn) > after["lowWaterMark"]
        txn.abort()
    assert "no coordinator 1" in get(served, "coordinatorStats?coordinatorId=1", 404)["reason"]
    assert "no coordinator 1" in get(served, "slowTransactions/0?coordinatorId=1", 404)["reason"]
    assert "no coordinator 1" in get(served, "transactionMetadata/1/5", 404)["reason"]
    assert abort(served, 5, coordinator=1).status_code == 404


def test_a_broker_without_transactions_says_so(own_broker: Any) -> None:
    served = own_broker(BrokerSettings())
    assert served.http.put("/persistent/public/default/t").status_code == 204
    for path in ("coordinators", "slowTransactions/0", "transactionMetadata/0/1"):
        assert "no transactions" in get(served, path, 503)["reason"]
    path = "transactionBufferStats/public/default/t"
    assert "no transactions" in get(served, path, 503)["reason"]
    assert abort(served, 1).status_code == 503


def test_what_is_open_is_told_of_after_a_crash_before_its_topics_are_loaded() -> None:
    """The coordinator knows topics and subscriptions from the log."""
    world = World(transactions=True)
    client = world.connect()
    producer = client.producer("t")
    consumer = client.subscribe("t", "s", Shared)
    consumer.flow(10)
    producer.send("in")
    txn = WireTransaction(client)
    txn.acked(consumer, consumer.one())
    position = txn.send(producer, "out")
    world.crash()
    transactions = world.broker.transactions
    (found,) = transactions.open.values()
    name = "persistent://public/default/t"
    assert found.topics == {name}
    assert found.subscriptions == {(name, "s")}
    assert not world.broker.topics
    (first,) = transactions.first_entries(txn.number).values()
    assert isinstance(position, MessageIdData)
    assert (first.ledger_id, first.entry_id) == (position.ledger_id, position.entry_id)
    assert transactions.first_entries(txn.number + 1) == {}
    world.close()
