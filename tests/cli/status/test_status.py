"""`magnetar status`, `magnetar top` and the columns of `magnetar topics list`."""

import io
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cli.broker_cli import BrokerCli
from rich.console import Console
from support.served import Served
from support.terminal import terminal
from support.tokens import SECRET_SETTING, token
from support.web import Asked, Said, answering, lacking

import magnetar
from magnetar.broker.setting.settings import BrokerSettings
from magnetar.cli.status.broker_view import BrokerView
from magnetar.cli.status.screen import topic_table
from magnetar.cli.status.survey import Survey, survey
from magnetar.cli.status.view import TopicView, topic_view
from magnetar.cli.status.warning import gathered, warnings_of
from magnetar.errors import DiskError
from magnetar.rest.admin_client import AdminClient
from magnetar.testing.embedded import EmbeddedBroker

HOUR_MS = 3_600_000


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as found:
        yield found


@pytest.fixture
def own(broker: EmbeddedBroker) -> BrokerCli:
    """Of a broker that no other test uses: totals count everything."""
    return BrokerCli(broker.url, broker.http_url)


def fill(cli: BrokerCli) -> None:
    cli.ok("topics", "create", "orders")
    cli.ok("subscriptions", "create", "orders", "-s", "billing")
    cli.ok("produce", "orders", "-m", "a", "-m", "b", "-m", "c")
    cli.ok("topics", "create-partitioned-topic", "clicks", "-p", "3")
    cli.ok("subscriptions", "create", "clicks", "-s", "reader")
    cli.ok("produce", "clicks", "-m", "x", "-n", "4", "-db")
    cli.ok("tenants", "create", "shop")
    cli.ok("namespaces", "create", "shop/eu")
    cli.ok("topics", "create", "shop/eu/stock")


def test_an_empty_broker_fits_a_few_lines(own: BrokerCli) -> None:
    ran = own.run("status")
    assert (ran.code, ran.err) == (0, "")
    assert ran.lines[0].startswith(f"{own.admin_url}  version {magnetar.__version__}, up ")
    assert ran.lines[2].split() == ["in", "0", "messages/s,", "0", "B/s", "topics", "0"]
    assert "in memory" in ran.out
    assert len(ran.lines) == 7


def test_status_has_all_on_one_screen(own: BrokerCli) -> None:
    fill(own)
    ran = own.run("status")
    assert ran.code == 0
    table = {line.split()[0]: line.split()[1:] for line in ran.lines if line}
    assert table["backlog"][:2] == ["7", "messages"]
    assert table["in"][-1] == "3"  # topics
    assert table["clicks"][:2] == ["reader", "4"]
    assert table["orders"][:2] == ["billing", "3"]
    assert table["orders"][-1] == "0"
    assert "! reader of clicks has 4 messages and no consumer" in ran.lines
    assert ran.out.index("clicks") < ran.out.index("orders")  # the largest first
    assert max(map(len, ran.lines)) <= 80
    few = own.ok("status", "--limit", "1")
    assert "and 1 subscription more: --limit 2" in few
    assert "billing of orders" in own.ok("status", "-n", "public/default")
    assert "orders" not in own.ok("status", "-n", "shop/eu")


def test_status_for_programs(own: BrokerCli) -> None:
    fill(own)
    before_ms = time.time() * 1000
    found = json.loads(own.ok("status", "--json"))
    assert (found["backlog"], found["backlogCounts"]) == (7, "messages")
    topics = {topic["name"]: topic for topic in found["topics"]}
    orders = topics["persistent://public/default/orders"]
    assert 0 < orders["oldestUnackedPublishTime"] <= before_ms
    assert orders["subscriptions"]["billing"]["backlog"] == 3
    assert topics["persistent://public/default/clicks"]["partitions"] == 3
    assert topics["persistent://shop/eu/stock"]["oldestUnackedPublishTime"] is None
    assert {one["wrong"] for one in found["warnings"]} == {False}
    assert found["missing"] == []


@pytest.fixture
def served() -> Iterator[Callable[[BrokerSettings], Served]]:
    """Starts brokers whose insides may be touched."""
    started: list[Served] = []

    def make(settings: BrokerSettings) -> Served:
        started.append(Served(settings))
        started[-1].start()
        return started[-1]

    yield make
    for one in started:
        one.stop()


