"""`magnetar backup` and `restore`: what was confirmed before is in it, whatever goes on."""

import os
import shutil
import sqlite3
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from cli.broker_cli import BrokerCli
from cli.conftest import ORDERS, Builder, Run, build, contents
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from storage.workload import small_options
from support.broker_process import BrokerProcess

import magnetar
from magnetar.cli.data import log_copy
from magnetar.cli.data.check import verify
from magnetar.cli.data.directory import open_directory
from magnetar.cli.data.log_copy import LogCopy
from magnetar.errors import CorruptionError
from magnetar.model import Position
from magnetar.storage import Catalog, FileDisk, open_store
from magnetar.storage.ids import read_ids
from magnetar.storage.log.record_kind import kind_name
from magnetar.storage.log.scan import Scan
from magnetar.storage.log.segment import GROUP_MAGIC, segment_path

CONFIRMED = 200
NOW_MS = 1_800_000_000_000


def entries_of(directory: Path) -> set[tuple[int, int]]:
    """Every entry that a data directory holds."""
    with open_directory(directory) as found:
        return {
            (ledger.id, entry)
            for ledger in found.state.ledgers.values()
            for entry in range(ledger.index.count())
        }


def acked_of(directory: Path, name: str) -> Callable[[int, int], bool]:
    """Whether a cursor has an entry acked."""
    with open_directory(directory) as found:
        topic = next(topic for topic in found.topics() if topic.cursor_ids)
        ledgers = found.ledgers(topic)
        cursor = next(
            found.cursor(id, ledgers)
            for id in topic.cursor_ids
            if found.state.cursors[id].name == name
        )
        runs = [(run.ledger_id, run.first, run.end) for run in cursor.acked_runs()]
        mark = (cursor.mark_delete.ledger_id, cursor.mark_delete.entry_id)

    def acked(ledger_id: int, entry_id: int) -> bool:
        if (ledger_id, entry_id) <= mark:
            return True
        return any(id == ledger_id and first <= entry_id < end for id, first, end in runs)

    return acked


class Load:
    """A producer and a consumer at full speed, and what was confirmed to them."""

    def __init__(self, url: str) -> None:
        self._client = magnetar.Client(url)
        self._consumer = self._client.subscribe(
            "load", "sub", magnetar.ConsumerType.Shared, ack_receipt_enabled=True
        )
        self._producer = self._client.create_producer("load", max_pending_messages=50)
        self.sent: list[tuple[int, int]] = []
        self.acked: list[tuple[int, int]] = []
        self._stop = False
        self._threads = [threading.Thread(target=work) for work in (self._send, self._receive)]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop = True
        for thread in self._threads:
            thread.join()
        self._client.close()

    def _send(self) -> None:
        body = os.urandom(1 << 14)
        while not self._stop:
            id = self._producer.send(body)
            self.sent.append((id.ledger_id(), id.entry_id()))

    def _receive(self) -> None:
        number = 0
        while not self._stop:
            try:
                message = self._consumer.receive(200)
            except magnetar.Timeout:
                continue
            number += 1
            if number % 3:  # so that there are holes, and ledgers stay
                self._consumer.acknowledge(message)
                id = message.message_id()
                self.acked.append((id.ledger_id(), id.entry_id()))


