"""The asyncio doors: `Client` and what it makes, and `Admin`, which is loaded when it is used."""

from typing import TYPE_CHECKING

from magnetar.client.door import aio as _client
from magnetar.client.door.aio import *  # noqa: F403

if TYPE_CHECKING:
    from magnetar.rest.aio import Admin

__all__ = ["Admin", *_client.__all__]


def __getattr__(name: str) -> object:
    """Loads Admin late: a client needs no HTTP."""
    if name == "Admin":
        from magnetar.rest.aio import Admin

        return Admin
    raise AttributeError(f"module 'magnetar.aio' has no attribute {name!r}")
