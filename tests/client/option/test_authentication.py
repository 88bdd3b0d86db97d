"""Who a client says it is, and where it writes its log."""

import logging
from typing import Any

import pulsar
import pytest

from magnetar.client.option.authentication import (
    Authentication,
    AuthenticationAthenz,
    AuthenticationBasic,
    AuthenticationOauth2,
    AuthenticationTLS,
    AuthenticationToken,
)
from magnetar.client.option.logger import ConsoleLogger, FileLogger, LoggerLevel
from magnetar.errors import (
    AlreadyClosed,
    ErrorGettingAuthenticationData,
    OperationNotSupported,
    SettingsError,
)

JSON = '{"username": "me", "password": "secret", "method": "own"}'


@pytest.mark.parametrize(
    ("ours", "theirs", "data"),
    [
        (AuthenticationToken("abc"), pulsar.AuthenticationToken("abc"), b"abc"),
        (AuthenticationToken(lambda: "ä"), pulsar.AuthenticationToken(lambda: "ä"), "ä".encode()),
        (AuthenticationBasic("a", "b"), pulsar.AuthenticationBasic("a", "b"), b"a:b"),
        (AuthenticationBasic("a", "b", "m"), pulsar.AuthenticationBasic("a", "b", "m"), b"a:b"),
        (
            AuthenticationBasic(auth_params_string=JSON),
            pulsar.AuthenticationBasic(auth_params_string=JSON),
            b"me:secret",
        ),
        (AuthenticationTLS("c", "k"), pulsar.AuthenticationTLS("c", "k"), b""),
        (Authentication("token", "abc"), pulsar.Authentication("token", "abc"), b"abc"),
        (Authentication("basic", JSON), pulsar.Authentication("basic", JSON), b"me:secret"),
        (
            Authentication("tls", "tlsCertFile:c,tlsKeyFile:k"),
            pulsar.Authentication("tls", "tlsCertFile:c,tlsKeyFile:k"),
            b"",
        ),
    ],
)
def test_methods_have_the_official_names(ours: Authentication, theirs: Any, data: bytes) -> None:
    assert ours.method == theirs.auth.getAuthMethodName()
    assert ours.data() == data
    assert "secret" not in repr(ours)


def test_tls_says_where_its_files_are() -> None:
    java = "org.apache.pulsar.client.impl.auth.AuthenticationTls"
    for tls in (AuthenticationTLS("c", "k"), Authentication(java, "tlsCertFile:c,tlsKeyFile:k")):
        assert (tls.certificate_path, tls.private_key_path) == ("c", "k")
    assert AuthenticationToken("abc").certificate_path is None


def test_a_token_function_is_asked_each_time() -> None:
    tokens = iter(["one", "two"])
    token = AuthenticationToken(lambda: next(tokens))
    assert [token.data(), token.data()] == [b"one", b"two"]
    with pytest.raises(ErrorGettingAuthenticationData, match="failed: StopIteration"):
        token.data()


def test_a_token_function_may_fail_in_its_own_words() -> None:
    def refuse() -> str:
        raise AlreadyClosed("the vault is closed")

    with pytest.raises(AlreadyClosed, match="the vault"):
        AuthenticationToken(refuse).data()
    with pytest.raises(ErrorGettingAuthenticationData, match="returned a int"):
        AuthenticationToken(lambda: 5).data()  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize(
    "make",
    [
        lambda s: s.AuthenticationToken(5),
        lambda s: s.AuthenticationToken(None),
        lambda s: s.AuthenticationBasic(),
        lambda s: s.AuthenticationBasic("a", 5),
        lambda s: s.AuthenticationBasic(auth_params_string=5),
        lambda s: s.AuthenticationTLS(5, "k"),
        lambda s: s.AuthenticationAthenz(5),
        lambda s: s.AuthenticationOauth2(None),
        lambda s: s.Authentication(5, "x"),
        lambda s: s.ConsoleLogger(3),
        lambda s: s.FileLogger(s.LoggerLevel.Info, 5),
        lambda s: s.FileLogger(3, "file"),
    ],
)
def test_wrong_types_are_value_errors_as_there(make: Any) -> None:
    class Ours:
        pass

    for kind in (
        Authentication,
        AuthenticationAthenz,
        AuthenticationBasic,
        AuthenticationOauth2,
        AuthenticationTLS,
        AuthenticationToken,
        ConsoleLogger,
        FileLogger,
        LoggerLevel,
    ):
        setattr(Ours, kind.__name__, kind)
    with pytest.raises(ValueError, match="expected"):
        make(pulsar)
    with pytest.raises(SettingsError, match="must be a"):
        make(Ours)


@pytest.mark.parametrize("params", ["nope", "[]", '{"username": "u"}', '{"password": "p"}'])
def test_basic_wants_both_fields_in_its_json(params: str) -> None:
    with pytest.raises(SettingsError):
        AuthenticationBasic(auth_params_string=params)


@pytest.mark.parametrize(
    "make",
    [
        lambda: AuthenticationAthenz("{}"),
        lambda: Authentication("athenz", "{}"),
        lambda: Authentication("./own.so", ""),
        lambda: Authentication("token", "file:///secret"),
    ],
)
def test_what_is_not_supported_says_so_and_what_to_do(make: Any) -> None:
    with pytest.raises(OperationNotSupported, match=r"not supported.*: (use|give)"):
        make()


def test_loggers_hold_their_level() -> None:
    assert ConsoleLogger().log_level is LoggerLevel.Info
    assert ConsoleLogger(LoggerLevel.Error).level() == logging.ERROR
    made = FileLogger(LoggerLevel.Warn, "client.log")
    assert (made.log_level, made.log_file, made.level()) == (
        LoggerLevel.Warn,
        "client.log",
        logging.WARNING,
    )
    for name, official in pulsar.LoggerLevel.__members__.items():
        assert LoggerLevel[name] == official.value
        assert str(LoggerLevel[name]) == str(official)
