"""The little of a broker's admin REST that reads need, with the errors of the client."""

from typing import Any

from magnetar.arrow.plan.connection import Connection
from magnetar.errors import (
    AuthorizationError,
    ConnectError,
    InvalidUrl,
    SettingsError,
    TopicNotFound,
)
from magnetar.rest.admin_client import AdminClient
from magnetar.rest.admin_error import AdminError
from magnetar.rest.path import topic_path

__all__ = ["Rest"]


class Rest:
    """Asks the REST of a broker, with a connection for each request, so nothing is to be closed.

    Raises AuthorizationError, TopicNotFound, ConnectError, Timeout and SettingsError.
    """

    def __init__(self, connection: Connection, url_option: str = "adminUrl") -> None:
        self._url_option = url_option
        self._admin = AdminClient(
            connection.admin_url,
            token=connection.auth_token,
            trust_certs=connection.tls_trust_certs_file_path or None,
            certificate=connection.tls_certificate_file_path or None,
            key=connection.tls_private_key_file_path or None,
            allow_insecure=connection.tls_allow_insecure_connection,
            validate_hostname=connection.tls_validate_hostname,
            timeout_s=connection.operation_timeout_s,
            url_option=url_option,
        )

    def get(self, path: str, **query: object) -> Any:
        return self._ask("GET", path, None, query)

    def post(self, path: str, body: object) -> Any:
        return self._ask("POST", path, body, {})

    def put(self, path: str, body: object) -> Any:
        return self._ask("PUT", path, body, {})

    def delete(self, path: str) -> Any:
        return self._ask("DELETE", path, None, {})

    def _ask(self, method: str, path: str, body: object, query: dict[str, object]) -> Any:
        try:
            return self._admin.request(method, path, body, query).json()
        except AdminError as error:
            said = f"{method} {self._admin.url}{path}: HTTP {error.status} {error.reason}"
            if error.status in (401, 403):
                raise AuthorizationError(said) from None
            if error.status == 404:
                raise TopicNotFound(said) from None
            raise ConnectError(said) from None
        except InvalidUrl as error:
            raise SettingsError(self._url_option, str(error)) from None
        finally:
            self._admin.close()

    # ---- Topics --------------------------------------------------------------

    def ledgers(self, topic: str) -> list[tuple[int, int]]:
        """Returns the ids of a topic's ledgers, and how many entries each has."""
        stats = self.get(topic_path(topic, "internalStats"))
        found = [(int(one["ledgerId"]), int(one["entries"])) for one in stats["ledgers"]]
        if found:
            # Apache's broker counts the entries of the open ledger elsewhere.
            found[-1] = (found[-1][0], max(found[-1][1], int(stats["currentLedgerEntries"])))
        return found
