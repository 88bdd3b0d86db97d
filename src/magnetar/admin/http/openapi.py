"""The OpenAPI document, made from the table of routes, so that it names all of them.

What a route does not say by itself (its query, its body) stands in `QUERIES` and `BODIES`
under the name of its handler. Bodies have the schema that Pulsar's clients keep to; what else
is taken (numbers as texts, above all) is not advertised.
"""

from typing import Final, TypeAlias

from starlette.responses import Response

import magnetar
from magnetar.admin.backlog.ack_state import PAGE, PAGE_MAX
from magnetar.admin.http.answer import json_answer
from magnetar.admin.http.call import INT32_MAX, INT64_MAX, Call, Handler, Route
from magnetar.broker.policy.policy import POLICY_NAMES

__all__ = ["describe", "open_api"]

Json: TypeAlias = dict[str, object]

PATH: Final = "/openapi.json"


# ---- Schemas ---------------------------------------------------------------------------

TEXT: Final[Json] = {"type": "string"}
FLAG: Final[Json] = {"type": "boolean"}
ANYTHING: Final[Json] = {}
NUMBER: Final[Json] = {"type": "integer", "minimum": 0, "maximum": INT64_MAX}
TEXTS: Final[Json] = {"type": "array", "items": TEXT}
TEXT_MAP: Final[Json] = {"type": "object", "additionalProperties": TEXT}


def _object(required: tuple[str, ...] = (), **fields: Json) -> Json:
    found: Json = {"type": "object", "properties": fields}
    return found | {"required": list(required)} if required else found


def _number(least: int, most: int = INT64_MAX) -> Json:
    return {"type": "integer", "minimum": least, "maximum": most}


def _of(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


SCHEMAS: Final[dict[str, Json]] = {
    "Reason": _object(("reason",), reason=TEXT),
    "Position": {
        "oneOf": [
            {"type": "string", "enum": ["earliest", "latest"]},
            _object(
                ("ledgerId", "entryId"),
                ledgerId=_number(-1),
                entryId=_number(-1),
                partitionIndex=_number(-1, INT32_MAX),
                batchIndex=_number(-1, INT32_MAX),
                isExcluded=FLAG,
                properties=TEXT_MAP,
            ),
        ]
    },
    "MessageId": _object(
        ("ledgerId", "entryId"),
        ledgerId=NUMBER,
        entryId=NUMBER,
        batchIndex=_number(0, INT32_MAX),
        partitionIndex=_number(-1, INT32_MAX),
    )
    | {"additionalProperties": False},
    "MessageIds": {
        "oneOf": [
            _object(
                ("type", "messageIds"),
                type={"const": "messageId"},
                messageIds={"type": "array", "items": _of("MessageId"), "minItems": 1},
            ),
            _object(
                ("messageIds",),
                type={"const": "byteArray"},
                messageIds={"type": "array", "items": TEXT, "minItems": 1},
            ),
            {"type": "array", "items": TEXT, "minItems": 1},
        ]
    },
    "Tenant": _object(adminRoles=TEXTS, allowedClusters=TEXTS),
    "Partitions": {
        "oneOf": [
            _number(1, INT32_MAX),
            _object(("partitions",), partitions=_number(1, INT32_MAX), properties=TEXT_MAP),
        ]
    },
    "Schema": _object(("type",), type=TEXT, schema=TEXT, properties=TEXT_MAP),
    "TextMap": TEXT_MAP,
    "Texts": TEXTS,
    "Anything": ANYTHING,
}

# By handler: the body's schema, and whether there must be one.
BODIES: Final[dict[str, tuple[str, bool]]] = {
    "backlog.analyze": ("Position", False),
    "messages.backlog_size": ("Position", False),
    "namespaces.create_namespace": ("Anything", False),
    "permissions.grant_on_namespace": ("Texts", True),
    "permissions.grant_on_subscription": ("Texts", True),
    "permissions.grant_on_topic": ("Texts", True),
    "policies.set_namespace_policy": ("Anything", False),
    "policies.set_topic_policy": ("Anything", False),
    "schemas.add": ("Schema", True),
    "schemas.check_compatibility": ("Schema", True),
    "schemas.find_version": ("Schema", True),
    "skip.skip_by_ids": ("MessageIds", True),
    "subscriptions.create": ("Position", False),
    "subscriptions.expire_by_id": ("Position", True),
    "subscriptions.reset_to_id": ("Position", True),
    "subscriptions.set_properties": ("TextMap", True),
    "tenants.create_tenant": ("Tenant", False),
    "tenants.update_tenant": ("Tenant", True),
    "topics.create": ("TextMap", False),
    "topics.create_partitioned": ("Partitions", True),
    "topics.update_partitions": ("Partitions", True),
}

QUOTA: Final[Json] = {"type": "string", "enum": ["destination_storage", "message_age"]}
STATS: Final[dict[str, Json]] = dict.fromkeys(
    (
        "getPreciseBacklog",
        "subscriptionBacklogSize",
        "getEarliestTimeInBacklog",
        "excludePublishers",
        "excludeConsumers",
    ),
    FLAG,
)
POLICY_QUERY: Final[dict[str, Json]] = {"backlogQuotaType": QUOTA, "messageTTL": _number(-1)}
FORCE: Final[dict[str, Json]] = {"force": FLAG}
QUERIES: Final[dict[str, dict[str, Json]]] = {
    "ack_state.get_ack_state": {
        "limit": _number(1, PAGE_MAX) | {"default": PAGE},
        "redelivered": _number(0, PAGE_MAX) | {"default": 0},
        "from": {"type": "string", "pattern": "^[0-9]{1,18}:[0-9]{1,18}$"},
    },
    "backlog.find_by_index": {"index": NUMBER},
    "messages.examine": {
        "initialPosition": {"type": "string", "enum": ["earliest", "latest"]},
        "messagePosition": NUMBER,
    },
    "namespaces.delete": FORCE,
    "namespaces.list_topics": {
        "mode": {"type": "string", "enum": ["PERSISTENT", "NON_PERSISTENT", "ALL"]}
    },
    "policies.get_namespace_policy": {"applied": FLAG},
    "policies.get_topic_policy": {"applied": FLAG},
    "policies.remove_namespace_policy": {"backlogQuotaType": QUOTA},
    "policies.remove_topic_policy": {"backlogQuotaType": QUOTA},
    "policies.set_namespace_policy": POLICY_QUERY,
    "policies.set_topic_policy": POLICY_QUERY,
    "schemas.delete": FORCE,
    "stats.get_partitioned_stats": {**STATS, "perPartition": FLAG},
    "stats.get_stats": STATS,
    "subscriptions.delete": FORCE,
    "tenants.delete_tenant": FORCE,
    "topics.delete": {**FORCE, "deleteSchema": FLAG},
    "topics.delete_partitioned": {**FORCE, "deleteSchema": FLAG},
    "topics.get_partitions": {"checkAllowAutoCreation": FLAG},
}

# Pieces of paths that are numbers; all others are names.
NUMBERS: Final = ("count", "entry", "ledger", "position", "seconds", "time", "version")
POLICY: Final[Json] = {"type": "string", "enum": sorted(POLICY_NAMES)}


# ---- The document ----------------------------------------------------------------------


def describe(routes: list[Route]) -> Json:
    """The document of these routes."""
    paths: dict[str, dict[str, Json]] = {}
    given: set[str] = set()
    for method, path, handler in routes:
        pieces = [_template(piece) for piece in path.split("/")]
        operation = _operation(path, handler)
        operation["operationId"] = _new_name(f"{_key(handler)}.{method.lower()}", given)
        paths.setdefault("/".join(pieces), {})[method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Magnetar admin REST",
            "version": magnetar.__version__,
            "description": "Apache Pulsar's admin REST, and a few paths of our own.",
        },
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        # A token, where the broker asks for one.
        "security": [{}, {"token": []}],
    }


