"""The journal of a move: each event, a line that was cut off, and files that are none."""

from pathlib import Path

import pytest

from magnetar.errors import SettingsError
from magnetar.migrate.journal_file import JournalFile
from magnetar.migrate.plan.journal import Progress, event

BEGUN = event("begun", source="pulsar://a", target="pulsar://b")


def progress_of(*lines: str) -> Progress:
    progress = Progress("j")
    progress.take_all("".join(lines))
    return progress


def test_what_was_read_goes_on_where_the_target_says_that_it_ends() -> None:
    progress = progress_of(
        BEGUN,
        event("made", "t", versions=[["05", "00"]]),
        event("read", "t", runs=[[3, 0, 5]]),
        event("read", "t", runs=[[3, 5, 7], [9, 0, 2]]),
        event("resumed", "t", count=6),
        event("read", "t", runs=[[3, 6, 7], [9, 0, 4]]),
        event("copied", "t"),
    )
    topic = progress.topics["t"]
    assert topic.entries.runs == [(3, 0, 7), (9, 0, 4)]
    assert topic.versions == {b"\5": b"\0"}
    assert (topic.copied, topic.acked, topic.done) == (True, False, False)
    progress.take_all(event("acked", "t") + event("done", "t"))
    assert (topic.copied, topic.acked, topic.done) == (True, True, True)


def test_what_is_read_later_is_not_copied_yet() -> None:
    made = event("made", "t", versions=[])
    ended = [event("copied", "t"), event("acked", "t"), event("done", "t")]
    progress = progress_of(BEGUN, made, *ended, event("read", "t", runs=[[1, 0, 1]]))
    topic = progress.topics["t"]
    assert (topic.copied, topic.acked, topic.done) == (False, False, False)


@pytest.mark.parametrize("cut", range(1, len(BEGUN)))
def test_a_line_that_was_cut_off_does_not_count(cut: int) -> None:
    progress = Progress("j")
    assert progress.take_all(BEGUN + BEGUN[:cut]) == len(BEGUN)
    assert (progress.source, progress.target) == ("pulsar://a", "pulsar://b")


@pytest.mark.parametrize(
    "line",
    [
        "{}",
        "[]",
        "no JSON",
        '{"event": "eaten", "topic": "t"}',
        '{"event": "begun", "format": 2, "source": "a", "target": "b"}',
        '{"event": "read", "topic": "t", "runs": [[1, 2]]}',
        '{"event": "read", "topic": "t", "runs": 3}',
    ],
)
def test_a_file_that_is_no_journal_is_refused(line: str) -> None:
    with pytest.raises(SettingsError, match="j, line 2 is not of a journal"):
        progress_of(BEGUN, line + "\n")


def test_a_file_is_cut_where_its_last_line_is_not_whole(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_text(BEGUN + '{"event": "made", "to')
    with JournalFile(path) as journal:
        journal.begin("pulsar://a", "pulsar://b")
        journal.write("made", "t", versions=[])
        assert list(journal.progress.topics) == ["t"]
    with JournalFile(path) as journal:
        assert list(journal.progress.topics) == ["t"]
        with pytest.raises(SettingsError, match="is of a move from pulsar://a to pulsar://b"):
            journal.begin("pulsar://a", "pulsar://c")


def test_two_moves_do_not_share_a_journal(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with JournalFile(path), pytest.raises(SettingsError, match="under way"):
        JournalFile(path)


def test_a_place_without_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot use"):
        JournalFile(tmp_path / "none" / "journal")
