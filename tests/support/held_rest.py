"""A broker's REST behind which a request can be held, for whoever asks to be killed just then.

    with HeldRest(broker.http_url) as rest:
        held = rest.hold("POST", "skipByMessageIds", answered=False)
        ...start what asks by rest.url...
        held.wait()         # the broker has not heard of it; with `answered` it has done it
        rest.hold("POST", "skipByMessageIds", then=broker.kill)

A request that is held gets no answer; with `then` its connection is closed when that is done. So
it is for one that cannot be passed on.
"""

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx


class HeldRest:
    """Passes requests on, until one comes that is to be held."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._wanted: tuple[str, str, int, bool] | None = None
        self._then: Callable[[], object] | None = None
        self._reached = threading.Event()
        self._over = threading.Event()
        handler = type("Handler", (_Handler,), {"held": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> "HeldRest":
        self._thread.start()
        return self

    def __exit__(self, *why: object) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def hold(
        self,
        method: str = "",
        part: str = "",
        *,
        after: int = 0,
        answered: bool = False,
        then: Callable[[], object] | None = None,
    ) -> threading.Event:
        """Of the requests with this method and this in their paths, the one after so many."""
        with self._lock:
            self._wanted = (method, part, after, answered)
            self._then = then
            self._reached = threading.Event()
            return self._reached

    def pass_on(self, method: str, path: str, body: bytes) -> httpx.Response | None:
        """The answer; None if there is to be none."""
        is_held, answered = self._judge(method, path)
        if is_held and not answered:
            self._stop()
            return None
        try:
            headers = {"Content-Type": "application/json"}
            answer = httpx.request(
                method, self._target + path, content=body, headers=headers, timeout=60
            )
        except httpx.HTTPError:
            return None
        if is_held:
            self._stop()
            return None
        return answer

    def _judge(self, method: str, path: str) -> tuple[bool, bool]:
        with self._lock:
            if self._wanted is None:
                return False, False
            wanted, part, after, answered = self._wanted
            if wanted not in ("", method) or part not in path:
                return False, False
            self._wanted = (wanted, part, after - 1, answered) if after else None
            return not after, answered

    def _stop(self) -> None:
        self._reached.set()
        if self._then is None:
            self._over.wait()
        else:
            self._then()


class _Handler(BaseHTTPRequestHandler):
    held: HeldRest

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        answer = self.held.pass_on(self.command, self.path, body)
        self.close_connection = True
        if answer is not None:
            self.send_response(answer.status_code)
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

    do_GET = do_POST = do_PUT = do_DELETE = _pass_on

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is wrong."""
