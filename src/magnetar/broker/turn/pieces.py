"""How much is done in one event of what one peer or one operator has begun (I10).

Each is a millisecond or two of work, ten when interpreted. Simulations set them to a few, so
that whatever may happen between two pieces does.
"""

from typing import final

__all__ = ["Pieces"]


@final
class Pieces:
    """See the module."""

    def __init__(self) -> None:
        # Entries that change hands, when a consumer leaves for example (`handover.py`).
        self.entries: int = 500
        # Consumers that are told that they are closed (`dismissal.py`).
        self.consumers: int = 50
        # Topics that are created, as partitions of one.
        self.topics: int = 20
