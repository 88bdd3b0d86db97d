"""Clients of this process: made when they are first wanted, and kept for the next task.
And producers by names that the tasks of a run have which was killed.

Spark uses its Python workers again for the tasks that follow, so a connection that is made
for one serves the next. Workers are forked from a daemon: what another process made is
not used.
"""

import asyncio
import os
from typing import Any

from magnetar.client.door.bulk import BulkClient, BulkProducer
from magnetar.client.option.authentication import AuthenticationToken
from magnetar.client.option.options import ProducerOptions
from magnetar.client.schema.schema import Schema
from magnetar.errors import ProducerBusy
from magnetar.spark.plan.options import ConnectionOptions

__all__ = ["client_of", "client_options", "drop_clients", "open_when_free"]

# The producer of a run that was killed is there until the broker has noticed.
BUSY_S = 60.0
BUSY_POLL_S = 0.5

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
        # Tasks make clients all the time, also while a broker restarts.
        "wait_for_broker": True,
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


async def open_when_free(
    client: BulkClient, topic: str, options: ProducerOptions, schema: Schema
) -> BulkProducer:
    """Opens a producer; waits while another run has one of its name. Raises ProducerBusy."""
    give_up = asyncio.get_running_loop().time() + BUSY_S
    while True:
        try:
            return await client.open_producer(topic, options, schema)
        except ProducerBusy:
            if asyncio.get_running_loop().time() > give_up:
                raise
            await asyncio.sleep(BUSY_POLL_S)
