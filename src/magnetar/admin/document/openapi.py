"""The OpenAPI document, made from the routes, so that it names all of them and all they say."""

from typing import Final

import magnetar
from magnetar.admin.document.docs_page import docs_page
from magnetar.admin.http.answer import json_answer
from magnetar.admin.http.call import Call
from magnetar.admin.http.required_permission import PUBLIC
from magnetar.admin.http.response import Response
from magnetar.admin.http.route import Route
from magnetar.admin.http.shape import (
    NUMBER,
    OBJECT,
    TEXT,
    TEXTS,
    Answer,
    Json,
    answers,
    each,
    list_of,
    map_of,
    object_of,
    one_of,
)
from magnetar.broker.policy.policy import POLICY_NAMES

__all__ = ["describe", "open_api"]

PATH: Final = "/openapi.json"
# An OpenAPI document, which has a schema of its own.
DOCUMENT: Final[Json] = object_of(
    ("openapi", "info", "paths"),
    openapi=TEXT,
    **each(OBJECT, "info", "paths", "components"),
    security=list_of(map_of(TEXTS)),
)
REASON: Final[Json] = object_of(("reason",), reason=TEXT)

# Pieces of paths that are numbers; all others are names.
NUMBERS: Final = (
    *("coordinatorId", "count", "entry", "leastSigBits", "ledger", "mostSigBits", "position"),
    *("seconds", "time", "timeout", "version"),
)
POLICY: Final[Json] = one_of(*sorted(POLICY_NAMES))
SAYS: Final = {
    200: "Done, and what there is to tell.",
    202: "Looked at; nothing was changed.",
    204: "Done; there is nothing to tell.",
    304: "As you have it already.",
}


# ---- The document ----------------------------------------------------------------------


def describe(routes: list[Route]) -> Json:
    """Returns the document of these routes."""
    paths: dict[str, dict[str, Json]] = {}
    given: set[str] = set()
    for route in routes:
        pieces = [_template(piece) for piece in route.path.split("/")]
        method = route.method.lower()
        operation = _operation(route)
        operation["operationId"] = _new_name(f"{route.key}.{method}", given)
        paths.setdefault("/".join(pieces), {})[method] = operation
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Magnetar admin REST",
            "version": magnetar.__version__,
            "description": "Apache Pulsar's admin REST, and a few paths of our own.",
        },
        "paths": paths,
        "components": {
            "schemas": {"Reason": REASON},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        # A token, where the broker asks for one.
        "security": [{}, {"token": []}],
    }


def _new_name(name: str, given: set[str]) -> str:
    """Returns a name that no operation has yet, for a handler may serve several paths."""
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


def _operation(route: Route) -> Json:
    pieces = route.path.split("/")
    parameters = [_path_parameter(piece) for piece in pieces if piece.startswith("{")]
    for name, shape in route.query.items():
        parameters.append({"name": name, "in": "query", "schema": shape})
    doc = (route.handler.__doc__ or "").strip().partition("\n")[0]
    found: Json = {
        "tags": [route.key.partition(".")[0]],
        "summary": doc,
        "parameters": parameters,
        "responses": _responses(route.answer),
    }
    if route.body is not None:
        content = {"application/json": {"schema": route.body}}
        found["requestBody"] = {"required": route.body_required, "content": content}
    return found


def _responses(answer: Answer) -> Json:
    found: Json = {
        "4XX": _refusal("Not done, and nothing has changed."),
        "5XX": _refusal("Not now (503), or something unexpected."),
    }
    for status in answer.statuses:
        told: Json = {"description": SAYS[status]}
        if status in (200, 202):
            told["content"] = {answer.media: {"schema": answer.shape}}
        found[str(status)] = told
    return found


def _path_parameter(piece: str) -> Json:
    name = _name(piece)
    choices = [choice for choice in piece[1:-1].partition(":")[2].split("|") if choice]
    schema: Json = {"type": "string", "minLength": 1}
    if choices:
        schema = one_of(*choices)
    elif name in NUMBERS:
        schema = NUMBER
    elif name == "policy":
        schema = POLICY
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _refusal(description: str) -> Json:
    return {
        "description": description,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Reason"}}},
    }


def open_api(routes: list[Route]) -> list[Route]:
    """Returns the routes at which the document of all routes, these included, is served."""

    async def get_document(call: Call) -> Response:
        """Returns this document."""
        return json_answer(document)

    document: Json = {}
    found = [
        Route("GET", PATH, get_document, PUBLIC, answer=answers(DOCUMENT)),
        docs_page(document),
    ]
    document.update(describe([*routes, *found]))
    return found
