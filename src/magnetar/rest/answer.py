"""An answer of admin REST: status, headers and body."""

import http.client
import json
from collections.abc import Callable, Mapping
from typing import TypeAlias, TypeVar

from magnetar.rest.admin_error import AdminError

__all__ = ["Answer"]

T = TypeVar("T")
Pairs: TypeAlias = list[tuple[str, object]]


class Answer:
    """What came back for a request."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status = status
        # By names in lower case.
        self.headers = headers
        self.body = body

    def json(self) -> object:
        """Returns the body; None if there is none. Raises AdminError if it is not JSON."""
        return self._decoded()

    def as_type(self, kind: type[T]) -> T:
        """Returns the body as a value of a type. Raises AdminError if it is none.

        A field that is null counts as absent, and one that the type does not have is passed over:
        servers differ in what they tell.
        """
        # Only those who want typed answers load it; a command does not.
        import msgspec

        found = self._decoded(_without_nulls)
        try:
            return msgspec.convert(found, kind, strict=False)
        except msgspec.ValidationError as error:
            raise AdminError(
                self.status, f"the answer is not what was asked for: {error}"
            ) from None

    def _decoded(self, of_pairs: Callable[[Pairs], object] | None = None) -> object:
        if not self.body.strip():
            return None
        try:
            return json.loads(self.body, object_pairs_hook=of_pairs)
        except ValueError as error:
            raise AdminError(self.status, f"the answer is not JSON: {error}") from None

    def reason(self) -> str:
        """Returns what the server says about a refusal, in one line."""
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


def _without_nulls(pairs: Pairs) -> dict[str, object]:
    return {name: value for name, value in pairs if value is not None}
