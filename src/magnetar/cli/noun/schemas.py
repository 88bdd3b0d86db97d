"""`magnetar schemas`: the schemas of topics."""

import json
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from magnetar.cli.confirm import Yes, confirm
from magnetar.cli.exit_code import FOUND_WRONG
from magnetar.cli.option import Force, Json, TopicArgument
from magnetar.cli.show import show_rows, show_value
from magnetar.cli.target import current
from magnetar.errors import SettingsError
from magnetar.rest.path import schema_path

__all__ = ["app"]

app: typer.Typer = typer.Typer(help="Manage the schemas of topics.", no_args_is_help=True)

SchemaFile: TypeAlias = Annotated[
    Path,
    typer.Option(
        "-f",
        "--filename",
        metavar="FILE",
        help='JSON: {"type": "AVRO", "schema": "...", "properties": {}}',
    ),
]


@app.command()
def get(
    topic: TopicArgument,
    version: Annotated[
        int | None,
        typer.Option("-v", "--version", help="Version to show (default: the latest).", min=0),
    ] = None,
    all_versions: Annotated[
        bool, typer.Option("-a", "--all-versions", help="Show all versions.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the schema of a topic."""
    with current().admin() as admin:
        if not all_versions:
            pieces = ["schema"] if version is None else ["schema", str(version)]
            show_value(admin.get(schema_path(topic, *pieces)), as_json=as_json)
            return
        found = admin.get(schema_path(topic, "schemas"))
        schemas = found.get("getSchemaResponses") if isinstance(found, dict) else None
        if as_json or not isinstance(schemas, list):
            show_value(found, as_json=True)
            return
    rows = [[one.get("version"), one.get("type"), one.get("data")] for one in schemas]
    show_rows(["version#", "type", "schema"], rows)


@app.command()
def upload(topic: TopicArgument, filename: SchemaFile, as_json: Json = False) -> None:
    """Upload a schema, or a new version of it, to a topic."""
    body = _read(filename)
    with current().admin() as admin:
        found = admin.post(schema_path(topic, "schema"), body)
    if as_json:
        show_value(found, as_json=True)
        return
    version = found.get("version") if isinstance(found, dict) else None
    number = version.get("version") if isinstance(version, dict) else version
    typer.echo(f"uploaded version {number} of the schema of {topic}")


@app.command()
def compatibility(topic: TopicArgument, filename: SchemaFile, as_json: Json = False) -> None:
    """Check whether a schema is compatible with a topic; exit with 1 if not."""
    with current().admin() as admin:
        found = admin.post(schema_path(topic, "compatibility"), _read(filename))
    show_value(found, as_json=as_json)
    if isinstance(found, dict) and not found.get("compatibility", found.get("isCompatibility")):
        raise typer.Exit(FOUND_WRONG)


@app.command()
def delete(topic: TopicArgument, force: Force = False, yes: Yes = False) -> None:
    """Delete the schema of a topic; with --force, delete all its versions."""
    confirm(f"Delete the schema of {topic}?", yes=yes)
    with current().admin() as admin:
        admin.delete(schema_path(topic, "schema"), force=force or None)
    typer.echo(f"deleted the schema of {topic}")


def _read(file: Path) -> object:
    try:
        found = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise SettingsError("filename", f"cannot read a schema from {file}: {error}") from None
    if not isinstance(found, dict):
        wanted = 'a JSON object with "type" and "schema"'
        raise SettingsError("filename", f"cannot read a schema from {file}: it is not {wanted}")
    if isinstance(found.get("schema"), dict):
        # Written as JSON in JSON, which is what people do; Pulsar wants a text.
        found["schema"] = json.dumps(found["schema"])
    found.setdefault("properties", {})
    return found
