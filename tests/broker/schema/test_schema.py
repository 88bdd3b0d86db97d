"""Versions of topics' schemas: found again, added, deleted, and kept over a restart."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from magnetar.broker.schema.schema import (
    SchemaInfo,
    SchemaPolicy,
    SchemaRegistry,
    StoredSchema,
    schema_topic,
    version_bytes,
)
from magnetar.broker.schema.schema_compatibility import (
    ALWAYS_COMPATIBLE,
    ALWAYS_INCOMPATIBLE,
    BACKWARD,
    BACKWARD_TRANSITIVE,
    FORWARD,
    FORWARD_TRANSITIVE,
    FULL,
    FULL_TRANSITIVE,
    UNDEFINED,
)
from magnetar.broker.setting.section.producer import SCHEMA_COMPATIBILITIES
from magnetar.broker.turn.work import finish
from magnetar.errors import BrokerError
from magnetar.model import SchemaType, ServerError, TopicName
from magnetar.storage.catalog.catalog import Catalog

TOPIC = "public/default/orders"
NOW = 1_700_000_000_000
SPACE = "schemas"


def opened(catalog: Catalog, strategy: str = FULL, **limits: int) -> SchemaRegistry:
    return SchemaRegistry(
        lambda prefix: catalog.items(SPACE, prefix),
        lambda key, text: catalog.put(SPACE, key, text),
        lambda key: catalog.delete(SPACE, key),
        lambda: NOW,
        strategy=strategy,
        **limits,
    )


@pytest.fixture
def catalog() -> Iterator[Catalog]:
    catalog = Catalog()
    yield catalog
    catalog.close()


@pytest.fixture
def registry(catalog: Catalog) -> SchemaRegistry:
    return opened(catalog)


def avro(*fields: str, optional: str = "", indent: int | None = None) -> SchemaInfo:
    """A record of ints, those in `fields` required and those in `optional` with a default."""
    items: list[dict[str, object]] = [{"name": name, "type": "int"} for name in fields]
    items += [{"name": name, "type": "int", "default": 0} for name in optional]
    definition = {"type": "record", "name": "Order", "fields": items}
    return SchemaInfo(SchemaType.Avro, json.dumps(definition, indent=indent).encode())


STRING = SchemaInfo(SchemaType.String, b"")
BYTES = SchemaInfo(SchemaType.NONE, b"")
AUTO = SchemaInfo(SchemaType.AutoConsume, b"")


def numbers(stored: list[StoredSchema]) -> list[int]:
    return [one.version for one in stored]


# ---- Names and versions


@pytest.mark.parametrize(
    "name",
    [
        "orders",
        "orders-partition-7",
        "persistent://public/default/orders",
        "non-persistent://public/default/orders-partition-0",
    ],
)
def test_partitions_share_the_schema_of_their_topic(name: str) -> None:
    assert schema_topic(TopicName.parse(name)) == TOPIC


def test_version_bytes_are_eight_big_endian(registry: SchemaRegistry) -> None:
    assert version_bytes(0) == bytes(8)
    assert version_bytes(258) == bytes([0, 0, 0, 0, 0, 0, 1, 2])
    assert registry.put(TOPIC, STRING).version_bytes == bytes(8)


def test_a_topic_without_schemas(registry: SchemaRegistry) -> None:
    assert registry.versions(TOPIC) == []
    assert registry.latest(TOPIC) is None
    assert registry.get(TOPIC, 0) is None
    assert registry.find(TOPIC, STRING) is None
    assert registry.delete(TOPIC) is None
    registry.purge(TOPIC)


# ---- Adding


def test_versions_count_from_zero(registry: SchemaRegistry) -> None:
    properties = {"owner": "shop"}
    first = registry.put(TOPIC, SchemaInfo(SchemaType.Avro, avro("a").data, properties))
    assert (first.version, first.type, first.timestamp_ms) == (0, SchemaType.Avro, NOW)
    assert (first.data, first.properties, first.deleted) == (avro("a").data, properties, False)
    assert registry.put(TOPIC, avro("a", optional="b")).version == 1
    assert numbers(registry.versions(TOPIC)) == [0, 1]
    assert registry.versions("public/default/other") == []
    assert repr(registry.latest(TOPIC)) == "<schema version 1: Avro>"


def test_a_known_definition_keeps_its_version(registry: SchemaRegistry) -> None:
    registry.put(TOPIC, avro("a"))
    registry.put(TOPIC, avro("a", optional="b"))
    assert registry.put(TOPIC, avro("a")).version == 0
    assert registry.put(TOPIC, avro("a", indent=2)).version == 0
    assert registry.find(TOPIC, avro("a", optional="b", indent=4)) == 1
    assert registry.find(TOPIC, avro("c")) is None
    assert registry.find(TOPIC, SchemaInfo(SchemaType.Json, avro("a").data)) is None
    assert len(registry.history(TOPIC)) == 2


def refused(registry: SchemaRegistry, schema: SchemaInfo, strategy: str = UNDEFINED) -> str:
    before = numbers(registry.history(TOPIC))
    with pytest.raises(BrokerError) as caught:
        registry.put(TOPIC, schema, strategy)
    assert caught.value.code == ServerError.IncompatibleSchema
    assert numbers(registry.history(TOPIC)) == before
    return caught.value.reason


def test_an_incompatible_schema_is_refused_with_the_field(registry: SchemaRegistry) -> None:
    registry.put(TOPIC, avro("a"))
    assert refused(registry, avro("a", "b")) == (
        "the schema does not fit version 0 of public/default/orders (FULL): the new schema cannot "
        "read data of the old one: field 'b' is missing in the data and has no default: give it one"
    )


def test_what_is_no_schema_is_refused(registry: SchemaRegistry) -> None:
    assert "is not JSON" in refused(registry, SchemaInfo(SchemaType.Avro, b"{"))
    assert "for clients only" in refused(registry, AUTO)
    registry.put(TOPIC, avro("a"))
    assert "is not JSON" in refused(registry, SchemaInfo(SchemaType.Avro, b"{"))


def test_undefined_means_the_default_of_the_broker(catalog: Catalog) -> None:
    registry = opened(catalog, ALWAYS_INCOMPATIBLE)
    registry.put(TOPIC, avro("a"), UNDEFINED)
    refused(registry, avro("a", optional="b"), UNDEFINED)
    registry.put(TOPIC, avro("a", optional="b"), FULL)


@pytest.mark.parametrize("strategy", SCHEMA_COMPATIBILITIES)
def test_the_first_schema_may_be_any(registry: SchemaRegistry, strategy: str) -> None:
    assert registry.put(TOPIC, avro("a"), strategy).version == 0
    assert registry.put(TOPIC, avro("a", indent=2), strategy).version == 0


@pytest.mark.parametrize(
    ("strategy", "transitive", "steps"),
    [
        # Each step may follow the one before, but the last may not follow the first.
        (BACKWARD, BACKWARD_TRANSITIVE, [avro("b"), avro("b", optional="a"), avro("a", "b")]),
        (FORWARD, FORWARD_TRANSITIVE, [avro("a", "b"), avro("b", optional="a"), avro("b")]),
        (FULL, FULL_TRANSITIVE, [avro("b"), avro("b", optional="a"), avro("a", "b")]),
    ],
)
def test_transitive_strategies_look_at_every_version(
    registry: SchemaRegistry, strategy: str, transitive: str, steps: list[SchemaInfo]
) -> None:
    for step in steps[:2]:
        registry.put(TOPIC, step, transitive)
    assert "version 0 of" in refused(registry, steps[2], transitive)
    assert registry.put(TOPIC, steps[2], strategy).version == 2


def test_always_compatible_is_that(registry: SchemaRegistry) -> None:
    registry.put(TOPIC, avro("a"))
    assert registry.put(TOPIC, STRING, ALWAYS_COMPATIBLE).version == 1
    assert registry.put(TOPIC, avro("b"), ALWAYS_COMPATIBLE).version == 2


def test_checking_adds_nothing(registry: SchemaRegistry) -> None:
    registry.check(TOPIC, avro("a"))
    assert registry.latest(TOPIC) is None
    registry.put(TOPIC, avro("a"))
    registry.check(TOPIC, avro("a", optional="b"))
    with pytest.raises(BrokerError):
        registry.check(TOPIC, STRING)
    assert numbers(registry.history(TOPIC)) == [0]


def test_without_automatic_updates_only_known_schemas_pass(registry: SchemaRegistry) -> None:
    with pytest.raises(BrokerError, match="clients may not add any"):
        registry.put(TOPIC, avro("a"), allow_auto_update=False)
    registry.put(TOPIC, avro("a"))
    assert registry.put(TOPIC, avro("a", indent=1), allow_auto_update=False).version == 0
    with pytest.raises(BrokerError, match="clients may not add any"):
        registry.put(TOPIC, avro("a", optional="b"), allow_auto_update=False)


# ---- Looking up


def test_lookup_by_the_bytes_of_the_wire(registry: SchemaRegistry) -> None:
    registry.put(TOPIC, avro("a"))
    registry.put(TOPIC, avro("a", optional="b"))
    assert registry.lookup(TOPIC, bytes(8)).version == 0
    assert registry.lookup(TOPIC, version_bytes(1)).version == 1
    assert registry.lookup(TOPIC, b"").version == 1


def test_lookup_of_what_is_not_there(registry: SchemaRegistry) -> None:
    for version in (b"", bytes(8), b"\xff" * 8):
        with pytest.raises(BrokerError, match="has no such schema") as caught:
            registry.lookup(TOPIC, version)
        assert caught.value.code == ServerError.TopicNotFound
    with pytest.raises(BrokerError, match="has 8 bytes, not 3") as caught:
        registry.lookup(TOPIC, b"123")
    assert caught.value.code == ServerError.MetadataError


# ---- Deleting


def test_a_deleted_schema_starts_anew_with_the_next_version(registry: SchemaRegistry) -> None:
    registry.put(TOPIC, avro("a"))
    gone = registry.delete(TOPIC)
    assert gone is not None
    assert (gone.version, gone.deleted, repr(gone)) == (1, True, "<schema version 1: deleted>")
    assert registry.latest(TOPIC) is None
    assert registry.delete(TOPIC) is None
    assert registry.find(TOPIC, avro("a")) is None
    assert registry.put(TOPIC, STRING).version == 2
    assert numbers(registry.versions(TOPIC)) == [2]
    assert numbers(registry.history(TOPIC)) == [0, 1, 2]


def test_a_deleted_schema_is_handed_out_by_no_number(registry: SchemaRegistry) -> None:
    registry.put(TOPIC, avro("a"))
    registry.delete(TOPIC)
    for _ in range(2):
        with pytest.raises(BrokerError, match="has no such schema"):
            registry.lookup(TOPIC, bytes(8))
        assert registry.get(TOPIC, 0) is None
        assert registry.get(TOPIC, 1) is None
        assert registry.put(TOPIC, avro("a")).version == 2  # also when it is there again


def test_bytes_that_are_declared_so_are_a_version_like_others(registry: SchemaRegistry) -> None:
    """The Go client's BytesSchema; Apache Pulsar 4.2 answers the same."""
    assert registry.add_producer_schema(TOPIC, BYTES, FREE) == bytes(8)
    assert registry.add_producer_schema(TOPIC, BYTES, FREE) == bytes(8)
    assert registry.lookup(TOPIC, bytes(8)).type == SchemaType.NONE
    assert registry.add_producer_schema(TOPIC, None, FREE) == b""
    with pytest.raises(BrokerError, match="the type changes from NONE to String"):
        registry.add_producer_schema(TOPIC, STRING, FREE)


