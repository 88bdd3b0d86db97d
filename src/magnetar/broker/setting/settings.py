"""What a broker can be told, with Pulsar's defaults where Pulsar has the setting.

`BrokerSettings` is a value: made once, checked as it is made, never changed. Its fields are
declared in `section`, one file for each section of the manual; a declaration is all that there is
to be said of a setting: name, type, default, kind, range, what it says, and Pulsar's key. The
readers of files, variables and options (`settings_load`, `broker_conf`) and the reference manual
follow `SETTINGS`, which is made of them.

Units stand last in the names. In limits 0 means that there is none; in quotas and in
retention -1 does, for there 0 has a meaning of its own.
"""

from dataclasses import dataclass, fields
from typing import Final, final

from magnetar.broker.setting.listeners import read_listeners
from magnetar.broker.setting.section.access import AccessSettings
from magnetar.broker.setting.section.compaction import CompactionSettings
from magnetar.broker.setting.section.dispatch import DispatchSettings
from magnetar.broker.setting.section.producer import ProducerSettings
from magnetar.broker.setting.section.rate import RateSettings
from magnetar.broker.setting.section.retention import RetentionSettings
from magnetar.broker.setting.section.session import SessionSettings
from magnetar.broker.setting.section.storage import StorageSettings
from magnetar.broker.setting.section.topic import TopicSettings
from magnetar.broker.setting.section.transaction import TransactionSettings
from magnetar.broker.setting.setting import Setting, Value

__all__ = ["SECTIONS", "SETTINGS", "BrokerSettings"]


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class BrokerSettings(
    SessionSettings,
    TransactionSettings,
    TopicSettings,
    RetentionSettings,
    CompactionSettings,
    ProducerSettings,
    DispatchSettings,
    RateSettings,
    StorageSettings,
    AccessSettings,
):
    """Everything that a broker can be told; each value is one that its setting allows."""

    def __post_init__(self) -> None:
        for name, setting in SETTINGS.items():
            setting.check(name, self.value_of(name))
        self.check_access()
        read_listeners(self.advertised_listeners, self.internal_listener_name)

    def value_of(self, name: str) -> Value:
        """The value of the attribute with this name, which is one of `SETTINGS`."""
        value: Value = getattr(self, name)
        return value


def _declared(section: type) -> dict[str, Setting]:
    return {one.name: one.metadata["setting"] for one in fields(section)}


# The settings of each section of the manual, by its heading, in the manual's order.
SECTIONS: Final[dict[str, dict[str, Setting]]] = {
    "Sessions": _declared(SessionSettings),
    "Transactions": _declared(TransactionSettings),
    "Topics": _declared(TopicSettings),
    "What topics keep": _declared(RetentionSettings),
    "Compaction": _declared(CompactionSettings),
    "Producers and schemas": _declared(ProducerSettings),
    "Subscriptions and dispatch": _declared(DispatchSettings),
    "Rates": _declared(RateSettings),
    "Storage": _declared(StorageSettings),
    "Who may do what": _declared(AccessSettings),
}

SETTINGS: Final[dict[str, Setting]] = {
    name: setting for section in SECTIONS.values() for name, setting in section.items()
}
