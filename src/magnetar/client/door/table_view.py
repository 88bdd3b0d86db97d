"""A table view: the latest value of every key of a topic, kept up to date by a thread."""

import threading
from typing import TYPE_CHECKING, Any

from magnetar.client.door.closing import Closing
from magnetar.client.door.table import Table
from magnetar.client.option.crypto_key_reader import CryptoKeyReader
from magnetar.client.schema.schema import Schema
from magnetar.client.schema.value import Received
from magnetar.model import MessageId, TopicName

if TYPE_CHECKING:
    from magnetar.client.door.blocking import Client

__all__ = ["TableView"]


class TableView(Closing, Table[Received]):
    """The latest value of every key of a topic, kept up to date by a thread.

    Any thread may ask it; listeners are called by the view's own thread.
    """

    def __init__(
        self,
        client: "Client",
        topic: str,
        subscription_name: str | None,
        schema: Schema[Any],
        crypto_key_reader: CryptoKeyReader | None = None,
    ) -> None:
        super().__init__(threading.RLock())
        self._reader = client.create_reader(
            topic,
            MessageId.earliest,
            schema=schema,
            subscription_role_prefix=subscription_name,
            is_read_compacted=TopicName.parse(topic).persistent,
            crypto_key_reader=crypto_key_reader,
        )
        try:
            while self._reader.has_message_available():
                self._take(self._reader.read_next())
        except BaseException:
            self._reader.close()
            raise
        self._reader._listen(lambda reader, message: self._take(message), alone=True)

    def __repr__(self) -> str:
        topic, state = self._reader.topic(), self._reader._engine.state
        return f"<magnetar.TableView of {topic}: {len(self)} keys, {state}>"

    def close(self) -> None:
        """Closes the view; what it has stays as it is."""
        self._reader.close()
