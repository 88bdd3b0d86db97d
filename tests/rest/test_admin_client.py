"""The client of admin REST, against servers that say what a test wants."""

import http.client
import json
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.web import Asked, Said, answering

from magnetar.errors import ConnectError, InvalidUrl, SettingsError, Timeout
from magnetar.model import TopicName
from magnetar.rest.admin_client import AdminClient
from magnetar.rest.admin_error import AdminError
from magnetar.rest.path import (
    lookup_path,
    namespace_path,
    path_of,
    schema_path,
    subscription_path,
    topic_path,
    topics_path,
)

JSON = {"Content-Type": "application/json"}


def ask(url: str) -> object:
    with AdminClient(url) as admin:
        return admin.get("/x")


def test_paths_keep_names_in_one_piece() -> None:
    topic = TopicName.parse("persistent://public/default/a b%?")
    assert topic_path(topic, "stats") == "/admin/v2/persistent/public/default/a%20b%25%3F/stats"
    assert subscription_path(topic, "s/ü?#").endswith("/subscription/s%2F%C3%BC%3F%23")
    other = TopicName.parse("non-persistent://public/default/t")
    assert topic_path(other) == "/admin/v2/non-persistent/public/default/t"
    assert lookup_path(topic) == "/lookup/v2/topic/persistent/public/default/a%20b%25%3F"
    assert namespace_path("a/b", "unload") == "/admin/v2/namespaces/a/b/unload"
    assert schema_path("t-partition-1") == "/admin/v2/schemas/public/default/t"
    assert topics_path("persistent", "a/b") == "/admin/v2/persistent/a/b"
    for trick in ("", ".", ".."):
        with pytest.raises(SettingsError, match="is not a valid name"):
            path_of("tenants", trick)
    for bad in ("a", "a/", "/b", "a/b/c", ""):
        with pytest.raises(SettingsError, match="tenant/namespace"):
            namespace_path(bad)
        with pytest.raises(SettingsError, match="tenant/namespace"):
            topics_path("persistent", bad)


def test_a_request_is_json_with_a_token_and_a_query() -> None:
    asked: list[Asked] = []

    def answer(request: Asked) -> Said:
        asked.append(request)
        return Said(200, JSON, b'{"a": [1]}')

    with answering(answer) as url, AdminClient(url + "/", token="secret") as admin:
        assert admin.post("/p", {"x": "ü"}, force=True, none=None, n=5) == {"a": [1]}
        assert admin.get("/g") == {"a": [1]}
        assert admin.put("/p") == admin.delete("/d", force=False) == {"a": [1]}
    assert [one.method for one in asked] == ["POST", "GET", "PUT", "DELETE"]
    assert asked[0].path == "/p?force=true&n=5"
    assert json.loads(asked[0].body) == {"x": "ü"}
    assert asked[0].headers["content-type"] == "application/json"
    assert {one.headers["authorization"] for one in asked} == {"Bearer secret"}
    assert asked[3].path == "/d?force=false"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"reason": "because"}', "because (HTTP 409)"),
        (b"plain words", "Conflict: plain words (HTTP 409)"),
        (b"<html>page</html>", "Conflict (HTTP 409)"),
        (b'{"message": "for programs"}', "Conflict (HTTP 409)"),
        (b'{"reason": null}', "Conflict (HTTP 409)"),
        (b"", "Conflict (HTTP 409)"),
    ],
)
def test_a_refusal_says_why(body: bytes, reason: str) -> None:
    with answering(lambda _: Said(409, {}, body)) as url, pytest.raises(AdminError) as caught:
        ask(url)
    assert str(caught.value) == reason


def test_an_answer_that_is_no_json() -> None:
    with answering(lambda _: Said(200, {}, b"what")) as url, AdminClient(url) as admin:
        assert admin.request("GET", "/x").body == b"what"
        with pytest.raises(AdminError, match="is not JSON"):
            admin.get("/x")


def test_nothing_is_none() -> None:
    with answering(lambda _: Said(204, {}, b"")) as url, AdminClient(url) as admin:
        assert admin.get("/x") is None


def test_a_redirect_is_followed_with_its_body() -> None:
    """As Pulsar's brokers send a request to the owner of a topic."""
    asked: list[Asked] = []

    def owner(request: Asked) -> Said:
        asked.append(request)
        return Said(200, JSON, b"true")

    with answering(owner) as there:

        def other(request: Asked) -> Said:
            return Said(307, {"Location": there + request.path + "?authoritative=true"}, b"")

        with answering(other) as here, AdminClient(here, token="t") as admin:
            assert admin.post("/x", [1]) is True
    assert asked[0].path == "/x?authoritative=true"
    assert asked[0].body == b"[1]"
    assert asked[0].headers["authorization"] == "Bearer t"


def test_redirects_end() -> None:
    def around(request: Asked) -> Said:
        return Said(307, {"Location": request.path}, b"")

    with answering(around) as url, pytest.raises(AdminError, match="HTTP 307"):
        ask(url)
    astray = Said(307, {"Location": "ftp://x/"}, b"")
    with answering(lambda _: astray) as url, pytest.raises(InvalidUrl):
        ask(url)


@pytest.mark.parametrize("url", ["", "localhost:8080", "ftp://x", "http://", "http://x:port"])
def test_an_address_that_is_none(url: str) -> None:
    with AdminClient(url) as admin, pytest.raises(InvalidUrl, match="http://HOST:PORT"):
        admin.get("/x")


def test_nobody_is_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(ConnectError, match=f"127.0.0.1:{port}.*is the URL right"):
        ask(f"http://127.0.0.1:{port}")


def test_nobody_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with AdminClient(url, timeout_s=0.05) as admin, pytest.raises(Timeout):
            admin.get("/x")


def test_a_connection_that_was_closed_is_made_again() -> None:
    count = 0

    def answer(request: Asked) -> Said:
        nonlocal count
        count += 1
        return Said(200, JSON, b"1")

    with answering(answer) as url, AdminClient(url) as admin:
        assert admin.get("/x") == 1
        assert admin._connection is not None
        admin._connection.sock.shutdown(socket.SHUT_RDWR)
        assert admin.get("/x") == 1
    assert count == 2


def test_a_client_that_was_closed_connects_again() -> None:
    with answering(lambda _: Said(200, JSON, b"1")) as url:
        admin = AdminClient(url)
        assert admin.get("/x") == 1
        admin.close()
        assert admin.get("/x") == 1
        admin.close()


def test_threads_share_a_client() -> None:
    """Each gets its own answer."""
    with answering(_its_path) as url, AdminClient(url) as admin, ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda n: admin.get(f"/{n}"), range(200))) == list(range(200))


def test_what_interrupts_an_answer_leaves_nothing_of_it_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with answering(_its_path) as url, AdminClient(url) as admin:
        assert admin.get("/1") == 1
        with monkeypatch.context() as patched:
            patched.setattr(http.client.HTTPResponse, "read", _ctrl_c)
            with pytest.raises(KeyboardInterrupt):
                admin.get("/2")
        assert admin.get("/3") == 3


def _its_path(asked: Asked) -> Said:
    return Said(200, JSON, asked.path[1:].encode())


def _ctrl_c(response: object, amount: int) -> bytes:
    raise KeyboardInterrupt


def test_certificates_that_are_none(tmp_path: object) -> None:
    admin = AdminClient("https://127.0.0.1:1", trust_certs=f"{tmp_path}/none.pem")
    with pytest.raises(SettingsError, match="cannot use the certificates"):
        admin.get("/x")
