"""How one session finds out who its client is, and whether it still is.

| state      | CONNECT           | AUTH_RESPONSE        | time                                 |
|------------|-------------------|----------------------|--------------------------------------|
| nobody     | proved, or refuse | -                    |                                      |
| proved     | -                 | proved, or hang up   | expired: challenged, or hang up if   |
|            |                   |                      | the client cannot be asked           |
| challenged | -                 | proved, or hang up   | no answer in time: hang up           |

Whoever's token is taken back is hung up on in any state.

A proof that ends is asked for anew at that moment; until the answer is there the session goes
on. The role stays what it was: a client that is somebody else now must connect anew. What a
proxy says of the client behind it is refused, since nobody could prove it here.

Without authentication nothing is asked and nobody is anybody.
"""

from typing import Final, final

from magnetar.broker.auth.roles import NONE, Principal
from magnetar.broker.broker import Broker
from magnetar.broker.host import Timer
from magnetar.broker.peer import Peer
from magnetar.errors import BrokerError
from magnetar.model import ServerError
from magnetar.protocol import pulsar_pb2 as pb

__all__ = ["SessionAuth"]

# What tells clients that they are to bring new data of the same kind.
REFRESH: Final = b"PulsarAuthRefresh"
# The clock of the machine may be set while we wait: it is looked at so often.
WAIT_MS_MAX: Final = 60_000


@final
class SessionAuth:
    """See the module."""

    def __init__(
        self, broker: Broker, peer: Peer, certificate_role: str, server_version: str
    ) -> None:
        self._broker: Final = broker
        self._peer: Final = peer
        self._certificate_role: Final = certificate_role
        self._server_version: Final = server_version
        self._can_refresh: bool = False
        self._timer: Timer | None = None

    def lost(self) -> None:
        """The connection is gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def connect(self, command: pb.CommandConnect) -> None:
        """Raises BrokerError unless the client proves who it is."""
        if self._broker.authentication is None:
            return
        refuse_proxied(command.original_principal or command.original_auth_data)
        self._can_refresh = command.feature_flags.supports_auth_refresh
        self._peer.principal = self._prove(command.auth_method_name or NONE, command.auth_data)
        self._wait()

    def _prove(self, method: str, data: bytes) -> Principal:
        authentication = self._broker.authentication
        assert authentication is not None
        now_ms = self._broker.host.now_ms()
        return authentication.by_command(method, data, self._certificate_role, now_ms)

    def _wait(self) -> None:
        """Until the proof ends, if it does."""
        self.lost()
        principal = self._peer.principal
        if principal is not None and principal.expires_ms >= 0:
            left_ms = max(0, principal.expires_ms - self._broker.host.now_ms())
            self._timer = self._broker.host.call_later(min(left_ms, WAIT_MS_MAX), self._check)

    def _check(self) -> None:
        self._timer = None
        principal = self._peer.principal
        if self._peer.closed or principal is None:
            return
        if not principal.has_expired(self._broker.host.now_ms()):
            self._wait()
        elif not self._can_refresh:
            self._peer.fail("its token has expired, and it cannot be asked for a new one")
        else:
            self._challenge(principal)

    def _challenge(self, principal: Principal) -> None:
        self._peer.send(
            pb.CommandAuthChallenge(
                server_version=self._server_version,
                protocol_version=self._peer.protocol_version,
                challenge=pb.AuthData(auth_method_name=principal.method, auth_data=REFRESH),
            )
        )
        wait_ms = self._broker.settings.authentication_refresh_ms
        self._timer = self._broker.host.call_later(wait_ms, self._give_up)

    def _give_up(self) -> None:
        self._timer = None
        self._peer.fail("its token has expired, and no new one came in time")

    def check_revoked(self) -> None:
        """Hangs up if the client's token was taken back."""
        principal = self._peer.principal
        authentication = self._broker.authentication
        if principal is None or authentication is None or self._peer.closed:
            return
        if authentication.is_revoked(principal):
            self._peer.fail("its token was taken back")

    def on_response(self, command: pb.CommandAuthResponse) -> None:
        """Takes a new proof, asked for or not; hangs up if it is none."""
        before = self._peer.principal
        if before is None:
            return
        response = command.response
        try:
            now = self._prove(response.auth_method_name or before.method, response.auth_data)
        except BrokerError as error:
            self._broker.refused_log_ins.count += 1
            self._peer.fail(error.reason)
            return
        if now.role != before.role:
            self._peer.fail(f"it was role {before.role!r}, and says that it is {now.role!r} now")
            return
        self._peer.principal = now
        self._wait()


def refuse_proxied(claim: str) -> None:
    """Raises BrokerError if a proxy speaks for somebody else."""
    if claim:
        raise BrokerError(
            ServerError.AuthorizationError,
            "this broker does not take a proxy's word for who is behind it: connect directly",
        )
