"""Who may do what over REST: a table of roles and requests; and who is let in at all."""

import logging
import socket
from collections.abc import Callable, Iterator

import httpx
import pulsar
import pytest
from support.served import Served
from support.tokens import OTHER_SECRET, SECRET_SETTING, token

from magnetar.admin.http.answer import Refusal
from magnetar.admin.http.call import Admin
from magnetar.admin.http.request import Request
from magnetar.admin.http.routes import ROUTES
from magnetar.broker.auth.permissions import Permissions
from magnetar.broker.setting.settings import BrokerSettings
from magnetar.broker.shell.server import BrokerServer
from magnetar.storage import Catalog, MemoryDisk

N = "table/ns"
TOPIC = f"persistent://{N}/t"
T = f"/admin/v2/persistent/{N}/t"
ELSEWHERE = f"/admin/v2/persistent/{N}/elsewhere"
S = f"{T}/subscription"
NAMESPACE = f"/admin/v2/namespaces/{N}"
X = "/admin/v3/transactions"

ADMINS = "root boss"
WIDE = f"{ADMINS} both"
LOOK = f"{WIDE} producer consumer skipper topic-producer topic-consumer topic-skipper"
LOOK_WIDE = f"{WIDE} producer consumer skipper"
CONSUME = f"{WIDE} consumer topic-consumer"
SKIP = f"{WIDE} consumer skipper topic-consumer topic-skipper"
EVERYBODY = f"{LOOK} stranger other-boss"
ROLES = EVERYBODY.split()

