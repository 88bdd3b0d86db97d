"""The schemas of topics: numbered versions, and who may use or add which.

A topic has a list of versions, 0, 1, 2 and so on, and a version never changes. A producer's
schema is looked up among them, and added as the next one if the strategy of the topic lets it
follow those before (`schema_compatibility`). Deleting a schema adds a version that says so:
what came before is then neither compared with nor handed out, and its numbers are not given
again. Messages that were written with it have no schema any more, until it is added anew under
another number.

What a client may bring, and what becomes of it:

| it brings                | PRODUCER              | GET_OR_CREATE_SCHEMA | SUBSCRIBE             |
|--------------------------|-----------------------|----------------------|-----------------------|
| no schema                | no version            | -                    | nothing is checked    |
| NONE: bytes, declared so | a version like others | no version           | nothing is checked    |
| AUTO_CONSUME             | -                     | -                    | nothing is checked    |
| any other                | its version           | its version          | must read the topic's |

    no schema --put--> live --delete--> deleted --put--> live
        ^                |                 |
        +-----purge------+-----------------+

The partitions of a topic share its schemas. The store is a map from text to JSON text, one
item for each version under `tenant/namespace/topic/version`, given as functions: a `Catalog`
has them. Versions are read once and kept; of what was parsed the last used is.

To parse and to compare takes time. What does so is there in steps (`work.py`), for
`schema_work.py` to run, and at once.
"""

import base64
import json
from collections import OrderedDict
from collections.abc import Callable, Generator
from typing import Final, final

from magnetar.broker.schema.schema_compatibility import (
    ALWAYS_COMPATIBLE,
    ALWAYS_INCOMPATIBLE,
    BACKWARD,
    BACKWARD_TRANSITIVE,
    DEFINITION_BYTES_MAX,
    FULL,
    FULL_TRANSITIVE,
    TRANSITIVE,
    UNDEFINED,
    SchemaInfo,
    compatibility_steps,
    same_definition_steps,
    validate_steps,
)
from magnetar.broker.turn.work import finish
from magnetar.errors import BrokerError
from magnetar.model.enums import SchemaType, ServerError
from magnetar.model.topic_name import TopicName

__all__ = [
    "SchemaInfo",
    "SchemaPolicy",
    "SchemaRegistry",
    "StoredSchema",
    "schema_topic",
    "version_bytes",
]

VERSION_SIZE: Final = 8
# Parsed definitions are kept for so many bytes of them. What was parsed is larger by far.
PARSED_BYTES_MAX: Final = 256 << 10
# All versions that a topic's schema has now: as they are read in one go, when somebody asks.
VERSIONS_BYTES_MAX: Final = 2 << 20
# Of the schemas of all topics so much stays in memory; those that were used last.
KEPT_BYTES_MAX: Final = 32 << 20
# What a version takes besides its definition.
VERSION_BYTES: Final = 512
# What a consumer has if it takes bytes: no schema of its own to check.
_NO_SCHEMA: Final = (int(SchemaType.NONE), int(SchemaType.AutoConsume))


def schema_topic(name: TopicName) -> str:
    """Returns the name under which a topic's schemas are kept, and which GET_SCHEMA answers with.

    As in Pulsar it lacks the domain, as the paths of the REST interface do.

    >>> schema_topic(TopicName.parse("persistent://acme/shop/orders-partition-3"))
    'acme/shop/orders'
    """
    whole = name.partitioned
    return f"{whole.namespace}/{whole.local_name}"


def version_bytes(version: int) -> bytes:
    """Returns a version as the wire has it.

    >>> version_bytes(0).hex()
    '0000000000000000'
    """
    return version.to_bytes(VERSION_SIZE, "big")


@final
class SchemaPolicy:
    """What a topic's namespace and broker say about its schemas."""

    def __init__(
        self,
        *,
        strategy: str = UNDEFINED,
        allow_auto_update: bool = True,
        validation_enforced: bool = False,
    ) -> None:
        self.strategy: Final[str] = strategy
        # Whether clients may add schemas, or only the administrator.
        self.allow_auto_update: Final[bool] = allow_auto_update
        # Whether producers without a schema are refused on a topic that has one.
        self.validation_enforced: Final[bool] = validation_enforced


