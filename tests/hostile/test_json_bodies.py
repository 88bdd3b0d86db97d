"""Large lists of ids in a request to skip hold nobody up."""

import json
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from hostile.asker import LONG, Asker
from hostile.limited import limited
from hostile.probe import MEMORY_BYTES, Probe
from hostile.test_watchers import ADMIN, ask
from support.broker_process import BrokerProcess

from magnetar.protocol import pulsar_pb2 as pb

SIZE = (14 << 20) if LONG else (2 << 20)

ELEMENTS = {
    "numbers": b"0",
    "nothing": b"{}",
    "ids": b'{"ledgerId": 1234567890123, "entryId": 1}',
    "base64": b'"CAUQAg=="',
    "lists": b"[[],[]]",
}


def post(broker: BrokerProcess, path: str, body: bytes) -> tuple[int, str]:
    request = urllib.request.Request(f"{broker.http_url}/{path}", body, method="POST")
    request.add_header("content-type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())["reason"]


@pytest.mark.parametrize("element", list(ELEMENTS))
def test_long_lists_of_ids(tmp_path: Path, element: str) -> None:
    one = ELEMENTS[element]
    ids = b",".join([one] * (SIZE // (len(one) + 1)))
    kind = b"byteArray" if element == "base64" else b"messageId"
    body = b'{"type": "%b", "messageIds": [%b]}' % (kind, ids)
    command = limited(memory_bytes=MEMORY_BYTES)
    with BrokerProcess(tmp_path, command=command) as broker:
        ask(broker, "PUT", f"{ADMIN}/t")
        ask(broker, "PUT", f"{ADMIN}/t/subscription/s")
        with Probe(broker) as probe:
            status, reason = post(broker, f"{ADMIN}/t/subscription/s/skipByMessageIds", body)
            assert 400 <= status < 500, reason
        probe.check()
        with Asker(broker.url) as after:
            assert after.ask([pb.CommandLookupTopic(topic="t", request_id=1)])
