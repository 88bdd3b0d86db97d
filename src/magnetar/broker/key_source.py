"""The bytes of a key, from where a setting says that they are: a shell.

A path, `file:` with a path behind it, or the key itself behind `data:;base64,`, as in Apache
Pulsar. Errors name the setting and never its value, which may be the key.
"""

import base64
import binascii
from pathlib import Path
from urllib.parse import unquote, urlparse

from magnetar.errors import SettingsError

__all__ = ["read_key"]


def read_key(name: str, source: str) -> bytes:
    """The key that the setting `name` tells of. Raises SettingsError."""
    if source.startswith("data:"):
        return _inline(name, source)
    path = Path(unquote(urlparse(source).path) if source.startswith("file:") else source)
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:
        # Not the path: who gave a secret instead of one must not find it in a log.
        reason = error.strerror if isinstance(error, OSError) else None
        raise SettingsError(
            name, f"cannot read the file that it names: {reason or 'this is no path'}"
        ) from None


def _inline(name: str, source: str) -> bytes:
    head, comma, data = source.partition(",")
    if not comma or not head.endswith("base64"):
        raise SettingsError(name, "a key in the setting itself is written data:;base64,KEY")
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error:
        raise SettingsError(name, "what stands behind data:;base64, is not base64") from None
