"""A route of admin REST, said once: the router, the guard and /openapi.json read the same value."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from magnetar.admin.http.required_permission import Need
from magnetar.admin.http.response import Response
from magnetar.admin.http.shape import NOTHING, Answer, Json

if TYPE_CHECKING:
    from magnetar.admin.http.call import Call

__all__ = ["Handler", "Route"]

Handler: TypeAlias = "Callable[[Call], Awaitable[Response]]"


class Route:
    """Method and path, who may, what is taken, what is answered, and the function that does it.

    A path has names in braces; `{name:this|that}` takes these words alone. The first line of the
    handler's docstring says what the route does. A query that is not named here a handler cannot
    ask for.
    """

    def __init__(
        self,
        method: str,
        path: str,
        handler: Handler,
        need: Need,
        *,
        query: Mapping[str, Json] | None = None,
        body: Json | None = None,
        body_required: bool = True,
        answer: Answer = NOTHING,
    ) -> None:
        self.method: Final = method
        self.path: Final = path
        self.handler: Final = handler
        self.need: Final = need
        self.query: Final[Mapping[str, Json]] = query or {}
        self.body: Final = body
        self.body_required: Final = body_required
        self.answer: Final = answer

    @property
    def key(self) -> str:
        """The noun and the verb that a handler is called by: `topics.delete`."""
        return f"{self.handler.__module__.rpartition('.')[2]}.{self.handler.__name__}"
