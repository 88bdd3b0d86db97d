"""Lookup over HTTP: which broker has a topic. There is one."""

from typing import Final

from magnetar.admin.http.answer import json_answer, text_answer
from magnetar.admin.http.call import Call
from magnetar.admin.http.required_permission import on_topic
from magnetar.admin.http.response import Response
from magnetar.admin.http.route import Route
from magnetar.admin.http.shape import PLAIN, TEXT, Json, answers, object_of
from magnetar.admin.route.namespaces import BUNDLE
from magnetar.broker.auth.access import LOOK

__all__ = ["LOOKUP", "ROUTES"]

LOOKUP: Final = "/lookup/v2/topic/{domain:persistent|non-persistent}/{tenant}/{namespace}/{topic}"


def _require(call: Call) -> None:
    """As over the wire: a name that clients may use, though nothing need be there yet."""
    name = call.topic_name
    if name.persistent:
        may_create = call.broker.access.may_create(call.principal, name)
        call.broker.partitions(name, may_create=may_create)
    else:
        call.broker.directory.require_namespace(name.namespace)


async def lookup(call: Call) -> Response:
    """Returns where clients find a topic."""
    _require(call)
    server = call.request.scope.get("server")
    host = str(server[0]) if server else "127.0.0.1"
    broker = call.admin.server
    url, url_tls = broker.service_url(host), broker.service_url_tls(host)
    return json_answer(
        {
            "brokerUrl": url,
            "brokerUrlTls": url_tls,
            "httpUrl": broker.http_url,
            "httpUrlTls": broker.http_url_tls,
            "nativeUrl": url or url_tls,
        }
    )


async def get_bundle(call: Call) -> Response:
    """Returns the bundle of a topic; a namespace has one."""
    call.broker.directory.require_namespace(call.topic_name.namespace)
    return text_answer(BUNDLE)


ADDRESSES: Final[Json] = object_of(
    ("brokerUrl",), brokerUrl=TEXT, brokerUrlTls=TEXT, httpUrl=TEXT, httpUrlTls=TEXT, nativeUrl=TEXT
)

ROUTES: Final[list[Route]] = [
    Route("GET", LOOKUP, lookup, on_topic(LOOK), answer=answers(ADDRESSES)),
    Route("GET", f"{LOOKUP}/bundle", get_bundle, on_topic(LOOK), answer=PLAIN),
]
