"""Pulsar's admin REST, operation by operation: our answers are those of Apache Pulsar 4.2.4.

What differs is listed with its reason in docs/compatibility-admin.md, or a test here fails.
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from support.served import Served
from surface.differences import Difference, differences, meant
from surface.player import Told, play
from surface.recording import LEFT_OUT, operations, read_recording
from surface.walk import Request, chapters

RECORDED = read_recording()
ROWS = meant()


@pytest.fixture(scope="module")
def walked() -> Iterator[dict[str, list[Told]]]:
    served = Served()
    served.start()
    yield play(served.http_url, "walk")
    served.stop()


def found(walked: dict[str, list[Told]], chapter: str) -> list[Difference]:
    pairs = zip(RECORDED[chapter], walked[chapter], strict=True)
    return [one for theirs, ours in pairs for one in differences(theirs, ours)]


@pytest.mark.parametrize("chapter", sorted(RECORDED))
def test_answers_are_those_of_apache_pulsar(walked: dict[str, list[Told]], chapter: str) -> None:
    others = [one for one in found(walked, chapter) if not any(row.covers(one) for row in ROWS)]
    assert others == []


def test_every_difference_that_is_listed_is_there(walked: dict[str, list[Told]]) -> None:
    """A row that nothing needs any more is no reason to let something through."""
    all_of_them = [one for chapter in RECORDED for one in found(walked, chapter)]
    unneeded = [
        narrow
        for row in ROWS
        for narrow in row.narrowed()
        if not any(narrow.covers(one) for one in all_of_them)
    ]
    assert unneeded == []


def test_the_recording_is_of_this_walk() -> None:
    asked = {name: [one.key for one in requests] for name, requests in chapters().items()}
    assert {name: [one["asks"] for one in told] for name, told in RECORDED.items()} == asked


# ---- Which operations there are ----------------------------------------------------------


def of_operation(operation: str) -> re.Pattern[str]:
    """What requests for an operation look like."""
    method, _, path = operation.partition(" ")
    pattern = re.escape(path).replace(r"\{\}", "[^/?]+")
    return re.compile(f"{method} {pattern}(\\?.*)?$")


def asked_for(request: Request) -> str:
    """As Pulsar's annotations have it: `{ns}` is a tenant and a namespace."""
    path = request.path.replace("{ns}", "{tenant}/{namespace}")
    if path.startswith("//"):
        path = path[1:].replace("/admin/v3/", "/v3/")
    return f"{request.method} {path}"


def test_every_operation_is_walked_or_left_out_with_a_reason() -> None:
    asked = [asked_for(request) for requests in chapters().values() for request in requests]
    unasked = []
    for operation in operations():
        left_out = any(re.search(pattern, operation) for pattern in LEFT_OUT)
        pattern = of_operation(operation)
        if left_out or not any(pattern.match(one) for one in asked):
            unasked.append((operation, left_out))
    assert [operation for operation, left_out in unasked if not left_out] == []
    assert len(operations()) > 500


# ---- That differences are found ----------------------------------------------------------


def marks(theirs: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    told = {"asks": "GET /x", "status": 200}
    return [one.mark for one in differences({**told, **theirs}, {**told, **ours})]


def test_what_differs_is_told() -> None:
    body = {"a": 1, "b": {"c": "x"}, "d": [{"e": True}], "f": ["x", "y"]}
    assert marks({"body": body}, {"body": dict(body)}) == []
    assert marks({"body": body}, {"body": {**body, "f": ["y", "x"]}}) == []
    assert marks({"body": body}, {"body": {**body, "f": ["y"]}}) == ["! .f"]
    assert marks({"body": body}, {"body": {**body, "a": 2}}) == ["! .a"]
    assert marks({"body": body}, {"body": {**body, "a": True}}) == ["! .a"]
    assert marks({"body": body}, {"body": {**body, "b": {}}}) == ["- .b.c"]
    assert marks({"body": body}, {"body": {**body, "g": 1}}) == ["+ .g"]
    assert marks({"body": body}, {"body": {**body, "d": [{"e": False}]}}) == ["! .d[].e"]
    assert marks({"body": 1}, {"status": 404, "reason": "x"}) == ["200 > 404"]
    # Nothing is said with 200 there, and with 204 here.
    assert marks({}, {"status": 204}) == []
    assert marks({"silent": True}, {"status": 204}) == ["200 > 204"]
    missing = {"status": 404, "reason": "Topic persistent://a/b/c not found"}
    assert marks(missing, {"status": 404, "reason": "it is not there"}) == ["reason"]
    other = "Topic persistent://a/b/d not found: create it"
    assert marks(missing, {"status": 404, "reason": other}) == ["reason"]
    same = "Topic persistent://a/b/c not found: create it"
    assert marks(missing, {"status": 404, "reason": same}) == []
