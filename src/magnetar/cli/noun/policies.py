"""Policies of topics and namespaces: `get-`, `set-` and `remove-` commands, from one table.

Names and options are those of `pulsar-admin`. A policy has one kind of value:

    number      set-max-producers TOPIC -p 10
    flag        set-deduplication TOPIC --enable
    words       set-subscription-types-enabled TOPIC -t Shared,Key_Shared
    word        set-schema-compatibility-strategy TOPIC -c BACKWARD
    its own     retention, backlog quotas, delayed delivery, inactive topics, auto-creation
"""

from collections.abc import Callable
from typing import Annotated, Final, NamedTuple, TypeAlias

import typer

from magnetar.cli.option import (
    Json,
    duration_s,
    namespace_argument,
    size_bytes,
    topic_argument,
    words,
)
from magnetar.cli.show import show_value
from magnetar.cli.target import current
from magnetar.errors import SettingsError
from magnetar.rest.path import namespace_path, topic_path

__all__ = ["POLICIES", "add_policies"]

NUMBER: Final = "number"
FLAG: Final = "flag"
WORD: Final = "word"
WORDS: Final = "words"
OWN: Final = "own"


class Policy(NamedTuple):
    """A policy: the name of its commands, its pieces of REST's paths, its kind of value."""

    name: str
    text: str
    kind: str
    # The last piece of the path; empty where there is no such policy.
    topic: str
    namespace: str
    # The name at namespaces, if it is another.
    namespace_name: str = ""
    options: tuple[str, ...] = ()
    method: str = "POST"
    # That of namespaces, if it is another.
    namespace_method: str = ""
    # A policy that is looked at under another piece.
    shown: str = ""
    # What its one option is, where it has but one.
    value: str = "Largest number; 0 means no limit."


POLICIES: Final = (
    Policy(
        "message-ttl",
        "when unacked messages expire, in seconds",
        NUMBER,
        "messageTTL",
        "messageTTL",
        options=("-ttl", "--messageTTL", "--ttl"),
        value="Seconds; 0 means never.",
    ),
    Policy("retention", "how long acked messages are kept", OWN, "retention", "retention"),
    Policy(
        "backlog-quota",
        "how large a backlog may get",
        OWN,
        "backlogQuota",
        "backlogQuota",
        shown="backlogQuotaMap",
    ),
    Policy(
        "max-unacked-messages-per-consumer",
        "how many messages a consumer may have unacked",
        NUMBER,
        "maxUnackedMessagesOnConsumer",
        "maxUnackedMessagesPerConsumer",
        options=("-m", "--maxNum", "-c"),
    ),
    Policy(
        "max-unacked-messages-per-subscription",
        "how many messages a subscription may have unacked",
        NUMBER,
        "maxUnackedMessagesOnSubscription",
        "maxUnackedMessagesPerSubscription",
        options=("-m", "--maxNum", "-c"),
    ),
    Policy(
        "max-producers",
        "how many producers a topic may have",
        NUMBER,
        "maxProducers",
        "maxProducersPerTopic",
        "max-producers-per-topic",
        options=("-p", "--max-producers"),
    ),
    Policy(
        "max-consumers",
        "how many consumers a topic may have",
        NUMBER,
        "maxConsumers",
        "maxConsumersPerTopic",
        "max-consumers-per-topic",
        options=("-c", "--max-consumers"),
    ),
    Policy(
        "max-subscriptions-per-topic",
        "how many subscriptions a topic may have",
        NUMBER,
        "maxSubscriptionsPerTopic",
        "maxSubscriptionsPerTopic",
        options=("-m", "--max-subscriptions-per-topic", "-s"),
    ),
    Policy(
        "max-consumers-per-subscription",
        "how many consumers a subscription may have",
        NUMBER,
        "maxConsumersPerSubscription",
        "maxConsumersPerSubscription",
        options=("-c", "--max-consumers-per-subscription"),
    ),
    Policy(
        "max-message-size",
        "how large a message may be, in bytes",
        NUMBER,
        "maxMessageSize",
        "",
        options=("-m", "--max-message-size"),
        value="Bytes; the broker's own limit counts too.",
    ),
    Policy(
        "compaction-threshold",
        "after how many published bytes a topic is compacted again",
        OWN,
        "compactionThreshold",
        "compactionThreshold",
        namespace_method="PUT",
    ),
    Policy(
        "max-topics-per-namespace",
        "how many topics a namespace may have",
        NUMBER,
        "",
        "maxTopicsPerNamespace",
        options=("-t", "--max-topics-per-namespace"),
    ),
    Policy(
        "deduplication",
        "whether what a producer sends twice is stored once",
        FLAG,
        "deduplicationEnabled",
        "deduplication",
    ),
    Policy(
        "delayed-delivery",
        "whether messages may wait for their time",
        OWN,
        "delayedDelivery",
        "delayedDelivery",
    ),
    Policy(
        "subscription-types-enabled",
        "which types subscriptions may have",
        WORDS,
        "subscriptionTypesEnabled",
        "subscriptionTypesEnabled",
        options=("-t", "--types"),
        value="Types, separated by commas, e.g. Shared,Key_Shared.",
    ),
    Policy(
        "inactive-topic-policies",
        "when topics that nobody uses are deleted",
        OWN,
        "inactiveTopicPolicies",
        "inactiveTopicPolicies",
    ),
    Policy(
        "auto-topic-creation",
        "whether topics are created when they are used",
        OWN,
        "",
        "autoTopicCreation",
    ),
    Policy(
        "auto-subscription-creation",
        "whether subscriptions are created when they are used",
        OWN,
        "",
        "autoSubscriptionCreation",
    ),
    Policy(
        "schema-compatibility-strategy",
        "what a new schema must be compatible with",
        WORD,
        "schemaCompatibilityStrategy",
        "schemaCompatibilityStrategy",
        options=("-c", "--compatibility"),
        value="Strategy, e.g. BACKWARD; UNDEFINED asks the next level.",
        method="PUT",
    ),
    Policy(
        "schema-validation-enforce",
        "whether producers must have a schema",
        FLAG,
        "schemaValidationEnforced",
        "schemaValidationEnforced",
    ),
    Policy(
        "auto-skip-non-recoverable-data",
        "whether subscriptions pass over damaged entries, or stop there",
        FLAG,
        "autoSkipNonRecoverableData",
        "autoSkipNonRecoverableData",
    ),
)

