"""Log-ins with a password: one check at a time, in turns, and remembered (I10)."""

import base64
import hashlib
from pathlib import Path

import pytest
from support.promised import promised
from support.world import START_MS, ManualHost, World

from magnetar.broker.auth.log_ins import CHECKS_MAX, CHECKS_OF_ONE_MAX, LogIns
from magnetar.broker.auth.password import Passwords, read_passwords
from magnetar.broker.auth.roles import Authentication
from magnetar.broker.auth.token import TokenRules
from magnetar.broker.setting.settings import BrokerSettings
from magnetar.broker.shell.proof_files import ProofFiles
from magnetar.broker.turn.slices import TOLD_AT_ONCE
from magnetar.errors import BrokerError, SettingsError
from magnetar.model import ServerError
from magnetar.protocol import encode
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.storage import MemoryDisk

KEY = bytes(32)


def users(**passwords: str) -> Passwords:
    """Those with these passwords, kept in the way that is checked fastest."""
    lines = []
    for name, password in passwords.items():
        digest = base64.b64encode(hashlib.sha1(password.encode()).digest()).decode()
        lines.append(f"{name}:{{SHA}}{digest}")
    return read_passwords("f", "\n".join(lines))


class Door:
    """Log-ins, and a host whose threads run when the test says so."""

    def __init__(self, passwords: Passwords) -> None:
        self.host = ManualHost(MemoryDisk(), START_MS)
        self.log_ins = LogIns(passwords, KEY)

    def prove(self, pair: str, address: str = "a") -> "list[str]":
        """What becomes of a log-in: nothing yet, or a name, or an error."""
        told: list[str] = []
        self.log_ins.prove(pair.encode(), address, self.host).then(
            lambda user: told.append(user.name), lambda error: told.append(str(error))
        )
        return told

    def run(self) -> None:
        """The check that is on its way ends, and all hear of it."""
        self.end_check()
        while self.host.soon:
            self.host.soon.popleft()()

    def end_check(self) -> None:
        """What the end of the check does in one event."""
        self.host.reads.popleft()()

    @property
    def running(self) -> int:
        return len(self.host.reads)


def test_the_right_password_is_checked_once_and_remembered() -> None:
    door = Door(users(me="secret"))
    first = door.prove("me:secret")
    assert (first, door.running) == ([], 1)
    door.run()
    assert first == ["me"]
    assert door.prove("me:secret") == ["me"]
    assert door.running == 0


def test_a_wrong_password_is_not_told_from_an_unknown_user() -> None:
    door = Door(users(me="secret"))
    wrong, unknown = door.prove("me:guess"), door.prove("you:guess")
    door.run()
    door.run()
    assert wrong == unknown
    assert "unknown user or invalid password" in wrong[0]
    # And is not remembered either way.
    assert door.prove("me:guess") == []
    assert door.running == 1


def test_one_check_is_for_all_who_wait_for_it() -> None:
    door = Door(users(me="secret"))
    told = [door.prove("me:secret", f"address {i}") for i in range(CHECKS_MAX * 2)]
    assert door.running == 1
    door.run()
    assert told == [["me"]] * (CHECKS_MAX * 2)
    assert door.running == 0


def test_a_crowd_that_waits_for_one_check_hears_of_it_a_few_at_a_time() -> None:
    door = Door(users(me="secret"))
    told = [door.prove("me:guess", f"address {i}") for i in range(CHECKS_MAX * 2)]
    door.end_check()
    assert sum(map(len, told)) == TOLD_AT_ONCE
    door.host.soon.popleft()()
    assert sum(map(len, told)) == 2 * TOLD_AT_ONCE


def test_a_password_that_changes_while_a_crowd_hears_of_it_lets_no_more_of_them_in() -> None:
    door = Door(users(me="secret"))
    told = [door.prove("me:secret", f"address {i}") for i in range(TOLD_AT_ONCE + 1)]
    door.end_check()
    door.log_ins.passwords = users(me="other")
    door.host.soon.popleft()()
    assert told[:-1] == [["me"]] * TOLD_AT_ONCE
    assert "unknown user" in told[-1][0]


def test_addresses_have_their_turn_one_after_the_other() -> None:
    door = Door(users(me="secret"))
    guesses = [door.prove(f"me:{i}", "attacker") for i in range(CHECKS_OF_ONE_MAX)]
    mine = door.prove("me:secret", "elsewhere")
    assert door.running == 1
    door.run()  # the one that was on its way
    door.run()
    if mine == []:
        door.run()
    assert mine == ["me"]
    assert sum(map(len, guesses)) <= 2


def test_who_asks_for_too_much_is_refused_at_once_and_others_are_not() -> None:
    door = Door(users(me="secret"))
    guesses = [door.prove(f"me:{i}", "attacker") for i in range(CHECKS_OF_ONE_MAX + 5)]
    refused = [told for told in guesses if told]
    assert len(refused) == 4  # one runs, and sixteen wait
    assert all("too many passwords" in told[0] for told in refused)
    assert door.prove("me:secret", "elsewhere") == []


def test_there_is_a_limit_for_all_and_it_does_not_hurt_who_was_proved() -> None:
    door = Door(users(me="secret"))
    known = door.prove("me:secret")
    door.run()
    assert known == ["me"]
    for i in range(CHECKS_MAX):
        assert door.prove(f"me:{i}", f"address {i}") == []
    (refused,) = door.prove("me:again", "one more")
    assert "too many passwords" in refused
    assert door.prove("me:secret", "one more") == ["me"]


