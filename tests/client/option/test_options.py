"""Options: the official client's names and defaults, and one clear error for each bad value."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from magnetar import COMPILED
from magnetar.client.door import aio, blocking
from magnetar.client.door.arguments import SendKeywords, make_outgoing
from magnetar.client.option import keywords, meaning
from magnetar.client.option.backoff import MultiplierRedeliveryBackoff
from magnetar.client.option.options import (
    BatchingType,
    ClientOptions,
    ConsumerBatchReceivePolicy,
    ConsumerCryptoFailureAction,
    ConsumerDeadLetterPolicy,
    ConsumerKeySharedPolicy,
    ConsumerOptions,
    HashingScheme,
    PartitionsRoutingMode,
    ProducerOptions,
    ReaderOptions,
)
from magnetar.errors import InvalidConfiguration, SettingsError, UsageError
from magnetar.model.enums import CompressionType, KeySharedMode
from magnetar.model.message_id import MessageId
from magnetar.model.subscription_type import ConsumerType

pulsar = pytest.importorskip("pulsar")

# What belongs to the doors: names of topics, schemas, functions that are called.
OF_DOORS = {
    "self",
    "service_url",
    "topic",
    "schema",
    "message_listener",
    "reader_listener",
    "subscription_name",
    "start_message_id",
}


def reader_options(**options: object) -> ReaderOptions:
    return ReaderOptions(MessageId.earliest, **options)


def consumer_options(**options: object) -> ConsumerOptions:
    return ConsumerOptions("subscription", **options)


def producer_options(**options: object) -> ProducerOptions:
    return ProducerOptions(**options)  # type: ignore[arg-type]


PAIRS: list[tuple[Callable[..., object], Callable[..., object]]] = [
    (pulsar.Client.__init__, ClientOptions),
    (pulsar.Client.create_producer, producer_options),
    (pulsar.Client.subscribe, consumer_options),
    (pulsar.Client.create_reader, reader_options),
]


@pytest.mark.parametrize(("official", "ours"), PAIRS)
def test_names_and_defaults_are_the_official_clients(
    official: Callable[..., object], ours: Callable[..., object]
) -> None:
    options = ours()
    # The official client has None for "not given"; the attribute is what it means.
    means = {
        "unacked_messages_timeout_ms": 0,
        "properties": {},
    }
    for name, parameter in inspect.signature(official).parameters.items():
        if name in OF_DOORS:
            continue
        default = parameter.default
        if name in ("batch_receive_policy", "encryption_key"):
            assert default is None
            continue
        found = getattr(options, name)
        wanted = means.get(name, default)
        if hasattr(wanted, "name"):
            assert found.name == wanted.name, name
        else:
            assert found == wanted, name
            assert type(found) is type(wanted), name


def test_enumerations_are_the_official_clients() -> None:
    for kind in (PartitionsRoutingMode, BatchingType, ConsumerCryptoFailureAction):
        official = getattr(pulsar, kind.__name__)
        assert {item.name: item.value for item in kind} == {
            name: int(member.value) for name, member in official.__members__.items()
        }


def test_ours_have_pulsars_defaults() -> None:
    consumer = consumer_options()
    assert consumer.acknowledgement_group_time_ms == 100
    assert consumer.max_acknowledgement_group_size == 1000
    assert not consumer.ack_receipt_enabled
    assert consumer.durable
    assert consumer.start_message_id is None
    assert consumer.batch_receive_policy.max_num_bytes == 10 * 1024 * 1024
    assert ProducerOptions().hashing_scheme == HashingScheme.BoostHash


NUMBERS: list[tuple[Callable[..., object], str, int]] = [
    (ClientOptions, "operation_timeout_seconds", 0),
    (ClientOptions, "io_threads", 0),
    (ClientOptions, "message_listener_threads", 0),
    (ClientOptions, "concurrent_lookup_requests", 0),
    (ClientOptions, "stats_interval_in_seconds", -1),
    (ClientOptions, "connection_timeout_ms", 0),
    (ClientOptions, "keep_alive_interval_seconds", 0),
    (ClientOptions, "initial_backoff_ms", 0),
    (ClientOptions, "max_backoff_ms", 99),
    (producer_options, "initial_sequence_id", -2),
    (producer_options, "send_timeout_millis", -1),
    (producer_options, "max_pending_messages", -1),
    (producer_options, "max_pending_messages_across_partitions", -1),
    (producer_options, "batching_max_messages", 0),
    (producer_options, "batching_max_allowed_size_in_bytes", 0),
    (producer_options, "batching_max_publish_delay_ms", -1),
    (producer_options, "chunk_max_message_size", -1),
    (producer_options, "auto_update_partitions_interval_seconds", 0),
    (consumer_options, "receiver_queue_size", -1),
    (consumer_options, "max_total_receiver_queue_size_across_partitions", -1),
    (consumer_options, "unacked_messages_timeout_ms", 999),
    (consumer_options, "unacked_messages_timeout_ms", -1),
    (consumer_options, "broker_consumer_stats_cache_time_ms", -1),
    (consumer_options, "negative_ack_redelivery_delay_ms", -1),
    (consumer_options, "pattern_auto_discovery_period", 0),
    (consumer_options, "max_pending_chunked_message", -1),
    (consumer_options, "acknowledgement_group_time_ms", -1),
    (consumer_options, "max_acknowledgement_group_size", 0),
    (consumer_options, "expire_time_of_incomplete_chunked_message_ms", -1),
    (consumer_options, "priority_level", -1),
    (consumer_options, "auto_update_partitions_interval_seconds", 0),
    (reader_options, "receiver_queue_size", -1),
]


@pytest.mark.parametrize(("make", "name", "bad"), NUMBERS)
def test_numbers_have_bounds_and_are_numbers(
    make: Callable[..., object], name: str, bad: int
) -> None:
    for value, reason in (
        (bad, "too little"),
        (1 << 63, "too much"),
        (2.5, "whole number"),
        ("2", "whole number"),
        (True, "whole number"),
    ):
        with pytest.raises(SettingsError, match=f"^{name}: .*{reason}") as caught:
            make(**{name: value})
        assert caught.value.key == name


OTHERS: list[tuple[Callable[..., object], str, object]] = [
    (ClientOptions, "use_tls", 1),
    (ClientOptions, "listener_name", ""),
    (ClientOptions, "listener_name", b"name"),
    (ClientOptions, "tls_trust_certs_file_path", 5),
    (producer_options, "producer_name", ""),
    (producer_options, "compression_type", 1),
    (producer_options, "compression_type", "LZ4"),
    (producer_options, "batching_enabled", "yes"),
    (producer_options, "batching_type", CompressionType.LZ4),
    (producer_options, "message_routing_mode", None),
    (producer_options, "properties", ["a"]),
    (producer_options, "properties", {"a": 1}),
    (producer_options, "properties", {1: "a"}),
    (producer_options, "encryption_key", "key"),
    (producer_options, "crypto_key_reader", object()),
    (producer_options, "message_router", 7),
    (producer_options, "access_mode", 0),
    (producer_options, "hashing_scheme", 0),
    (consumer_options, "consumer_type", 1),
    (consumer_options, "consumer_name", ""),
    (consumer_options, "crypto_key_reader", object()),
    (consumer_options, "batch_index_ack_enabled", None),
    (consumer_options, "batch_receive_policy", 5),
    (consumer_options, "key_shared_policy", 5),
    (consumer_options, "dead_letter_policy", 5),
    (consumer_options, "negative_ack_redelivery_backoff", 5),
    (consumer_options, "ack_timeout_redelivery_backoff", 5),
    (consumer_options, "subscription_properties", "text"),
    (consumer_options, "start_message_id", (1, 2)),
    (reader_options, "crypto_key_reader", object()),
    (reader_options, "crypto_failure_action", 0),
]


@pytest.mark.parametrize(("make", "name", "bad"), OTHERS)
def test_other_values_are_of_their_kind(
    make: Callable[..., object], name: str, bad: object
) -> None:
    with pytest.raises(SettingsError, match=f"^{name}: ") as caught:
        make(**{name: bad})
    assert isinstance(caught.value, UsageError)
    assert isinstance(caught.value, InvalidConfiguration)
    assert isinstance(caught.value, ValueError)


def test_ack_timeout_is_off_or_a_second_at_least() -> None:
    for given, found in ((None, 0), (0, 0), (1000, 1000)):
        options = ConsumerOptions("s", unacked_messages_timeout_ms=given)
        assert options.unacked_messages_timeout_ms == found


def test_choices_are_named_in_the_error() -> None:
    with pytest.raises(SettingsError, match=r"ConsumerType\.KeyShared"):
        consumer_options(consumer_type="Shared")


def test_subscription_and_start_id_are_required() -> None:
    for bad in (None, "", 5):
        with pytest.raises(SettingsError, match=r"^subscription_name: "):
            ConsumerOptions(bad)
    with pytest.raises(SettingsError, match=r"^start_message_id: "):
        ReaderOptions("earliest")


def test_batching_and_chunking_exclude_each_other() -> None:
    with pytest.raises(SettingsError, match="switch one off"):
        ProducerOptions(batching_enabled=True, chunking_enabled=True)
    assert ProducerOptions(chunking_enabled=True, chunk_max_message_size=100).chunking_enabled


def test_custom_routing_needs_a_router() -> None:
    with pytest.raises(SettingsError, match=r"^message_router: .* needs one"):
        ProducerOptions(message_routing_mode=PartitionsRoutingMode.CustomPartition)


def test_certificate_and_key_go_together() -> None:
    with pytest.raises(SettingsError, match="or neither"):
        ClientOptions(tls_certificate_file_path="c.pem")
    ClientOptions(tls_certificate_file_path="c.pem", tls_private_key_file_path="k.pem")


def test_properties_are_a_copy() -> None:
    properties = {"a": "b"}
    options = ConsumerOptions("s", properties=properties, subscription_properties=properties)
    properties["c"] = "d"
    assert options.properties == options.subscription_properties == {"a": "b"}


def test_dead_letter_policy() -> None:
    policy = ConsumerDeadLetterPolicy(3, "dead", "first", retry_letter_topic="retry")
    assert ConsumerOptions("s", dead_letter_policy=policy).dead_letter_policy is policy
    assert (policy.max_redeliver_count, policy.dead_letter_topic) == (3, "dead")
    assert (policy.initial_subscription_name, policy.retry_letter_topic) == ("first", "retry")
    for bad in (0, None):
        with pytest.raises(SettingsError, match=r"^max_redeliver_count: "):
            ConsumerDeadLetterPolicy(bad)


def test_batch_receive_policy_needs_a_limit() -> None:
    policy = ConsumerBatchReceivePolicy(10, -1, -1)
    assert ConsumerOptions("s", batch_receive_policy=policy).batch_receive_policy is policy
    with pytest.raises(SettingsError, match="wait for ever"):
        ConsumerBatchReceivePolicy(0, 0, 0)


def test_key_shared_policy_checks_its_ranges() -> None:
    policy = ConsumerKeySharedPolicy(KeySharedMode.Sticky, False, [(10, 20), (0, 9)])
    assert policy.sticky_ranges == [(10, 20), (0, 9)]
    options = ConsumerOptions("s", consumer_type=ConsumerType.KeyShared, key_shared_policy=policy)
    assert options.key_shared_policy is policy
    bad: list[object] = [None, [], 5, [5], [(1, 2, 3)], [(5, 4)], [(0, 65536)], [(-1, 1)]]
    bad += [[(0, 10), (10, 20)], [("a", "b")]]
    for ranges in bad:
        with pytest.raises(SettingsError, match=r"^sticky_ranges: "):
            ConsumerKeySharedPolicy(KeySharedMode.Sticky, False, ranges)


def test_backoffs_are_kept() -> None:
    backoff = MultiplierRedeliveryBackoff()
    options = ConsumerOptions(
        "s", negative_ack_redelivery_backoff=backoff, ack_timeout_redelivery_backoff=backoff
    )
    assert options.negative_ack_redelivery_backoff is backoff
    assert options.ack_timeout_redelivery_backoff is backoff


def test_reader_is_a_consumer_that_leaves_nothing_behind() -> None:
    start = MessageId(-1, 5, 6)
    options = ReaderOptions(
        start,
        receiver_queue_size=7,
        reader_name="r",
        subscription_role_prefix="role",
        is_read_compacted=True,
        start_message_id_inclusive=True,
    ).consumer_options("reader-1")
    assert options.subscription_name == "role-reader-1"
    assert options.consumer_name == "r"
    assert options.receiver_queue_size == 7
    assert options.is_read_compacted
    assert options.start_message_id_inclusive
    assert options.start_message_id is start
    assert not options.durable
    assert options.consumer_type == ConsumerType.Exclusive
    assert reader_options().consumer_options("reader-2").subscription_name == "reader-2"


@pytest.mark.skipif(COMPILED, reason="compiled classes have no signature")
@pytest.mark.parametrize(
    ("declared", "all_of_them", "ours", "door"),
    [
        (
            ClientOptions,
            keywords.ClientKeywords,
            keywords.OurClientKeywords,
            blocking.Client.__init__,
        ),
        (
            ProducerOptions,
            keywords.ProducerKeywords,
            keywords.OurProducerKeywords,
            blocking.Client.create_producer,
        ),
        (
            ConsumerOptions,
            keywords.WorkerKeywords,
            keywords.OurConsumerKeywords,
            blocking.Client.subscribe,
        ),
        (
            ReaderOptions,
            keywords.ReaderKeywords,
            keywords.OurReaderKeywords,
            blocking.Client.create_reader,
        ),
    ],
    ids=["client", "producer", "consumer", "reader"],
)
def test_every_option_is_a_typed_keyword_of_both_doors(
    declared: Any, all_of_them: Any, ours: Any, door: Callable[..., object]
) -> None:
    options = inspect.signature(declared).parameters
    needed = {name for name, one in options.items() if one.default is one.empty}
    assert set(all_of_them.__annotations__) == set(options) - needed
    spelled = inspect.signature(door).parameters
    assert set(ours.__annotations__).isdisjoint(spelled)
    for name in set(options) - needed - set(ours.__annotations__):
        if name != "batch_index_ack_enabled":  # None there: no warning
            assert spelled[name].default == options[name].default, name
    for name in options:
        assert f" {name}: " in (door.__doc__ or ""), name


def test_everything_that_is_said_of_a_message_is_a_keyword_of_both_doors_with_a_meaning() -> None:
    said = list(SendKeywords.__annotations__)
    taken = inspect.signature(make_outgoing).parameters.values()
    assert said == [one.name for one in taken if one.kind is one.KEYWORD_ONLY]
    assert said == [name for name in meaning.MESSAGE if name not in ("content", "callback")]
    by_place: list[Callable[..., object]] = [blocking.Producer.send, blocking.Producer.send_async]
    for door in by_place:
        assert [name for name in inspect.signature(door).parameters if name in said] == said
    for door in [*by_place, aio.Producer.send, aio.Producer.send_when_room]:
        for name in said:
            assert f" {name}: {meaning.MESSAGE[name][:20]}" in (door.__doc__ or ""), name
