"""Rates on the command line: with pulsar-admin's names and options, and each as it was set."""

import json

import pytest
from cli.broker_cli import BrokerCli

T, NS = "topics", "namespaces"


def shown(cli: BrokerCli, noun: str, rate: str, name: str, *words: str) -> object:
    text = cli.ok(noun, f"get-{rate}", name, "--json", *words)
    return json.loads(text) if text.strip() else None


@pytest.mark.parametrize(
    ("rate", "words", "body"),
    [
        (
            "publish-rate",
            ["-m", "100", "-b", "2000"],
            {"publishThrottlingRateInMsg": 100, "publishThrottlingRateInByte": 2000},
        ),
        (
            "dispatch-rate",
            ["-md", "10", "-dt", "5", "-p"],
            {
                "dispatchThrottlingRateInMsg": 10,
                "dispatchThrottlingRateInByte": -1,
                "ratePeriodInSecond": 5,
                "relativeToPublishRate": True,
            },
        ),
        (
            "subscription-dispatch-rate",
            ["-bd", "1000"],
            {
                "dispatchThrottlingRateInMsg": -1,
                "dispatchThrottlingRateInByte": 1000,
                "ratePeriodInSecond": 1,
                "relativeToPublishRate": False,
            },
        ),
        (
            "subscribe-rate",
            ["-sr", "3", "-st", "60"],
            {"subscribeThrottlingRatePerConsumer": 3, "ratePeriodInSecond": 60},
        ),
    ],
)
@pytest.mark.parametrize(("noun", "name"), [(T, "rated"), (NS, "public/default")])
def test_a_rate_is_set_shown_and_removed(
    cli: BrokerCli, noun: str, name: str, rate: str, words: list[str], body: dict[str, object]
) -> None:
    cli.run(T, "create", "rated")
    before = shown(cli, noun, rate, name)
    cli.ok(noun, f"set-{rate}", name, *words)
    assert shown(cli, noun, rate, name) == body
    assert shown(cli, noun, rate, name, "--applied") == body
    cli.ok(noun, f"remove-{rate}", name)
    assert shown(cli, noun, rate, name) == before


def test_a_rate_may_be_that_of_one_subscription(cli: BrokerCli) -> None:
    cli.run(T, "create", "rated")
    cli.ok(T, "set-subscription-dispatch-rate", "rated", "-s", "slow", "-md", "7")
    found = shown(cli, T, "subscription-dispatch-rate", "rated", "-s", "slow")
    assert isinstance(found, dict)
    assert found["dispatchThrottlingRateInMsg"] == 7
    other = shown(cli, T, "subscription-dispatch-rate", "rated")
    assert not isinstance(other, dict) or other.get("dispatchThrottlingRateInMsg") != 7
    cli.ok(T, "remove-subscription-dispatch-rate", "rated", "-s", "slow")
    assert not isinstance(shown(cli, T, "subscription-dispatch-rate", "rated", "-s", "slow"), dict)


def test_a_rate_that_is_none_is_refused(cli: BrokerCli) -> None:
    assert cli.run(NS, "set-publish-rate", "public/default", "-m", "-2").code == 2
    assert cli.run(NS, "set-dispatch-rate", "public/default", "-md", "1", "-dt", "0").code == 2


def test_a_group_is_made_used_and_deleted(cli: BrokerCli) -> None:
    groups, ns = "resourcegroups", "public/default"
    cli.ok(groups, "create", "g", "-mp", "100", "-bd", "5000")
    assert json.loads(cli.ok(groups, "list", "--json")) == ["g"]
    cli.ok(groups, "update", "g", "-md", "20")
    assert json.loads(cli.ok(groups, "get", "g", "--json")) == {
        "publishRateInMsgs": 100,
        "publishRateInBytes": -1,
        "dispatchRateInMsgs": 20,
        "dispatchRateInBytes": 5000,
    }
    cli.ok(NS, "set-resource-group", ns, "-rgn", "g")
    assert json.loads(cli.ok(NS, "get-resource-group", ns, "--json")) == "g"
    ran = cli.run(groups, "delete", "g", "--yes")
    assert (ran.code != 0, "ResourceGroup is in use" in ran.err) == (True, True)
    cli.ok(NS, "remove-resource-group", ns)
    cli.ok(groups, "delete", "g", "--yes")
    assert cli.run(groups, "update", "g", "-md", "20").code == 5
    assert cli.run(NS, "set-resource-group", ns, "-rgn", "g").code != 0
