"""Permissions as a value, and where they are kept."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.broker.auth.permissions import ACTIONS, Permissions, read_actions
from magnetar.broker.namespace.directory import Directory
from magnetar.broker.setting.settings import BrokerSettings
from magnetar.errors import SettingsError
from magnetar.model import TopicName
from magnetar.storage.catalog.catalog import Catalog

T = "persistent://public/default/t"
NAMES = st.sampled_from(["a", "b", "c"])
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["namespace", "topic", "subscription"]),
        NAMES,
        NAMES,
        st.lists(st.sampled_from(ACTIONS), max_size=3, unique=True).map(tuple),
    )
)


def changed(permissions: Permissions, change: tuple[str, str, str, tuple[str, ...]]) -> Permissions:
    level, where, role, actions = change
    if level == "namespace":
        return permissions.with_namespace(role, actions)
    if level == "topic":
        return permissions.with_topic(where, role, actions)
    return permissions.with_subscription(where, (role,) if actions else ())


@given(CHANGES)
def test_what_was_granted_last_holds(changes: list[tuple[str, str, str, tuple[str, ...]]]) -> None:
    permissions = Permissions()
    model: dict[tuple[str, str, str], tuple[str, ...]] = {}
    for change in changes:
        permissions = changed(permissions, change)
        level, where, role, actions = change
        if level == "subscription":
            for other in "abc":
                model.pop((level, where, other), None)
        key = (level, "" if level == "namespace" else where, role)
        model[key] = actions
    again = Permissions.from_json(json.loads(json.dumps(permissions.to_json())))
    for found in (permissions, again):
        for role in "abc":
            everywhere = model.get(("namespace", "", role), ())
            for where in "abc":
                here = model.get(("topic", where, role), ())
                for action in ACTIONS:
                    assert found.in_namespace(role, (action,)) == (action in everywhere)
                    expected = action in everywhere or action in here
                    assert found.on_topic(where, role, (action,)) == expected
                    assert (action in found.grants_on(where).get(role, ())) == expected
                allowed = [r for r in "abc" if model.get(("subscription", where, r))]
                assert found.opens_subscription(where, role) == (not allowed or role in allowed)
        assert found.empty == (not any(model.values()))


def test_no_action_is_granted_by_asking_for_none() -> None:
    everything = Permissions().with_namespace("a", ACTIONS)
    assert not everything.in_namespace("a", ())
    assert not everything.on_topic(T, "a", ())


@pytest.mark.parametrize("body", [None, "produce", {"produce": 1}, ["fly"], [1], ["Produce"]])
def test_what_is_no_list_of_actions_is_refused(body: object) -> None:
    with pytest.raises(SettingsError, match="produce, consume"):
        read_actions(body)


def test_actions_are_read_once_each() -> None:
    assert read_actions(["skip", "produce", "skip"]) == ("produce", "skip")
    assert read_actions([]) == ()


def test_they_are_kept_in_the_catalog_until_their_namespace_goes() -> None:
    catalog = Catalog()
    settings = BrokerSettings()
    directory = Directory(catalog, settings)
    granted = Permissions().with_topic(T, "me", ("produce",)).with_namespace("you", ("consume",))
    directory.put_permissions("public/default", granted)
    again = Directory(catalog, settings)
    assert again.permissions_of("public/default").to_json() == granted.to_json()
    again.forget_permissions(TopicName.parse(T))
    assert again.permissions_of("public/default").topics == {}
    assert again.permissions_of("public/default").namespace == {"you": ("consume",)}
    again.delete_namespace("public/default")
    assert Directory(catalog, settings).permissions_of("public/default").empty
    assert catalog.items("permissions") == []
    catalog.close()
