"""`produce`, `consume` and `peek`, against a real broker."""

import base64
import json
import time
from itertools import count
from pathlib import Path

import pytest
from cli.broker_cli import BrokerCli

import magnetar
from magnetar.cli.message import lines
from magnetar.cli.message.messages import Entry, Shown, print_message, time_ms
from magnetar.errors import SettingsError
from magnetar.model import MessageId
from magnetar.rest.admin_error import AdminError
from magnetar.rest.answer import Answer
from magnetar.rest.id_text import parse_base64

numbers = count()


@pytest.fixture
def topic(cli: BrokerCli) -> str:
    """A topic with a subscription `sub`."""
    name = f"messages-{next(numbers)}"
    cli.ok("topics", "create", name)
    cli.ok("topics", "create-subscription", name, "-s", "sub")
    return name


def consumed(cli: BrokerCli, topic: str, count: int, *more: str) -> list[dict[str, object]]:
    out = cli.ok("consume", topic, "-s", "sub", "-t", "Shared", "-n", str(count), "--json", *more)
    return [json.loads(line) for line in out.splitlines()]


def test_texts_with_key_and_properties(cli: BrokerCli, topic: str) -> None:
    sent = cli.ok("produce", topic, "-m", "a,b", "-m", "ü", "-k", "key", "-p", "x=1", "-p", "y=")
    assert sent == f"sent 2 messages to {topic}\n"
    found = consumed(cli, topic, 2)
    assert [one["data"] for one in found] == ["a,b", "ü"]
    assert {one["key"] for one in found} == {"key"}
    assert found[0]["properties"] == {"x": "1", "y": ""}
    assert found[0]["topic"] == f"persistent://public/default/{topic}"
    assert cli.ok("produce", topic, "-m", "one") == f"sent 1 message to {topic}\n"


def test_splitting_files_and_repeating(cli: BrokerCli, topic: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\x00\xff")
    cli.ok(
        "produce",
        topic,
        "-m",
        "a,b",
        "-s",
        ",",
        "-f",
        tmp_path / "file",
        "-f",
        "-",
        "-n",
        "2",
        input="in",
    )
    found = consumed(cli, topic, 8)
    assert [one.get("data") for one in found] == ["a", "b", None, "in"] * 2
    assert base64.b64decode(str(found[2]["dataBase64"])) == b"\x00\xff"


def test_ids_of_what_was_sent_are_those_of_what_comes(cli: BrokerCli, topic: str) -> None:
    printed = cli.ok("produce", topic, "-m", "a", "-m", "b", "--json").splitlines()
    sent = [json.loads(line)["messageId"] for line in printed]
    assert [one["messageId"] for one in consumed(cli, topic, 2)] == sent
    assert [parse_base64(id).batch_index() for id in sent] == [0, 1]


@pytest.mark.parametrize("option", ["-l", "--lines"])
def test_each_line_of_standard_input_is_a_message(cli: BrokerCli, topic: str, option: str) -> None:
    """An empty line is an empty message, and the last one needs no newline."""
    sent = cli.ok("produce", topic, option, "-k", "k", input="a,b\n\n ü \nlast")
    assert sent == f"sent 4 messages to {topic}\n"
    found = consumed(cli, topic, 4)
    assert [(one["data"], one["key"]) for one in found] == [
        (text, "k") for text in ("a,b", "", " ü ", "last")
    ]
    assert cli.ok("produce", topic, option, input="") == f"sent 0 messages to {topic}\n"


def test_each_line_of_files_is_a_message(cli: BrokerCli, topic: str, tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"1\n2\r\n")
    (tmp_path / "two").write_bytes(b"3")
    files = ("-f", tmp_path / "one", "-f", "-", "-f", tmp_path / "two")
    cli.ok("produce", topic, "--lines", *files, input="in between\n")
    assert [one["data"] for one in consumed(cli, topic, 4)] == ["1", "2\r", "in between", "3"]


def test_a_line_without_an_end_is_refused(
    cli: BrokerCli, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "LINE_BYTES_MAX", 4)
    ran = cli.run("produce", topic, "--lines", input="1234\n12345")
    assert (ran.code, ran.out) == (2, "")
    assert "a line of standard input has more than" in ran.err
    assert consumed(cli, topic, 1)[0]["data"] == "1234"


def test_a_rate_is_kept(cli: BrokerCli, topic: str) -> None:
    begin = time.monotonic()
    cli.ok("produce", topic, "-m", "a", "-n", "5", "-r", "50")
    assert time.monotonic() - begin >= 4 / 50
    begin = time.monotonic()
    consumed(cli, topic, 5, "-r", "50")
    assert time.monotonic() - begin >= 4 / 50
    cli.ok("produce", topic, "-m", "a")
    consumed(cli, topic, 1, "-r", "0.001")  # nothing is waited for after the last


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ([], "nothing to send"),
        (["-f", "/nowhere"], "cannot read /nowhere"),
        (["-m", "a", "-p", "x"], "NAME=VALUE"),
        (["-m", "a", "--chunking"], "--disable-batching"),
        (["-m", "a", "--lines"], "lines are sent once, and without --messages"),
        (["-n", "2", "--lines"], "lines are sent once, and without --messages"),
        (["--lines", "-f", "/nowhere"], "cannot read /nowhere"),
    ],
)
def test_what_cannot_be_sent(cli: BrokerCli, topic: str, given: list[str], why: str) -> None:
    ran = cli.run("produce", topic, *given)
    assert (ran.code, ran.out) == (2, "")
    assert why in ran.err