def _key(handler: Handler) -> str:
    module = handler.__module__.rpartition(".")[2]
    return f"{module}.{handler.__name__}"


def _new_name(name: str, given: set[str]) -> str:
    """Ids of operations are their own; a handler may serve several paths."""
    found, number = name, 1
    while found in given:
        number += 1
        found = f"{name}.{number}"
    given.add(found)
    return found


def _template(piece: str) -> str:
    return "{" + _name(piece) + "}" if piece.startswith("{") else piece


def _name(piece: str) -> str:
    return piece[1:-1].partition(":")[0]


def _operation(path: str, handler: Handler) -> Json:
    key = _key(handler)
    parameters = [_path_parameter(piece) for piece in path.split("/") if piece.startswith("{")]
    for name, schema in QUERIES.get(key, {}).items():
        parameters.append({"name": name, "in": "query", "schema": schema})
    doc = (handler.__doc__ or "").strip().partition("\n")[0]
    found: Json = {
        "tags": [key.partition(".")[0]],
        "summary": doc or handler.__name__.replace("_", " ").capitalize(),
        "parameters": parameters,
        "responses": {
            "2XX": {"description": "Done; 204 where there is nothing to tell."},
            "4XX": _refusal("Not done, and nothing has changed."),
            "5XX": _refusal("Not now (503), or something unexpected."),
        },
    }
    if key in BODIES:
        body, required = BODIES[key]
        content = {"application/json": {"schema": _of(body)}}
        found["requestBody"] = {"required": required, "content": content}
    return found


def _path_parameter(piece: str) -> Json:
    name = _name(piece)
    choices = [choice for choice in piece[1:-1].partition(":")[2].split("|") if choice]
    schema: Json = {"type": "string", "minLength": 1}
    if choices:
        schema = {"type": "string", "enum": choices}
    elif name in NUMBERS:
        schema = NUMBER
    elif name == "policy":
        schema = POLICY
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _refusal(description: str) -> Json:
    return {
        "description": description,
        "content": {"application/json": {"schema": _of("Reason")}},
    }


def open_api(routes: list[Route]) -> Route:
    """The route at which the document of all routes, this one included, is served."""

    async def get_document(call: Call) -> Response:
        """This document."""
        return json_answer(document)

    route: Route = ("GET", PATH, get_document)
    document = describe([*routes, route])
    return route
