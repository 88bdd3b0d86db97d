"""TLS of the broker's ports: certificate, key, and who may issue client certificates. A shell.

| tls_trust_certs_file | tls_require_client_certificate | a client without a certificate    |
|----------------------|--------------------------------|-----------------------------------|
| no                   | -                              | is let in; nobody asks for one    |
| yes                  | no                             | is let in, and shows a token      |
| yes                  | yes                            | is refused in the handshake       |

One that is shown must be of a trusted issuer in any case, and none that `tls_crl_file` revokes:
there must be a list (CRL) of every issuer in its chain then, and one that has not expired, or
nobody is let in by a certificate.

Files that change are read again, and count for connections from then on; ones that cannot be
used are left alone, and said so. Connections whose certificate was revoked meanwhile are closed.
"""

import asyncio
import logging
import os
import ssl
from typing import cast

from cryptography import x509

from magnetar.broker.setting.settings import BrokerSettings
from magnetar.errors import SettingsError

__all__ = ["CertifiedConnections", "TlsFiles", "certificate_role", "file_stamp"]

log: logging.Logger = logging.getLogger("magnetar.broker")


class TlsFiles:
    """The files that settings name. `context` is what servers listen with, and changes itself."""

    def __init__(self, settings: BrokerSettings) -> None:
        self._certificate = settings.tls_certificate_file
        self._key = settings.tls_key_file
        self._trust = settings.tls_trust_certs_file
        self._crl = settings.tls_crl_file
        self._lists: list[x509.CertificateRevocationList] = []
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
        if self._crl:
            self._load_lists(context)
        return context

    def _load_lists(self, context: ssl.SSLContext) -> None:
        """Lets a context refuse what was revoked. Raises SettingsError."""
        try:
            with open(self._crl, "rb") as file:
                lists = _read_lists(file.read())
            # Of each issuer in the chain, as nginx and HAProxy do.
            context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_CHAIN
            context.load_verify_locations(self._crl)
        except (OSError, ValueError) as error:
            raise SettingsError(
                "tls_crl_file", f"cannot use {self._crl}: {_reason(error)}"
            ) from None
        self._lists = lists

    def is_revoked(self, certificate: bytes) -> bool:
        """Returns whether one of the lists has a certificate, which is given in DER form."""
        shown = x509.load_der_x509_certificate(certificate)
        for one in self._lists:
            if one.issuer == shown.issuer:
                found = one.get_revoked_certificate_by_serial_number(shown.serial_number)
                if found is not None:
                    return True
        return False

    def _hand_over(
        self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext
    ) -> None:
        connection.context = self._current

    def refresh(self) -> bool:
        """Reads files that changed; those before stay if these cannot be used.

        True if there are new ones now.
        """
        stamps = self._stamps()
        if stamps == self._seen:
            return False
        self._seen = stamps
        try:
            self._current = self._load()
        except SettingsError as error:
            log.warning("the TLS files changed and are not taken: %s", error)
            return False
        log.info("the TLS files changed and are taken: %s", self._certificate)
        return True

    def _stamps(self) -> list[tuple[int, int, int]]:
        files = (self._certificate, self._key, self._trust, self._crl)
        return [file_stamp(path) for path in files if path]


class CertifiedConnections:
    """The connections, on both ports, whose peers showed a certificate."""

    def __init__(self) -> None:
        # By connection: the certificate in DER form.
        self._shown: dict[asyncio.BaseTransport, bytes] = {}

    def add(self, transport: asyncio.BaseTransport) -> None:
        """A connection was made; one without a certificate is none of these."""
        ssl_object: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
        certificate = None if ssl_object is None else ssl_object.getpeercert(binary_form=True)
        if certificate is not None:
            self._shown[transport] = certificate

    def remove(self, transport: asyncio.BaseTransport) -> None:
        self._shown.pop(transport, None)

    def close_revoked(self, files: TlsFiles) -> None:
        """Closes connections whose certificates have been revoked since they were made."""
        for transport, certificate in list(self._shown.items()):
            if files.is_revoked(certificate):
                peer = transport.get_extra_info("peername") or ("?", 0)
                log.warning(
                    "closing the connection of %s:%s: its certificate was revoked", *peer[:2]
                )
                cast("asyncio.Transport", transport).abort()


def _read_lists(data: bytes) -> list[x509.CertificateRevocationList]:
    """Returns the lists of a file in PEM form. Raises ValueError."""
    begin = b"-----BEGIN X509 CRL-----"
    pieces = [begin + piece for piece in data.split(begin)[1:]]
    if not pieces:
        raise ValueError("it has no X509 CRL in PEM form")
    return [x509.load_pem_x509_crl(piece) for piece in pieces]


def file_stamp(path: str) -> tuple[int, int, int]:
    """Returns what tells a file from a new one in its place."""
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
    """Returns the common name of the peer's certificate, which was verified; empty if it showed
    none."""
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
