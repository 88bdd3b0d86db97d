"""How much is done in one event of what one peer or one operator has begun (I10).

Each is a millisecond or two of work, ten when interpreted. Simulations set them to a few, so
that whatever may happen between two pieces does.
"""

from typing import Final, final

__all__ = ["PIECE_IDS", "Pieces"]

# Ids that are looked at in one go, for an operator: a millisecond of work, ten when interpreted.
PIECE_IDS: Final = 1000


@final
class Pieces:
    """See the module."""

    def __init__(self) -> None:
        # Entries that change hands, when a consumer leaves for example (`handover.py`).
        self.entries: int = 500
        # Entries and slots that are looked at, and stay where they are.
        self.looks: int = 2000
        # Ids of a skip (`skip.py`).
        self.ids: int = PIECE_IDS
        # Consumers that are told that they are closed (`dismissal.py`).
        self.consumers: int = 50
        # Topics that are created, as partitions of one.
        self.topics: int = 20
        # Units of a topic that is loaded, 50 us each: a subscription is one (`topic_loading.py`).
        self.loads: int = 50
        # Subscriptions that are closed with their topic.
        self.subscriptions: int = 300
        # Of a command that has more bytes than that, so many fields (`long_command.py`).
        self.command_bytes: int = 32 * 1024
        self.command_fields: int = 500

        # Messages that a compaction looks at (`compaction_run.py`).
        self.messages: int = 500

    def be_small(self) -> None:
        """Everything in the smallest steps there are, so that all else comes between them."""
        self.entries, self.looks = 2, 3
        self.ids, self.consumers, self.topics = 2, 1, 1
        self.loads, self.subscriptions = 1, 1
        self.command_bytes, self.command_fields = 60, 5
        self.messages = 2
