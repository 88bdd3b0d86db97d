"""Skipping on a cluster that lacks the request: the ids are acked through a consumer.

`magnetar.rest.skip.ack_plan` says what is acked; here it is done, and told. The acks are not one
step, so that a failure may leave some done, which the command tells; the same command once more
does the rest.
"""

from magnetar.cli.console import track, warn
from magnetar.cli.target import current
from magnetar.model import MessageId, TopicName
from magnetar.model.subscription_type import ConsumerType
from magnetar.rest.admin_client import AdminClient
from magnetar.rest.skip.ack_plan import AckPlan, consumer_options, plan_acks

__all__ = ["skip_by_acks"]


def skip_by_acks(
    admin: AdminClient, topic: TopicName, subscription: str, ids: list[MessageId]
) -> int:
    """Acks the messages; returns how many were gone before.

    Raises AdminError and what is a UsageError, with nothing acked.
    """
    plan = admin.do(
        plan_acks(topic, subscription, ids, lambda some: track(some, "reading", len(some)))
    )
    if plan.doubt:
        warn(plan.doubt)
    warn(
        "this cluster cannot skip by message id: the messages are acked through a consumer "
        "instead, partition by partition and not as one step: a failure would leave some of them "
        "skipped"
    )
    if plan.kind == ConsumerType.KeyShared and plan.acks:
        warn(
            f"{subscription} is Key_Shared: while the messages are acked, keys that fall to this "
            "command's consumer wait"
        )
    _ack(plan)
    return plan.gone


def _ack(plan: AckPlan) -> None:
    """Acks what is planned, partition by partition; says how far it came if it stops."""
    done = 0
    options = consumer_options(plan)
    try:
        with current().client() as client:
            for part, ids in plan.acks.items():
                with client.subscribe(str(part), plan.subscription, **options) as consumer:
                    consumer.acknowledge(list(ids.values()))
                done += 1
    except BaseException:
        warn(
            f"messages of {done} of {len(plan.acks)} topics or partitions are skipped for sure, "
            "and some of the next one may be: the same command once more does the rest"
        )
        raise
