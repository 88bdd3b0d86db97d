"""WebSockets in Pulsar's form, by a client that nobody here wrote."""

import base64
import json
import ssl
from collections.abc import Iterator
from typing import Any

import pulsar
import pytest
from support.served import Served
from support.tokens import SECRET_SETTING, Issuer, token
from support.waiting import wait_until
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from magnetar.broker.auth.permissions import Permissions
from magnetar.broker.setting.settings import BrokerSettings
from magnetar.broker.shell.server import BrokerServer
from magnetar.errors import SettingsError
from magnetar.storage import Catalog, MemoryDisk
from magnetar.websocket.service import WebSocketService

N = "public/default"
WAIT_S = 30


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    served = Served(BrokerSettings(websocket=True, message_size_max=100_000))
    served.start()
    yield served
    served.stop()


@pytest.fixture
def topic(served: Served) -> str:
    return f"{served.namespace()}/t"


def open_at(served: Served, path: str, **options: Any) -> ClientConnection:
    url = served.http_url.replace("http", "ws", 1)
    found: ClientConnection = connect(
        f"{url}/ws/v2/{path}", open_timeout=WAIT_S, proxy=None, **options
    )
    return found


def hear(socket: ClientConnection) -> Any:
    return json.loads(socket.recv(WAIT_S))


def say(socket: ClientConnection, **fields: object) -> None:
    socket.send(json.dumps(fields))


def encoded(text: bytes) -> str:
    return base64.b64encode(text).decode()


def send(socket: ClientConnection, text: bytes, **fields: object) -> Any:
    say(socket, payload=encoded(text), **fields)
    return hear(socket)


def status_of(served: Served, path: str, **options: Any) -> tuple[int, str]:
    with pytest.raises(InvalidStatus) as caught, open_at(served, path, **options):
        pass
    body = caught.value.response.body or b""
    return caught.value.response.status_code, body.decode()


# ---- Producers, consumers and readers --------------------------------------------------------


def test_what_is_produced_is_consumed(served: Served, topic: str) -> None:
    with (
        open_at(served, f"consumer/persistent/{topic}/s") as consumer,
        open_at(served, f"producer/persistent/{topic}") as producer,
    ):
        answer = send(
            producer,
            b"one",
            key="k",
            properties={"a": "\u00e4"},
            context="c1",
            eventTime="1700000000007",
        )
        assert (answer["result"], answer["context"]) == ("ok", "c1")
        got = hear(consumer)
        assert got["messageId"]
        assert got["payload"] == encoded(b"one")
        assert (got["key"], got["properties"]) == ("k", {"a": "\u00e4"})
        assert got["redeliveryCount"] == 0
        assert got["eventTime"] == "2023-11-14T22:13:20.007Z"
        assert got["publishTime"].endswith("Z")
        say(consumer, messageId=got["messageId"])
        wait_until(lambda: backlog(served, topic, "s") == 0)


def backlog(served: Served, topic: str, subscription: str) -> int:
    stats = served.http.get(f"/persistent/{topic}/stats").json()
    found: int = stats["subscriptions"][subscription]["msgBacklog"]
    return found


def test_ids_and_messages_are_those_of_other_clients(served: Served, topic: str) -> None:
    with served.client() as client, open_at(served, f"producer/persistent/{topic}") as producer:
        consumer = client.subscribe(f"persistent://{topic}", "s")
        answer = send(producer, b"one")
        message = consumer.receive(WAIT_S * 1000)
        assert message.data() == b"one"
        mine = pulsar.MessageId.deserialize(base64.b64decode(answer["messageId"]))
        assert mine.entry_id() == message.message_id().entry_id()
        with open_at(served, f"reader/persistent/{topic}?messageId=earliest") as reader:
            client.create_producer(f"persistent://{topic}").send(b"two", properties={"p": "q"})
            assert [hear(reader)["payload"] for _ in range(2)] == [encoded(b"one"), encoded(b"two")]


def test_answers_come_in_the_order_of_the_messages(served: Served, topic: str) -> None:
    with open_at(served, f"producer/persistent/{topic}") as producer:
        for number in range(2500):
            text = encoded(b"x") if number % 100 else "no base64!"
            say(producer, payload=text, context=str(number))
        answers = [hear(producer) for _ in range(2500)]
    assert [answer["context"] for answer in answers] == [str(number) for number in range(2500)]
    failed = [answer for answer in answers if answer["result"] != "ok"]
    assert len(failed) == 25
    assert failed[0]["result"] == "send-error:3"
    assert "not base64" in failed[0]["errorMsg"]


