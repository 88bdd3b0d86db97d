"""What a crash leaves of a disk, and the faults that a seed brings."""

from collections.abc import Callable
from functools import partial
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.storage import DiskError, DiskFullError, DiskShortageError
from magnetar.testing import DiskFaults, PowerLost, ProcessKilled, SimDisk

SIZE = 4096
WRITES = st.lists(
    st.tuples(
        st.integers(0, SIZE - 1), st.binary(min_size=1, max_size=1500), st.sampled_from("wsd")
    ),
    max_size=12,
)


def new_disk(seed: int = 0, faults: DiskFaults | None = None) -> SimDisk:
    disk = SimDisk(Random(seed), faults=faults)
    disk.create("file", SIZE)
    return disk


def apply(disk: SimDisk, writes: list[tuple[int, bytes, str]]) -> None:
    """Writes (w), synced writes (d), and writes with a sync of all behind them (s)."""
    for offset, data, kind in writes:
        disk.write("file", offset, data, sync=kind == "d")
        if kind == "s":
            disk.sync("file")


@given(writes=WRITES, seed=st.integers(0, 2**32))
def test_after_a_power_cut_every_sector_is_one_that_was_written_or_synced_before(
    writes: list[tuple[int, bytes, str]], seed: int
) -> None:
    disk = new_disk()
    # What each byte may be: what was synced last, or anything written over it since.
    may_be: list[set[int]] = [{0} for _ in range(SIZE + 1500)]
    for offset, data, kind in writes:
        apply(disk, [(offset, data, kind)])
        for i, value in enumerate(data, offset):
            may_be[i] = {value} if kind == "d" else may_be[i] | {value}
        if kind == "s":
            for i, value in enumerate(disk.files["file"]):
                may_be[i] = {value}
    after = disk.crash(Random(seed))
    for i, value in enumerate(after.files["file"]):
        assert value in may_be[i]


@given(writes=WRITES, seed=st.integers(0, 2**32))
def test_after_a_kill_all_that_was_written_is_there_but_not_yet_durable(
    writes: list[tuple[int, bytes, str]], seed: int
) -> None:
    disk = new_disk()
    apply(disk, writes)
    content, unsynced = disk.read("file", 0, 10**6), disk.unsynced_bytes()
    after = disk.crash(Random(seed), power_loss=False)
    assert after.read("file", 0, 10**6) == content
    assert after.unsynced_bytes() == unsynced
    after.sync("file")
    assert after.unsynced_bytes() == 0
    assert after.crash(Random(seed)).read("file", 0, 10**6) == content


def test_an_unsynced_write_is_kept_lost_or_torn() -> None:
    fates = set()
    for seed in range(60):
        disk = new_disk()
        disk.write("file", 100, b"x" * 2000, sync=False)
        fates.add(disk.crash(Random(seed)).read("file", 100, 2000).count(b"x"))
    assert {0, 2000} < fates
    # Sectors of 512 bytes: 412 in the first one, 52 in the last.
    assert fates <= {a * 412 + b * 512 + c * 52 for a in (0, 1) for b in range(4) for c in (0, 1)}


def test_a_file_that_grew_without_a_sync_may_be_short_again() -> None:
    sizes = set()
    for seed in range(20):
        disk = SimDisk(Random(0))
        disk.replace("f", b"abc")
        disk.write("f", 3, b"def", sync=False)
        sizes.add(disk.crash(Random(seed)).read("f", 0, 10))
    assert sizes == {b"abc", b"abcdef"}


def test_names_survive_with_what_was_written_to_them() -> None:
    disk = new_disk()
    disk.write("file", 0, b"kept", sync=True)
    disk.rename("file", "other")
    disk.replace("more", b"content")
    disk.create("gone", 10)
    disk.remove("gone")
    disk.truncate("other", 4)
    after = disk.crash(Random(1))
    assert {path: bytes(content) for path, content in after.files.items()} == {
        "more": b"content",
        "other": b"kept",
    }
    assert after.random_u32() == disk.random_u32()


