"""The fields of a dataclass, a msgspec struct or a Pydantic model, said in one way.

Pydantic is no dependency: a program that has a model has imported it already, so it is looked
for among the modules that are loaded. These classes are other libraries', so this file is not
compiled.
"""

import sys
from typing import Any, NamedTuple, get_type_hints

from magnetar.errors import UsageError

__all__ = ["NO_DEFAULT", "ModelField", "fields_of", "is_model", "is_pydantic"]


class _NoDefault:
    """Says that a field must be given; None is a default like others."""

    def __repr__(self) -> str:
        return "NO_DEFAULT"


NO_DEFAULT = _NoDefault()

# Of others nobody knows that they give the same each time, as a definition must.
_EMPTY = (list, dict, set, frozenset, tuple)


class ModelField(NamedTuple):
    """A field: its name in JSON and Avro, its annotation, and its default."""

    name: str
    annotation: Any
    default: Any


def is_pydantic(kind: Any) -> bool:
    """Says whether a class is a Pydantic model."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(kind, type) and issubclass(kind, pydantic.BaseModel)


def is_struct(kind: Any) -> bool:
    msgspec = sys.modules.get("msgspec")
    return msgspec is not None and isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def is_model(kind: Any) -> bool:
    """Says whether a class is one of those that can be a schema."""
    if not isinstance(kind, type):
        return False
    return is_struct(kind) or is_pydantic(kind) or hasattr(kind, "__dataclass_fields__")


def fields_of(kind: Any) -> list[ModelField]:
    """Returns the fields of a model in the order of their declaration. Raises UsageError."""
    try:
        if is_pydantic(kind):
            return _pydantic_fields(kind)
        return _struct_fields(kind) if is_struct(kind) else _dataclass_fields(kind)
    except NameError as error:
        raise UsageError(
            f"{kind.__name__} is not complete ({error}): define the classes of its fields at the "
            "top of the module"
        ) from error


def _dataclass_fields(kind: Any) -> list[ModelField]:
    import dataclasses  # brings inspect and ast, which `import magnetar` does not wait for

    hints = get_type_hints(kind, include_extras=True)
    missing = dataclasses.MISSING
    return [
        ModelField(one.name, hints[one.name], _default(one.default, one.default_factory, missing))
        for one in dataclasses.fields(kind)
        if one.init
    ]


def _struct_fields(kind: Any) -> list[ModelField]:
    config = kind.__struct_config__
    if config.array_like or config.tag is not None:
        raise UsageError(
            f"{kind.__name__} is no record of its fields alone: leave array_like and tag off"
        )
    msgspec = sys.modules["msgspec"]
    hints = get_type_hints(kind, include_extras=True)
    return [
        ModelField(
            one.encode_name,
            hints[one.name],
            _default(one.default, one.default_factory, msgspec.NODEFAULT),
        )
        for one in msgspec.structs.fields(kind)
    ]


def _pydantic_fields(kind: Any) -> list[ModelField]:
    return [
        ModelField(
            _pydantic_name(kind, name, one),
            one.annotation,
            NO_DEFAULT if one.is_required() else _default(one.default, one.default_factory, None),
        )
        for name, one in kind.model_fields.items()
    ]


def _pydantic_name(kind: Any, name: str, one: Any) -> str:
    """Returns the name that a field is written and read by. Raises UsageError if they differ."""
    written = one.serialization_alias or name
    read = one.validation_alias or name
    by_name = kind.model_config.get("populate_by_name") or kind.model_config.get("validate_by_name")
    if isinstance(read, str) and written != read and not (by_name and written == name):
        raise UsageError(
            f"{kind.__name__}.{name} is written as {written!r} and read as {read!r}, so nobody "
            "could read what it writes: give it one alias"
        )
    return str(written)


def _default(default: Any, factory: Any, no_factory: Any) -> Any:
    """Returns what a field has if nothing is given; NO_DEFAULT if that is nothing fixed."""
    if factory is not no_factory:
        return factory() if factory in _EMPTY else NO_DEFAULT
    return NO_DEFAULT if default is no_factory and default is not None else default
