"""The head of an entry, as admin REST tells it in headers: enough to ack it, batches and chunks.

The answer to a request for an entry has the payload as its body and the rest in headers.
"""

from collections.abc import Mapping
from typing import Final

from magnetar.model import MessageId, TopicName
from magnetar.rest.admin_error import AdminError
from magnetar.rest.answer import Answer
from magnetar.rest.path import topic_path
from magnetar.rest.request import Request

__all__ = ["HEADER", "EntryHead", "entry_request"]

HEADER: Final = "x-pulsar-"


def entry_request(topic: TopicName, ledger_id: int, entry_id: int) -> Request:
    """Returns the request for an entry of a topic or partition, wherever its cursors are."""
    path = topic_path(topic, "ledger", str(ledger_id), "entry", str(entry_id))
    return Request("GET", path)


class EntryHead:
    """Where an entry is, how many messages it has, and of which message it is a chunk."""

    def __init__(self, answer: Answer, topic: str, partition: int) -> None:
        """Raises AdminError if the answer is not an entry."""
        self._headers: Mapping[str, str] = answer.headers
        text = self.text("message-id")
        ledger, _, entry = text.partition(":")
        if not ledger.isdecimal() or not entry.isdecimal():
            raise AdminError(answer.status, f"the answer is not an entry: its id is {text!r}")
        self.ledger_id: int = int(ledger)
        self.entry_id: int = int(entry)
        self.topic: str = topic
        self.partition: int = partition
        # 0 for an entry that is no batch.
        self.batch_size: int = self._number("num-batch-message")
        self.chunk_count: int = self._number("num-chunks-from-msg")
        self.chunk_id: int = self._number("chunk-id")
        # What the chunks of a message have in common with no other: the uuid alone comes again when
        # a producer is started anew under its name.
        self.chunked_name: Final = (
            self.text("uuid"),
            self.text("publish-time"),
            self.chunk_count,
        )

    def _number(self, name: str) -> int:
        text = self.text(name)
        return int(text) if text.isdecimal() else 0

    def text(self, name: str) -> str:
        """Returns what a header says, named without its beginning; empty if it is not there."""
        return self._headers.get(HEADER + name, "")

    def id(self, index: int = -1) -> MessageId:
        """Returns the id of the entry, or of one message of its batch."""
        return MessageId(
            self.partition,
            self.ledger_id,
            self.entry_id,
            index,
            batch_size=self.batch_size if index >= 0 else 0,
            topic=self.topic,
        )
