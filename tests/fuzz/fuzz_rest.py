"""Requests to admin REST, made along the table of routes: most are nearly right, some are noise.

The application is called in this process, over a broker without sockets or threads. No answer is
ever a 500, nothing unforeseen is told to the loop, no request takes long, no input takes much
memory; and a request that is refused (4xx) changes nothing: neither the catalog nor any entry,
cursor or subscription of any topic. `run.py` has the command.
"""

import asyncio
import json
import logging
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, Final, TypeVar
from urllib.parse import quote, unquote

from fuzz.draw import Draw
from fuzz.judge import bounded, timed
from support.wire_client import WirePort

from magnetar.admin.http.route import Route
from magnetar.admin.http.routes import ROUTES, create_app
from magnetar.broker.policy.policy import POLICY_NAMES
from magnetar.broker.session.session import Session
from magnetar.broker.setting.setting import MIB
from magnetar.broker.setting.settings import BrokerSettings
from magnetar.broker.shell.server import BrokerServer
from magnetar.errors import StorageError
from magnetar.protocol import (
    CommandSend,
    MessageMetadata,
    SingleMessage,
    encode,
    encode_batch,
    encode_entry,
)
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.storage import Catalog, MemoryDisk
from magnetar.storage.disk.disk import Disk
from magnetar.storage.log.job import Job
from magnetar.storage.log.writer import Done, Lane, Post, StoreWriter

T = TypeVar("T")

SALT: Final = 1
NOW_MS: Final = 1_800_000_000_000
REQUESTS_MAX: Final = 6
# After so many turns of the loop nothing is left to do.
TURNS: Final = 20
REQUEST_SECONDS_MAX: Final = 30
NUMBERS: Final = (
    "0",
    "1",
    "2",
    "-1",
    "9223372036854775807",
    "18446744073709551616",
    "x",
    "1e3",
    "",
)
# As in Pulsar, a peek makes a subscription that is not there, and may find no message in it then.
PEEK: Final = "/position/"
METHODS: Final = ("GET", "PUT", "POST", "DELETE", "PATCH", "HEAD", "OPTIONS", "X")

# What a name in a path mostly is.
NAMES: Final[dict[str, tuple[str, ...]]] = {
    "domain": ("persistent", "persistent", "non-persistent"),
    "tenant": ("public", "public", "public", "new", "."),
    "namespace": ("default", "default", "default", "new"),
    "topic": ("t", "t", "p", "p-partition-0", "new", "n", "p-partition-9"),
    "subscription": ("s", "s", "new", "a/b"),
    "cluster": ("standalone", "none"),
    "bundle": ("0x00000000_0xffffffff", "x"),
    "role": ("worker", ""),
    "policy": tuple(sorted(POLICY_NAMES)),
    "name": ("ttl_seconds",),
    "value": ("5",),
    "file": ("main.js", "dom.js", "index.html", ".."),
    "part": ("ui", "page", "..", "."),
    "bookie": ("127.0.0.1:3181", "x"),
    "broker": ("localhost:8080", "x"),
    "allocator": ("default", "x"),
    "group": ("g", "x"),
    "key": ("k", "x"),
}
COUNTED: Final = (
    *("count", "entry", "ledger", "position", "seconds", "time", "version", "partition"),
    *("mostSigBits", "leastSigBits", "timeout", "coordinatorId"),
)
BODY_NUMBERS: Final = (0, 1, 2, 5, -1, 100, 2**31 - 1, 2**63 - 1, 2**63, 1.5)
HEADERS: Final = (
    (b"host", b"evil.example"),
    (b"host", b"[::1"),
    (b"origin", b"http://evil.example"),
    (b"origin", b"null"),
    (b"sec-fetch-site", b"cross-site"),
    (b"content-type", b"text/plain"),
    (b"content-type", b"application/x+json; charset=\xff"),
    (b"content-length", b"99999999999999999999"),
    (b"content-length", b"-1"),
    (b"authorization", b"Bearer x"),
    (b"accept", b"application/openmetrics-text"),
)
AVRO: Final = '{"type":"record","name":"R","fields":[{"name":"x","type":"int"}]}'