def test_a_purged_topic_has_never_had_a_schema(catalog: Catalog) -> None:
    registry = opened(catalog)
    registry.put(TOPIC, avro("a"))
    registry.put(TOPIC, avro("a", optional="b"))
    registry.put(f"{TOPIC}2", STRING)
    registry.purge(TOPIC)
    assert registry.history(TOPIC) == []
    assert opened(catalog).put(TOPIC, STRING).version == 0
    assert registry.latest(f"{TOPIC}2") is not None


# ---- Producers and consumers

FREE = SchemaPolicy()
ENFORCED = SchemaPolicy(validation_enforced=True)
FIXED = SchemaPolicy(allow_auto_update=False)


def test_producers_without_a_schema(registry: SchemaRegistry) -> None:
    assert registry.add_producer_schema(TOPIC, None, FREE) == b""
    assert registry.add_producer_schema(TOPIC, None, ENFORCED) == b""
    registry.put(TOPIC, STRING)
    assert registry.add_producer_schema(TOPIC, None, FREE) == b""
    with pytest.raises(BrokerError, match="give the producer a schema") as caught:
        registry.add_producer_schema(TOPIC, None, ENFORCED)
    assert caught.value.code == ServerError.IncompatibleSchema


def test_producers_with_a_schema(registry: SchemaRegistry) -> None:
    assert registry.add_producer_schema(TOPIC, avro("a"), ENFORCED) == version_bytes(0)
    assert registry.add_producer_schema(TOPIC, avro("a", optional="b"), FREE) == version_bytes(1)
    assert registry.add_producer_schema(TOPIC, avro("a"), FREE) == version_bytes(0)
    with pytest.raises(BrokerError, match="field 'c' is missing"):
        registry.add_producer_schema(TOPIC, avro("a", "c"), FREE)
    with pytest.raises(BrokerError, match="clients may not add any"):
        registry.add_producer_schema(TOPIC, avro("a", optional="c"), FIXED)
    backward = SchemaPolicy(strategy=BACKWARD)
    assert registry.add_producer_schema(TOPIC, avro(), backward) == version_bytes(2)


