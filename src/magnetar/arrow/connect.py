"""What a client is told by a `Connection`."""

from typing import Any

from magnetar.arrow.plan.connection import Connection
from magnetar.client.option.authentication import AuthenticationToken

__all__ = ["client_options"]


def client_options(connection: Connection) -> dict[str, Any]:
    """Returns what a client is told."""
    options: dict[str, Any] = {
        "operation_timeout_seconds": connection.operation_timeout_s,
        "tls_allow_insecure_connection": connection.tls_allow_insecure_connection,
        "tls_validate_hostname": connection.tls_validate_hostname,
        "stats_interval_in_seconds": 0,
    }
    if connection.auth_token:
        options["authentication"] = AuthenticationToken(connection.auth_token)
    for name in (
        "tls_trust_certs_file_path",
        "tls_certificate_file_path",
        "tls_private_key_file_path",
    ):
        value = getattr(connection, name)
        if value:
            options[name] = value
    return options
