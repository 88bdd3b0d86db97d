"""`magnetar check`: what it finds, what it refuses, and that it changes nothing."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cli.conftest import ORDERS, Builder, Run, TransactionsAtWork, build, contents
from pyroaring import BitMap

from magnetar.ack import AckDelta, encode_delta
from magnetar.cli.data.directory import ReadOnlyDisk, open_directory
from magnetar.errors import DirectoryInUseError, DiskError
from magnetar.model import Position
from magnetar.storage import Catalog, FileDisk
from magnetar.storage.state_record import aborted_record


def test_a_directory_that_is_well_gets_one_line(run: Run, directory: Path) -> None:
    before = contents(directory)
    summary = "2 topics, 3 ledgers, 32 entries, 3 cursors"
    assert run("check", directory) == (0, f"{directory}: no violations in {summary}\n", "")
    assert contents(directory) == before


def test_a_directory_left_by_a_kill_is_well_and_stays_as_it_is(run: Run, tmp_path: Path) -> None:
    builder, _ = build(tmp_path)
    builder.kill()
    before = contents(tmp_path)
    code, out, err = run("check", tmp_path)
    assert (code, err) == (0, "")
    assert "no violations" in out
    assert contents(tmp_path) == before


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 0x10
    path.write_bytes(data)


def test_a_damaged_log_is_said_and_left_as_it_is(run: Run, directory: Path) -> None:
    segment = min((directory / "journal").glob("*.log"))
    flip(segment, 300)
    before = contents(directory)
    code, out, err = run("check", directory)
    assert (code, err) == (1, "")
    assert out.startswith(f"journal/{segment.name}: ")
    assert contents(directory) == before


def test_every_violation_has_a_line(run: Run, directory: Path) -> None:
    indexes = sorted((directory / "index").glob("*.idx"))
    for index in indexes:
        flip(index, 80)
    code, out, _ = run("check", directory)
    assert code == 1
    assert [line for line in out.splitlines() if "the columns are damaged" in line] == [
        f"index/{index.name}: the columns are damaged" for index in indexes
    ]


def test_a_lost_segment_is_said_once(run: Run, directory: Path) -> None:
    for heads in (directory / "journal").glob("*.heads"):
        heads.unlink()
    segment = min((directory / "journal").glob("*.log"))
    flip(segment, 70)
    code, out, _ = run("check", directory)
    assert code == 1
    assert len(out.splitlines()) == 1
    assert "restore the directory from a backup" in out


def test_a_cursor_that_is_no_cursor_is_a_violation(run: Run, tmp_path: Path) -> None:
    builder = Builder(tmp_path)
    topic_id, _ = builder.topic(ORDERS, [1])
    cursor_id = builder.store.create_cursor(topic_id, "odd\x1bname", b"no snapshot")
    builder.flush()
    builder.store.close()
    code, out, _ = run("check", tmp_path)
    assert code == 1
    assert out.startswith(f"cursor {cursor_id} (odd\\x1bname of {ORDERS}): corrupt ack state")


def test_a_directory_with_open_transactions_is_well(run: Run, tmp_path: Path) -> None:
    TransactionsAtWork(tmp_path)
    summary = "1 topic, 1 ledger, 8 entries, 1 cursor, 1 open transaction"
    assert run("check", tmp_path) == (0, f"{tmp_path}: no violations in {summary}\n", "")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"no delta", "corrupt ack state"),
        (encode_delta(AckDelta(0, None, ((7, (5,), ()),))), ""),  # trimmed: it acks nothing
    ],
)
def test_what_an_open_transaction_acks_is_checked(
    run: Run, tmp_path: Path, data: bytes, reason: str
) -> None:
    class Odd(TransactionsAtWork):
        def pending(self, builder: Builder, cursor_id: int, position: Position) -> None:
            builder.store.transactions.ack(self.open, cursor_id, data)

    work = Odd(tmp_path)
    code, out, _ = run("check", tmp_path)
    assert code == bool(reason)
    assert not reason or out.startswith(f"transaction (0,{work.open}): {reason}")


def test_an_open_transaction_that_acks_what_is_not_there_is_a_violation(
    run: Run, tmp_path: Path
) -> None:
    class Beyond(TransactionsAtWork):
        def pending(self, builder: Builder, cursor_id: int, position: Position) -> None:
            beyond = Position(position.ledger_id, 8)
            super().pending(builder, cursor_id, beyond)

    work = Beyond(tmp_path)
    code, out, _ = run("check", tmp_path)
    assert code == 1
    assert out.startswith(f"transaction (0,{work.open}): it acks ")
    assert out.endswith(":8, which billing has not got\n")


def test_a_transaction_that_ended_twice_over_is_a_violation(run: Run, tmp_path: Path) -> None:
    """An entry that is open and aborted at once: nobody could say whose it is."""
    work = TransactionsAtWork(tmp_path)
    builder = Builder(tmp_path)
    (ledger,) = builder.store.log.state.ledgers.values()
    builder.store.log.add(aborted_record(ledger.id, BitMap([5])))
    builder.flush()
    builder.kill()
    code, out, _ = run("check", tmp_path)
    assert code == 1
    assert f"transaction {work.open}: open and aborted in ledger {ledger.id}" in out


def test_the_catalog_is_checked_too_with_what_is_in_its_wal(run: Run, directory: Path) -> None:
    catalog = Catalog(directory)
    catalog.put("policies", "public/default", "{}")
    before = {name: data for name, (data, _) in contents(directory).items()}
    assert "catalog.sqlite-wal" in before
    assert run("check", directory)[0] == 0
    assert {name: data for name, (data, _) in contents(directory).items()} == before
    catalog.close()
    assert run("check", directory)[0] == 0


def filled_catalog(directory: Path) -> Path:
    """A catalog of several pages."""
    catalog = Catalog(directory)
    for i in range(30):
        catalog.put("policies", f"public/{i}", f'"{"x" * 1000}"')
    catalog.close()
    return directory / "catalog.sqlite"


def test_a_damaged_catalog_is_a_violation(run: Run, directory: Path) -> None:
    file = filled_catalog(directory)
    whole = file.read_bytes()
    file.write_bytes(whole[:8192] + os.urandom(4096) + whole[12288:])
    code, out, _ = run("check", directory)
    assert code == 1
    assert out.startswith("catalog.sqlite: ")
    file.write_bytes(whole.replace(b"CREATE TABLE item", b"CREATE TABLE i\xactem"))
    code, out, _ = run("check", directory)
    assert code == 1
    assert out.startswith("catalog.sqlite: ")
    file.write_bytes(b"no database at all" * 100)
    assert run("check", directory)[:2] == (1, "catalog.sqlite: file is not a database\n")


def test_a_catalog_that_ends_early_is_a_violation(run: Run, directory: Path) -> None:
    file = filled_catalog(directory)
    file.write_bytes(file.read_bytes()[:6000])
    code, out, _ = run("check", directory)
    assert code == 1
    assert "catalog.sqlite: " in out


# ---- Refusals ----------------------------------------------------------------

COMMANDS = ["check", "dump"]


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_no_data_directory_is_refused(run: Run, command: str, tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    reason = f"magnetar: {nowhere} is not a data directory: there is no such directory\n"
    assert run(command, nowhere) == (2, "", reason)
    assert not nowhere.exists()
    reason = f"magnetar: {tmp_path} is not a data directory: it has no file FORMAT\n"
    assert run(command, tmp_path) == (2, "", reason)
    (tmp_path / "FORMAT").write_text("A4\n")
    code, out, err = run(command, tmp_path)
    assert (code, out) == (2, "")
    assert err.endswith("its file FORMAT is not of magnetar\n")
    assert list(tmp_path.iterdir()) == [tmp_path / "FORMAT"]
    file = tmp_path / "FORMAT"
    assert run(command, file)[2].endswith("there is no such directory\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_newer_version_is_refused(run: Run, command: str, directory: Path) -> None:
    (directory / "FORMAT").write_text("magnetar data 2\nsalt 00000000\n")
    before = contents(directory)
    code, out, err = run(command, directory)
    assert (code, out) == (2, "")
    assert err.startswith("magnetar: the data has format 2, this version reads 1")
    assert len(err.splitlines()) == 1
    assert contents(directory) == before


@pytest.mark.parametrize("command", COMMANDS)
def test_a_newer_catalog_is_refused_where_it_is_looked_at(
    run: Run, command: str, directory: Path
) -> None:
    Catalog(directory).close()
    with sqlite3.connect(directory / "catalog.sqlite") as database:
        database.execute("PRAGMA user_version = 9")
    database.close()
    code, _, err = run(command, directory)
    assert (code, "9 (catalog)" in err) == ((2, True) if command == "check" else (0, False))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_directory_without_its_salt_is_refused(run: Run, command: str, directory: Path) -> None:
    (directory / "FORMAT").write_text("magnetar data 1\nsalt xyz\n")
    code, out, err = run(command, directory)
    assert (code, out) == (2, "")
    assert "the salt is not a number" in err


HOLD = (
    "import sys; from magnetar.storage import FileDisk; disk = FileDisk(sys.argv[1]);"
    "disk.lock(); print('locked', flush=True); sys.stdin.read()"
)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_directory_in_use_is_refused(run: Run, command: str, directory: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        before = contents(directory)
        code, out, err = run(command, directory)
        assert (code, out) == (2, "")
        assert err.startswith(f"magnetar: {directory} is in use by process {holder.pid}: stop")
        assert contents(directory) == before
        holder.communicate("")
    assert run(command, directory)[0] == 0


@pytest.mark.parametrize("command", COMMANDS)
def test_a_copy_without_a_lock_file_is_looked_at(run: Run, command: str, directory: Path) -> None:
    (directory / "LOCK").unlink()
    assert run(command, directory)[0] == 0
    assert not (directory / "LOCK").exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_files_that_cannot_be_read_are_refused(run: Run, command: str, directory: Path) -> None:
    (directory / "LOCK").unlink()
    (directory / "LOCK").symlink_to("LOCK")
    code, out, err = run(command, directory)
    assert (code, out) == (2, "")
    assert err.startswith("magnetar: cannot open LOCK: ")


def test_a_catalog_that_cannot_be_read_is_refused(run: Run, directory: Path) -> None:
    (directory / "catalog.sqlite").mkdir()
    code, out, err = run("check", directory)
    assert (code, out) == (2, "")
    assert err.startswith("magnetar: cannot read catalog.sqlite: ")


# ---- The disk underneath -----------------------------------------------------


def test_the_disk_underneath_reads_and_refuses_every_change(directory: Path) -> None:
    before = contents(directory)
    disk = ReadOnlyDisk(directory)
    changes: list[Callable[[], None]] = [
        lambda: disk.create("a", 1),
        lambda: disk.write("IDS", 0, b"9", sync=True),
        lambda: disk.sync("IDS"),
        lambda: disk.truncate("IDS", 0),
        lambda: disk.replace("IDS", b"9"),
        lambda: disk.rename("IDS", "b"),
        lambda: disk.remove("IDS"),
    ]
    for change in changes:
        with pytest.raises(DiskError, match="it is open for reading only"):
            change()
    with pytest.raises(DiskError, match="cannot read nothing: No such file"):
        disk.read("nothing", 0, 1)
    places = [("IDS", 0, 2), ("FORMAT", 0, 8), ("IDS", 1, 99)]
    assert disk.read_many(places) == FileDisk(directory).read_many(places)
    disk.close()
    assert contents(directory) == before


def test_two_may_look_at_once_and_a_broker_waits_until_they_are_done(directory: Path) -> None:
    with open_directory(directory) as one, open_directory(directory) as other:
        assert one.state.topics.keys() == other.state.topics.keys()
        with pytest.raises(DirectoryInUseError, match="is in use by process"):
            FileDisk(directory).lock()
    broker = FileDisk(directory)
    broker.lock()
    broker.close()


def test_entries_that_are_not_there_have_no_known_size(directory: Path) -> None:
    with open_directory(directory) as found:
        sizes = found.sizes
        (topic,) = [topic for topic in found.topics() if topic.ledger_ids]
        ledger_id = topic.ledger_ids[0]
        assert [sizes.batch_size(ledger_id, entry_id) for entry_id in (-1, 1, 12)] == [0, 10, 0]
        assert sizes.batch_size(99, 0) == 0
        assert sizes.message_count(ledger_id, 10, 14) == 1 + 1 + 2
        assert sizes.message_count(99, 3, 5) == 2


def test_an_index_file_without_a_byte_is_made_anew_from_the_log(run: Run, directory: Path) -> None:
    index = min((directory / "index").glob("*.idx"))
    index.write_bytes(b"")
    assert run("check", directory)[0] == 0


def test_a_damaged_record_of_a_cursor_is_never_shown(run: Run, directory: Path) -> None:
    with open_directory(directory) as found:
        (cursor_id, *_) = found.state.cursors
        address = found.state.cursors[cursor_id].slices.addresses[0]
    flip(directory / f"journal/{address >> 32:08x}.log", (address & 0xFFFFFFFF) + 41)
    code, out, err = run("dump", directory)
    assert (code, out) == (2, "")
    assert "a record of a cursor is damaged" in err
