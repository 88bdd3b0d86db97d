"""All topics of a broker, or of a namespace, with their figures, in as few requests as it takes.

1. One request for all loaded topics: `broker-stats/topics`.
2. One for each namespace: which topics there are.
3. One for each topic of which too little is known, up to a limit: its stats.

Magnetar's broker stats are of the moment, and have all that is needed but topics that nobody
has used since the broker started. Those of Apache Pulsar are a minute old and know no ages; there,
and where the role may not read them, the third step does the work.
"""

from collections.abc import Callable, Mapping
from typing import Final

from magnetar.cli.console import counted
from magnetar.cli.name.names import namespace_names, tenant_names
from magnetar.cli.status.view import TopicView, topic_view
from magnetar.errors import InvalidTopicNameError
from magnetar.model import TopicName
from magnetar.rest.admin_client import AdminClient
from magnetar.rest.admin_error import AdminError
from magnetar.rest.path import namespace_path, path_of, topic_path

__all__ = ["ASKED_MAX", "Survey", "survey"]

Stats = Mapping[str, object]

# Topics that are asked for one by one: a second's work.
ASKED_MAX: Final = 200
# Apache Pulsar's own household: heartbeats and the like.
HOUSEHOLD: Final = "pulsar"


class Survey:
    """What was found, and what is missing."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicView] = {}
        # Topics without figures, since there were too many to ask for.
        self.uncounted = 0
        # Topics whose figures may be a minute old, likewise.
        self.stale = 0
        # Whether only one namespace was looked at, since the role may not list the others.
        self.only = ""

    def notes(self) -> list[str]:
        """Returns what is missing, in sentences."""
        found: list[str] = []
        if self.only:
            found.append(f"only {self.only}: this role may not list other namespaces")
        if self.uncounted:
            found.append(
                f"{counted(self.uncounted, 'topic')} not counted, since nobody has used them since "
                "the broker started: --all counts them"
            )
        if self.stale:
            found.append(
                f"figures of {counted(self.stale, 'topic')} are up to a minute old, without age: "
                "--all asks for them"
            )
        return found


def survey(
    admin: AdminClient,
    namespace: str,
    *,
    everywhere: bool,
    most: int | None = ASKED_MAX,
    domain: str = "",
    waited: Callable[[], None] = lambda: None,
) -> Survey:
    """Looks at a namespace, or everywhere; `most` is None for no limit. Raises AdminError.

    `waited` is called between requests.
    """
    found = Survey()
    stats = _broker_stats(admin)
    names = _everywhere(admin, namespace, found) if everywhere else _names(admin, namespace)
    if domain:
        names = [name for name in names if name.startswith(f"{domain}://")]
    asked = 0
    for name in sorted(names, key=lambda name: _urgency(stats.get(name))):
        waited()
        known = stats.get(name)
        if not _fresh(known) and (most is None or asked < most):
            asked += 1
            told = _stats_of(admin, name)
            if told is None:
                continue  # it is gone
            known = told
        _note(found, name, known)
    return found


def _note(found: Survey, name: str, known: Stats | None) -> None:
    try:
        view = topic_view(found.topics, name)
    except InvalidTopicNameError:
        return  # Pulsar has names of its own household that nobody could give
    if known is None:
        found.uncounted += 1
        return
    found.stale += not _fresh(known)
    view.add(known)


def _fresh(known: Stats | None) -> bool:
    """Figures of the moment name the broker they are from; Pulsar's of a minute ago do not."""
    return known is not None and "ownerBroker" in known


def _urgency(known: Stats | None) -> int:
    """Returns those with a backlog are asked for first, then those of which nothing is known."""
    if known is None:
        return 1
    subscriptions = known.get("subscriptions")
    backlogs = [
        one.get("msgBacklog")
        for one in (subscriptions.values() if isinstance(subscriptions, dict) else [])
        if isinstance(one, dict)
    ]
    return 0 if any(backlogs) else 2


def _broker_stats(admin: AdminClient) -> dict[str, Stats]:
    """Returns stats by topic; none if the broker does not tell them, or not to this role."""
    try:
        found = admin.get(path_of("broker-stats", "topics"), getEarliestTimeInBacklog=True)
    except AdminError:
        return {}
    topics: dict[str, Stats] = {}
    for bundles in _values(found):
        for domains in _values(bundles):
            for named in _values(domains):
                topics |= {
                    str(name): one
                    for name, one in (named.items() if isinstance(named, dict) else ())
                    if isinstance(one, dict)
                }
    return topics


def _values(found: object) -> list[object]:
    return list(found.values()) if isinstance(found, dict) else []


def _everywhere(admin: AdminClient, namespace: str, found: Survey) -> list[str]:
    try:
        tenants = tenant_names(admin)
    except AdminError as error:
        if error.status not in (401, 403):
            raise
        found.only = namespace
        return _names(admin, namespace)
    names: list[str] = []
    for tenant in tenants:
        if tenant != HOUSEHOLD:
            for one in namespace_names(admin, tenant):
                names += _names(admin, one)
    return names


def _names(admin: AdminClient, namespace: str) -> list[str]:
    found = admin.get(namespace_path(namespace, "topics"), mode="ALL")
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def _stats_of(admin: AdminClient, name: str) -> Stats | None:
    try:
        path = topic_path(TopicName.parse(name), "stats")
        found = admin.get(path, getPreciseBacklog=True, getEarliestTimeInBacklog=True)
    except (AdminError, InvalidTopicNameError):
        return None
    return found if isinstance(found, dict) else None
