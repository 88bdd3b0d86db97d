"""The JSON of schema definitions, which clients write: read with care, and refused by reason."""

import json
from typing import Final

from magnetar.errors import BrokerError
from magnetar.model.enums import ServerError

__all__ = ["dump_json", "load_json", "load_object", "refusal"]


REASON_LENGTH_MAX: Final = 1000


def refusal(reason: str) -> BrokerError:
    """Returns the error for a definition, or a change of one, that is not valid: the wire has one
    code.

    What a client wrote may be in the reason, but not all of a long definition.
    """
    if len(reason) > REASON_LENGTH_MAX:
        reason = f"{reason[: REASON_LENGTH_MAX // 2]} ... {reason[-REASON_LENGTH_MAX // 2 :]}"
    return BrokerError(ServerError.IncompatibleSchema, reason)


def load_json(data: bytes) -> object:
    try:
        found: object = json.loads(data.decode())
    except ValueError as error:
        raise refusal(f"the schema definition is not JSON: {error}") from error
    except RecursionError:
        raise refusal("the schema definition is nested too deep: flatten it") from None
    return found


def load_object(data: bytes, noun: str) -> dict[str, object]:
    found = load_json(data)
    if not isinstance(found, dict):
        raise refusal(f"{noun} is not a JSON object: write it in braces")
    return found


def dump_json(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
