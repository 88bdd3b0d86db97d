"""What people come to the console for, clicked through from one end to the other."""

import asyncio
import json
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from browser.axe import violations
from browser.data import make, orders, publish
from browser.visit import REBOUND, Visit
from support.broker_process import BrokerProcess
from support.served import Served
from support.tokens import SECRET_SETTING, token
from support.waiting import wait_until

import magnetar
from magnetar import aio
from magnetar.broker.auth.permissions import Permissions
from magnetar.broker.setting.settings import BrokerSettings

Visits = Callable[..., Visit]


def topic_with_poison(served: Served) -> tuple[str, str]:
    """A backlog with one message that nobody can process; its id."""
    topic = f"{served.namespace()}/orders"
    make(served, topic, "work")
    orders(served, topic, 20)
    (id,) = publish(served, topic, {"payload": '{"order": "poison"}', "key": "customer-7"})
    orders(served, topic, 20)
    return topic, id


def backlog(served: Served, topic: str, name: str = "work") -> int:
    stats = served.http.get(f"/persistent/{topic}/stats").json()
    return int(stats["subscriptions"][name]["msgBacklog"])


# ---- The poison message ----------------------------------------------------------------


def test_find_the_poison_message_skip_it_and_see_it_gone(broker: Served, visit: Visits) -> None:
    topic, id = topic_with_poison(broker)
    one = visit(broker.http_url)
    page = one.go("subscriptions")
    page.fill("input[type=search]", topic.split("/")[1])
    page.click("tbody a:text-is('work')")
    page.wait_for_selector("text=all 41 entries")
    page.click(".tab:text('Messages')")
    page.fill("label:text-is('Payload has') + input", "poison")
    page.click("button:text-is('Search')")
    page.wait_for_selector("text=1 message;")
    assert page.locator("tr[data-id]").get_attribute("data-id") == id
    page.click(f"[aria-label='Open message {id}']")
    page.wait_for_selector("pre.payload:has-text('poison')")
    page.check(f"[aria-label='Choose message {id}']")
    one.picture("story-poison-chosen")
    page.click("button:text('Skip…')")
    # It names what is about to go, and nothing has gone yet.
    dialog = page.locator("dialog")
    assert "work of" in dialog.inner_text()
    assert id in dialog.inner_text()
    assert violations(page) == []
    assert backlog(broker, topic) == 41
    one.picture("story-poison-asked")
    dialog.locator("button:text-is('Skip 1 message')").click()
    page.wait_for_selector("dialog h2:text('1 message skipped')")
    assert re.search(rf"{id}\s+skipped", page.inner_text("dialog"))
    one.picture("story-poison-skipped")
    page.click("dialog button:text-is('Close')")
    page.wait_for_selector("text=No messages here")
    assert backlog(broker, topic) == 40
    # And the map shows one acked entry among the others.
    page.click(".tab:text('Ack state')")
    page.wait_for_selector(".map-range")
    page.fill("[aria-label='Go to a position']", id)
    page.press("[aria-label='Go to a position']", "Enter")
    page.wait_for_selector(f".picked >> text={id}")
    assert "acked" in page.inner_text(".map-says")
    assert "not acked" not in page.inner_text(".map-says")


def test_what_is_dismissed_is_not_done(broker: Served, visit: Visits) -> None:
    topic, _ = topic_with_poison(broker)
    one = visit(broker.http_url)
    page = one.subscription(topic, "work", "messages")
    page.wait_for_selector("tr[data-id] >> nth=20")
    page.check("thead input[type=checkbox]")
    page.wait_for_selector("text=25 chosen")
    page.click("button:text('Skip…')")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="detached")
    assert page.evaluate("document.activeElement.textContent") == "Skip…"
    assert backlog(broker, topic) == 41
    # A choice goes along from page to page.
    page.click("button:text-is('Next')")
    page.wait_for_selector("text=16 messages, page 2")
    page.check("thead input[type=checkbox]")
    page.wait_for_selector("text=41 chosen")
    page.click("button:text('Skip…')")
    page.click("dialog button:text('Skip 41 messages')")
    page.click("dialog button:text-is('Close')")
    page.wait_for_selector("text=No messages here")
    assert backlog(broker, topic) == 0


