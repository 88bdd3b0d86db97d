"""How one session finds out who its client is, and whether it still is.

| state      | CONNECT  | AUTH_RESPONSE      | its proof is   | time                       |
|------------|----------|--------------------|----------------|----------------------------|
| nobody     | proving  | -                  | -              |                            |
| proving    | not read | not read           | good: proved;  | keep-alive: hang up        |
|            |          |                    | bad: refuse    |                            |
| proved     | -        | is looked at;      | good: proved;  | expired: challenged, or    |
|            |          | hang up, if one is | bad: hang up   | hang up if the client      |
|            |          | looked at already  |                | cannot be asked            |
| challenged | -        | the same           | the same       | no answer in time: hang up |

Most proofs are looked at at once. A password, and a token whose issuer must be asked for its
keys, take a while: until a CONNECT is answered nothing else of the session is read. Whoever's
proof is taken back is hung up on in any state.

A proof that ends is asked for anew at that moment; until the answer is there the session goes
on. The role stays what it was: a client that is somebody else now must connect anew. So does the
client behind a proxy; once its own proof ends, the session does.

Without authentication nothing is asked and nobody is anybody.
"""

from typing import Final, final

from magnetar.broker.auth.proxied import Original
from magnetar.broker.auth.roles import BASIC, NO_ORIGINAL, NONE, Authentication, Principal, Proof
from magnetar.broker.broker import Broker
from magnetar.broker.host import Timer
from magnetar.broker.peer import Peer
from magnetar.broker.promise import Promise, kept
from magnetar.errors import BrokerError
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
        # Whether somebody's first proof is being looked at, and a later one.
        self._proving: bool = False
        self._renewing: bool = False
        self._timer: Timer | None = None

    def is_proving(self) -> bool:
        """Returns whether a CONNECT is being looked at, so that all else has to wait."""
        return self._proving

    def lost(self) -> None:
        """The connection is gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def connect(self, command: pb.CommandConnect) -> Promise[None]:
        """Kept once the client has proved who it is; broken with BrokerError if it has not.

        Raises BrokerError too.
        """
        if self._broker.authentication is None:
            return kept(None)
        self._can_refresh = command.feature_flags.supports_auth_refresh
        proved: Promise[None] = Promise()

        def admit(principal: Principal) -> None:
            self._proving = False
            self._peer.principal = principal
            self._wait()
            proved.keep(None)

        def refuse(error: Exception) -> None:
            self._proving = False
            proved.fail(error)

        self._proving = True
        original = Original(
            command.original_principal,
            command.original_auth_method,
            command.original_auth_data.encode(),
        )
        proof = self._proof(command.auth_method_name or NONE, command.auth_data, original)
        self._authentication().by_command(proof, self._broker.host).then(admit, refuse)
        return proved

    def speaker(self, original_role: str) -> Principal | None:
        """Returns who asks by a command that may name who is behind a proxy. Raises BrokerError."""
        principal = self._peer.principal
        if principal is None:
            return None
        return self._authentication().speaker(principal, original_role)

    def _authentication(self) -> Authentication:
        authentication = self._broker.authentication
        assert authentication is not None
        return authentication

    def _proof(self, method: str, data: bytes, original: Original) -> Proof:
        address = self._peer.address.rpartition(":")[0]
        return Proof(method, data, self._certificate_role, address, original)

    def _wait(self) -> None:
        """Until the proof ends, if it does."""
        self.lost()
        principal = self._peer.principal
        ends_ms = -1 if principal is None else _end_of(principal)
        if ends_ms >= 0 and not self._peer.closed:
            left_ms = max(0, ends_ms - self._broker.host.now_ms())
            self._timer = self._broker.host.call_later(min(left_ms, WAIT_MS_MAX), self._check)

    def _check(self) -> None:
        self._timer = None
        principal = self._peer.principal
        if self._peer.closed or principal is None:
            return
        now_ms = self._broker.host.now_ms()
        if principal.original is not None and principal.original.has_expired(now_ms):
            self._peer.fail("the token of the client behind the proxy has expired")
        elif not principal.has_expired(now_ms):
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
        """Hangs up if the client's proof was taken back."""
        principal = self._peer.principal
        authentication = self._broker.authentication
        if principal is None or authentication is None or self._peer.closed:
            return
        if authentication.is_revoked(principal):
            what = "password" if principal.method == BASIC else "token"
            self._peer.fail(f"its {what} was taken back")

    def on_response(self, command: pb.CommandAuthResponse) -> None:
        """Takes a new proof, asked for or not; hangs up if it is none."""
        before = self._peer.principal
        if before is None:
            return
        if self._renewing:
            self._peer.fail("a second AUTH_RESPONSE before the first was looked at")
            return
        self._renewing = True
        response = command.response
        method = response.auth_method_name or before.method
        proof = self._proof(method, response.auth_data, NO_ORIGINAL)
        found = self._authentication().by_response(proof, before, self._broker.host)
        found.then(lambda now: self._renewed(before, now), self._not_renewed)

    def _not_renewed(self, error: Exception) -> None:
        self._renewing = False
        if not isinstance(error, BrokerError):
            self._broker.host.fault("a proof could not be looked at", error)
        self._broker.refused_log_ins.count += 1
        self._peer.fail(error.reason if isinstance(error, BrokerError) else "its proof is none")

    def _renewed(self, before: Principal, now: Principal) -> None:
        self._renewing = False
        if now.role != before.role:
            self._peer.fail(f"it was role {before.role!r}, and says that it is {now.role!r} now")
            return
        self._peer.principal = now
        self._wait()


def _end_of(principal: Principal) -> int:
    """When the first of the proofs ends, -1 if none does."""
    ends = [one for one in (principal.expires_ms, _original_end(principal)) if one >= 0]
    return min(ends, default=-1)


def _original_end(principal: Principal) -> int:
    return -1 if principal.original is None else principal.original.expires_ms
