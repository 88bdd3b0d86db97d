"""Names for the shell, which asks while somebody types.

It wants them at once, and no errors: whatever goes wrong, or takes longer than `LIMIT_S`, is
no names. A thread does the asking, since to look up the address of a host may take long and
cannot be ended.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import typer

from magnetar.cli.choice import choice_of
from magnetar.cli.target import Target
from magnetar.model import TopicName

if TYPE_CHECKING:
    from magnetar.rest.admin_client import AdminClient

__all__ = ["namespaces", "subscriptions", "tenants", "topics"]

# Longer than that, and people press the key again.
LIMIT_S: Final = 1.0
# So many are of use in a shell.
NAMES_MAX: Final = 500


def topics(context: typer.Context, incomplete: str) -> list[str]:
    """Short names in the command's namespace; full ones where a namespace was begun."""
    from magnetar.cli.name.names import topic_names

    def work(admin: "AdminClient", target: Target) -> Iterator[str]:
        if "/" not in incomplete:
            begin, namespace = "", target.namespace
        else:
            begin = incomplete[: incomplete.rindex("/") + 1]
            namespace = begin.removeprefix("persistent://").removesuffix("/")
        # Raises, and so says nothing, if that is no namespace yet.
        for name in topic_names(admin, namespace):
            yield begin + TopicName.parse(name).local_name

    return _found(context, incomplete, work)


def subscriptions(context: typer.Context, incomplete: str) -> list[str]:
    """Returns those of the topic that stands on the line already."""
    from magnetar.cli.name.names import subscription_names

    def work(admin: "AdminClient", target: Target) -> Iterator[str]:
        # Before `-s` has its value nothing on the line has been taken for the topic yet.
        topic = context.params.get("topic") or next(iter(context.args), "")
        if topic:
            yield from subscription_names(admin, target.full_name(topic))

    return _found(context, incomplete, work)


def namespaces(context: typer.Context, incomplete: str) -> list[str]:
    """Returns those of the tenant that was begun, or of all tenants."""
    from magnetar.cli.name.names import namespace_names, tenant_names

    def work(admin: "AdminClient", target: Target) -> Iterator[str]:
        tenant, slash, _ = incomplete.partition("/")
        for one in [tenant] if slash else tenant_names(admin):
            yield from namespace_names(admin, one)

    return _found(context, incomplete, work)


def tenants(context: typer.Context, incomplete: str) -> list[str]:
    from magnetar.cli.name.names import tenant_names

    return _found(context, incomplete, lambda admin, target: iter(tenant_names(admin)))


def _found(
    context: typer.Context, incomplete: str, work: "Callable[[AdminClient, Target], Iterator[str]]"
) -> list[str]:
    names: list[str] = []

    def ask() -> None:
        # All errors: there is nobody to tell.
        with suppress(Exception):
            target = choice_of(context).target()
            with target.admin(LIMIT_S) as admin:
                names.extend(work(admin, target))

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    return [name for name in list(names) if name.startswith(incomplete)][:NAMES_MAX]
