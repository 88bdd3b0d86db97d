"""Whether there is a broker where a command is about to go, and what to do if not.

A client goes on trying, which is right for a program that outlives a restart of its broker and
wrong for somebody who mistyped a port. So a command looks first: it connects, speaks TLS if it
has to, says CONNECT as a client does, and reads how the answer begins.

| what comes                     | what it is                                   |
|--------------------------------|----------------------------------------------|
| nothing, at any step           | refused, unknown, silent: told as it is      |
| a certificate nobody vouches for | told, with the option that names the CA    |
| `HTTP/`                        | a web server: admin REST, most likely        |
| an alert of TLS                | the port for TLS, spoken to in the clear     |
| anything else                  | left to the client, refusals too             |

Of several hosts one is enough.
"""

import socket
import ssl
from typing import TYPE_CHECKING, Final

from magnetar.errors import ConnectError
from magnetar.rest.trust import Trust

if TYPE_CHECKING:
    from magnetar.cli.target import Target

__all__ = ["require_broker"]

ANSWER_S: Final = 10.0
# As records of TLS begin that carry an alert.
ALERT: Final = 0x15
HTTP: Final = b"HTTP/"


def require_broker(target: "Target") -> None:
    """Raises ConnectError, InvalidUrl, SettingsError."""
    from magnetar.client.option.service_url import parse_service_url

    url = parse_service_url(target.url)
    # Over HTTP clients look topics up alone; whether somebody is there is all that is asked.
    greeting = b"" if url.http else _greeting(target)
    trouble = ""
    for host, port in url.hosts:
        context: ssl.SSLContext | None = None
        if url.tls:
            context = Trust(
                target.tls_trust_certs, target.tls_certificate, target.tls_key
            ).context()
        found = _trouble(host, port, context, greeting)
        if not found:
            return
        trouble = trouble or f"{url.scheme}://{host}:{port}: {found}"
    raise ConnectError(f"cannot reach the broker at {trouble}")


def _greeting(target: "Target") -> bytes:
    """CONNECT, with who asks, or the broker would note a log-in that failed."""
    from magnetar.protocol import PROTOCOL_VERSION, encode
    from magnetar.protocol import pulsar_pb2 as pb

    command = pb.CommandConnect(client_version="magnetar", protocol_version=PROTOCOL_VERSION)
    if token := target.token():
        command.auth_method_name = "token"
        command.auth_data = token.encode()
    elif target.tls_certificate:
        command.auth_method_name = "tls"
    return encode(command)


def _trouble(host: str, port: int, context: ssl.SSLContext | None, greeting: bytes) -> str:
    """Returns why there is no broker, and what to do; empty if there may be one."""
    try:
        with socket.create_connection((host, port), timeout=ANSWER_S) as plain:
            if context is None:
                return _answered(plain, greeting)
            with context.wrap_socket(plain, server_hostname=host) as secure:
                return _answered(secure, greeting)
    except ssl.SSLCertVerificationError as error:
        return (
            f"certificate verify failed: {error.verify_message}; give the CA by "
            "--tls-trust-certs, and use the name that the certificate is for"
        )
    except ssl.SSLError as error:
        plain_scheme = "pulsar" if greeting else "http"
        return f"no TLS there ({error.reason or error}); is it {plain_scheme}://{host}:{port}?"
    except TimeoutError:
        return f"no answer in {ANSWER_S:.0f} s; is --url right, and is a firewall between?"
    except ConnectionResetError:
        return _judged(b"")
    except OSError as error:
        return f"{error.strerror or error}; is it up (magnetar serve), and is --url right?"


def _answered(peer: socket.socket, greeting: bytes) -> str:
    if not greeting:
        return ""
    peer.sendall(greeting)
    return _judged(peer.recv(len(HTTP)))


def _judged(answer: bytes) -> str:
    if answer == HTTP:
        return (
            "a web server answers; it is that of --admin-url, perhaps, and clients have another "
            "port, 6650 unless the broker was told otherwise"
        )
    if answer[:1] == bytes([ALERT]):
        return "it speaks TLS there; begin --url with pulsar+ssl://"
    if not answer:
        return "it closed the connection; does it want TLS (pulsar+ssl://), or is it no broker?"
    return ""
