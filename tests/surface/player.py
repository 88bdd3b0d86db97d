"""Walks a broker, and tells of each answer what is the same at every run of it.

Of JSON the scalars are told, but for those that are of a moment or a machine (`VOLATILE`), of which
the type is. Of errors the reason is told, without names of Java's classes in front of it.
"""

import json
import time
from typing import Any, Final

import httpx
from surface.walk import Request, chapters

__all__ = ["Told", "play"]

# What was answered: the status, and a body as `_told` has it.
Told = dict[str, Any]

# Numbers and texts of a moment, a machine or a version.
VOLATILE: Final = frozenset(
    [
        "address",
        "addressUri",
        "brokerId",
        "brokerName",
        "bytesInCounter",
        "bytesOutCounter",
        "clientVersion",
        "connectedSince",
        "creationDate",
        "cursorLedger",
        "cursorLedgerLastEntry",
        "cursorLedgerId",
        "cursorsLedgerId",
        "earliestMsgPublishTimeInBacklog",
        "lastLedgerCreatedTimestamp",
        "lastLedgerSwitchTimestamp",
        "lastLedgerSwitchedTimestamp",
        "ledgerId",
        "modificationDate",
        "ownerBroker",
        "lastConfirmedEntry",
        "lastPublishTimeStamp",
        "markDeletePosition",
        "readPosition",
        "serviceUrl",
        "statGeneratedAt",
        "timestamp",
        "topicCreationTimeStamp",
        "topicCreationTime",
        "version",
        "brokerServiceUrl",
        "serviceUrlTls",
        "brokerServiceUrlTls",
        "lastMarkDeleteAdvancedTimestamp",
        "totalSize",
        "storageSize",
        "size",
        "currentLedgerSize",
        "backlogSize",
        "averageMsgSize",
        "msgRateIn",
        "msgThroughputIn",
        "oldestBacklogMessageAgeSeconds",
        "uninitializedCursorTimestamp",
        "firstMessageId",
        "lastMessageId",
        "earliestMsgPublishTimeInBacklogs",
        "oldestBacklogMessageSubscriptionName",
        "boundaries",
    ]
)
# Headers that say what a message is.
HEADERS: Final = ("x-pulsar-num-batch-message", "x-pulsar-partition-key")
PAUSE_S: Final = 0.25


def play(url: str, tenant: str, *, pause: bool = False) -> dict[str, list[Told]]:
    """Walks a broker. With `pause` policies get time to take effect: Pulsar's do so later."""
    told: dict[str, list[Told]] = {}
    with httpx.Client(timeout=60) as http:
        player = _Player(http, url, tenant, pause=pause)
        player.ask(
            Request(
                "PUT", "/tenants/{tenant}", {"adminRoles": [], "allowedClusters": ["standalone"]}
            )
        )
        for name, requests in chapters().items():
            player.begin(name)
            told[name] = [player.ask(request) for request in requests]
    return told


class _Player:
    def __init__(self, http: httpx.Client, url: str, tenant: str, *, pause: bool) -> None:
        self._http = http
        self._url = url
        self._pause = pause
        self._names = {"tenant": tenant, "broker": url.partition("://")[2], "ledger": "0"}

    def begin(self, chapter: str) -> None:
        self._names["ns"] = f"{self._names['tenant']}/{chapter}"
        self.ask(Request("PUT", "/namespaces/{ns}"))

    def ask(self, request: Request) -> Told:
        path = self._filled(request.path)
        url = self._url + (path[1:] if path.startswith("//") else f"/admin/v2{path}")
        body = None if request.body is None else json.dumps(self._body(request.body)).encode()
        answer = self._http.request(
            request.method, url, content=body, headers={"Content-Type": "application/json"}
        )
        if self._pause and request.method != "GET" and "persistent/" in path:
            time.sleep(PAUSE_S)
        self._note_ledger(answer)
        told: Told = {"asks": request.key, "status": answer.status_code}
        if request.status_only:
            # What is said is not told of, though something is.
            return told | {"silent": True} if answer.content else told
        return told | self._told(answer)

    def _filled(self, text: str) -> str:
        for name, value in self._names.items():
            text = text.replace(f"{{{name}}}", value)
        return text

    def _body(self, body: object) -> object:
        if isinstance(body, dict):
            return {key: self._body(value) for key, value in body.items()}
        if isinstance(body, list):
            return [self._body(value) for value in body]
        if body == "{ledger}":
            return int(self._names["ledger"])
        return self._filled(body) if isinstance(body, str) else body

    def _note_ledger(self, answer: httpx.Response) -> None:
        if answer.status_code != 200 or "messagePublishResults" not in answer.text:
            return
        results = answer.json()["messagePublishResults"]
        self._names["ledger"] = results[-1]["messageId"].partition(":")[0] or "0"

    def _told(self, answer: httpx.Response) -> Told:
        headers = {name: answer.headers[name] for name in HEADERS if name in answer.headers}
        told: Told = {"headers": headers} if headers else {}
        try:
            body = answer.json()
        except ValueError:
            body = answer.text
        if answer.status_code >= 400:
            reason = body.get("reason") if isinstance(body, dict) else body
            told["reason"] = self._plain(str(reason)).partition("\n")[0]
        elif answer.content:
            told["body"] = self._scalars("", body)
        return told

    def _plain(self, text: str) -> str:
        for name in ("ns", "tenant", "broker"):
            text = text.replace(self._names[name], f"{{{name}}}")
        ledger = self._names["ledger"]
        return text.replace(ledger, "{ledger}") if len(ledger) > 1 else text

    def _scalars(self, key: str, value: object) -> object:
        if isinstance(value, dict):
            return {self._plain(name): self._scalars(name, value[name]) for name in sorted(value)}
        if isinstance(value, list):
            return [self._scalars(key, one) for one in value]
        if key in VOLATILE and value is not None and not isinstance(value, bool):
            return "number" if isinstance(value, int | float) else "text"
        return self._plain(value) if isinstance(value, str) else value
