"""What takes part in a transaction, and whether its coordinator knows.

An `Enlistment` is one topic that a transaction publishes to, or one subscription that it acks on.
Its coordinator must know of it before the first SEND or ACK, once:

| state  | left by                                                        | becomes           |
|--------|----------------------------------------------------------------|-------------------|
| wanted | the coordinator is asked                                       | asked             |
| asked  | its answer                                                     | ready, or refused |
| ready  |                                                                |                   |
| refused|                                                                |                   |

A `Participant` is a producer or a consumer of the client, which is told when that has an answer,
that it should send what it has, and how the transaction ended.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from magnetar.errors import InvalidTxnStatusError

if TYPE_CHECKING:
    from magnetar.client.transaction.core import TransactionCore

__all__ = ["ABORTED", "ABORTING", "COMMITTED", "Enlistment", "Participant"]

# How a transaction ends, as participants are told: before the broker is asked to abort, and when
# the end is known.
ABORTING: Final = 0
COMMITTED: Final = 1
ABORTED: Final = 2

WANTED: Final = 0
ASKED: Final = 1
READY: Final = 2
REFUSED: Final = 3


@final
class Participant:
    """Whom a transaction tells: see the module."""

    def __init__(
        self,
        *,
        enlisted: Callable[[], None],
        flush: Callable[[], None],
        ended: Callable[["TransactionCore", int], None],
    ) -> None:
        self.enlisted: Final = enlisted
        self.flush: Final = flush
        self.ended: Final = ended


@final
class Enlistment:
    """See the module. A topic alone is published to."""

    def __init__(self, transaction: "TransactionCore", topic: str, subscription: str) -> None:
        self.transaction: Final = transaction
        self.topic: Final = topic
        self.subscription: Final = subscription
        self._state: i64 = WANTED
        # Why the coordinator refused it.
        self.error: Exception | None = None
        self._participants: Final[dict[Participant, None]] = {}

    @property
    def ready(self) -> bool:
        """Whether what takes part may be sent."""
        return self._state == READY

    @property
    def awaited(self) -> bool:
        """Whether it is to be waited for: there is no answer, and one is of use."""
        return self._state < READY and not self.transaction.aborting

    def reason(self) -> Exception:
        """Why nothing can be sent."""
        if self.error is not None:
            return self.error
        return InvalidTxnStatusError(
            f"transaction {self.transaction.id} was aborted before this was sent"
        )

    def add(self, participant: Participant) -> None:
        self._participants[participant] = None

    def ask(self) -> None:
        assert self._state == WANTED, "an enlistment is asked for once"
        self._state = ASKED

    def answered(self, error: Exception | None) -> None:
        """The coordinator knows of it, or will not; whoever waited is told."""
        assert self._state == ASKED, "nobody asked"
        self._state = READY if error is None else REFUSED
        self.error = error
        for participant in list(self._participants):
            participant.enlisted()
