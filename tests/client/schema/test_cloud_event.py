"""CloudEvents as properties of messages, and back."""

from datetime import UTC, datetime
from typing import Any

import pytest
from client.conftest import WAIT_MS
from hypothesis import given
from hypothesis import strategies as st

from magnetar.client.door.blocking import Client
from magnetar.cloudevents import CloudEvent
from magnetar.errors import InvalidMessage, UsageError

LEAST: dict[str, Any] = {"id": "7", "source": "/shop", "type": "org.example.order.placed"}
NAMES = st.from_regex(r"x[a-z0-9]{1,10}", fullmatch=True)
TEXT = st.text(min_size=1, max_size=20)


@given(TEXT, TEXT, TEXT, st.none() | TEXT, st.none() | TEXT, st.dictionaries(NAMES, TEXT))
def test_an_event_comes_out_as_it_went_in(
    id: str, source: str, type: str, subject: str | None, schema: str | None, more: dict[str, str]
) -> None:
    event = CloudEvent(
        id=id, source=source, type=type, subject=subject, dataschema=schema, extensions=more
    )
    back = CloudEvent.from_properties({**event.properties(), "mine": "too"})
    assert back == event
    assert (hash(back), back.extensions) == (hash(event), more)


def test_attributes_have_the_names_of_the_binding_for_kafka() -> None:
    event = CloudEvent(
        **LEAST,
        time=datetime(2026, 11, 18, 12, 30, tzinfo=UTC),
        datacontenttype="application/json",
        extensions={"traceparent": "00-1"},
    )
    assert event.properties() == {
        "ce_specversion": "1.0",
        "ce_id": "7",
        "ce_source": "/shop",
        "ce_type": "org.example.order.placed",
        "ce_time": "2026-11-18T12:30:00+00:00",
        "content-type": "application/json",
        "ce_traceparent": "00-1",
    }
    assert repr(event) == "CloudEvent('org.example.order.placed', id='7', source='/shop')"
    assert event != "CloudEvent"


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": ""},
        {"source": None},
        {"type": 5},
        {"subject": ""},
        {"time": "yesterday"},
        {"time": datetime(2026, 11, 18)},  # of which zone?
        {"time": 5},
        {"extensions": {"Trace-Parent": "x"}},
        {"extensions": {"a" * 21: "x"}},
        {"extensions": {"subject": "x"}},
        {"extensions": {"data": "x"}},
        {"extensions": {"trace": ""}},
    ],
    ids=str,
)
def test_an_event_that_breaks_a_rule_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        CloudEvent(**{**LEAST, **wrong})


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"ce_specversion": None}, "ce_specversion"),
        ({"ce_specversion": "0.3"}, "0.3"),
        ({"ce_id": None}, "ce_id is missing"),
        ({"ce_source": ""}, "ce_source is missing"),
        ({"ce_type": None}, "ce_type is missing"),
        ({"ce_time": "yesterday"}, "RFC 3339"),
        ({"ce_Trace": "x"}, "Trace"),
    ],
    ids=str,
)
def test_properties_that_are_no_event_are_refused(change: dict[str, str | None], says: str) -> None:
    changed = {**CloudEvent(**LEAST).properties(), **change}
    properties = {name: value for name, value in changed.items() if value is not None}
    with pytest.raises(InvalidMessage, match=says):
        CloudEvent.from_properties(properties)


def test_an_event_goes_through_a_broker(client: Client) -> None:
    event = CloudEvent(**LEAST)
    consumer = client.subscribe("cloud-events", "s")
    producer = client.create_producer("cloud-events")
    producer.send(b"{}", properties=event.properties())
    producer.send(b"{}")
    first, second = consumer.receive(WAIT_MS), consumer.receive(WAIT_MS)
    assert CloudEvent.is_in(first.properties())
    assert CloudEvent.from_properties(first.properties()) == event
    assert not CloudEvent.is_in(second.properties())