@pytest.mark.parametrize("pair", ["", "me", "m\u00e9" * 600 + ":x"])
def test_what_is_no_pair_costs_no_check(pair: str) -> None:
    door = Door(users(me="secret"))
    (refused,) = door.prove(pair)
    assert "written user:password" in refused
    assert door.running == 0


def test_what_is_not_utf_8_is_refused() -> None:
    log_ins = LogIns(users(me="secret"), KEY)
    with pytest.raises(BrokerError, match="not UTF-8") as caught:
        promised(log_ins.prove(b"\xff:x", "a", ManualHost(MemoryDisk(), START_MS)))
    assert caught.value.code == ServerError.AuthenticationError


def test_a_password_that_changed_is_forgotten_even_while_it_is_checked() -> None:
    door = Door(users(me="secret"))
    door.prove("me:secret")
    door.run()
    late = door.prove("me:secret ", "b")
    door.log_ins.passwords = users(me="other")
    assert door.prove("me:secret") == []
    door.run()
    door.run()
    assert "unknown user" in late[0]
    fresh = door.prove("me:other")
    door.run()
    assert fresh == ["me"]


# ---- The session ---------------------------------------------------------------------------


def world() -> World:
    log_ins = LogIns(users(me="secret", you="secret"), KEY)
    return World(
        authentication=Authentication(None, TokenRules(), log_ins=log_ins),
        super_user_roles=("me",),
    )


def test_a_session_waits_for_its_proof_and_hears_nothing_else() -> None:
    w = world()
    w.hold_reads()
    client = w.connect(greet=False)
    connect = pb.CommandConnect(
        client_version="c", protocol_version=21, auth_method_name="basic", auth_data=b"me:secret"
    )
    lookup = pb.CommandLookupTopic(topic="t", request_id=7, authoritative=False)
    client.say_bytes(bytes(encode(connect)) + bytes(encode(lookup)))
    w.settle()
    assert client.received == []
    w.release_reads()
    kinds = [type(command).__name__ for command in client.received]
    assert kinds == ["CommandConnected", "CommandLookupTopicResponse"]


def test_who_hangs_up_while_it_is_checked_leaves_nothing() -> None:
    w = world()
    w.hold_reads()
    client = w.connect(greet=False)
    client.say_bytes(
        encode(
            pb.CommandConnect(
                client_version="c",
                protocol_version=21,
                auth_method_name="basic",
                auth_data=b"me:secret",
            )
        )
    )
    client.session.lost()
    w.release_reads()
    assert client.received == []
    assert w.host.warnings == []


def test_a_wrong_password_is_refused_and_logged_once_in_a_while() -> None:
    w = world()
    for _ in range(3):
        client = w.connect(greet=False)
        client.say_bytes(
            encode(
                pb.CommandConnect(
                    client_version="c",
                    protocol_version=21,
                    auth_method_name="basic",
                    auth_data=b"me:guess",
                )
            )
        )
        w.settle()
        (refused,) = client.received
        assert isinstance(refused, pb.CommandError)
        assert refused.error == ServerError.AuthenticationError
        assert client.hung_up
    assert len(w.host.warnings) == 1
    assert "guess" not in w.host.warnings[0]
    assert w.broker.refused_log_ins.count == 3


def test_a_user_who_is_taken_out_of_the_file_is_hung_up_on() -> None:
    w = world()
    authentication = w.broker.authentication
    assert authentication is not None
    assert authentication.log_ins is not None
    me = w.connect(auth_method_name="basic", auth_data=b"me:secret")
    you = w.connect(auth_method_name="basic", auth_data=b"you:secret")
    authentication.log_ins.passwords = users(me="secret", you="changed")
    for client in (me, you):
        client.session.check_revoked()
    assert (me.hung_up, you.hung_up) == (False, True)


def test_a_second_answer_before_the_first_was_looked_at_ends_the_session() -> None:
    w = world()
    client = w.connect(auth_method_name="basic", auth_data=b"me:secret")
    w.hold_reads()
    for guess in (b"me:1", b"me:2"):
        data = pb.AuthData(auth_method_name="basic", auth_data=guess)
        client.say(pb.CommandAuthResponse(response=data, protocol_version=21))
    assert client.hung_up
    w.release_reads()


# ---- The file ------------------------------------------------------------------------------


def test_a_file_that_changes_is_read_again_and_a_bad_one_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "users"
    file.write_text("me:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n")
    files = ProofFiles(BrokerSettings(authentication=True, basic_auth_file=f"file:{file}"))
    assert files.may_change
    door = files.authentication()
    assert door.log_ins is not None
    assert not files.refresh(door)
    file.write_text("nonsense\n")
    assert not files.refresh(door)
    assert len(door.log_ins.passwords) == 1
    file.write_text("me:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\nyou:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n")
    assert files.refresh(door)
    assert door.log_ins.passwords.check("you", b"secret")


def test_users_in_the_setting_itself() -> None:
    line = base64.b64encode(b"me:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n").decode()
    settings = BrokerSettings(authentication=True, basic_auth_file=f"data:;base64,{line}")
    files = ProofFiles(settings)
    assert not files.may_change
    door = files.authentication()
    assert door.log_ins is not None
    assert door.log_ins.passwords.check("me", b"secret")


def test_a_file_that_is_not_there_is_told_by_its_setting(tmp_path: Path) -> None:
    settings = BrokerSettings(authentication=True, basic_auth_file=str(tmp_path / "none"))
    with pytest.raises(SettingsError, match="basic_auth_file"):
        ProofFiles(settings).authentication()