Enable: TypeAlias = Annotated[bool, typer.Option("-e", "--enable", help="Enable it.")]
Disable: TypeAlias = Annotated[bool, typer.Option("-d", "--disable", help="Disable it.")]


def add_policies(app: typer.Typer, *, of_topics: bool) -> None:
    """Gives an app the commands of all policies that topics, or namespaces, have."""
    for policy in POLICIES:
        piece = policy.topic if of_topics else policy.namespace
        if not piece:
            continue
        name = policy.name if of_topics else policy.namespace_name or policy.name
        place = _Place(policy, piece, of_topics=of_topics)
        above = "namespace's policy" if of_topics else "broker's setting"
        for verb, help, function in (
            ("get", f"Show {policy.text}.", _getter(place)),
            ("set", f"Set {policy.text}.", _setter(place)),
            ("remove", f"Remove the policy; the {above} applies.", _remover(place)),
        ):
            app.command(f"{verb}-{name}", help=help, rich_help_panel="Policies")(function)


class _Place:
    """A policy, of topics or of namespaces."""

    def __init__(self, policy: Policy, piece: str, *, of_topics: bool) -> None:
        self.policy = policy
        self.piece = piece
        self.of_topics = of_topics

    def path(self, name: str, piece: str = "") -> str:
        piece = piece or self.piece
        if self.of_topics:
            return topic_path(name, piece)
        return namespace_path(name, piece)

    @property
    def _method(self) -> str:
        other = "" if self.of_topics else self.policy.namespace_method
        return other or self.policy.method

    def put(self, name: str, value: object, **query: object) -> None:
        if self.of_topics and self.piece == "messageTTL":
            query["messageTTL"] = value  # where Pulsar looks for it
        with current().admin() as admin:
            admin.request(self._method, self.path(name), value, query)
        typer.echo(f"set {self.policy.name} of {name}")


