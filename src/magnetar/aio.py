"""The asyncio doors: `Client` and what it makes, and `Admin`."""

from magnetar.client.door import aio as _client
from magnetar.client.door.aio import *  # noqa: F403
from magnetar.rest.aio import Admin

__all__ = ["Admin", *_client.__all__]
