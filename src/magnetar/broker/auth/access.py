"""Who may do what. Every question is about a principal, an operation and where.

| operation on a topic | who, beside superusers and the tenant's admins                      |
|----------------------|---------------------------------------------------------------------|
| PRODUCE              | roles with `produce`                                                |
| CONSUME              | roles with `consume`, if the subscription is open to them (and has  |
|                      | their name in front, where the policy `subscriptionAuthMode` says)  |
| SKIP                 | roles with `consume` or `skip`, if the subscription is open to them |
| LOOK                 | roles with `produce`, `consume` or `skip`                           |
| MANAGE               | nobody                                                              |

| operation on a namespace | who, beside superusers and the tenant's admins                  |
|--------------------------|-----------------------------------------------------------------|
| LOOK                     | roles with `produce`, `consume` or `skip` on the whole of it    |
| SKIP, CONSUME            | roles with those actions on the whole of it                     |
| MANAGE                   | nobody                                                          |

A permission holds on the namespace or on the topic; that of a topic holds for its
partitions. Without authorisation whoever was let in may do everything. What a proxy does for the
one behind it both must be allowed to do.

To ask for the skip permission, as REST does for `skip/{n}` and `skipByMessageIds`:

    broker.access.require_topic(principal, SKIP, topic_name, subscription)

which raises BrokerError with AuthorizationError (403) unless it is granted. Handlers of REST
need not: each route of `magnetar.admin` names its operation (`required_permission.py`), and the
router asks.

Sessions ask when a producer or a consumer is created, never per message. A permission that
is taken away closes what it allowed: see `Broker.permissions_changed`.
"""

from typing import Final, final

from magnetar.broker.auth import permissions
from magnetar.broker.auth.permissions import Permissions
from magnetar.broker.auth.roles import Principal
from magnetar.broker.namespace.directory import Directory
from magnetar.errors import BrokerError
from magnetar.model import ServerError, TopicName

__all__ = ["CONSUME", "LOOK", "MANAGE", "PRODUCE", "SKIP", "Access"]

PRODUCE: Final = "produce to"
CONSUME: Final = "consume from"
SKIP: Final = "skip messages of"
LOOK: Final = "look at"
MANAGE: Final = "manage"
# Of the policy subscriptionAuthMode: subscriptions are called like the role that uses them.
PREFIX: Final = "Prefix"

ACTIONS: Final[dict[str, tuple[str, ...]]] = {
    PRODUCE: (permissions.PRODUCE,),
    CONSUME: (permissions.CONSUME,),
    SKIP: (permissions.CONSUME, permissions.SKIP),
    LOOK: (permissions.PRODUCE, permissions.CONSUME, permissions.SKIP),
    MANAGE: (),
}


@final
class Access:
    """See the module."""

    def __init__(self, directory: Directory, superusers: tuple[str, ...], *, enabled: bool) -> None:
        self._directory: Final = directory
        self._superusers: Final = superusers
        self.enabled: Final = enabled

    # ---- Questions -----------------------------------------------------------

    def is_superuser(self, principal: Principal | None) -> bool:
        if not self.enabled:
            return True
        if principal is None or principal.role not in self._superusers:
            return False
        return principal.original is None or self.is_superuser(principal.original)

    def is_admin(self, principal: Principal | None, tenant: str) -> bool:
        """Returns whether someone may manage a tenant's namespaces and topics."""
        if not self.enabled:
            return True
        if principal is None:
            return False
        if principal.original is not None and not self.is_admin(principal.original, tenant):
            return False
        return principal.role in self._superusers or principal.role in self._directory.admins_of(
            tenant
        )

    def on_namespace(
        self,
        principal: Principal | None,
        operation: str,
        namespace: str,
        subscription: str = "",
    ) -> bool:
        if self.is_admin(principal, namespace.partition("/")[0]):
            return True
        if principal is None:
            return False
        if principal.original is not None:
            alone = principal.speaking_for(None)
            return self.on_namespace(
                principal.original, operation, namespace, subscription
            ) and self.on_namespace(alone, operation, namespace, subscription)
        granted = self._directory.permissions_of(namespace)
        if not granted.in_namespace(principal.role, ACTIONS[operation]):
            return False
        return self._opens(namespace, subscription, principal, granted)

    def on_topic(
        self,
        principal: Principal | None,
        operation: str,
        name: TopicName,
        subscription: str = "",
    ) -> bool:
        if not self.enabled:
            return True
        if self.is_admin(principal, name.tenant):
            return True
        if principal is None:
            return False
        if principal.original is not None:
            alone = principal.speaking_for(None)
            return self.on_topic(
                principal.original, operation, name, subscription
            ) and self.on_topic(alone, operation, name, subscription)
        granted = self._directory.permissions_of(name.namespace)
        if not granted.on_topic(str(name.partitioned), principal.role, ACTIONS[operation]):
            return False
        return self._opens(name.namespace, subscription, principal, granted)

    def _opens(
        self, namespace: str, subscription: str, principal: Principal, granted: Permissions
    ) -> bool:
        """Whether someone may use a subscription of this name; of none, if it is empty."""
        if not subscription:
            return True
        told = self._directory.namespaces.get(namespace)
        prefixed = told is not None and told.subscription_auth_mode == PREFIX
        if prefixed and not subscription.startswith(principal.role):
            return False
        return granted.opens_subscription(subscription, principal.role)

    def may_create(self, principal: Principal | None, name: TopicName) -> bool:
        """Returns whether a topic may come to be because someone asks for it: who only looks may
        not."""
        return self.on_topic(principal, PRODUCE, name) or self.on_topic(principal, CONSUME, name)

    # ---- Demands -------------------------------------------------------------

    def require_superuser(self, principal: Principal | None) -> None:
        """Raises BrokerError unless it is one; so do the others, each in its way."""
        if not self.is_superuser(principal):
            raise _refusal(principal, "only superusers may do this")

    def require_admin(self, principal: Principal | None, tenant: str) -> None:
        if not self.is_admin(principal, tenant):
            raise _refusal(principal, f"only admins of the tenant {tenant!r} may do this")

    def require_namespace(
        self,
        principal: Principal | None,
        operation: str,
        namespace: str,
        subscription: str = "",
    ) -> None:
        if not self.on_namespace(principal, operation, namespace, subscription):
            where = f"subscription {subscription!r} in {namespace}" if subscription else namespace
            raise _refusal(principal, f"it may not {operation} {where}")

    def require_topic(
        self,
        principal: Principal | None,
        operation: str,
        name: TopicName,
        subscription: str = "",
    ) -> None:
        if not self.on_topic(principal, operation, name, subscription):
            where = f"subscription {subscription!r} of {name}" if subscription else f"{name}"
            raise _refusal(principal, f"it may not {operation} {where}")


def _refusal(principal: Principal | None, reason: str) -> BrokerError:
    who = "nobody in particular" if principal is None else str(principal)
    return BrokerError(ServerError.AuthorizationError, f"{who} is not authorized: {reason}")
