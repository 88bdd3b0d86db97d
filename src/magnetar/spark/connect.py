"""Clients of this process: made when they are first wanted, and kept for the next task.

Spark uses its Python workers again for the tasks that follow, so a connection that is made
for one serves the next. Workers are forked from a daemon: what another process made is
not used.
"""

import os
from typing import Any

from magnetar.client.authentication import AuthenticationToken
from magnetar.client.bulk import BulkClient
from magnetar.spark.plan.options import ConnectionOptions

__all__ = ["client_of", "client_options", "drop_clients"]

_clients: dict[tuple[str, ...], tuple[int, BulkClient]] = {}


def client_of(connection: ConnectionOptions) -> BulkClient:
    """The client of this process for these options."""
    key = connection.key()
    pid, client = _clients.get(key, (0, None))
    if client is None or pid != os.getpid():
        client = BulkClient(connection.service_url, **client_options(connection))
        _clients[key] = (os.getpid(), client)
    return client


def drop_clients() -> None:
    """Closes all clients of this process."""
    for key in list(_clients):
        pid, client = _clients.pop(key)
        if pid == os.getpid():
            client.close()


def client_options(connection: ConnectionOptions) -> dict[str, Any]:
    """What a client is told."""
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
