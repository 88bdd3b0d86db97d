"""Passwords of users, as the files have them that Apache's `htpasswd` writes.

| a line begins | kind    | made by           | time of one check                      |
|---------------|---------|-------------------|----------------------------------------|
| USER:$2y$     | bcrypt  | `htpasswd -B`     | what its cost says: 50 ms with cost 10 |
| USER:$apr1$   | MD5     | `htpasswd -m`     | 1 ms                                   |
| USER:{SHA}    | SHA-1   | `htpasswd -s`     | a microsecond: whoever has the file    |
|               |         |                   | guesses it as fast                     |

Apache Pulsar takes MD5, and DES crypt (`htpasswd -d`), which looks at eight characters alone and
is refused here. A check of any kind takes long enough to be done beside the loop (`log_ins.py`).

The library for bcrypt is imported where it is used: a broker without such users needs none.
"""

import base64
import hashlib
from hmac import compare_digest
from typing import Final, final

from magnetar.broker.auth.apr1 import apr1
from magnetar.errors import SettingsError

__all__ = ["Passwords", "read_passwords"]

BCRYPT_BEGINNINGS: Final = ("$2a$", "$2b$", "$2y$")
BCRYPT_LENGTH: Final = 60
# 2^16 rounds take 4 s; with more a broker would be closed to everybody.
BCRYPT_COST_MAX: Final = 16
APR1: Final = "$apr1$"
SHA: Final = "{SHA}"
# bcrypt looks at no more of a password, and its library refuses longer ones.
BCRYPT_BYTES_MAX: Final = 72


@final
class Passwords:
    """The users of a file, and what their passwords are checked by. A value."""

    def __init__(self, users: dict[str, str]) -> None:
        self._users: Final = users
        # Whom a stranger's password is checked for, so that a name takes as long as any other.
        self._decoy: Final = next(iter(users.values()), "")

    def __len__(self) -> int:
        return len(self._users)

    def hash_of(self, user: str) -> str:
        """Returns what the user's password is checked by; empty for nobody's."""
        return self._users.get(user, "")

    def check(self, user: str, password: bytes) -> bool:
        """Returns whether this is the user's password. Takes long, and may be run on any thread."""
        known = self.hash_of(user)
        return _fits(known or self._decoy, password) and known != ""


def _fits(known: str, password: bytes) -> bool:
    if known.startswith(BCRYPT_BEGINNINGS):
        import bcrypt

        if b"\0" in password:
            return False
        return bcrypt.checkpw(password[:BCRYPT_BYTES_MAX], known.encode())
    if known.startswith(APR1):
        return compare_digest(apr1(password, known.split("$")[2].encode()), known.encode())
    digest = base64.b64encode(hashlib.sha1(password).digest())
    return compare_digest(digest, known.removeprefix(SHA).encode())


def read_passwords(name: str, text: str) -> Passwords:
    """Returns the users of a file. Raises SettingsError under the setting's name, which quotes no
    password."""
    users: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        user, colon, known = line.strip().partition(":")
        if not colon or not user or ":" in known:
            raise SettingsError(name, f"line {number} is not USER:PASSWORD, as htpasswd writes it")
        if user in users:
            raise SettingsError(name, f"line {number} names the user {user!r} again")
        reason = _why_unusable(known)
        if reason:
            raise SettingsError(name, f"line {number}, user {user!r}: {reason}")
        users[user] = known
    if not users:
        raise SettingsError(name, "there are no users in it: add one with htpasswd -B")
    return Passwords(users)


def _why_unusable(known: str) -> str:
    if not known.isascii():
        return "its password is not what htpasswd makes"
    if known.startswith(BCRYPT_BEGINNINGS):
        return _why_no_bcrypt(known)
    if known.startswith(APR1):
        parts = known.split("$")
        if len(parts) == 4 and 0 < len(parts[2]) <= 8 and len(parts[3]) == 22:
            return ""
        return "this is not what htpasswd -m makes"
    if known.startswith(SHA):
        try:
            whole = len(base64.b64decode(known.removeprefix(SHA), validate=True)) == 20
        except ValueError:
            whole = False
        return "" if whole else "this is not what htpasswd -s makes"
    return (
        "its password is neither bcrypt, MD5 nor SHA: make it anew with htpasswd -B (or -m, which "
        "Apache Pulsar takes too)"
    )


def _why_no_bcrypt(known: str) -> str:
    cost = known[4:6]
    if len(known) != BCRYPT_LENGTH or known[6] != "$" or not (cost.isascii() and cost.isdigit()):
        return "this is not what htpasswd -B makes"
    if not 4 <= int(cost) <= BCRYPT_COST_MAX:
        return f"a bcrypt cost of {int(cost)} is not allowed: take 4 to {BCRYPT_COST_MAX}"
    try:
        import bcrypt  # noqa: F401
    except ImportError:
        return (
            "bcrypt is not installed: pip install '.[bcrypt]' in a clone, or make the password "
            "anew with htpasswd -m"
        )
    try:
        # With the least cost: whether the library can read it at all.
        _fits(f"{known[:4]}04{known[6:]}", b"")
    except ValueError:
        return "this is not what htpasswd -B makes"
    return ""
