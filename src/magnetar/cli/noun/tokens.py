"""`magnetar tokens`: the key of a broker, and tokens that are signed with it.

Nothing here speaks to a broker: whoever has the key can make tokens, for any role. The token
alone goes to standard output, so that it can be kept in a variable; all else is for people.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Annotated, Final

import typer

from magnetar.cli.console import refuse
from magnetar.cli.exit_code import FOUND_WRONG
from magnetar.cli.option import duration_s
from magnetar.errors import BrokerError, SettingsError

__all__ = ["app"]

app: typer.Typer = typer.Typer(
    name="tokens", help="Manage keys and tokens for authentication.", no_args_is_help=True
)

SECRET_BYTES: Final = 64
STDIN: Final = "-"
OWNER_ONLY: Final = 0o600
EVERYBODY: Final = 0o644

KeyFile = Annotated[Path, typer.Option("--key", metavar="FILE", help="Key file.")]
Expires = Annotated[
    str,
    typer.Option(
        "--expires", metavar="TIME", help="Lifetime, e.g. 30d, 12h or 90min (default: no expiry)."
    ),
]
TokenText = Annotated[
    str,
    typer.Argument(
        metavar="TOKEN",
        envvar="MAGNETAR_TOKEN",
        show_envvar=True,
        help="Token; - reads it from standard input, out of sight of other users.",
    ),
]
DEFAULT_KEY: Final = Path("magnetar-token.key")


@app.command()
def init(
    key: KeyFile = DEFAULT_KEY,
    role: Annotated[str, typer.Option(help="Role of the first superuser.")] = "admin",
    key_pair: Annotated[
        bool,
        typer.Option(
            "--key-pair", help="Create a private and a public key instead of a shared secret."
        ),
    ] = False,
    expires: Expires = "",
) -> None:
    """Create a key, and a token for the first superuser."""
    expires_s = _seconds(expires)
    setting, told = _make_pair(key) if key_pair else _make_secret(key)
    token = _make(key, role, expires_s)
    typer.echo(f"wrote {key}, which makes tokens: let nobody else read it", err=True)
    typer.echo("settings of the broker, as in magnetar.toml:\n", err=True)
    typer.echo("authentication = true", err=True)
    typer.echo(f"{setting} = {json.dumps(str(told.absolute()))}", err=True)
    typer.echo(f"super_user_roles = [{json.dumps(role)}]\n", err=True)
    typer.echo(f"the token of {role!r}:", err=True)
    typer.echo(token)


def _make_secret(path: Path) -> tuple[str, Path]:
    _write(path, os.urandom(SECRET_BYTES))
    return "token_secret_key", path


def _make_pair(path: Path) -> tuple[str, Path]:
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric import ec

    private = ec.generate_private_key(ec.SECP256R1())
    public = path.with_suffix(".pub")
    if public.exists():
        raise SettingsError("--key", f"there is a {public} already: name another file")
    _write(
        path,
        private.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()),
    )
    _write(
        public,
        private.public_key().public_bytes(
            form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo
        ),
        EVERYBODY,
    )
    return "token_public_key", public


def _write(path: Path, data: bytes, mode: int = OWNER_ONLY) -> None:
    """Never over another file, whose tokens would end."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
    except FileExistsError:
        raise SettingsError("--key", f"there is a {path} already: name another file") from None
    except OSError as error:
        raise SettingsError("--key", f"cannot write {path}: {error.strerror}") from None


@app.command()
def create(
    role: Annotated[str, typer.Argument(help="Role that the token is for.")],
    key: KeyFile = DEFAULT_KEY,
    expires: Expires = "",
    audience: Annotated[str, typer.Option(help="Audience: the broker that the token is for.")] = "",
    algorithm: Annotated[
        str, typer.Option(help="Algorithm, e.g. HS256, RS256 or ES256 (default: by key).")
    ] = "",
) -> None:
    """Create a token for a role."""
    typer.echo(_make(key, role, _seconds(expires), audience, algorithm))


def _make(
    path: Path, role: str, expires_s: int | None, audience: str = "", algorithm: str = ""
) -> str:
    from magnetar.broker.auth.token import make_token, signing_key
    from magnetar.broker.shell.key_source import read_key

    if not role:
        raise SettingsError("role", "it is empty: name one")
    now_s = int(time.time())
    # By its id a token can be taken back: see docs/security.md.
    claims: dict[str, object] = {"sub": role, "iat": now_s, "jti": os.urandom(12).hex()}
    if expires_s is not None:
        claims["exp"] = now_s + expires_s
    if audience:
        claims["aud"] = audience
    return make_token(signing_key("--key", read_key("--key", str(path))), claims, algorithm)


def _seconds(text: str) -> int | None:
    if not text:
        return None
    seconds = duration_s("--expires", text)
    if seconds <= 0:
        raise SettingsError("--expires", f"{text!r} is over already: give a time from now")
    return seconds


@app.command()
def show(token: TokenText) -> None:
    """Show the contents of a token without checking it."""
    from magnetar.broker.auth.token import unverified_parts

    try:
        header, claims = unverified_parts(_given(token))
    except BrokerError as error:
        raise refuse(error.reason) from None
    typer.echo(json.dumps({"header": header, "claims": claims}, indent=2))


@app.command()
def validate(token: TokenText, key: KeyFile = DEFAULT_KEY) -> None:
    """Check a token with a key, and show its contents."""
    from magnetar.broker.auth.token import (
        TokenRules,
        unverified_parts,
        verify_token,
        verifying_key,
    )
    from magnetar.broker.shell.key_source import read_key

    given = _given(token)
    by = verifying_key("--key", read_key("--key", str(key)))
    try:
        verify_token(given, by, TokenRules(), int(time.time() * 1000))
    except BrokerError as error:
        raise refuse(error.reason, FOUND_WRONG) from None
    _, claims = unverified_parts(given)
    typer.echo(json.dumps(claims, indent=2))


def _given(token: str) -> bytes:
    text = sys.stdin.read() if token == STDIN else token
    return text.strip().removeprefix("token:").encode()
