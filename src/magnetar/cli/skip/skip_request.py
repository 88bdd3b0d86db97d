"""The requests that skip messages by their ids, and how far they came, told on the way."""

from magnetar.cli.console import counted, status, warn
from magnetar.model import MessageId, TopicName
from magnetar.rest.admin_client import AdminClient
from magnetar.rest.skip.skip_request import BODY_BYTES_MAX, skip_part, skip_parts
from magnetar.rest.skip.skipped import Skipped

__all__ = ["send_skips"]


def send_skips(
    admin: AdminClient,
    topic: TopicName,
    subscription: str,
    ids: list[MessageId],
    *,
    recall: bool | None,
    bytes_max: int = BODY_BYTES_MAX,
) -> Skipped:
    """Skips all; says how far it came if it stops. Raises AdminError."""
    parts = admin.do(skip_parts(topic, ids, bytes_max))
    if len(parts) > 1:
        warn(
            f"{counted(len(ids), 'id')} are too many for one request: they go in {len(parts)}, "
            "each of one partition and each all or nothing"
        )
    skipped: list[Skipped] = []
    try:
        for part in parts:
            with status(f"skipping {counted(len(part), 'id')}"):
                skipped.append(admin.do(skip_part(topic, subscription, part, recall=recall)))
    except BaseException:
        if skipped:
            warn(
                f"{len(skipped)} of {len(parts)} requests are done, and the others changed "
                "nothing: the same command once more does the rest"
            )
        raise
    return sum(skipped[1:], skipped[0])
