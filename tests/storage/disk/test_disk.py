"""The file disk: what it promises, as far as one process can see, and what it refuses."""

import errno
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from storage.workload import small_options

from magnetar.storage import (
    Catalog,
    CorruptionError,
    DirectoryInUseError,
    DiskError,
    DiskFullError,
    DiskShortageError,
    FileDisk,
    FormatVersionError,
    MemoryDisk,
    check,
    open_store,
)
from magnetar.testing.sim.disk import SimDisk


def contents(directory: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in directory.rglob("*") if p.is_file()}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path)
    disk.create("journal/a", 4096)
    disk.write("journal/a", 10, b"hello", sync=True)
    disk.write("journal/a", 4090, b"beyond the end", sync=False)
    disk.sync("journal/a")
    assert disk.read("journal/a", 8, 9) == b"\0\0hello\0\0"
    assert disk.read("journal/a", 4090, 99) == b"beyond the end"
    assert disk.size("journal/a") == 4104
    disk.truncate("journal/a", 12)
    assert bytes(disk.map("journal/a")) == b"\0" * 10 + b"he"
    disk.rename("journal/a", "journal/b")
    assert (disk.size("journal/a"), disk.names("journal")) == (-1, ["b"])
    disk.replace("journal/b", b"new")
    assert disk.read("journal/b", 0, 99) == b"new"
    disk.remove("journal/b")
    disk.remove("journal/b")
    assert disk.names("journal") == []
    assert disk.names("nowhere") == []
    assert disk.free_bytes() > 0
    disk.close()


def test_reading_many_places_gives_what_reading_each_gives(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path)
    for name in ("a", "b"):
        disk.replace(name, os.urandom(100_000))
    places = [(name, at, 700) for at in range(0, 100_000, 9_000) for name in ("a", "b")]
    places.append(("a", 99_900, 700))
    each = [disk.read(*place) for place in places]
    assert disk.read_many(places) == each
    assert list(disk.stream(places)) == each
    ahead = [("b", 99_000, 1 << 20)]
    assert list(disk.stream(places, ahead)) == each, "what is ahead is a hint, and may not exist"
    with pytest.raises(DiskError, match="No such file"):
        disk.read_many([("a", 0, 1), ("none", 0, 1)])
    disk.close()


@pytest.mark.parametrize("known", ["nothing", "everything", "the beginning"])
def test_what_the_kernel_has_in_memory_changes_no_byte_that_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: str
) -> None:
    told: list[tuple[int, int]] = []
    looked: list[int] = []

    def look(_: int, buffers: list[bytearray], offset: int, flags: int) -> int:
        looked.append(offset)
        if known == "nothing" or (known == "the beginning" and offset >= 16_000):
            raise BlockingIOError(errno.EAGAIN, "not there")
        return len(buffers[0])

    def tell(_: int, offset: int, size: int, advice: int) -> None:
        told.append((offset, size))

    monkeypatch.setattr(os, "preadv", look)
    monkeypatch.setattr(os, "posix_fadvise", tell)
    disk = FileDisk(tmp_path)
    data = os.urandom(100_000)
    disk.replace("a", data)
    places = [("a", at, 700) for at in range(0, 100_000, 1_000)]
    first = {"nothing": 0, "everything": 100, "the beginning": 16}[known]
    assert list(disk.stream(places)) == [data[at : at + 700] for _, at, _ in places]
    assert told == [(at, 700) for _, at, _ in places[first:]]
    assert looked == [at for _, at, _ in places[: first + 1 : 16]]
    told.clear()
    wanted = [("a", 1700, 300_000), ("a", 0, 10)]
    assert b"".join(disk.stream(places[:2], wanted)) == data[:700] + data[1000:1700]
    ahead = [(1700, 131072), (132772, 131072), (263844, 37856), (0, 10)]
    assert told == ([(0, 700), (1000, 700), *ahead] if known == "nothing" else ahead)
    disk.close()


def test_a_stream_that_is_left_lets_go_of_its_files(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path)
    disk.replace("a", b"0123456789")
    stream = disk.stream([("a", 0, 2), ("a", 5, 2), ("a", 7, 2)])
    assert next(stream) == b"01"
    disk.remove("a")
    assert next(stream) == b"56", "none is closed while in use"
    del stream
    disk.close()
    assert not [fd for fd in os.listdir("/proc/self/fd") if f"{tmp_path}/a" in _link(fd)]


