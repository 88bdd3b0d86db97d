"""What a broker is told of a schema: its type, name, definition and properties."""

from typing import Final, final

from magnetar.model.enums import SchemaType

__all__ = ["SchemaInfo"]


@final
class SchemaInfo:
    """A schema as it is registered. `data` is the definition as bytes, `schema` as text.

    Bytes without a schema have the type NONE; those are not registered at all.
    """

    __slots__ = ("_data", "_name", "_properties", "_schema_type")

    def __init__(
        self,
        schema_type: SchemaType,
        name: str,
        data: bytes,
        properties: dict[str, str] | None = None,
    ) -> None:
        self._schema_type: Final = schema_type
        self._name: Final = name
        self._data: Final = data
        self._properties: Final[dict[str, str]] = dict(properties or {})

    def schema_type(self) -> SchemaType:
        """Returns the kind of schema."""
        return self._schema_type

    def name(self) -> str:
        """Returns the name of the schema."""
        return self._name

    def schema(self) -> str:
        """Returns the definition as text."""
        return self._data.decode()

    def data(self) -> bytes:
        """Returns the definition as bytes."""
        return self._data

    def properties(self) -> dict[str, str]:
        """Returns the properties of the schema."""
        return dict(self._properties)

    def is_registered(self) -> bool:
        """Returns whether producers and consumers tell the broker of it."""
        return self._schema_type not in (SchemaType.NONE, SchemaType.AutoConsume)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SchemaInfo):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash((self._schema_type, self._name, self._data))

    def __repr__(self) -> str:
        return f"SchemaInfo({self._schema_type.name}, {self._name!r}, {self.schema()!r})"

    def _key(self) -> tuple[SchemaType, str, bytes, dict[str, str]]:
        return (self._schema_type, self._name, self._data, self._properties)