def _getter(place: _Place) -> Callable[..., None]:
    def get(
        name: Annotated[str, _argument(place)],
        applied: Annotated[
            bool,
            typer.Option(
                "-ap",
                "--applied",
                help="Show the value in effect, even if it is set at a higher level.",
            ),
        ] = False,
        as_json: Json = False,
    ) -> None:
        with current().admin() as admin:
            found = admin.get(place.path(name, place.policy.shown), applied=applied or None)
        show_value(found, as_json=as_json)

    return get


def _remover(place: _Place) -> Callable[..., None]:
    def remove(
        name: Annotated[str, _argument(place)],
    ) -> None:
        with current().admin() as admin:
            admin.delete(place.path(name))
        typer.echo(f"removed {place.policy.name} of {name}")

    return remove


def _argument(place: _Place) -> object:
    return topic_argument() if place.of_topics else namespace_argument()


def _setter(place: _Place) -> Callable[..., None]:
    makers = {NUMBER: _number, FLAG: _flag, WORD: _word, WORDS: _words}
    own = {
        "retention": _retention,
        "backlog-quota": _backlog_quota,
        "compaction-threshold": _compaction_threshold,
        "delayed-delivery": _delayed_delivery,
        "inactive-topic-policies": _inactive_topics,
        "auto-topic-creation": _auto_topics,
        "auto-subscription-creation": _auto_subscriptions,
    }
    policy = place.policy
    maker = own[policy.name] if policy.kind == OWN else makers[policy.kind]
    return maker(place)


# ---- Values --------------------------------------------------------------------


def _option(place: _Place, metavar: str, min: int | None = None) -> object:
    policy = place.policy
    return typer.Option(*policy.options, metavar=metavar, min=min, help=policy.value)


def _number(place: _Place) -> Callable[..., None]:
    def set_number(
        name: Annotated[str, _argument(place)],
        number: Annotated[int, _option(place, "NUMBER", min=-1)],
    ) -> None:
        place.put(name, number)

    return set_number


def _flag(place: _Place) -> Callable[..., None]:
    def set_flag(
        name: Annotated[str, _argument(place)], enable: Enable = False, disable: Disable = False
    ) -> None:
        place.put(name, _chosen(enable, disable))

    return set_flag


def _chosen(enable: bool, disable: bool) -> bool:
    if enable == disable:
        raise SettingsError("--enable", "give either --enable or --disable")
    return enable


def _word(place: _Place) -> Callable[..., None]:
    def set_word(
        name: Annotated[str, _argument(place)],
        word: Annotated[str, _option(place, "NAME")],
    ) -> None:
        place.put(name, word)

    return set_word


def _words(place: _Place) -> Callable[..., None]:
    def set_words(
        name: Annotated[str, _argument(place)],
        names: Annotated[str, _option(place, "NAMES")],
    ) -> None:
        place.put(name, words(names))

    return set_words


