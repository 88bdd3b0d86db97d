"""Where a pipeline goes: a broker's two addresses, and who asks.

The command line fills it from its options and profiles; a job of one's own writes it down.
"""

from magnetar.arrow.plan.connection import Connection
from magnetar.spark.plan.options import ReadOptions
from magnetar.spark.rest import Rest

__all__ = ["Target"]


class Target:
    """A broker, for the connector and for REST."""

    def __init__(
        self,
        service_url: str = "pulsar://127.0.0.1:6650",
        admin_url: str = "http://127.0.0.1:8080",
        *,
        token: str = "",
        tls_trust_certs: str = "",
        tls_certificate: str = "",
        tls_key: str = "",
    ) -> None:
        self.service_url = service_url
        self.admin_url = admin_url
        self.token = token
        self.tls_trust_certs = tls_trust_certs
        self.tls_certificate = tls_certificate
        self.tls_key = tls_key

    def options(self, **more: object) -> dict[str, str]:
        """Returns what a read or write is given by `.options(**...)`; those that are None are left
        out.

        >>> Target("pulsar://a:1", "http://a:2").options(topic="t", minPartitions=2, mode=None)
        {'serviceUrl': 'pulsar://a:1', 'adminUrl': 'http://a:2', 'topic': 't', 'minPartitions': '2'}
        """
        found = {
            "serviceUrl": self.service_url,
            "adminUrl": self.admin_url,
            "authToken": self.token,
            "tlsTrustCertsFilePath": self.tls_trust_certs,
            "tlsCertificateFilePath": self.tls_certificate,
            "tlsPrivateKeyFilePath": self.tls_key,
        }
        given = {name: _text(value) for name, value in more.items() if value is not None}
        return {name: value for name, value in found.items() if value} | given

    def connection(self) -> Connection:
        """Checked, as the connector has it. Raises SettingsError."""
        return ReadOptions(self.options(topic="any"), streaming=True).connection

    def rest(self) -> Rest:
        """Admin REST there."""
        return Rest(self.connection())


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
