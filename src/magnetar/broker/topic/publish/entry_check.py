"""What a topic does not take: entries that are too large, too late, or not what they say they are.

Each function returns the reason as a sentence for the producer, and nothing if there is none.
"""

from typing import TYPE_CHECKING

from magnetar.broker.setting.text_limits import UUID_BEYOND_NAME
from magnetar.protocol import Entry, EntryFacts, batch_fault

if TYPE_CHECKING:
    from magnetar.broker.topic.topic import Topic

__all__ = ["entry_fault", "not_a_batch"]


def entry_fault(topic: "Topic", entry: Entry, facts: EntryFacts, now_ms: int) -> str:
    """Why the topic does not take an entry; nothing, if it does."""
    limit = topic.policies.limits.message_size_max
    delay_max = topic.policies.delayed_delivery_max_ms
    size = len(entry.data)
    if topic.policies.encryption_required and not facts.encrypted and not facts.marker:
        return f"Messages must be encrypted: {topic.name} takes no others"
    if limit > 0 and facts.chunk_id < 0 and size > limit + 10240:
        return f"the entry has {size} bytes, {topic.name} takes {limit}"
    if delay_max > 0 and facts.deliver_at_ms > now_ms + delay_max:
        return f"Exceeds max allowed delivery delay of {delay_max} milliseconds"
    too_long = _too_long(topic, facts)
    if too_long or not facts.batched:
        return too_long
    return not_a_batch(topic, entry, facts)


def not_a_batch(topic: "Topic", entry: Entry, facts: EntryFacts) -> str:
    """Why an entry is not the batch that it says it is; nothing, if it is."""
    fault = batch_fault(entry, facts)
    if not fault:
        return ""
    topic.broker.batches_refused += 1
    return f"the entry was not stored: {fault}; send what num_messages_in_batch says"


def _too_long(topic: "Topic", facts: EntryFacts) -> str:
    """What of the metadata is kept in memory and too long for it; empty if nothing is."""
    limit = topic.settings.max_name_length
    if limit == 0:
        return ""
    if len(facts.producer_name) > limit:
        size = len(facts.producer_name)
        return f"the producer's name in the message has {size} bytes, and {limit} are allowed"
    if facts.chunk_id < 0:
        return ""
    limit += UUID_BEYOND_NAME
    size = len(facts.uuid.encode())
    if size > limit:
        return f"the uuid of the chunk has {size} bytes, and {limit} are allowed"
    return ""
