"""Dead letters and retry letters: messages that go elsewhere instead of coming again.

A message that was redelivered as often as the policy allows is handed to the application
once more. If that refuses it again, or lets its time run out, or if it comes with an even
higher count, it is dead: it is published to the dead letter topic and then acked. Until
then `DeadLetters` has it as a candidate, message by message: of a batch only what was
refused dies, and what was acked never does.

A retry letter is published by the application's wish, to be received again later; it
counts its rounds in a property. Names and properties are Pulsar's.
"""

from typing import Final, final

from mypy_extensions import i64

from magnetar.client.consumer.message import Message
from magnetar.client.option.options import ConsumerDeadLetterPolicy
from magnetar.model.position_key import wide_key_entry, wide_key_ledger

__all__ = [
    "DELAY_TIME",
    "ORIGIN_MESSAGE_ID",
    "ORIGIN_MESSAGE_ID_LEGACY",
    "REAL_SUBSCRIPTION",
    "REAL_TOPIC",
    "RECONSUME_TIMES",
    "RECONSUME_TIMES_MAX",
    "DeadLetters",
    "dead_letter_properties",
    "dead_letter_topic",
    "origin_text",
    "reconsume_times",
    "retry_letter_properties",
    "retry_letter_topic",
]

REAL_TOPIC: Final = "REAL_TOPIC"
REAL_SUBSCRIPTION: Final = "REAL_SUBSCRIPTION"
ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
# Misspelt in early versions; their readers look for it still.
ORIGIN_MESSAGE_ID_LEGACY: Final = "ORIGIN_MESSAGE_IDY_TIME"
RECONSUME_TIMES: Final = "RECONSUMETIMES"
DELAY_TIME: Final = "DELAY_TIME"
# How often a message is retried where no policy says it.
RECONSUME_TIMES_MAX: Final = 16


@final
class DeadLetters:
    """The candidates of a consumer, and the dead that are being published."""

    def __init__(self, policy: ConsumerDeadLetterPolicy | None) -> None:
        self.enabled: Final[bool] = policy is not None
        self._count_max: Final[i64] = 0 if policy is None else policy.max_redeliver_count
        # What the application has of each entry, by key and index.
        self._candidates: dict[int, dict[int, Message]] = {}
        self._refused: dict[int, set[int]] = {}
        self._dying: dict[int, set[int]] = {}

    def died(self, redelivery_count: i64) -> bool:
        """Returns whether a message was redelivered too often to be handed out at all."""
        return self.enabled and redelivery_count > self._count_max

    def taken(self, message: Message) -> None:
        """Counts a message that the application gets, for the last time if its count says so."""
        delivery = message._delivery
        if delivery.redelivery_count >= self._count_max:
            self._candidates.setdefault(delivery.key, {})[message._index] = message

    def refused(self, key: int, index: i64) -> None:
        """Notes that the application does not want a message; index -1 means all of the entry."""
        candidates = self._candidates.get(key)
        if candidates is not None:
            refused = self._refused.setdefault(key, set())
            refused.update([index] if index >= 0 else candidates)

    def is_candidate(self, key: int) -> bool:
        return key in self._candidates

    def acked(self, key: int, index: i64, complete: bool) -> None:
        candidates = self._candidates.get(key)
        if candidates is None:
            return
        candidates.pop(index, None)
        if complete or index < 0 or not candidates:
            self.forget(key)

    def withdrawn(self, key: int, kept: int) -> None:
        """Of an entry only these are left for the application to refuse."""
        for index in list(self._candidates.get(key, {})):
            if kept >> index & 1 == 0:
                self.acked(key, index, False)

    def take_refused(self, key: int) -> list[Message]:
        """Returns the refused messages of an entry, which die now; its others stay."""
        refused = self._refused.pop(key, set())
        candidates = self._candidates.get(key, {})
        dead = [candidates.pop(index) for index in sorted(refused) if index in candidates]
        if not candidates:
            self.forget(key)
        return dead

    def take_all(self, key: int) -> list[Message]:
        """Returns all that the application has of an entry, which dies since its time is up."""
        self._refused.pop(key, None)
        candidates = self._candidates.pop(key, {})
        return [candidates[index] for index in sorted(candidates)]

    def forget(self, key: int) -> None:
        self._candidates.pop(key, None)
        self._refused.pop(key, None)

    def clear(self) -> None:
        """Everything comes again, and candidates with it; the dying go on dying."""
        self._candidates.clear()
        self._refused.clear()

    def forget_all(self) -> None:
        """What comes now has nothing to do with what came before."""
        self.clear()
        self._dying.clear()

    # ---- The dying -----------------------------------------------------------

    def publishing(self, message: Message) -> None:
        for key in _keys(message):
            self._dying.setdefault(key, set()).add(message._index)

    def published(self, message: Message) -> None:
        """Lets go of a letter: it is in its new topic, or will not get there."""
        for key in _keys(message):
            indexes = self._dying.get(key)
            if indexes is not None:
                indexes.discard(message._index)
                if not indexes:
                    del self._dying[key]

    def without_dying(self, key: int, unacked: int) -> int:
        """Returns what of an entry that came again is not on its way to the dead letter topic."""
        indexes = self._dying.get(key)
        if indexes is not None:
            for index in indexes:
                unacked &= ~(1 << max(index, 0))
        return unacked