def test_what_is_wrong_is_told_and_ends_with_1(
    served: Callable[[BrokerSettings], Served],
) -> None:
    ill = served(BrokerSettings())
    error = DiskError("write", "log", "the disk is gone")
    ill.call(lambda: ill.broker.store.log.journal.failed(error))
    ran = BrokerCli(ill.url, ill.http_url).run("status")
    assert ran.code == 1
    assert "! the broker is not well: " in ran.out
    assert "the disk is gone" in ran.out


def test_a_broker_that_is_down_is_told_at_once() -> None:
    for command in (["status"], ["topics", "list", "--columns"]):
        ran = BrokerCli("pulsar://127.0.0.1:1", "http://127.0.0.1:1").run(*command)
        assert (ran.code, ran.out) == (3, "")
        assert "Connection refused" in ran.err
        assert ran.err.count("\n") == 1


def test_topics_that_are_not_loaded_are_asked_for_up_to_a_limit(own: BrokerCli) -> None:
    """And if they are too many, that is told."""
    fill(own)
    with lacking(own.admin_url, "/broker-stats/topics") as url, AdminClient(url) as admin:
        assert "backlog         7 messages" in own.run("status", admin_url=url).out
        some = survey(admin, "public/default", everywhere=True, most=2)
    assert some.uncounted == 3  # of orders, stock and three partitions
    assert some.notes()[0].startswith("3 topics not counted, since nobody has used them")


def test_a_role_that_may_not_list_tenants_sees_its_namespace(
    served: Callable[[BrokerSettings], Served],
) -> None:
    guarded = served(
        BrokerSettings(
            authentication=True, token_secret_key=SECRET_SETTING, super_user_roles=("boss",)
        )
    )
    cli = BrokerCli(guarded.url, guarded.http_url)
    boss = ("--token", token("boss"))
    cli.ok(*boss, "topics", "create", "orders")
    grant = ("namespaces", "grant-permission", "public/default", "--role", "clerk")
    cli.ok(*boss, *grant, "--actions", "consume,produce")
    ran = cli.run("--token", token("clerk"), "status")
    assert ran.code == 0, ran
    assert "only public/default: this role may not list other namespaces" in ran.out
    assert "connections    -" in ran.out
    assert "topics         1" in ran.out


# ---- Apache Pulsar, whose stats are a minute old and count entries -------------------------


def test_pulsars_own_fields_are_enough() -> None:
    def answer(request: Asked) -> Said:
        path = request.path.partition("?")[0].removeprefix("/admin/v2/")
        found = PULSAR.get(path)
        if found is None:
            return Said(404, {"Content-Type": "text/html"}, b"<html>")
        if isinstance(found, str):
            return Said(200, {"Content-Type": "text/plain"}, found.encode())
        return Said(200, {"Content-Type": "application/json"}, json.dumps(found).encode())

    with answering(answer) as url:
        cli = BrokerCli("pulsar://127.0.0.1:1", url)
        ran = cli.run("status")
        listed = cli.ok("topics", "list", "--columns")
    assert ran.code == 0, ran
    table = {line.split()[0]: line.split()[1:] for line in ran.lines if line}
    assert table["t"][:4] == ["s", "5", "2", "h"]
    assert "version 4.0.6" in ran.lines[0]
    assert "the backlog counts entries" in ran.out
    assert "2.0 KiB stored" in ran.out
    assert "! s of t has consumers, but its oldest message has waited for 2 h" in ran.out
    assert listed.splitlines()[2].split()[0] == "t"