FAR = '{"payload": "", "deliverAfter": 4611686018427387904}'


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"payload": 7}', '{"properties": 7}', "7", FAR, '{"deliverAt": -1}']
)
def test_what_is_no_message_is_answered_with_an_error(
    served: Served, topic: str, text: str
) -> None:
    with open_at(served, f"producer/persistent/{topic}") as producer:
        producer.send(text)
        answer = hear(producer)
        assert (answer["result"], answer["errorCode"]) == ("send-error:3", 3)
        assert send(producer, b"fine")["result"] == "ok"


def test_a_message_that_is_too_large_fails_alone(served: Served, topic: str) -> None:
    with open_at(served, f"producer/persistent/{topic}") as producer:
        answer = send(producer, b"x" * 120_000, context="large")
        assert (answer["result"], answer["context"]) == ("send-error:2", "large")
        assert "MessageTooBig" in answer["errorMsg"]
        assert send(producer, b"fine")["result"] == "ok"


def test_a_text_beyond_the_limit_ends_the_websocket(served: Served, topic: str) -> None:
    with open_at(served, f"producer/persistent/{topic}") as producer:
        producer.send("x" * 300_000)
        with pytest.raises(ConnectionClosed) as caught:
            producer.recv(WAIT_S)
        assert caught.value.rcvd is not None
        assert caught.value.rcvd.code == 1009


def test_negative_acks_bring_a_message_again(served: Served, topic: str) -> None:
    path = f"consumer/persistent/{topic}/s?subscriptionType=Shared&negativeAckRedeliveryDelay=100"
    with open_at(served, path) as consumer:
        served.publish(f"persistent://{topic}", 1)
        first = hear(consumer)
        say(consumer, type="negativeAcknowledge", messageId=first["messageId"])
        again = hear(consumer)
        assert again["messageId"] == first["messageId"]
        assert again["redeliveryCount"] == 1


def silent(socket: ClientConnection) -> bool:
    """Whether nothing comes though everything before it has: a ping is answered in between."""
    assert socket.ping().wait(WAIT_S)
    try:
        socket.recv(0.2)
    except TimeoutError:
        return True
    return False


def test_a_peer_has_as_many_messages_as_its_queue(served: Served, topic: str) -> None:
    path = f"consumer/persistent/{topic}/s?receiverQueueSize=3&subscriptionInitialPosition=Earliest"
    served.publish(f"persistent://{topic}", 10)
    with open_at(served, path) as consumer:
        got = [hear(consumer) for _ in range(3)]
        assert silent(consumer)
        say(consumer, messageId=got[0]["messageId"])
        assert hear(consumer)["messageId"] not in [one["messageId"] for one in got]


def test_who_pulls_gets_what_it_asks_for(served: Served, topic: str) -> None:
    path = f"consumer/persistent/{topic}/s?pullMode=true&subscriptionInitialPosition=Earliest"
    served.publish(f"persistent://{topic}", 10)
    with open_at(served, path) as consumer:
        assert silent(consumer)
        say(consumer, type="permit", permitMessages=4)
        got = [hear(consumer) for _ in range(4)]
        say(consumer, messageId=got[0]["messageId"])
        assert silent(consumer)


def test_a_reader_goes_on_as_its_peer_reads(served: Served, topic: str) -> None:
    served.publish(f"persistent://{topic}", 5)
    with open_at(
        served, f"reader/persistent/{topic}?messageId=earliest&receiverQueueSize=2"
    ) as reader:
        got = [hear(reader) for _ in range(2)]
        assert silent(reader)
        for one in got:
            say(reader, messageId=one["messageId"])
        rest = [hear(reader) for _ in range(2)]
    payloads = [base64.b64decode(one["payload"]) for one in [*got, *rest]]
    assert payloads == [b"message %d" % number for number in range(4)]
    with open_at(served, f"reader/persistent/{topic}?messageId={got[1]['messageId']}") as reader:
        assert base64.b64decode(hear(reader)["payload"]) == b"message 2"


def test_unsubscribe_ends_the_subscription_and_the_websocket(served: Served, topic: str) -> None:
    with open_at(served, f"consumer/persistent/{topic}/s") as consumer:
        say(consumer, type="unsubscribe")
        with pytest.raises(ConnectionClosed):
            consumer.recv(WAIT_S)
    subscriptions = served.http.get(f"/persistent/{topic}/subscriptions").json()
    assert subscriptions == []


