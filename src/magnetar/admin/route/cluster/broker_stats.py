"""Broker stats: all topics in one request, and what the broker itself carries.

Paths and names are Pulsar's. Pulsar has these figures from a minute ago at most; here they are
of the moment. They are put together a few topics at a time, so that nobody waits for whoever
watches. Topics that nobody has used since the start are not loaded, and not among them.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Final

import msgspec

import magnetar
from magnetar.admin.backlog.stats_shape import COUNTED_STATS
from magnetar.admin.backlog.topic_stats import StatsOptions, topic_figures
from magnetar.admin.http.answer import (
    CONFLICT,
    NOT_ACCEPTABLE,
    Refusal,
    json_answer,
    long_json_answer,
)
from magnetar.admin.http.call import Call
from magnetar.admin.http.required_permission import SUPERUSER
from magnetar.admin.http.response import Response
from magnetar.admin.http.route import Route
from magnetar.admin.http.shape import (
    AMOUNT,
    FLAG,
    NULL,
    REFUSAL,
    TEXT,
    WHOLE,
    Json,
    answers,
    each,
    either,
    list_of,
    map_of,
    record,
)
from magnetar.broker.namespace.bundles import bundles_of
from magnetar.broker.topic.topic import Topic
from magnetar.storage import FileDisk
from magnetar.storage.store import Store

__all__ = ["ROUTES"]

# So many topics are looked at before others have their turn.
TOPICS_AT_ONCE: Final = 20


async def get_topics(call: Call) -> Response:
    """Returns the stats of all loaded topics, by namespace, bundle and domain."""
    options = StatsOptions(
        backlog_size=call.flag("subscriptionBacklogSize"),
        earliest_time=call.flag("getEarliestTimeInBacklog"),
    )
    found: dict[str, dict[str, dict[str, dict[str, msgspec.Raw]]]] = {}
    async for topic in _in_turns(call.broker.topics.values()):
        figures = await topic_figures(topic, options, call.admin.broker_id)
        figures["producerCount"] = len(topic.producers)
        told = call.broker.directory.namespaces.get(topic.name.namespace)
        name = bundles_of([] if told is None else told.bundles).of(str(topic.name))
        bundle = found.setdefault(topic.name.namespace, {}).setdefault(name, {})
        domain = bundle.setdefault("persistent" if topic.name.persistent else "non-persistent", {})
        domain[str(topic.name)] = msgspec.Raw((await long_json_answer(figures)).body)
    return json_answer(found)


async def _in_turns(topics: Iterable[Topic]) -> AsyncIterator[Topic]:
    """Yields those that are not closed meanwhile; other work has its turn between them."""
    for number, topic in enumerate(list(topics)):
        if number % TOPICS_AT_ONCE == TOPICS_AT_ONCE - 1:
            await asyncio.sleep(0)
        if not topic.closed:
            yield topic


async def get_load_report(call: Call) -> Response:
    """Returns what the broker carries, and how its storage is."""
    rates = [0.0, 0.0, 0.0, 0.0]
    topics = producers = consumers = 0
    async for topic in _in_turns(call.broker.topics.values()):
        topics += 1
        producers += len(topic.producers)
        reading = [one for found in topic.subscriptions.values() for one in found.consumers]
        consumers += len(reading)
        rates[0] += topic.incoming.message_rate
        rates[1] += topic.incoming.byte_rate
        rates[2] += sum([one.out.message_rate for one in reading])
        rates[3] += sum([one.out.byte_rate for one in reading])
    return json_answer(
        {
            "webServiceUrl": call.admin.http_url,
            "pulsarServiceUrl": call.admin.server.url,
            "brokerVersionString": magnetar.__version__,
            "startTimestamp": call.broker.started_ms,
            "msgRateIn": rates[0],
            "msgThroughputIn": rates[1],
            "msgRateOut": rates[2],
            "msgThroughputOut": rates[3],
            "numTopics": topics,
            "numProducers": producers,
            "numConsumers": consumers,
            "numConnections": call.broker.sessions,
            "storage": _storage(call.broker.store),
        }
    )


def _storage(store: Store) -> dict[str, object]:
    """Our own: Pulsar keeps nothing on its brokers' disks. No number of free bytes in memory."""
    on_disk = isinstance(store.log.disk, FileDisk)
    return {
        "freeBytes": store.log.free_bytes if on_disk else None,
        "watermarkBytes": store.log.options.watermark_bytes,
        "full": store.full,
        "readOnlyReason": store.read_only_reason,
        "retrying": dict(store.setbacks.present),
    }


