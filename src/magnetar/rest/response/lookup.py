"""Names and addresses that the server tells: tenants, lookups, message ids."""

from msgspec import field

from magnetar.model import MessageId
from magnetar.rest.response.record import Record

__all__ = ["Lookup", "MessagePlace", "PartitionedMetadata", "Tenant"]


class Tenant(Record, frozen=True):
    """A tenant."""

    admin_roles: list[str] = field(default_factory=list)
    """Roles that may administer the tenant."""
    allowed_clusters: list[str] = field(default_factory=list)
    """Clusters that the tenant may use."""


class Lookup(Record, frozen=True):
    """The broker that serves a topic."""

    broker_url: str = ""
    """Where clients connect."""
    broker_url_tls: str = ""
    """Where clients connect by TLS; empty if there is no such port."""
    http_url: str = ""
    """Where admin REST is."""


class PartitionedMetadata(Record, frozen=True):
    """How a topic is partitioned."""

    partitions: int = 0
    """How many partitions it has; 0 if it is not partitioned."""
    properties: dict[str, str] = field(default_factory=dict)
    """Properties of the topic."""


class MessagePlace(Record, frozen=True):
    """A message id as JSON has it."""

    ledger_id: int = -1
    """The ledger."""
    entry_id: int = -1
    """The entry in the ledger."""
    partition_index: int = -1
    """The partition; -1 if the topic is not partitioned."""
    batch_index: int = -1
    """The index in the batch; -1 if the entry is one message."""

    def message_id(self) -> MessageId:
        """Returns it as clients have it."""
        return MessageId(self.partition_index, self.ledger_id, self.entry_id, self.batch_index)
