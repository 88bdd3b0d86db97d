"""Lookup over HTTP: which broker has a topic. There is one."""

from typing import Final

from magnetar.admin.http.answer import NOT_FOUND, Refusal, json_answer, text_answer
from magnetar.admin.http.call import Call
from magnetar.admin.http.required_permission import on_topic
from magnetar.admin.http.response import Response
from magnetar.admin.http.route import Route
from magnetar.admin.http.shape import PLAIN, TEXT, Json, answers, object_of
from magnetar.broker.auth.access import LOOK
from magnetar.broker.namespace.bundles import bundles_of
from magnetar.broker.setting.listeners import Listener

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
    name = call.query("listenerName") or call.request.headers.get("x-pulsar-listenername") or ""
    listener = call.broker.listeners.find(name)
    if listener is not None:
        return json_answer(_addresses(listener))
    if name:
        raise Refusal(NOT_FOUND, f"the broker do not have {name} listener")
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


def _addresses(listener: Listener) -> dict[str, str]:
    url, url_tls = listener.url("pulsar"), listener.url("pulsar+ssl")
    return {
        "brokerUrl": url,
        "brokerUrlTls": url_tls,
        "httpUrl": listener.url("http"),
        "httpUrlTls": listener.url("https"),
        "nativeUrl": url or url_tls,
    }


async def get_bundle(call: Call) -> Response:
    """Returns the bundle of a topic."""
    name = call.topic_name
    call.broker.directory.require_namespace(name.namespace)
    bundles = bundles_of(call.broker.directory.namespaces[name.namespace].bundles)
    return text_answer(bundles.of(str(name)))


ADDRESSES: Final[Json] = object_of(
    ("brokerUrl",), brokerUrl=TEXT, brokerUrlTls=TEXT, httpUrl=TEXT, httpUrlTls=TEXT, nativeUrl=TEXT
)

ROUTES: Final[list[Route]] = [
    Route(
        "GET",
        LOOKUP,
        lookup,
        on_topic(LOOK),
        query={"listenerName": TEXT},
        answer=answers(ADDRESSES),
    ),
    Route("GET", f"{LOOKUP}/bundle", get_bundle, on_topic(LOOK), answer=PLAIN),
]
