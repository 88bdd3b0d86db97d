"""The bytes of a key, and the tokens that were taken back, from where settings say: a shell.

A key is a path, `file:` with a path behind it, or the key itself behind `data:;base64,`, as in
Apache Pulsar. Errors name the setting and never its value, which may be the key.
"""

import base64
import binascii
import logging
from pathlib import Path
from urllib.parse import unquote, urlparse

from magnetar.broker.auth.revoked import Revoked, read_revoked
from magnetar.broker.shell.tls import file_stamp
from magnetar.errors import SettingsError

__all__ = ["RevokedFile", "key_path", "read_key"]

log: logging.Logger = logging.getLogger("magnetar.broker")


def read_key(name: str, source: str) -> bytes:
    """Returns the key that the setting `name` tells of. Raises SettingsError."""
    if source.startswith("data:"):
        return _inline(name, source)
    try:
        return key_path(source).read_bytes()
    except (OSError, ValueError) as error:
        # Not the path: who gave a secret instead of one must not find it in a log.
        reason = error.strerror if isinstance(error, OSError) else None
        raise SettingsError(
            name, f"cannot read the file that it names: {reason or 'this is not a path'}"
        ) from None


def key_path(source: str) -> Path:
    return Path(unquote(urlparse(source).path) if source.startswith("file:") else source)


class RevokedFile:
    """The file that `token_revoked_file` names; one that cannot be used takes nothing back."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen = file_stamp(path)

    def read(self) -> Revoked:
        """Returns what it says. Raises SettingsError."""
        try:
            text = Path(self._path).read_text()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            raise SettingsError(
                "token_revoked_file", f"cannot read {self._path}: {reason}"
            ) from None
        return read_revoked("token_revoked_file", text)

    def changed(self) -> Revoked | None:
        """Returns what it says, if it changed; what was taken back stays so if it cannot be
        used."""
        stamp = file_stamp(self._path)
        if stamp == self._seen:
            return None
        self._seen = stamp
        try:
            revoked = self.read()
        except SettingsError as error:
            log.warning(
                "the list of tokens that were taken back changed, and is not taken: %s", error
            )
            return None
        log.info("the list of tokens that were taken back changed: %s", self._path)
        return revoked


def _inline(name: str, source: str) -> bytes:
    head, comma, data = source.partition(",")
    if not comma or not head.endswith("base64"):
        raise SettingsError(name, "a key in the setting itself is written data:;base64,KEY")
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error:
        raise SettingsError(name, "what stands behind data:;base64, is not base64") from None