def _keys(message: Message) -> list[int]:
    """Returns the entries that a message is in: of one in chunks, several."""
    delivery = message._delivery
    return [delivery.key] if delivery.chunks is None else delivery.chunks


def dead_letter_topic(
    topic: str, subscription: str, policy: ConsumerDeadLetterPolicy | None = None
) -> str:
    """Returns where the dead letters of a subscription go.

    >>> dead_letter_topic("persistent://public/default/orders", "billing")
    'persistent://public/default/orders-billing-DLQ'
    """
    if policy is not None and policy.dead_letter_topic is not None:
        return policy.dead_letter_topic
    return f"{topic}-{subscription}-DLQ"


def retry_letter_topic(
    topic: str, subscription: str, policy: ConsumerDeadLetterPolicy | None = None
) -> str:
    """Returns where the retry letters of a subscription go.

    >>> retry_letter_topic("persistent://public/default/orders", "billing")
    'persistent://public/default/orders-billing-RETRY'
    """
    if policy is not None and policy.retry_letter_topic is not None:
        return policy.retry_letter_topic
    return f"{topic}-{subscription}-RETRY"


def dead_letter_properties(message: Message, subscription: str) -> dict[str, str]:
    """Returns the properties of a dead letter: the message's own, and where it came from."""
    properties = message.properties()
    _put_origin(properties, message, subscription)
    return properties


def retry_letter_properties(
    message: Message, subscription: str, delay_ms: int, properties: dict[str, str] | None = None
) -> dict[str, str]:
    """Returns the properties of a retry letter; `properties` are what the application adds."""
    merged = message.properties()
    if properties is not None:
        merged.update(properties)
    _put_origin(merged, message, subscription)
    merged[ORIGIN_MESSAGE_ID_LEGACY] = merged[ORIGIN_MESSAGE_ID]
    merged[RECONSUME_TIMES] = str(reconsume_times(message) + 1)
    merged[DELAY_TIME] = str(delay_ms)
    return merged


def reconsume_times(message: Message) -> int:
    """Returns how often the message went through the retry topic; text that is not a number is
    never."""
    text = message.properties().get(RECONSUME_TIMES, "0")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def origin_text(message: Message) -> str:
    """Returns a message's id as the Java client writes it, which is what readers of letters
    expect."""
    delivery = message._delivery
    text = f"{delivery.ledger_id}:{delivery.entry_id}:{delivery.partition}"
    if delivery.chunks is not None:
        first = delivery.chunks[0]
        return f"{wide_key_ledger(first)}:{wide_key_entry(first)}:{delivery.partition};{text}"
    return text if message._index < 0 else f"{text}:{message._index}"


def _put_origin(properties: dict[str, str], message: Message, subscription: str) -> None:
    """Where the message was first: a letter that travels on keeps its origin."""
    properties.setdefault(REAL_TOPIC, message.topic_name())
    properties.setdefault(REAL_SUBSCRIPTION, subscription)
    properties.setdefault(ORIGIN_MESSAGE_ID, origin_text(message))
