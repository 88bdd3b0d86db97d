"""Every page of the console with nothing, with much, and with what hostile people send."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from browser.axe import violations
from browser.data import IMAGE, NASTY, SCRIPT, fill, make, publish, punch, use
from browser.visit import DESKTOP, PHONE, Visit
from support.served import Served

import magnetar
from magnetar.broker.setting.settings import BrokerSettings

Visits = Callable[..., Visit]
USED = "public/default/used"
EMPTY = "public/default/empty"
DEAD = "public/default/used-work-DLQ"


@pytest.fixture(scope="module")
def used() -> Iterator[Served]:
    """A broker at work."""
    served = Served(BrokerSettings())
    served.start()
    make(served, USED, "work")
    make(served, EMPTY, "nobody")
    make(served, DEAD, "letters")
    letter = {
        "payload": '{"broken": true}',
        "properties": {"REAL_TOPIC": f"persistent://{USED}", "REAL_SUBSCRIPTION": "work"},
    }
    publish(served, DEAD, *[letter] * 3)
    with magnetar.Client(served.url) as client:
        consumer = use(client, USED)
        yield served
        consumer.close()
    served.stop()


PAGES: dict[str, Callable[[Visit], Any]] = {
    "overview": lambda visit: visit.go("overview"),
    "topics": lambda visit: visit.go("topics"),
    "subscriptions": lambda visit: visit.go("subscriptions"),
    "topic": lambda visit: visit.topic(USED),
    "produce": lambda visit: visit.topic(USED, "produce"),
    "topic-messages": lambda visit: visit.topic(USED, "messages"),
    "acks": lambda visit: visit.subscription(USED, "work"),
    "messages": lambda visit: visit.subscription(USED, "work", "messages"),
    "letters": lambda visit: visit.subscription(DEAD, "letters", "messages"),
    "consumers": lambda visit: visit.subscription(USED, "work", "consumers"),
}
# What is there once a page has its data.
SHOWN = {
    "overview": "text=Largest backlogs",
    "topics": "tbody a:text('used')",
    "subscriptions": "tbody a:text('work')",
    "topic": "tbody a:text('work')",
    "produce": "button:text('Publish')",
    "topic-messages": "tr[data-id]",
    "acks": ".map-range:text('entries')",
    "messages": "tr[data-id]",
    "letters": ".badge:text('dead letter')",
    "consumers": "tbody >> text=worker-1",
}


def settled(visit: Visit, name: str) -> Any:
    page = PAGES[name](visit)
    page.wait_for_selector(SHOWN[name])
    page.wait_for_selector(".state:text('live')")
    return page


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_every_page_can_be_read_by_everybody(
    used: Served, visit: Visits, name: str, scheme: str
) -> None:
    """No violation of WCAG A and AA that axe finds, on a desktop; pictures are kept."""
    one = visit(used.http_url, color_scheme=scheme, viewport=DESKTOP)
    page = settled(one, name)
    if name == "messages":
        page.click(".opener >> nth=0")
        page.wait_for_selector("pre.payload")
    one.picture(f"{name}-{scheme}")
    assert violations(page) == []


@pytest.mark.parametrize("name", PAGES)
def test_every_page_fits_a_phone(used: Served, visit: Visits, name: str) -> None:
    one = visit(used.http_url, viewport=PHONE)
    page = settled(one, name)
    one.picture(f"{name}-phone")
    wide, room = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide <= room
    # What a fact is called stands right above it.
    high = "[...document.querySelectorAll('.facts dt')].map(name => name.offsetHeight)"
    assert all(height < 50 for height in page.evaluate(high))
    assert violations(page) == []


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (("topic", "persistent", "public", "default", "empty"), "Nobody is connected to publish"),
        (("topic", "persistent", "public", "default", "empty", "messages"), "No messages"),
        (
            ("subscription", "persistent", "public", "default", "empty", "nobody"),
            "nothing is stored",
        ),
        (
            ("subscription", "persistent", "public", "default", "empty", "nobody", "messages"),
            "No messages here",
        ),
        (
            ("subscription", "persistent", "public", "default", "empty", "nobody", "consumers"),
            "Nobody is connected",
        ),
        (
            ("subscription", "persistent", "public", "default", "empty", "none"),
            "There is no subscription none",
        ),
        (("topic", "persistent", "public", "default", "none"), "is not there"),
        (("topic", "persistent", "no", "tenant", "none"), "is not there"),
    ],
)
def test_a_page_without_data_says_so(
    used: Served, visit: Visits, names: tuple[str, ...], shown: str
) -> None:
    one = visit(used.http_url)
    one.expected.append("404 (Not Found)")
    page = one.go(*names)
    page.wait_for_selector(f"text={shown}")
    assert violations(page) == []


def test_a_broker_with_nothing_has_pages_without_rows(
    brokers: Callable[[], Served], visit: Visits
) -> None:
    served = brokers()
    one = visit(served.http_url)
    page = one.go("overview")
    page.wait_for_selector("text=Nothing is wrong")
    one.go("topics").wait_for_selector("text=No topics here")
    one.go("subscriptions").wait_for_selector("text=No subscriptions here")
    one.picture("topics-none")


# ---- Much ------------------------------------------------------------------------------


def test_a_map_of_many_holes_comes_down_to_one_entry(
    brokers: Callable[[], Served], visit: Visits
) -> None:
    topic = "public/default/holes"
    served = brokers()
    make(served, topic, "s")
    fill(served, topic, 20_000)
    assert punch(served, topic, "s") == 10_000
    one = visit(served.http_url, viewport=DESKTOP)
    page = one.subscription(topic, "s")
    page.wait_for_selector("text=all 20,000 entries")
    one.picture("acks-many-holes")
    canvas = page.locator("canvas.map")
    canvas.focus()
    for _ in range(4):
        if "one a cell" in page.inner_text(".map-range"):
            break
        before = page.inner_text(".map-range")
        canvas.press("Enter")
        page.wait_for_function(
            "t => document.querySelector('.map-range').textContent !== t", arg=before
        )
    assert "one a cell" in page.inner_text(".map-range")
    says = page.inner_text(".map-says")
    canvas.press("ArrowRight")
    page.wait_for_function("t => document.querySelector('.map-says').textContent !== t", arg=says)
    both = {"not acked" in text for text in (says, page.inner_text(".map-says"))}
    assert both == {True, False}
    page.wait_for_selector(".picked >> text=Messages from here")
    canvas.press("Escape")
    page.click("button:text-is('All')")
    page.wait_for_selector("text=all 20,000 entries")
    # From hole to hole.
    page.click("button:text('Next hole')")
    page.wait_for_selector(".picked >> text=not acked, with acks behind it")
    first = page.inner_text(".map-says")
    page.click("button:text('Next hole')")
    page.wait_for_function("t => document.querySelector('.map-says').textContent !== t", arg=first)
    entries = [
        int(t.partition(":")[2].partition(",")[0]) for t in (first, page.inner_text(".map-says"))
    ]
    assert entries[1] == entries[0] + 2
    page.click("button:text-is('All')")
    page.wait_for_selector("text=all 20,000 entries")
    # By hand: a click looks closer.
    canvas.click(position={"x": 200, "y": 40})
    page.wait_for_selector("text=1,250 entries")


# ---- Hostile ---------------------------------------------------------------------------


def test_what_others_write_is_text(brokers: Callable[[], Served], visit: Visits) -> None:
    """In names, keys, properties, payloads, consumers: nothing runs, nothing becomes markup."""
    name = f"evil {SCRIPT.replace('/', '')}"
    topic, subscription = f"public/default/{name}", NASTY.replace("/", "")
    served = brokers()
    make(served, topic, subscription)
    properties = {IMAGE: SCRIPT, "REAL_TOPIC": NASTY, "__proto__": NASTY}
    publish(
        served,
        topic,
        {"payload": NASTY, "key": IMAGE, "properties": properties},
        {"payload": f'{{"a": "{SCRIPT}"}}', "key": NASTY},
        {"payload": "\u0000\u001b[31m\u202e" + SCRIPT},
    )
    with magnetar.Client(served.url) as client:
        consumer = client.subscribe(
            f"persistent://{topic}",
            subscription,
            magnetar.ConsumerType.Shared,
            consumer_name=IMAGE,
        )
        one = visit(served.http_url)
        for page in ("overview", "topics", "subscriptions"):
            one.go(page).wait_for_selector("tbody >> text=evil")
        one.topic(topic).wait_for_selector(f"h1:has-text({name!r})")
        one.topic(topic, "messages").wait_for_selector("tr[data-id] >> nth=2")
        for tab in ((), ("consumers",)):
            page = one.subscription(topic, subscription, *tab)
            page.wait_for_selector("tbody >> text=onerror")
        page = one.subscription(topic, subscription, "messages", acked="1")
        page.wait_for_selector("tr[data-id] >> nth=2")
        for number in range(3):
            page.click(f".opener >> nth={number}")
        page.wait_for_selector("pre.payload >> nth=2")
        for form in ("Text", "Hex"):
            for button in page.locator(f".form-tab:text-is('{form}')").all():
                button.click()
        shown = page.inner_text("body")
        assert SCRIPT in shown
        # Nor does it turn the text around it: that would make a question read as another.
        assert "\u202e" not in shown
        assert "\\u202e" in shown
        page.click("thead input[type=checkbox]")
        page.click("button:text('Skip…')")
        page.wait_for_selector("dialog >> text=onerror")
        one.picture("messages-hostile")
        page.click("dialog button:text('Cancel')")
        assert page.locator("main img, main svg:not(.spark), dialog img").count() == 0
        assert page.evaluate("document.scripts.length") == 2
        consumer.close()


def test_a_page_refuses_markup_and_scripts_of_others_by_its_policy(
    used: Served, visit: Visits
) -> None:
    """Were there a mistake, it would fail, and not run."""
    one = visit(used.http_url)
    one.expected += ["Content Security Policy", "TrustedHTML", "frame", "Refused", "violates"]
    page = one.go("overview")
    page.wait_for_selector("text=Largest backlogs")
    told = page.evaluate(
        """() => {
          try { document.body.innerHTML = '<b>x</b>'; return 'it was taken'; }
          catch (error) { return error.name; }
        }"""
    )
    assert told == "TypeError"
    frame = page.evaluate(
        """() => new Promise(done => {
          const frame = document.createElement('iframe');
          frame.src = '/';
          frame.onload = () => done(frame.contentDocument?.body?.children.length ?? 0);
          document.body.append(frame);
        })"""
    )
    assert frame == 0
