"""The keys of one OpenID Connect issuer: fetched beside the loop, kept, and fetched anew.

| keys    | a token with a key that is known | with one that is not              | becomes       |
|---------|----------------------------------|-----------------------------------|---------------|
| none    | -                                | fetched, and looked at again      | fresh, none   |
| fresh   | counts                           | fetched, if the last fetch is     | fresh         |
|         |                                  | `unknown_key_ms` ago; else it is  |               |
|         |                                  | refused                           |               |
| old     | counts, and keys are fetched     | as with fresh ones                | fresh, or old |
|         | beside                           |                                   |               |
| expired | fetched, and looked at again     | the same                          | fresh, none   |

Keys are old after `refresh_ms` and expired after `expire_ms`. A fetch that fails changes nothing:
keys that have not expired go on counting, and there is no other for RETRY_MS. There is one fetch
at a time, whoever asks; so an issuer that cannot be reached costs one thread, and log-ins that
need it are refused, not held. Thousands may wait for one fetch: they hear of it a few at a time
(I10).
"""

from collections.abc import Callable
from functools import partial
from typing import Final, final

from magnetar.broker.auth.token import TokenKey, refusal
from magnetar.broker.host import Host
from magnetar.broker.promise import Promise, broken, kept
from magnetar.broker.turn.slices import TOLD_AT_ONCE, Step, in_slices
from magnetar.errors import BrokerError
from magnetar.model import ServerError

__all__ = ["FetchKeys", "IssuerKeys", "KeyTimes"]

RETRY_MS: Final = 5000

# Returns the keys of an issuer, by id, and takes its time; raises BrokerError.
FetchKeys = Callable[[str], dict[str, TokenKey]]


@final
class KeyTimes:
    """How long keys are used before they are fetched anew; see the module."""

    def __init__(self, *, refresh_ms: int, expire_ms: int, unknown_key_ms: int) -> None:
        self.refresh_ms: Final = refresh_ms
        self.expire_ms: Final = expire_ms
        self.unknown_key_ms: Final = unknown_key_ms


@final
class _Fetch:
    """One fetch, on whichever thread, and those who wait for it."""

    def __init__(self, issuer: str, fetch: FetchKeys) -> None:
        self._issuer: Final = issuer
        self._fetch: Final = fetch
        self.keys: dict[str, TokenKey] = {}
        # By the id of the key that each of them wants.
        self.waiting: Final[list[tuple[str, Promise[TokenKey]]]] = []

    def run(self) -> None:
        self.keys = self._fetch(self._issuer)


@final
class IssuerKeys:
    """See the module."""

    def __init__(self, issuer: str, fetch: FetchKeys, times: KeyTimes) -> None:
        self.issuer: Final = issuer
        self._fetch: Final = fetch
        self._times: Final = times
        self._keys: dict[str, TokenKey] = {}
        # When they came, and when a fetch was last begun; -1 for never.
        self._fetched_ms: int = -1
        self._tried_ms: int = -1
        # Why the last fetch failed, if it did.
        self._trouble: str = ""
        self._under_way: _Fetch | None = None

    def find(self, id: str, host: Host) -> Promise[TokenKey]:
        """Returns the key with this id; broken with BrokerError if the issuer has none."""
        now_ms = host.ticks_ms()
        key = self._known(id, now_ms)
        if key is not None:
            if now_ms - self._fetched_ms >= self._times.refresh_ms:
                self._begin_fetch(now_ms, host)
            return kept(key)
        fetch = self._begin_fetch(now_ms, host)
        if fetch is None:
            return broken(self._refusal(now_ms))
        found: Promise[TokenKey] = Promise()
        fetch.waiting.append((id, found))
        return found

    def _known(self, id: str, now_ms: int) -> TokenKey | None:
        return self._keys.get(id) if self._have_keys(now_ms) else None

    def _have_keys(self, now_ms: int) -> bool:
        return self._fetched_ms >= 0 and now_ms - self._fetched_ms < self._times.expire_ms

    def _begin_fetch(self, now_ms: int, host: Host) -> _Fetch | None:
        """Returns the fetch that is under way, perhaps since now; None if it is too soon."""
        if self._under_way is not None:
            return self._under_way
        if self._tried_ms >= 0:
            pause_ms = RETRY_MS
            if not self._trouble and self._have_keys(now_ms):
                pause_ms = self._times.unknown_key_ms
            if now_ms - self._tried_ms < pause_ms:
                return None
        fetch = _Fetch(self.issuer, self._fetch)
        self._under_way = fetch
        self._tried_ms = now_ms
        host.run_aside(fetch.run).when_done(lambda error: self._end_fetch(fetch, error, host))
        return fetch

    def _end_fetch(self, fetch: _Fetch, error: Exception | None, host: Host) -> None:
        self._under_way = None
        self._trouble = ""
        if error is None:
            self._keys = fetch.keys
            self._fetched_ms = host.ticks_ms()
        elif isinstance(error, BrokerError):
            self._trouble = error.reason
            host.warn(f"the keys of the issuer {self.issuer} were not fetched: {error.reason}")
            error = None
        steps: list[Step] = [partial(self._tell, *one, error, host) for one in fetch.waiting]
        in_slices(host, steps, TOLD_AT_ONCE)

    def _tell(
        self, id: str, found: Promise[TokenKey], error: Exception | None, host: Host
    ) -> Promise[None]:
        now_ms = host.ticks_ms()
        key = self._known(id, now_ms)
        if error is not None:
            found.fail(error)
        elif key is not None:
            found.keep(key)
        else:
            found.fail(self._refusal(now_ms))
        return kept(None)

    def _refusal(self, now_ms: int) -> BrokerError:
        if self._have_keys(now_ms):
            return refusal("its issuer has no key with its id (kid)")
        # The log has the reason, which may name machines that strangers need not know of.
        return BrokerError(
            ServerError.ServiceNotReady,
            "the token cannot be checked now: the keys of its issuer cannot be had; try again",
        )
