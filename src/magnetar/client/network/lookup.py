"""Finding things: which broker serves a topic, how many partitions it has, which topics exist.

Over the binary protocol by default, over HTTP where the service URL says so. A URL that
names several hosts is tried from the one that answered last on.
"""

import asyncio
import json
import ssl
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from magnetar.client.network.connection import ClientConnection, problem_of
from magnetar.client.network.pool import ConnectionPool
from magnetar.client.network.service import Service
from magnetar.client.option.service_url import ServiceUrl, parse_service_url
from magnetar.client.schema.schema_info import SchemaInfo
from magnetar.client.schema.schema_wire import schema_from_pb
from magnetar.client.telemetry.observer import Observer
from magnetar.errors import (
    AuthenticationError,
    AuthorizationError,
    ConnectError,
    InvalidTopicName,
    LookupError,
    MagnetarError,
    NotConnected,
    PulsarException,
    TopicNotFound,
)
from magnetar.model import TopicName
from magnetar.protocol import pulsar_pb2 as pb

__all__ = ["Lookup", "Requests", "TopicList"]

REDIRECTS_MAX = 20
# What a broker answers to a lookup, if it does not redirect or fail.
CONNECT = 1


class Requests:
    """Request ids of a client, each used once."""

    def __init__(self) -> None:
        self._next = 0

    def next(self) -> int:
        self._next += 1
        return self._next


class TopicList:
    """The topics of a namespace, filtered by the broker or not."""

    def __init__(self, names: list[str], *, filtered: bool, hash: str, changed: bool) -> None:
        self.names = names
        self.filtered = filtered
        self.hash = hash
        self.changed = changed


