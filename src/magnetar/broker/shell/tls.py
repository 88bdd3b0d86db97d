"""TLS of the broker's ports: certificate, key, and who may issue client certificates. A shell.

| tls_trust_certs_file | tls_require_client_certificate | a client without a certificate    |
|----------------------|--------------------------------|-----------------------------------|
| no                   | -                              | is let in; nobody asks for one    |
| yes                  | no                             | is let in, and shows a token      |
| yes                  | yes                            | is refused in the handshake       |

One that is shown must be of a trusted issuer in any case. Files that change are read again,
and count for connections from then on; ones that cannot be used are left alone, and said so.
"""

import logging
import os
import ssl

from magnetar.broker.settings import BrokerSettings
from magnetar.errors import SettingsError

__all__ = ["TlsFiles", "certificate_role", "file_stamp"]

log: logging.Logger = logging.getLogger("magnetar.broker")


class TlsFiles:
    """The files that settings name. `context` is what servers listen with, and changes itself."""

    def __init__(self, settings: BrokerSettings) -> None:
        self._certificate = settings.tls_certificate_file
        self._key = settings.tls_key_file
        self._trust = settings.tls_trust_certs_file
        self._required = settings.tls_require_client_certificate
        self._seen = self._stamps()
        self._current = self._load()
        # Each handshake is handed over to the files as they are then.
        self.context: ssl.SSLContext = self._load()
        self.context.sni_callback = self._hand_over

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # Nobody resumes what was verified by files that have changed since.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
        try:
            context.load_cert_chain(self._certificate, self._key, password=_no_password)
        except (OSError, ValueError) as error:
            raise SettingsError(
                "tls_certificate_file",
                f"cannot use {self._certificate} with the key {self._key}: {_reason(error)}",
            ) from None
        if self._trust:
            context.verify_mode = ssl.CERT_REQUIRED if self._required else ssl.CERT_OPTIONAL
            try:
                context.load_verify_locations(self._trust)
            except (OSError, ValueError) as error:
                raise SettingsError(
                    "tls_trust_certs_file", f"cannot use {self._trust}: {_reason(error)}"
                ) from None
        return context

    def _hand_over(
        self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext
    ) -> None:
        connection.context = self._current

    def refresh(self) -> None:
        """Reads files that changed; those before stay if these cannot be used."""
        stamps = self._stamps()
        if stamps == self._seen:
            return
        self._seen = stamps
        try:
            self._current = self._load()
        except SettingsError as error:
            log.warning("the TLS files changed and are not taken: %s", error)
        else:
            log.info("the TLS files changed and are taken: %s", self._certificate)

    def _stamps(self) -> list[tuple[int, int, int]]:
        return [file_stamp(path) for path in (self._certificate, self._key, self._trust) if path]


def file_stamp(path: str) -> tuple[int, int, int]:
    """What tells a file from a new one in its place."""
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0, 0)
    return (found.st_mtime_ns, found.st_size, found.st_ino)


def _no_password() -> str:
    raise ValueError("the key has a password: give one without")


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return error.reason or "it is not in PEM form"
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return str(error)


def certificate_role(ssl_object: ssl.SSLObject | None) -> str:
    """The common name of the peer's certificate, which was verified; empty if it showed none."""
    certificate = None if ssl_object is None else ssl_object.getpeercert()
    if not certificate:
        return ""
    names: list[str] = []
    for part in certificate.get("subject", ()):
        for entry in part:
            if len(entry) == 2 and entry[0] == "commonName":
                names.append(str(entry[1]))
    # Two would let their bearer choose whom to be taken for.
    return names[0] if len(names) == 1 else ""