# Requests that change nothing: what they name is not there, or their body is nonsense.
TABLE: list[tuple[str, str, str]] = [
    ("GET", "/admin/v2/brokers", "root"),
    ("GET", "/admin/v2/brokers/standalone", "root"),
    ("GET", "/admin/v2/brokers/health", EVERYBODY),
    ("GET", "/admin/v2/brokers/version", EVERYBODY),
    ("GET", "/admin/v2/brokers/configuration/runtime", "root"),
    ("POST", "/admin/v2/brokers/configuration/a/b", "root"),
    ("GET", "/admin/v2/clusters", EVERYBODY),
    ("GET", "/admin/v2/clusters/standalone", "root"),
    ("PUT", "/admin/v2/clusters/new", "root"),
    ("GET", "/admin/v2/tenants", "root"),
    ("GET", "/admin/v2/tenants/table", ADMINS),
    ("PUT", "/admin/v2/tenants/table", "root"),
    ("POST", "/admin/v2/tenants/table", "root"),
    ("DELETE", "/admin/v2/tenants/table", "root"),
    ("GET", "/admin/v2/namespaces/table", ADMINS),
    ("GET", NAMESPACE, ADMINS),
    ("PUT", NAMESPACE, ADMINS),
    ("DELETE", NAMESPACE, ADMINS),
    ("GET", f"{NAMESPACE}/topics", LOOK_WIDE),
    ("PUT", f"{NAMESPACE}/unload", ADMINS),
    ("POST", f"{NAMESPACE}/clearBacklog", ADMINS),
    ("POST", f"{NAMESPACE}/clearBacklog/sub", f"{WIDE} consumer skipper"),
    ("POST", f"{NAMESPACE}/clearBacklog/reserved", WIDE),
    ("POST", f"{NAMESPACE}/unsubscribe/sub", f"{WIDE} consumer"),
    ("POST", f"{NAMESPACE}/unsubscribe/reserved", WIDE),
    ("GET", f"{NAMESPACE}/permissions", ADMINS),
    ("POST", f"{NAMESPACE}/permissions/stranger", ADMINS),
    ("DELETE", f"{NAMESPACE}/permissions/nobody", ADMINS),
    ("GET", f"{NAMESPACE}/permissions/subscription", ADMINS),
    ("POST", f"{NAMESPACE}/permissions/subscription/reserved", ADMINS),
    ("DELETE", f"{NAMESPACE}/permissions/reserved/nobody", ADMINS),
    ("GET", f"{NAMESPACE}/retention", ADMINS),
    ("POST", f"{NAMESPACE}/retention", ADMINS),
    ("DELETE", f"{NAMESPACE}/retention", ADMINS),
    ("GET", f"/admin/v2/persistent/{N}", LOOK_WIDE),
    ("GET", f"/admin/v2/non-persistent/{N}", LOOK_WIDE),
    ("GET", f"/admin/v2/persistent/{N}/partitioned", LOOK_WIDE),
    ("PUT", T, ADMINS),
    ("DELETE", f"/admin/v2/persistent/{N}/missing", ADMINS),
    ("PUT", f"{T}/unload", ADMINS),
    ("POST", f"{T}/trim", ADMINS),
    ("GET", f"{T}/partitions", LOOK),
    ("PUT", f"{T}/partitions", ADMINS),
    ("GET", f"{T}/permissions", ADMINS),
    ("POST", f"{T}/permissions/stranger", ADMINS),
    ("DELETE", f"{T}/permissions/nobody", ADMINS),
    ("GET", f"{T}/retention", ADMINS),
    ("DELETE", f"{T}/retention", ADMINS),
    ("GET", f"{T}/stats", LOOK),
    ("GET", f"{T}-partition-0/stats", LOOK),
    ("GET", f"{ELSEWHERE}/stats", LOOK_WIDE),
    ("GET", f"{T}/internalStats", LOOK),
    ("GET", f"/lookup/v2/topic/persistent/{N}/t", LOOK),
    ("GET", f"{T}/subscriptions", LOOK),
    ("GET", f"{T}/ledger/1/entry/1", CONSUME),
    ("GET", f"{T}/examinemessage", CONSUME),
    ("PUT", f"{S}/sub", CONSUME),
    ("PUT", f"{S}/reserved", WIDE),
    ("DELETE", f"{S}/missing", CONSUME),
    ("GET", f"{S}/sub/position/1", CONSUME),
    ("GET", f"{S}/reserved/position/1", WIDE),
    ("POST", f"{S}/sub/skip/1", SKIP),
    ("POST", f"{S}/reserved/skip/1", WIDE),
    ("POST", f"{S}/sub/skip_all", SKIP),
    ("POST", f"{S}/sub/skipDamaged", SKIP),
    ("POST", f"{S}/sub/skipByMessageIds", SKIP),
    ("POST", f"{S}/reserved/skipByMessageIds", WIDE),
    ("GET", f"{S}/sub/ackState", LOOK),
    ("GET", f"{S}/sub/ackMap", LOOK),
    ("GET", f"{S}/reserved/ackMap", WIDE),
    ("GET", f"{S}/sub/delayed", LOOK),
    ("GET", f"{S}/sub/messages", CONSUME),
    ("GET", f"{S}/reserved/messages", WIDE),
    ("POST", f"{S}/sub/redrive", SKIP),
    ("POST", f"{S}/reserved/redrive", WIDE),
    ("GET", f"{T}/messages", CONSUME),
    ("GET", f"{T}/ledger/1/entry/1/message", CONSUME),
    ("GET", f"{T}/rights", LOOK),
    ("POST", f"/topics/persistent/{N}/t", f"{WIDE} producer topic-producer"),
    ("GET", "/admin/v2/console/overview", "root"),
    ("GET", "/admin/v2/console/session", EVERYBODY),
    ("GET", "/admin/v2/console/topics", EVERYBODY),
    ("POST", f"{S}/sub/resetcursor", CONSUME),
    ("POST", f"{S}/sub/expireMessages/10", CONSUME),
    ("POST", f"{T}/all_subscription/expireMessages/10", ADMINS),
    ("GET", f"/admin/v2/schemas/{N}/t/schema", LOOK),
    ("POST", f"/admin/v2/schemas/{N}/t/schema", f"{WIDE} producer topic-producer"),
    ("DELETE", f"/admin/v2/schemas/{N}/t/schema", ADMINS),
    ("GET", f"{X}/coordinators", "root"),
    ("GET", f"{X}/coordinatorStats", "root"),
    ("GET", f"{X}/slowTransactions/0", "root"),
    ("GET", f"{X}/transactionMetadata/0/1", "root"),
    ("POST", f"{X}/abortTransaction/0/1", "root"),
    ("POST", f"{X}/transactionCoordinator/replicas", "root"),
    ("GET", f"{X}/coordinatorInternalStats/0", "root"),
    ("GET", f"{X}/transactionBufferStats/{N}/t", LOOK),
    ("GET", f"{X}/transactionInBufferStats/{N}/t/0/1", LOOK),
    ("GET", f"{X}/transactionBufferInternalStats/{N}/elsewhere", LOOK_WIDE),
    ("GET", f"{X}/pendingAckStats/{N}/t/sub", LOOK),
    ("GET", f"{X}/pendingAckStats/{N}/t/reserved", WIDE),
    ("GET", f"{X}/transactionInPendingAckStats/{N}/t/reserved/0/1", WIDE),
    ("GET", f"{X}/positionStatsInPendingAck/{N}/t/sub/1/1", LOOK),
    ("GET", f"{X}/pendingAckInternalStats/{N}/t/reserved", WIDE),
    ("GET", "/admin/v2/no/such/path", EVERYBODY),
    ("PATCH", "/admin/v2/tenants", EVERYBODY),
]


