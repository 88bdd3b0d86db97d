"""Where commands go: a broker's two addresses, and who asks.

    --url, --admin-url, --token ...     given on the command line
    MAGNETAR_URL, MAGNETAR_TOKEN ...    else, from the environment
    --profile, MAGNETAR_PROFILE         else, from a profile of the user's configuration
    the default profile                 else, if the configuration names one
    127.0.0.1, ports 6650 and 8080      else

But who names a profile by hand means that broker: with `--profile` the addresses and the
namespace of the environment do not count, or `--profile test topics delete` would go to the
broker that a forgotten variable names.

The configuration is TOML, `magnetar/config.toml` below XDG_CONFIG_HOME or ~/.config:

    default = "prod"

    [profiles.prod]
    url = "pulsar+ssl://broker.example.com:6651"
    admin_url = "https://broker.example.com:8443"
    token_file = "/home/me/.secrets/prod.jwt"
    namespace = "shop/orders"

The namespace is that of short topic names, and of lists; `public/default` if nobody says
another. A token may be given as it is or as `file://PATH`; only a file keeps it out of the list of
processes.
"""

import os
import tomllib
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Final

from magnetar.cli.interrupt import uninterrupted
from magnetar.errors import SettingsError
from magnetar.rest.path import check_namespace

if TYPE_CHECKING:
    import magnetar
    from magnetar.rest.admin_client import AdminClient

__all__ = [
    "FIELDS",
    "NAMESPACE",
    "Choice",
    "Configuration",
    "Target",
    "config_path",
    "current",
    "full_name",
    "load",
    "parse",
    "use",
]

URL: Final = "pulsar://127.0.0.1:6650"
ADMIN_URL: Final = "http://127.0.0.1:8080"
NAMESPACE: Final = "public/default"
# Half of what clients have: somebody sits there and waits.
OPERATION_S: Final = 15
# A backlog of millions is cleared in one request.
ADMIN_S: Final = 60.0

# What a profile may have.
FIELDS: Final = (
    "url",
    "admin_url",
    "token",
    "token_file",
    "tls_trust_certs",
    "tls_certificate",
    "tls_key",
    "namespace",
)


# What says where a command goes.
PLACES: Final = ("url", "admin_url", "namespace", "profile")


class Target:
    """A broker, as the options, a profile and the defaults name it."""

    def __init__(self, values: dict[str, str]) -> None:
        self.url = values.get("url", URL)
        self.admin_url = values.get("admin_url", ADMIN_URL)
        self._token = values.get("token", "")
        if not self._token and "token_file" in values:
            self._token = f"file://{values['token_file']}"
        self.tls_trust_certs = values.get("tls_trust_certs")
        self.tls_certificate = values.get("tls_certificate")
        self.tls_key = values.get("tls_key")
        self.namespace = values.get("namespace", NAMESPACE)
        check_namespace(self.namespace)

    def full_name(self, topic: str) -> str:
        """Returns a topic as the user means it: a short name is one of the target's namespace.

        Left as it is in `public/default`, where everybody takes a short name for the same.
        """
        if "/" in topic or not topic or self.namespace == NAMESPACE:
            return topic
        return f"persistent://{self.namespace}/{topic}"

    def token(self) -> str:
        """Returns the token itself; empty if there is none. Raises SettingsError."""
        if not self._token.startswith("file:"):
            return self._token.removeprefix("token:")
        path = Path(self._token.removeprefix("file:").removeprefix("//"))
        try:
            return path.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError("token", f"cannot read {path}: {error}") from None

    def admin(self, timeout_s: float = ADMIN_S) -> "AdminClient":
        """Returns a client of admin REST there."""
        from magnetar.rest.admin_client import AdminClient

        return AdminClient(
            self.admin_url,
            token=self.token(),
            trust_certs=self.tls_trust_certs,
            certificate=self.tls_certificate,
            key=self.tls_key,
            timeout_s=timeout_s,
            url_option="--admin-url",
        )

    def client(self) -> "magnetar.Client":
        """Returns a client of the broker; close it.

        Raises ConnectError at once if there is none.
        """
        from magnetar.cli.reach import require_broker

        require_broker(self)
        with uninterrupted():
            import magnetar
            from magnetar.client.door.blocking import Client

        authentication: magnetar.Authentication | None = None
        if token := self.token():
            authentication = magnetar.AuthenticationToken(token)
        elif self.tls_certificate and self.tls_key:
            authentication = magnetar.AuthenticationTLS(self.tls_certificate, self.tls_key)
        return Client(
            self.url,
            authentication=authentication,
            operation_timeout_seconds=OPERATION_S,
            tls_trust_certs_file_path=self.tls_trust_certs,
            tls_validate_hostname=True,
        )


