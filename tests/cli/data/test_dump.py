"""`magnetar dump`: for people, for programs, and for Apache Pulsar."""

import json
from pathlib import Path

import pytest
from cli.conftest import ORDERS, QUIET, Builder, Run, TransactionsAtWork, build, contents
from storage.workload import Clock

from magnetar.ack.cursor_info import CursorInfo
from magnetar.ack.encoding.cursor_info_codec import encode_managed_cursor_info, encode_position_info
from magnetar.cli.data.cursor_file import MAGIC, decode_cursor_file, encode_compressed, file_name
from magnetar.cli.data.directory import open_directory
from magnetar.errors import CorruptAckError
from magnetar.model import CompressionType, Position
from magnetar.model.enums import COMPRESSION_NAMES
from magnetar.model.message_id_data import MessageIdData

# ---- Tables ------------------------------------------------------------------


def cells(out: str, first: str) -> list[str]:
    """The cells of the first row that begins so."""
    for line in out.splitlines():
        if line.split()[:1] == [first]:
            return line.split()
    raise AssertionError(f"no row of {first} in\n{out}")


def orders_of(directory: Path) -> tuple[int, list[int]]:
    """The id of the topic, and those of its ledgers."""
    with open_directory(directory) as found:
        (topic,) = [topic for topic in found.topics() if topic.name == ORDERS]
        return int(topic.id), [int(id) for id in topic.ledger_ids]


def test_tables_show_topics_ledgers_and_cursors(run: Run, directory: Path) -> None:
    _, (a, b, _) = orders_of(directory)
    before = contents(directory)
    code, out, err = run("dump", directory)
    assert (code, err) == (0, "")
    assert contents(directory) == before
    assert cells(out, ORDERS) == [ORDERS, "3", "32", "380", "3,800", "2"]
    assert cells(out, QUIET) == [QUIET, "0", "0", "0", "0", "1"]
    assert cells(out, "billing")[2:] == [f"{a}:2", "24", "350", "3", "2"]
    assert cells(out, "audit")[2:] == ["-1:-1", "32", "380", "0", "0"]
    assert f"billing: acked above mark-delete: {a}:5, {a}:9-11, {b}:1\n" in out
    assert cells(out, f"{a}:4") == [f"{a}:4", "70", "68", "1-68"]
    assert cells(out, f"{a}:6") == [f"{a}:6", "10", "8", "0-2,", "5-9"]
    assert "no ledgers" in out
    assert out.count("2027-01-15 08:00:00") == 6
    assert "not closed in order" not in out


def test_only_one_topic_may_be_asked_for_by_its_full_or_short_name(
    run: Run, directory: Path
) -> None:
    for name in (ORDERS, "orders", "public/default/orders"):
        _, out, _ = run("dump", directory, "--topic", name)
        assert out.startswith(f"{ORDERS} (topic {orders_of(directory)[0]})\n")
        assert QUIET not in out
    code, out, err = run("dump", directory, "--topic", "order:s")
    assert (code, out) == (2, "")
    assert err.startswith(f"magnetar: there is no topic order:s in {directory}: ")