def test_under_load_all_that_was_confirmed_is_there(tmp_path: Path, run: Run) -> None:
    """Segments and ledgers are small, so that they roll, are indexed and reclaimed meanwhile."""
    options = ["--set", "segment_bytes=1048576", "--set", "ledger_entries_max=100"]
    backups: list[tuple[Path, set[tuple[int, int]], set[tuple[int, int]]]] = []
    with BrokerProcess(tmp_path / "data", options=options) as broker:
        cli = BrokerCli(broker.url, broker.http_url)
        with Load(broker.url) as load:
            for number in range(3):
                goal = CONFIRMED * (number + 1)
                while len(load.sent) < goal:
                    load._threads[0].join(0.01)
                cli.ok("namespaces", "create", f"public/ns-{number}")
                cli.ok("namespaces", "set-message-ttl", f"public/ns-{number}", "-ttl", "60")
                sent, acked = set(load.sent), set(load.acked)
                target = tmp_path / f"backup-{number}"
                code, out, err = run("backup", tmp_path / "data", target)
                assert (code, err) == (0, "")
                assert "which is in use" in out
                backups.append((target, sent, acked))
    assert sum(1 for _ in (tmp_path / "data" / "journal").glob("*.log")) > 5
    for number, (target, sent, acked) in enumerate(backups):
        code, out, err = run("check", target)
        assert (code, err) == (0, ""), out
        assert sent <= entries_of(target)
        is_acked = acked_of(target, "sub")
        assert [id for id in acked if not is_acked(*id)] == []
        catalog = Catalog(target)
        names = [key for key, _ in catalog.items("namespaces")]
        catalog.close()
        assert f"public/ns-{number}" in names


def test_a_restored_broker_serves_what_was_there(tmp_path: Path, run: Run) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        cli = BrokerCli(broker.url, broker.http_url)
        cli.ok("topics", "create", "t")
        cli.ok("topics", "create-subscription", "t", "-s", "sub")
        cli.ok("produce", "t", "-m", "a", "-m", "b", "-m", "c")
        first = cli.ok("topics", "last-message-id", "t").partition(":")[0]
        cli.ok("topics", "skip-messages", "t", "-s", "sub", "--messageId-triplet", f"{first}:0:1")
        assert run("backup", tmp_path / "data", tmp_path / "backup")[0] == 0
        later = cli.ok("produce", "t", "-m", "later", "--json")
    before = contents(tmp_path / "backup")
    assert run("restore", tmp_path / "backup", tmp_path / "restored")[0] == 0
    assert contents(tmp_path / "backup") == before
    with BrokerProcess(tmp_path / "restored") as broker:
        cli = BrokerCli(broker.url, broker.http_url)
        found = cli.ok("consume", "t", "-s", "sub", "-t", "Shared", "-n", "2", "--json")
        assert [line.count('"data": "b"') for line in found.splitlines()] == [0, 0]
        # What was published after the backup had an id, which names nothing else now.
        anew = cli.ok("produce", "t", "-m", "anew", "--json")
        assert anew != later
        last = cli.ok("topics", "last-message-id", "t")
        assert int(last.partition(":")[0]) > 1 << 32
    assert run("check", tmp_path / "restored")[0] == 0


@pytest.fixture
def stopped(directory: Path) -> Path:
    catalog = Catalog(directory)
    catalog.put("policies", "public/default", '{"ttl": 60}')
    catalog.close()
    return directory


def test_a_directory_that_nobody_uses(stopped: Path, tmp_path: Path, run: Run) -> None:
    before = contents(stopped)
    code, out, err = run("backup", stopped, tmp_path / "backup")
    assert (code, err) == (0, "")
    assert "in use" not in out
    assert contents(stopped) == before
    assert run("check", tmp_path / "backup")[0] == 0
    assert entries_of(tmp_path / "backup") == entries_of(stopped)
    assert run("dump", tmp_path / "backup", "--topic", ORDERS)[0] == 0
    catalog = Catalog(tmp_path / "backup")
    assert catalog.get("policies", "public/default") == '{"ttl": 60}'
    catalog.close()


def test_other_files_come_along(stopped: Path, tmp_path: Path, run: Run) -> None:
    """A key that an operator keeps there, and its permissions."""
    (stopped / "token.key").write_text("secret")
    (stopped / "token.key").chmod(0o600)
    assert run("backup", stopped, tmp_path / "backup")[0] == 0
    assert run("restore", tmp_path / "backup", tmp_path / "restored")[0] == 0
    copied = tmp_path / "restored" / "token.key"
    assert (copied.read_text(), copied.stat().st_mode & 0o777) == ("secret", 0o600)