def test_large_messages_are_split_if_told_to(cli: BrokerCli, topic: str, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(6 << 20))
    ran = cli.run("produce", topic, "-f", tmp_path / "large", "-db")
    assert ran.code == 2
    assert "MessageTooBig: give --chunking" in ran.err
    cli.ok("produce", topic, "-f", tmp_path / "large", "-db", "-c")
    shown = cli.ok("consume", topic, "-s", "sub", "--hide-content")
    assert shown.splitlines()[1] == f"{6 << 20:,} bytes"


def test_delayed_messages_wait(cli: BrokerCli, topic: str) -> None:
    cli.ok("produce", topic, "-m", "later", "--deliver-after", "3600")
    stats = ["topics", "stats", topic, "--json"]
    ran = cli.run("consume", topic, "-s", "sub", "-t", "Shared", "--timeout", "0.1")
    assert (ran.code, ran.out) == (1, "")
    assert json.loads(cli.ok(*stats))["subscriptions"]["sub"]["msgBacklog"] == 1


def test_what_is_shown_is_acked(cli: BrokerCli, topic: str) -> None:
    cli.ok("produce", topic, "-m", "a", "-m", "b", "-m", "c")
    shown = cli.ok("consume", topic, "-s", "sub", "-n", "2").splitlines()
    assert shown[1::2] == ["a", "b"]
    assert shown[0].startswith("----- ")
    assert cli.ok("consume", topic, "-s", "sub", "-n", "1").splitlines()[1:] == ["c"]
    ran = cli.run("consume", topic, "-s", "sub", "-n", "1", "--timeout", "0.1")
    assert (ran.code, ran.out) == (1, "")
    assert "received 0 of 1" in ran.err
    assert cli.run("consume", topic, "-s", "sub", "-n", "0", "--timeout", "0.1").code == 0


def test_left_unacked_it_comes_again(cli: BrokerCli, topic: str) -> None:
    cli.ok("produce", topic, "-m", "a")
    for _ in range(2):
        assert consumed(cli, topic, 1, "--no-ack")[0]["data"] == "a"
    assert consumed(cli, topic, 1)[0]["data"] == "a"
    assert cli.ok("peek", topic, "-s", "sub") == ""


@pytest.mark.parametrize("kind", ["Exclusive", "Shared", "Failover", "Key_Shared"])
def test_types_of_subscriptions(cli: BrokerCli, topic: str, kind: str) -> None:
    cli.ok("produce", topic, "-m", "a", "-k", "k")
    shown = cli.ok("consume", topic, "-s", "new", "-t", kind, "-p", "Earliest")
    assert shown.splitlines()[1] == "a"
    assert "new" in cli.ok("subscriptions", "list", topic).splitlines()


def test_one_that_is_not_durable_leaves_nothing(cli: BrokerCli, topic: str) -> None:
    cli.ok("produce", topic, "-m", "a")
    cli.ok("consume", topic, "-s", "brief", "-m", "NonDurable", "-p", "Earliest")
    assert "brief" not in cli.ok("subscriptions", "list", topic).splitlines()


def test_a_pattern_is_for_several_topics(cli: BrokerCli) -> None:
    names = [f"pattern-{next(numbers)}-x" for _ in range(2)]
    for name in names:
        cli.ok("topics", "create", name)
        cli.ok("produce", name, "-m", name)
    shown = cli.ok(
        "consume",
        r"persistent://public/default/pattern-\d+-x",
        "--regex",
        "-s",
        "all",
        "-p",
        "Earliest",
        "-n",
        "2",
        "-t",
        "Shared",
    )
    assert sorted(shown.splitlines()[1::2]) == sorted(names)


