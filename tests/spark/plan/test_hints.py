"""Options by the names that they have at Kafka: one line says what they are called here."""

import re
from pathlib import Path

import pytest

from magnetar.errors import SettingsError
from magnetar.spark.plan.hint import ELSEWHERE, hint_for
from magnetar.spark.plan.options import CONNECTION, READ, WRITE, ReadOptions, WriteOptions

BASE = {"serviceUrl": "pulsar://localhost:6650", "topic": "t"}
KNOWN = {*CONNECTION, *READ, *WRITE}
PAGE = (Path(__file__).parents[3] / "docs" / "howto" / "move-spark-jobs-from-kafka.md").read_text()


@pytest.mark.parametrize(
    ("name", "here"),
    [
        ("subscribe", "topic"),
        ("subscribePattern", "topicsPattern"),
        ("failOnDataLoss", "onDataLoss"),
        ("maxOffsetsPerTrigger", "maxRowsPerTrigger"),
        ("kafka.bootstrap.servers", "serviceUrl"),
        ("service.url", "serviceUrl"),
        ("admin.url", "adminUrl"),
        ("kafka.group.id", "subscription"),
        ("kafka.sasl.jaas.config", "authToken"),
    ],
)
def test_a_name_from_elsewhere_gets_the_name_that_it_has_here(name: str, here: str) -> None:
    with pytest.raises(SettingsError) as caught:
        ReadOptions({**BASE, name: "x"}, streaming=True)
    said = str(caught.value)
    assert said.startswith(f"{name}: no such option; use {here}")
    assert len(said) < 150


def test_spark_hands_names_over_in_lower_case() -> None:
    with pytest.raises(SettingsError, match="failondataloss: no such option; use onDataLoss"):
        ReadOptions({**BASE, "failondataloss": "false"}, streaming=True)


def test_a_writer_has_the_same_hints() -> None:
    with pytest.raises(SettingsError, match=r"kafka\.bootstrap\.servers: .* use serviceUrl"):
        WriteOptions({"kafka.bootstrap.servers": "a:9092", "topic": "t"})


def test_hints_name_options_that_exist() -> None:
    for name, said in ELSEWHERE.items():
        named = re.findall(r"\buse (\w+)", said)
        assert set(named) <= KNOWN, name
        assert name not in {one.lower() for one in KNOWN}


@pytest.mark.parametrize("name", sorted(one for one in ELSEWHERE if not one.startswith("pulsar.")))
def test_the_page_for_those_who_come_from_kafka_has_every_name(name: str) -> None:
    assert f"`{name}`" in PAGE.lower()


def test_other_names_get_the_nearest_one_or_the_page() -> None:
    assert hint_for("serviceURLs", ["serviceUrl"]) == "did you mean serviceUrl?"
    assert hint_for("colour", ["topic"]) == "docs/reference/spark.md lists all options"
    assert hint_for("pulsar.reader.x", []).startswith("the settings of Pulsar's Java client")
    assert hint_for("kafka.fetch.min.bytes", []).startswith("Kafka's own settings")
