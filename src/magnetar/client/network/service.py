"""Where the client connects to now, and how it is known there.

Everything that connects asks here each time, so what is said here holds for the next
connection; those that are open are the pool's to end.
"""

import base64
import ssl

from magnetar.client.option.authentication import Authentication, AuthenticationOauth2
from magnetar.client.option.options import ClientOptions
from magnetar.client.option.service_info import ServiceInfo
from magnetar.client.option.service_url import ServiceUrl, parse_service_url
from magnetar.errors import ErrorGettingAuthenticationData, MagnetarError, SettingsError

__all__ = ["Service"]


class Service:
    """See the module. Made with files that cannot be read, it raises SettingsError."""

    def __init__(self, info: ServiceInfo, options: ClientOptions) -> None:
        self._options = options
        self.use(info)

    def use(self, info: ServiceInfo) -> None:
        """Goes over to another service; if this raises, the service stays as it was."""
        url = parse_service_url(info.service_url)
        tls = self._make_tls(info) if url.tls else None
        if isinstance(info.authentication, AuthenticationOauth2):
            info.authentication.trust(info.tls_trust_certs_file_path)
        self.info: ServiceInfo = info
        self.url: ServiceUrl = url
        self.tls: ssl.SSLContext | None = tls

    def tls_context(self) -> ssl.SSLContext:
        """Returns a context for a broker that wants TLS, though the service URL may not say so."""
        if self.tls is None:
            self.tls = self._make_tls(self.info)
        return self.tls

    @property
    def auth_method(self) -> str:
        auth = self.info.authentication
        return "" if auth is None else auth.method

    def auth_data(self) -> bytes:
        """Asked for each time: tokens may be new ones."""
        auth = self.info.authentication
        if auth is None:
            return b""
        try:
            return auth.data()
        except MagnetarError:
            raise
        except Exception as error:  # of a kind that is the application's own
            raise ErrorGettingAuthenticationData(f"{auth!r} failed: {error!r}") from error

    @property
    def auth_waits(self) -> bool:
        """Whether `auth_data` may wait for another machine, and belongs on a thread."""
        auth = self.info.authentication
        return auth is not None and auth.waits

    def http_headers(self) -> dict[str, str]:
        """Returns how lookups over HTTP say who asks."""
        auth = self.info.authentication
        if auth is None or auth.method not in ("token", "basic"):
            return {}
        if auth.method == "token":
            return {"Authorization": f"Bearer {self.auth_data().decode()}"}
        return {"Authorization": f"Basic {base64.b64encode(self.auth_data()).decode()}"}

    def _make_tls(self, info: ServiceInfo) -> ssl.SSLContext:
        options = self._options
        trusted = info.tls_trust_certs_file_path
        try:
            context = ssl.create_default_context(cafile=trusted)
        except OSError as error:
            raise SettingsError("tls_trust_certs_file_path", f"{trusted}: {error}") from error
        if options.tls_allow_insecure_connection:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif not options.tls_validate_hostname:
            context.check_hostname = False
        certificate, key = self._certificate(info.authentication)
        if certificate is not None:
            try:
                context.load_cert_chain(certificate, key)
            except OSError as error:
                raise SettingsError(
                    "tls_certificate_file_path", f"{certificate} with {key}: {error}"
                ) from error
        return context

    def _certificate(self, auth: Authentication | None) -> tuple[str | None, str | None]:
        if auth is not None and auth.certificate_path is not None:
            return auth.certificate_path, auth.private_key_path
        return self._options.tls_certificate_file_path, self._options.tls_private_key_file_path
