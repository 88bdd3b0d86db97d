"""Tokens that were taken back before their time: a text with one of these per line.

    jti 2f6c1e      this one token, by its id
    role worker     every token of this role
    # a comment

Whoever is in it is refused, and connections that came with such a token end.
"""

from typing import Final, final

from magnetar.errors import SettingsError

__all__ = ["NOTHING_REVOKED", "Revoked", "read_revoked"]


@final
class Revoked:
    """See the module."""

    def __init__(self, ids: set[str], roles: set[str]) -> None:
        self._ids: Final = ids
        self._roles: Final = roles

    def has(self, role: str, token_id: str) -> bool:
        """Returns whether a token of this role was taken back; `token_id` is empty if it has
        none."""
        return role in self._roles or token_id in self._ids


NOTHING_REVOKED: Final = Revoked(set(), set())


def read_revoked(name: str, text: str) -> Revoked:
    """Returns what a file says. Raises SettingsError under the setting's name."""
    ids: set[str] = set()
    roles: set[str] = set()
    for number, line in enumerate(text.splitlines(), 1):
        kind, _, value = line.strip().partition(" ")
        if not kind or kind.startswith("#"):
            continue
        if kind not in ("jti", "role") or not value.strip():
            raise SettingsError(name, f"line {number} is neither `jti ID` nor `role NAME`")
        (ids if kind == "jti" else roles).add(value.strip())
    return Revoked(ids, roles)
