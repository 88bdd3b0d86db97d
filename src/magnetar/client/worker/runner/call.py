"""How a worker's function is called: which parameter gets the value, which the message.

    async def bill(order: Order): ...                      the value, decoded as JSON
    async def bill(order: Order, message: Message): ...    the value and the message
    async def bill(message: Message): ...                  the message alone

A parameter with the annotation `Message` gets the message, the other one its value. Without a
schema the annotation of the value says how bytes are decoded: not at all for bytes and for no
annotation, as text for str, as JSON for any other class. The broker is told of a schema only if
one was given: an annotation does not change what a topic may hold.
"""

import inspect
from collections.abc import Callable
from typing import Any, get_origin

from magnetar.client.consumer.message import Message
from magnetar.client.schema.schema import BytesSchema, JsonSchema, Schema, StringSchema
from magnetar.errors import UsageError

__all__ = ["Call"]

# What says nothing of a schema.
_PLAIN = (inspect.Parameter.empty, Any, object, bytes)
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Call:
    """The function, the schema of its values, and its parameters in order."""

    def __init__(self, function: Callable[..., Any], schema: Schema | None) -> None:
        self.function = function
        parameters = _parameters(function)
        # Whether each is for the message.
        self._for_message = [_is_message(one.annotation) for one in parameters]
        values = [one for one in parameters if not _is_message(one.annotation)]
        if not 1 <= len(parameters) <= 2 or len(values) > 1 or len(parameters) - len(values) > 1:
            raise UsageError(
                f"{name_of(function)} cannot be a worker: it takes the value of a message, the "
                "message itself (a parameter annotated with Message), or both"
            )
        # What the consumer is subscribed with, and what its values are decoded by besides.
        self.schema: Schema = schema or BytesSchema()
        self._annotated = _schema_of(values[0]) if values and schema is None else None

    def arguments(self, message: Message) -> list[Any]:
        """Returns what the function gets. Raises SchemaDecodeError."""
        return [message if whole else self._value(message) for whole in self._for_message]

    def _value(self, message: Message) -> Any:
        value: Any = message.value()
        if self._annotated is None or value is None:
            return value
        return self._annotated.decode(value)


def name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", repr(function))


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Returns the parameters that must be given. Raises UsageError."""
    try:
        signature = inspect.signature(function, eval_str=True)
    except NameError as error:
        raise UsageError(
            f"{name_of(function)} cannot be a worker: {error}; define the class at the top of "
            "the module, or import it where the annotation can see it"
        ) from error
    except (TypeError, ValueError) as error:
        raise UsageError(f"{function!r} cannot be a worker: {error}") from error
    needed = [one for one in signature.parameters.values() if one.default is one.empty]
    return [one for one in needed if one.kind in _POSITIONAL]


def _is_message(annotation: Any) -> bool:
    return annotation is Message or get_origin(annotation) is Message


def _schema_of(parameter: inspect.Parameter) -> Schema:
    kind = parameter.annotation
    if kind in _PLAIN:
        return BytesSchema()
    return StringSchema() if kind is str else JsonSchema(kind)
