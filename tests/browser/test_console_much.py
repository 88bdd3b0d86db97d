"""Every page of the console with much: ten thousand topics, a million messages, crowds."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from browser.axe import violations
from browser.data import ack_parts, fill_batches, make, publish
from browser.visit import DESKTOP, PHONE, Visit
from support.served import Served

import magnetar
from magnetar.broker.setting.settings import BrokerSettings

Visits = Callable[..., Visit]
# Interpreted, less is much.
MESSAGES = 1_000_000 if magnetar.COMPILED else 50_000
TOPICS = 10_000 if magnetar.COMPILED else 2_000
BATCH = 1000
CROWD = 150
MUCH = "public/default/much"
CROWDED = "public/default/crowded"


@pytest.fixture(scope="module")
def much() -> Iterator[Served]:
    served = Served(BrokerSettings())
    served.start()
    made = served.http.put("/persistent/public/default/many/partitions", json=TOPICS - 2)
    assert made.status_code == 204
    make(served, MUCH, "work")
    fill_batches(served, MUCH, MESSAGES // BATCH, BATCH)
    batches = MESSAGES // BATCH
    assert ack_parts(served, MUCH, "work") == batches - batches // 7
    publish(served, MUCH, {"payload": '{"order": "poison"}', "key": "customer-7"})
    make(served, CROWDED, *[f"s{number}" for number in range(CROWD)])
    for number in range(3):
        publish(served, CROWDED, {"payload": f"m{number}"})
    with magnetar.Client(served.url) as client:
        type = magnetar.ConsumerType.KeyShared
        consumers = [
            client.subscribe(CROWDED, "s0", type, consumer_name=f"worker-{number}")
            for number in range(CROWD)
        ]
        producers = [client.create_producer(CROWDED) for _ in range(CROWD)]
        yield served
        for one in [*consumers, *producers]:
            one.close()
    served.stop()


PAGES: dict[str, tuple[Callable[[Visit], Any], str]] = {
    "overview": (lambda visit: visit.go("overview"), "tbody a:text-is('work')"),
    "topics": (lambda visit: visit.go("topics"), f"text=1 to 50 of {TOPICS:,}"),
    "subscriptions": (
        lambda visit: visit.go("subscriptions"),
        f"text=1 to 50 of {CROWD + 1}",
    ),
    "topic": (lambda visit: visit.topic(CROWDED), f"text=100 of {CROWD} are shown."),
    "partitions": (
        lambda visit: visit.topic("public/default/many"),
        "tbody a:text('many-partition')",
    ),
    "topic-messages": (lambda visit: visit.topic(MUCH, "messages"), "tr[data-id] >> nth=24"),
    "acks": (lambda visit: visit.subscription(MUCH, "work"), ".map-range:text('one a cell')"),
    "messages": (lambda visit: visit.subscription(MUCH, "work", "messages"), "tr[data-id]"),
    "consumers": (
        lambda visit: visit.subscription(CROWDED, "s0", "consumers"),
        f"text=100 of {CROWD} are shown.",
    ),
}


@pytest.mark.parametrize("name", PAGES)
def test_every_page_can_be_read_with_much_on_it(much: Served, visit: Visits, name: str) -> None:
    open, shown = PAGES[name]
    one = visit(much.http_url, viewport=DESKTOP)
    page = open(one)
    page.wait_for_selector(shown)
    page.wait_for_selector(".state:text('live')")
    one.picture(f"much-{name}")
    assert violations(page) == []


@pytest.mark.parametrize("name", PAGES)
def test_every_page_fits_a_phone_with_much_on_it(much: Served, visit: Visits, name: str) -> None:
    open, shown = PAGES[name]
    one = visit(much.http_url, viewport=PHONE)
    page = open(one)
    page.wait_for_selector(shown)
    one.picture(f"much-{name}-phone")
    wide, room = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide <= room


def test_topics_come_in_pages_in_any_order_and_one_is_found(much: Served, visit: Visits) -> None:
    one = visit(much.http_url)
    page = one.go("topics")
    page.wait_for_selector(f"text=1 to 50 of {TOPICS:,}")
    assert page.locator("tbody tr").count() == 50
    assert page.locator("tbody tr >> nth=0").inner_text().startswith("much")
    page.click("button:text('Next')")
    page.wait_for_selector(f"text=51 to 100 of {TOPICS:,}")
    page.click("th button:text('Topic')")
    page.wait_for_selector("tbody tr:first-child a:text-is('crowded')")
    page.fill("input[type=search]", f"partition-{TOPICS - 3}")
    page.wait_for_selector("text=1 to 1 of 1")
    assert f"partition-{TOPICS - 3}" in page.url
    page.reload()
    page.wait_for_selector("text=1 to 1 of 1")


def test_a_crowd_is_shown_a_hundred_at_a_time(much: Served, visit: Visits) -> None:
    one = visit(much.http_url)
    page = one.topic(CROWDED)
    page.wait_for_selector(f"text=100 of {CROWD} are shown.")
    rows = page.locator("section:has(h2:text-is('Subscriptions')) tbody tr")
    assert rows.count() == 100
    page.click("section:has(h2:text-is('Subscriptions')) button:text('Show 100 more')")
    assert rows.count() == CROWD
    page.wait_for_selector("tbody a:text-is('s0')")


def test_partitions_lead_to_all_of_them(much: Served, visit: Visits) -> None:
    one = visit(much.http_url)
    page = one.topic("public/default/many")
    page.wait_for_selector("tbody a:text('many-partition')")
    assert page.locator("section:has(h2:text-is('Partitions')) tbody tr").count() == 50
    page.click(f"a:text-is('All {TOPICS - 2:,} partitions')")
    page.wait_for_selector(f"text=1 to 50 of {TOPICS - 2:,}")


def test_the_map_comes_down_from_a_million_messages_to_one_of_a_batch(
    much: Served, visit: Visits
) -> None:
    one = visit(much.http_url, viewport=DESKTOP)
    page = one.subscription(MUCH, "work")
    page.wait_for_selector(f"text=all {MESSAGES // BATCH + 1:,} entries")
    canvas = page.locator("canvas.map")
    canvas.focus()
    canvas.press("ArrowRight")
    page.wait_for_selector(".picked >> text=1,000 messages")
    canvas.press("Enter")
    page.wait_for_selector(f"text=, {BATCH:,} messages")
    one.picture("much-acks-batch")
    # Entry 1: from index 1 on, each third is acked.
    told: list[bool] = []
    for index in range(1, 8):
        canvas.press("ArrowRight")
        page.wait_for_selector(f".picked >> text=:1:{index}")
        told.append("not acked" not in page.inner_text(".picked"))
    assert told == [index % 3 == 1 for index in range(1, 8)]


def test_one_message_of_a_million_is_found_and_a_search_can_be_stopped(
    much: Served, visit: Visits
) -> None:
    one = visit(much.http_url)
    page = one.subscription(MUCH, "work", "messages")
    page.wait_for_selector("tr[data-id] >> nth=24")
    page.fill("label:text-is('Payload has') + input", "nobody wrote this")
    page.click("button:text-is('Search')")
    page.click("button:text-is('Stop')")
    page.wait_for_selector("button:text-is('Stop')", state="hidden")
    page.fill("label:text-is('Payload has') + input", "poison")
    page.click("button:text-is('Search')")
    page.wait_for_selector("text=1 message;", timeout=120_000)
    assert page.locator("tr[data-id]").count() == 1
    looked = re.search(r"([\d,]+) entries looked at", page.inner_text(".bar"))
    assert looked is not None
    # All that is not wholly acked.
    batches = MESSAGES // BATCH
    assert int(looked[1].replace(",", "")) == batches - batches // 7 + 1