@final
class StoredSchema:
    """A version of a topic's schema. `deleted` says that the schema ended with this version."""

    def __init__(
        self, info: SchemaInfo, *, version: int, timestamp_ms: int, deleted: bool = False
    ) -> None:
        self.info: Final[SchemaInfo] = info
        self.version: Final[int] = version
        self.timestamp_ms: Final[int] = timestamp_ms
        self.deleted: Final[bool] = deleted

    @property
    def type(self) -> int:
        return self.info.type

    @property
    def data(self) -> bytes:
        return self.info.data

    @property
    def properties(self) -> dict[str, str]:
        return self.info.properties

    @property
    def version_bytes(self) -> bytes:
        return version_bytes(self.version)

    def __repr__(self) -> str:
        state = "deleted" if self.deleted else SchemaType(self.type).name
        return f"<schema version {self.version}: {state}>"


@final
class SchemaRegistry:
    """All schemas of a broker, by `schema_topic`.

    `load` gives the items whose keys begin with a text, in order; `save` sets one, and is
    durable when it returns; `drop` removes one. UNDEFINED strategies mean `strategy`.

    >>> items: dict[str, str] = {}
    >>> registry = SchemaRegistry(
    ...     lambda prefix: [(k, v) for k, v in sorted(items.items()) if k.startswith(prefix)],
    ...     items.__setitem__,
    ...     items.__delitem__,
    ...     lambda: 1_700_000_000_000,
    ... )
    >>> registry.put("public/default/orders", SchemaInfo(SchemaType.String, b""))
    <schema version 0: String>
    >>> registry.put("public/default/orders", SchemaInfo(SchemaType.Int32, b""))
    Traceback (most recent call last):
    magnetar.errors.BrokerError: the schema does not fit version 0 of public/default/orders \
(FULL): the type changes from String to Int32 (error 18)
    """

    def __init__(
        self,
        load: Callable[[str], list[tuple[str, str]]],
        save: Callable[[str, str], None],
        drop: Callable[[str], object],
        clock_ms: Callable[[], int],
        *,
        strategy: str = FULL,
        size_max: int = DEFINITION_BYTES_MAX,
        versions_max: int = VERSIONS_BYTES_MAX,
        kept_max: int = KEPT_BYTES_MAX,
    ) -> None:
        self._load: Final = load
        self._save: Final = save
        self._drop: Final = drop
        self._clock_ms: Final = clock_ms
        self._strategy: Final[str] = strategy
        self._size_max: Final[int] = size_max
        self._versions_max: Final[int] = versions_max
        self._kept_max: Final[int] = kept_max
        # Those that were read, the one that was used last at the end, and their bytes.
        self._topics: Final[OrderedDict[str, list[StoredSchema]]] = OrderedDict()
        self._kept_bytes: int = 0
        # Those that are parsed, the one that was used last at the end, and their bytes.
        self._parsed: Final[OrderedDict[SchemaInfo, None]] = OrderedDict()
        self._parsed_bytes: int = 0

    # What is there.

    def history(self, topic: str) -> list[StoredSchema]:
        """Returns every version that there ever was, deletions too."""
        found = self._topics.get(topic)
        if found is None:
            found = [_decode(key, text) for key, text in self._load(f"{topic}/")]
            if found:
                self._keep(topic, found, _bytes_of(found))
        else:
            self._topics.move_to_end(topic)
        return found

    def _keep(self, topic: str, history: list[StoredSchema], growth: int) -> None:
        """A history was read, or has grown: those before it may be forgotten."""
        self._topics[topic] = history
        self._topics.move_to_end(topic)
        self._kept_bytes += growth
        while self._kept_bytes > self._kept_max and len(self._topics) > 1:
            _, oldest = self._topics.popitem(last=False)
            self._kept_bytes -= _bytes_of(oldest)

    def versions(self, topic: str) -> list[StoredSchema]:
        """Returns the versions since the last deletion, oldest first."""
        out: list[StoredSchema] = []
        for stored in self.history(topic):
            if stored.deleted:
                out = []
            else:
                out.append(stored)
        return out

    def latest(self, topic: str) -> StoredSchema | None:
        """Returns the newest version; None if the topic has no schema, or no more."""
        found = self.history(topic)
        return found[-1] if found and not found[-1].deleted else None

    def get(self, topic: str, version: int) -> StoredSchema | None:
        """Returns a version by its number, unless the schema was deleted since."""
        for stored in self.versions(topic):
            if stored.version == version:
                return stored
        return None

    def lookup(self, topic: str, version: bytes) -> StoredSchema:
        """Returns what GET_SCHEMA asks for: a version as on the wire, or the latest if it is
        empty."""
        if not version:
            found = self.latest(topic)
        elif len(version) == VERSION_SIZE:
            found = self.get(topic, int.from_bytes(version, "big"))
        else:
            raise BrokerError(
                ServerError.MetadataError,
                f"a schema version has {VERSION_SIZE} bytes, not {len(version)}",
            )
        if found is None:
            raise BrokerError(ServerError.TopicNotFound, f"{topic} has no such schema")
        return found

    def find(self, topic: str, schema: SchemaInfo) -> int | None:
        """Returns the version that defines the same, None if none does."""
        return finish(self.find_steps(topic, schema))

    def find_steps(self, topic: str, schema: SchemaInfo) -> Generator[None, None, int | None]:
        """Does what `find` does, in steps."""
        found = yield from self._find(topic, schema)
        self._used(schema)
        return None if found is None else found.version

    def _find(self, topic: str, schema: SchemaInfo) -> Generator[None, None, StoredSchema | None]:
        versions = self.versions(topic)
        for stored in versions:  # as a rule a client repeats the very bytes
            if stored.type == schema.type and stored.data == schema.data:
                return stored
        if versions:
            yield from self.validate_steps(schema)
        for stored in versions:
            same = yield from same_definition_steps(stored.info, schema)
            self._used(stored.info)
            if same:
                return stored
            yield
        return None

    def validate_steps(self, schema: SchemaInfo) -> Generator[None, None, None]:
        """Raise BrokerError unless the definition is one that its type can have."""
        yield from validate_steps(schema, self._size_max)

    def _used(self, schema: SchemaInfo) -> None:
        """A definition was parsed, or could have been: those before it may be forgotten."""
        if schema not in self._parsed:
            self._parsed_bytes += len(schema.data)
        self._parsed[schema] = None
        self._parsed.move_to_end(schema)
        while self._parsed_bytes > PARSED_BYTES_MAX:
            oldest, _ = self._parsed.popitem(last=False)
            self._parsed_bytes -= len(oldest.data)
            oldest.forget_parsed()

    # What changes it.

    def put(
        self,
        topic: str,
        schema: SchemaInfo,
        strategy: str = UNDEFINED,
        *,
        allow_auto_update: bool = True,
    ) -> StoredSchema:
        """Returns the version that the schema has, as a new one if it must be and may be."""
        return finish(self.put_steps(topic, schema, strategy, allow_auto_update=allow_auto_update))

    def put_steps(
        self,
        topic: str,
        schema: SchemaInfo,
        strategy: str = UNDEFINED,
        *,
        allow_auto_update: bool = True,
    ) -> Generator[None, None, StoredSchema]:
        """Does what `put` does, in steps. There must be one such work for a topic at a time."""
        found = yield from self._find(topic, schema)
        if found is not None:
            return found
        if not allow_auto_update:
            raise _incompatible(
                f"{topic} does not have this schema, and clients may not add any: have it added "
                "by an administrator, or allow automatic updates"
            )
        self._require_room(topic, schema)
        yield from self.check_steps(topic, schema, strategy)
        return self._append(topic, schema, deleted=False)

    def _require_room(self, topic: str, schema: SchemaInfo) -> None:
        """Raises BrokerError if there would be more of it than may be."""
        size = _bytes_of(self.versions(topic)) + _size(schema)
        if 0 < self._versions_max < size:
            raise BrokerError(
                ServerError.NotAllowedError,
                f"all versions of the schema of {topic} would take {size} bytes, and "
                f"{self._versions_max} are allowed: delete the schema, which begins it anew",
            )

    def check(self, topic: str, schema: SchemaInfo, strategy: str = UNDEFINED) -> None:
        """Raise BrokerError unless the schema may be the topic's next version."""
        finish(self.check_steps(topic, schema, strategy))

    def check_steps(
        self, topic: str, schema: SchemaInfo, strategy: str = UNDEFINED
    ) -> Generator[None, None, None]:
        """Does what `check` does, in steps."""
        yield from self.validate_steps(schema)
        strategy = self._resolve(strategy)
        yield from self._compare(topic, schema, strategy, every=strategy in TRANSITIVE)
        self._used(schema)

    def delete(self, topic: str) -> StoredSchema | None:
        """Ends the topic's schema: the version that says so, None if there was no schema."""
        if self.latest(topic) is None:
            return None
        return self._append(topic, SchemaInfo(SchemaType.NONE, b""), deleted=True)

    def purge(self, topic: str) -> None:
        """Forgets all versions, as for a topic that is no more. Numbers begin anew."""
        for key, _ in self._load(f"{topic}/"):
            self._drop(key)
        kept = self._topics.pop(topic, None)
        if kept is not None:
            self._kept_bytes -= _bytes_of(kept)

    def _append(self, topic: str, schema: SchemaInfo, *, deleted: bool) -> StoredSchema:
        history = self.history(topic)
        version = history[-1].version + 1 if history else 0
        stored = StoredSchema(
            schema, version=version, timestamp_ms=self._clock_ms(), deleted=deleted
        )
        # Keys are in the order of the versions.
        self._save(f"{topic}/{version:020d}", _encode(stored))
        # There may be no history to grow, for one is kept if it has versions.
        known = _bytes_of(history) if topic in self._topics else 0
        grown = [*history, stored]
        self._keep(topic, grown, _bytes_of(grown) - known)
        return stored

    # What clients bring.

    def add_producer_schema(
        self, topic: str, schema: SchemaInfo | None, policy: SchemaPolicy
    ) -> bytes:
        """Returns the version that the producer is answered; empty without a schema."""
        return finish(self.producer_steps(topic, schema, policy))

    def producer_steps(
        self, topic: str, schema: SchemaInfo | None, policy: SchemaPolicy
    ) -> Generator[None, None, bytes]:
        """Does what `add_producer_schema` does, in steps."""
        if schema is not None:
            stored = yield from self.put_steps(
                topic, schema, policy.strategy, allow_auto_update=policy.allow_auto_update
            )
            return stored.version_bytes
        if policy.validation_enforced and self.latest(topic) is not None:
            raise _incompatible(
                f"{topic} has a schema, and its namespace enforces it: give the producer a schema"
            )
        return b""

    def add_consumer_schema(
        self, topic: str, schema: SchemaInfo | None, policy: SchemaPolicy, *, idle: bool
    ) -> None:
        """For SUBSCRIBE. `idle` says that the topic has no producer, no data and no consumer
        with a schema: then the consumer may bring the first one."""
        finish(self.consumer_steps(topic, schema, policy, idle=idle))

    def consumer_steps(
        self, topic: str, schema: SchemaInfo | None, policy: SchemaPolicy, *, idle: bool
    ) -> Generator[None, None, None]:
        """Does what `add_consumer_schema` does, in steps."""
        if schema is None or schema.type in _NO_SCHEMA:
            return
        if idle and self.latest(topic) is None:
            yield from self.put_steps(
                topic, schema, policy.strategy, allow_auto_update=policy.allow_auto_update
            )
        else:
            yield from self.check_consumer_steps(topic, schema, policy.strategy)

    def check_consumer_steps(
        self, topic: str, schema: SchemaInfo, strategy: str = UNDEFINED
    ) -> Generator[None, None, None]:
        """Raises BrokerError, in steps, unless a consumer can read the topic, as PIP-44 has it.

        It must read the latest version, and with the strategies that promise so all of them.
        """
        strategy = self._resolve(strategy)
        if strategy == ALWAYS_COMPATIBLE:
            return
        latest = self.latest(topic)
        if latest is None or latest.data != schema.data or latest.type != schema.type:
            yield from self.validate_steps(schema)
        if self.latest(topic) is None:
            raise _incompatible(
                f"{topic} is in use and has no schema, so its messages are bytes: subscribe "
                "without a schema, or add one to the topic first"
            )
        every = strategy in (BACKWARD_TRANSITIVE, FULL_TRANSITIVE)
        if strategy != ALWAYS_INCOMPATIBLE:
            strategy = BACKWARD_TRANSITIVE if every else BACKWARD
        yield from self._compare(topic, schema, strategy, every=every)
        self._used(schema)

    def _resolve(self, strategy: str) -> str:
        return self._strategy if strategy == UNDEFINED else strategy

    def _compare(
        self, topic: str, schema: SchemaInfo, strategy: str, *, every: bool
    ) -> Generator[None, None, None]:
        """Against every version or the latest only; newest first, so that texts name it."""
        versions = self.versions(topic)
        for stored in reversed(versions if every else versions[-1:]):
            problem = yield from compatibility_steps(schema, stored.info, strategy)
            self._used(stored.info)
            yield
            if problem is not None:
                raise _incompatible(
                    f"the schema does not fit version {stored.version} of {topic} "
                    f"({strategy}): {problem}"
                )


