"""Clients of this process: made when they are first wanted, and kept for the next task.
And producers by names that the tasks of a run have which was killed.

Spark uses its Python workers again for the tasks that follow, so a connection that is made
for one serves the next. Workers are forked from a daemon: what another process made is
not used.
"""

import asyncio
import os

from magnetar.arrow.connect import client_options
from magnetar.arrow.plan.connection import Connection
from magnetar.client.door.bulk import BulkClient, BulkProducer
from magnetar.client.option.options import ProducerOptions
from magnetar.client.schema.schema import Schema
from magnetar.errors import ProducerBusy

__all__ = ["client_of", "drop_clients", "open_when_free"]

# The producer of a run that was killed is there until the broker has noticed.
BUSY_S = 60.0
BUSY_POLL_S = 0.5

_clients: dict[tuple[str, ...], tuple[int, BulkClient]] = {}


def client_of(connection: Connection) -> BulkClient:
    """Returns the client of this process for these options."""
    key = connection.key()
    pid, client = _clients.get(key, (0, None))
    if client is None or pid != os.getpid():
        # Tasks make clients all the time, also while a broker restarts.
        options = client_options(connection) | {"wait_for_broker": True}
        client = BulkClient(connection.service_url, **options)
        _clients[key] = (os.getpid(), client)
    return client


def drop_clients() -> None:
    """Closes all clients of this process."""
    for key in list(_clients):
        pid, client = _clients.pop(key)
        if pid == os.getpid():
            client.close()


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
