"""Log-ins with a password: checked beside the loop, one at a time, and remembered.

A check takes up to a second by design, and strangers may ask for as many as they like. So:

| a log-in                               | costs                                               |
|----------------------------------------|-----------------------------------------------------|
| that was proved since the file changed | one hash: clients that come back, requests of REST  |
| that is being checked for somebody     | nothing: the answer is for both                     |
| any other                              | a place in the line of its address, and a check on  |
|                                        | another thread when it is its turn                  |

Addresses have their turn one after the other, so one that guesses passwords makes others wait
for one check and no more. Beyond CHECKS_MAX, or CHECKS_OF_ONE_MAX from one address, a log-in is
refused at once, and may be tried again. Thousands may wait for one check, if they say the same:
they hear of it a few at a time (I10).

What is remembered is a digest of the pair under a key that was drawn at the start, and whom the
file said it was then: a user whose password changed, or who is gone, is not remembered.
"""

import hashlib
from collections import OrderedDict, deque
from functools import partial
from typing import Final, final

from magnetar.broker.auth.password import Passwords
from magnetar.broker.host import Host
from magnetar.broker.promise import Promise, broken, kept
from magnetar.broker.turn.slices import TOLD_AT_ONCE, Step, in_slices
from magnetar.errors import BrokerError
from magnetar.model import ServerError

__all__ = ["LogIns", "ProvedUser"]

CHECKS_MAX: Final = 256
CHECKS_OF_ONE_MAX: Final = 16
REMEMBERED_MAX: Final = 1000
# Users and passwords are short, and what hashes them goes over all of it a thousand times.
PAIR_BYTES_MAX: Final = 1024


@final
class ProvedUser:
    """Somebody whose password was right, and what the file had for it then."""

    def __init__(self, name: str, known: str) -> None:
        self.name: Final = name
        self.known: Final = known


@final
class _Check:
    """One password that is to be checked, on whichever thread."""

    def __init__(
        self, passwords: Passwords, user: str, password: bytes, digest: bytes, address: str
    ) -> None:
        self._passwords: Final = passwords
        self._password: Final = password
        self.user: Final = user
        self.known: Final = passwords.hash_of(user)
        self.digest: Final = digest
        self.address: Final = address
        self.right: bool = False
        self.waiting: Final[list[Promise[ProvedUser]]] = []

    def run(self) -> None:
        self.right = self._passwords.check(self.user, self._password)


@final
class LogIns:
    """See the module. `key` is drawn by whoever makes it, and known to nobody else."""

    def __init__(self, passwords: Passwords, key: bytes) -> None:
        self.passwords: Passwords = passwords
        self._key: Final = key
        self._remembered: Final[OrderedDict[bytes, ProvedUser]] = OrderedDict()
        # By digest: those that wait and the one that runs.
        self._under_way: Final[dict[bytes, _Check]] = {}
        self._lines: Final[OrderedDict[str, deque[_Check]]] = OrderedDict()
        self._running: bool = False

    def prove(self, data: bytes, address: str, host: Host) -> Promise[ProvedUser]:
        """Returns who says `user:password`; broken with BrokerError if it is nobody."""
        name, colon, password = data.partition(b":")
        if not colon or len(data) > PAIR_BYTES_MAX:
            return broken(refusal("it is no user with a password, written user:password"))
        try:
            user = name.decode()
        except UnicodeDecodeError:
            return broken(refusal("the user is not UTF-8"))
        digest = hashlib.blake2b(data, key=self._key).digest()
        known = self._remembered.get(digest)
        if known is not None and self.counts(known):
            self._remembered.move_to_end(digest)
            return kept(known)
        check = self._under_way.get(digest)
        if check is None:
            check = _Check(self.passwords, user, password, digest, address)
            if not self._queue(check):
                return broken(
                    BrokerError(
                        ServerError.TooManyRequests,
                        "too many passwords are being checked: try again in a moment",
                    )
                )
            self._run_next(host)
        answer: Promise[ProvedUser] = Promise()
        check.waiting.append(answer)
        return answer

    def counts(self, user: ProvedUser) -> bool:
        """Returns whether the file still has that password for the user."""
        return self.passwords.hash_of(user.name) == user.known

    def _queue(self, check: _Check) -> bool:
        line = self._lines.setdefault(check.address, deque())
        if len(self._under_way) >= CHECKS_MAX or len(line) >= CHECKS_OF_ONE_MAX:
            if not line:
                del self._lines[check.address]
            return False
        line.append(check)
        self._under_way[check.digest] = check
        return True

    def _run_next(self, host: Host) -> None:
        if self._running or not self._lines:
            return
        address, line = self._lines.popitem(last=False)
        check = line.popleft()
        if line:
            self._lines[address] = line  # behind all others
        self._running = True

        def done(error: Exception | None) -> None:
            self._running = False
            self._finish(check, error, host)
            self._run_next(host)

        host.run_aside(check.run).when_done(done)

    def _finish(self, check: _Check, error: Exception | None, host: Host) -> None:
        del self._under_way[check.digest]
        user = ProvedUser(check.user, check.known)
        if error is None and check.right and self.counts(user):
            self._remembered[check.digest] = user
            if len(self._remembered) > REMEMBERED_MAX:
                self._remembered.popitem(last=False)
        steps: list[Step] = [partial(self._tell, one, check, user, error) for one in check.waiting]
        in_slices(host, steps, TOLD_AT_ONCE)

    def _tell(
        self,
        answer: Promise[ProvedUser],
        check: _Check,
        user: ProvedUser,
        error: Exception | None,
    ) -> Promise[None]:
        if error is not None:
            answer.fail(error)
        # The file may have changed since the first of them heard of it.
        elif check.right and self.counts(user):
            answer.keep(user)
        else:
            # Not which of the two, as Apache Pulsar.
            answer.fail(refusal("unknown user or invalid password"))
        return kept(None)


def refusal(reason: str) -> BrokerError:
    return BrokerError(ServerError.AuthenticationError, f"the log-in is not accepted: {reason}")