class Choice:
    """What the command line says of the target; the configuration is read when it is used."""

    def __init__(
        self, profile: str | None, given: dict[str, str], around: dict[str, str] | None = None
    ) -> None:
        """`around` is what variables say, and weighs less than a profile that is named."""
        self._profile = profile
        self._given = given
        self._around = around or {}

    def target(self) -> Target:
        """Raises SettingsError."""
        around = dict(self._around)
        name = self._profile
        if name is None:
            name = around.get("profile")
        else:
            around = {field: around[field] for field in around if field not in PLACES}
        around.pop("profile", None)
        return Target({**load(config_path()).values(name), **around, **self._given})


_choice: ContextVar[Choice | None] = ContextVar("target", default=None)


def use(choice: Choice) -> None:
    """Sets the target of the commands that follow."""
    _choice.set(choice)


def current() -> Target:
    """Returns the target of this command. Raises SettingsError."""
    return (_choice.get() or Choice(None, {})).target()


def full_name(topic: str) -> str:
    """Returns a topic as the user of this command means it. Raises SettingsError."""
    return topic if "/" in topic else current().full_name(topic)


class Configuration:
    """The user's profiles, and which of them is meant when none is named."""

    def __init__(self, default: str, profiles: dict[str, dict[str, str]]) -> None:
        self.default = default
        self.profiles = profiles

    def values(self, name: str | None) -> dict[str, str]:
        """Returns what a profile says; the default one if none is named. Raises SettingsError."""
        wanted = name or self.default
        if not wanted:
            return {}
        if wanted not in self.profiles:
            there = ", ".join(sorted(self.profiles)) or "none"
            raise SettingsError("profile", f"there is no profile {wanted!r} (there are: {there})")
        return self.profiles[wanted]

    def to_toml(self) -> str:
        lines: list[str] = []
        if self.default:
            lines += [f"default = {_toml_text(self.default)}", ""]
        for name, values in sorted(self.profiles.items()):
            lines.append(f"[profiles.{_toml_text(name)}]")
            lines += [f"{field} = {_toml_text(value)}" for field, value in sorted(values.items())]
            lines.append("")
        return "\n".join(lines)


def config_path() -> Path:
    """Returns the user's configuration file, which need not be there."""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(home) / "magnetar" / "config.toml"


def load(path: Path) -> Configuration:
    """Returns what the file says; nothing if there is none. Raises SettingsError."""
    try:
        text = path.read_text()
    except (FileNotFoundError, NotADirectoryError):
        return Configuration("", {})
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError("configuration", f"cannot read {path}: {error}") from None
    return parse(text, path)


def parse(text: str, path: Path) -> Configuration:
    """Returns what the text of the file says. Raises SettingsError."""
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError("configuration", f"{path} is not TOML: {error}") from None
    default = found.get("default", "")
    profiles = found.get("profiles", {})
    if not isinstance(default, str) or not isinstance(profiles, dict):
        raise SettingsError("configuration", f"{path}: default is a name, profiles is a table")
    return Configuration(default, {name: _profile(path, name, profiles[name]) for name in profiles})


def _profile(path: Path, name: str, found: object) -> dict[str, str]:
    if not isinstance(found, dict):
        raise SettingsError("configuration", f"{path}: profiles.{name} is not a table")
    for field, value in found.items():
        if field not in FIELDS or not isinstance(value, str):
            raise SettingsError(
                "configuration",
                f"{path}: profiles.{name}.{field} is not one of {', '.join(FIELDS)}, or not text",
            )
    return dict(found)


def _toml_text(text: str) -> str:
    """Returns a text in quotes, as TOML wants it.

    >>> print(_toml_text('a"b\\x7f'))
    "a\\"b\\U0000007f"
    """
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped) + '"'
