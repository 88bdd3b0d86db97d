"""Tokens that are taken back before they end, at the door and inside."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pulsar
import pytest
from support.promised import promised
from support.served import Served
from support.tokens import SECRET_SETTING, by_secret, token
from support.waiting import wait_until
from support.world import START_MS, ManualHost, World

from magnetar.broker.auth.revoked import read_revoked
from magnetar.broker.auth.roles import Authentication, Principal, Proof
from magnetar.broker.promise import Promise
from magnetar.broker.setting.settings import BrokerSettings
from magnetar.broker.shell.key_source import RevokedFile
from magnetar.errors import BrokerError, SettingsError
from magnetar.model import ServerError
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.storage import MemoryDisk

# ---- The file --------------------------------------------------------------------------


def test_a_file_names_tokens_and_roles() -> None:
    revoked = read_revoked("f", "# of May\n\n  jti one two \nrole worker\nrole jti\n\tjti x#y\n")
    assert revoked.has("anybody", "one two")
    assert revoked.has("anybody", "x#y")
    assert revoked.has("worker", "")
    assert revoked.has("jti", "other")
    assert not revoked.has("anybody", "")
    assert not revoked.has("one two", "worker")


@pytest.mark.parametrize("line", ["worker", "sub worker", "jti", "role  ", "jti\tx", "ROLE x"])
def test_a_line_that_names_nobody_is_told_by_its_number(line: str) -> None:
    with pytest.raises(SettingsError, match="line 2 ") as caught:
        read_revoked("token_revoked_file", f"role a\n{line}\n")
    assert caught.value.key == "token_revoked_file"


def test_a_file_that_cannot_be_used_takes_nothing_back_and_gives_nothing_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "revoked"
    with pytest.raises(SettingsError, match="cannot read"):
        RevokedFile(str(path)).read()
    path.write_text("role a\n")
    file = RevokedFile(str(path))
    assert file.changed() is None
    for bad in (b"nonsense\n", b"\xff\xfe"):
        path.write_bytes(bad)
        assert file.changed() is None
        assert "not taken" in caplog.text
        caplog.clear()
        assert file.changed() is None
        assert not caplog.text  # told once
    path.unlink()
    assert file.changed() is None
    path.write_text("role b\n")
    found = file.changed()
    assert found is not None
    assert (found.has("a", ""), found.has("b", "")) == (False, True)


HOST = ManualHost(MemoryDisk(), START_MS)


def by_command(
    door: Authentication, method: str, data: bytes, certificate_role: str = ""
) -> Promise[Principal]:
    return door.by_command(Proof(method, data, certificate_role, "127.0.0.1"), HOST)


# ---- The door --------------------------------------------------------------------------


def test_who_is_taken_back_is_refused_by_token_alone() -> None:
    door = by_secret(certificates=True)
    door.revoked = read_revoked("f", "jti spent\nrole worker\n")
    for text in (token("a", jti="spent"), token("worker"), token("worker", jti="fresh")):
        with pytest.raises(BrokerError, match="taken back") as caught:
            promised(by_command(door, "token", text.encode()))
        assert caught.value.code == ServerError.AuthenticationError
        assert text not in str(caught.value)
        with pytest.raises(BrokerError, match="taken back"):
            promised(door.by_header(f"Bearer {text}", "", "127.0.0.1", HOST))
    for text in (token("a"), token("a", jti="fresh"), token("a", jti=17), token("spent")):
        assert promised(by_command(door, "token", text.encode())).role in ("a", "spent")
    # A certificate is no token, and has a list of its own: that of its issuer.
    assert promised(by_command(door, "tls", b"", "worker")).role == "worker"


def test_a_refresh_does_not_bring_a_token_back() -> None:
    door = by_secret()
    world = World(authentication=door, super_user_roles=("a",))
    client = world.connect(auth_method_name="token", auth_data=token("a", jti="1").encode())
    other = world.connect(auth_method_name="token", auth_data=token("a", jti="2").encode())
    client.producer("t")
    door.revoked = read_revoked("f", "jti 1\n")
    for one in (client, other):
        one.session.check_revoked()
    world.settle()
    assert [one.hung_up for one in (client, other)] == [True, False]
    other.producer("u")
    data = pb.AuthData(auth_method_name="token", auth_data=token("a", jti="1").encode())
    other.say(pb.CommandAuthResponse(response=data))
    assert other.hung_up
    world.close()


# ---- As it is served -------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "revoked"
    path.write_text("# nobody yet\n")
    return path


@pytest.fixture
def served(file: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setattr("magnetar.broker.shell.server.REVOKED_SECONDS", 0.05)
    served = Served(
        BrokerSettings(
            authentication=True,
            token_secret_key=SECRET_SETTING,
            super_user_roles=("root", "spare"),
            token_revoked_file=str(file),
        )
    )
    served.start()
    yield served
    served.stop()


def test_a_line_in_the_file_ends_connections_and_refuses_new_ones(
    served: Served, file: Path
) -> None:
    spent, fresh = token("root", jti="spent"), token("root", jti="fresh")

    def status(text: str) -> int:
        headers = {"Authorization": f"Bearer {text}"}
        return httpx.get(f"{served.http_url}/admin/v2/tenants", headers=headers).status_code

    given = [spent]
    client = pulsar.Client(served.url, authentication=pulsar.AuthenticationToken(lambda: given[0]))
    try:
        producer = client.create_producer("t", send_timeout_millis=20_000)
        first = producer.send(b"before")
        assert (status(spent), status(fresh)) == (200, 200)
        connections = served.call(lambda: served.broker.sessions)
        given[0] = fresh
        file.write_text("jti spent\n")
        wait_until(lambda: status(spent) == 401)
        assert status(fresh) == 200
        # It came back by itself, with what it has now.
        assert producer.send(b"after").entry_id() == first.entry_id() + 1
        assert served.call(lambda: served.broker.sessions) <= connections
    finally:
        client.close()
    again = pulsar.Client(
        served.url, authentication=pulsar.AuthenticationToken(spent), operation_timeout_seconds=1
    )
    with pytest.raises(pulsar.PulsarException):
        again.create_producer("t")
    again.close()
    file.write_text("role root\n")
    wait_until(lambda: status(fresh) == 401)
    assert status(token("spare")) == 200


def test_a_broker_does_not_start_without_the_file_that_it_is_told_of(tmp_path: Path) -> None:
    settings = BrokerSettings(
        authentication=True,
        token_secret_key=SECRET_SETTING,
        token_revoked_file=str(tmp_path / "absent"),
    )
    served = Served(settings)
    served._thread.start()
    try:
        with pytest.raises(SettingsError, match="token_revoked_file: cannot read"):
            served.run(served._start())
    finally:
        served._loop.call_soon_threadsafe(served._loop.stop)
        served._thread.join()
        served._loop.close()
