"""The broker itself as an operator sees it: version, health, storage."""

import time

from magnetar.rest.admin_client import AdminClient
from magnetar.rest.admin_error import AdminError
from magnetar.rest.path import path_of

__all__ = ["BrokerView", "broker_view"]


class BrokerView:
    """What a broker tells of itself; None is what it does not tell, or not this role."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.version = ""
        # Empty if it is well.
        self.ill = ""
        self.up_s: float | None = None
        self.connections: int | None = None
        # Apache Pulsar's brokers have no storage of their own.
        self.free_bytes: int | None = None
        self.watermark_bytes: int | None = None
        self.in_memory = False
        self.retrying: dict[str, str] = {}


def broker_view(admin: AdminClient, *, health: bool = True) -> BrokerView:
    """Asks. Raises AdminError if nobody there knows the version."""
    found = BrokerView(admin.url)
    version = admin.request("GET", path_of("brokers", "version"))
    found.version = version.body.decode(errors="replace").strip()[:40]
    if health:
        try:
            admin.request("GET", path_of("brokers", "health"))
        except AdminError as error:
            # A role that may not ask does not make a broker ill.
            found.ill = "" if error.status in (401, 403, 404) else error.reason
    try:
        report = admin.get(path_of("broker-stats", "load-report"))
    except AdminError:
        return found
    if isinstance(report, dict):
        _read_report(found, report)
    return found


def _read_report(found: BrokerView, report: dict[str, object]) -> None:
    started_ms = report.get("startTimestamp")
    if isinstance(started_ms, int) and started_ms > 0:
        found.up_s = max(time.time() - started_ms / 1000, 0.0)
    connections = report.get("numConnections")
    found.connections = connections if isinstance(connections, int) else None
    storage = report.get("storage")
    if not isinstance(storage, dict):
        return
    free, watermark = storage.get("freeBytes"), storage.get("watermarkBytes")
    found.free_bytes = free if isinstance(free, int) else None
    found.watermark_bytes = watermark if isinstance(watermark, int) else None
    found.in_memory = free is None
    retrying = storage.get("retrying")
    if isinstance(retrying, dict):
        found.retrying = {str(kind): str(why) for kind, why in retrying.items()}
