"""Schemas of topics: looked at, added, compared, deleted."""

import base64
import binascii
from typing import Final

import msgspec

from magnetar.admin.http.answer import (
    BAD_REQUEST,
    NOT_FOUND,
    UNPROCESSABLE,
    Refusal,
    json_answer,
    no_content,
)
from magnetar.admin.http.bridge import wait_for
from magnetar.admin.http.call import Call, shown, text_map
from magnetar.admin.http.required_permission import on_topic
from magnetar.admin.http.response import Response
from magnetar.admin.http.route import Route
from magnetar.admin.http.shape import (
    FLAG,
    FORCE,
    NUMBER,
    TEXT,
    TEXT_MAP,
    WHOLE,
    Answer,
    Json,
    answers,
    each,
    list_of,
    object_of,
    record,
)
from magnetar.broker.auth.access import LOOK, MANAGE, PRODUCE
from magnetar.broker.schema.schema import SchemaInfo, StoredSchema, schema_topic
from magnetar.broker.schema.schema_compatibility import TYPE_NAMES, TYPES, split_pair
from magnetar.broker.setting.text_limits import SCHEMA, SCHEMA_BODY, check_text
from magnetar.errors import BrokerError
from magnetar.model import SchemaType, ServerError, TopicName

__all__ = ["ROUTES", "SCHEMAS"]

# As Apache Pulsar answers whether a schema would fit.
ACCEPTED: Final = 202

SCHEMAS: Final = "/admin/v2/schemas/{tenant}/{namespace}/{topic}"


def _topic(call: Call) -> tuple[TopicName, str]:
    name = call.topic_name
    call.broker.directory.require_namespace(name.namespace)
    return name, schema_topic(name)


async def get_latest(call: Call) -> Response:
    """Returns the latest schema of a topic."""
    _, topic = _topic(call)
    found = call.broker.schemas.latest(topic)
    if found is None:
        raise Refusal(NOT_FOUND, f"Schema not found: {topic} has none")
    return json_answer(_schema_json(found))


async def get_version(call: Call) -> Response:
    """Returns the schema of a topic by its version."""
    _, topic = _topic(call)
    found = call.broker.schemas.get(topic, call.number("version"))
    if found is None:
        raise Refusal(NOT_FOUND, f"Schema not found: {topic} has no version {call.path['version']}")
    return json_answer(_schema_json(found))


async def get_all(call: Call) -> Response:
    """Returns all versions of a topic's schema."""
    _, topic = _topic(call)
    found = call.broker.schemas.versions(topic)
    return json_answer({"getSchemaResponses": [_schema_json(one) for one in found]})


async def add(call: Call) -> Response:
    """Adds a version of a topic's schema, if it is compatible."""
    name, topic = _topic(call)
    schema = await _valid(call, await _schema(call))
    strategy = call.broker.schema_policy(name).strategy
    work = call.broker.schemas.put_steps(topic, schema, strategy)
    stored = await wait_for(call.broker.schema_work.run(topic, work, len(schema.data)))
    return json_answer({"version": {"version": stored.version}})


async def delete(call: Call) -> Response:
    """Deletes the schema; with `force`, all its versions.

    The version is a bare number here, and in an object where a schema is added: so Java reads it.
    """
    _, topic = _topic(call)
    if call.flag("force"):
        call.broker.schemas.purge(topic)
        return json_answer({"version": -1})
    deleted = call.broker.schemas.delete(topic)
    if deleted is None:
        raise Refusal(NOT_FOUND, f"Schema not found: {topic} has none")
    return json_answer({"version": deleted.version})


async def check_compatibility(call: Call) -> Response:
    """Returns whether a schema could be added to a topic."""
    name, topic = _topic(call)
    schema = await _valid(call, await _schema(call))
    strategy = call.broker.schema_policy(name).strategy
    try:
        work = call.broker.schemas.check_steps(topic, schema, strategy)
        await wait_for(call.broker.schema_work.run(topic, work, len(schema.data)))
    except BrokerError as error:
        if error.code != ServerError.IncompatibleSchema:
            raise
        fits = False
    else:
        fits = True
    return json_answer({"compatibility": fits, "schemaCompatibilityStrategy": strategy}, ACCEPTED)


async def get_metadata(call: Call) -> Response:
    """Returns the versions that a topic's schema has, in the form of Pulsar's store of them."""
    _, topic = _topic(call)
    found = call.broker.schemas.versions(topic)
    if not found:
        return no_content()
    index = [{"version": one.version, "ledgerId": -1, "entryId": -1} for one in found]
    return json_answer({"info": index[-1], "index": index})


async def find_version(call: Call) -> Response:
    """Returns the version that a schema has in a topic."""
    _, topic = _topic(call)
    schema = await _valid(call, await _schema(call))
    work = call.broker.schemas.find_steps(topic, schema)
    version = await wait_for(call.broker.schema_work.run(topic, work, len(schema.data)))
    if version is None:
        raise Refusal(NOT_FOUND, f"Schema not found: {topic} has no version that defines this")
    return json_answer({"version": version})


# ---- Schemas as JSON -------------------------------------------------------------------


