"""An answer of admin REST: status, headers and body."""

import http.client
import json
from collections.abc import Mapping

from magnetar.rest.admin_error import AdminError

__all__ = ["Answer"]


class Answer:
    """What came back for a request."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status = status
        # By names in lower case.
        self.headers = headers
        self.body = body

    def json(self) -> object:
        """The body; None if there is none. Raises AdminError if it is not JSON."""
        if not self.body.strip():
            return None
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise AdminError(self.status, f"the answer is not JSON: {error}") from None

    def reason(self) -> str:
        """What the server says about a refusal, in one line."""
        try:
            found = json.loads(self.body)
        except ValueError:
            found = None
        if isinstance(found, dict) and isinstance(found.get("reason"), str) and found["reason"]:
            return str(found["reason"])
        known = http.client.responses.get(self.status, "refused")
        text = self.body.decode(errors="replace").strip()
        # A page or an object is for browsers and the like.
        return known if not text or text[0] in "<{" else f"{known}: {text[:200]}"