def test_links_are_not_followed_and_told_of(stopped: Path, tmp_path: Path, run: Run) -> None:
    """Whoever may write there could have others' files copied."""
    (tmp_path / "others").write_text("secret")
    (stopped / "stolen").symlink_to(tmp_path / "others")
    code, _, err = run("backup", stopped, tmp_path / "backup")
    assert (code, err) == (0, "magnetar: left out, since they are links: stolen\n")
    assert not (tmp_path / "backup" / "stolen").exists()
    (stopped / "catalog.sqlite").rename(tmp_path / "away")
    (stopped / "catalog.sqlite").symlink_to(tmp_path / "away")
    code, _, err = run("backup", stopped, tmp_path / "second")
    assert code == 2
    assert "it is a symbolic link" in err


def test_nobody_else_may_read_a_backup(stopped: Path, tmp_path: Path, run: Run) -> None:
    (stopped / "notes").write_text("for all")
    (stopped / "notes").chmod(0o644)
    umask = os.umask(0)
    try:
        assert run("backup", stopped, tmp_path / "backup")[0] == 0
        assert run("restore", tmp_path / "backup", tmp_path / "restored")[0] == 0
    finally:
        os.umask(umask)
    for top in (tmp_path / "backup", tmp_path / "restored"):
        for path in (top, *top.rglob("*")):
            assert path.stat().st_mode & 0o077 == 0, path


def test_ids_are_far_apart_after_a_restore(stopped: Path, tmp_path: Path, run: Run) -> None:
    assert run("backup", stopped, tmp_path / "backup")[0] == 0
    assert run("restore", tmp_path / "backup", tmp_path / "restored")[0] == 0
    firsts: list[int] = []
    for path in (tmp_path / "backup", tmp_path / "restored"):
        with open_directory(path) as found:
            firsts.append(read_ids(found.disk, found.salt, found.state.id_highest))
    assert firsts[1] - firsts[0] == 1 << 32


@pytest.mark.parametrize("later_ms", [1000, 0, -3_600_000])
def test_a_restored_copy_and_its_original_both_go_on_with_ids_of_their_own(
    stopped: Path, tmp_path: Path, run: Run, later_ms: int
) -> None:
    """Also where the clock of the machine that restores is behind (I9)."""
    assert run("backup", stopped, tmp_path / "backup")[0] == 0
    original = published(stopped, NOW_MS)
    assert run("restore", tmp_path / "backup", tmp_path / "restored")[0] == 0
    restored = published(tmp_path / "restored", NOW_MS + later_ms)
    assert original.isdisjoint(restored)


def published(directory: Path, now_ms: int) -> set[int]:
    """The ids that a store gives out in one run."""
    store = open_store(FileDisk(directory), lambda: now_ms, small_options())
    ids = {store.create_topic(f"t{number}") for number in range(3000)}
    store.close()
    return ids


@pytest.mark.parametrize("command", ["backup", "restore"])
def test_what_is_there_is_not_touched(
    stopped: Path, tmp_path: Path, run: Run, command: str
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    code, out, err = run(command, stopped, tmp_path / "full")
    assert (code, out) == (2, "")
    assert "is not empty" in err
    assert os.listdir(tmp_path / "full") == ["file"]
    assert run(command, stopped, stopped / "in-it")[0] == 2
    assert run(command, stopped, tmp_path / "full" / "file")[0] == 2
    assert not (stopped / "in-it").exists()
    assert run(command, tmp_path / "none", tmp_path / "new")[0] == 2
    assert run(command, tmp_path / "full", tmp_path / "new")[0] == 2
    assert not (tmp_path / "new").exists()


def test_a_damaged_source_is_said_and_leaves_nothing(
    stopped: Path, tmp_path: Path, run: Run
) -> None:
    segment = sorted((stopped / "journal").glob("*.log"))[0]
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)
    code, out, err = run("backup", stopped, tmp_path / "backup")
    assert (code, out) == (2, "")
    assert segment.name in err
    assert not (tmp_path / "backup").exists()
    (tmp_path / "empty").mkdir()
    assert run("backup", stopped, tmp_path / "empty")[0] == 2
    assert os.listdir(tmp_path / "empty") == []


