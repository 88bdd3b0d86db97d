"""Bugs of compaction, planted; see `plants.py`."""

from collections.abc import Callable
from typing import Any

from sim.plants import Plant

COMPACTION = "magnetar.broker.topic.compaction"


def _keeps_first(original: Callable[..., Any]) -> Callable[..., Any]:
    def put(self: Any, key: bytes, number: int) -> None:
        if not any(key in shard for shard in self._shards):
            original(self, key, number)

    return put


def _forgets_view(original: Callable[..., Any]) -> Callable[..., Any]:
    def source(*args: Any) -> Any:
        *others, _, _ = args
        found = original(*others, None, None)
        if args[-2] is not None:
            through = args[-2].facts.through
            found._at = type(through)(through.ledger_id, through.entry_id + 1)
        return found

    return source


def _whole_batches(original: Callable[..., Any]) -> Callable[..., Any]:
    def stays(self: Any, batch: Any, index: int, number: int) -> bool:
        return any(original(self, batch, i, number - index + i) for i in range(len(batch.keys)))

    return stays


COMPACTION_PLANTS = [
    Plant(
        "the first message of a key is kept, not the last",
        f"{COMPACTION}.key_map:KeyMap.put",
        _keeps_first,
        0,
        life="compaction",
    ),
    Plant(
        "the second compaction forgets what only the view has",
        f"{COMPACTION}.compaction_run:Source",
        _forgets_view,
        0,
        life="compaction",
    ),
    Plant(
        "a batch is kept whole for one of its messages",
        f"{COMPACTION}.kept_entries:KeptEntries._stays",
        _whole_batches,
        1,
        life="compaction",
    ),
    Plant(
        "the last message is waited for though compaction left it out",
        "magnetar.broker.session.session_consumers:last_of_view",
        lambda original: lambda topic, last: last,
        1,
        life="compaction",
    ),
]
