"""Lists of topics and of subscriptions: orders, pages, filters, and who sees what."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from support.served import Served, made
from support.tokens import SECRET_SETTING, token

from magnetar.broker.auth.permissions import Permissions
from magnetar.broker.setting.settings import BrokerSettings
from magnetar.errors import CorruptionError
from magnetar.model import Position


@pytest.fixture(scope="module")
def lists() -> Iterator[Served]:
    """A broker with topics t-0 to t-6, whose backlogs grow, and a subscription of each."""
    served = Served(BrokerSettings())
    served.start()
    for number in range(7):
        name = f"public/default/t-{number}"
        assert served.http.put(f"/persistent/{name}").status_code == 204
        answer = served.http.put(f"/persistent/{name}/subscription/of-{number}", json="earliest")
        assert answer.status_code == 204
        if number:
            served.publish(name, number)
    yield served
    served.stop()


def rows(served: Served, **query: object) -> list[dict[str, Any]]:
    served.call(lambda: forget(served))
    answer = served.http.get("/console/topics", params=query)  # type: ignore[arg-type]
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["rows"]
    return found


def forget(served: Served) -> None:
    """What was listed a moment ago is not good enough for a test."""
    app: Any = served._http._server.config.app
    if app._admin.topic_lists is not None:
        app._admin.topic_lists.forget()


def local(found: list[dict[str, Any]]) -> list[str]:
    return [row["topic"].rpartition("/")[2] for row in found]


def test_the_largest_backlog_comes_first_and_the_other_way_round(lists: Served) -> None:
    assert local(rows(lists, limit=3)) == ["t-6", "t-5", "t-4"]
    assert local(rows(lists, limit=3, descending="false")) == ["t-0", "t-1", "t-2"]
    assert [row["backlog"] for row in rows(lists, limit=2)] == [6, 5]


def test_topics_and_subscriptions_are_sorted_by_any_of_their_figures(lists: Served) -> None:
    names = [f"t-{number}" for number in range(7)]
    assert local(rows(lists, order="topic", descending="false")) == names
    for order in ("age", "rateIn", "rateOut", "storage", "consumers", "unacked", "delayed"):
        for of in ("topics", "subscriptions"):
            found = rows(lists, order=order, of=of)
            figures = [row.get(order, 0) for row in found]
            assert figures == sorted(figures, reverse=True)
            assert sorted(local(found)) == names
    subscriptions = rows(lists, of="subscriptions", order="subscription", descending="false")
    assert [row["subscription"] for row in subscriptions] == [f"of-{n}" for n in range(7)]


def test_a_page_is_a_part_of_the_list(lists: Served) -> None:
    answer = lists.http.get("/console/topics", params={"offset": 5, "limit": 5}).json()
    assert (answer["total"], local(answer["rows"])) == (7, ["t-1", "t-0"])
    answer = lists.http.get("/console/topics", params={"offset": 50}).json()
    assert (answer["total"], answer["rows"]) == (7, [])


def test_words_of_a_filter_are_all_in_the_name(lists: Served) -> None:
    assert local(rows(lists, filter="T-3")) == ["t-3"]
    assert local(rows(lists, filter="default t-")) == [f"t-{n}" for n in (6, 5, 4, 3, 2, 1, 0)]
    assert rows(lists, filter="t-3 t-4") == []
    found = rows(lists, filter="of-2", of="subscriptions")
    assert [row["subscription"] for row in found] == ["of-2"]


def test_a_topic_that_nobody_opened_since_the_start_is_listed_with_its_backlog(
    lists: Served,
) -> None:
    assert lists.http.put("/persistent/public/default/t-6/unload").status_code == 204
    assert "persistent://public/default/t-6" not in lists.broker.topics
    (first, *_) = rows(lists)
    assert (local([first]), first["backlog"]) == (["t-6"], 6)


@pytest.mark.parametrize("query", [{"limit": 0}, {"limit": 501}, {"offset": -1}, {"offset": "x"}])
def test_pages_that_are_none_are_refused(lists: Served, query: dict[str, Any]) -> None:
    assert lists.http.get("/console/topics", params=query).status_code == 400


def test_who_asks_sees_what_they_may_look_at(
    own_broker: Callable[[BrokerSettings], Served],
) -> None:
    settings = BrokerSettings(
        authentication=True, token_secret_key=SECRET_SETTING, super_user_roles=("root",)
    )
    served = own_broker(settings)

    def ask(path: str, role: str) -> httpx.Response:
        headers = {"Authorization": f"Bearer {token(role)}"}
        return httpx.get(f"{served.http_url}/admin/v2{path}", headers=headers)

    for name in ("seen", "hidden"):
        path = f"{served.http_url}/admin/v2/persistent/public/default/{name}"
        answer = httpx.put(path, headers={"Authorization": f"Bearer {token('root')}"})
        assert answer.status_code == 204
    granted = Permissions().with_topic("persistent://public/default/seen", "reader", ("consume",))
    served.call(lambda: served.broker.directory.put_permissions("public/default", granted))
    assert sorted(local(ask("/console/topics", "root").json()["rows"])) == ["hidden", "seen"]
    assert local(ask("/console/topics", "reader").json()["rows"]) == ["seen"]
    assert ask("/console/topics", "stranger").json()["rows"] == []
    # And what they may do, as the page asks.
    session = ask("/console/session", "reader").json()
    assert (session["role"], session["superuser"], session["mayCreate"]) == ("reader", False, False)
    rights = ask("/persistent/public/default/seen/rights", "reader").json()
    assert rights == {
        "look": True,
        "produce": False,
        "consume": True,
        "skip": True,
        "manage": False,
    }
    assert all(ask("/persistent/public/default/seen/rights", "root").json().values())
    assert ask("/persistent/public/default/hidden/rights", "reader").status_code == 403
    assert ask("/console/overview", "reader").status_code == 403


def test_the_overview_says_what_is_wrong(served: Served) -> None:
    topic = made(served)
    served.publish(topic, 3)
    found = served.http.get("/console/overview").json()
    assert found["warnings"] == []
    assert found["memoryBytes"] > 1 << 20
    assert found["freeBytes"] is None
    subscription = served.broker.topics[f"persistent://{topic}"].subscriptions["s"]
    first = Position(found_ledger(served, topic), 0)
    served.call(lambda: subscription.damage.found(first, CorruptionError("log", 1, "torn")))
    (warning,) = served.http.get("/console/overview").json()["warnings"]
    assert (warning["level"], warning["subscription"]) == ("error", "s")
    assert str(first) in warning["text"]
    assert warning["topic"] == f"persistent://{topic}"
    row = served.http.get("/console/topics", params={"of": "subscriptions", "filter": topic})
    assert row.status_code == 200
    # It is found again when the topic is loaded, if it is there.
    assert served.http.put(f"/persistent/{topic}/unload").status_code == 204
    assert served.http.get("/console/overview").json()["warnings"] == []


def test_the_overview_tells_the_rates_of_the_last_minutes(served: Served) -> None:
    topic = made(served)
    served.publish(topic, 30)
    before = served.http.get("/console/overview").json()["history"]
    for _ in range(2):
        served.call(served.broker.upkeep.tick_rates)
    history = served.http.get("/console/overview").json()["history"]
    # The broker's own interval may have ended in between.
    new = [one for one in history if one not in before]
    assert max(one["msgRateIn"] for one in new) >= 3.0
    times = [one["timeMs"] for one in history]
    assert times == sorted(times)


def found_ledger(served: Served, topic: str) -> int:
    stats = served.http.get(f"/persistent/{topic}/internalStats").json()
    return int(stats["ledgers"][0]["ledgerId"])