def _incompatible(reason: str) -> BrokerError:
    return BrokerError(ServerError.IncompatibleSchema, reason)


# What the store holds. Definitions are texts as a rule, and are looked at by people.


def _bytes_of(history: list[StoredSchema]) -> int:
    return sum([_size(stored.info) for stored in history])


def _size(schema: SchemaInfo) -> int:
    """About what a version takes in memory."""
    texts = sum([len(key) + len(value) for key, value in schema.properties.items()])
    return VERSION_BYTES + len(schema.data) + texts


def _encode(stored: StoredSchema) -> str:
    item: dict[str, object] = {
        "version": stored.version,
        "type": stored.type,
        "properties": stored.properties,
        "timestamp_ms": stored.timestamp_ms,
        "deleted": stored.deleted,
    }
    try:
        item["text"] = stored.data.decode()
    except UnicodeDecodeError:
        item["base64"] = base64.b64encode(stored.data).decode()
    return json.dumps(item)


def _decode(key: str, text: str) -> StoredSchema:
    try:
        found = _decode_item(json.loads(text))
    except ValueError:  # no JSON, or no base64
        found = None
    if found is None:
        raise BrokerError(
            ServerError.MetadataError,
            f"the stored schema {key} cannot be read: restore the catalog from a backup",
        )
    return found


def _decode_item(item: object) -> StoredSchema | None:
    if not isinstance(item, dict):
        return None
    data = _decode_data(item.get("text"), item.get("base64"))
    type, version, timestamp_ms = item.get("type"), item.get("version"), item.get("timestamp_ms")
    properties = item.get("properties")
    if data is None or not isinstance(properties, dict):
        return None
    if not (isinstance(type, int) and isinstance(version, int) and isinstance(timestamp_ms, int)):
        return None
    info = SchemaInfo(type, data, {str(key): str(value) for key, value in properties.items()})
    deleted = item.get("deleted") is True
    return StoredSchema(info, version=version, timestamp_ms=timestamp_ms, deleted=deleted)


def _decode_data(text: object, encoded: object) -> bytes | None:
    if isinstance(text, str):
        return text.encode()
    return base64.b64decode(encoded, validate=True) if isinstance(encoded, str) else None
