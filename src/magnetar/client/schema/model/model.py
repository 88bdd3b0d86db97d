"""A class of the application's as the values of a schema: to JSON and Avro, and back.

Dataclasses and msgspec structs are converted and checked by msgspec, Pydantic models by
themselves. Values are checked as they are decoded: what is missing or has another type is
refused, whoever wrote it.
"""

from abc import ABC, abstractmethod
from typing import Any

from magnetar.client.schema.model.field import is_model, is_pydantic
from magnetar.errors import UsageError

__all__ = ["Model", "model_errors", "model_of"]


class Model(ABC):
    """One class, its Avro schema, and its values in both forms.

    Methods raise what the library raises that does it: ValueError, TypeError, or msgspec's own.
    """

    def __init__(self, kind: Any, *, json: bool) -> None:
        self._kind = kind
        from magnetar.client.schema.model.avro import AvroWriter  # only for those who have a model

        writer = AvroWriter(json=json)
        self.definition: Any = writer.record(kind)
        self._natives = tuple(writer.natives)

    @abstractmethod
    def to_json(self, value: Any) -> bytes: ...
    @abstractmethod
    def from_json(self, data: bytes) -> Any: ...
    @abstractmethod
    def to_fields(self, value: Any) -> Any:
        """Returns the fields as fastavro takes them."""

    @abstractmethod
    def from_fields(self, fields: Any) -> Any: ...


class _PlainModel(Model):
    """A dataclass or a struct."""

    def __init__(self, kind: Any, *, json: bool) -> None:
        import msgspec

        super().__init__(kind, json=json)
        self._msgspec = msgspec
        try:
            self._decoder = msgspec.json.Decoder(kind)
        except TypeError as error:  # such as a union of two classes that cannot be told apart
            raise UsageError(f"{kind.__name__} cannot be decoded: {error}") from error

    def to_json(self, value: Any) -> bytes:
        return self._msgspec.json.encode(value)

    def from_json(self, data: bytes) -> Any:
        return self._decoder.decode(data)

    def to_fields(self, value: Any) -> Any:
        return self._msgspec.to_builtins(value, builtin_types=self._natives)

    def from_fields(self, fields: Any) -> Any:
        return self._msgspec.convert(fields, self._kind, builtin_types=self._natives)


class _PydanticModel(Model):
    def to_json(self, value: Any) -> bytes:
        return value.model_dump_json(by_alias=True).encode()  # type: ignore[no-any-return]

    def from_json(self, data: bytes) -> Any:
        return self._kind.model_validate_json(data)

    def to_fields(self, value: Any) -> Any:
        import msgspec

        # Pydantic leaves enums, sets and decimals as they are.
        dumped = value.model_dump(by_alias=True)
        return msgspec.to_builtins(dumped, builtin_types=self._natives)

    def from_fields(self, fields: Any) -> Any:
        return self._kind.model_validate(fields)


def model_of(kind: Any, *, json: bool) -> Model | None:
    """Returns a class as a model, None if it is no such class. Raises UsageError."""
    if not is_model(kind):
        return None
    return _PydanticModel(kind, json=json) if is_pydantic(kind) else _PlainModel(kind, json=json)


def model_errors() -> tuple[type[Exception], ...]:
    """Returns what conversions raise of values and bytes that do not fit."""
    import msgspec

    return (TypeError, ValueError, msgspec.MsgspecError)