@pytest.mark.parametrize(
    "text", ["", "{", '{"type": "fly"}', '{"messageId": "!"}', '{"permitMessages": -1}', "{}"]
)
def test_nonsense_of_a_consumer_ends_its_websocket(served: Served, topic: str, text: str) -> None:
    with open_at(served, f"consumer/persistent/{topic}/s") as consumer:
        consumer.send(text)
        with pytest.raises(ConnectionClosed) as caught:
            consumer.recv(WAIT_S)
        assert caught.value.rcvd is not None
        assert caught.value.rcvd.code == 1003
        assert caught.value.rcvd.reason


def test_who_leaves_leaves_nothing_behind(served: Served, topic: str) -> None:
    before = served.call(lambda: served.broker.sessions)
    for _ in range(5):
        with (
            open_at(served, f"consumer/persistent/{topic}/s") as consumer,
            open_at(served, f"producer/persistent/{topic}") as producer,
        ):
            assert send(producer, b"x")["result"] == "ok"
            hear(consumer)
        wait_until(lambda: served.call(lambda: served.broker.sessions) == before)
    limits = served.server.http_limits
    wait_until(lambda: served.call(lambda: limits.count) <= 1)  # httpx keeps one


# ---- What is odd -------------------------------------------------------------------------------


def test_a_time_that_no_calendar_has_is_told_as_the_last_that_has_one(
    served: Served, topic: str
) -> None:
    with served.client() as client:
        producer = client.create_producer(f"persistent://{topic}")
        producer.send(b"one", event_timestamp=1 << 60)
        producer.send(b"two")
    with open_at(served, f"reader/persistent/{topic}?messageId=earliest") as reader:
        assert hear(reader)["eventTime"] == "9999-12-31T23:59:59.999Z"
        assert hear(reader)["payload"] == encoded(b"two")


def test_very_much_beside_a_payload_is_refused(served: Served, topic: str) -> None:
    properties = {f"{number:05}": "x" for number in range(7000)}
    with open_at(served, f"producer/persistent/{topic}") as producer:
        answer = send(producer, b"x", properties=properties)
        assert (answer["result"], answer["errorCode"]) == ("send-error:3", 3)
        assert "beside the payload: at most 65536 are taken" in answer["errorMsg"]
        assert send(producer, b"x" * 90_000, properties={"k": "v"})["result"] == "ok"


def test_frames_by_the_thousand_are_handled_in_their_order(served: Served, topic: str) -> None:
    with open_at(served, f"producer/persistent/{topic}") as producer:
        payload = encoded(b"in pieces")
        pings = []
        for number in range(3):
            text = f'{{"payload": "{payload}", "context": "{number}"}}'
            producer.send(iter(text))  # a frame for each character
            pings += [producer.ping() for _ in range(300)]
        assert [hear(producer)["context"] for _ in range(3)] == ["0", "1", "2"]
        assert all(ping.wait(WAIT_S) for ping in pings)


# ---- What is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "status", "reason"),
    [
        ("producer/persistent/public/default", 404, "no WebSocket at"),
        ("consumer/persistent/public/default/t", 404, "no WebSocket at"),
        ("producer/else/public/default/t", 404, "no WebSocket at"),
        ("dancer/persistent/public/default/t", 404, "no WebSocket at"),
        ("producer/persistent/nobody/default/t", 404, "nobody"),
        ("producer/persistent/public/default/t?batching=true", 400, "no parameter 'batching'"),
        ("producer/persistent/public/default/t?batchingEnabled=yes", 400, "neither true nor"),
        ("producer/persistent/public/default/t?maxPendingMessages=-1", 400, "no number"),
        (f"producer/persistent/public/default/t?maxPendingMessages={'9' * 5000}", 400, "no number"),
        ("consumer/persistent/public/default/t/s?subscriptionType=All", 400, "none of Exclusive"),
        ("consumer/persistent/public/default/t/s?ackTimeoutMillis=5", 400, "too little"),
        ("reader/persistent/public/default/t?messageId=x", 400, "neither earliest, latest"),
        ("producer/persistent/public/default/%FF", 400, "not UTF-8"),
        ("producer/persistent/public//t", 400, "invalid topic name"),
    ],
)
def test_what_is_refused_says_why(served: Served, path: str, status: int, reason: str) -> None:
    found, said = status_of(served, path)
    assert (found, reason in said) == (status, True), said


def test_a_consumer_that_is_alone_stays_alone(served: Served, topic: str) -> None:
    with open_at(served, f"consumer/persistent/{topic}/s"):
        status, _ = status_of(served, f"consumer/persistent/{topic}/s")
        assert status == 409