@pytest.mark.parametrize("schema", [None, BYTES, AUTO])
@pytest.mark.parametrize("idle", [True, False])
def test_consumers_without_a_schema_always_pass(
    registry: SchemaRegistry, schema: SchemaInfo | None, idle: bool
) -> None:
    registry.add_consumer_schema(TOPIC, schema, ENFORCED, idle=idle)
    assert registry.latest(TOPIC) is None
    registry.put(TOPIC, STRING)
    registry.add_consumer_schema(TOPIC, schema, ENFORCED, idle=idle)


def test_a_consumer_may_bring_the_first_schema_to_an_idle_topic(registry: SchemaRegistry) -> None:
    with pytest.raises(BrokerError, match="clients may not add any"):
        registry.add_consumer_schema(TOPIC, avro("a"), FIXED, idle=True)
    with pytest.raises(BrokerError, match="its messages are bytes"):
        registry.add_consumer_schema(TOPIC, avro("a"), FREE, idle=False)
    always = SchemaPolicy(strategy=ALWAYS_COMPATIBLE)
    registry.add_consumer_schema(TOPIC, avro("a"), always, idle=False)
    assert registry.latest(TOPIC) is None
    registry.add_consumer_schema(TOPIC, avro("a"), FREE, idle=True)
    assert registry.find(TOPIC, avro("a")) == 0


