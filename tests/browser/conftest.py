"""The console in a browser: Debian's chromium, driven by Playwright, against a broker of its own.

Where there is no chromium these tests are skipped, unless MAGNETAR_REQUIRE names `browser`. No
browser is ever downloaded. Whatever a page says of trouble (an exception, a refusal of its policy,
a request to another host) fails the test that it happened in. Pictures are kept in
.build/console.
"""

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from browser.visit import PICTURES, REBOUND, Visit
from support.requirement import need
from support.served import Served

from magnetar.broker.setting.settings import BrokerSettings

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
HOW = "install Debian's package: apt-get install chromium"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # A name of somebody else, who lets it lead to this machine.
    f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1",
]


# Of one file, for as long as Playwright is there a loop runs in this thread, which other tests
# would not have.
@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    need("browser", CHROMIUM is not None, HOW)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def brokers() -> Iterator[Callable[..., Served]]:
    """Starts brokers of a test's own, which end after the pages that look at them."""
    started: list[Served] = []

    def start(settings: BrokerSettings | None = None) -> Served:
        served = Served(settings or BrokerSettings())
        served.start()
        started.append(served)
        return served

    yield start
    for served in started:
        served.stop()


@pytest.fixture
def visit(chromium: Any, brokers: Callable[..., Served]) -> Iterator[Callable[..., Visit]]:
    """Opens pages of a broker; at the end each must have had no trouble."""
    visits: list[Visit] = []

    def open(url: str, **options: Any) -> Visit:
        visits.append(Visit(chromium.new_context(**options), url, PICTURES))
        return visits[-1]

    yield open
    troubles = [trouble for one in visits for trouble in one.close()]
    assert troubles == []


@pytest.fixture(scope="module")
def broker() -> Iterator[Served]:
    """A broker that the tests of a file share."""
    served = Served(BrokerSettings())
    served.start()
    yield served
    served.stop()
