"""A visit to the console: one browser context, one page, and what went wrong in it."""

from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

PICTURES = Path(__file__).parents[2] / ".build" / "console"
# Who waits for what a page shows waits so long, on a busy machine.
PATIENCE_MS = 30_000
DESKTOP = {"width": 1440, "height": 900}
# A name of somebody else, that leads to this machine.
REBOUND = "rebound.test"
PHONE = {"width": 390, "height": 844}


class Visit:
    """See the module. `page` is Playwright's."""

    def __init__(self, context: Any, url: str, pictures: Path) -> None:
        self._context = context
        self._url = url
        self._pictures = pictures
        self._troubles: list[str] = []
        # What a broker that is away, or that refuses, makes a browser say.
        self.expected: list[str] = []
        context.set_default_timeout(PATIENCE_MS)
        self.page = context.new_page()
        self.page.on("pageerror", lambda error: self._troubles.append(f"exception: {error}"))
        self.page.on("console", self._heard)
        self.page.on("request", self._asked)
        self.page.on("dialog", self._alerted)

    def _heard(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self._troubles.append(f"{message.type}: {message.text}")

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((f"{self._url}/", "blob:")):
            self._troubles.append(f"a request to {request.url}")

    def _alerted(self, dialog: Any) -> None:
        self._troubles.append(f"a script of somebody else ran: {dialog.message}")
        dialog.dismiss()

    def close(self) -> list[str]:
        """What went wrong."""
        self._context.close()
        return [one for one in self._troubles if not any(word in one for word in self.expected)]

    def go(self, *pieces: str, **query: str) -> Any:
        """Opens a page of the console by its address."""
        path = "/".join(quote(piece, safe="") for piece in pieces)
        self.page.goto("about:blank")
        self.page.goto(f"{self._url}/#/{path}{'?' + urlencode(query) if query else ''}")
        return self.page

    def subscription(self, topic: str, name: str, *tab: str, **query: str) -> Any:
        tenant, namespace, local = topic.split("/", 2)
        return self.go("subscription", "persistent", tenant, namespace, local, name, *tab, **query)

    def topic(self, topic: str, *tab: str, **query: str) -> Any:
        tenant, namespace, local = topic.split("/", 2)
        return self.go("topic", "persistent", tenant, namespace, local, *tab, **query)

    def module(self, name: str, expression: str, *arguments: Any) -> Any:
        """The value of an expression over a module of the console, called `m` in it."""
        return self.page.evaluate(
            f"async (a) => {{ const m = await import('/console/{name}'); return {expression}; }}",
            list(arguments),
        )

    def picture(self, name: str) -> Path:
        """Keeps what the page looks like."""
        self._pictures.mkdir(parents=True, exist_ok=True)
        path = self._pictures / f"{name}.png"
        self.page.screenshot(path=path, full_page=True)
        return path