def _schema_json(stored: StoredSchema) -> dict[str, object]:
    return {
        "version": stored.version,
        "type": TYPE_NAMES.get(stored.type, str(stored.type)),
        "timestamp": stored.timestamp_ms,
        "data": _data_text(stored.type, stored.data),
        "properties": stored.properties,
    }


async def _schema(call: Call) -> SchemaInfo:
    body = await call.json_object(SCHEMA_BODY)
    name = body.get("type")
    if not isinstance(name, str) or name.upper() not in TYPES:
        raise Refusal(UNPROCESSABLE, f"type is {shown(name)}: give one of {', '.join(TYPES)}")
    text = body.get("schema", "")
    if not isinstance(text, str):
        raise Refusal(BAD_REQUEST, f"schema is {shown(text)}: give the definition as a text")
    type = TYPES[name.upper()]
    properties = text_map("properties", body.get("properties"))
    data = _data_bytes(type, text)
    limit = call.broker.settings.schema_size_max
    check_text("the definition of the schema", len(data), limit, SCHEMA.setting)
    return SchemaInfo(type, data, properties)


async def _valid(call: Call, schema: SchemaInfo) -> SchemaInfo:
    """Returns the schema if it is valid. Raises Refusal if its definition is none, which is not the
    same as one that does not fit the topic."""
    work = call.broker.schemas.validate_steps(schema)
    try:
        await wait_for(call.broker.schema_work.run("", work, len(schema.data)))
    except BrokerError as error:
        if error.code != ServerError.IncompatibleSchema:
            raise
        raise Refusal(UNPROCESSABLE, error.reason) from error
    return schema


def _data_text(type: int, data: bytes) -> str:
    if type == SchemaType.KeyValue:
        key, value = split_pair(data)
        both = {"key": _json_or_text(key), "value": _json_or_text(value)}
        return msgspec.json.encode(both).decode()
    try:
        return data.decode()
    except UnicodeDecodeError:
        return base64.b64encode(data).decode()


def _json_or_text(data: bytes) -> object:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return data.decode(errors="replace")


def _data_bytes(type: int, text: str) -> bytes:
    if type == SchemaType.KeyValue:
        return _pair_bytes(text)
    if type == SchemaType.ProtobufNative:
        try:
            return base64.b64decode(text, validate=True)
        except binascii.Error:
            return text.encode()
    return text.encode()


def _pair_bytes(text: str) -> bytes:
    try:
        both = msgspec.json.decode(text.encode())
    except msgspec.DecodeError as error:
        raise Refusal(UNPROCESSABLE, f"the schema is not JSON: {error}") from None
    if not isinstance(both, dict) or not {"key", "value"} <= set(both):
        raise Refusal(UNPROCESSABLE, "a key/value schema has a key and a value")
    out = b""
    for part in (both["key"], both["value"]):
        data = part.encode() if isinstance(part, str) else msgspec.json.encode(part)
        out += len(data).to_bytes(4, "big") + data
    return out


SCHEMA_SHAPE: Final[Json] = object_of(("type",), type=TEXT, schema=TEXT, properties=TEXT_MAP)
NUMBERED: Final[Json] = object_of(("version",), version=NUMBER)
VERSION: Final[Json] = object_of(
    ("version", "type", "timestamp", "data"),
    version=NUMBER,
    type=TEXT,
    timestamp=NUMBER,
    data=TEXT,
    properties=TEXT_MAP,
)
VERSIONS: Final[Json] = object_of(("getSchemaResponses",), getSchemaResponses=list_of(VERSION))
COMPATIBILITY: Final[Json] = object_of(
    ("compatibility",), compatibility=FLAG, schemaCompatibilityStrategy=TEXT
)

_PLACE: Final[Json] = record(**each(WHOLE, "version", "ledgerId", "entryId"))
METADATA: Final[Json] = record(info=_PLACE, index=list_of(_PLACE))

ROUTES: Final[list[Route]] = [
    Route("GET", f"{SCHEMAS}/schema", get_latest, on_topic(LOOK), answer=answers(VERSION)),
    Route(
        "GET", f"{SCHEMAS}/schema/{{version}}", get_version, on_topic(LOOK), answer=answers(VERSION)
    ),
    Route(
        "GET",
        f"{SCHEMAS}/metadata",
        get_metadata,
        on_topic(LOOK),
        answer=answers(METADATA, optional=True),
    ),
    Route("GET", f"{SCHEMAS}/schemas", get_all, on_topic(LOOK), answer=answers(VERSIONS)),
    Route(
        "POST",
        f"{SCHEMAS}/schema",
        add,
        on_topic(PRODUCE),
        body=SCHEMA_SHAPE,
        answer=answers(object_of(("version",), version=NUMBERED)),
    ),
    Route(
        "DELETE",
        f"{SCHEMAS}/schema",
        delete,
        on_topic(MANAGE),
        query=FORCE,
        answer=answers(NUMBERED),
    ),
    Route(
        "POST",
        f"{SCHEMAS}/compatibility",
        check_compatibility,
        on_topic(LOOK),
        body=SCHEMA_SHAPE,
        answer=Answer((ACCEPTED,), "application/json", COMPATIBILITY),
    ),
    Route(
        "POST",
        f"{SCHEMAS}/version",
        find_version,
        on_topic(LOOK),
        body=SCHEMA_SHAPE,
        answer=answers(NUMBERED),
    ),
]