PULSAR = {
    "brokers/version": "4.0.6",
    "brokers/health": "ok",
    "broker-stats/topics": {
        "public/default": {
            "0x00000000_0xffffffff": {
                "persistent": {
                    "persistent://public/default/t": {
                        "publishers": [],
                        "subscriptions": {"s": {"msgBacklog": 9, "consumers": []}},
                        "producerCount": 1,
                    }
                }
            }
        },
        "pulsar/localhost:8080": {"0x0": {"persistent": {"persistent://pulsar/x/y": {}}}},
    },
    "broker-stats/load-report": {"cpu": {"usage": 1.0, "limit": 400.0}, "numTopics": 1},
    "tenants": ["public", "pulsar"],
    "namespaces/public": ["public/default"],
    "namespaces/public/default/topics": ["persistent://public/default/t"],
    "persistent/public/default/t/stats": {
        "msgRateIn": 1.5,
        "msgThroughputIn": 100.0,
        "storageSize": 2048,
        "ownerBroker": "localhost:8080",
        "publishers": [{}],
        "subscriptions": {
            "s": {
                "msgBacklog": 5,
                "earliestMsgPublishTimeInBacklog": int(time.time() * 1000) - 2 * HOUR_MS - 5000,
                "consumers": [{}],
                "unackedMessages": 2,
            }
        },
    },
}


# ---- Warnings and views ---------------------------------------------------------------


def warned(found: dict[str, object], broker: BrokerView | None = None) -> list[tuple[str, bool]]:
    found_all = Survey()
    stats = {"subscriptions": {"s": {"msgBacklogMessages": found.get("msgBacklog"), **found}}}
    topic_view(found_all.topics, "t").add(stats)
    told = warnings_of(broker or BrokerView("http://x"), found_all, "public/default")
    return [(one.text, one.wrong) for one in told]


def test_a_damaged_entry_names_the_command() -> None:
    told = warned(
        {"msgBacklog": 1, "damagedPosition": "3:4", "damagedReason": "bad", "consumers": [1]}
    )
    assert told == [
        (
            "s of t is stuck at 3:4: bad. If no backup has it: "
            "magnetar subscriptions skip-damaged t -s s",
            True,
        )
    ]


def test_blocked_idle_and_delayed() -> None:
    blocked = {"msgBacklog": 9, "blockedSubscriptionOnUnackedMsgs": True, "unackedMessages": 9}
    assert warned({**blocked, "consumers": [{}]})[0][1]
    assert warned({"msgBacklog": 9}) == [("s of t has 9 messages and no consumer", False)]
    # What waits for its time is not waited for.
    assert warned({"msgBacklog": 9, "msgDelayed": 9}) == []
    assert warned({"msgBacklog": 0}) == []


def test_what_is_said_of_thousands_of_subscriptions_takes_a_few_lines() -> None:
    found_all = Survey()
    for number in range(5000):
        view = topic_view(found_all.topics, f"persistent://public/default/t{number:04d}")
        view.add({"subscriptions": {"s": {"msgBacklog": 5000 - number}}})
    for number in range(4):
        stuck = {"msgBacklog": 0, "damagedPosition": "1:2", "damagedReason": "a bad checksum"}
        view = topic_view(found_all.topics, f"persistent://public/default/bad{number}")
        view.add({"subscriptions": {"s": stuck}})
    told = gathered(warnings_of(BrokerView("http://x"), found_all, "public/default"))
    assert [one.wrong for one in told] == [True] * 4 + [False] * 4
    assert [one.text for one in told[4:]] == [
        "s of t0000 has 5,000 entries and no consumer",
        "s of t0001 has 4,999 entries and no consumer",
        "s of t0002 has 4,998 entries and no consumer",
        "and 4,997 subscriptions more have a backlog and no consumer: --json lists them",
    ]


def test_storage_that_runs_out() -> None:
    broker = BrokerView("http://x")
    broker.free_bytes, broker.watermark_bytes = 300 << 20, 256 << 20
    broker.retrying = {"an index": "no room"}
    told = warned({"msgBacklog": 0}, broker)
    assert told == [
        ("an index fails and is tried again: no room", True),
        (
            "the disk has 300 MiB left, and publishes are refused below 256 MiB: free some space",
            True,
        ),
    ]


def test_partitions_are_added_up() -> None:
    views: dict[str, TopicView] = {}
    one = {"msgBacklog": 2, "consumers": [{}], "earliestMsgPublishTimeInBacklog": 50}
    two = {"msgBacklog": 3, "consumers": [{}], "earliestMsgPublishTimeInBacklog": 40}
    for number, found in enumerate((one, two, {"msgBacklog": 0})):
        stats = {"msgRateIn": 1.5, "subscriptions": {"s": found}, "publishers": [{}]}
        topic_view(views, f"persistent://a/b/t-partition-{number}").add(stats)
    (view,) = views.values()
    assert (view.name, view.partitions) == ("persistent://a/b/t", 3)
    assert (view.backlog, view.oldest_ms, view.rate_in) == (5, 40, 4.5)
    # One client is a producer and a consumer of each partition.
    assert (view.producers, view.consumers) == (1, 1)
    assert not view.in_messages


