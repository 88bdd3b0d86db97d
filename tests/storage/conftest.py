"""One store on two disks: the contract suite runs on memory and on files."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from storage.workload import Clock, small_options

from magnetar.storage import Disk, FileDisk, MemoryDisk, Store, StoreOptions, check, open_store


class House:
    """A data directory, and the store that lives in it. `check` runs whenever it is left."""

    def __init__(self, make_disk: Callable[[], Disk], options: StoreOptions) -> None:
        self._make_disk = make_disk
        self.options = options
        self.clock = Clock()
        self.disk = make_disk()
        self.store: Store = open_store(self.disk, self.clock, options)

    def reopen(self, *, clean: bool = True, options: StoreOptions | None = None) -> Store:
        """Closes the store and opens it again, or leaves it as a kill would."""
        self.leave(clean=clean)
        self.disk = self._make_disk()
        self.store = open_store(self.disk, self.clock, options or self.options)
        assert self.store.clean or not clean
        return self.store

    def leave(self, *, clean: bool = True) -> None:
        if clean:
            self.store.close()
        else:
            self.disk.close()
        assert check(self._make_disk()) == []

    def work_off(self) -> None:
        """All maintenance there is to do."""
        waits = 0
        while waits < 5:
            waits = 0 if self.work_off_once() else waits + 1

    def work_off_once(self) -> bool:
        """A step of it; whether there was anything to do."""
        busy = self.store.maintain()
        outcomes = self.store.flush()
        self.clock.now_ms += 10
        return busy or bool(outcomes)


@pytest.fixture(params=["memory", "file"])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[House]:
    memory = MemoryDisk()

    def make_disk() -> Disk:
        return memory if request.param == "memory" else FileDisk(tmp_path / "data")

    house = House(make_disk, small_options())
    yield house
    house.leave()
