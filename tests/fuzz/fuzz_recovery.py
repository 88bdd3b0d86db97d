"""A data directory that was damaged is opened: with all that was there, with less and a report, or
with an error of ours.

| outcome                | what is asked of it                                                |
|------------------------|--------------------------------------------------------------------|
| a StorageError         | not a byte was changed; `check` finds a violation                   |
| a store                | entries are those that were published, or cannot be read; there are |
|                        | fewer only if a cut is reported or the end of the log was damaged;  |
|                        | acks are some that were given; the store takes more, and opens again|
| `check` found nothing  | the store opens, and `check` still finds nothing                    |

Nothing else is ever raised, and neither time nor memory grows with what damaged bytes claim.
`run.py` has the command.
"""

from typing import Final

from fuzz.damage import LIVES, Damage, Life, life
from fuzz.draw import Draw
from fuzz.judge import bounded, timed
from storage.workload import small_options

from magnetar.errors import StorageError
from magnetar.model import Position
from magnetar.storage import MemoryDisk, Store, check, open_store

EVERYTHING: Final = 1 << 40


class Opening:
    """One input: a directory, its damage, and what came of it."""

    def __init__(self, data: bytes) -> None:
        draw = Draw(data)
        self.life: Final[Life] = life(draw.below(LIVES))
        self.damage: Final = Damage(draw, self.life)
        self.damage.run()
        self.disk: Final = MemoryDisk(salt=self.life.salt)
        self.disk.files = {path: bytearray(data) for path, data in self.damage.files.items()}

    def run(self) -> None:
        with timed("check"):
            violations = check(self.disk)
        try:
            with timed("open_store"):
                store = self._open()
        except StorageError as error:
            self._check_refused(error, bool(violations))
            return
        if not self.damage.forged:
            self._check_content(store)
        else:
            self._read_all(store)
        self._check_usable(store, bool(violations))

    def _open(self) -> Store:
        now_ms = self.life.now_ms + 1000
        return open_store(self.disk, lambda: now_ms, small_options())

    def _check_refused(self, error: StorageError, violated: bool) -> None:
        files = {path: bytes(data) for path, data in self.disk.files.items()}
        assert files == self.damage.files, f"changed, though refused: {error}"
        assert violated, f"check finds nothing, but: {error}"

    # ---- Content ---------------------------------------------------------------

    def _check_content(self, store: Store) -> None:
        found, unreadable = self._read_all(store)
        for key, data in found.items():
            assert self.life.entries.get(key) == data, f"{key} is not what was published"
        missing = self.life.kept - set(found) - unreadable
        if missing and not store.cuts:
            assert self.life.last in self.damage.touched, f"lost without a word: {missing}"
        self._check_acks(store)

    def _read_all(self, store: Store) -> tuple[dict[tuple[int, int], bytes], set[tuple[int, int]]]:
        """The entries that there are, and those that cannot be read."""
        found: dict[tuple[int, int], bytes] = {}
        unreadable: set[tuple[int, int]] = set()
        with timed("reading all"):
            for topic_id in store.topics():
                for ledger in store.ledgers(topic_id):
                    for entry_id in range(ledger.entries):
                        key = (ledger.id, entry_id)
                        data = self._read(store, Position(*key))
                        if data is None:
                            unreadable.add(key)
                        else:
                            found[key] = data
        return found, unreadable

    def _read(self, store: Store, position: Position) -> bytes | None:
        try:
            plan = store.plan_entries([position])
        except StorageError:
            return None
        try:
            plan.run(self.disk)
        except StorageError:
            return None
        finally:
            store.finish_read(plan)
        (entry,) = plan.entries
        return entry.data

    def _check_acks(self, store: Store) -> None:
        for topic_id, name in store.topics().items():
            for cursor_id in store.cursor_ids(topic_id):
                try:
                    image = store.cursor_image(cursor_id)
                except StorageError:
                    continue
                acked = {int(n) for n in image.snapshot.split()} | {int(n) for n in image.deltas}
                assert acked <= self.life.acks.get(name, set()), "acks that nobody gave"

    # ---- What follows ----------------------------------------------------------

    def _check_usable(self, store: Store, violated: bool) -> None:
        topic_id = store.create_topic("new")
        store.flush()
        position = store.append(topic_id, b"more", batch_size=1, publish_time_ms=1)
        outcomes = store.flush()
        assert not store.read_only_reason, store.read_only_reason
        assert all(outcome.error is None for outcome in outcomes)
        assert self._read(store, position) == b"more"
        store.close()
        with timed("check"):
            found = check(self.disk)
        assert violated or not found, found
        with timed("open_store"):
            again = self._open()
        assert not again.cuts, again.cuts
        assert self._read(again, position) == b"more"
        again.close()


def one_input(data: bytes) -> None:
    with bounded("the input"):
        Opening(data).run()
