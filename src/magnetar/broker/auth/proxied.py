"""A proxy, and who is behind it: Pulsar's rule of the original principal.

| who connects              | names an original principal | is                                     |
|---------------------------|-----------------------------|----------------------------------------|
| a role of `proxy_roles`   | yes                         | both: what it does both must be        |
|                           |                             | allowed to do (`access.py`)            |
| a role of `proxy_roles`   | no, or another proxy        | refused: nobody would be asked for     |
| any other role            | yes                         | refused: nobody vouches for the name   |
| any other role            | no                          | itself                                 |

A name is the proxy's word. With `authenticate_original_auth_data` a proxy must bring on the wire
what its client proved itself with, and the broker looks at that; who that is counts then, whatever
the name. Over HTTP there is no more than the name, as in Apache Pulsar.
"""

from typing import Final, final

from magnetar.errors import BrokerError
from magnetar.model import ServerError

__all__ = ["NO_PROXIES", "Original", "Proxies"]


@final
class Original:
    """What is said of the client behind a proxy: a name, and what it proved itself with."""

    def __init__(self, role: str = "", method: str = "", data: bytes = b"") -> None:
        self.role: Final = role
        self.method: Final = method
        self.data: Final = data

    @property
    def is_named(self) -> bool:
        return self.role != "" or self.data != b""


@final
class Proxies:
    """The roles of proxies, and whether they must bring the proofs of their clients."""

    def __init__(self, roles: tuple[str, ...], *, authenticate: bool = False) -> None:
        self._roles: Final = roles
        self.authenticate: Final = authenticate

    def check(self, role: str, original: Original) -> None:
        """Raises BrokerError unless this role may speak for the original, or for itself."""
        if role not in self._roles:
            # Its own name is what proxies give that pass on what their clients brought.
            if original.is_named and original.role != role:
                raise _refusal(
                    f"role {role!r} is none of proxy_roles, so it cannot speak for an original "
                    "principal: connect directly, or name it there"
                )
        elif not original.is_named:
            raise _refusal(f"role {role!r} is a proxy's, and must name an original principal")
        elif original.role in self._roles:
            raise _refusal("the original principal cannot be a proxy's role")


NO_PROXIES: Final = Proxies(())


def _refusal(reason: str) -> BrokerError:
    return BrokerError(ServerError.AuthorizationError, reason)