@pytest.fixture(scope="module")
def guarded() -> Iterator[Served]:
    settings = BrokerSettings(
        authentication=True, token_secret_key=SECRET_SETTING, super_user_roles=("root",)
    )
    served = Served(settings)
    served.start()
    boss = {"adminRoles": ["boss"]}
    for path, body in (
        ("/admin/v2/tenants/table", boss),
        ("/admin/v2/tenants/other", {"adminRoles": ["other-boss"]}),
        (NAMESPACE, {}),
        (T, {}),
        (ELSEWHERE, {}),
        (f"{S}/sub", None),
        (f"{S}/reserved", None),
    ):
        answer = send(served, "PUT", path, token("root"), json=body)
        assert answer.status_code == 204, answer.text
    yield served
    served.stop()


def send(
    served: Served, method: str, path: str, text: str | None = None, **options: object
) -> httpx.Response:
    headers = {} if text is None else {"Authorization": f"Bearer {text}"}
    return served.http.request(
        method,
        served.http_url + path,
        headers=headers,
        **options,  # type: ignore[arg-type]
    )


def connect(served: Served, text: str) -> pulsar.Client:
    """The official client, which tries for as long as it may where it is turned away."""
    return pulsar.Client(
        served.url,
        authentication=pulsar.AuthenticationToken(text),
        operation_timeout_seconds=2,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )


def grant_all(served: Served) -> None:
    """What the table needs, whatever a request did to it."""
    permissions = Permissions()
    for role, action in (("producer", "produce"), ("consumer", "consume"), ("skipper", "skip")):
        permissions = permissions.with_namespace(role, (action,))
        permissions = permissions.with_topic(TOPIC, f"topic-{role}", (action,))
    permissions = permissions.with_namespace("both", ("produce", "consume"))
    permissions = permissions.with_subscription("reserved", ("both",))
    served.call(lambda: served.broker.directory.put_permissions(N, permissions))


# ---- The table --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "allowed"), TABLE, ids=[f"{m} {p}" for m, p, _ in TABLE]
)
def test_the_table_of_roles_and_requests(
    guarded: Served, method: str, path: str, allowed: str
) -> None:
    found: list[str] = []
    grant_all(guarded)
    for role in ROLES:
        answer = send(guarded, method, path, token(role), content=b'"nonsense"')
        assert answer.status_code not in (401, 500), answer.text
        if answer.status_code == 403:
            assert repr(role) in answer.json()["reason"]
        else:
            found.append(role)
    assert found == [role for role in ROLES if role in allowed.split()]
    assert send(guarded, method, path).status_code == 401


