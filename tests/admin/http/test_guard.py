"""What is refused before any handler is asked: foreign pages, other bodies, slow ones."""

import asyncio
import json
import socket
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from support.served import Served
from support.tokens import SECRET_SETTING, token

from magnetar.admin.http.call import Admin
from magnetar.admin.http.guard import Bodies, host_names
from magnetar.admin.http.router import AdminApp
from magnetar.admin.http.routes import ROUTES
from magnetar.admin.http.server import HttpServer
from magnetar.admin.http.timed_protocol import TimedProtocol
from magnetar.broker.setting.settings import BrokerSettings
from magnetar.broker.setting.text_limits import BODY

TENANTS = "/admin/v2/tenants"


def tenants(served: Served, **headers: str) -> int:
    return httpx.get(f"{served.http_url}{TENANTS}", headers=headers).status_code


# ---- Where a request comes from --------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:80", "127.0.0.1", "127.1.2.3:8080", "[::1]:8080", "10.0.0.1"]
)
def test_a_broker_is_asked_by_address_or_by_its_own_name(served: Served, host: str) -> None:
    assert tenants(served, Host=host) == 200
    assert tenants(served, Host=socket.gethostname()) == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example:80",
        "",
        "[evil]",
        "localhost:80@evil.example",
        "127.0.0.1:80@evil.example",
        "localhost:80:80",
        "localhost:port",
        "localhost:",
        "localhost:123456",
        "localhost/evil.example",
        "localhost?evil.example",
        "localhost#evil.example",
        "localhost\\evil.example",
        "localhost evil.example",
        "user@localhost",
        "[::1",
        "[::1]evil.example",
        "[::1]:80@evil.example",
        "[::1%25lo]",
        "127.0.0.1,evil.example",
    ],
)
def test_a_name_that_is_not_ours_is_refused(served: Served, host: str) -> None:
    """A page of that name would reach us as its own site, once the name leads to loopback."""
    assert tenants(served, Host=host) == 403


def test_one_host_is_named_and_no_second_one(served: Served) -> None:
    for hosts in (["localhost", "evil.example"], ["localhost", "localhost"]):
        lines = [f"GET {TENANTS} HTTP/1.1", *[f"Host: {host}" for host in hosts], "", ""]
        port = int(served.http_url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=10) as peer:
            peer.sendall("\r\n".join(lines).encode())
            assert peer.recv(12) in (b"HTTP/1.1 400", b"HTTP/1.1 403")


def test_a_name_that_is_no_host_opens_nothing() -> None:
    """What a broker listens on may be no name that a Host could have."""
    names = host_names("http://b\u00fccher:8080", [])
    assert "" not in names
    assert "localhost" in names


def test_names_can_be_added(own_broker: Callable[[BrokerSettings], Served]) -> None:
    served = own_broker(BrokerSettings(http_allowed_hosts=("Magnetar.example.com",)))
    assert tenants(served, Host="magnetar.example.com:8080") == 200
    assert tenants(served, Host="example.com") == 403


def test_a_foreign_origin_is_refused_and_its_own_is_not(served: Served) -> None:
    own = served.http_url
    assert tenants(served, Origin=own) == 200
    port = own.rpartition(":")[2]
    for origin in ("http://evil.example", "null", "", f"https://127.0.0.1:{port}", own + "0"):
        assert tenants(served, Origin=origin) == 403, origin
    answer = httpx.delete(f"{own}{TENANTS}/public", headers={"Origin": "http://evil.example"})
    assert (answer.status_code, "another site" in answer.json()["reason"]) == (403, True)
    assert tenants(served) == 200


def test_what_a_browser_calls_cross_site_is_refused(served: Served) -> None:
    """A picture that is loaded has no Origin, and a peek makes a subscription."""
    for site, status in {"cross-site": 403, "same-site": 403, "same-origin": 200}.items():
        assert tenants(served, **{"Sec-Fetch-Site": site}) == status
    assert tenants(served, **{"Sec-Fetch-Site": "none"}) == 200