def test_one_message_of_a_batch_is_found_on_the_map_and_skipped(
    broker: Served, visit: Visits
) -> None:
    topic = f"{broker.namespace()}/batches"
    make(broker, topic, "work")
    ids = broker.publish(topic, 30, batch=10)
    place = f"{ids[10].ledger_id()}:{ids[10].entry_id()}"
    one = visit(broker.http_url)
    page = one.subscription(topic, "work")
    page.wait_for_selector("text=all 3 entries")
    canvas = page.locator("canvas.map")
    canvas.focus()
    canvas.press("ArrowRight")
    page.wait_for_selector(f".picked >> text={place}")
    canvas.press("Enter")
    page.wait_for_selector(f"text=batch {place}, 10 messages")
    for _ in range(4):
        canvas.press("ArrowRight")
    page.wait_for_selector(f".picked >> text={place}:4")
    one.picture("acks-batch")
    page.click("text=Messages from here")
    page.wait_for_selector(f"tr[data-id='{place}:4']")
    page.check(f"[aria-label='Choose message {place}:4']")
    page.click("button:text('Skip…')")
    page.click("dialog button:text('Skip 1 message')")
    page.click("dialog button:text-is('Close')")
    page.wait_for_selector(f"tr[data-id='{place}:4'] >> text=acked")
    state = broker.http.get(f"/persistent/{topic}/subscription/work/ackState").json()
    (batch,) = state["batches"]
    assert batch["remaining"] == [i for i in range(10) if i != 4]


def test_dead_letters_go_back_to_where_they_came_from(broker: Served, visit: Visits) -> None:
    namespace = broker.namespace()
    origin, dead = f"{namespace}/orders", f"{namespace}/orders-work-DLQ"
    make(broker, origin, "work")
    make(broker, dead, "letters")
    properties = {"REAL_TOPIC": f"persistent://{origin}", "RECONSUMETIMES": "16"}
    publish(broker, dead, *[{"payload": f"letter {i}", "properties": properties} for i in range(3)])
    one = visit(broker.http_url)
    page = one.subscription(dead, "letters", "messages")
    page.check("tr[data-id] >> nth=0 >> input")
    page.check("tr[data-id] >> nth=2 >> input")
    page.click("button:text('Redrive…')")
    assert f"2 to persistent://{origin}" in page.inner_text("dialog")
    page.click("dialog button:text('Redrive 2 letters')")
    page.wait_for_selector("dialog h2:text('2 letters redriven')")
    one.picture("story-redriven")
    page.click("dialog button:text-is('Close')")
    page.wait_for_selector("text=1 message;")
    assert (backlog(broker, dead, "letters"), backlog(broker, origin)) == (1, 2)


# ---- What is made, moved and deleted ---------------------------------------------------


def test_a_topic_is_made_published_to_read_and_deleted(broker: Served, visit: Visits) -> None:
    name = f"{broker.namespace()}/made-here"
    one = visit(broker.http_url)
    one.expected.append("404 (Not Found)")
    page = one.go("topics")
    page.click("button:text('Create topic…')")
    page.fill("dialog input[type=text]", f"persistent://{name}")
    page.click("dialog button:text-is('Create')")
    page.wait_for_selector("h1:text('made-here')")
    page.click("button:text('Create subscription…')")
    page.fill("dialog input", "s")
    page.select_option("dialog select", "earliest")
    page.click("dialog button:text-is('Create')")
    page.wait_for_selector("tbody a:text-is('s')")
    page.click(".tab:text('Produce')")
    page.fill("label:text-is('Payload') + textarea", '{"a": "ü"}')
    page.wait_for_selector("text=valid JSON")
    page.fill("label:text-is('Key') + input", "k")
    page.fill("label:text-is('Properties') + textarea", "colour=red\nempty=")
    page.click("button:text-is('Publish')")
    page.wait_for_selector("text=Published as")
    page.fill("label:text-is('Properties') + textarea", "none")
    page.click("button:text-is('Publish')")
    page.wait_for_selector("text=is no name=value")
    page.click(".tab:text('Messages')")
    page.click(".opener")
    page.wait_for_selector("text=colour")
    assert json.loads(page.inner_text("pre.payload")) == {"a": "ü"}
    assert page.locator("button:text('Skip…')").count() == 0
    page.click("button:text('Unload…')")
    page.click("dialog button:text-is('Unload')")
    page.wait_for_selector(".toast:text('Unloaded')")
    page.click("button:text('Delete…')")
    confirm = page.locator("dialog button:text-is('Delete the topic')")
    assert confirm.is_disabled()
    page.fill("dialog input", "made-her")
    assert confirm.is_disabled()
    page.fill("dialog input", "made-here")
    confirm.click()
    page.wait_for_selector("h1:text('Topics')")
    assert broker.http.get(f"/persistent/{name}/stats").status_code == 404


