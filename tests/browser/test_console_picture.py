"""The picture of the ack state in README and the manual: drawn by the console, from a real broker.

It is the map's own drawing, taken down as SVG instead of pixels, so that it lies in the repository
as text. After a change that is meant, draw it anew:

    MAGNETAR_DRAW=1 python -m pytest tests/browser/test_console_picture.py
"""

import os
import random
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from browser.data import make
from browser.visit import DESKTOP, Visit
from support.served import Served
from support.waiting import wait_until

import magnetar

PICTURE = Path(__file__).parents[2] / "docs" / "ack-state.svg"
PAPER = (Path(__file__).parent / "svg_paper.js").read_text()
TOPIC = "public/default/orders"
WIDTH = 600
SIDE = 250


def work(served: Served, client: magnetar.Client) -> magnetar.Consumer:
    """A backlog with some of everything, the same each time."""
    make(served, TOPIC, "work")
    ids = [id for _ in range(6) for id in served.publish(TOPIC, 500, batch=10)]
    name = f"persistent://{TOPIC}"
    single = client.create_producer(name, batching_enabled=False)
    for minute in range(8):
        single.send(b"later", deliver_after=timedelta(hours=1 + minute))
    ids += [id for _ in range(4) for id in served.publish(TOPIC, 500, batch=10)]
    chance = random.Random(11)
    # Some batches nobody has touched, and of some a message or a few are left.
    untouched = {entry for entry in range(330) if chance.random() < 0.08}
    acked = [
        {"ledgerId": id.ledger_id(), "entryId": id.entry_id(), "batchIndex": id.batch_index()}
        for number, id in enumerate(ids[:3300])
        if number // 10 not in untouched and chance.random() < (0.995 if number < 1800 else 0.9)
    ]
    path = f"/persistent/{TOPIC}/subscription/work/skipByMessageIds"
    for first in range(0, len(acked), 1000):
        body = {"type": "messageId", "messageIds": acked[first : first + 1000]}
        answer = served.http.post(path, json=body)
        assert answer.status_code == 204, answer.text
    consumer = client.subscribe(name, "work", magnetar.ConsumerType.Shared, receiver_queue_size=600)
    # It has what it has room for, and the delayed ones were read on the way.
    wait_until(lambda: counted(served) == (8, True))
    return consumer


def counted(served: Served) -> tuple[int, bool]:
    stats = served.http.get(f"/persistent/{TOPIC}/stats").json()["subscriptions"]["work"]
    return stats["msgDelayed"], stats["unackedMessages"] >= 600


def test_the_picture_is_what_the_console_draws(broker: Served, visit: Callable[..., Visit]) -> None:
    with magnetar.Client(broker.url) as client:
        consumer = work(broker, client)
        one = visit(broker.http_url, viewport=DESKTOP, color_scheme="light")
        page: Any = one.subscription(TOPIC, "work")
        page.wait_for_selector(".map-range:text('entries')")
        one.picture("acks-picture")
        drawn = page.evaluate(f"({PAPER})", [WIDTH, SIDE, TOPIC])
        consumer.close()
    if os.environ.get("MAGNETAR_DRAW"):
        PICTURE.write_text(drawn)
    assert PICTURE.read_text() == drawn
