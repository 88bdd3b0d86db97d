"""The console's page and files: what they are, and what a browser is told about them."""

import re

import httpx
import pytest
from support.served import Served

from magnetar.admin.console.files import STATIC, files

ANY_HOST = re.compile(r"https?://[^\s\"'`)>]+")
# Written, and asked by nobody: a namespace of SVG, where a format is described.
NAMED = {"http://www.w3.org/2000/svg", "https://avro.apache.org/docs/1.12.0/specification/"}


def get(served: Served, path: str, **headers: str) -> httpx.Response:
    return httpx.get(f"{served.http_url}{path}", headers=headers)


def test_the_page_lets_nothing_run_but_its_own_files(served: Served) -> None:
    answer = get(served, "/")
    policy = dict(
        part.strip().partition(" ")[::2]
        for part in answer.headers["content-security-policy"].split(";")
    )
    assert policy["default-src"] == "'none'"
    for kind in ("script-src", "style-src", "connect-src", "img-src"):
        assert policy[kind] == "'self'"
    for kind in ("frame-ancestors", "base-uri", "form-action", "trusted-types"):
        assert policy[kind] == "'none'"
    assert policy["require-trusted-types-for"] == "'script'"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert get(served, "/nothing").headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cross-origin-opener-policy"] == "same-origin"
    assert re.findall(r"<script(?! (?:type=\"module\" )?src=)", answer.text) == []
    assert re.findall(r"\son\w+=|\sstyle=", answer.text) == []


@pytest.mark.parametrize("name", files())
def test_every_file_is_served_once_for_each_version(served: Served, name: str) -> None:
    path = "/" if name == "index.html" else f"/console/{name}"
    first = get(served, path)
    assert first.content == (STATIC / name).read_bytes()
    assert first.headers["cache-control"] == "no-cache"
    again = get(served, path, **{"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    other = get(served, path, **{"If-None-Match": '"another"'})
    assert other.status_code == 200


@pytest.mark.parametrize("name", files())
def test_no_file_names_another_host_or_makes_markup_of_texts(name: str) -> None:
    text = (STATIC / name).read_text()
    assert set(ANY_HOST.findall(text)) <= NAMED
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "Function(",
    ):
        assert word not in text


@pytest.mark.parametrize(
    "path",
    [
        "/console/nothing.js",
        "/console/ui/nothing.js",
        "/console/..%2F__init__.py",
        "/console/ui/..%2F..%2F__init__.py",
        "/console/%2Fetc%2Fpasswd",
        "/console/ui",
    ],
)
def test_there_is_nothing_but_the_files(served: Served, path: str) -> None:
    answer = get(served, path)
    assert answer.status_code == 404
    assert answer.json()["reason"]


# ---- Where a request comes from --------------------------------------------------------

LINK = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


def test_a_link_from_elsewhere_leads_to_the_page(served: Served) -> None:
    assert get(served, "/", **LINK).status_code == 200


@pytest.mark.parametrize(
    "other",
    [
        {"Sec-Fetch-Dest": "iframe"},
        {"Sec-Fetch-Dest": "script", "Sec-Fetch-Mode": "no-cors"},
        {"Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"},
        {"Origin": "http://evil.example"},
        {"Host": "evil.example"},
    ],
)
def test_nothing_else_from_elsewhere_gets_the_page(served: Served, other: dict[str, str]) -> None:
    assert get(served, "/", **(LINK | other)).status_code == 403


def test_a_link_from_elsewhere_leads_to_nothing_but_the_page(served: Served) -> None:
    for path in ("/admin/v2/console/session", "/admin/v2/tenants", "/console/main.js", "/docs"):
        assert get(served, path, **LINK).status_code == 403
    posted = httpx.post(f"{served.http_url}/", headers=LINK)
    assert posted.status_code == 403
