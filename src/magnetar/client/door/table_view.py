"""A table view: the latest value of every key of a topic, kept up to date by a thread."""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from magnetar.client.consumer.message import Message
from magnetar.client.door.closing import Closing
from magnetar.client.door.threads.settlement import complain
from magnetar.client.option.crypto_key_reader import CryptoKeyReader
from magnetar.client.schema.schema import Schema
from magnetar.model import MessageId

if TYPE_CHECKING:
    from magnetar.client.door.blocking import Client

__all__ = ["TableView"]


class TableView(Closing):
    """The latest value of every key of a topic, kept up to date by a thread."""

    def __init__(
        self,
        client: "Client",
        topic: str,
        subscription_name: str | None,
        schema: Schema,
        crypto_key_reader: CryptoKeyReader | None = None,
    ) -> None:
        self._data: dict[str, Any] = {}
        self._lock = threading.RLock()
        self._listeners: list[Callable[[str, Any], None]] = []
        self._reader = client.create_reader(
            topic,
            MessageId.earliest,
            schema=schema,
            subscription_role_prefix=subscription_name,
            crypto_key_reader=crypto_key_reader,
        )
        try:
            while self._reader.has_message_available():
                self._take(self._reader.read_next())
        except BaseException:
            self._reader.close()
            raise
        self._reader._listen(lambda reader, message: self._take(message), alone=True)

    def _take(self, message: Message) -> None:
        key = message.partition_key()
        if not key:
            return
        with self._lock:
            if message.has_null_value() or not message.data():
                self._data.pop(key, None)
                return
            try:
                value = message.value()
            except Exception as error:  # a schema may be the application's own
                self._data[key] = _Undecodable(error)
                return
            self._data[key] = value
            listeners = list(self._listeners)
        for listener in listeners:
            try:
                listener(key, value)
            except Exception:
                complain()

    def get(self, key: str) -> Any | None:
        """The value of a key, None if there is none. Raises why it cannot be decoded."""
        with self._lock:
            return _decoded(self._data.get(key))

    def for_each(self, callback: Callable[[str, Any], None]) -> None:
        """Calls a function with each key and its value."""
        with self._lock:
            items = list(self._data.items())
        for key, value in items:
            callback(key, _decoded(value))

    def for_each_and_listen(self, callback: Callable[[str, Any], None]) -> None:
        """Calls a function with each key and its value, now and when one changes."""
        with self._lock:
            self.for_each(callback)
            self._listeners.append(callback)

    def __len__(self) -> int:
        with self._lock:
            return len(self._data)

    def __str__(self) -> str:
        with self._lock:
            return str(self._data)

    def __repr__(self) -> str:
        return f"<TableView of {self._reader.topic()}, {len(self)} keys>"

    def close(self) -> None:
        """Closes the view; what it has stays as it is."""
        self._reader.close()


class _Undecodable:
    """Stands for a value that cannot be decoded."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __repr__(self) -> str:
        return f"<{self.error}>"


def _decoded(value: Any) -> Any:
    if isinstance(value, _Undecodable):
        raise value.error
    return value