def test_a_consumer_adds_no_second_schema(registry: SchemaRegistry) -> None:
    registry.put(TOPIC, avro("a"))
    registry.add_consumer_schema(TOPIC, avro("a", optional="b"), FREE, idle=True)
    assert numbers(registry.history(TOPIC)) == [0]
    with pytest.raises(BrokerError, match="field 'b' is missing"):
        registry.add_consumer_schema(TOPIC, avro("a", "b"), FREE, idle=True)


def check_consumer(
    registry: SchemaRegistry, topic: str, schema: SchemaInfo, strategy: str = UNDEFINED
) -> None:
    finish(registry.check_consumer_steps(topic, schema, strategy))


# PIP-44's table: what a consumer must be able to read.
LAST = [BACKWARD, FORWARD, FORWARD_TRANSITIVE, FULL, UNDEFINED]
EVERY = [BACKWARD_TRANSITIVE, FULL_TRANSITIVE]


@pytest.mark.parametrize("strategy", [*LAST, *EVERY])
def test_consumers_must_read_the_latest_or_every_version(
    registry: SchemaRegistry, strategy: str
) -> None:
    registry.put(TOPIC, avro("a"))
    registry.put(TOPIC, avro("a", "b"), ALWAYS_COMPATIBLE)
    check_consumer(registry, TOPIC, avro("a"), strategy)
    check_consumer(registry, TOPIC, avro(), strategy)
    with pytest.raises(BrokerError, match="version 1 of"):
        check_consumer(registry, TOPIC, avro("c"), strategy)
    if strategy in EVERY:
        with pytest.raises(BrokerError, match="version 0 of"):
            check_consumer(registry, TOPIC, avro("a", "b"), strategy)
    else:
        check_consumer(registry, TOPIC, avro("a", "b"), strategy)


