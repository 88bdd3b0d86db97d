"""Advertised listeners: by which addresses clients of several networks reach this broker.

Pulsar's form is `NAME:SCHEME://HOST:PORT`, once for each scheme of a listener:

    internal:pulsar://10.0.0.5:6650, external:pulsar+ssl://broker.example.com:6651

A client that names a listener as it looks a topic up gets that one's addresses; one that names
none gets those of the internal listener, which is the first unless it is named. Without any,
clients are told the address that they reached.
"""

from typing import Final, final

from magnetar.errors import SettingsError

__all__ = ["LOOPBACK", "Listener", "Listeners", "read_listeners"]

SETTING: Final = "advertised_listeners"
# By this name the broker's own clients find it.
LOOPBACK: Final = "magnetar-loopback"
SCHEMES: Final = ("pulsar", "pulsar+ssl", "http", "https")


@final
class Listener:
    """The addresses of one listener, by scheme."""

    def __init__(self, addresses: dict[str, str]) -> None:
        self._addresses: Final = addresses

    def url(self, scheme: str) -> str:
        """Returns its address of a scheme; empty if it has none."""
        return self._addresses.get(scheme, "")


@final
class Listeners:
    """Those that the settings name, and one of our own."""

    def __init__(self, listeners: dict[str, Listener], internal: str) -> None:
        self._listeners: Final = listeners
        self._internal: Final = internal

    def add_loopback(self, listener: Listener) -> None:
        """Adds the one for this process itself, whatever others are told."""
        self._listeners[LOOPBACK] = listener

    def find(self, name: str) -> Listener | None:
        """Returns the listener that a client names, or the internal one; None if there is none."""
        return self._listeners.get(name or self._internal)


def read_listeners(texts: tuple[str, ...], internal: str) -> Listeners:
    """Returns what the settings say. Raises SettingsError."""
    found: dict[str, dict[str, str]] = {}
    for text in texts:
        name, scheme, url = _parts(text)
        addresses = found.setdefault(name, {})
        if scheme in addresses:
            raise SettingsError(SETTING, f"the listener {name!r} has two addresses of {scheme}")
        addresses[scheme] = url
    for name, addresses in found.items():
        if "pulsar" not in addresses and "pulsar+ssl" not in addresses:
            raise SettingsError(
                SETTING, f"the listener {name!r} has no address of pulsar:// or pulsar+ssl://"
            )
    if internal and internal not in found:
        raise SettingsError(
            "internal_listener_name",
            f"there is no listener {internal!r}: {SETTING} has {', '.join(found) or 'none'}",
        )
    listeners = {name: Listener(addresses) for name, addresses in found.items()}
    return Listeners(listeners, internal or next(iter(found), ""))


def _parts(text: str) -> tuple[str, str, str]:
    """Returns name, scheme and URL."""
    name, _, url = text.partition(":")
    scheme, slashes, place = url.partition("://")
    host, colon, port = place.rpartition(":")
    whole = name and slashes and scheme in SCHEMES and host and colon
    if not whole or not (port.isascii() and port.isdecimal()) or not 0 < int(port) < 65536:
        raise SettingsError(
            SETTING, f"{text!r} is no listener: write NAME:pulsar://HOST:PORT (or pulsar+ssl://)"
        )
    if "/" in place or "@" in place or ("[" in host) != (":" in host):
        raise SettingsError(SETTING, f"{text!r} has more than a host and a port")
    return name, scheme, url
