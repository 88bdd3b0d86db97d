"""The answer to `skipByMessageIds`: nothing, or with `details` what became of each id.

Without details it is 204, as PIP-423 has it. If consumers did not confirm that they gave back
what they hold, a header says how many: their applications may still be handed it.
"""

import asyncio
from typing import Final

import msgspec

from magnetar.admin.http.response import Response
from magnetar.broker.topic.skip.skip import PIECE_IDS, Skip
from magnetar.broker.topic.skip.skip_result import IdResult, Takers

__all__ = ["UNCONFIRMED", "skip_answer"]

UNCONFIRMED: Final = "Magnetar-Unconfirmed"

NAMES: Final = {
    "taken_back_from": "takenBackFrom",
    "handed_out_to": "handedOutTo",
    "closed": "closed",
    "unconfirmed": "unconfirmed",
}


async def skip_answer(skip: Skip, *, details: bool) -> Response:
    takers = None if skip.recall is None else Takers(skip.recall)
    unconfirmed = 0 if takers is None else takers.unconfirmed()
    headers = {UNCONFIRMED: str(unconfirmed)} if unconfirmed else None
    if not details:
        return Response(status_code=204, headers=headers)
    while takers is not None and takers.look():  # noqa: ASYNC110, others have their turn
        await asyncio.sleep(0)
    pieces: list[bytes] = []
    for first in range(0, len(skip.results), PIECE_IDS):
        rows = [_row(one, takers) for one in skip.results[first : first + PIECE_IDS]]
        pieces.append(msgspec.json.encode(rows)[1:-1])
        await asyncio.sleep(0)
    body = b'{"skipped":%d,"unconfirmed":%d,"messageIds":[%b]}' % (
        skip.skipped,
        unconfirmed,
        b",".join(pieces),
    )
    return Response(body, 200, headers, "application/json")


def _row(result: IdResult, takers: Takers | None) -> dict[str, object]:
    id = result.id
    row: dict[str, object] = {"ledgerId": int(id.ledger_id), "entryId": int(id.entry_id)}
    if id.batch_index >= 0:
        row["batchIndex"] = int(id.batch_index)
    row["result"] = result.text
    if takers is not None:
        row.update((NAMES[kind], names) for kind, names in takers.of(result).items())
    return row