def test_busy_missing_and_out_of_reach(cli: BrokerCli, topic: str) -> None:
    with magnetar.Client(cli.url) as client:
        client.subscribe(topic, "sub")
        ran = cli.run("consume", topic, "-s", "sub")
        assert (ran.code, ran.out) == (6, "")
    assert cli.run("produce", "persistent://nobody/here/t", "-m", "a").code == 5
    assert cli.run("consume", topic, "-s", "sub", "-t", "Sometimes").code == 2


def test_bytes_and_sizes(cli: BrokerCli, topic: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(range(20)) + b"hello")
    cli.ok("produce", topic, "-f", tmp_path / "file")
    for command in (
        ["peek", topic, "-s", "sub", "--hex"],
        ["consume", topic, "-s", "sub", "--hex"],
    ):
        shown = cli.ok(*command).splitlines()
        assert shown[1].startswith("00000000  00 01 02 03")
        assert shown[2].endswith("....hello")
    cli.ok("produce", topic, "-m", "12345")
    assert cli.ok("peek", topic, "-s", "sub", "--hide-content").splitlines()[1] == "5 bytes"


def test_a_message_cannot_command_the_terminal(cli: BrokerCli, topic: str) -> None:
    cli.ok("produce", topic, "-m", "a\x1b[2Jb\nc", "-k", "k\x1b")
    shown = cli.ok("peek", topic, "-s", "sub")
    assert "\x1b" not in shown
    assert shown.splitlines()[1:] == ["a\\x1b[2Jb", "c"]


def test_nothing_to_peek_at(cli: BrokerCli, topic: str) -> None:
    ran = cli.run("peek", topic, "-s", "sub")
    assert (ran.code, ran.out) == (0, "")
    assert "no unacked messages" in ran.err
    assert cli.run("peek", topic, "-s", "sub", "--json").err == ""


def test_peeked_through_many_pages(cli: BrokerCli, topic: str) -> None:
    """More partly acked batches than the broker tells of at once."""
    for text in "abc":
        cli.ok("produce", topic, "-m", text, "-m", "gone", "-m", text.upper())
    ids = [
        json.loads(line)
        for line in cli.ok("peek", topic, "-s", "sub", "-n", "9", "--json").splitlines()
    ]
    gone = [one["id"] for one in ids if one["data"] == "gone"]
    given = [part for id in gone for part in ("--messageId-triplet", id)]
    cli.ok("topics", "skip-messages", topic, "-s", "sub", *given)
    page = cli.ok("topics", "ack-state", topic, "-s", "sub", "--limit", "1")
    assert "more from" in page
    left = cli.ok("peek", topic, "-s", "sub", "-n", "9").splitlines()[1::2]
    assert left == ["a", "A", "b", "B", "c", "C"]


# ---- Without a broker --------------------------------------------------------------


def test_an_entry_that_is_none() -> None:
    with pytest.raises(AdminError, match="is not an entry"):
        Entry(Answer(200, {}, b""), "t", -1)


def test_a_batch_that_cannot_be_read() -> None:
    headers = {"x-pulsar-message-id": "1:2", "x-pulsar-num-batch-message": "3"}
    with pytest.raises(AdminError, match="batch at 1:2 cannot be read"):
        Entry(Answer(200, headers, b"\x00\x00"), "t", -1).messages()


def test_what_is_encrypted_stays_whole() -> None:
    headers = {
        "x-pulsar-message-id": "1:2",
        "x-pulsar-num-batch-message": "3",
        "x-pulsar-is-encrypted": "true",
        "x-pulsar-property": "no json",
    }
    (message,) = Entry(Answer(200, headers, b"???"), "t", 4).messages()
    assert (message.id, message.data) == (MessageId(4, 1, 2), b"???")
    assert message.properties == {}


def test_a_message_that_came_before_says_how_often(capsys: pytest.CaptureFixture[str]) -> None:
    shown = Shown(MessageId(ledger_id=1, entry_id=2), b"x", redeliveries=3)
    print_message(shown, as_json=False)
    print_message(shown, as_json=True)
    first, _, third = capsys.readouterr().out.splitlines()
    assert first == "----- 1:2  redelivered 3 times"
    assert json.loads(third)["redeliveryCount"] == 3


def test_times() -> None:
    assert time_ms("-d", "2023-11-14T22:13:20.5+00:00") == 1_700_000_000_500
    assert time_ms("-d", "2023-11-14") == 1_699_920_000_000
    with pytest.raises(SettingsError, match="is not a time"):
        time_ms("-d", "tomorrow")