def test_a_terminal_gets_lines_that_fit(
    run: Run, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    _, out, _ = run("dump", directory)
    assert max(len(line) for line in out.splitlines()) <= 120
    monkeypatch.setenv("COLUMNS", "20")
    _, out, _ = run("dump", directory)
    assert "…" not in out


def test_a_kill_and_what_it_tore_are_said(run: Run, tmp_path: Path) -> None:
    builder, _ = build(tmp_path)
    end = builder.store.log.journal.end
    builder.kill()
    segment = tmp_path / f"journal/{end >> 32:08x}.log"
    data = bytearray(segment.read_bytes())
    at = end & 0xFFFFFFFF
    data[at : at + 4] = b"torn"
    segment.write_bytes(data)
    before = contents(tmp_path)
    code, out, _ = run("dump", tmp_path)
    assert code == 0
    assert out.startswith(
        "not closed in order: the next start recovers it\n"
        f"journal/{segment.name} will be cut at byte {at}: 4 bytes and 0 records"
    )
    assert "open" in out
    assert json.loads(run("dump", tmp_path, "--format", "json")[1])["cuts"] == [
        {"path": f"journal/{segment.name}", "offset": at, "bytes": 4, "records": 0}
    ]
    assert contents(tmp_path) == before


def test_a_directory_without_topics_and_a_topic_without_cursors(run: Run, tmp_path: Path) -> None:
    builder = Builder(tmp_path / "one")
    builder.store.close()
    assert run("dump", tmp_path / "one") == (0, "no topics\n", "")
    builder = Builder(tmp_path / "other")
    builder.topic(ORDERS, [1])
    builder.store.close()
    assert "  no cursors\n" in run("dump", tmp_path / "other")[1]


def test_long_lists_end_with_how_much_is_left_out(run: Run, tmp_path: Path) -> None:
    builder = Builder(tmp_path)
    topic_id, positions = builder.topic("odd\x1b[2Jtopic", [40] * 300)
    builder.cursor(
        topic_id,
        "[bold]sub",
        lambda cursor: cursor.plan_acks(
            [MessageIdData(p.ledger_id, p.entry_id) for p in positions[1::3]]
        ),
        lambda cursor: cursor.plan_messages(
            [
                MessageIdData(p.ledger_id, p.entry_id, batch_index=index)
                for p in positions[2::3]
                for index in range(0, 40, 2)
            ]
        ),
    )
    builder.store.close()
    _, out, _ = run("dump", tmp_path)
    assert "\x1b" not in out
    assert f"odd\\x1b[2Jtopic (topic {topic_id})\n" in out
    assert "5 older" in out
    assert "[bold]sub: acked above mark-delete: " in out
    assert "(the first 20 of 100)\n" in out
    assert "[bold]sub: partly acked (the first 20 of 100):\n" in out
    assert "1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, ...\n" in out


def test_a_time_that_no_calendar_has_is_shown_as_a_number(run: Run, tmp_path: Path) -> None:
    builder = Builder(tmp_path, lambda: 10**17)
    builder.topic(ORDERS, [1])
    builder.kill()
    assert f"{10**17}  " in run("dump", tmp_path)[1]


# ---- JSON --------------------------------------------------------------------


def test_json_is_one_document_with_everything(run: Run, directory: Path) -> None:
    code, out, err = run("dump", directory, "--format", "json", "--topic", "orders")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert (document["closedInOrder"], document["cuts"]) == (True, [])
    (topic,) = document["topics"]
    id, (a, b, _) = orders_of(directory)
    assert (topic["id"], topic["name"]) == (id, ORDERS)
    assert [ledger["entries"] for ledger in topic["ledgers"]] == [12, 12, 8]
    assert topic["ledgers"][0].keys() == {
        "id",
        "sealed",
        "entries",
        "messages",
        "bytes",
        "createdAt",
        "sealedAt",
        "abortedEntries",
        "uncommittedEntries",
    }
    assert document["openTransactions"] == []
    billing, audit = topic["cursors"]
    assert billing == {
        "id": billing["id"],
        "epoch": 0,
        "name": "billing",
        "markDeletePosition": f"{a}:2",
        "msgBacklog": 24,
        "msgBacklogMessages": 350,
        "ackedRanges": [
            {"ledgerId": a, "first": 5, "end": 6},
            {"ledgerId": a, "first": 9, "end": 12},
            {"ledgerId": b, "first": 1, "end": 2},
        ],
        "partlyAcked": [
            {"ledgerId": a, "entryId": 4, "batchSize": 70, "unacked": list(range(1, 69))},
            {"ledgerId": a, "entryId": 6, "batchSize": 10, "unacked": [0, 1, 2, 5, 6, 7, 8, 9]},
        ],
    }
    assert audit["markDeletePosition"] == "-1:-1"


def test_transactions_are_shown_with_what_waits_for_their_ends(run: Run, tmp_path: Path) -> None:
    """And the backlog is what consumers may come to have: nothing aborted, nothing uncommitted."""
    work = TransactionsAtWork(tmp_path)
    code, out, err = run("dump", tmp_path, "--format", "json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert document["openTransactions"] == [
        {
            "txnId": f"(0,{work.open})",
            "owner": "clerk",
            "openedAt": work.opened_ms,
            "timeoutMs": 60_000,
            "producedEntries": {ORDERS: 2},
            "ackedEntries": {ORDERS: {"billing": 1}},
        }
    ]
    (topic,) = document["topics"]
    (ledger,) = topic["ledgers"]
    assert [ledger[name] for name in ("entries", "abortedEntries", "uncommittedEntries")] == [
        *(8, 2, 2)
    ]
    (cursor,) = topic["cursors"]
    # Entries 0, 1 and 3 are of nobody or committed, 2 and 4 aborted, 5 and 6 hide 7.
    assert cursor["msgBacklog"] == 3
    # And a backup has them as they were.
    code, _, err = run("backup", tmp_path, tmp_path.with_name("copy"))
    assert (code, err) == (0, "")
    _, copied, _ = run("dump", tmp_path.with_name("copy"), "--format", "json")
    same = ("openTransactions", "topics")
    assert {name: json.loads(copied)[name] for name in same} == {
        name: document[name] for name in same
    }
    code, out, _ = run("dump", tmp_path)
    assert f"(0,{work.open})" in out
    assert "entries of transactions: 2 uncommitted, 2 aborted" in out


# ---- Pulsar's files ----------------------------------------------------------

FORMS = [[], ["--as-long-array"], *[["--compression", name.lower()] for name in COMPRESSION_NAMES]]


@pytest.mark.parametrize("form", FORMS, ids=" ".join)
def test_every_cursor_is_written_in_a_file_and_loaded_as_it_was(
    run: Run, directory: Path, tmp_path: Path, form: list[str]
) -> None:
    target = tmp_path / "a" / "out"
    before = contents(directory)
    code, out, err = run("dump", directory, "--format", "pulsar", "--output", target, *form)
    assert (code, err) == (0, "")
    suffix = "managed-cursor-info" if "--compression" in form else "position-info"
    document = json.loads(run("dump", directory, "--format", "json")[1])
    for topic in document["topics"]:
        for cursor in topic["cursors"]:
            file = target / f"{cursor.pop('id')}-{cursor['name']}.{suffix}"
            assert cells(out, file.name)[1:3] == [topic["name"], cursor["name"]]
            loaded = run(
                "dump", directory, "--load", file, "--format", "json", "--topic", topic["name"]
            )
            assert loaded[0] == 0
            assert cursor.pop("epoch") == 0
            cursor["name"] = file.name
            assert json.loads(loaded[1]) == {"topic": topic["name"], "cursor": cursor}
    assert len(list(target.iterdir())) == 3
    assert contents(directory) == before


def test_a_loaded_file_is_shown_as_a_table_and_finds_its_topic_by_its_ledgers(
    run: Run, directory: Path, tmp_path: Path
) -> None:
    run("dump", directory, "--format", "pulsar", "--output", tmp_path / "out")
    (billing,) = (tmp_path / "out").glob("*-billing.position-info")
    code, out, err = run("dump", directory, "--load", billing)
    assert (code, err) == (0, "")
    assert out.startswith(f"{ORDERS}\n")
    _, (a, _, _) = orders_of(directory)
    assert cells(out, billing.name) == [billing.name, f"{a}:2", "24", "350", "3", "2"]
    assert cells(out, f"{a}:6") == [f"{a}:6", "10", "8", "0-2,", "5-9"]
    (audit,) = (tmp_path / "out").glob("*-audit.position-info")
    code, out, err = run("dump", directory, "--load", audit)
    assert (code, out) == (2, "")
    assert err == (
        f"magnetar: 0 topics of {directory} have the ledgers that are named in {audit}: "
        "say which is meant with --topic\n"
    )


def test_a_file_of_another_directory_is_refused(run: Run, directory: Path, tmp_path: Path) -> None:
    run("dump", directory, "--format", "pulsar", "--output", tmp_path / "out")
    (billing,) = (tmp_path / "out").glob("*-billing.position-info")
    builder = Builder(tmp_path / "other", lambda: Clock()() + 1)  # ids are made of the time
    builder.topic(ORDERS, [1, 1])
    builder.store.close()
    code, out, err = run("dump", tmp_path / "other", "--load", billing)
    assert (code, out) == (2, "")
    assert err.startswith(f"magnetar: 0 topics of {tmp_path / 'other'} have the ledgers that are ")
    _, (own,) = orders_of(tmp_path / "other")
    info = CursorInfo(Position(own, 0), ((Position(own, 4), Position(own, 5)),))
    billing.write_bytes(encode_position_info(info))
    code, out, err = run("dump", tmp_path / "other", "--load", billing)
    assert (code, out) == (2, "")
    assert err == f"magnetar: no entry {own}:5 in this topic: the ledger has 2 entries\n"


def test_a_topic_without_ledgers_may_have_had_those_of_the_file(
    run: Run, directory: Path, tmp_path: Path
) -> None:
    run("dump", directory, "--format", "pulsar", "--output", tmp_path / "out")
    (billing,) = (tmp_path / "out").glob("*-billing.position-info")
    code, out, _ = run("dump", directory, "--load", billing, "--topic", "quiet")
    assert code == 0
    _, (a, _, _) = orders_of(directory)
    assert cells(out, billing.name) == [billing.name, f"{a}:2", "0", "0", "0", "0"]


def test_a_batch_whose_size_is_not_known_is_refused(run: Run, tmp_path: Path) -> None:
    builder = Builder(tmp_path / "data")
    _, (first, unknown, _) = builder.topic(ORDERS, [1, 0, 1])
    builder.store.close()
    file = tmp_path / "cursor"
    info = CursorInfo(first, (), ((unknown, 2),))
    file.write_bytes(encode_position_info(info))
    code, out, err = run("dump", tmp_path / "data", "--load", file)
    assert (code, out) == (2, "")
    assert err == f"magnetar: entry {first.ledger_id}:1: the size of this batch is not known here\n"


def test_a_file_that_is_no_cursor_is_refused(run: Run, directory: Path, tmp_path: Path) -> None:
    file = tmp_path / "cursor"
    code, out, err = run("dump", directory, "--load", file)
    assert (code, out) == (2, "")
    assert err == f"magnetar: cannot read {file}: No such file or directory\n"
    file.write_bytes(b"hello")
    code, out, err = run("dump", directory, "--load", file)
    assert (code, out) == (2, "")
    assert err.startswith("magnetar: corrupt ack state at byte ")


def test_files_are_written_to_a_new_or_empty_directory_elsewhere(
    run: Run, directory: Path, tmp_path: Path
) -> None:
    before = contents(directory)

    def write(target: Path) -> str:
        code, out, err = run("dump", directory, "--format", "pulsar", "--output", target)
        assert (code, out) == (2, "")
        return err

    assert "is in the data directory" in write(directory / "out")
    (tmp_path / "file").write_text("x")
    assert f"cannot use {tmp_path / 'file'}: Not a directory" in write(tmp_path / "file")
    assert "cannot write to" in write(tmp_path / "file" / "below")
    assert "is not empty" in write(tmp_path)
    assert (
        "is not a data directory"
        in run("dump", tmp_path, "--format", "pulsar", "--output", tmp_path / "new")[2]
    )
    assert not (tmp_path / "new").exists()
    assert contents(directory) == before


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--format", "pulsar"], "say where with --output"),
        (["--output", "x"], "go with --format pulsar"),
        (["--compression", "lz4"], "go with --format pulsar"),
        (["--as-long-array", "--format", "json"], "go with --format pulsar"),
        (["--load", "x", "--format", "pulsar"], "not as pulsar"),
        (
            ["--format", "pulsar", "--output", "x", "--compression", "none", "--as-long-array"],
            "ManagedCursorInfo has no long array",
        ),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    run: Run, directory: Path, options: list[str], reason: str
) -> None:
    code, out, err = run("dump", directory, *options)
    assert (code, out) == (2, "")
    assert reason in err
    assert not Path("x").exists()


