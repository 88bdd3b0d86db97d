"""Options: what is wrong is said, with the option's name."""

import pickle
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.errors import SettingsError
from magnetar.spark.plan.options import ReadOptions, SkipOptions, WriteOptions

URL = {"serviceUrl": "pulsar://localhost:6650"}
BASE = {**URL, "topic": "t"}
WRITE = {**URL, "topic": "t", "adminUrl": "http://localhost:8080/"}


def read(streaming: bool = False, **options: str) -> ReadOptions:
    return ReadOptions({**BASE, **options}, streaming=streaming)


def test_names_have_no_case() -> None:
    found = ReadOptions(
        {"serviceurl": "pulsar://x", "TOPIC": "a, b", "minpartitions": "1_000"}, streaming=False
    )
    assert (found.topics, found.partitions_min) == (["a", "b"], 1000)


def test_unknown_options_are_all_named() -> None:
    with pytest.raises(SettingsError) as caught:
        read(topik="x", maxRowPerTrigger="3")
    assert str(caught.value) == (
        "maxRowPerTrigger: no such option; did you mean maxRowsPerTrigger?; "
        "topik: no such option; did you mean topic?"
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"topics": "x"}, "not topic and topics"),
        ({"topic": "a,,b"}, "a topic name is empty"),
        ({"serviceUrl": ""}, "serviceUrl: missing"),
        ({"minPartitions": "-1"}, "minPartitions: '-1' is not a whole number of 0 or more"),
        ({"minPartitions": "x"}, "is not a whole number"),
        ({"operationTimeoutSeconds": "0"}, "whole number of 1 or more"),
        ({"badRecords": "skip"}, "badRecords: 'skip' is not one of fail, null, column"),
        ({"tlsValidateHostname": "yes"}, "neither true nor false"),
        ({"maxTriggerDelay": "1 week"}, "is not a time: write 500ms"),
        ({"startingOffsets": "newest"}, "is not a message id"),
        ({"startingOffsets": "{"}, "not JSON"),
        ({"startingOffsets": '{"t": 3}'}, 't: write "earliest"'),
        ({"startingOffsets": '{"t": "x"}'}, "is not a message id"),
        ({"startingOffsets": "latest", "startingTimestamp": "1"}, "not both"),
        ({"startingTimestamp": "yesterday"}, "is not a time: give ms"),
        ({"startingTimestamp": "2026-01-31T12:00:00"}, "is not a time: give ms"),
        ({"subscription": "s"}, "a batch read acknowledges nothing"),
        ({"maxRowsPerTrigger": "3", "minRowsPerTrigger": "4"}, "more than maxRowsPerTrigger"),
        ({"authPlugin": "x"}, "not supported yet"),
    ],
)
def test_what_is_wrong_is_said(options: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        ReadOptions({**BASE, **options}, streaming=False)


def test_a_stream_has_no_end() -> None:
    with pytest.raises(SettingsError, match="a stream has no end"):
        read(True, endingOffsets="latest")
    with pytest.raises(SettingsError, match="a stream has no end"):
        read(True, endingTimestamp="5")


def test_no_topic_at_all() -> None:
    with pytest.raises(SettingsError, match="not none"):
        ReadOptions(URL, streaming=False)
    assert ReadOptions({**URL, "topicsPattern": "a.*"}, streaming=False).topics == []


def test_positions() -> None:
    topic = "persistent://public/default/t"
    assert read().starting.word == "earliest"
    assert read(True).starting.word == "latest"
    assert read(startingOffsets="7:3").starting.of("o", topic, "latest") == (7, 3, 0)
    by_topic = read(startingOffsets='{"t": "7:3:1", "u": "latest"}').starting
    assert by_topic.of("o", topic, "earliest") == (7, 3, 1)
    assert by_topic.of("o", "persistent://public/default/u", "earliest") == "latest"
    assert by_topic.of("o", "persistent://public/default/x", "earliest") == "earliest"
    assert read(startingTimestamp="1234").starting.time_ms == 1234


@given(
    st.datetimes(datetime(1970, 1, 2), datetime(2200, 1, 1)),
    st.integers(-14 * 60, 14 * 60),
)
def test_times_are_what_python_reads(moment: datetime, minutes: int) -> None:
    zone = timezone(timedelta(minutes=minutes))
    local = moment.replace(microsecond=moment.microsecond // 1000 * 1000, tzinfo=zone)
    text = local.isoformat(timespec="milliseconds")
    expected = (local - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    assert read(startingTimestamp=text).starting.time_ms == expected


def test_times_in_utc_may_end_with_z() -> None:
    assert read(startingTimestamp="1970-01-01T00:01Z").starting.time_ms == 60_000


def test_limits_and_the_rest() -> None:
    found = read(
        True,
        maxRowsPerTrigger="10",
        maxTriggerDelay="2m",
        subscription="s",
        maxRowsPerPartition="5",
        onDataLoss="WARN",
        authToken="x",
    )
    assert (found.limits.rows_max, found.limits.delay_max_ms) == (10, 120_000)
    assert found.splits_by_weight
    assert not read().splits_by_weight
    assert (found.on_data_loss, found.subscription) == ("warn", "s")
    assert found.connection.key() != read().connection.key()


def test_writes() -> None:
    found = WriteOptions({**WRITE, "chunking": "false", "checkpointLocation": "/c"})
    assert (found.exactly_once, found.chunking, found.checkpoint) == (True, False, "/c")
    assert found.connection.admin_url == "http://localhost:8080"
    assert not WriteOptions({**BASE, "delivery": "atleastonce"}).exactly_once
    with pytest.raises(SettingsError, match="adminUrl: missing: exactly once needs"):
        WriteOptions(BASE)
    with pytest.raises(SettingsError, match="startingOffsets: no such option"):
        WriteOptions({**WRITE, "startingOffsets": "earliest"})


def test_options_of_writers_go_to_executors() -> None:
    write = WriteOptions({"serviceUrl": "pulsar://h", "topic": "t", "delivery": "atLeastOnce"})
    there = pickle.loads(pickle.dumps(write))
    assert (there.topic, there.exactly_once) == ("t", False)
    skip = SkipOptions({**URL, "adminUrl": "http://localhost:8080/", "subscription": "s"})
    assert pickle.loads(pickle.dumps(skip)).subscription == "s"
