"""What a client asks for when it subscribes."""

from typing import Final, final

from magnetar.errors import BrokerError
from magnetar.model import InitialPosition, KeySharedMode, ServerError
from magnetar.model.message_id_data import MessageIdData
from magnetar.model.subscription_type import SubscriptionType, type_numbered

__all__ = ["KeySharedOptions", "SubscribeRequest", "require_type"]


@final
class KeySharedOptions:
    """What a Key_Shared consumer asks for: who chooses slots, and whether order matters."""

    def __init__(
        self,
        mode: int = KeySharedMode.AutoSplit,
        ranges: list[tuple[int, int]] | None = None,
        *,
        out_of_order: bool = False,
    ) -> None:
        self.mode: Final = mode
        self.ranges: Final[list[tuple[int, int]]] = ranges or []
        self.out_of_order: Final = out_of_order


def require_type(number: int) -> SubscriptionType:
    """Returns the type that a SUBSCRIBE names.

    Raises BrokerError for a number that is no type's.
    """
    type = type_numbered(number)
    if type is None:
        raise BrokerError(ServerError.NotAllowedError, f"no subscription is of type {number}")
    return type


@final
class SubscribeRequest:
    """What a SUBSCRIBE asks for."""

    def __init__(
        self,
        subscription: str,
        type: int,
        *,
        durable: bool = True,
        initial_position: int = InitialPosition.Latest,
        start: MessageIdData | None = None,
        rollback_seconds: int = 0,
        properties: dict[str, str] | None = None,
        key_shared: KeySharedOptions | None = None,
        may_create: bool = True,
        read_compacted: bool = False,
    ) -> None:
        self.subscription: Final = subscription
        self.type: Final[SubscriptionType] = require_type(type)
        self.durable: Final = durable
        self.initial_position: Final = initial_position
        self.start: Final = start
        self.rollback_seconds: Final = rollback_seconds
        self.properties: Final[dict[str, str]] = properties or {}
        self.key_shared: Final[KeySharedOptions] = key_shared or KeySharedOptions()
        self.may_create: Final = may_create
        self.read_compacted: Final = read_compacted
