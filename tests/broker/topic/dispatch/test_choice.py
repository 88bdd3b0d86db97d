"""Subscription types: each of the protocol has a row, and a dispatcher that is made with it."""

import ast
from pathlib import Path

import pytest

import magnetar
from magnetar.broker.topic.dispatch.choice import MAKERS
from magnetar.broker.topic.subscribe_request import require_type
from magnetar.errors import BrokerError
from magnetar.model import ConsumerType
from magnetar.model.subscription_type import (
    SUBSCRIPTION_TYPES,
    SubscriptionType,
    type_named,
    type_numbered,
)

BROKER = Path(magnetar.__file__).parent / "broker"
ADMIN = BROKER.parent / "admin"


@pytest.mark.parametrize("number", ConsumerType)
def test_every_type_of_the_protocol_has_a_row_and_a_dispatcher(number: ConsumerType) -> None:
    row = type_numbered(number)
    assert row is not None
    assert row.name.replace("_", "") == number.name
    assert number in MAKERS
    assert require_type(number) is row
    assert type_named(row.name) is row


def test_there_is_no_row_beyond_the_protocol() -> None:
    assert [row.number for row in SUBSCRIPTION_TYPES] == sorted(MAKERS) == sorted(ConsumerType)
    assert type_named("Mine") is None
    with pytest.raises(BrokerError, match="no subscription is of type 9"):
        require_type(9)


@pytest.mark.parametrize("row", SUBSCRIPTION_TYPES, ids=repr)
def test_who_gets_everything_may_ack_cumulatively_and_nobody_skips_single_ones(
    row: SubscriptionType,
) -> None:
    assert row.has_active == (row.name in ("Exclusive", "Failover"))
    assert row.accepts_cumulative_acks == row.has_active == row.is_kept
    assert row.skips_single_messages != row.has_active
    assert row.takes_one == (row.name == "Exclusive")
    assert row.goes_by_key == (row.name == "Key_Shared")


def test_nobody_asks_which_class_a_dispatcher_is() -> None:
    """A type is asked what it is able to do; so a new one has nowhere to be forgotten."""
    asked: list[str] = []
    for path in [*BROKER.rglob("*.py"), *ADMIN.rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "isinstance"
                and "Dispatcher" in ast.unparse(node.args[1])
            ):
                asked.append(f"{path.name}:{node.lineno}")
    assert asked == []
