"""Who took messages away from whom: one line in the log for each, on a logger of its own.

`magnetar.audit` is what to keep, or to send elsewhere. A line is written when the skip is
durable, before consumers have given anything back, so that none is missing.
"""

import logging
from typing import Final

from magnetar.admin.http.call import Call
from magnetar.model.message_id_data import MessageIdData

__all__ = ["audit_skip"]

# The ids of a line; a request may have a hundred thousand.
IDS_SHOWN: Final = 10

log = logging.getLogger("magnetar.audit")


def audit_skip(call: Call, ids: list[MessageIdData], skipped: int, *, recall: bool) -> None:
    """Messages were skipped by their ids."""
    principal, client = call.principal, call.request.client
    log.info(
        "skipByMessageIds: role %s from %s, subscription %r of %s: %d ids, %d messages skipped, "
        "%s: %s%s",
        "-" if principal is None else repr(principal.role),
        "-" if client is None else client.host,
        call.path["subscription"],
        call.topic_name,
        len(ids),
        skipped,
        "taken back from consumers" if recall else "left with consumers",
        " ".join(map(_shown, ids[:IDS_SHOWN])),
        " ..." if len(ids) > IDS_SHOWN else "",
    )


def _shown(id: MessageIdData) -> str:
    place = f"{id.ledger_id}:{id.entry_id}"
    return place if id.batch_index < 0 else f"{place}:{id.batch_index}"