# ---- A broker without threads ----------------------------------------------------------


class Inline(Executor):
    """Runs at once what it is given."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> "Future[T]":
        future: Future[T] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


class InlineLane:
    """Runs a job at once, and posts how it ended."""

    def __init__(self, disk: Disk, post: Post, done: Done) -> None:
        self._disk = disk
        self._post = post
        self._done = done
        self._results: list[tuple[Job, Exception | None]] = []

    def give(self, job: Job) -> None:
        error: Exception | None = None
        try:
            job.run(self._disk)
        except StorageError as refused:
            error = refused
        self._results.append((job, error))
        self._post(self._take)

    def stop(self) -> None:
        pass

    def finished(self) -> list[tuple[Job, Exception | None]]:
        results, self._results = self._results, []
        return results

    def _take(self) -> None:
        for job, error in self.finished():
            self._done(job, error)


class InlineWriter(StoreWriter):
    def _lane(self, name: str, post: Post, done: Done) -> Lane:
        return InlineLane(self._store.log.disk, post, done)


def make_server() -> BrokerServer:
    settings = BrokerSettings(
        segment_bytes=MIB, watermark_bytes=0, inactive_topic_ms=10**9, transactions=True
    )
    return BrokerServer(
        MemoryDisk(salt=SALT),
        Catalog,
        settings,
        port=None,
        clock_ms=lambda: NOW_MS,
        writer=InlineWriter,
        reads=Inline(),
    )


class Logged(logging.Handler):
    """Keeps the errors that were logged, for whoever wants to know why there was a 500."""

    def __init__(self) -> None:
        super().__init__()
        self.error: BaseException | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.error = record.exc_info[1]


# ---- Requests --------------------------------------------------------------------------


class Request:
    """One request, drawn from the input."""

    def __init__(self, draw: Draw, place: tuple[int, int]) -> None:
        self._draw: Final = draw
        self._place: Final = place
        route = draw.pick(ROUTES)
        self.method: Final = draw.pick(METHODS) if draw.rarely(32) else route.method
        self.path: Final = "/".join([self._piece(piece) for piece in route.path.split("/")])
        self.query: Final = self._query(dict(route.query))
        self.body: Final = self._body(route)
        self.headers: Final = self._headers()

    def __str__(self) -> str:
        return f"{self.method} {self.path}?{self.query.decode()} {self.body[:200]!r}"

    def _piece(self, piece: str) -> str:
        draw = self._draw
        if not piece.startswith("{"):
            return quote(draw.text(), safe="") if draw.rarely(128) else piece
        name = piece[1:-1].partition(":")[0]
        if draw.rarely(24):
            return quote(draw.text(), safe="")
        if name in COUNTED:
            return self._number(name)
        return quote(draw.pick(NAMES[name]), safe="")

    def _number(self, name: str) -> str:
        if name in ("ledger", "entry") and not self._draw.rarely(4):
            return str(self._place[name == "entry"])
        return self._draw.pick(NUMBERS)

    def _query(self, known: dict[str, Any]) -> bytes:
        draw = self._draw
        parts = []
        for name, schema in known.items():
            if draw.below(2):
                value = self._value(schema)
                text = value if isinstance(value, str) else json.dumps(value)
                parts.append(f"{name}={quote(text)}")
        if draw.rarely():
            parts.append(quote(draw.text(), safe="=&%"))
        return "&".join(parts).encode()

    def _body(self, route: Route) -> bytes:
        draw = self._draw
        if draw.rarely():
            return draw.some(200)
        if route.body is None:
            return b""
        value = self._anything() if draw.rarely(8) else self._value(route.body)
        data = json.dumps(value).encode()
        return data[: draw.below(len(data) + 1)] if draw.rarely(32) else data

    def _headers(self) -> list[tuple[bytes, bytes]]:
        found = {b"host": b"localhost:8080", b"content-length": str(len(self.body)).encode()}
        if self.body:
            found[b"content-type"] = b"application/json"
        if self._draw.rarely():
            name, value = self._draw.pick(HEADERS)
            found[name] = value
        return list(found.items())

    # ---- Values along a schema -------------------------------------------------

    def _value(self, schema: dict[str, Any], depth: int = 0) -> Any:
        draw = self._draw
        if draw.rarely(24):
            return self._anything()
        if "oneOf" in schema:
            return self._value(draw.pick(schema["oneOf"]), depth)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return draw.pick(schema["enum"])
        return self._typed(schema, depth)

    def _typed(self, schema: dict[str, Any], depth: int) -> Any:
        draw = self._draw
        kind = schema.get("type")
        if kind == "integer":
            return draw.pick(BODY_NUMBERS)
        if kind == "boolean":
            return draw.below(2) == 1
        if kind == "string":
            return draw.pick(("AVRO", "JSON", "STRING", AVRO, "consume", "produce", draw.text()))
        if kind == "array":
            return [self._value(schema["items"], depth + 1) for _ in range(draw.below(4))]
        if kind == "object":
            return self._object(schema, depth)
        return self._anything()

    def _object(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        draw = self._draw
        found: dict[str, Any] = {}
        for name, inner in schema.get("properties", {}).items():
            if name in schema.get("required", ()) or draw.below(2):
                found[name] = self._value(inner, depth + 1)
        if "ledgerId" in found and not draw.rarely(4):
            found["ledgerId"], found["entryId"] = self._place
        if "additionalProperties" in schema and draw.below(2):
            found[draw.text()] = draw.text()
        return found

    def _anything(self, depth: int = 0) -> Any:
        """JSON of no schema; policies are told in it, so that their words are in it too."""
        draw = self._draw
        kind = draw.below(8)
        if kind < 2:
            return draw.pick((None, True, False, [], {}, "earliest"))
        if kind < 4:
            return draw.pick(BODY_NUMBERS)
        if kind == 4:
            return draw.text()
        if depth > 3:
            return None
        if kind == 5:
            return [self._anything(depth + 1) for _ in range(draw.below(4))]
        return {draw.pick(WORDS): self._anything(depth + 1) for _ in range(1 + draw.below(3))}


# Fields of the policies that are objects.
WORDS: Final = (
    *("retentionTimeInMinutes", "retentionSizeInMB", "limitSize", "limitTime", "policy", "limit"),
    *("publishThrottlingRateInMsg", "publishThrottlingRateInByte", "dispatchThrottlingRateInMsg"),
    *("ratePeriodInSecond", "tickTime", "active", "allowAutoTopicCreation", "topicType"),
    *("defaultNumPartitions", "allowAutoSubscriptionCreation", "inactiveTopicDeleteMode"),
    *("maxInactiveDurationSeconds", "deleteWhileInactive", "relativeTimeRate", ""),
)


# ---- The play --------------------------------------------------------------------------


class Play:
    """One input, played out."""

    def __init__(self, data: bytes) -> None:
        self.draw: Final = Draw(data)
        self.server: Final = make_server()
        self.logged: Final = Logged()
        self.faults: Final[list[dict[str, Any]]] = []

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: self.faults.append(context))
        log = logging.getLogger("magnetar.admin")
        log.addHandler(self.logged)
        await self.server.start()
        self.app = create_app(self.server, "http://127.0.0.1:8080")
        try:
            place = await self.fill()
            state = self.state()
            for _ in range(REQUESTS_MAX):
                state = await self.ask(Request(self.draw, place), state)
                if not self.draw.left:
                    break
        finally:
            log.removeHandler(self.logged)
            await self.server.stop()

    async def fill(self) -> tuple[int, int]:
        """A topic with messages and a subscription, and one with partitions; a message's place."""
        root = "/admin/v2/persistent/public/default"
        for path, body in ((f"{root}/t", b""), (f"{root}/p/partitions", b"2")):
            assert await self.call("PUT", path, b"", body, JSON_HEADERS) == 204
        assert await self.call("PUT", f"{root}/t/subscription/s", b"", b"", PLAIN_HEADERS) == 204
        return await self.publish()

    async def publish(self) -> tuple[int, int]:
        """Sends a batch of three to topic t, and returns where it is."""
        session = Session(self.server.broker, WirePort(), "fuzz", "pulsar://localhost", "x")
        metadata = MessageMetadata("one", 0, NOW_MS)
        metadata.num_messages_in_batch = 3
        payload = encode_batch([SingleMessage(b"%d" % i, i) for i in range(3)])
        commands = (
            pb.CommandConnect(client_version="x", protocol_version=21),
            pb.CommandProducer(topic="t", producer_id=1, request_id=1, producer_name="one"),
            CommandSend(1, 0, encode_entry(metadata.encode(), payload), 3, 2),
        )
        for command in commands:
            session.receive(encode(command))
            await self.rest()
        session.shut()
        await self.rest()
        (topic,) = [t for t in self.server.broker.topics.values() if str(t.name).endswith("/t")]
        last = topic.ledgers.last()
        assert last.entry_id == 0
        return last.ledger_id, last.entry_id

    async def rest(self) -> None:
        """Lets the loop do what there is to do."""
        for _ in range(TURNS):
            await asyncio.sleep(0)

    async def ask(self, request: Request, before: Any) -> Any:
        """Asks, and returns what the broker holds then."""
        with timed(str(request)):
            status = await asyncio.wait_for(
                self.call(
                    request.method, request.path, request.query, request.body, request.headers
                ),
                REQUEST_SECONDS_MAX,
            )
        assert not self.faults, (str(request), self.faults)
        if status == 500:
            raise AssertionError(f"500: {request}") from self.logged.error
        await self.rest()  # what an answer does not wait for
        after = self.state()
        if 400 <= status < 500 and PEEK not in request.path:
            assert after == before, f"{status}, but something changed: {request}"
        return after

    async def call(
        self,
        method: str,
        path: str,
        query: bytes,
        body: bytes,
        headers: list[tuple[bytes, bytes]],
    ) -> int:
        """The status of the answer."""
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query,
            "headers": headers,
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8080),
        }
        said: list[Any] = []
        told = False

        async def receive() -> dict[str, Any]:
            nonlocal told
            if told:
                return {"type": "http.disconnect"}
            told = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            said.append(message)

        await self.app(scope, receive, send)
        return int(said[0]["status"])

    def state(self) -> Any:
        """All that requests may change: the catalog, and what is stored of topics."""
        database = self.server._catalog._database
        catalog = database.execute("SELECT space, key, value FROM item ORDER BY 1, 2").fetchall()
        return catalog, self._topics()

    def _topics(self) -> dict[str, Any]:
        store = self.server.store
        found: dict[str, Any] = {}
        for topic_id, name in store.topics().items():
            ledgers = [(ledger.id, ledger.entries) for ledger in store.ledgers(topic_id)]
            images = [store.cursor_image(id) for id in store.cursor_ids(topic_id)]
            cursors = [(image.name, image.snapshot, image.deltas) for image in images]
            found[f"{topic_id} {name}"] = (ledgers, cursors)
        return found


JSON_HEADERS: Final = [(b"host", b"localhost"), (b"content-type", b"application/json")]
PLAIN_HEADERS: Final = [(b"host", b"localhost")]


def one_input(data: bytes) -> None:
    with bounded("the input"):
        asyncio.run(Play(data).run())