def test_consumers_where_nothing_or_anything_is_compatible(registry: SchemaRegistry) -> None:
    registry.put(TOPIC, avro("a"))
    check_consumer(registry, TOPIC, STRING, ALWAYS_COMPATIBLE)
    check_consumer(registry, TOPIC, avro("a", indent=2), ALWAYS_INCOMPATIBLE)
    with pytest.raises(BrokerError, match="no change is allowed"):
        check_consumer(registry, TOPIC, avro(), ALWAYS_INCOMPATIBLE)
    with pytest.raises(BrokerError, match="is not JSON"):
        check_consumer(registry, TOPIC, SchemaInfo(SchemaType.Avro, b""))


# ---- What the store holds


def test_schemas_survive_a_restart(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path)
    registry = opened(catalog)
    key_value = SchemaInfo(SchemaType.KeyValue, b"\xff" * 8, {"kv.encoding.type": "INLINE"})
    registry.put(TOPIC, key_value)
    registry.delete(TOPIC)
    for n in range(10):
        registry.put(TOPIC, avro("a", *[f"b{i}" for i in range(n)]), ALWAYS_COMPATIBLE)
    before = registry.history(TOPIC)
    catalog.close()
    catalog = Catalog(tmp_path)
    after = opened(catalog).history(TOPIC)
    catalog.close()
    assert numbers(after) == list(range(12))
    assert [repr(one) for one in after] == [repr(one) for one in before]
    assert [repr(one.info) for one in after] == [repr(one.info) for one in before]
    assert after[0].properties == {"kv.encoding.type": "INLINE"}


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{",
        "{}",
        '{"version": 0, "type": 4, "text": "", "timestamp_ms": 0}',
        '{"version": 0, "type": "4", "text": "", "timestamp_ms": 0, "properties": {}}',
        '{"version": 0, "type": 4, "base64": "?", "timestamp_ms": 0, "properties": {}}',
        '{"version": 0, "type": 4, "timestamp_ms": 0, "properties": {}}',
        '{"type": 4, "text": "", "timestamp_ms": 0, "properties": {}}',
        '{"version": 0, "type": 4, "text": "", "properties": {}}',
    ],
)
def test_what_cannot_be_read_back_is_said(text: str) -> None:
    registry = SchemaRegistry(
        lambda prefix: [(f"{prefix}0", text)], lambda key, text: None, lambda key: None, lambda: NOW
    )
    with pytest.raises(BrokerError, match=f"{TOPIC}/0 cannot be read") as caught:
        registry.latest(TOPIC)
    assert caught.value.code == ServerError.MetadataError