def place_of(directory: Path, number: int, kind: str) -> tuple[Path, int, str]:
    """File, offset and name of the n-th record of a kind; the name of an entry is its position."""
    with open_directory(directory) as found:
        seen = 0
        for id in sorted(found.recovered.lengths):
            path = directory / segment_path(id)
            scan = Scan(path.read_bytes(), id, found.salt)
            while (records := scan.next_group(bodies=True)) is not None:
                for record in records:
                    if kind_name(record.kind) != kind:
                        continue
                    if seen == number:
                        offset = int(record.address & 0xFFFFFFFF)
                        return path, offset, f"{record.id}:{record.sub_id}"
                    seen += 1
    raise AssertionError(f"there is no {kind} {number}")


def group_of(path: Path, offset: int) -> int:
    """A byte in the header of the group that a record belongs to."""
    return path.read_bytes().rfind(GROUP_MAGIC, 0, offset) + 20


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 4
    path.write_bytes(data)


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("number", [0, 7, 31])
def test_damaged_entries_are_left_out_and_listed_if_one_says_so(
    tmp_path: Path, run: Run, killed: bool, number: int
) -> None:
    builder, _ = build(tmp_path / "data")
    builder.kill() if killed else builder.store.close()
    path, offset, name = place_of(tmp_path / "data", number, "entry")
    flip(path, offset + 45)
    assert run("backup", tmp_path / "data", tmp_path / "refused")[0] == 2
    code, out, err = run("backup", tmp_path / "data", tmp_path / "backup", "--skip-damaged")
    assert (code, err) == (
        1,
        f"magnetar: left out, since it is damaged: entry {name} of {ORDERS}\n",
    )
    assert "1 of them left out by a backup" in out
    code, out, _ = run("check", tmp_path / "backup")
    assert (code, "1 of them left out by a backup" in out) == (0, True)
    assert run("restore", tmp_path / "backup", tmp_path / "restored")[0] == 0
    assert_only_lost(tmp_path / "restored", name)


def assert_only_lost(directory: Path, name: str) -> None:
    """All entries of a store but one can be read; that one is said to be damaged, for good."""
    for _ in range(2):
        store = open_store(FileDisk(directory), lambda: NOW_MS, small_options())
        (topic_id,) = [id for id, topic in store.topics().items() if topic == ORDERS]
        lost: list[str] = []
        for ledger in store.ledgers(topic_id):
            for entry_id in range(ledger.entries):
                first = Position(ledger.id, entry_id)
                try:
                    store.read(topic_id, first, entries_max=1, bytes_max=1 << 30)
                except CorruptionError:
                    lost.append(f"{ledger.id}:{entry_id}")
        for _ in range(20):  # nor is it taken for one when entries are moved
            store.maintain()
            store.flush()
        store.close()
        assert lost == [name]


def test_damaged_acks_are_left_out_and_their_messages_come_again(
    stopped: Path, tmp_path: Path, run: Run
) -> None:
    path, offset, _ = place_of(stopped, 1, "delta")
    flip(path, offset + 41)
    code, _, err = run("backup", stopped, tmp_path / "backup", "--skip-damaged")
    assert (code, err) == (
        1,
        "magnetar: left out, since it is damaged: acks of billing of "
        f"{ORDERS}: messages will be delivered again\n",
    )
    assert run("check", tmp_path / "backup")[0] == 0
    with open_directory(stopped) as found:
        ledger_id = next(id for id, one in found.state.ledgers.items() if one.index.count())
    assert acked_of(tmp_path / "backup", "billing")(ledger_id, 0)
    assert not acked_of(tmp_path / "backup", "billing")(ledger_id, 5)


