"""A request, as handlers see it: what the path names, the query, the body as JSON.

`Admin` is what all requests share: the broker, and where it is reached.
"""

import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from magnetar.admin.http.answer import (
    BAD_REQUEST,
    NOT_ALLOWED,
    NOT_FOUND,
    PRECONDITION,
    Refusal,
)
from magnetar.admin.http.bridge import at_ease, prepare
from magnetar.admin.http.guard import Bodies, Guard, host_names
from magnetar.admin.http.request import Request
from magnetar.admin.http.route import Route
from magnetar.admin.http.shape import INT32_MAX, INT64_MAX
from magnetar.admin.route.scrape import Scrapes
from magnetar.broker.auth.roles import Principal
from magnetar.broker.broker import Broker
from magnetar.broker.setting.text_limits import BODY, PROPERTIES, TextLimit, check_properties
from magnetar.broker.topic.subscription import Subscription
from magnetar.broker.topic.topic import Topic
from magnetar.errors import BrokerError
from magnetar.model import Position, ServerError, TopicName
from magnetar.storage.ledger.retention import LedgerInfo

if TYPE_CHECKING:
    from magnetar.admin.console.topic_list import TopicLists
    from magnetar.broker.shell.server import BrokerServer

__all__ = [
    "INT32_MAX",
    "INT64_MAX",
    "SUBSCRIPTION",
    "TOPIC",
    "Admin",
    "Call",
    "check_name",
    "decode_json",
    "ledgers_of",
    "read_position",
    "shown",
    "stored",
    "text_map",
    "whole_number",
]

# What Pulsar allows in the name of a tenant or a namespace.
_NAME: Final = re.compile(r"[-=:.\w]+", re.ASCII)

# The paths of a topic and of a subscription.
TOPIC: Final = "/admin/v2/{domain:persistent|non-persistent}/{tenant}/{namespace}/{topic}"
SUBSCRIPTION: Final = f"{TOPIC}/subscription/{{subscription}}"


class Admin:
    """What all requests share: the broker, and where it is reached."""

    def __init__(self, server: "BrokerServer", http_url: str) -> None:
        self.server = server
        self.http_url = http_url
        told = list(server.settings.http_allowed_hosts)
        if server.advertised_host:
            told.append(server.advertised_host)
        self.guard = Guard(host_names(http_url, told))
        self.bodies = Bodies(time.monotonic)
        # Made with the first request for metrics.
        self.scrapes: Scrapes | None = None
        # Made with the first request for a list of topics.
        self.topic_lists: TopicLists | None = None

    @property
    def broker(self) -> Broker:
        return self.server.broker

    @property
    def cluster(self) -> str:
        return self.broker.settings.cluster_name

    @property
    def broker_id(self) -> str:
        """What Pulsar calls a broker by: where its HTTP is."""
        return self.http_url.partition("://")[2]

    def require_cluster(self, name: str) -> None:
        """Raises Refusal unless the name is that of the one cluster."""
        if name != self.cluster:
            raise Refusal(NOT_FOUND, f"Cluster does not exist: there is one, {self.cluster!r}")

    # ---- Topics --------------------------------------------------------------

    def partitions(self, name: TopicName) -> int:
        """How many partitions the topic of this name was given; 0 if it is not partitioned."""
        return self.broker.directory.partitioned.get(str(name), 0)

    def topic(self, name: TopicName) -> Topic:
        """A topic that is there, or a partition. Raises BrokerError, Refusal."""
        self.broker.directory.require_namespace(name.namespace)
        if self.partitions(name):
            raise Refusal(
                NOT_ALLOWED,
                f"{name} is partitioned: ask each of its {self.partitions(name)} partitions",
            )
        # A name that is used would become a non-persistent topic; asking is no use.
        if not name.persistent and not self.broker.exists(name):
            raise BrokerError(ServerError.TopicNotFound, f"Topic {name} not found")
        return self.broker.find(name)

    def require_partitions(self, name: TopicName) -> int:
        """How many partitions a partitioned topic has. Raises Refusal for any other."""
        count = self.partitions(name)
        if not count:
            raise Refusal(NOT_FOUND, f"Partitioned Topic {name} not found")
        return count

    def require_whole(self, name: TopicName) -> None:
        """Raises Refusal for a partitioned topic, which is none by itself."""
        if count := self.partitions(name):
            raise Refusal(
                NOT_FOUND, f"Topic {name} not found: it is partitioned, ask its {count} partitions"
            )

    def require_in_range(self, name: TopicName) -> None:
        """Raises Refusal for a partition beyond those that its topic has."""
        count = self.partitions(name.partitioned)
        if name.partition >= count > 0:
            raise Refusal(NOT_FOUND, f"Topic {name} not found: {count} partitions are all")

    async def topics(self, name: TopicName) -> list[Topic]:
        """Returns all partitions of a topic, or the topic itself; a few at a time are loaded."""
        count = self.partitions(name)
        if not count:
            return [self.topic(name)]
        found: list[Topic] = []
        async for number in at_ease(range(count)):
            partition = name.with_partition(number)
            await prepare(self.broker, partition)
            found.append(self.broker.find(partition))
        return found

    def subscription(self, topic: Topic, name: str) -> Subscription:
        found = topic.subscriptions.get(name)
        if found is None:
            raise Refusal(NOT_FOUND, f"Subscription {name} not found for topic {topic.name}")
        return found

    async def subscriptions(self, name: TopicName, subscription: str) -> list[Subscription]:
        """The subscription of a topic, or of each partition."""
        return [self.subscription(topic, subscription) for topic in await self.topics(name)]


