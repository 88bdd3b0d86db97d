"""Every error and every status has an exit code, and the reference tells them all."""

from pathlib import Path

import pytest

from magnetar import errors
from magnetar.cli.exit_code import (
    EXIT_CODES,
    FAILED,
    FORBIDDEN,
    MISSING,
    NOT_TAKEN,
    REFUSED,
    UNREACHABLE,
    exit_code_of,
    exit_code_of_status,
)
from magnetar.rest.admin_error import AdminError

MANUAL = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"

# What a client's error is, by the groups of the tree in `magnetar.errors`.
EXPECTED = {
    "InvalidConfiguration": REFUSED,
    "InvalidUrl": REFUSED,
    "InvalidTopicName": REFUSED,
    "MessageTooBig": REFUSED,
    "AlreadyClosed": REFUSED,
    "ConsumerNotInitialized": REFUSED,
    "ProducerNotInitialized": REFUSED,
    "CumulativeAcknowledgementNotAllowedError": REFUSED,
    "Timeout": UNREACHABLE,
    "ConnectError": UNREACHABLE,
    "AuthenticationError": FORBIDDEN,
    "AuthorizationError": FORBIDDEN,
    "TopicNotFound": MISSING,
    "SubscriptionNotFound": MISSING,
    "ConsumerBusy": NOT_TAKEN,
    "TopicTerminated": NOT_TAKEN,
    "BrokerPersistenceError": FAILED,
    "SettingsError": REFUSED,
    "DirectoryInUseError": REFUSED,
    "CorruptionError": REFUSED,
}


@pytest.mark.parametrize("name", errors.__all__)
def test_every_error_has_an_exit_code(name: str) -> None:
    kind = getattr(errors, name)
    error = kind.__new__(kind)
    code = exit_code_of(error)
    assert code in EXIT_CODES
    assert code == EXPECTED.get(name, code)
    # Of a client's errors only those that are told above may be the caller's own fault.
    direct = errors.PulsarException in kind.__bases__ and errors.UsageError not in kind.__mro__
    if direct and name != "InvalidMessage":
        assert code != REFUSED or name in EXPECTED, f"{name} is in no group of exit_code.py"


@pytest.mark.parametrize("status", range(300, 600))
def test_every_status_has_an_exit_code(status: int) -> None:
    code = exit_code_of_status(status)
    assert code >= REFUSED
    assert exit_code_of(AdminError(status, "why")) == code
    assert (code in (FAILED, UNREACHABLE)) == (status >= 500 or status == 429)


def test_the_reference_has_the_table() -> None:
    text = MANUAL.read_text()
    for code, meaning in EXIT_CODES.items():
        assert f"| {code} | {meaning} |" in text
