"""Policies that change nothing on one machine: taken, checked, kept and told again.

They say how a cluster lays out its storage, or which of its brokers and clusters do something.
Tools that set up namespaces set them, so they go round; docs/compatibility-broker.md has the table
of what has no effect. A value that would change what clients see, and does not here, is refused.
"""

from collections.abc import Callable
from typing import Final, final

from magnetar.broker.policy.policy_value import read_flag, read_number, read_object, shown
from magnetar.broker.policy.rate_policy import read_dispatch_rate, show_dispatch_rate
from magnetar.broker.rate.rate import NO_RATE
from magnetar.broker.setting.setting import COUNT_MAX, INT_MAX
from magnetar.errors import SettingsError

__all__ = ["KEPT_POLICIES", "KeptPolicy"]

NAMES_MAX: Final = 1000
NAME_BYTES_MAX: Final = 1000


@final
class KeptPolicy:
    """One of them: its name, how its JSON is read, and what it is where nobody said anything."""

    def __init__(
        self,
        name: str,
        read: Callable[[str, object], object],
        *,
        default: object | None = None,
        in_whole: str = "",
    ) -> None:
        self.name: Final = name
        self.read: Final = read
        # As `?applied=true` answers it.
        self.default: Final = default
        # The field's name where Pulsar has all policies of a namespace in one object.
        self.in_whole: Final = in_whole


def _read_text(name: str, value: object) -> object:
    if not isinstance(value, str) or not value or len(value.encode()) > NAME_BYTES_MAX:
        raise SettingsError(
            name, f"{shown(value)} is no name: give a text of 1 to {NAME_BYTES_MAX} bytes"
        )
    return value


def _read_names(name: str, value: object) -> object:
    if not isinstance(value, list) or len(value) > NAMES_MAX:
        raise SettingsError(
            name, f"{shown(value)} is no list of names: give {NAMES_MAX} texts at most"
        )
    return sorted({str(_read_text(name, one)) for one in value})


def _read_switch(name: str, value: object) -> object:
    return read_flag(name, name, value)


def _read_count(name: str, value: object) -> object:
    return read_number(name, name, value, 0, INT_MAX)


def _read_lag(name: str, value: object) -> object:
    return read_number(name, name, value, -1, COUNT_MAX)


def _read_no_threshold(name: str, value: object) -> object:
    if read_number(name, name, value, -COUNT_MAX, COUNT_MAX) >= 0:
        raise SettingsError(name, "ledgers are not offloaded here: give -1, or remove the policy")
    return value


def _read_rate(name: str, value: object) -> object:
    return show_dispatch_rate(read_dispatch_rate(name, value))


def _read_persistence(name: str, value: object) -> object:
    fields = read_object(name, value)
    found: dict[str, object] = {}
    counts: list[int] = []
    for field in ("bookkeeperEnsemble", "bookkeeperWriteQuorum", "bookkeeperAckQuorum"):
        counts.append(read_number(name, field, fields.get(field, 1), 1, INT_MAX))
        found[field] = counts[-1]
    if not counts[0] >= counts[1] >= counts[2]:
        raise SettingsError(
            name,
            f"Bookkeeper Ensemble ({counts[0]}) >= WriteQuorum ({counts[1]}) >= AckQuorum "
            f"({counts[2]}) is not so: give numbers that do not ascend",
        )
    rate = fields.get("managedLedgerMaxMarkDeleteRate", 0.0)
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate <= INT_MAX:
        raise SettingsError(
            name, f"managedLedgerMaxMarkDeleteRate is {shown(rate)}: give a number from 0 on"
        )
    found["managedLedgerMaxMarkDeleteRate"] = float(rate)
    return found


def _read_affinity(name: str, value: object) -> object:
    fields = read_object(name, value)
    found: dict[str, object] = {}
    for field in ("bookkeeperAffinityGroupPrimary", "bookkeeperAffinityGroupSecondary"):
        if fields.get(field) is not None:
            found[field] = _read_text(name, fields[field])
    return found


KEPT_POLICIES: Final = (
    KeptPolicy(
        "persistence",
        _read_persistence,
        default={
            "bookkeeperEnsemble": 1,
            "bookkeeperWriteQuorum": 1,
            "bookkeeperAckQuorum": 1,
            "managedLedgerMaxMarkDeleteRate": 0.1,
        },
        in_whole="persistence",
    ),
    KeptPolicy("bookieAffinity", _read_affinity),
    KeptPolicy("replication", _read_names),
    KeptPolicy("allowedClusters", _read_names, in_whole="allowed_clusters"),
    KeptPolicy(
        "replicatorDispatchRate",
        _read_rate,
        default=show_dispatch_rate(NO_RATE),
    ),
    KeptPolicy("antiAffinity", _read_text, in_whole="antiAffinityGroup"),
    KeptPolicy(
        "deduplicationSnapshotInterval",
        _read_count,
        in_whole="deduplicationSnapshotIntervalSeconds",
    ),
    KeptPolicy(
        "dispatcherPauseOnAckStatePersistent",
        _read_switch,
        default=False,
        in_whole="dispatcherPauseOnAckStatePersistentEnabled",
    ),
    KeptPolicy("allowedTopicPropertyKeysForMetrics", _read_names),
    KeptPolicy("offloadDeletionLagMs", _read_lag, in_whole="offload_deletion_lag_ms"),
    KeptPolicy("offloadThreshold", _read_no_threshold, in_whole="offload_threshold"),
    KeptPolicy(
        "offloadThresholdInSeconds", _read_no_threshold, in_whole="offload_threshold_in_seconds"
    ),
)