@pytest.mark.parametrize("part", ["group header", "record head", "segment header"])
def test_damage_that_the_heads_know_better_loses_nothing(
    stopped: Path, tmp_path: Path, run: Run, part: str
) -> None:
    before = entries_of(stopped)
    path, offset, _ = place_of(stopped, 0, "entry")
    places = {
        "group header": group_of(path, offset),
        "record head": offset + 18,
        "segment header": 20,
    }
    flip(path, places[part])
    code, out, err = run("backup", stopped, tmp_path / "backup", "--skip-damaged")
    assert (code, err) == (0, "")
    assert "left out" not in out
    assert entries_of(tmp_path / "backup") == before


@pytest.mark.parametrize("kind", ["topic", "cursor", "last slice"])
def test_what_nothing_can_do_without_is_not_left_out(
    stopped: Path, tmp_path: Path, run: Run, kind: str
) -> None:
    path, offset, _ = place_of(stopped, 0, kind)
    flip(path, offset + 41)
    code, _, err = run("backup", stopped, tmp_path / "backup", "--skip-damaged")
    assert code == 2
    assert "only entries and acks can be left out" in err
    assert not (tmp_path / "backup").exists()


def test_a_group_without_a_header_is_refused_where_there_are_no_heads(
    tmp_path: Path, run: Run
) -> None:
    builder, _ = build(tmp_path / "data")
    builder.kill()
    path, offset, _ = place_of(tmp_path / "data", 0, "entry")
    flip(path, group_of(path, offset))
    for heads in path.parent.glob("*.heads"):
        heads.unlink()
    code, _, err = run("backup", tmp_path / "data", tmp_path / "backup", "--skip-damaged")
    assert (code, "damaged or missing" in err) == (2, True)


def test_what_never_reached_the_disk_is_not_called_lost(tmp_path: Path, run: Run) -> None:
    """The last group was torn by a crash: no later one says that it was ever whole."""
    builder, _ = build(tmp_path / "data")
    builder.topic("persistent://public/default/torn", [1, 1])
    builder.kill()
    path, offset, _ = place_of(tmp_path / "data", 33, "entry")
    flip(path, offset + 41)
    code, _, err = run("backup", tmp_path / "data", tmp_path / "backup", "--skip-damaged")
    assert (code, err) == (0, "")


def test_a_damaged_backup_is_not_restored(stopped: Path, tmp_path: Path, run: Run) -> None:
    assert run("backup", stopped, tmp_path / "backup")[0] == 0
    segment = sorted((tmp_path / "backup" / "journal").glob("*.log"))[0]
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)
    code, _, err = run("restore", tmp_path / "backup", tmp_path / "restored")
    assert (code, "is damaged" in err) == (1, True)
    assert not (tmp_path / "restored").exists()


# ---- Races, one by one -----------------------------------------------------------


