"""How often one consumer may subscribe: a client that comes back all the time is refused.

A consumer is who has its name and its id at one address; a new connection makes no new one of it.
Each has tokens of its own, and is forgotten when it was longest not seen and there are very many.
"""

from collections import OrderedDict
from typing import Final, final

from magnetar.broker.rate.rate import Rate
from magnetar.broker.rate.token_bucket import TokenBucket

__all__ = ["SubscribeLimit"]

CONSUMERS_MAX: Final = 10_000


@final
class SubscribeLimit:
    """See the module. Of a rate only the messages count: each is one subscribe."""

    def __init__(self, rate: Rate) -> None:
        self.rate: Final = rate
        self._consumers: Final[OrderedDict[str, TokenBucket]] = OrderedDict()

    def allows(self, address: str, name: str, id: int, now_ms: int) -> bool:
        """Counts a subscribe, unless there were too many."""
        host = address.rpartition(":")[0]
        who = f"{host} {id} {name}"
        bucket = self._consumers.pop(who, None)
        if bucket is None:
            bucket = TokenBucket(self.rate.messages, self.rate.period_ms, now_ms)
            if len(self._consumers) >= CONSUMERS_MAX:
                self._consumers.popitem(last=False)
        self._consumers[who] = bucket
        if bucket.tokens(now_ms) < 1:
            return False
        bucket.take(1, now_ms)
        return True
