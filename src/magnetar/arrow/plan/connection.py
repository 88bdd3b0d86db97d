"""How to reach a broker: its two addresses, and the proof of who asks."""

from typing import Final, final

__all__ = ["Connection"]


@final
class Connection:
    """What a client and REST are told. Empty texts stand for what was not given."""

    def __init__(
        self,
        service_url: str,
        *,
        admin_url: str = "",
        auth_token: str = "",
        tls_trust_certs_file_path: str = "",
        tls_certificate_file_path: str = "",
        tls_private_key_file_path: str = "",
        tls_allow_insecure_connection: bool = False,
        tls_validate_hostname: bool = True,
        operation_timeout_s: int = 30,
    ) -> None:
        self.service_url: Final = service_url
        self.admin_url: Final = admin_url.rstrip("/")
        self.auth_token: Final = auth_token
        self.tls_trust_certs_file_path: Final = tls_trust_certs_file_path
        self.tls_certificate_file_path: Final = tls_certificate_file_path
        self.tls_private_key_file_path: Final = tls_private_key_file_path
        self.tls_allow_insecure_connection: Final[bool] = tls_allow_insecure_connection
        self.tls_validate_hostname: Final[bool] = tls_validate_hostname
        self.operation_timeout_s: Final[int] = operation_timeout_s

    def key(self) -> tuple[str, ...]:
        """Returns what tells connections apart: clients with the same key may share one."""
        return (
            self.service_url,
            self.auth_token,
            self.tls_trust_certs_file_path,
            self.tls_certificate_file_path,
            self.tls_private_key_file_path,
            str(self.tls_allow_insecure_connection),
            str(self.tls_validate_hostname),
            str(self.operation_timeout_s),
        )
