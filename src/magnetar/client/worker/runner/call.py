"""How a worker's function is called: which parameter gets the value, which the message.

    async def bill(order: Order): ...                      the value, decoded as JSON
    async def bill(order: Order, message: Message): ...    the value and the message
    async def bill(message: Message): ...                  the message alone
    async def bill(order: Order, work: AsyncWork): ...     the value and its transaction

A parameter with the annotation `Message` gets the message, one with `AsyncWork` or `ThreadWork`
what a transactional worker publishes with, and the other one the value of the message. Without a
schema the annotation of the value says how bytes are decoded: not at all for bytes and for no
annotation, as text for str, as JSON for any other class. The broker is told of a schema only if
one was given: an annotation does not change what a topic may hold.
"""

import inspect
from collections.abc import Callable
from typing import Any, get_origin

from magnetar.client.consumer.message import Message
from magnetar.client.schema.schema import BytesSchema, JsonSchema, Schema, StringSchema
from magnetar.client.worker.runner.work import BaseWork
from magnetar.errors import UsageError

__all__ = ["Call"]

# What says nothing of a schema.
_PLAIN = (inspect.Parameter.empty, Any, object, bytes)
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


_VALUE, _MESSAGE, _WORK = "value", "message", "work"


class Call:
    """The function, the schema of its values, and its parameters in order."""

    def __init__(
        self, function: Callable[..., Any], schema: Schema | None, work: type[BaseWork] | None
    ) -> None:
        """`work` is what there is for a parameter that publishes; None if there is nothing."""
        self.function = function
        parameters = _parameters(function)
        self._roles = [_role_of(one, function, work) for one in parameters]
        twice = len(self._roles) > len(set(self._roles))
        if twice or not {_VALUE, _MESSAGE} & set(self._roles):
            raise UsageError(
                f"{name_of(function)} cannot be a worker: it takes the value of a message, the "
                "message itself (a parameter annotated with Message), or both, and with "
                "transactional=True its work (annotated with AsyncWork or ThreadWork)"
            )
        # What the consumer is subscribed with, and what its values are decoded by besides.
        self.schema: Schema = schema or BytesSchema()
        values = [one for one, role in zip(parameters, self._roles, strict=True) if role == _VALUE]
        self._annotated = _schema_of(values[0]) if values and schema is None else None

    def arguments(self, message: Message, work: BaseWork | None = None) -> list[Any]:
        """Returns what the function gets. Raises SchemaDecodeError."""
        return [self._argument(role, message, work) for role in self._roles]

    def _argument(self, role: str, message: Message, work: BaseWork | None) -> Any:
        if role == _VALUE:
            return self._value(message)
        return message if role == _MESSAGE else work

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


def _role_of(
    parameter: inspect.Parameter, function: Callable[..., Any], work: type[BaseWork] | None
) -> str:
    """Returns what a parameter gets. Raises UsageError for work that there is not."""
    annotation = parameter.annotation
    if annotation is Message or get_origin(annotation) is Message:
        return _MESSAGE
    if not (isinstance(annotation, type) and issubclass(annotation, BaseWork)):
        return _VALUE
    if work is None:
        raise UsageError(
            f"{name_of(function)} has a parameter {parameter.name}: {annotation.__name__}, which "
            "only a transactional worker can give it: add transactional=True"
        )
    if annotation is not work:
        raise UsageError(
            f"{name_of(function)} has a parameter {parameter.name}: {annotation.__name__}, and "
            f"gets a {work.__name__}: a coroutine function takes AsyncWork, another ThreadWork"
        )
    return _WORK


def _schema_of(parameter: inspect.Parameter) -> Schema:
    kind = parameter.annotation
    if kind in _PLAIN:
        return BytesSchema()
    return StringSchema() if kind is str else JsonSchema(kind)
