"""Pulsar's admin REST over a broker."""

from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

if TYPE_CHECKING:
    from magnetar.broker.server import BrokerServer

__all__ = ["create_app"]


def create_app(broker: "BrokerServer", http_url: str) -> Starlette:
    """The application that serves REST for a broker."""

    async def health(request: Request) -> Response:
        return PlainTextResponse("ok")

    return Starlette(routes=[Route("/admin/v2/brokers/health", health)])
