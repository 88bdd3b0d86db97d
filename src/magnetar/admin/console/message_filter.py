"""Which messages are looked for: all conditions that a query names must hold."""

import base64
import binascii
from typing import Final

from magnetar.admin.console.entry_messages import EntryMessages, Shown
from magnetar.admin.http.answer import BAD_REQUEST, Refusal
from magnetar.admin.http.call import Call
from magnetar.admin.http.shape import NUMBER, TEXT, Json

__all__ = ["FILTERS", "MessageFilter"]

FILTERS: Final[dict[str, Json]] = {
    "key": TEXT,
    "property": TEXT,
    "value": TEXT,
    "text": TEXT,
    "bytes": TEXT,
    "since": NUMBER,
    "until": NUMBER,
}


class MessageFilter:
    """See the module. `text` is looked for in payloads as UTF-8, `bytes` is hexadecimal."""

    def __init__(self, call: Call) -> None:
        self._key = call.query("key")
        self._property = call.query("property")
        self._value = call.query("value")
        self._needles = [] if not call.query("text") else [(call.query("text") or "").encode()]
        if call.query("bytes"):
            try:
                self._needles.append(bytes.fromhex(call.query("bytes") or ""))
            except ValueError:
                raise Refusal(
                    BAD_REQUEST, "bytes are hexadecimal digits, two for each byte"
                ) from None
        self.since = call.query_number("since", 0)
        self.until = call.query_number("until", 0)

    def takes_entry(self, entry: EntryMessages) -> bool:
        """Returns whether any message of an entry may be looked for, by what all of them share."""
        if entry.metadata is None:
            return not (self.since or self.until)
        time = entry.metadata.publish_time
        return time >= self.since and (not self.until or time <= self.until)

    def takes(self, message: Shown) -> bool:
        if self._key is not None and not self._has_key(message):
            return False
        if self._property is not None:
            value = message.properties.get(self._property)
            if value is None or (self._value is not None and value != self._value):
                return False
        return all(needle in message.payload for needle in self._needles)

    def _has_key(self, message: Shown) -> bool:
        """Returns whether a message has the key: as it is written, or as the text that its bytes
        are."""
        if message.key == self._key:
            return True
        if message.key is None or not message.key_is_base64:
            return False
        try:
            return base64.b64decode(message.key).decode() == self._key
        except (binascii.Error, UnicodeDecodeError):
            return False
