"""Verifying a compacted view: its facts, its table and its ledger tell the same story."""

from magnetar.errors import CorruptionError
from magnetar.storage.compaction.view_facts import decode_view_facts
from magnetar.storage.compaction.view_table import ViewTable, piece_count
from magnetar.storage.disk.disk import Disk
from magnetar.storage.ledger.ledger_index import index_path
from magnetar.storage.log.job import read_bodies
from magnetar.storage.log.record import HEAD_BYTES
from magnetar.storage.state import LedgerState

__all__ = ["view_faults"]


def view_faults(disk: Disk, salt: int, ledger: LedgerState) -> list[str]:
    """Returns what is wrong with a view that is sealed; nothing, mostly."""
    path = index_path(ledger.id)
    try:
        facts = decode_view_facts(path, ledger.view)
        pieces = piece_count(facts.entries)
        count = ledger.index.count()
        if count != facts.entries + pieces:
            return [f"the view has {facts.entries} entries, and the ledger {count}"]
        table = ViewTable()
        for number in range(facts.entries, count):
            place = (ledger.index.address(number), HEAD_BYTES + ledger.index.length(number))
            table.take_in(path, read_bodies(disk, [place], salt)[0])
    except CorruptionError as error:
        return [str(error)]
    faults: list[str] = []
    if len(table) != facts.entries:
        faults.append(f"the table has {len(table)} positions for {facts.entries} entries")
    if not table.ascends():
        faults.append("the positions of the table do not ascend")
    elif len(table) > 0 and table.position(len(table) - 1) > facts.through:
        faults.append("the view has entries behind its end")
    return faults
