"""Backlogs over REST."""

from support.served import Served


def made(served: Served) -> str:
    topic = f"{served.namespace()}/t"
    served.http.put(f"/persistent/{topic}")
    served.http.put(f"/persistent/{topic}/subscription/s")
    return topic


def test_a_backlog_is_counted_from_any_position(served: Served) -> None:
    topic = made(served)
    path = f"/persistent/{topic}/subscription/s"
    empty = served.http.post(f"{path}/analyzeBacklog").json()
    assert (empty["entries"], empty["messages"], empty["firstMessageId"]) == (0, 0, None)
    batch = served.publish(topic, 5, batch=5)
    ids = served.publish(topic, 4)
    ledger = ids[0].ledger_id()
    named = [
        {"ledgerId": ledger, "entryId": 0, "batchIndex": 3},
        {"ledgerId": ledger, "entryId": 2},
    ]
    body = {"type": "messageId", "messageIds": named}
    assert served.http.post(f"{path}/skipByMessageIds", json=body).status_code == 204
    found = served.http.post(f"{path}/analyzeBacklog").json()
    assert (found["entries"], found["messages"], found["aborted"]) == (4, 7, False)
    assert found["filterAcceptedMessages"] == 7
    assert (found["firstMessageId"], found["lastMessageId"]) == (f"{ledger}:0", f"{ledger}:4")
    place = {"ledgerId": ledger, "entryId": batch[0].entry_id() + 1}
    found = served.http.post(f"{path}/analyzeBacklog", json=place).json()
    assert (found["entries"], found["messages"], found["firstMessageId"]) == (3, 3, f"{ledger}:1")
    assert served.http.post(f"{path}/analyzeBacklog", json=17).status_code == 400
    assert served.http.post(f"{path}x/analyzeBacklog").status_code == 404


def test_what_a_topic_stores_is_told(served: Served) -> None:
    topic = made(served)
    served.publish(topic, 3)
    found = served.http.get(f"/persistent/{topic}/backlog").json()
    assert (found["totalMessages"], found["messageBacklog"]) == (3, 3)
    assert found["storageSize"] == sum(one["size"] for one in found["dataLedgerDetails"]) > 0
    assert found["cursorDetails"]["s"]["cursorBacklog"] == 3
    assert found["topicName"] == f"persistent://{topic}"
    assert served.http.get(f"/persistent/{topic}x/backlog").status_code == 404


def test_messages_have_no_index(served: Served) -> None:
    topic = made(served)
    answer = served.http.get(f"/persistent/{topic}/getMessageIdByIndex?index=0")
    assert (answer.status_code, "by time" in answer.json()["reason"]) == (412, True)
    assert served.http.get(f"/persistent/{topic}/getMessageIdByIndex?index=x").status_code == 400