class Lookup:
    """See the module."""

    def __init__(
        self,
        pool: ConnectionPool,
        service: Service,
        requests: Requests,
        *,
        listener_name: str = "",
        timeout_s: float = 30.0,
        observer: Observer | None = None,
        patient: bool = False,
        waits_for_broker: bool = True,
    ) -> None:
        self._pool = pool
        self._service = service
        self._requests = requests
        self._listener_name = listener_name
        self._timeout_s = timeout_s
        self._observer = observer
        # Whether the service may be another one soon, so that no error is permanent.
        self._patient = patient
        self._waits_for_broker = waits_for_broker
        self._current = 0

    @property
    def _url(self) -> ServiceUrl:
        return self._service.url

    def begin_anew(self) -> None:
        """The service URL is another one: begins with its first host."""
        self._current = 0

    async def connection(self) -> ClientConnection:
        """Returns a connection to any broker of the service URL. Raises ConnectError.

        The error is permanent if it is with all hosts; and if all refuse a client that never had
        a connection, whose user can start a broker or mend the URL.
        """
        hosts = self._url.hosts
        errors: list[ConnectError] = []
        for step in range(len(hosts)):
            index = (self._current + step) % len(hosts)
            host, port = hosts[index]
            try:
                found = await self._pool.get(host, port, tls=self._url.tls)
            except ConnectError as error:
                errors.append(error)
                continue
            self._current = index
            return found
        raise self._worst(errors)

    def _worst(self, errors: list[ConnectError]) -> ConnectError:
        """Returns the error of all hosts together: one that may pass, if there is any."""
        refusals_end_it = not self._waits_for_broker and not self._pool.has_connected
        for error in errors:
            error.permanent |= error.refused and refusals_end_it
            error.permanent &= not self._patient
        return next((error for error in errors if not error.permanent), errors[-1])

    @contextmanager
    def _timed(self, kind: str) -> Iterator[None]:
        """Tells the observer, if there is one, how long it took. Cancelled is not answered."""
        if self._observer is None:
            yield
            return
        loop = asyncio.get_running_loop()
        began = loop.time()
        transport = "http" if self._url.http else "binary"
        try:
            yield
        except MagnetarError:
            self._observer.looked_up(kind, transport, loop.time() - began, found=False)
            raise
        self._observer.looked_up(kind, transport, loop.time() - began, found=True)

    # ---- Which broker --------------------------------------------------------

    async def broker_of(self, topic: str) -> ClientConnection:
        """Returns the connection to the broker that serves a topic."""
        with self._timed("topic"):
            return await self._broker_of(topic)

    async def _broker_of(self, topic: str) -> ClientConnection:
        if self._url.http:
            return await self._broker_by_http(topic)
        connection = await self.connection()
        authoritative = False
        for _ in range(REDIRECTS_MAX):
            command = pb.CommandLookupTopic(
                topic=topic, request_id=self._requests.next(), authoritative=authoritative
            )
            if self._listener_name:
                command.advertised_listener_name = self._listener_name
            found = await connection.request(command, pb.CommandLookupTopicResponse)
            url = found.brokerServiceUrlTls if self._url.tls else found.brokerServiceUrl
            if not url:
                raise _no_address(topic, self._url.tls)
            target = parse_service_url(url)
            host, port = target.hosts[0]
            if found.response == CONNECT and found.proxy_through_service_url:
                return await self._through_service_url(host, port)
            connection = await self._pool.get(host, port, tls=target.tls)
            if found.response == CONNECT:
                return connection
            authoritative = found.authoritative
        raise LookupError(f"brokers sent us from one to another {REDIRECTS_MAX} times for {topic}")

    async def _through_service_url(self, host: str, port: int) -> ClientConnection:
        """Connects by the address that we know: the broker's own, or that of a proxy."""
        hosts = self._url.hosts
        known_host, known_port = hosts[self._current % len(hosts)]
        proxy_to = "" if (host, port) == (known_host, known_port) else f"{host}:{port}"
        return await self._pool.get(known_host, known_port, tls=self._url.tls, proxy_to=proxy_to)

    async def _broker_by_http(self, topic: str) -> ClientConnection:
        found = await self._get(f"/lookup/v2/topic/{_path(TopicName.parse(topic))}")
        url = found.get("brokerUrlTls" if self._url.tls else "brokerUrl")
        if not url:
            raise _no_address(topic, self._url.tls)
        target = parse_service_url(str(url))
        host, port = target.hosts[0]
        return await self._pool.get(host, port, tls=target.tls)

    # ---- How many partitions -------------------------------------------------

    async def partitions(self, topic: str, *, may_create: bool = True) -> int:
        """0 if the topic is not partitioned."""
        with self._timed("metadata"):
            return await self._partitions(topic, may_create)

    async def _partitions(self, topic: str, may_create: bool) -> int:
        if self._url.http:
            name = TopicName.parse(topic)
            path = f"/admin/v2/{_path(name)}/partitions?checkAllowAutoCreation=true"
            return int((await self._get(path))["partitions"])
        connection = await self.connection()
        command = pb.CommandPartitionedTopicMetadata(
            topic=topic,
            request_id=self._requests.next(),
            metadata_auto_creation_enabled=may_create,
        )
        found = await connection.request(command, pb.CommandPartitionedTopicMetadataResponse)
        return found.partitions

    # ---- Which topics --------------------------------------------------------

    async def topics(self, namespace: str, mode: int, pattern: str, hash: str) -> TopicList:
        with self._timed("list-topics"):
            return await self._topics(namespace, mode, pattern, hash)

    async def _topics(self, namespace: str, mode: int, pattern: str, hash: str) -> TopicList:
        if self._url.http:
            found = await self._get(f"/admin/v2/namespaces/{namespace}/topics?mode={MODES[mode]}")
            return TopicList(list(found), filtered=False, hash="", changed=True)
        connection = await self.connection()
        command = pb.CommandGetTopicsOfNamespace(
            request_id=self._requests.next(), namespace=namespace, mode=mode
        )
        if pattern:
            command.topics_pattern = pattern
        if hash:
            command.topics_hash = hash
        answer = await connection.request(command, pb.CommandGetTopicsOfNamespaceResponse)
        return TopicList(
            list(answer.topics),
            filtered=answer.filtered,
            hash=answer.topics_hash,
            changed=answer.changed,
        )

    # ---- Schemas -------------------------------------------------------------

    async def schema(self, topic: str, version: bytes) -> SchemaInfo:
        with self._timed("schema"):
            return await self._schema(topic, version)

    async def _schema(self, topic: str, version: bytes) -> SchemaInfo:
        connection = await self.connection()
        command = pb.CommandGetSchema(request_id=self._requests.next(), topic=topic)
        if version:
            command.schema_version = version
        found = await connection.request(command, pb.CommandGetSchemaResponse)
        return schema_from_pb(found.schema)

    # ---- HTTP ----------------------------------------------------------------

    async def _get(self, path: str) -> Any:
        errors: list[ConnectError] = []
        for step in range(len(self._url.hosts)):
            index = (self._current + step) % len(self._url.hosts)
            host, port = self._url.hosts[index]
            scheme = "https" if self._url.tls else "http"
            try:
                found = await asyncio.to_thread(
                    self._fetch, f"{scheme}://{_bracketed(host)}:{port}{path}"
                )
            except OSError as error:
                reason = getattr(error, "reason", error)
                cause = reason if isinstance(reason, OSError) else error
                errors.append(_problem_of_http(cause, scheme, f"{_bracketed(host)}:{port}"))
                continue
            self._current = index
            return found
        raise self._worst(errors)

    def _fetch(self, url: str) -> Any:
        """Raises OSError if there is no answer, else what the answer means."""
        # Few ask over HTTP, and all would wait for these.
        import http.client
        import urllib.error
        import urllib.request

        request = urllib.request.Request(url, headers=self._service.http_headers())
        try:
            with urllib.request.urlopen(
                request, timeout=self._timeout_s, context=self._service.tls
            ) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                kind = HTTP_ERRORS.get(error.code, LookupError)
                raise kind(f"{url}: HTTP {error.code} {error.reason}") from None
        except http.client.HTTPException as error:
            raise ConnectionResetError(f"what it answered is not HTTP: {error}") from error
        except ValueError as error:
            raise LookupError(f"{url} does not answer JSON: is it a broker?") from error


def _problem_of_http(error: OSError, scheme: str, address: str) -> ConnectError:
    """Returns the error of a connection over HTTP, with a hint if the other side speaks something
    else."""
    problem = problem_of(error, f"{scheme}://{address}", tls=False)
    hint = ""
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLCertVerificationError):
        hint = f"; if it speaks no TLS, the service URL is http://{address}"
    if hint or isinstance(error, ConnectionResetError):
        hint += f"; a broker's own port is pulsar://{address}"
        told = ConnectError(f"{problem}{hint}")
        # A broker that restarts hangs up, too.
        told.permanent, told.refused = isinstance(error, ssl.SSLError), True
        return told
    return problem


HTTP_ERRORS: dict[int, type[PulsarException]] = {
    401: AuthenticationError,
    403: AuthorizationError,
    404: TopicNotFound,
    412: InvalidTopicName,
}


def _no_address(topic: str, tls: bool) -> NotConnected:
    """Returns who asked for TLS is not sent on without it."""
    kind = "with TLS" if tls else "without TLS"
    return NotConnected(
        f"the broker of {topic} names no address {kind}: use the other kind of service URL"
    )


MODES = {0: "PERSISTENT", 1: "NON_PERSISTENT", 2: "ALL"}


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _path(name: TopicName) -> str:
    topic = urllib.parse.quote(name.local_name, safe="")
    return f"{name.domain}/{name.namespace}/{topic}"