def test_a_cursor_goes_back_by_id_and_to_the_end(broker: Served, visit: Visits) -> None:
    topic = f"{broker.namespace()}/cursor"
    make(broker, topic, "work")
    ids = orders(broker, topic, 10)
    one = visit(broker.http_url)
    page = one.subscription(topic, "work")
    page.click("button:text('Skip all…')")
    page.click("dialog button:text-is('Skip everything')")
    page.wait_for_selector(".toast:text('Skipped')")
    assert backlog(broker, topic) == 0
    page.click("button:text('Reset cursor…')")
    page.select_option("dialog select", "id")
    page.fill("dialog input:visible", "nonsense")
    assert page.locator("dialog button:text-is('Reset')").is_disabled()
    page.fill("dialog input:visible", ids[6])
    page.click("dialog button:text-is('Reset')")
    page.wait_for_selector(".toast:text('Moved')")
    assert backlog(broker, topic) == 4
    page.click("button:text('Reset cursor…')")
    page.fill("dialog input:visible", "2001-01-01T00:00:00")
    page.click("dialog button:text-is('Reset')")
    page.wait_for_selector(".tile:has-text('Backlog') >> text='10'")
    assert backlog(broker, topic) == 10
    page.click("button:text('Delete…')")
    page.fill("dialog input", "work")
    page.click("dialog button:text-is('Delete the subscription')")
    page.wait_for_selector("h1:text('cursor')")
    page.wait_for_selector("text=No subscriptions")


def test_a_refusal_is_shown_where_it_was_asked_for(broker: Served, visit: Visits) -> None:
    topic = f"{broker.namespace()}/exclusive"
    make(broker, topic, "work")
    orders(broker, topic, 3)
    one = visit(broker.http_url)
    one.expected.append("405 (Method Not Allowed)")
    with magnetar.Client(broker.url) as client:
        client.subscribe(f"persistent://{topic}", "work", magnetar.ConsumerType.Exclusive)
        page = one.subscription(topic, "work", "messages")
        page.check("tr[data-id] >> nth=0 >> input")
        page.click("button:text('Skip…')")
        page.click("dialog button:text('Skip 1 message')")
        page.wait_for_selector("dialog .dialog-trouble:text('Exclusive')")
        page.click("dialog button:text-is('Cancel')")
    assert backlog(broker, topic) == 3


# ---- Through a restart -----------------------------------------------------------------


def test_a_page_lives_through_a_restart_of_the_broker(tmp_path: Path, visit: Visits) -> None:
    with BrokerProcess(tmp_path / "data") as process:
        with magnetar.Client(process.url) as client:
            client.subscribe("persistent://public/default/kept", "work").close()
            client.create_producer("persistent://public/default/kept").send(b"before")
        one = visit(process.http_url)
        one.expected += ["ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE"]
        page = one.subscription("public/default/kept", "work")
        page.wait_for_selector(".state:text('live')")
        page.wait_for_selector(".tile:has-text('Backlog') >> text='1'")
        process.kill()
        page.wait_for_selector(".state:text('reconnecting')")
        one.picture("reconnecting")
        assert page.locator(".tile:has-text('Backlog') >> text='1'").count() == 1
        process.restart()
        page.wait_for_selector(".state:text('live')")
        with magnetar.Client(process.url) as client:
            client.create_producer("persistent://public/default/kept").send(b"after")
        page.wait_for_selector(".tile:has-text('Backlog') >> text='2'")