def _link(descriptor: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return ""


def test_an_empty_file_can_be_mapped(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path)
    disk.create("a", 0)
    assert bytes(disk.map("a")) == b""
    with pytest.raises(DiskError, match="No such file"):
        disk.map("b")
    disk.close()


@pytest.mark.parametrize("number", ["EROFS", "EACCES"])
def test_what_may_only_be_read_can_be_read_and_not_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: str
) -> None:
    code = getattr(errno, number)
    whole = os.open

    def read_only(path: Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_RDWR:
            raise OSError(code, os.strerror(code))
        return whole(path, flags, mode)

    open_store(FileDisk(tmp_path), lambda: 0, small_options()).close()
    monkeypatch.setattr(os, "open", read_only)
    assert check(FileDisk(tmp_path)) == []
    with pytest.raises(DiskError, match=f"{os.strerror(code)}; check the disk and the perm"):
        open_store(FileDisk(tmp_path), lambda: 0, small_options())
    code = errno.EIO
    with pytest.raises(DiskError, match="Input/output error"):
        FileDisk(tmp_path).read("FORMAT", 0, 1)


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda f, data, at: whole(f, data[:7], at))
    monkeypatch.setattr(os, "pwritev", lambda f, parts, at, flags: whole(f, parts[0][:7], at))
    disk = FileDisk(tmp_path)
    disk.create("a", 0)
    for sync in (False, True):
        data = os.urandom(1000)
        disk.write("a", 3, data, sync=sync)
        assert disk.read("a", 3, 1000) == data
    disk.replace("b", data)
    assert disk.read("b", 0, 9999) == data
    disk.close()


def test_more_files_than_may_be_open_can_be_used(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path)
    for i in range(300):
        disk.replace(str(i), str(i).encode())
    for _ in range(2):
        assert [disk.read(str(i), 0, 9) for i in range(300)] == [b"%d" % i for i in range(300)]
    places = [(str(i), 0, 3) for i in range(200)]
    assert disk.read_many(places)[199] == b"199"
    assert sum(str(tmp_path) in _link(fd) for fd in os.listdir("/proc/self/fd")) < 250
    disk.close()


@pytest.mark.parametrize("number", ["ENOSPC", "EDQUOT"])
def test_a_full_disk_is_told_from_other_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: str
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(getattr(errno, number), "no room")

    disk = FileDisk(tmp_path)
    disk.create("a", 0)
    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with pytest.raises(DiskFullError, match="free some space") as caught:
        disk.create("b", 10)
    assert (caught.value.path, caught.value.operation) == ("b", "create")
    assert disk.size("b") == -1
    monkeypatch.setattr(os, "pwritev", refuse)
    with pytest.raises(DiskFullError):
        disk.write("a", 0, b"x", sync=True)
    disk.close()


