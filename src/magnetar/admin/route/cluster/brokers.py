"""Brokers: there is one. Whether it is well, and what it was told."""

import asyncio
from typing import Final

import magnetar
from magnetar.admin.http.answer import (
    BAD_REQUEST,
    NOT_FOUND,
    PRECONDITION,
    UNAVAILABLE,
    Refusal,
    json_answer,
    no_content,
    text_answer,
)
from magnetar.admin.http.bridge import durable
from magnetar.admin.http.call import Call
from magnetar.admin.http.required_permission import ANYONE, PUBLIC, SUPERUSER
from magnetar.admin.http.response import Response
from magnetar.admin.http.route import Route
from magnetar.admin.http.shape import (
    FLAG,
    PLAIN,
    REFUSAL,
    TEXT,
    TEXT_MAP,
    TEXTS,
    Json,
    answers,
    each,
    map_of,
    object_of,
    record,
)
from magnetar.broker.namespace.bundles import bundles_of
from magnetar.broker.setting.broker_conf_keys import HONOURED
from magnetar.broker.setting.setting import Value
from magnetar.broker.setting.settings import SETTINGS
from magnetar.errors import StorageError, StorageReadOnlyError
from magnetar.storage.store import Store

__all__ = ["BROKERS", "ROUTES"]

# A disk that takes longer than this for what is on its way is not well.
HEALTH_SECONDS: Final = 5.0


async def list_brokers(call: Call) -> Response:
    """Returns the address of this broker, which is the whole cluster."""
    call.admin.require_cluster(call.path.get("cluster", call.admin.cluster))
    return json_answer([call.admin.broker_id])


async def health(call: Call) -> Response:
    """Checks that messages can be stored, and that those queued so far have been."""
    store = call.broker.store
    _require_writable(store)
    if store.full:
        raise Refusal(
            UNAVAILABLE, "the disk is full: free some space, or acknowledge what is stored"
        )
    try:
        await asyncio.wait_for(durable(call.broker), HEALTH_SECONDS)
    except TimeoutError:
        raise Refusal(
            UNAVAILABLE, f"the disk has not written anything for {HEALTH_SECONDS:.0f} seconds"
        ) from None
    except StorageError as error:
        raise Refusal(UNAVAILABLE, str(error)) from error
    return text_answer("ok")


async def ready(call: Call) -> Response:
    """Checks that the broker serves; passing trouble does not count."""
    _require_writable(call.broker.store)
    return text_answer("ok")


async def live(call: Call) -> Response:
    """Answers if the process is alive."""
    return text_answer("ok")


def _require_writable(store: Store) -> None:
    if store.read_only_reason:
        raise Refusal(UNAVAILABLE, str(StorageReadOnlyError(store.read_only_reason)))


async def version(call: Call) -> Response:
    """Returns the version of the broker."""
    return text_answer(magnetar.__version__)


async def leader(call: Call) -> Response:
    """Returns the address of this broker, which leads itself."""
    return json_answer({"brokerId": call.admin.broker_id, "serviceUrl": call.admin.http_url})


async def runtime_configuration(call: Call) -> Response:
    """Returns all settings, under our names, and under Pulsar's where Pulsar has them."""
    settings = call.broker.settings
    found = {
        key: _text(_shown(name, _in_units(settings.value_of(name), factor)))
        for key, (name, factor) in HONOURED.items()
    }
    partitioned = settings.auto_create_partitions > 0
    found["allowAutoTopicCreationType"] = "partitioned" if partitioned else "non-partitioned"
    found.update({name: _text(_shown(name, settings.value_of(name))) for name in SETTINGS})
    return json_answer(found)


def _shown(name: str, value: Value) -> Value:
    return "*****" if SETTINGS[name].secret and value else value


def _in_units(value: Value, factor: int) -> Value:
    if isinstance(value, bool) or not isinstance(value, int) or factor <= 1 or value < 0:
        return value
    return value // factor


def _text(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, tuple) else str(value)


async def dynamic_names(call: Call) -> Response:
    """Returns the names of settings that can be changed while the broker runs: there are none."""
    return json_answer([])


async def dynamic_values(call: Call) -> Response:
    """Returns the settings that were changed while the broker runs: there are none."""
    return json_answer({})


async def change_configuration(call: Call) -> Response:
    """Always refuses: settings are in files and arguments."""
    raise Refusal(
        PRECONDITION,
        "Can't update non-dynamic configuration: settings are read at the start; change them "
        "there, and start the broker anew",
    )


