"""What is not right about a request, and how it is said."""

import logging
import re
from pathlib import Path

import httpx
import pytest
from support.served import Served

from magnetar.admin.http.call import Admin, Call
from magnetar.admin.http.required_permission import PUBLIC
from magnetar.admin.http.response import Response
from magnetar.admin.http.route import Route
from magnetar.admin.http.router import AdminApp
from magnetar.admin.http.routes import ROUTES
from magnetar.broker.policy.policy import POLICY_NAMES


def test_an_unknown_path_is_not_found(served: Served) -> None:
    for path in ("/nothing", "/persistent", "/persistent/public/default/t/no/such/thing"):
        answer = served.http.get(path)
        assert answer.status_code == 404
        assert answer.json()["reason"]
    assert httpx.get(f"{served.http_url}/nothing").status_code == 404


def test_a_wrong_method_is_told_the_right_ones(served: Served) -> None:
    answer = served.http.patch("/tenants/public")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "DELETE, GET, POST, PUT"
    assert "PATCH" in answer.json()["reason"]


@pytest.mark.parametrize("body", [b"{", b"nothing", b"\xff\xfe", b"[" * 100_000, b"{} {}"])
def test_a_body_that_is_no_json_is_refused(served: Served, body: bytes) -> None:
    answer = served.http.put("/tenants/somebody", content=body)
    assert answer.status_code == 400
    assert "not JSON" in answer.json()["reason"]


def test_a_body_of_the_wrong_kind_is_refused(served: Served) -> None:
    assert served.http.put("/tenants/somebody", json=[1]).status_code == 400
    assert served.http.put("/tenants/somebody", json={"adminRoles": 1}).status_code == 400


def test_a_huge_body_is_refused(served: Served) -> None:
    answer = served.http.put("/tenants/somebody", content=b" " * (17 << 20))
    assert answer.status_code == 413


@pytest.mark.parametrize("name", ["a%20b", "ä", "a%00b", "%2e%2e%2f", "a+b"])
def test_a_bad_name_is_a_failed_precondition(served: Served, name: str) -> None:
    assert served.http.put(f"/tenants/{name}").status_code == 412
    assert served.http.put(f"/namespaces/public/{name}").status_code == 412
    assert served.http.put(f"/persistent/{name}/default/t").status_code == 412


def test_a_path_that_is_not_utf8_is_refused(served: Served) -> None:
    assert served.http.put("/tenants/%ff").status_code == 400


def test_a_bad_number_is_refused(served: Served) -> None:
    topic = f"/persistent/{served.namespace()}/t"
    served.http.put(topic)
    served.http.put(f"{topic}/subscription/s")
    for number in ("x", "-1", "1.5", "99999999999999999999", "%D9%A3"):
        answer = served.http.post(f"{topic}/subscription/s/skip/{number}")
        assert answer.status_code == 400, number
    assert served.http.get(f"{topic}/stats?getPreciseBacklog=perhaps").status_code == 400


def test_a_subscription_may_have_any_characters(served: Served) -> None:
    topic = f"/persistent/{served.namespace()}/t"
    served.http.put(topic)
    for encoded in ("a%2Fb", "a+b", "a%2Bb", "%C3%BC"):
        assert served.http.put(f"{topic}/subscription/{encoded}").status_code == 204
    assert served.http.get(f"{topic}/subscriptions").json() == ["a b", "a+b", "a/b", "ü"]
    assert served.http.delete(f"{topic}/subscription/a%2Fb").status_code == 204


def test_an_unexpected_error_is_logged_and_not_shown(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(call: Call) -> Response:
        raise RuntimeError("something private")

    failing = Route("GET", "/fail", fail, PUBLIC)
    app = AdminApp(Admin(served.server, served.http_url), [*ROUTES, failing])

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.get("/fail")

    with caplog.at_level(logging.ERROR, "magnetar.admin"):
        answer = served.run(ask())
    assert answer.status_code == 500
    assert "private" not in answer.text
    (record,) = caplog.records
    assert record.exc_info is not None
    assert "something private" in str(record.exc_info[1])


def test_no_route_of_all_breaks_on_odd_input(served: Served) -> None:
    """Every path with odd names and bodies answers, and never with an unexpected error."""
    for method, path in ((route.method, route.path) for route in ROUTES):
        for value, body in [("x", b""), ("1", b'{"a":1}'), ("-", b"[]"), ("0", b"17")]:
            url = path.replace("{domain:persistent|non-persistent}", "persistent")
            url = url.replace("{bundle:0x00000000_0xffffffff}", "0x00000000_0xffffffff")
            for name in ("tenant", "namespace", "topic", "subscription"):
                url = url.replace(f"{{{name}}}", f"odd-{value}")
            pieces = [value if piece.startswith("{") else piece for piece in url.split("/")]
            answer = served.http.request(
                method, f"{served.http_url}{'/'.join(pieces)}", content=body
            )
            assert answer.status_code < 500, (method, url, answer.text)
            if answer.status_code >= 400:
                assert answer.json()["reason"]


def test_the_reference_names_every_policy() -> None:
    reference = Path(__file__).parents[3] / "docs/reference"
    named = re.findall(
        r"\w+", "".join((reference / page).read_text() for page in ("configuration.md", "rest.md"))
    )
    assert set(POLICY_NAMES) - set(named) == set()
