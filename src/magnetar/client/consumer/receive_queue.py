"""Messages that came and were not taken yet, entry by entry.

Entries stand in the order in which they came, each with those of its messages that are still
to be taken. No entry is in it twice. What was acked through a message is dropped from it.

Once the application may have a message that comes again (`copies`), the queue knows the keys
of its entries: what is acked is dropped from it, and what comes twice is noticed. Until then
nothing is done for that. Of an entry that comes twice the later copy stays, in the place of the
first: it has what the broker gives now, perhaps more than before, if a transaction was aborted.
"""

from collections import deque
from typing import final

from mypy_extensions import i64

from magnetar.client.ack.entry_acks import Cumulative
from magnetar.client.consumer.message import Message
from magnetar.client.consumer.withdrawal import Withdrawal

__all__ = ["ReceiveQueue"]


@final
class ReceiveQueue:
    """See the module. Whoever drops messages from it is told how many, and gives back permits."""

    def __init__(self) -> None:
        # Messages of one entry each, last first; `_current` is the entry being taken.
        self._entries: deque[list[Message]] = deque()
        self._current: list[Message] = []
        self.length: i64 = 0
        # Whether it may hold messages that the application has already, and if so the keys of
        # all entries but the current one.
        self.copies: bool = False
        self._keys: set[int] = set()
        # Whether what came again may stand behind what comes after it in the topic.
        self._mixed: bool = False

    def add(self, messages: list[Message]) -> None:
        """Appends the messages of an entry, of which there are some, and keeps the list."""
        messages.reverse()
        if self.copies:
            key = messages[0]._delivery.key
            self._keys.add(key)
            self._mixed = len(self._entries) > 0 and (
                self._mixed or key < self._entries[-1][0]._delivery.key
            )
        self._entries.append(messages)
        self.length += len(messages)

    def replace(self, messages: list[Message]) -> i64:
        """Has these in the place of what is left of the same entry, and keeps the list.

        Returns how many are dropped for them.
        """
        key = messages[0]._delivery.key
        messages.reverse()
        older: i64 = 0
        if self._current and self._current[-1]._delivery.key == key:
            older = len(self._current)
            self._current = messages
        else:
            for at, others in enumerate(self._entries):
                if others[0]._delivery.key == key:
                    older = len(others)
                    self._entries[at] = messages
                    break
        self.length += len(messages) - older
        return older

    def take(self) -> Message | None:
        if not self._current:
            if not self._entries:
                return None
            self._current = self._entries.popleft()
            if self.copies:
                self._keys.discard(self._current[0]._delivery.key)
        self.length -= 1
        return self._current.pop()

    def has_copy(self, key: int) -> bool:
        """Returns whether messages of the entry are still to be taken; False as long as none can
        be."""
        if not self.copies:
            return False
        if self._current and self._current[-1]._delivery.key == key:
            return True
        return key in self._keys

    def chunks(self) -> list[list[int]]:
        """Returns the chunks of all messages that were split."""
        found: list[list[int]] = []
        for messages in [*self._entries, self._current]:
            if messages and messages[0]._delivery.chunks is not None:
                found.append(messages[0]._delivery.chunks)
        return found

    def expect_copies(self) -> None:
        """Messages that the application has may come again."""
        if not self.copies:
            self.copies = True
            for messages in self._entries:
                self._keys.add(messages[0]._delivery.key)

    # ---- Dropping ------------------------------------------------------------

    def clear(self) -> i64:
        count = self.length
        self._entries.clear()
        self._keys.clear()
        self._current = []
        self._mixed = False
        self.length = 0
        return count

    def drop(self, keys: set[int]) -> i64:
        """Drops what it has of these entries, and nothing of their neighbours."""
        before = self.length
        if self._current and self._current[0]._delivery.key in keys:
            self.length -= len(self._current)
            self._current = []
        kept: deque[list[Message]] = deque()
        for messages in self._entries:
            if messages[0]._delivery.key in keys:
                self.length -= len(messages)
                self._keys.discard(messages[0]._delivery.key)
            else:
                kept.append(messages)
        self._entries = kept
        return before - self.length

    def withdraw(self, withdrawal: Withdrawal) -> i64:
        """Drops messages that the broker takes back, and nothing of their neighbours."""
        before = self.length
        self._current = self._kept(self._current, withdrawal)
        kept: deque[list[Message]] = deque()
        for messages in self._entries:
            left = self._kept(messages, withdrawal)
            if left:
                kept.append(left)
            else:
                self._keys.discard(messages[0]._delivery.key)
        self._entries = kept
        return before - self.length

    def _kept(self, messages: list[Message], withdrawal: Withdrawal) -> list[Message]:
        if not messages or not withdrawal.concerns(messages[0]):
            return messages
        left = [message for message in messages if not withdrawal.takes(message)]
        self.length -= len(messages) - len(left)
        return left

    def drop_copies(self, key: int, index: i64) -> i64:
        """Drops a message that was acked, for it was taken before; index -1 is all of an entry."""
        before = self.length
        current = self._current
        if current and current[-1]._delivery.key == key:
            # What comes before the next message was taken from here.
            if index < 0 or index >= current[-1]._index:
                self._current = self._without(current, index)
        elif key in self._keys:
            for at, messages in enumerate(self._entries):
                if messages[0]._delivery.key == key:
                    left = self._without(messages, index)
                    if left:
                        self._entries[at] = left
                    else:
                        del self._entries[at]
                        self._keys.discard(key)
                    break
        return before - self.length

    def drop_through(self, cumulative: Cumulative) -> i64:
        """Drops what was acked through a message. Where one consumer is active all is in order,
        but for what came again."""
        before = self.length
        if self._current and _covers(cumulative, self._current[-1]):
            self._current = self._beyond(self._current, cumulative)
        for _ in range(len(self._entries)):
            if not self._mixed and not _covers(cumulative, self._entries[0][-1]):
                break
            messages = self._entries.popleft()
            left = self._beyond(messages, cumulative)
            if not left:
                self._keys.discard(messages[0]._delivery.key)
            elif self._mixed:
                self._entries.append(left)
            else:
                self._entries.appendleft(left)
        return before - self.length

    def _without(self, messages: list[Message], index: i64) -> list[Message]:
        left = [message for message in messages if index >= 0 and message._index != index]
        self.length -= len(messages) - len(left)
        return left

    def _beyond(self, messages: list[Message], cumulative: Cumulative) -> list[Message]:
        left = [message for message in messages if not _covers(cumulative, message)]
        self.length -= len(messages) - len(left)
        return left


def _covers(cumulative: Cumulative, message: Message) -> bool:
    """Returns whether the ack is of this message too."""
    key = message._delivery.key
    if key != cumulative.key:
        return key < cumulative.key
    return cumulative.index < 0 or message._index <= cumulative.index