def test_a_body_must_say_that_it_is_json(served: Served) -> None:
    url = f"{served.http_url}{TENANTS}/typed"
    body = b'{"adminRoles": []}'
    for kind in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "text/json",
        "application/jsonp",
        "",
    ):
        answer = httpx.put(url, content=body, headers={"Content-Type": kind})
        assert answer.status_code == 415, kind
    assert httpx.put(url, content=body).status_code == 415
    assert httpx.put(url, content=iter([body])).status_code == 415
    assert httpx.get(url).status_code == 404
    kind = "application/vnd.partitioned-topic-metadata+json; charset=utf-8"
    assert httpx.put(url, content=body, headers={"Content-Type": kind}).status_code == 204
    # Where nothing is sent there is nothing to say of it.
    assert httpx.delete(url).status_code == 204


# ---- Metrics that are closed -----------------------------------------------------------


def metrics_status(served: Served, client: str) -> int:
    return served.run(Asked(served).get("/metrics", client))


def test_metrics_are_open_unless_the_settings_close_them(served: Served) -> None:
    assert metrics_status(served, "10.0.0.1") == 200


def test_closed_metrics_without_authentication_are_for_this_machine(
    own_broker: Callable[[BrokerSettings], Served],
) -> None:
    served = own_broker(BrokerSettings(authenticate_metrics=True))
    for address in ("127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"):
        assert metrics_status(served, address) == 200, address
    for address in ("10.0.0.1", "192.168.1.1", "::ffff:10.0.0.1", "2001:db8::1", "nowhere"):
        assert metrics_status(served, address) == 403, address
    # Nothing else is closed by it.
    assert served.run(Asked(served).get(TENANTS, "10.0.0.1")) == 200


def test_closed_metrics_ask_for_a_proof_where_there_is_authentication(
    own_broker: Callable[[BrokerSettings], Served],
) -> None:
    served = own_broker(
        BrokerSettings(
            authentication=True, token_secret_key=SECRET_SETTING, authenticate_metrics=True
        )
    )
    url = f"{served.http_url}/metrics"
    assert httpx.get(url).status_code == 401
    proof = {"Authorization": f"Bearer {token('scraper')}"}
    answer = httpx.get(url, headers=proof)
    assert answer.status_code == 200
    # The refusal before is counted.
    (line,) = [
        line
        for line in answer.text.splitlines()
        if line.startswith("pulsar_authentication_failures_total{")
    ]
    assert line.endswith(" 1")


# ---- Bodies ----------------------------------------------------------------------------


class Asked:
    """A request by hand: its body comes when the test says so."""

    def __init__(self, served: Served, bodies: Bodies | None = None) -> None:
        admin = Admin(served.server, "http://127.0.0.1:80")
        admin.bodies = bodies or admin.bodies
        self._app = AdminApp(admin, ROUTES)
        self.sent: list[Any] = []

    async def put(self, receive: Any, client: str = "10.0.0.1", **headers: str) -> int:
        found = {"host": "127.0.0.1", "content-type": "application/json", **headers}
        return await self._ask("PUT", f"{TENANTS}/by-hand", receive, client, found)

    async def get(self, path: str, client: str) -> int:
        return await self._ask("GET", path, piecewise(b""), client, {"host": "127.0.0.1"})

    async def _ask(
        self, method: str, path: str, receive: Any, client: str, found: dict[str, str]
    ) -> int:
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [(k.replace("_", "-").encode(), v.encode()) for k, v in found.items()],
            "client": (client, 1),
            "server": ("127.0.0.1", 80),
            "scheme": "http",
        }

        async def send(message: Any) -> None:
            self.sent.append(message)

        self.sent.clear()
        await self._app(scope, receive, send)
        return int(self.sent[0]["status"])

    def closes(self) -> bool:
        return (b"connection", b"close") in self.sent[0]["headers"]


def piecewise(*pieces: bytes, end: bool = True) -> Any:
    """A body in pieces; without an end nothing comes behind them, ever."""
    left = [*pieces]

    async def receive() -> dict[str, Any]:
        if left:
            piece = left.pop(0)
            return {"type": "http.request", "body": piece, "more_body": not end or bool(left)}
        await asyncio.Event().wait()
        raise AssertionError

    return receive


def test_a_slow_body_is_cut(served: Served) -> None:
    asked = Asked(served, Bodies(time.monotonic, seconds=0.05))
    assert served.run(asked.put(piecewise(b'{"adminRoles"', end=False))) == 408
    assert asked.closes()
    assert "0 seconds" in json.loads(asked.sent[1]["body"])["reason"]


