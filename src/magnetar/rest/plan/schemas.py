"""Plans about schemas of topics; partitions share that of their topic."""

from collections.abc import Mapping
from typing import Any

from magnetar.rest.path import schema_path
from magnetar.rest.request import Plan, Request
from magnetar.rest.response.schema_version import SchemaVersion

__all__ = ["add", "delete", "get", "is_compatible", "list_versions"]


def get(topic: str, version: int | None = None) -> Plan[SchemaVersion]:
    """Returns the schema of a topic, the latest unless a version is named.

    Raises NotFoundError if there is none.
    """
    pieces = () if version is None else (str(version),)
    return (yield Request("GET", schema_path(topic, "schema", *pieces))).as_type(SchemaVersion)


def list_versions(topic: str) -> Plan[list[SchemaVersion]]:
    """Returns all versions of a topic's schema, oldest first."""
    answer = yield Request("GET", schema_path(topic, "schemas"))
    found = answer.as_type(dict[str, list[SchemaVersion]])
    return found.get("getSchemaResponses", [])


def add(
    topic: str, type: str, definition: str, *, properties: Mapping[str, str] | None = None
) -> Plan[int]:
    """Adds a schema, and returns its version: `type` is `AVRO`, `JSON`, `STRING`...

    Raises ConflictError if it is not compatible with those before.
    """
    body = _body(type, definition, properties)
    answer = yield Request("POST", schema_path(topic, "schema"), body)
    found = answer.as_type(dict[str, Any])["version"]
    # Apache Pulsar tells it as a number or as an object, by version.
    return int(found["version"] if isinstance(found, dict) else found)


def is_compatible(
    topic: str, type: str, definition: str, *, properties: Mapping[str, str] | None = None
) -> Plan[bool]:
    """Returns whether a schema could be added; nothing is changed."""
    body = _body(type, definition, properties)
    answer = yield Request("POST", schema_path(topic, "compatibility"), body)
    found = answer.as_type(dict[str, Any])
    return bool(found.get("compatibility", found.get("isCompatibility", False)))


def delete(topic: str, *, force: bool = False) -> Plan[None]:
    """Deletes the schema of a topic, with all its versions."""
    yield Request("DELETE", schema_path(topic, "schema"), query={"force": force})


def _body(type: str, definition: str, properties: Mapping[str, str] | None) -> dict[str, object]:
    return {"type": type, "schema": definition, "properties": dict(properties or {})}