def test_names_are_cut_before_numbers() -> None:
    view = TopicView("persistent://public/default/" + "x" * 100)
    view.add({"subscriptions": {"s": {"msgBacklog": 1_234_567}}})
    for width in (80, 120):
        console = Console(width=width, record=True, file=io.StringIO())
        table = topic_table([view], "public/default", width, chosen="rate", one_line=True)
        console.print(table)
        lines = console.export_text().splitlines()
        assert len(lines) == 3
        assert "1,234,567" in lines[2]
        assert "…" in lines[2]
        assert ("stored" in lines[0]) == (width == 120)


# ---- On a terminal ----------------------------------------------------------------------


@pytest.fixture
def at(own: BrokerCli) -> dict[str, str]:
    fill(own)
    return {"MAGNETAR_URL": own.url, "MAGNETAR_ADMIN_URL": own.admin_url}


def test_topics_list_has_columns_on_a_terminal_alone(
    own: BrokerCli, at: dict[str, str], tmp_path: Path
) -> None:
    with terminal("topics", "list", cwd=tmp_path, environment=at) as shown:
        code, text = shown.end()
    assert code == 0
    rows = {line.split()[0]: line.split() for line in text.splitlines() if line.split()}
    assert rows["topic"][-3:] == ["stored", "producers", "consumers"]
    assert rows["orders"][3] == "3"
    assert rows["clicks"][1:3] == ["(3", "partitions)"]
    with terminal("topics", "list", "--names", cwd=tmp_path, environment=at) as shown:
        _, names = shown.end()
    assert names == own.ok("topics", "list")
    assert "persistent://public/default/clicks-partition-2\n" in names
    assert own.run("topics", "list", "shop/eu", "--columns").lines[2].startswith("stock")
    assert own.ok("topics", "list", "--json").startswith("[")


def test_an_empty_namespace_says_so(own: BrokerCli) -> None:
    ran = own.run("topics", "list", "--columns")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "public/default has no persistent topics\n"


def test_top_goes_on_until_q(own: BrokerCli, at: dict[str, str], tmp_path: Path) -> None:
    with terminal("top", "-i", "0.2", cwd=tmp_path, environment=at, columns=80) as shown:
        first = shown.wait_for("q quits; sort by")
        assert shown.text.index("clicks") < shown.text.index("orders")
        own.ok("produce", "orders", "-m", "x", "-n", "90")
        shown.wait_for("93", after=first)
        here = len(shown.text)
        shown.press("b")
        here = shown.wait_for("q quits", after=shown.wait_for("orders", after=here))
        shown.press("q")
        code, _ = shown.end()
    assert code == 0


def test_top_ends_with_ctrl_c(at: dict[str, str], tmp_path: Path) -> None:
    with terminal("top", cwd=tmp_path, environment=at) as shown:
        shown.wait_for("q quits")
        shown.interrupt()
        code, text = shown.end()
    assert code == 0
    assert "Traceback" not in text


def test_top_keeps_its_screen_while_nobody_answers(
    at: dict[str, str], broker: EmbeddedBroker, tmp_path: Path
) -> None:
    with terminal("top", "-i", "0.2", cwd=tmp_path, environment=at) as shown:
        here = shown.wait_for("q quits")
        broker.stop()
        here = shown.wait_for("no answer since", after=here)
        shown.wait_for("orders", after=here)  # the next one
        shown.press("q")
        assert shown.end()[0] == 0


def test_top_needs_a_terminal_and_a_broker(own: BrokerCli, tmp_path: Path) -> None:
    ran = own.run("top")
    assert (ran.code, ran.out) == (2, "")
    assert "top needs a terminal: `magnetar status`" in ran.err
    away = {"MAGNETAR_ADMIN_URL": "http://127.0.0.1:1"}
    with terminal("top", cwd=tmp_path, environment=away) as shown:
        code, text = shown.end()
    assert code == 3
    assert "Connection refused" in text