def test_a_dead_disk_serves_nobody() -> None:
    disk = new_disk()
    disk.lock()
    after = disk.crash(Random(1))
    for call in (
        lambda: disk.write("file", 0, b"x", sync=True),
        lambda: disk.sync("file"),
        lambda: disk.read("file", 0, 1),
        lambda: disk.replace("file", b""),
        lambda: disk.lock(),
    ):
        with pytest.raises(ProcessKilled):
            call()
    after.lock()


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (lambda disk: disk.create("new", 100), {"old=3", "new=0 old=3", "new=100 old=3"}),
        (lambda disk: disk.rename("old", "new"), {"old=3", "new=3"}),
        (lambda disk: disk.remove("old"), {"old=3", ""}),
        (lambda disk: disk.truncate("old", 1), {"old=3", "old=1"}),
        (lambda disk: disk.replace("old", b"12"), {"old=3", "old=3 old.tmp=0", "old=2"}),
        (lambda disk: disk.write("old", 2, b"12", sync=True), {"old=3", "old=4"}),
        (lambda disk: disk.sync("old"), {"old=3"}),
    ],
    ids=["create", "rename", "remove", "truncate", "replace", "write", "sync"],
)
def test_power_goes_in_the_middle_of_any_operation(
    operation: Callable[[SimDisk], None], expected: set[str]
) -> None:
    seen = set()
    for seed in range(60):
        disk = SimDisk(Random(seed))
        disk.replace("old", b"old")
        disk.lose_power_after(2)
        told: list[str] = []
        disk.on_power_lost = partial(told.append, "lost")
        disk.replace("before", b"safe")
        with pytest.raises(PowerLost):
            operation(disk)
        assert told == ["lost"]
        after = disk.crash(Random(seed))
        assert bytes(after.files.pop("before")) == b"safe"
        seen.add(" ".join(f"{path}={len(content)}" for path, content in after.files.items()))
    assert seen >= expected
    assert len(seen) <= len(expected) + 1  # a scratch file may be of any size


def test_a_failed_sync_loses_for_good_what_it_should_have_made_durable() -> None:
    for power_loss in (False, True):
        disk = new_disk()
        disk.write("file", 0, b"sure", sync=True)
        disk.write("file", 4, b"lost", sync=False)
        disk.fail_sync()
        with pytest.raises(DiskError, match="Input/output error"):
            disk.sync("file")
        assert disk.read("file", 0, 8) == b"surelost"
        disk.write("file", 8, b"more", sync=False)
        disk.sync("file")
        after = disk.crash(Random(1), power_loss=power_loss)
        assert after.read("file", 0, 12) == b"sure\0\0\0\0more"


def test_a_failed_sync_of_a_write_loses_it() -> None:
    disk = new_disk()
    disk.fail_sync()
    with pytest.raises(DiskError, match="Input/output error"):
        disk.write("file", 0, b"lost", sync=True)
    assert disk.crash(Random(1)).read("file", 0, 4) == bytes(4)
    disk = new_disk()
    disk.fail_sync()
    with pytest.raises(DiskError, match="Input/output error"):
        disk.truncate("file", 0)


def test_a_full_disk_refuses_what_takes_space_for_a_while() -> None:
    disk = new_disk()
    disk.fill(4)
    with pytest.raises(DiskFullError):
        disk.create("new", 10)
    with pytest.raises(DiskFullError):
        disk.replace("new", b"x")
    with pytest.raises(DiskFullError):
        disk.write("file", 0, b"x" * 100, sync=True)
    disk.sync("file")
    disk.write("file", 0, b"y" * 100, sync=True)
    assert disk.read("file", 0, 100) == b"y" * 100


def test_without_descriptors_operations_do_nothing_for_a_while() -> None:
    disk = new_disk()
    disk.shorten(3)
    changes: list[Callable[[], object]] = [
        lambda: disk.create("new", 10),
        lambda: disk.write("file", 0, b"x", sync=True),
        lambda: disk.remove("file"),
    ]
    for change in changes:
        with pytest.raises(DiskShortageError):
            change()
    assert (disk.size("new"), disk.read("file", 0, 1)) == (-1, b"\0")
    disk.write("file", 0, b"y", sync=True)
    assert disk.read("file", 0, 1) == b"y"


def test_faults_come_with_their_shares_and_the_same_for_one_seed() -> None:
    def life(seed: int) -> list[str]:
        told: list[str] = []
        faults = DiskFaults(stall_share=0.1, full_share=0.05, sync_error_share=0.05)
        disk = SimDisk(Random(seed), faults=faults, note=told.append)
        disk.files["file"] = bytearray(SIZE)
        for i in range(200):
            disk.stall_s()
            try:
                disk.write("file", i, b"x" * 10, sync=True)
            except DiskFullError:
                told.append("full")
            except DiskError:
                told.append("error")
        return told

    told = life(1)
    assert told == life(1)
    assert told != life(2)
    assert told.count("full") > 10
    assert told.count("error") > 2
    assert sum(line.startswith("stalls") for line in told) > 5


def test_a_bit_can_flip() -> None:
    disk = new_disk()
    disk.flip("file", 3, 2)
    assert disk.read("file", 0, 4) == b"\0\0\0\4"