def test_every_route_says_what_it_needs() -> None:
    """These alone ask for nothing, and these for no more than to be known."""
    by_kind: dict[str, set[str]] = {}
    for route in ROUTES:
        by_kind.setdefault(route.need.kind, set()).add(f"{route.method} {route.path}")
        assert bool(route.need.operation) == (route.need.kind in ("namespace", "topic"))
    brokers = "GET /admin/v2/brokers"
    probes = {"GET /status.html", "GET /healthz", f"{brokers}/ready", f"{brokers}/live"}
    known = {f"{brokers}/health", f"{brokers}/version", "GET /admin/v2/clusters"}
    # The console's files hold no data; who asks is told who they are, and sees their own topics.
    page = {"GET /", "GET /console/{file}", "GET /console/{part}/{file}"}
    known |= {"GET /admin/v2/console/session", "GET /admin/v2/console/topics"}
    # What the body names is asked about one by one.
    many = "POST /admin/v2/namespaces"
    known |= {f"{many}/grantPermissionsOnTopics", f"{many}/revokePermissionsOnTopics"}
    assert by_kind.pop("public") == probes | page | {"GET /openapi.json", "GET /docs"}
    assert by_kind.pop("metrics") == {"GET /metrics"}
    assert by_kind.pop("anyone") == known
    assert set(by_kind) == {"superuser", "admin", "namespace", "topic"}


def test_what_is_for_everybody_needs_no_token(guarded: Served) -> None:
    for path in ("/healthz", "/status.html", "/admin/v2/brokers/ready", "/metrics"):
        assert send(guarded, "GET", path).status_code == 200
        assert send(guarded, "GET", path, "nonsense").status_code == 200


def test_metrics_ask_if_told_to(own_broker: Callable[[BrokerSettings], Served]) -> None:
    settings = BrokerSettings(
        authentication=True, token_secret_key=SECRET_SETTING, authenticate_metrics=True
    )
    served = own_broker(settings)
    assert send(served, "GET", "/metrics").status_code == 401
    assert send(served, "GET", "/metrics", token("anybody")).status_code == 200


def test_without_authorization_whoever_is_known_may_do_everything(
    own_broker: Callable[[BrokerSettings], Served],
) -> None:
    settings = BrokerSettings(
        authentication=True, authorization=False, token_secret_key=SECRET_SETTING
    )
    served = own_broker(settings)
    assert send(served, "GET", "/admin/v2/tenants").status_code == 401
    assert send(served, "GET", "/admin/v2/tenants", token("anybody")).json() == ["public"]


@pytest.mark.parametrize(
    "path",
    [
        "/admin/v2/namespaces/other%2Ftable/ns",
        "/admin/v2/namespaces/other/..%2Ftable%2Fns",
        "/admin/v2/persistent/other/..%2F..%2Ftable%2Fns/t/stats",
        "/admin/v2/persistent/other%2F..%2Ftable/ns/t/stats",
        "/admin/v2//namespaces/table/ns",
        "/admin/v2/namespaces/table%00/ns",
        "/admin/v2/tenants/other/../table",
        "/admin/v2/tenants/other%2F..%2Ftable",
    ],
)
def test_tricks_in_paths_lead_nowhere(guarded: Served, path: str) -> None:
    """The admin of another tenant gets nothing of this one by writing its name oddly."""
    with httpx.Client() as client:
        request = client.build_request("GET", guarded.http_url)
        request.url = request.url.copy_with(raw_path=path.encode())
        request.headers["Authorization"] = f"Bearer {token('other-boss')}"
        answer = client.send(request)
    assert answer.status_code in (400, 403, 404, 412), answer.text
    assert "boss" not in answer.text.replace("other-boss", "")


def test_the_name_that_is_advertised_is_the_broker_s() -> None:
    async def receive() -> dict[str, object]:
        return {"type": "http.request"}

    headers = [(b"host", b"broker.example:8443")]
    request = Request({"type": "http", "method": "GET", "path": "/", "headers": headers}, receive)

    def check(advertised: str) -> None:
        server = BrokerServer(MemoryDisk(), Catalog, advertised_host=advertised)
        Admin(server, "https://0.0.0.0:8443").guard.check(request)

    check("broker.example")
    with pytest.raises(Refusal, match="not called"):
        check("")