class Call:
    """One request."""

    def __init__(
        self, admin: Admin, request: Request, path: Mapping[str, str], route: Route
    ) -> None:
        self.admin = admin
        self.route = route
        self.broker = admin.broker
        self.request = request
        self.path = path
        # Who asks, once that was proved; None where nobody is asked.
        self.principal: Principal | None = None

    # ---- Names ---------------------------------------------------------------

    @property
    def namespace(self) -> str:
        return f"{self.path['tenant']}/{self.path['namespace']}"

    @property
    def topic_name(self) -> TopicName:
        """Raises InvalidTopicNameError."""
        domain = self.path.get("domain", "persistent")
        return TopicName.parse(f"{domain}://{self.namespace}/{self.path['topic']}")

    def topic(self) -> Topic:
        return self.admin.topic(self.topic_name)

    async def topics(self) -> list[Topic]:
        """Returns all partitions of a partitioned topic, or the topic itself."""
        return await self.admin.topics(self.topic_name)

    def subscription(self) -> Subscription:
        """Returns the subscription of a topic that is not partitioned."""
        return self.admin.subscription(self.topic(), self.path["subscription"])

    async def subscriptions(self) -> list[Subscription]:
        """Returns the subscriptions of that name of a topic, or of all its partitions."""
        return await self.admin.subscriptions(self.topic_name, self.path["subscription"])

    def number(self, name: str, least: int = 0) -> int:
        """A number in the path."""
        return whole_number(name, self.path[name], least)

    # ---- The query -----------------------------------------------------------

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.query(name)
        if value is None:
            return default
        if value.lower() not in ("true", "false"):
            raise Refusal(BAD_REQUEST, f"{name} is {value!r}: give true or false")
        return value.lower() == "true"

    def query(self, name: str) -> str | None:
        assert name in self.route.query, f"{self.route.path} does not say that it takes {name}"
        return self.request.query(name)

    def query_number(self, name: str, default: int, least: int = 0) -> int:
        value = self.query(name)
        return default if value is None else whole_number(name, value, least)

    # ---- The body ------------------------------------------------------------

    async def raw(self, limit: TextLimit = BODY) -> bytes:
        """The body as bytes. Raises Refusal."""
        return await self.admin.bodies.read(self.request, limit)

    async def json(self, limit: TextLimit = BODY) -> object:
        """The body; None if there is none. Raises Refusal."""
        raw = await self.raw(limit)
        return decode_json(raw) if raw.strip() else None

    async def json_object(self, limit: TextLimit = BODY) -> dict[str, object]:
        """The body, which has fields or is not there. Raises Refusal."""
        body = await self.json(limit)
        if body is None:
            return {}
        if not isinstance(body, dict):
            raise Refusal(BAD_REQUEST, f"the body is {shown(body)}: give a JSON object")
        return body


def decode_json(raw: bytes) -> object:
    """A body as it stands. Raises Refusal."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refusal(BAD_REQUEST, f"the body is not JSON: {error}") from None


def whole_number(name: str, value: object, least: int = 0, most: int = INT64_MAX) -> int:
    """A number from a path, a query or a body, where Java's clients send texts too."""
    number: int | None = None
    if isinstance(value, int) and not isinstance(value, bool):
        number = value
    elif isinstance(value, str) and len(value) <= 20:
        digits = value.removeprefix("-")
        if digits.isascii() and digits.isdigit():
            number = int(value)
    if number is None or not least <= number <= most:
        raise Refusal(
            BAD_REQUEST, f"{name} is {shown(value)}: give a whole number from {least} to {most}"
        )
    return number


def read_position(name: str, value: str | None) -> Position | None:
    """Returns the position that a query gives as `ledger:entry`. Raises Refusal."""
    if value is None:
        return None
    ledger_id, colon, entry_id = value.partition(":")
    if not colon:
        raise Refusal(BAD_REQUEST, f"{name} is {shown(value)}: give ledger:entry")
    return Position(whole_number(name, ledger_id, -1), whole_number(name, entry_id, -1))


def stored(topic: Topic) -> Topic:
    """The topic. Raises Refusal if it is one that stores nothing."""
    if not topic.name.persistent:
        raise Refusal(NOT_ALLOWED, f"{topic.name} is not persistent: it stores nothing")
    return topic


def ledgers_of(topic: Topic) -> list[LedgerInfo]:
    """What is stored of a topic, oldest first; the store does not know a new one yet."""
    return topic.store.ledgers(topic.id) if topic.storage.stored else []


def check_name(noun: str, name: str) -> None:
    """Raises Refusal unless a tenant or a namespace may be called so."""
    # Of dots alone no client could ask: they are taken out of paths.
    if _NAME.fullmatch(name) is None or not name.strip("."):
        raise Refusal(
            PRECONDITION, f"{shown(name)} is not a valid {noun} name: use letters, digits and -=:._"
        )


def text_map(name: str, value: object) -> dict[str, str]:
    """Properties, which are texts by name; none if there are none. Raises Refusal, BrokerError."""
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
        raise Refusal(
            BAD_REQUEST, f"{name} is {shown(value)}: give an object whose values are texts"
        )
    properties = {str(key): str(text) for key, text in value.items()}
    check_properties(name, properties, PROPERTIES)
    return properties


def shown(value: object) -> str:
    """A value as text for a reason, cut short."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