def test_a_write_that_fails_changes_nothing() -> None:
    def fail(key: str, text: str) -> None:
        raise OSError("disk")

    registry = SchemaRegistry(lambda prefix: [], fail, lambda key: None, lambda: NOW)
    with pytest.raises(OSError, match="disk"):
        registry.put(TOPIC, STRING)
    assert registry.latest(TOPIC) is None


# ---- Against a model: a list of definitions, None for a deletion

DEFINITIONS = [avro("a"), avro("a", optional="b"), avro("b"), STRING, avro("a", optional="bc")]


class Versions(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.catalog = Catalog()
        self.registry = opened(self.catalog)
        self.model: list[bytes | None] = []

    def live(self) -> dict[bytes, int]:
        start = max([n + 1 for n, one in enumerate(self.model) if one is None], default=0)
        return {one: n for n, one in enumerate(self.model) if n >= start and one is not None}

    @rule(schema=st.sampled_from(DEFINITIONS))
    def put(self, schema: SchemaInfo) -> None:
        expected = self.live().get(schema.data)
        if expected is None:
            expected = len(self.model)
            self.model.append(schema.data)
        assert self.registry.put(TOPIC, schema, ALWAYS_COMPATIBLE).version == expected

    @rule()
    def delete(self) -> None:
        if self.live():
            self.model.append(None)
        self.registry.delete(TOPIC)

    @rule()
    def purge(self) -> None:
        self.model = []
        self.registry.purge(TOPIC)

    @rule()
    def restart(self) -> None:
        self.registry = opened(self.catalog)

    @invariant()
    def agrees(self) -> None:
        assert {one.data: one.version for one in self.registry.versions(TOPIC)} == self.live()
        numbers_live = set(self.live().values())
        for n, data in enumerate(self.model):
            stored = self.registry.get(TOPIC, n)
            expected = data if n in numbers_live else None
            assert (None if stored is None else stored.data) == expected

    def teardown(self) -> None:
        self.catalog.close()


TestVersions = Versions.TestCase


# ---- How much there may be ---------------------------------------------------------


def text(number: int, size: int = 1000) -> SchemaInfo:
    """A definition of that many bytes."""
    head = b'{"type": "record", "name": "r", "fields": [{"name": "f", "type": "string", '
    head += b'"default": "%d' % number
    return SchemaInfo(SchemaType.Avro, head.ljust(size - 4, b"x") + b'"}]}')


def test_all_versions_of_a_schema_have_a_limit_together(catalog: Catalog) -> None:
    registry = opened(catalog, strategy=ALWAYS_COMPATIBLE, versions_max=10_000)
    for number in range(6):  # 512 bytes for each besides
        registry.put(TOPIC, text(number))
    with pytest.raises(BrokerError, match="10000 are allowed: delete the schema") as refused:
        registry.put(TOPIC, text(6))
    assert refused.value.code == ServerError.NotAllowedError
    assert len(registry.versions(TOPIC)) == 6
    # Known ones are found, other topics have room of their own, and a deletion makes some.
    assert registry.put(TOPIC, text(3)).version == 3
    registry.put("public/default/other", text(6))
    registry.delete(TOPIC)
    assert registry.put(TOPIC, text(6)).version == 7


def test_only_schemas_that_were_used_last_stay_in_memory(catalog: Catalog) -> None:
    registry = opened(catalog, strategy=ALWAYS_COMPATIBLE, kept_max=10_000)
    topics = [f"public/default/t{number}" for number in range(50)]
    for topic in topics:
        for number in range(2):
            registry.put(topic, text(number))
    assert 0 < len(registry._topics) < 5
    assert registry._kept_bytes <= 10_000
    for topic in topics:  # they are read again
        assert [one.version for one in registry.versions(topic)] == [0, 1]
    for topic in topics:
        registry.purge(topic)
    assert (len(registry._topics), registry._kept_bytes) == (0, 0)