# ---- Who may what ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded() -> Any:
    settings = BrokerSettings(
        authentication=True, token_secret_key=SECRET_SETTING, super_user_roles=("root",)
    )
    served = Served(settings)
    served.start()
    served.http.headers["Authorization"] = f"Bearer {token('root')}"
    assert served.http.put("/persistent/public/default/orders").status_code == 204
    for name in ("work", "reserved"):
        path = f"/persistent/public/default/orders/subscription/{name}"
        assert served.http.put(path, json="earliest").status_code == 204
    assert served.http.put("/persistent/public/default/secret").status_code == 204
    answer = served.http.post(
        f"{served.http_url}/topics/persistent/public/default/orders",
        json={"messages": [{"payload": "x"}] * 3},
    )
    assert answer.status_code == 200
    permissions = Permissions()
    for role in ("produce", "consume", "skip"):
        name = "persistent://public/default/orders"
        permissions = permissions.with_topic(name, role, (role,))
    permissions = permissions.with_subscription("reserved", ("other",))
    served.call(lambda: served.broker.directory.put_permissions("public/default", permissions))
    yield served
    served.stop()


def signed_in(one: Visit, role: str, *pieces: str) -> Any:
    one.expected += ["401 (Unauthorized)", "403 (Forbidden)"]
    page = one.go(*pieces)
    page.fill("textarea", token(role))
    page.click("button:text-is('Sign in')")
    page.wait_for_selector(".state:text('live')")
    page.wait_for_selector("h1:not(:text('Sign in'))")
    return page


def test_a_token_is_asked_for_kept_in_the_tab_and_forgotten(guarded: Served, visit: Visits) -> None:
    one = visit(guarded.http_url)
    one.expected += ["401 (Unauthorized)"]
    page = one.go("topics")
    page.wait_for_selector("h1:text('Sign in')")
    assert violations(page) == []
    one.picture("sign-in")
    page.fill("textarea", "nonsense")
    page.click("button:text-is('Sign in')")
    page.wait_for_selector(".dialog-trouble:not(:empty)")
    page.fill("textarea", f"Bearer {token('root')}")
    page.click("button:text-is('Sign in')")
    page.wait_for_selector("tbody a:text-is('orders')")
    assert page.inner_text(".who") == "root"
    assert page.evaluate("document.cookie") == ""
    assert page.evaluate("Object.keys(localStorage).length") == 0
    page.reload()
    page.wait_for_selector("tbody a:text-is('orders')")
    other = page.context.new_page()
    other.goto(f"{guarded.http_url}/")
    other.wait_for_selector("h1:text('Sign in')")
    other.close()
    page.click("button:text-is('Sign out')")
    page.wait_for_selector("h1:text('Sign in')")
    page.reload()
    page.wait_for_selector("h1:text('Sign in')")


SUBSCRIPTION = ("subscription", "persistent", "public", "default", "orders", "work")


@pytest.mark.parametrize(
    ("role", "topic_buttons", "subscription_buttons", "tabs"),
    [
        (
            "root",
            ["Create subscription…", "Unload…", "Delete…"],
            ["Reset cursor…", "Skip all…", "Delete…"],
            ["Ack state", "Messages", "Consumers"],
        ),
        (
            "consume",
            ["Create subscription…"],
            ["Reset cursor…", "Skip all…", "Delete…"],
            ["Ack state", "Messages", "Consumers"],
        ),
        ("skip", [], ["Skip all…"], ["Ack state", "Consumers"]),
        ("produce", [], [], ["Ack state", "Consumers"]),
    ],
)
def test_a_role_sees_the_buttons_that_it_may_press(
    guarded: Served,
    visit: Visits,
    role: str,
    topic_buttons: list[str],
    subscription_buttons: list[str],
    tabs: list[str],
) -> None:
    one = visit(guarded.http_url)
    page = signed_in(one, role, *SUBSCRIPTION)
    page.wait_for_selector(".map-range:text('entries')")
    assert page.locator(".actions button").all_inner_texts() == subscription_buttons
    assert page.locator(".tab").all_inner_texts() == tabs
    page.click(".crumbs a:text-is('orders')")
    page.wait_for_selector("tbody a:text-is('work')")
    assert page.locator(".actions button").all_inner_texts() == topic_buttons
    assert ("Produce" in page.locator(".tab").all_inner_texts()) == (role in ("root", "produce"))
    page.click(".main-nav a:text-is('Topics')")
    page.wait_for_selector("tbody a:text-is('orders')")
    assert page.locator("button:text('Create topic…')").count() == (role == "root")
    assert page.locator("tbody tr").count() == (2 if role == "root" else 1)
    page.click(".main-nav a:text-is('Overview')")
    page.wait_for_selector("tbody a:text-is('work')")
    assert page.locator("text=Nothing is wrong").is_visible() == (role == "root")


