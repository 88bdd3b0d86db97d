"""The latest value of every key: what the table views of both doors share."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Generic

from magnetar.client.consumer.message import Message
from magnetar.client.door.threads.teller import complain
from magnetar.client.schema.value import Received

__all__ = ["Table"]


class Table(Generic[Received]):
    """See the module. `lock` is held while it is read or changed; the asyncio door needs none."""

    def __init__(self, lock: AbstractContextManager[object]) -> None:
        self._data: dict[str, Any] = {}
        self._lock = lock
        self._listeners: list[Callable[[str, Any], object]] = []

    def _take(self, message: Message[Any]) -> None:
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

    def get(self, key: str) -> Received | None:
        """Returns the value of a key, None if there is none. Raises why it cannot be decoded."""
        with self._lock:
            value: Received | None = _decoded(self._data.get(key))
            return value

    def for_each(self, callback: Callable[[str, Received], object]) -> None:
        """Calls a function with each key and its value. Raises why one cannot be decoded."""
        with self._lock:
            items = list(self._data.items())
        for key, value in items:
            callback(key, _decoded(value))

    def for_each_and_listen(self, callback: Callable[[str, Received], object]) -> None:
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
