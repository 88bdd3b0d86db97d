"""`magnetar profiles`: brokers by name, in the user's configuration; see `target`."""

import os
from typing import Annotated, TypeAlias

import typer

from magnetar.cli.option import Json
from magnetar.cli.show import show_json, show_rows, show_value
from magnetar.cli.target import FIELDS, Configuration, config_path, load
from magnetar.errors import DiskError, SettingsError
from magnetar.rest.path import check_namespace

__all__ = ["app", "complete"]

app: typer.Typer = typer.Typer(
    help="Manage profiles: named brokers, for --profile.", no_args_is_help=True
)


def complete(incomplete: str) -> list[str]:
    """Returns names for the shell, which wants no errors."""
    try:
        return [name for name in load(config_path()).profiles if name.startswith(incomplete)]
    except SettingsError:
        return []


ProfileName: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="Profile name.", show_default=False, autocompletion=complete
    ),
]


@app.command("list")
def list_profiles(as_json: Json = False) -> None:
    """List the profiles; a star marks the default."""
    found = load(config_path())
    if as_json:
        profiles = {name: _masked(values) for name, values in sorted(found.profiles.items())}
        show_json({"default": found.default or None, "profiles": profiles})
        return
    if not found.profiles:
        typer.echo(f"no profiles in {config_path()}: make one with `magnetar profiles set`")
        return
    rows = [
        [
            ("* " if name == found.default else "  ") + name,
            values.get("url"),
            values.get("admin_url"),
        ]
        for name, values in sorted(found.profiles.items())
    ]
    show_rows(["name", "url", "admin url"], rows)


@app.command()
def show(name: ProfileName, as_json: Json = False) -> None:
    """Show a profile, without its token."""
    show_value(_masked(load(config_path()).values(name)), as_json=as_json)


@app.command("set")
def set_profile(
    name: ProfileName,
    url: Annotated[
        str | None, typer.Option("--url", help="URL of the broker: pulsar:// or pulsar+ssl://")
    ] = None,
    admin_url: Annotated[
        str | None,
        typer.Option("--admin-url", help="URL of the admin REST API: http:// or https://"),
    ] = None,
    token: Annotated[str | None, typer.Option("--token", help="Authentication token.")] = None,
    token_file: Annotated[
        str | None, typer.Option("--token-file", help="File with the token.")
    ] = None,
    tls_trust_certs: Annotated[
        str | None, typer.Option("--tls-trust-certs", help="CA certificates (PEM file).")
    ] = None,
    tls_certificate: Annotated[
        str | None, typer.Option("--tls-certificate", help="Client certificate (PEM file).")
    ] = None,
    tls_key: Annotated[
        str | None,
        typer.Option("--tls-key", help="Private key of the client certificate (PEM file)."),
    ] = None,
    namespace: Annotated[
        str | None,
        typer.Option("--namespace", help="Namespace of short topic names: tenant/namespace."),
    ] = None,
) -> None:
    """Create or change a profile; an empty value removes a field.

    The first one becomes the default.
    """
    if namespace:
        check_namespace(namespace)
    given = (
        url,
        admin_url,
        token,
        token_file,
        tls_trust_certs,
        tls_certificate,
        tls_key,
        namespace,
    )
    found = load(config_path())
    values = found.profiles.setdefault(name, {})
    for field, value in zip(FIELDS, given, strict=True):
        if value == "":
            values.pop(field, None)
        elif value is not None:
            values[field] = value
    found.default = found.default or name
    _save(found)
    typer.echo(f"saved profile {name} in {config_path()}")


@app.command()
def use(name: ProfileName) -> None:
    """Make a profile the default."""
    found = load(config_path())
    found.values(name)
    found.default = name
    _save(found)
    typer.echo(f"{name} is the default profile")


@app.command()
def remove(name: ProfileName) -> None:
    """Delete a profile."""
    found = load(config_path())
    found.values(name)
    del found.profiles[name]
    if found.default == name:
        found.default = ""
    _save(found)
    typer.echo(f"removed profile {name}")


def _masked(values: dict[str, str]) -> dict[str, str]:
    return {field: "***" if field == "token" else value for field, value in values.items()}


def _save(configuration: Configuration) -> None:
    """Saves all or nothing, and for the user's eyes only, since tokens may be in it."""
    path = config_path()
    scratch = path.with_name(f"{path.name}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w") as file:
            file.write(configuration.to_toml())
        os.replace(scratch, path)
    except OSError as error:
        raise DiskError("write to", str(path), error.strerror or str(error)) from None