def test_a_stranger_sees_nothing_and_is_told_why(guarded: Served, visit: Visits) -> None:
    one = visit(guarded.http_url)
    page = signed_in(one, "stranger", "topics")
    page.wait_for_selector("text=No topics here")
    one.go(*SUBSCRIPTION).wait_for_selector("[role=alert]:has-text('not authorized')")
    assert page.locator(".actions button").count() == 0


def test_a_subscription_that_is_for_others_shows_no_buttons(guarded: Served, visit: Visits) -> None:
    one = visit(guarded.http_url)
    page = signed_in(one, "consume", *SUBSCRIPTION[:-1], "reserved")
    page.wait_for_selector("[role=alert]:has-text('reserved')")
    assert page.locator(".actions button").count() == 0


# ---- By keyboard -----------------------------------------------------------------------

WALKED = {
    "overview": ("overview",),
    "topics": ("topics",),
    "subscriptions": ("subscriptions",),
    "topic": ("topic", "persistent", "public", "default", "walk"),
    "produce": ("topic", "persistent", "public", "default", "walk", "produce"),
    "topic messages": ("topic", "persistent", "public", "default", "walk", "messages"),
    "acks": ("subscription", "persistent", "public", "default", "walk", "work"),
    "messages": ("subscription", "persistent", "public", "default", "walk", "work", "messages"),
    "consumers": ("subscription", "persistent", "public", "default", "walk", "work", "consumers"),
}
# What can be focused and is not hidden, in the order of the page.
FOCUSABLE = """() => [...document.querySelectorAll(
  'a[href], button:not(:disabled), input, select, textarea, [tabindex="0"]')]
  .filter(e => e.checkVisibility() && !e.closest('[hidden]')).length"""
FOCUSED = """() => {
  const e = document.activeElement;
  if (e === document.body) return null;
  e.dataset.walked = (e.dataset.walked ?? '') + 'x';
  const style = getComputedStyle(e);
  return {
    name: e.getAttribute('aria-label') ?? e.innerText ?? e.placeholder ?? '',
    seen: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1,
    first: e.dataset.walked === 'x',
  };
}"""


@pytest.mark.parametrize("name", WALKED)
def test_every_page_is_walked_by_keyboard(broker: Served, visit: Visits, name: str) -> None:
    """Tab comes to all that can be used, once, and what has the focus shows it."""
    if "persistent://public/default/walk" not in broker.broker.topics:
        make(broker, "public/default/walk", "work")
        orders(broker, "public/default/walk", 5)
    one = visit(broker.http_url)
    page = one.go(*WALKED[name])
    page.wait_for_selector(".state:text('live')")
    page.wait_for_selector("h1")
    page.wait_for_selector("main .panel, main table")
    page.evaluate("document.activeElement.blur()")
    wanted = page.evaluate(FOCUSABLE)
    walked = 0
    for _ in range(wanted * 4 + 20):  # a date field has a stop for each of its parts
        page.keyboard.press("Tab")
        found = page.evaluate(FOCUSED)
        if found is None:
            break
        assert found["seen"], found
        walked += found["first"]
    assert walked >= wanted


def test_the_first_stop_leads_past_the_header(broker: Served, visit: Visits) -> None:
    one = visit(broker.http_url)
    page = one.go("topics")
    page.wait_for_selector("table")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "To the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    assert "#/topics" in page.url


def test_the_poison_is_skipped_by_keyboard_alone(broker: Served, visit: Visits) -> None:
    topic, id = topic_with_poison(broker)
    one = visit(broker.http_url)
    page = one.subscription(topic, "work", "messages")
    page.wait_for_selector("tr[data-id] >> nth=20")
    page.focus("label:text-is('Payload has') + input")
    page.keyboard.type("poison")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=1 message;")
    page.focus(f"[aria-label='Choose message {id}']")
    page.keyboard.press("Space")
    page.focus("button:text('Skip…')")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog")
    # What destroys is not what has the focus.
    assert page.evaluate("document.activeElement.textContent") == "Cancel"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog h2:text('1 message skipped')")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=No messages here")
    assert backlog(broker, topic) == 40