def _retention(place: _Place) -> Callable[..., None]:
    def set_retention(
        name: Annotated[str, _argument(place)],
        time: Annotated[
            str,
            typer.Option(
                "-t",
                "--time",
                help="Retention time, e.g. 10m, 3h, 7d; 0 means none, -1 means forever.",
            ),
        ],
        size: Annotated[
            str,
            typer.Option(
                "-s",
                "--size",
                help="Retention size, e.g. 100M, 10G; 0 means none, -1 means no limit.",
            ),
        ],
    ) -> None:
        seconds, kept_bytes = duration_s("-t", time), size_bytes("-s", size)
        body = {
            "retentionTimeInMinutes": -1 if seconds < 0 else -(-seconds // 60),
            "retentionSizeInMB": -1 if kept_bytes < 0 else -(-kept_bytes // (1 << 20)),
        }
        place.put(name, body)

    return set_retention


def _backlog_quota(place: _Place) -> Callable[..., None]:
    def set_backlog_quota(
        name: Annotated[str, _argument(place)],
        policy: Annotated[
            str,
            typer.Option(
                "-p",
                "--policy",
                help="Action beyond the quota: producer_request_hold, producer_exception or "
                "consumer_backlog_eviction.",
            ),
        ],
        limit: Annotated[str, typer.Option("-l", "--limit", help="Size limit, e.g. 10G.")] = "-1",
        limit_time: Annotated[
            str, typer.Option("-lt", "--limitTime", help="Time limit, e.g. 3600 or 1h.")
        ] = "-1",
        kind: Annotated[
            str,
            typer.Option(
                "-t", "--type", help="Type of the quota: destination_storage or message_age."
            ),
        ] = "destination_storage",
    ) -> None:
        body = {
            "limitSize": size_bytes("-l", limit),
            "limitTime": duration_s("-lt", limit_time),
            "policy": policy,
        }
        place.put(name, body, backlogQuotaType=kind)

    return set_backlog_quota


def _compaction_threshold(place: _Place) -> Callable[..., None]:
    def set_compaction_threshold(
        name: Annotated[str, _argument(place)],
        threshold: Annotated[
            str,
            typer.Option(
                "-t",
                "--threshold",
                help="Size that is published between two compactions, e.g. 100M; 0 means never.",
            ),
        ],
    ) -> None:
        place.put(name, size_bytes("-t", threshold))

    return set_compaction_threshold


def _delayed_delivery(place: _Place) -> Callable[..., None]:
    def set_delayed_delivery(
        name: Annotated[str, _argument(place)],
        enable: Enable = False,
        disable: Disable = False,
        time: Annotated[str, typer.Option("-t", "--time", help="Tick time, e.g. 1s.")] = "1s",
        max_delay: Annotated[
            str, typer.Option("-md", "--maxDelay", help="Longest delay allowed; 0 means no limit.")
        ] = "0",
    ) -> None:
        body = {
            "active": _chosen(enable, disable),
            "tickTime": duration_s("-t", time) * 1000,
            "maxDeliveryDelayInMillis": duration_s("-md", max_delay) * 1000,
        }
        place.put(name, body)

    return set_delayed_delivery


def _inactive_topics(place: _Place) -> Callable[..., None]:
    def set_inactive_topics(
        name: Annotated[str, _argument(place)],
        enable: Annotated[
            bool,
            typer.Option("-e", "--enable-delete-while-inactive", help="Delete unused topics."),
        ] = False,
        disable: Annotated[
            bool,
            typer.Option("-d", "--disable-delete-while-inactive", help="Keep unused topics."),
        ] = False,
        time: Annotated[
            str,
            typer.Option(
                "-t",
                "--max-inactive-duration",
                help="Time without use before a topic is deleted, e.g. 1h.",
            ),
        ] = "60s",
        mode: Annotated[
            str,
            typer.Option(
                "-m",
                "--delete-mode",
                help="Mode: delete_when_no_subscriptions or delete_when_subscriptions_caught_up.",
            ),
        ] = "delete_when_no_subscriptions",
    ) -> None:
        body = {
            "inactiveTopicDeleteMode": mode,
            "maxInactiveDurationSeconds": duration_s("-t", time),
            "deleteWhileInactive": _chosen(enable, disable),
        }
        place.put(name, body)

    return set_inactive_topics


def _auto_topics(place: _Place) -> Callable[..., None]:
    def set_auto_topics(
        name: Annotated[str, _argument(place)],
        enable: Enable = False,
        disable: Disable = False,
        kind: Annotated[
            str,
            typer.Option(
                "-t", "--type", help="Type of created topics: partitioned or non-partitioned."
            ),
        ] = "non-partitioned",
        partitions: Annotated[
            int,
            typer.Option(
                "-n",
                "--num-partitions",
                help="Number of partitions of a created partitioned topic.",
                min=0,
            ),
        ] = 0,
    ) -> None:
        body: dict[str, object] = {
            "allowAutoTopicCreation": _chosen(enable, disable),
            "topicType": kind,
        }
        if partitions:
            body["defaultNumPartitions"] = partitions
        place.put(name, body)

    return set_auto_topics


def _auto_subscriptions(place: _Place) -> Callable[..., None]:
    def set_auto_subscriptions(
        name: Annotated[str, _argument(place)], enable: Enable = False, disable: Disable = False
    ) -> None:
        place.put(name, {"allowAutoSubscriptionCreation": _chosen(enable, disable)})

    return set_auto_subscriptions