@contextmanager
def no_descriptors() -> Iterator[None]:
    """No file can be opened, unless one that is open is closed for it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open("/dev/null", os.O_RDONLY)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def changes(disk: FileDisk) -> dict[str, Callable[[], object]]:
    return {
        "create": lambda: disk.create("new", 10),
        "write": lambda: disk.write("b", 0, b"x", sync=True),
        "sync": lambda: disk.sync("b"),
        "truncate": lambda: disk.truncate("b", 0),
        "replace": lambda: disk.replace("b", b"x"),
        "rename": lambda: disk.rename("b", "new"),
        "remove": lambda: disk.remove("b"),
        "read": lambda: disk.read("b", 0, 1),
        "map": lambda: disk.map("b"),
    }


@pytest.mark.parametrize("operation", changes(FileDisk("")))
def test_without_descriptors_nothing_is_changed_and_it_can_be_tried_again(
    tmp_path: Path, operation: str
) -> None:
    disk = FileDisk(tmp_path)
    disk.replace("b", b"before")
    before = contents(tmp_path)
    with no_descriptors(), pytest.raises(DiskShortageError, match="Too many open files"):
        changes(disk)[operation]()
    assert contents(tmp_path) == before
    changes(disk)[operation]()
    disk.close()


def test_files_kept_at_hand_make_room_for_the_one_that_is_wanted(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path)
    for name in ("a", "b", "c"):
        disk.replace(name, name.encode())
    for name in ("a", "b", "c"):
        disk.read(name, 0, 1)
    disk.replace("d", b"d")
    with no_descriptors():
        assert disk.read("d", 0, 1) == b"d"
        disk.write("a", 0, b"x", sync=True)
        disk.rename("b", "e")
        assert disk.read("a", 0, 1) == b"x"
    assert disk.names("") == ["a", "c", "d", "e"]
    disk.close()


@pytest.mark.parametrize("number", ["ENOMEM", "EMFILE"])
def test_what_a_write_or_a_sync_says_is_never_taken_for_a_shortage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: str
) -> None:
    # Nobody knows how far it came.
    def refuse(*_: object) -> int:
        raise OSError(getattr(errno, number), "no")

    disk = FileDisk(tmp_path)
    disk.create("a", 0)
    for name in ("pwritev", "fdatasync", "fsync"):
        monkeypatch.setattr(os, name, refuse)
    risky: list[Callable[[], object]] = [
        lambda: disk.write("a", 0, b"x", sync=True),
        lambda: disk.sync("a"),
        lambda: disk.truncate("a", 0),
        lambda: disk.rename("a", "b"),
    ]
    for change in risky:
        with pytest.raises(DiskError) as caught:
            change()
        assert type(caught.value) is DiskError
    disk.close()


def test_nobody_else_may_read_what_is_stored(tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        store = open_store(FileDisk(tmp_path / "data"), lambda: 0, small_options())
        topic_id = store.create_topic("t")
        for _ in range(40):
            store.append(topic_id, bytes(100), batch_size=1, publish_time_ms=0)
        store.close()
        Catalog(tmp_path / "data").close()
    finally:
        os.umask(umask)
    for path in [tmp_path / "data", *(tmp_path / "data").rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0, path


def test_a_directory_in_use_by_another_process_is_refused_untouched(tmp_path: Path) -> None:
    script = (
        "import sys; from magnetar.storage import FileDisk; disk = FileDisk(sys.argv[1]);"
        "disk.lock(); print('locked', flush=True); sys.stdin.read()"
    )
    open_store(FileDisk(tmp_path), lambda: 0, small_options()).close()
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        before = contents(tmp_path)
        with pytest.raises(DirectoryInUseError, match="stop that process") as caught:
            open_store(FileDisk(tmp_path), lambda: 0, small_options())
        assert caught.value.holder == str(holder.pid)
        assert contents(tmp_path) == before
        holder.communicate("")
    open_store(FileDisk(tmp_path), lambda: 0, small_options()).close()


def test_memory_is_in_use_until_it_is_closed() -> None:
    disk = MemoryDisk()
    store = open_store(disk, lambda: 0, small_options())
    with pytest.raises(DirectoryInUseError):
        open_store(disk, lambda: 0, small_options())
    store.close()
    open_store(disk, lambda: 0, small_options()).close()


def test_threads_share_a_disk_in_memory() -> None:
    """One makes and removes files, as chores do, while another looks for room."""
    disk = MemoryDisk()
    for number in range(50):
        disk.create(f"kept/{number}", 8)
    done = threading.Event()

    def chores() -> None:
        number = 0
        while not done.is_set():
            disk.create(f"chores/{number % 7}", 8)
            disk.remove(f"chores/{(number + 3) % 7}")
            number += 1

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread = threading.Thread(target=chores)
    thread.start()
    try:
        for _ in range(500):
            assert 400 <= disk.used_bytes() <= 456
            assert len(disk.names("kept")) == 50
    finally:
        done.set()
        thread.join()
        sys.setswitchinterval(interval)


@pytest.mark.parametrize("line", ["magnetar data 2\nsalt 00000000\n", "magnetar data 1\n", "?"])
def test_data_of_another_version_is_refused_untouched(tmp_path: Path, line: str) -> None:
    open_store(FileDisk(tmp_path), lambda: 0, small_options()).close()
    (tmp_path / "FORMAT").write_text(line)
    before = contents(tmp_path)
    with pytest.raises(FormatVersionError, match="this version reads 1"):
        open_store(FileDisk(tmp_path), lambda: 0, small_options())
    assert contents(tmp_path) == before
    assert "version" in check(FileDisk(tmp_path))[0].reason


@pytest.mark.parametrize("salt", ["0x00000", "?", "", "1a2b3c4d5", "-1a2b3c4", "1_2b3c4d"])
def test_a_salt_that_is_no_number_is_corruption(tmp_path: Path, salt: str) -> None:
    open_store(FileDisk(tmp_path), lambda: 0, small_options()).close()
    (tmp_path / "FORMAT").write_text(f"magnetar data 1\nsalt {salt}\n")
    before = contents(tmp_path)
    with pytest.raises(CorruptionError, match="FORMAT at byte 16: the salt"):
        open_store(FileDisk(tmp_path), lambda: 0, small_options())
    assert contents(tmp_path) == before
    assert [v.path for v in check(FileDisk(tmp_path))] == ["FORMAT"]


def test_a_directory_that_lost_its_format_is_not_taken_for_a_new_one(tmp_path: Path) -> None:
    open_store(FileDisk(tmp_path), lambda: 0, small_options()).close()
    (tmp_path / "FORMAT").unlink()
    before = contents(tmp_path)
    with pytest.raises(CorruptionError, match="FORMAT at byte 0: the file is missing, though"):
        open_store(FileDisk(tmp_path), lambda: 0, small_options())
    assert contents(tmp_path) == before
    assert [v.path for v in check(FileDisk(tmp_path))] == ["FORMAT"]


def test_a_lost_file_of_ids_is_corruption(tmp_path: Path) -> None:
    store = open_store(FileDisk(tmp_path), lambda: 0, small_options())
    store.create_topic("t")
    store.close()
    (tmp_path / "IDS").unlink()
    with pytest.raises(CorruptionError, match="next id"):
        open_store(FileDisk(tmp_path), lambda: 0, small_options())
    assert check(FileDisk(tmp_path)) != []


def test_a_directory_that_is_not_writable_is_refused(tmp_path: Path) -> None:
    script = (
        "import os, sys; from magnetar.storage import *\n"
        "if os.geteuid() == 0: os.setuid(65534)  # root may write everywhere\n"
        "try: open_store(FileDisk(sys.argv[1]), lambda: 0)\n"
        "except DiskError as error: print(error)"
    )
    locked = tmp_path / "data"
    locked.mkdir(mode=0o555)
    command = [sys.executable, "-c", script, str(locked)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "Permission denied; check the disk and the permissions" in run.stdout
    assert contents(locked) == {}


def test_a_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DiskError, match="Not a directory"):
        open_store(FileDisk(tmp_path / "file" / "data"), lambda: 0, small_options())


def test_the_names_of_all_files_are_made_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FileDisk(tmp_path)
    disk.replace("FORMAT", b"1")
    disk.replace("index/1", b"1")
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
    disk.sync_names()
    assert synced == [str(tmp_path), str(tmp_path / "index")]
    disk.close()


def test_a_power_cut_may_bring_back_what_was_replaced_but_not_settled() -> None:
    left = set()
    for seed in range(20):
        disk = SimDisk(Random(seed))
        disk.replace("a", b"old")
        disk.fail_settle()
        with pytest.raises(DiskError):
            disk.replace("a", b"new")
        assert disk.read("a", 0, 9) == b"new"
        left.add(disk.crash(Random(seed)).read("a", 0, 9))
    assert left == {b"old", b"new"}


def test_what_recovery_has_read_is_durable_before_anything_is_removed() -> None:
    """An index file that was replaced, though that failed: segments that only the old one
    needs are removed next, so a power cut must not bring the old one back."""
    disk = SimDisk(Random(1))
    open_store(disk, lambda: 1).close()
    disk.fail_settle()
    with pytest.raises(DiskError):
        disk.replace("FORMAT", bytes(disk.files["FORMAT"]))
    after = disk.crash(Random(2), power_loss=False)
    assert list(after.names_unsynced) == ["FORMAT"]
    open_store(after, lambda: 2)
    assert after.names_unsynced == {}