# ---- Colours ---------------------------------------------------------------------------


def test_colours_follow_the_system_until_somebody_chooses(broker: Served, visit: Visits) -> None:
    one = visit(broker.http_url, color_scheme="dark")
    page = one.go("topics")
    page.wait_for_selector("h1")
    background = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(background)
    page.click("[aria-label='Use light colours']")
    light = page.evaluate(background)
    assert dark != light
    page.reload()
    page.wait_for_selector("h1")
    assert page.evaluate(background) == light
    page.emulate_media(color_scheme="light")
    page.click("[aria-label='Use dark colours']")
    assert page.evaluate(background) == dark


# ---- Payloads in their forms -----------------------------------------------------------


def test_avro_is_shown_by_the_schema_that_it_was_written_with(
    broker: Served, visit: Visits
) -> None:
    topic = f"{broker.namespace()}/avro"
    make(broker, topic, "work")
    fields = [{"name": "id", "type": "long"}, {"name": "note", "type": "string"}]
    schema = magnetar.schema.AvroSchema(None, {"type": "record", "name": "O", "fields": fields})
    with magnetar.Client(broker.url) as client:
        producer = client.create_producer(f"persistent://{topic}", schema=schema)
        producer.send({"id": 2**60, "note": "<b>ü</b>"})
    one = visit(broker.http_url)
    page = one.subscription(topic, "work", "messages")
    page.click(".opener")
    page.wait_for_selector(".form-tab[aria-pressed=true]:text-is('Avro')")
    assert json.loads(page.inner_text("pre.payload")) == {"id": 2**60, "note": "<b>ü</b>"}
    one.picture("message-avro")


def test_a_message_in_chunks_is_loaded_whole(broker: Served, visit: Visits) -> None:
    topic = f"{broker.namespace()}/chunks"
    make(broker, topic, "work")
    payload = b"begin" + b"x" * 12_000_000 + b"end"
    with broker.client() as client:
        producer = client.create_producer(topic, chunking_enabled=True, batching_enabled=False)
        producer.send(payload)
    one = visit(broker.http_url)
    page = one.subscription(topic, "work", "messages")
    page.wait_for_selector("tr[data-id] .badge:text('chunks')")
    assert page.locator("tr[data-id]").count() == 1
    page.click(".opener")
    page.click("button:text('Load all')")
    page.wait_for_selector("text=The rest is too long to be shown")
    with page.expect_download() as download:
        page.click("button:text('Save…')")
    assert Path(download.value.path()).read_bytes() == payload


# ---- Consumers -------------------------------------------------------------------------


def test_consumers_their_permits_and_the_keys_that_drain_are_shown(
    broker: Served, visit: Visits
) -> None:
    topic = f"{broker.namespace()}/keys"
    name = f"persistent://{topic}"
    kind = magnetar.ConsumerType.KeyShared
    with magnetar.Client(broker.url) as client:
        first = client.subscribe(name, "work", kind, consumer_name="first", receiver_queue_size=100)
        orders(broker, topic, 60)
        first.receive(30_000)
        wait_until(lambda: "60" in unacked(broker, topic))
        client.subscribe(name, "work", kind, consumer_name="second")
        one = visit(broker.http_url)
        page = one.subscription(topic, "work", "consumers")
        page.wait_for_selector("h2:text('Draining keys')")
        row = page.locator("tr:has-text('first') >> nth=0").inner_text()
        assert re.search(r"40\s+60\s", row), row
        assert page.locator("tr:has-text('second')").count() >= 1
        draining = page.locator(".panel:has(h2:text('Draining keys')) tbody tr")
        assert all("first" in text for text in draining.all_inner_texts())
        one.picture("consumers-draining")
        assert violations(page) == []


def unacked(served: Served, topic: str) -> list[str]:
    stats = served.http.get(f"/persistent/{topic}/stats").json()["subscriptions"]["work"]
    return [str(one["unackedMessages"]) for one in stats["consumers"]]


