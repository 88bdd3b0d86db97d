"""What one session answers to those who look for a topic: where it is, and how many partitions.

All topics are here, so what differs is the address: that of the listener which a client names, of
the internal listener, or the one that the client reached (`setting/listeners.py`).
"""

from typing import Final, final

from magnetar.broker.auth.access import LOOK
from magnetar.broker.auth.roles import Principal
from magnetar.broker.broker import Broker
from magnetar.broker.peer import Peer
from magnetar.broker.session.session_auth import SessionAuth
from magnetar.broker.session.session_transactions import is_coordinator_topic
from magnetar.broker.setting.listeners import Listener
from magnetar.broker.wire_error import wire_error
from magnetar.errors import BrokerError, MagnetarError
from magnetar.model import ServerError, TopicName
from magnetar.protocol import pulsar_pb2 as pb

__all__ = ["SessionLookups"]


@final
class SessionLookups:
    """See the module. `own` is what the client reached."""

    def __init__(self, broker: Broker, peer: Peer, auth: SessionAuth, own: Listener) -> None:
        self._broker: Final = broker
        self._peer: Final = peer
        self._auth: Final = auth
        self._own: Final = own

    def on_lookup(self, command: pb.CommandLookupTopic) -> None:
        try:
            name = TopicName.parse(command.topic)
            if not self._is_coordinator(name):
                self._require_sight(name, command.original_principal)
                self._broker.directory.require_namespace(name.namespace)
            listener = self._listener(command.advertised_listener_name)
        except MagnetarError as error:
            code, reason = wire_error(error)
            self._peer.send(
                pb.CommandLookupTopicResponse(
                    request_id=command.request_id, response=2, error=code, message=reason
                )
            )
            return
        self._peer.send(
            pb.CommandLookupTopicResponse(
                request_id=command.request_id,
                response=1,
                brokerServiceUrl=listener.url("pulsar") or None,
                brokerServiceUrlTls=listener.url("pulsar+ssl") or None,
                authoritative=True,
                proxy_through_service_url=False,
            )
        )

    def _listener(self, name: str) -> Listener:
        found = self._broker.listeners.find(name)
        if found is not None:
            return found
        if name:
            # Pulsar's words, which its tools look for.
            raise BrokerError(
                ServerError.ServiceNotReady, f"the broker do not have {name} listener"
            )
        return self._own

    def _is_coordinator(self, name: TopicName) -> bool:
        """Whether a client looks for the coordinator of transactions, which is here."""
        return self._broker.transactions.enabled and is_coordinator_topic(name)

    def _require_sight(self, name: TopicName, original_principal: str) -> Principal | None:
        """Returns who asks. Raises BrokerError unless the client may know of a topic."""
        principal = self._auth.speaker(original_principal)
        self._broker.access.require_topic(principal, LOOK, name)
        return principal

    def on_partitions(self, command: pb.CommandPartitionedTopicMetadata) -> None:
        try:
            name = TopicName.parse(command.topic)
            found = 1
            if not self._is_coordinator(name):
                principal = self._require_sight(name, command.original_principal)
                found = self._broker.partitions(
                    name,
                    may_create=command.metadata_auto_creation_enabled
                    and self._broker.access.may_create(principal, name),
                )
        except MagnetarError as error:
            code, reason = wire_error(error)
            self._peer.send(
                pb.CommandPartitionedTopicMetadataResponse(
                    request_id=command.request_id, response=1, error=code, message=reason
                )
            )
            return
        self._peer.send(
            pb.CommandPartitionedTopicMetadataResponse(
                request_id=command.request_id, response=0, partitions=found
            )
        )