# ---- The wrapping of a ManagedCursorInfo --------------------------------------

INFO = CursorInfo(
    Position(5, 1), ((Position(5, 2), Position(5, 9)),), ((Position(5, 11), 5),), (("a", 1),)
)


def test_the_bytes_of_the_wrapping_are_known() -> None:
    plain = encode_managed_cursor_info(INFO)
    assert encode_compressed(INFO, CompressionType.NONE) == plain
    wrapped = encode_compressed(INFO, CompressionType.ZSTD)
    assert wrapped[:10].hex(" ") == f"47 78 00 00 00 04 08 03 10 {len(plain):02x}"
    for compression in CompressionType:
        assert decode_cursor_file(encode_compressed(INFO, compression)) == INFO


def test_unknown_fields_in_the_wrapping_are_passed_over() -> None:
    plain = encode_managed_cursor_info(INFO)
    head = b"\x08\x00\x10" + bytes((len(plain),)) + b"\x18\x05"
    assert decode_cursor_file(MAGIC + len(head).to_bytes(4, "big") + head + plain) == INFO


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "bytes are not there"),
        (b"\x00\x00\x00\x09\x08\x01", "bytes are not there"),
        (b"\x00\x00\x00\x02\x08\x01", "uncompressedSize at byte 8: required"),
        (b"\x00\x00\x00\x04\x08\x09\x10\x03abc", "there is no compression type 9"),
        (b"\x00\x00\x00\x04\x08\x02\x10\x03abc", "cannot decompress"),
        (b"\x00\x00\x00\x08\x08\x02\x10\xff\xff\xff\xff\x7f", "the limit is 1073741824"),
        (b"\x00\x00\x00\x0d\x08\x02\x10" + b"\xff" * 9 + b"\x01", "-1 bytes"),
    ],
)
def test_a_wrapping_that_cannot_have_been_written_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(CorruptAckError, match=reason):
        decode_cursor_file(MAGIC + data)


def test_a_file_is_named_after_its_cursor() -> None:
    assert file_name(7, "../a b\x00" + "x" * 300, managed=True) == (
        f"7-.._a_b_{'x' * 73}.managed-cursor-info"
    )