# ---- Transactions ----------------------------------------------------------------------


def test_transactions_are_told_of_where_there_are_any(
    brokers: Callable[..., Served], visit: Visits
) -> None:
    served = brokers(BrokerSettings(transactions=True))
    topic = f"{served.namespace()}/bills"
    make(served, topic, "work")

    async def work() -> None:
        async with aio.Client(served.url) as client:
            producer = await client.create_producer(f"persistent://{topic}")
            with suppress(ZeroDivisionError):
                async with client.transaction(timeout=30) as txn:
                    await producer.send(b"bill", transaction=txn)
                    raise ZeroDivisionError

    # A loop of Playwright runs in this thread.
    thread = threading.Thread(target=lambda: asyncio.run(work()))
    thread.start()
    thread.join()
    one = visit(served.http_url)
    page = one.go("overview")
    page.wait_for_selector("text=0 open; 0 committed, 1 aborted")
    page = one.topic(topic, "messages")
    page.wait_for_selector("tr[data-id] .badge:text-is('aborted')")
    page = one.subscription(topic, "work", "messages", acked="1")
    page.wait_for_selector("tr[data-id] .state-aborted")


# ---- Other sites -----------------------------------------------------------------------


def test_a_page_of_another_site_can_do_nothing(
    broker: Served, visit: Visits, tmp_path: Path
) -> None:
    """Not by a request that asks nobody, nor by a form in a frame; a link leads to the page."""
    topic = f"{broker.namespace()}/safe"
    make(broker, topic, "work")
    orders(broker, topic, 3)
    skip = f"{broker.http_url}/admin/v2/persistent/{topic}/subscription/work/skip_all"
    (tmp_path / "index.html").write_text(
        f"""<!doctype html><title>evil</title>
        <form id=form method=post action="{skip}" target=frame enctype="text/plain"></form>
        <iframe name=frame></iframe><a id=link href="{broker.http_url}/#/topics">look</a>"""
    )
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as evil:
        thread = threading.Thread(target=evil.serve_forever)
        thread.start()
        try:
            one = visit(f"http://127.0.0.1:{evil.server_port}")
            one.expected += [broker.http_url, "403 (Forbidden)", "404 (File not found)", "frame"]
            page = one.page
            # Another name of this machine is another site to a browser.
            page.goto(f"http://localhost:{evil.server_port}/")
            one.expected += ["localhost", "ERR_FAILED"]
            for mode, body in (("no-cors", "x"), ("cors", "{}"), ("no-cors", None)):
                told = page.evaluate(
                    """async ([url, mode, body]) => {
                      try {
                        const answer = await fetch(url, {method: 'POST', mode, body});
                        return answer.type === 'opaque' ? 'sent blindly' : answer.status;
                      } catch (error) { return error.name; }
                    }""",
                    [skip, mode, body],
                )
                assert told in ("sent blindly", "TypeError", 403)
            with page.expect_response(lambda response: "skip_all" in response.url) as answered:
                page.evaluate("form.submit()")
            assert answered.value.status in (403, 415)
            assert backlog(broker, topic) == 3
            page.click("#link")
            page.wait_for_selector("h1:text('Topics')")
        finally:
            evil.shutdown()
            thread.join()


def test_a_name_that_somebody_let_lead_here_gets_nothing(broker: Served, visit: Visits) -> None:
    """DNS rebinding: to the browser page and broker are of one site then."""
    topic = f"{broker.namespace()}/rebound"
    make(broker, topic, "work")
    orders(broker, topic, 3)
    url = f"http://{REBOUND}:{broker.http_url.rpartition(':')[2]}"
    one = visit(url)
    one.expected.append("403 (Forbidden)")
    answer = one.page.goto(f"{url}/")
    assert answer.status == 403
    assert REBOUND in answer.text()
    for path, method in (
        (f"/admin/v2/persistent/{topic}/subscription/work/messages", "GET"),
        (f"/admin/v2/persistent/{topic}/subscription/work/skip_all", "POST"),
        ("/metrics", "GET"),
    ):
        ask = "async ([path, method]) => (await fetch(path, {method})).status"
        assert one.page.evaluate(ask, [path, method]) == 403
    assert backlog(broker, topic) == 3
