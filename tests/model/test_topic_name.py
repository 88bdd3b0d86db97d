"""Topic names in all the forms that people write."""

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar import InvalidTopicNameError, TopicName


@pytest.mark.parametrize(
    ("written", "full"),
    [
        ("orders", "persistent://public/default/orders"),
        ("acme/shop/orders", "persistent://acme/shop/orders"),
        ("persistent://acme/shop/orders", "persistent://acme/shop/orders"),
        ("non-persistent://acme/shop/orders", "non-persistent://acme/shop/orders"),
        ("a=b:c.d-e_1", "persistent://public/default/a=b:c.d-e_1"),
        ("some topic, übel", "persistent://public/default/some topic, übel"),
    ],
)
def test_short_and_full_forms_mean_one_topic(written: str, full: str) -> None:
    name = TopicName.parse(written)
    assert str(name) == full
    assert TopicName.parse(full) == name


def test_a_name_has_parts() -> None:
    name = TopicName.parse("non-persistent://acme/shop/orders-partition-12")
    assert (name.domain, name.persistent) == ("non-persistent", False)
    assert (name.tenant, name.namespace) == ("acme", "acme/shop")
    assert (name.local_name, name.partition) == ("orders-partition-12", 12)
    assert str(name.partitioned) == "non-persistent://acme/shop/orders"
    assert TopicName.parse("orders").persistent


@pytest.mark.parametrize(
    ("local_name", "partition"),
    [
        ("t", -1),
        ("t-partition-0", 0),
        ("t-partition-10", 10),
        ("t-partition-01", -1),
        ("t-partition-+1", -1),
        ("t-partition--1", -1),
        ("t-partition-", -1),
        ("t-partition-x", -1),
        ("t-partition-٣", -1),
        ("t-partition-2147483647", 2147483647),
        ("t-partition-2147483648", -1),
        ("t-partition-1-partition-2", 2),
        ("-partition-7", -1),
        ("7", -1),
    ],
)
def test_a_partition_is_what_ends_in_its_number(local_name: str, partition: int) -> None:
    assert TopicName.parse(local_name).partition == partition


def test_a_topic_that_is_no_partition_is_its_own_partitioned_topic() -> None:
    name = TopicName.parse("orders")
    assert name.partitioned is name


@given(st.integers(0, 2**31 - 1))
def test_partitions_are_named_after_their_topic(number: int) -> None:
    topic = TopicName.parse("acme/shop/orders")
    part = topic.with_partition(number)
    assert (part.partition, part.partitioned) == (number, topic)


@pytest.mark.parametrize("number", [-1, 2**31])
def test_partitions_that_cannot_be_are_refused(number: int) -> None:
    with pytest.raises(InvalidTopicNameError, match="no partition has the number"):
        TopicName.parse("t").with_partition(number)


def test_a_partition_has_no_partitions() -> None:
    with pytest.raises(InvalidTopicNameError, match="partitions of its own"):
        TopicName.parse("t-partition-1").with_partition(2)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("", "no name"),
        ("a/b", "tenant/namespace/topic"),
        ("a/b/c/d", "tenant/namespace/topic"),
        ("persistent://a/b", "tenant/namespace/topic"),
        ("persistent://orders", "tenant/namespace/topic"),
        ("persistent://prop/cluster/ns/topic", "tenant/namespace/topic"),
        ("topic://a/b/c", "unknown domain 'topic'"),
        ("://a/b/c", "unknown domain ''"),
        ("a b/ns/t", "letters, digits"),
        ("a//t", "letters, digits"),
        ("a/b/", "no name"),
        ("a/ns\n/t", "letters, digits"),
        ("müller/ns/t", "letters, digits"),
        (" ", "no name"),
        ("a/b/\t", "no name"),
    ],
)
def test_names_that_pulsar_would_refuse_say_why(name: str, says: str) -> None:
    with pytest.raises(InvalidTopicNameError) as caught:
        TopicName.parse(name)
    assert says in str(caught.value)
    assert repr(name) in str(caught.value)
    assert caught.value.name == name


def test_names_are_values() -> None:
    name = TopicName.parse("acme/shop/orders")
    assert pickle.loads(pickle.dumps(name)) == copy.deepcopy(name) == name
    assert hash(pickle.loads(pickle.dumps(name))) == hash(name)
    assert repr(name) == "TopicName.parse('persistent://acme/shop/orders')"
    assert TopicName.parse("a") < TopicName.parse("b")
    assert TopicName.parse("a") != "persistent://public/default/a"
    assert TopicName.parse("a").__lt__("b") is NotImplemented
