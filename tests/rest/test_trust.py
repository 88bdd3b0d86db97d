"""TLS of the client of admin REST: what is checked of a server."""

import ssl

import pytest

from magnetar.rest.trust import Trust


@pytest.mark.parametrize(
    ("trust", "hostname", "verify"),
    [
        (Trust(), True, ssl.CERT_REQUIRED),
        (Trust(validate_hostname=False), False, ssl.CERT_REQUIRED),
        (Trust(allow_insecure=True), False, ssl.CERT_NONE),
    ],
    ids=["all", "no hostname", "nothing"],
)
def test_what_is_checked(trust: Trust, hostname: bool, verify: ssl.VerifyMode) -> None:
    context = trust.context()
    assert (context.check_hostname, context.verify_mode) == (hostname, verify)
    assert trust.context() is context
