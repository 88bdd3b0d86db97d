"""Service URLs: where a client finds its brokers.

    pulsar://host[:port][,host[:port]...][/]     the binary protocol, port 6650
    pulsar+ssl://...                             the same over TLS, port 6651
    http://...  https://...                      lookups over HTTP, ports 8080 and 8443

Several hosts are alternatives for the first contact. An IPv6 address stands in brackets.
"""

from typing import Final, final

from magnetar.errors import InvalidUrl

__all__ = ["ServiceUrl", "parse_service_url"]

PORTS: Final[dict[str, int]] = {"pulsar": 6650, "pulsar+ssl": 6651, "http": 8080, "https": 8443}
PORT_MAX: Final = 65535


@final
class ServiceUrl:
    """A scheme and its hosts, each with a port; IPv6 addresses are without brackets."""

    def __init__(self, scheme: str, hosts: list[tuple[str, int]]) -> None:
        self.scheme: Final[str] = scheme
        self.hosts: Final[list[tuple[str, int]]] = hosts

    @property
    def tls(self) -> bool:
        return self.scheme in ("pulsar+ssl", "https")

    @property
    def http(self) -> bool:
        """Whether lookups go over HTTP. Messages never do."""
        return self.scheme in ("http", "https")

    def __str__(self) -> str:
        return f"{self.scheme}://{','.join(_address(host, port) for host, port in self.hosts)}"


def parse_service_url(url: str) -> ServiceUrl:
    """Returns the parts of a service URL. Raises InvalidUrl.

    >>> parse_service_url("pulsar://one,two:7000").hosts
    [('one', 6650), ('two', 7000)]
    """
    scheme, mark, rest = url.strip().partition("://")
    scheme = scheme.lower()
    if not mark:
        raise _invalid(url, "there is no scheme: begin with pulsar://")
    if scheme not in PORTS:
        raise _invalid(url, f"the scheme is {scheme!r}: use one of {', '.join(PORTS)}")
    addresses, _, path = rest.partition("/")
    if path.strip("/") or "?" in rest or "#" in rest:
        raise _invalid(url, "something stands behind the hosts: leave out paths and queries")
    if "@" in addresses:
        raise _invalid(url, "it has a user name: give credentials as authentication instead")
    return ServiceUrl(
        scheme, [_parse_host(url, text, PORTS[scheme]) for text in addresses.split(",")]
    )


def _parse_host(url: str, text: str, default_port: int) -> tuple[str, int]:
    text = text.strip()
    if text.startswith("["):
        host, mark, rest = text[1:].partition("]")
        if not mark or (rest and not rest.startswith(":")):
            raise _invalid(url, f"{text!r} is not an address in brackets")
        colon, port = rest[:1], rest[1:]
    else:
        host, colon, port = text.partition(":")
        if ":" in port:
            raise _invalid(url, f"{text!r} has several colons: put an IPv6 address in brackets")
    if not host or any(character.isspace() for character in host):
        raise _invalid(url, "a host is missing" if not host else f"{host!r} is not a host")
    return (host, _parse_port(url, port) if colon else default_port)


def _parse_port(url: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or not 0 < int(text[:6]) <= PORT_MAX:
        raise _invalid(url, f"{text!r} is not a port: give a number from 1 to {PORT_MAX}")
    return int(text)


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _invalid(url: str, reason: str) -> InvalidUrl:
    return InvalidUrl(f"service URL {url!r:.200}: {reason}")
