"""TLS of admin REST: which servers are believed, and which certificate says who asks."""

import ssl

from magnetar.errors import SettingsError

__all__ = ["Trust"]


class Trust:
    """Files and choices of TLS; the context is made when it is first needed, and kept."""

    def __init__(
        self,
        trust_certs: str | None = None,
        certificate: str | None = None,
        key: str | None = None,
        *,
        allow_insecure: bool = False,
        validate_hostname: bool = True,
    ) -> None:
        self._trust_certs = trust_certs
        self._certificate = certificate
        self._key = key
        self._allow_insecure = allow_insecure
        self._validate_hostname = validate_hostname and not allow_insecure
        self._context: ssl.SSLContext | None = None

    def context(self) -> ssl.SSLContext:
        """Raises SettingsError if a file cannot be used."""
        if self._context is None:
            self._context = self._make()
        return self._context

    def _make(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self._trust_certs)
            if self._certificate:
                context.load_cert_chain(self._certificate, self._key)
        except (OSError, ssl.SSLError) as error:
            raise SettingsError("tls", f"cannot use the certificates: {error}") from None
        context.check_hostname = self._validate_hostname
        if self._allow_insecure:
            context.verify_mode = ssl.CERT_NONE
        return context
