"""The ack state over REST: mark-delete, holes and what is left of batches."""

import pulsar
from hypothesis import given
from hypothesis import strategies as st
from support.served import Served

from magnetar.ack import BatchSizes, Cursor, Ledgers
from magnetar.admin.backlog.ack_state import holes_and_batches
from magnetar.model import Position
from magnetar.model.message_id_data import MessageIdData


def path(topic: str, what: str) -> str:
    return f"/persistent/{topic}/subscription/s/{what}"


def test_holes_and_partly_acked_batches_are_shown(served: Served) -> None:
    topic = f"{served.namespace()}/t"
    served.http.put(f"/persistent/{topic}")
    served.http.put(f"/persistent/{topic}/subscription/s")
    batch = served.publish(topic, 5, batch=5)
    ids = served.publish(topic, 6)
    ledger = ids[0].ledger_id()
    state = served.http.get(path(topic, "ackState")).json()
    assert (state["holes"], state["batches"], state["next"]) == ([], [], None)
    assert (state["msgBacklog"], state["msgBacklogMessages"]) == (7, 11)
    named = [{"ledgerId": ledger, "entryId": i.entry_id()} for i in (ids[1], ids[4])]
    named += [
        {"ledgerId": ledger, "entryId": batch[0].entry_id(), "batchIndex": i} for i in (0, 2, 3)
    ]
    body = {"type": "messageId", "messageIds": named}
    assert served.http.post(path(topic, "skipByMessageIds"), json=body).status_code == 204
    state = served.http.get(path(topic, "ackState")).json()
    assert state.pop("markDeletePosition").endswith(":-1")
    assert state == {
        "lastPosition": f"{ledger}:6",
        "lastAckedPosition": f"{ledger}:5",
        "epoch": 0,
        "msgBacklog": 5,
        "msgBacklogMessages": 6,
        "ackedRanges": 2,
        "partiallyAckedBatches": 1,
        "holes": [
            {"first": f"{ledger}:0", "last": f"{ledger}:1"},
            {"first": f"{ledger}:3", "last": f"{ledger}:4"},
        ],
        "batches": [{"position": f"{ledger}:0", "batchSize": 5, "remaining": [1, 4]}],
        "next": None,
    }
    page = served.http.get(path(topic, "ackState?limit=1")).json()
    assert (len(page["holes"]), page["next"]) == (1, f"{ledger}:3")
    page = served.http.get(path(topic, f"ackState?limit=1&from={page['next']}")).json()
    assert (page["holes"], page["next"]) == (state["holes"][1:], None)


def test_what_was_redelivered_most_is_shown(served: Served) -> None:
    topic = f"{served.namespace()}/t"
    served.http.put(f"/persistent/{topic}")
    with served.client() as client:
        consumer = client.subscribe(
            topic,
            "s",
            pulsar.ConsumerType.Shared,
            negative_ack_redelivery_delay_ms=1,
        )
        ids = [f"{id.ledger_id()}:{id.entry_id()}" for id in served.publish(topic, 3)]
        counts = dict.fromkeys(ids, 0)
        # The first is given back once, the second three times, the third never.
        while counts[ids[0]] < 2 or counts[ids[1]] < 4:
            message = consumer.receive(30_000)
            id = f"{message.message_id().ledger_id()}:{message.message_id().entry_id()}"
            counts[id] += 1
            if id != ids[2] and counts[id] < (2 if id == ids[0] else 4):
                consumer.negative_acknowledge(message)
        found = served.http.get(path(topic, "ackState?redelivered=9")).json()["redelivered"]
        assert found == [{"position": ids[1], "count": 3}, {"position": ids[0], "count": 1}]
        found = served.http.get(path(topic, "ackState?redelivered=1")).json()["redelivered"]
        assert found == [{"position": ids[1], "count": 3}]
        assert "redelivered" not in served.http.get(path(topic, "ackState")).json()


def test_a_page_that_is_none_is_refused(served: Served) -> None:
    topic = f"{served.namespace()}/t"
    served.http.put(f"/persistent/{topic}")
    served.http.put(f"/persistent/{topic}/subscription/s")
    for query in (
        "limit=0",
        "limit=10001",
        "limit=x",
        "redelivered=x",
        "from=5",
        "from=a:b",
        "from=1:2:3",
    ):
        assert served.http.get(path(topic, f"ackState?{query}")).status_code == 400, query
    assert served.http.get(path(topic, "ackState").replace("/s/", "/x/")).status_code == 404
    name = f"{served.namespace()}/n"
    assert served.http.put(f"/persistent/{name}/partitions", json=2).status_code == 204
    served.http.put(f"/persistent/{name}/subscription/s")
    assert served.http.get(path(name, "ackState")).status_code == 405
    assert served.http.get(path(f"{name}-partition-0", "ackState")).status_code == 200


class Threes(BatchSizes):
    """Every entry is a batch of three."""

    def batch_size(self, ledger_id: int, entry_id: int) -> int:
        return 3


ACKS = st.lists(st.tuples(st.sampled_from([5, 9]), st.integers(0, 19), st.integers(-1, 2)))


@given(ACKS, st.integers(1, 5))
def test_pages_together_have_everything_once(acks: list[tuple[int, int, int]], limit: int) -> None:
    ledgers = Ledgers(Threes())
    ledgers.add(5, 20)
    ledgers.add(9, 20)
    cursor = Cursor(ledgers, Position(5, -1))
    cursor.apply(cursor.plan_messages([MessageIdData(a, b, -1, c) for a, b, c in acks]))
    holes: list[tuple[int, int]] = []
    batches: list[tuple[Position, list[int]]] = []
    start: Position | None = cursor.mark_delete
    while start is not None:
        some, more, start = holes_and_batches(cursor, start, limit)
        assert len(some) <= limit
        assert len(more) <= limit
        for first, last in some:
            assert first.ledger_id == last.ledger_id
            holes += [(first.ledger_id, e) for e in range(first.entry_id, last.entry_id + 1)]
        batches += [(position, left) for position, _, left in more]
    end = cursor.last_touched()
    unacked = [position for position, _ in cursor.unacked() if end is not None and position <= end]
    assert holes == [(position.ledger_id, position.entry_id) for position in unacked]
    wanted = [(p, [i for i in range(3) if r >> i & 1]) for p, r, _ in cursor.partly_acked()]
    assert batches == wanted