def test_a_page_of_another_site_gets_none(served: Served, topic: str) -> None:
    path = f"producer/persistent/{topic}"
    status, said = status_of(served, path, origin="https://evil.example")
    assert (status, "another site" in said) == (403, True)
    with open_at(served, path, origin=served.http_url) as producer:
        assert send(producer, b"x")["result"] == "ok"


def test_without_the_setting_there_are_none() -> None:
    served = Served()
    served.start()
    try:
        status, _ = status_of(served, "producer/persistent/public/default/t")
        assert status == 404
    finally:
        served.stop()


# ---- Roles -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded() -> Iterator[Served]:
    served = Served(
        BrokerSettings(
            websocket=True,
            authentication=True,
            token_secret_key=SECRET_SETTING,
            super_user_roles=("root",),
        )
    )
    served.start()
    permissions = Permissions().with_namespace("worker", ("produce",))
    served.call(lambda: served.broker.directory.put_permissions(N, permissions))
    yield served
    served.stop()


def test_roles_are_those_of_other_clients(guarded: Served) -> None:
    producer, consumer = f"producer/persistent/{N}/t", f"consumer/persistent/{N}/t/s"
    header = {"Authorization": f"Bearer {token('worker')}"}
    with open_at(guarded, producer, additional_headers=header) as socket:
        assert send(socket, b"x")["result"] == "ok"
    with open_at(guarded, f"{producer}?token={token('worker')}") as socket:
        assert send(socket, b"x")["result"] == "ok"
    assert status_of(guarded, consumer, additional_headers=header)[0] == 403
    for headers in ({}, {"Authorization": "Bearer x"}, {"Authorization": "Odd x"}):
        assert status_of(guarded, producer, additional_headers=headers)[0] == 401


def test_a_stranger_gets_no_connection_and_is_counted(guarded: Served) -> None:
    def facts() -> tuple[int, int]:
        return guarded.broker.refused_log_ins.count, guarded.server._limits.count

    before = guarded.call(facts)
    status, said = status_of(guarded, f"producer/persistent/{N}/t?token=x")
    assert (status, "not accepted" in said) == (401, True), said
    assert guarded.call(facts) == (before[0] + 1, before[1])


def test_a_proxy_opens_no_websocket_with_its_own_rights_for_others(guarded: Served) -> None:
    headers = {"Authorization": f"Bearer {token('root')}", "X-Original-Principal": "worker"}
    path = f"producer/persistent/{N}/t"
    status, said = status_of(guarded, path, additional_headers=headers)
    assert (status, "speak for somebody behind a proxy" in said) == (403, True), said


def test_a_right_that_is_taken_away_ends_what_it_allowed(guarded: Served) -> None:
    directory = guarded.broker.directory
    path = f"producer/persistent/{N}/t?token={token('worker')}&sendTimeoutMillis=500"
    with open_at(guarded, path) as socket:
        assert send(socket, b"x")["result"] == "ok"

        def revoke() -> None:
            directory.put_permissions(N, Permissions())
            guarded.broker.permissions_changed(N)

        before = guarded.call(lambda: directory.permissions_of(N))
        guarded.call(revoke)
        say(socket, payload=encoded(b"x"))
        # The client looks for its way back until the time of the message is over.
        answer = hear(socket)
        assert answer["result"] == "send-error:2"
        assert "Timeout" in answer["errorMsg"]
        guarded.call(lambda: directory.put_permissions(N, before))


# ---- TLS ---------------------------------------------------------------------------------------


def test_over_tls(tmp_path: Any) -> None:
    issuer = Issuer(tmp_path)
    certificate, key = issuer.issue("broker")
    served = Served(
        BrokerSettings(websocket=True, tls_certificate_file=certificate, tls_key_file=key)
    )
    served.start()
    try:
        context = ssl.create_default_context(cafile=str(issuer.certificate))
        url = served.http_url_tls.replace("https", "wss", 1)
        path = f"{url}/ws/v2/producer/persistent/{N}/t"
        with connect(path, ssl=context, proxy=None) as producer:
            assert send(producer, b"x")["result"] == "ok"
    finally:
        served.stop()


def test_a_broker_that_only_certificates_can_reach_says_so(tmp_path: Any) -> None:
    issuer = Issuer(tmp_path)
    certificate, key = issuer.issue("broker")
    settings = BrokerSettings(
        websocket=True,
        tls_certificate_file=certificate,
        tls_key_file=key,
        tls_trust_certs_file=str(issuer.certificate),
        tls_require_client_certificate=True,
    )
    server = BrokerServer(MemoryDisk(), Catalog, settings, port=None, tls_port=0)
    with pytest.raises(SettingsError, match="cannot pass one on"):
        WebSocketService(server)