# ---- Who is let in ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer nonsense",
        "Bearer a.b.c",
        "Bearer é",
        f"Bearer {token('root', exp=1)}",
        f"Bearer {token('root', nbf=1 << 40)}",
        f"Bearer {token('root', secret=OTHER_SECRET)}",
        f"Token {token('root')}",
        token("root"),
        "Basic cm9vdDpyb290",
    ],
)
def test_who_proves_nothing_is_turned_away(guarded: Served, header: str) -> None:
    answer = guarded.http.get(
        f"{guarded.http_url}/admin/v2/tenants",
        headers=[(b"Authorization", header.encode("latin-1"))],
    )
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert answer.json()["reason"]


def test_a_body_is_not_waited_for_before_it_is_known_who_sends_it(guarded: Served) -> None:
    url = httpx.URL(guarded.http_url)
    head = (
        f"PUT /admin/v2/tenants/new HTTP/1.1\r\nHost: {url.host}:{url.port}\r\n"
        "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
    )
    with socket.create_connection((url.host, url.port or 80), 30) as connection:
        connection.sendall(head.encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 401")


def test_no_token_is_told_to_the_log_or_to_callers(
    guarded: Served, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    texts = [
        token("secret-role", secret=OTHER_SECRET),
        token("secret-role", exp=1),
        "secret.secret.secret",
    ]
    told = [send(guarded, "GET", "/admin/v2/tenants", text).text for text in texts]
    client = connect(guarded, texts[0])
    with pytest.raises(pulsar.PulsarException):
        client.create_producer(TOPIC)
    client.close()
    told.append(guarded.call(lambda: caplog.text))
    assert "the token is not accepted" in told[-1]
    for line in told:
        assert "secret" not in line
        assert not [part for text in texts for part in text.split(".") if part in line]


def test_the_secret_is_not_shown_among_the_settings(guarded: Served) -> None:
    answer = send(guarded, "GET", "/admin/v2/brokers/configuration/runtime", token("root"))
    assert answer.json()["tokenSecretKey"] == answer.json()["token_secret_key"] == "*****"
    assert SECRET_SETTING[-40:] not in answer.text


# ---- Permissions ------------------------------------------------------------------------


def test_permissions_on_many_topics_are_granted_by_their_admins_alone(guarded: Served) -> None:
    guarded.call(lambda: guarded.broker.directory.put_permissions(N, Permissions()))
    path = "/admin/v2/namespaces"
    grants = [
        {"topic": TOPIC, "role": "me", "actions": ["consume"]},
        {"topic": f"{TOPIC}-2", "role": "you", "actions": ["produce"]},
    ]

    def post(verb: str, role: str, body: object) -> int:
        return send(guarded, "POST", f"{path}/{verb}", token(role), json=body).status_code

    def shown() -> object:
        answer = send(guarded, "GET", NAMESPACE, token("boss"))
        return answer.json()["auth_policies"]["destination_auth"]

    assert post("grantPermissionsOnTopics", "me", grants) == 403
    assert post("grantPermissionsOnTopics", "other-boss", grants) == 403
    bad = [grants[0], {"topic": TOPIC, "role": "you", "actions": ["fly"]}]
    assert post("grantPermissionsOnTopics", "boss", bad) == 400
    assert post("grantPermissionsOnTopics", "boss", [{"topic": TOPIC}]) == 400
    assert post("grantPermissionsOnTopics", "boss", {}) == 400
    assert shown() == {}
    assert post("grantPermissionsOnTopics", "boss", grants) == 204
    assert shown() == {TOPIC: {"me": ["consume"]}, f"{TOPIC}-2": {"you": ["produce"]}}
    assert post("revokePermissionsOnTopics", "me", grants) == 403
    assert post("revokePermissionsOnTopics", "boss", grants) == 204
    assert shown() == {}


def test_a_subscription_may_have_to_be_called_like_its_role(guarded: Served) -> None:
    permissions = Permissions(namespace={"me": ("consume",)})
    guarded.call(lambda: guarded.broker.directory.put_permissions(N, permissions))
    boss, mode = token("boss"), f"{NAMESPACE}/subscriptionAuthMode"
    peek = f"{T}/subscription/{{}}/position/1"

    def asked(subscription: str) -> int:
        return send(guarded, "GET", peek.format(subscription), token("me")).status_code

    assert asked("other") != 403
    assert send(guarded, "POST", mode, boss, json="Prefix").status_code == 204
    assert asked("other") == 403
    assert asked("me-1") != 403
    assert send(guarded, "POST", mode, boss, json="None").status_code == 204
    assert asked("other") != 403


def test_permissions_are_granted_shown_and_revoked(guarded: Served) -> None:
    boss = token("boss")
    guarded.call(lambda: guarded.broker.directory.put_permissions(N, Permissions()))
    path = f"{NAMESPACE}/permissions"
    topic = f"{T}/permissions"

    def post(where: str, body: object) -> int:
        return send(guarded, "POST", where, boss, json=body).status_code

    def shown(where: str) -> object:
        return send(guarded, "GET", where, boss).json()

    assert post(f"{path}/me", ["consume", "produce"]) == 204
    assert post(f"{path}/me", ["consume"]) == 204
    assert post(f"{topic}/me", ["skip"]) == 204
    assert post(f"{topic}/you", ["produce"]) == 204
    assert post(f"{path}/subscription/s", ["me", "you"]) == 204
    assert shown(path) == {"me": ["consume"]}
    assert shown(topic) == {"me": ["consume", "skip"], "you": ["produce"]}
    assert shown(f"{path}/subscription") == {"s": ["me", "you"]}
    assert send(guarded, "GET", NAMESPACE, boss).json()["auth_policies"] == {
        "namespace_auth": {"me": ["consume"]},
        "destination_auth": {TOPIC: {"me": ["skip"], "you": ["produce"]}},
        "subscription_auth_roles": {"s": ["me", "you"]},
    }
    assert send(guarded, "DELETE", f"{path}/me", boss).status_code == 204
    assert send(guarded, "DELETE", f"{topic}/you", boss).status_code == 204
    assert send(guarded, "DELETE", f"{topic}/you", boss).status_code == 204
    assert send(guarded, "DELETE", f"{path}/s/me", boss).status_code == 204
    assert shown(path) == {}
    assert shown(topic) == {"me": ["skip"]}
    assert shown(f"{path}/subscription") == {"s": ["you"]}


@pytest.mark.parametrize("body", ["produce", {"produce": True}, ["fly"], [7], 7, None])
def test_what_is_no_action_is_refused(guarded: Served, body: object) -> None:
    for where in (f"{NAMESPACE}/permissions/me", f"{T}/permissions/me"):
        answer = send(guarded, "POST", where, token("root"), json=body)
        assert answer.status_code == 400
        assert "produce, consume" in answer.json()["reason"]


def test_permissions_of_a_deleted_topic_are_gone(guarded: Served) -> None:
    root = token("root")
    topic = f"/admin/v2/persistent/{N}/short-lived"
    for path, body in ((topic, None), (f"{topic}/partitions", 2)):
        assert send(guarded, "PUT", path, root, json=body).status_code == 204
        granted = send(guarded, "POST", f"{topic}/permissions/heir", root, json=["consume"])
        assert granted.status_code == 204
        assert send(guarded, "DELETE", path, root).status_code == 204
        left = guarded.call(lambda: guarded.broker.directory.permissions_of(N).topics)
        assert f"persistent://{N}/short-lived" not in left


def test_a_client_is_closed_when_its_permission_goes(guarded: Served) -> None:
    boss = token("boss")
    where = f"{NAMESPACE}/permissions/worker"
    assert send(guarded, "POST", where, boss, json=["produce"]).status_code == 204
    client = connect(guarded, token("worker"))
    try:
        producer = client.create_producer(TOPIC, send_timeout_millis=2000)
        producer.send(b"allowed")
        with pytest.raises(pulsar.AuthorizationError):
            client.subscribe(TOPIC, "sub")
        assert send(guarded, "DELETE", where, boss).status_code == 204
        with pytest.raises(pulsar.PulsarException):
            producer.send(b"not any more")
    finally:
        client.close()
