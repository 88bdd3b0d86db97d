"""Who took messages away from whom: one line in the log for each, on a logger of its own.

`magnetar.audit` is what to keep, or to send elsewhere. A line is written when the skip is
durable, before consumers have given anything back, so that none is missing.
"""

import logging
from typing import Final

from magnetar.admin.http.call import Call
from magnetar.model.message_id_data import MessageIdData

__all__ = ["audit_redrive", "audit_skip"]

# The ids of a line; a request may have a hundred thousand.
IDS_SHOWN: Final = 10

log = logging.getLogger("magnetar.audit")


def audit_skip(call: Call, ids: list[MessageIdData], skipped: int, *, recall: bool) -> None:
    """Messages were skipped by their ids."""
    left = "taken back from consumers" if recall else "left with consumers"
    _audit(call, ids, "skipByMessageIds", f"{skipped} messages skipped, {left}")


def audit_redrive(call: Call, ids: list[MessageIdData]) -> None:
    """Dead letters went back, and were skipped where they were."""
    _audit(call, ids, "redrive", "published to their topics and skipped")


def _audit(call: Call, ids: list[MessageIdData], what: str, outcome: str) -> None:
    principal, client = call.principal, call.request.client
    log.info(
        "%s: role %s from %s, subscription %r of %s: %d ids, %s: %s%s",
        what,
        "-" if principal is None else repr(principal.role),
        "-" if client is None else client.host,
        call.path["subscription"],
        call.topic_name,
        len(ids),
        outcome,
        " ".join(map(_shown, ids[:IDS_SHOWN])),
        " ..." if len(ids) > IDS_SHOWN else "",
    )


def _shown(id: MessageIdData) -> str:
    place = f"{id.ledger_id}:{id.entry_id}"
    return place if id.batch_index < 0 else f"{place}:{id.batch_index}"