def test_a_large_body_is_refused_before_it_comes(served: Served) -> None:
    asked = Asked(served, Bodies(time.monotonic, seconds=0.5))
    never = piecewise(end=False)
    assert served.run(asked.put(never, content_length=str(BODY.bytes_max + 1))) == 413
    assert asked.closes()
    piece = bytes(1 << 18)
    assert served.run(asked.put(piecewise(*[piece] * 5, end=False))) == 413
    reason = json.loads(asked.sent[1]["body"])["reason"]
    assert reason == (
        "the body of a REST request has 1310720 bytes or more, and 1048576 are allowed: send less"
    )


def test_bodies_together_are_limited(served: Served) -> None:
    bodies = Bodies(time.monotonic, in_flight_max=100)
    asked, other = Asked(served, bodies), Asked(served, bodies)

    async def work() -> tuple[int, int, int]:
        first = asyncio.create_task(asked.put(piecewise(b" " * 60, end=False)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert bodies.in_flight == 60
        refused = await other.put(piecewise(b" " * 60))
        fits = await other.put(piecewise(b" " * 39 + b"1"))
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        return refused, fits, bodies.in_flight

    assert served.run(work()) == (429, 400, 0)


def test_an_address_that_sends_too_much_waits_for_its_bucket_to_fill(served: Served) -> None:
    now = [0.0]
    bodies = Bodies(lambda: now[0], burst=100, rate=10)
    asked = Asked(served, bodies)

    def put(size: int, client: str = "10.0.0.1") -> int:
        return served.run(asked.put(piecewise(b"1".rjust(size)), client))

    assert [put(60), put(60), put(1)] == [400, 429, 429]
    assert put(60, "10.0.0.2") == 400
    now[0] = 4.0
    assert [put(40), put(1)] == [400, 429]
    for number in range(2000):
        put(1, f"address {number}")
    assert put(100) == 400, "a bucket that was forgotten is full"


def test_a_head_that_does_not_end_is_not_waited_for(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is a connection that says nothing, or a body behind its answer."""
    monkeypatch.setattr(TimedProtocol, "head_seconds", 0.1)
    http = HttpServer(served.server, "127.0.0.1", 0)
    served.run(http.start())
    port = int(http.url.rpartition(":")[2])
    head = b"POST /admin/v2/none HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    answered = head + b"Content-Length: 9\r\n\r\n1"
    for said, answers in ((b"", b""), (head, b""), (answered, b"HTTP/1.1 404")):
        with socket.create_connection(("127.0.0.1", port), timeout=20) as peer:
            peer.sendall(said)
            got = b""
            if answers:
                while not got.startswith(answers):
                    got += peer.recv(4096)
                peer.sendall(b"2")
            while piece := peer.recv(4096):
                got += piece
            assert got.startswith(answers)
    served.run(http.stop())


# ---- Names in paths --------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "..",
        "%2e%2e",
        "..%2f..%2ftenants",
        "a%2Fb",
        "a%5Cb",
        "%00",
        "a%0d%0ab",
        "%ef%bf%bf",
        "",
        ".",
    ],
)
def test_tricks_in_names_lead_nowhere_else(served: Served, name: str) -> None:
    """A name is one piece of a path, whatever it is made of."""
    port = int(served.http_url.rpartition(":")[2])
    namespace = served.namespace()
    for method, path in (
        ("PUT", f"/admin/v2/tenants/{name}"),
        ("DELETE", f"/admin/v2/tenants/{name}"),
        ("PUT", f"/admin/v2/namespaces/public/{name}"),
        ("DELETE", f"/admin/v2/persistent/{namespace}/{name}/../../../tenants/public"),
        ("GET", f"/admin/v2/persistent/{namespace}/t/subscription/{name}/ackState"),
    ):
        request = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        with socket.create_connection(("127.0.0.1", port), timeout=20) as peer:
            peer.sendall(request.encode())
            answer = b"".join(iter(lambda: peer.recv(4096), b""))
        assert answer[9:12] in (b"400", b"404", b"405", b"412"), (method, path, answer)
    assert "public" in served.http.get("/tenants").json()