async def get_metrics(call: Call) -> Response:
    """Returns a few figures in the form of Pulsar's monitors; /metrics has all of them."""
    topics = call.broker.topics.values()
    return json_answer(
        [
            {
                "metrics": {
                    "brk_topics_count": len(call.broker.topics),
                    "brk_producers_count": sum([len(topic.producers) for topic in topics]),
                    "brk_consumers_count": sum([topic.consumer_count() for topic in topics]),
                },
                "dimensions": {"cluster": call.admin.cluster, "metric": "broker"},
            }
        ]
    )


async def get_beans(call: Call) -> Response:
    """Returns the beans of the Java machine: there is none."""
    return json_answer([])


async def get_bookie_operations(call: Call) -> Response:
    """Returns what bookies were asked for: there are none."""
    return json_answer({})


async def get_allocator(call: Call) -> Response:
    """Always refuses: there is no Java machine with allocators."""
    raise Refusal(
        NOT_ACCEPTABLE,
        f"Invalid allocator name : {call.path['allocator']}; there is no Java machine here, and "
        "/metrics has the memory of the process",
    )


async def get_availability(call: Call) -> Response:
    """Always refuses: one broker has no load to place."""
    raise Refusal(CONFLICT, "there is no load manager: one broker has all topics")


BROKER_STATS: Final = "/admin/v2/broker-stats"
# Namespaces, bundles, domains, topics.
TOPICS: Final[Json] = map_of(map_of(map_of(map_of(COUNTED_STATS))))
LOAD_REPORT: Final[Json] = record(
    **each(TEXT, "webServiceUrl", "pulsarServiceUrl", "brokerVersionString"),
    **each(AMOUNT, "msgRateIn", "msgThroughputIn", "msgRateOut", "msgThroughputOut"),
    **each(WHOLE, "startTimestamp", "numTopics", "numProducers", "numConsumers"),
    numConnections=WHOLE,
    storage=record(
        freeBytes=either(WHOLE, NULL),
        watermarkBytes=WHOLE,
        full=FLAG,
        readOnlyReason=TEXT,
        retrying=map_of(TEXT),
    ),
)

ROUTES: Final[list[Route]] = [
    Route(
        "GET",
        f"{BROKER_STATS}/topics",
        get_topics,
        SUPERUSER,
        query={"subscriptionBacklogSize": FLAG, "getEarliestTimeInBacklog": FLAG},
        answer=answers(TOPICS),
    ),
    Route(
        "GET",
        f"{BROKER_STATS}/load-report",
        get_load_report,
        SUPERUSER,
        answer=answers(LOAD_REPORT),
    ),
    Route(
        "GET",
        f"{BROKER_STATS}/metrics",
        get_metrics,
        SUPERUSER,
        answer=answers(list_of(record(metrics=map_of(AMOUNT), dimensions=map_of(TEXT)))),
    ),
    Route("GET", f"{BROKER_STATS}/mbeans", get_beans, SUPERUSER, answer=answers(list_of(TEXT))),
    Route(
        "GET",
        f"{BROKER_STATS}/bookieops",
        get_bookie_operations,
        SUPERUSER,
        answer=answers(map_of(TEXT)),
    ),
    Route(
        "GET",
        f"{BROKER_STATS}/allocator-stats/{{allocator}}",
        get_allocator,
        SUPERUSER,
        answer=REFUSAL,
    ),
    Route(
        "GET",
        f"{BROKER_STATS}/broker-resource-availability/{{tenant}}/{{namespace}}",
        get_availability,
        SUPERUSER,
        answer=REFUSAL,
    ),
]
