"""`/docs`: the OpenAPI document as a page, for people. It has no scripts and loads nothing else.

heading -> a list of nouns -> for each operation: what it does, what it takes, what it answers
"""

import html
import json
from collections.abc import Iterator
from typing import Any, Final, cast

from magnetar.admin.http.call import Call
from magnetar.admin.http.required_permission import PUBLIC
from magnetar.admin.http.response import Response
from magnetar.admin.http.route import Route
from magnetar.admin.http.shape import TEXT, Answer, Json

__all__ = ["PATH", "docs_page", "page_of"]

PATH: Final = "/docs"
HTML: Final = Answer((200,), "text/html", TEXT)
# A browser that is told so asks nobody for anything.
HEADERS: Final = {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'"}

STYLE: Final = """
:root { color-scheme: light dark; --dim: #667; --line: #8884; --tile: #8881; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 2rem; }
h1 { margin-bottom: 0; } h2 { margin-top: 2rem; text-transform: capitalize; }
nav a { margin-right: .8rem; white-space: nowrap; }
details { border: 1px solid var(--line); border-radius: 6px; margin: .4rem 0;
  padding: .4rem .8rem; }
summary { cursor: pointer; overflow-wrap: anywhere; }
code, pre { font: 13px/1.45 ui-monospace, monospace; }
pre { background: var(--tile); border-radius: 6px; padding: .6rem .8rem; overflow-x: auto;
  max-height: 24rem; }
.GET { color: #2878c8; } .PUT { color: #b06a00; } .POST { color: #2a8a3e; }
.DELETE { color: #c03030; } b { display: inline-block; min-width: 4rem; }
.dim { color: var(--dim); } table { border-collapse: collapse; }
td { border-top: 1px solid var(--line); padding: .2rem .8rem .2rem 0; vertical-align: top; }
"""


def page_of(document: Json) -> str:
    """Returns the page of an OpenAPI document."""
    info = cast("dict[str, str]", document["info"])
    by_tag: dict[str, list[str]] = {}
    for path, operations in cast("dict[str, dict[str, Any]]", document["paths"]).items():
        for method, operation in operations.items():
            text = "\n".join(_operation(path, method.upper(), operation))
            by_tag.setdefault(operation["tags"][0].replace("_", " "), []).append(text)
    nav = " ".join([f'<a href="#{_text(tag)}">{_text(tag)}</a>' for tag in sorted(by_tag)])
    parts = [
        f'<h2 id="{_text(tag)}">{_text(tag)}</h2>\n' + "\n".join(by_tag[tag])
        for tag in sorted(by_tag)
    ]
    title = _text(info["title"])
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>{STYLE}</style></head>\n<body><h1>{title}</h1>\n"
        f'<p class="dim">Version {_text(info["version"])}. {_text(info["description"])} '
        'For programs: <a href="/openapi.json">/openapi.json</a>. Where the broker asks for a '
        "token, send it as <code>Authorization: Bearer</code>.</p>\n"
        f"<nav>{nav}</nav>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def _operation(path: str, method: str, operation: dict[str, Any]) -> Iterator[str]:
    yield (
        f'<details><summary><b class="{method}">{method}</b> <code>{_text(path)}</code><br>'
        f'<span class="dim">{_text(operation["summary"])}</span></summary>'
    )
    if operation["parameters"]:
        yield "<table>"
        for one in operation["parameters"]:
            kind = _text(json.dumps(one["schema"]))
            yield (
                f"<tr><td><code>{_text(one['name'])}</code></td><td>in the {one['in']}</td>"
                f"<td><code>{kind}</code></td></tr>"
            )
        yield "</table>"
    if "requestBody" in operation:
        need = "" if operation["requestBody"]["required"] else ", which may be left out"
        yield f"<p>The body{need}:</p>{_shape(operation['requestBody']['content'])}"
    for status, answer in sorted(operation["responses"].items()):
        yield f"<p><code>{_text(status)}</code> {_text(answer['description'])}</p>"
        if status == "200":
            yield _shape(answer["content"])
    yield "</details>"


def _shape(content: dict[str, Any]) -> str:
    ((media, told),) = content.items()
    return f"<pre>{_text(media)}\n{_text(json.dumps(told['schema'], indent=2))}</pre>"


def _text(text: str) -> str:
    return html.escape(text)


def docs_page(document: Json) -> Route:
    """Returns the route at which the page of a document is served; the document may be filled
    later."""
    made: list[str] = []

    async def get_docs(call: Call) -> Response:
        """Returns the description of all operations as a page, for people."""
        if not made:
            made.append(page_of(document))
        return Response(made[0], headers=HEADERS, media_type="text/html")

    return Route("GET", PATH, get_docs, PUBLIC, answer=HTML)