class Racing:
    """A store that is written to at the very moment that its last segment is read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.builder, _ = build(path)
        self.topic, self.positions = self.builder.topic("persistent://public/default/raced", [1])

    def append(self, size: int = 50) -> None:
        self.builder.store.append(self.topic, bytes(size), batch_size=1, publish_time_ms=1)
        self.builder.flush()

    def roll(self) -> None:
        """Goes on until the log has another segment."""
        count = len(self.segments())
        while len(self.segments()) == count:
            self.append(500)

    def segments(self) -> list[Path]:
        return sorted((self.path / "journal").glob("*.log"))

    def copy(self, target: Path) -> set[tuple[int, int]]:
        LogCopy(self.path, target).run(lambda done, total: None)
        violations, _ = verify(target)
        assert violations == []
        return entries_of(target)


@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(share=st.floats(0, 1), groups=st.integers(1, 20), size=st.integers(1, 1000))
def test_a_segment_that_grows_while_it_is_read(
    tmp_path_factory: pytest.TempPathFactory, share: float, groups: int, size: int
) -> None:
    """The front of the file is old and its back is new: groups behind the old end are whole
    there, and must not count. Sometimes the log goes on in other segments meanwhile."""
    path = tmp_path_factory.mktemp("race")
    racing = Racing(path / "data")
    before = _all_entries(racing.builder)
    read = log_copy._read

    def torn(descriptor: int, length: int) -> bytes:
        front = read(descriptor, length)
        for _ in range(groups):
            racing.append(size)
        back = read(descriptor, length)
        cut = int(share * len(front))
        return front[:cut] + back[cut:]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_copy, "_read", torn)
        found = racing.copy(path / "copy")
    assert before <= found
    racing.builder.kill()
    shutil.rmtree(path)


def _all_entries(builder: Builder) -> set[tuple[int, int]]:
    state = builder.store.log.state
    return {
        (ledger.id, entry)
        for ledger in state.ledgers.values()
        for entry in range(ledger.index.count())
    }


def test_what_stays_damaged_is_no_race(tmp_path: Path) -> None:
    racing = Racing(tmp_path / "data")
    last = racing.segments()[-1]
    for _ in range(3):
        racing.append()
    data = bytearray(last.read_bytes())
    data[200] ^= 1
    last.write_bytes(data)
    with pytest.raises(CorruptionError, match="damaged or missing"):
        racing.copy(tmp_path / "copy")
    racing.builder.kill()


def test_segments_that_go_meanwhile_are_still_read(tmp_path: Path) -> None:
    """Reclaim removes files while the copy is under way; what it opened stays readable."""
    racing = Racing(tmp_path / "data")
    racing.roll()
    racing.roll()
    before = _all_entries(racing.builder)
    copy = LogCopy(tmp_path / "data", tmp_path / "copy")
    opened = copy._open_segments
    gone: list[Path] = []

    def open_then_lose(stack: object) -> dict[int, int] | None:
        found = opened(stack)  # type: ignore[arg-type]
        for file in racing.segments()[:-1]:
            file.unlink()
            gone.append(file)
        return found

    copy._open_segments = open_then_lose  # type: ignore[method-assign]
    copy.run(lambda done, total: None)
    assert gone
    assert before <= entries_of(tmp_path / "copy")
    racing.builder.kill()


def test_a_list_of_segments_that_changes_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    racing = Racing(tmp_path / "data")
    listed = os.listdir
    gone: list[str] = []

    def list_once_more(path: Path) -> list[str]:
        return listed(path) + ([gone.pop()] if gone and path.name == "journal" else [])

    copy = LogCopy(tmp_path / "data", tmp_path / "copy")
    opened = copy._open_segments

    def open_segments(stack: ExitStack) -> dict[int, int] | None:
        if copy.attempts == 1:
            gone.append("7fffffff.log")  # in the list once, and not there
        return opened(stack)

    copy._open_segments = open_segments  # type: ignore[method-assign]
    with monkeypatch.context() as patch:
        patch.setattr(os, "listdir", list_once_more)
        copy.run(lambda done, total: None)
    assert copy.attempts == 2
    racing.builder.kill()


def test_a_catalog_that_changes_is_copied_again(tmp_path: Path) -> None:
    racing = Racing(tmp_path / "data")
    catalog = Catalog(tmp_path / "data")
    catalog.put("tenants", "before", "{}")
    copy = LogCopy(tmp_path / "data", tmp_path / "copy")
    read_last = copy._read_last

    def change_once(segments: dict[int, int]) -> tuple[int, bytes]:
        if copy.attempts == 1:
            catalog.put("tenants", "meanwhile", "{}")
        return read_last(segments)

    copy._read_last = change_once  # type: ignore[method-assign]
    copy.run(lambda done, total: None)
    catalog.close()
    assert copy.live
    assert copy.attempts == 2
    database = sqlite3.connect(tmp_path / "copy" / "catalog.sqlite")
    keys = {key for (key,) in database.execute("SELECT key FROM item")}
    database.close()
    assert keys == {"before", "meanwhile"}
    racing.builder.kill()