async def check_quotas(call: Call) -> Response:
    """Looks now at which topics exceed their backlog quotas."""
    call.broker.upkeep.check_quotas()
    return no_content()


async def owned_namespaces(call: Call) -> Response:
    """Returns the bundles that a broker has: all, if it is this one."""
    if call.path["broker"] != call.admin.broker_id:
        raise Refusal(NOT_FOUND, f"there is one broker, {call.admin.broker_id}")
    owned = {"broker_assignment": "shared", "is_controlled": False, "is_active": True}
    return json_answer(
        {
            f"{name}/{bundle}": owned
            for name, policies in sorted(call.broker.directory.namespaces.items())
            for bundle in bundles_of(policies.bundles).names()
        }
    )


async def metadata_migration(call: Call) -> Response:
    """Returns that metadata are not on their way to another store."""
    return json_answer({"phase": "NOT_STARTED"})


async def migrate_metadata(call: Call) -> Response:
    """Always refuses: there is no other store."""
    raise Refusal(BAD_REQUEST, "there is no other store for metadata: they are in this directory")


async def internal_configuration(call: Call) -> Response:
    """Returns what Pulsar tells of its metadata stores, as far as there is anything."""
    return json_answer({"metadataStoreUrl": "", "configurationMetadataStoreUrl": ""})


OWNED: Final[Json] = record(broker_assignment=TEXT, **each(FLAG, "is_controlled", "is_active"))

BROKERS: Final = "/admin/v2/brokers"
ROUTES: Final[list[Route]] = [
    Route("GET", BROKERS, list_brokers, SUPERUSER, answer=answers(TEXTS)),
    Route("GET", f"{BROKERS}/{{cluster}}", list_brokers, SUPERUSER, answer=answers(TEXTS)),
    Route("GET", f"{BROKERS}/health", health, ANYONE, answer=PLAIN),
    Route("GET", f"{BROKERS}/ready", ready, PUBLIC, answer=PLAIN),
    Route("GET", f"{BROKERS}/live", live, PUBLIC, answer=PLAIN),
    Route("GET", f"{BROKERS}/version", version, ANYONE, answer=PLAIN),
    Route(
        "GET",
        f"{BROKERS}/leaderBroker",
        leader,
        SUPERUSER,
        answer=answers(object_of(brokerId=TEXT, serviceUrl=TEXT)),
    ),
    Route("GET", f"{BROKERS}/configuration", dynamic_names, SUPERUSER, answer=answers(TEXTS)),
    Route(
        "GET",
        f"{BROKERS}/configuration/values",
        dynamic_values,
        SUPERUSER,
        answer=answers(TEXT_MAP),
    ),
    Route(
        "GET",
        f"{BROKERS}/configuration/runtime",
        runtime_configuration,
        SUPERUSER,
        answer=answers(TEXT_MAP),
    ),
    Route(
        "POST",
        f"{BROKERS}/configuration/{{name}}/{{value}}",
        change_configuration,
        SUPERUSER,
        answer=REFUSAL,
    ),
    Route(
        "DELETE",
        f"{BROKERS}/configuration/{{name}}",
        change_configuration,
        SUPERUSER,
        answer=REFUSAL,
    ),
    Route(
        "GET",
        f"{BROKERS}/internal-configuration",
        internal_configuration,
        SUPERUSER,
        answer=answers(TEXT_MAP),
    ),
    Route("GET", f"{BROKERS}/backlog-quota-check", check_quotas, SUPERUSER),
    Route(
        "GET",
        f"{BROKERS}/{{cluster}}/{{broker}}/ownedNamespaces",
        owned_namespaces,
        SUPERUSER,
        answer=answers(map_of(OWNED)),
    ),
    Route(
        "GET",
        "/admin/v2/metadata/migration/status",
        metadata_migration,
        SUPERUSER,
        answer=answers(object_of(phase=TEXT)),
    ),
    Route(
        "POST",
        "/admin/v2/metadata/migration/start",
        migrate_metadata,
        SUPERUSER,
        query={"target": TEXT},
        answer=REFUSAL,
    ),
    Route("GET", "/status.html", ready, PUBLIC, answer=PLAIN),
    Route("GET", "/healthz", live, PUBLIC, answer=PLAIN),
]
