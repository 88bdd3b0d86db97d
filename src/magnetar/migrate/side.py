"""One side of a move: a broker or cluster, asked by REST and by the binary protocol."""

from types import TracebackType
from typing import Final, TypeVar

from magnetar.arrow.connect import client_options
from magnetar.arrow.plan.connection import Connection
from magnetar.arrow.rest import Rest
from magnetar.client.door.raw.client import EntryClient
from magnetar.migrate.plan.entry_map import EntryMap
from magnetar.rest.admin_client import AdminClient
from magnetar.rest.admin_error import AdminError
from magnetar.rest.request import Plan

__all__ = ["Side"]

T = TypeVar("T")

CONFLICT: Final = 409


class Side:
    """See the module; made on the loop that uses it."""

    def __init__(self, connection: Connection, url_option: str) -> None:
        self.url: Final = connection.service_url
        self.rest: Final = Rest(connection, url_option)
        self.client: Final = EntryClient(connection.service_url, **client_options(connection))
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

    async def __aenter__(self) -> "Side":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._admin.close()
        await self.client.aio.close()

    def do(self, plan: Plan[T]) -> T:
        """Carries out a plan of admin REST. Raises what it raises."""
        return self._admin.do(plan)

    def make(self, plan: Plan[object]) -> bool:
        """Carries out a plan that makes something; False if it was there."""
        try:
            self.do(plan)
        except AdminError as error:
            if error.status != CONFLICT:
                raise
            return False
        return True

    def stored(self, topic: str) -> EntryMap:
        """Returns all entries of a topic from which nothing was trimmed."""
        return EntryMap([(ledger, 0, count) for ledger, count in self.rest.ledgers(topic)])
