"""What all pipelines stand on: sessions, progress, reports, targets and failures."""

import fcntl
import io
import os
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from rich.console import Console

from magnetar import errors
from magnetar.arrow.loss import DataLossError
from magnetar.spark.pipelines import java
from magnetar.spark.pipelines.failure import PipelineError, failure_of
from magnetar.spark.pipelines.letter.target import Target
from magnetar.spark.pipelines.progress import Followed, Progress
from magnetar.spark.pipelines.report.report import ROWS_MAX, Report
from magnetar.spark.pipelines.session import LOG_KEPT_S, _log, session

# ---- Reports -----------------------------------------------------------------

EVIL = "<script>alert('1')</script>&\"\x1b$x_{$"


def drawings(page: str) -> list[ET.Element]:
    """The plots of a page, which are well-formed by themselves."""
    found = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    return [ET.fromstring(text) for text in found]


def full_report(text: str) -> str:
    report = Report(text)
    report.facts({text: text, "messages": 1_234_567, "nothing": None})
    report.note(text)
    report.table(text, ["day", text], [[text, 1], ["x", 2_000]])
    report.plot(text, kind="bar", x=[text, text], y=[1, 2], labels=(text, text))
    report.plot(text, kind="bar", x=["a"], y={text: [1], "b": [2]}, labels=("x", "y"))
    report.plot(text, kind="line", x=[1, 2, 3], y=[3, 2, 1], labels=(text, "y"))
    report.plot(text, kind="line", x=[f"{text}{i}" for i in range(100)], y=list(range(100)))
    return report.to_html()


def test_a_report_obeys_nobody() -> None:
    page = full_report(EVIL)
    assert "<script" not in page
    assert len(drawings(page)) == 4
    assert "1,234,567" in page
    assert 'class="n">2,000<' in page
    # It needs no other file, and no other machine.
    assert re.findall(r'(?:src|href)="(?!#)[^"]*"|url\((?!#)[^)]*\)|@import', page) == []


@settings(max_examples=20, deadline=None)
@given(st.text(max_size=60))
def test_any_text_can_be_reported(text: str) -> None:
    report = Report(text)
    report.table("t", ["c"], [[text]])
    report.plot("p", kind="bar", x=[text], y=[1])
    assert len(drawings(report.to_html())) == 1


def test_a_report_without_data_says_so(tmp_path: Path) -> None:
    report = Report("empty")
    report.table("rows", ["a"], [])
    report.plot("plot", kind="line", x=[], y=[])
    path = report.write(tmp_path / "new" / "report.html")
    assert path.read_text().count(">none<") == 2
    assert [one.name for one in path.parent.iterdir()] == ["report.html"]


def test_a_verdict_a_judged_column_and_marks() -> None:
    report = Report("judged")
    report.verdict("It <holds>.", holds=True)
    report.table("checks", ["check", "holds"], [["a", True], ["b", False]], judged="holds")
    marks = [(1.5, "killed"), (2.0, EVIL)]
    report.plot("plot", kind="line", x=[1, 2, 3], y=[1, 2, 3], marks=marks)
    page = report.to_html()
    assert '<p class="verdict good">It &lt;holds&gt;.</p>' in page
    assert 'class="s good">\N{CHECK MARK} yes<' in page
    assert 'class="s bad">\N{BALLOT X} no<' in page
    assert "<script" not in page
    assert len(drawings(page)) == 1
    assert ">killed<" in page


def test_a_long_table_is_cut() -> None:
    report = Report("long")
    report.table("rows", ["a"], [[i] for i in range(ROWS_MAX + 7)])
    page = report.to_html()
    assert "and 7 more" in page
    assert page.count("<tr>") == ROWS_MAX + 1


# ---- Progress ----------------------------------------------------------------


class Said:
    """A progress of Spark's, as far as it is looked at."""

    def __init__(self, batch: int, rows: int) -> None:
        self.batchId = batch
        self.numInputRows = rows
        self.timestamp = "2026-01-31T12:00:00.000Z"
        self.durationMs = {"triggerExecution": 12}


def test_batches_are_counted_once() -> None:
    followed = Followed()
    for batch, rows in ((0, 5), (0, 5), (1, 0), (1, 0), (2, 7), (0, 5)):
        followed.add(Said(batch, rows))
    assert (followed.rows, followed.count) == (12, 2)
    assert [(one.id, one.rows, one.duration_ms) for one in followed.batches] == [
        (0, 5, 12),
        (2, 7, 12),
    ]


def test_progress_is_lines_without_a_terminal_and_a_bar_on_one() -> None:
    for terminal in (False, True):
        out = io.StringIO()
        console = Console(file=out, force_terminal=terminal, width=120, markup=False)
        with Progress("work", console=console) as progress:
            for done in range(5):
                progress.update(done * 1000, 4000, "rows")
        if terminal:
            assert "4,000 of 4,000 rows" in out.getvalue()
        else:
            # Not each of them: a log is not a terminal.
            assert out.getvalue().splitlines() == [
                "work: 0 of 4,000 rows",
                "work: 4,000 of 4,000 rows",
            ]


def test_tasks_of_spark_are_watched(spark: SparkSession) -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=False, width=120)
    with Progress("work", console=console) as progress, progress.tasks(spark, "sleeping"):
        spark.sql("select java_method('java.lang.Thread', 'sleep', 800L)").count()
        slow = spark.range(2, numPartitions=2).selectExpr(
            "java_method('java.lang.Thread', 'sleep', 1500L + id)"
        )
        slow.collect()
    assert "tasks, sleeping" in out.getvalue()


# ---- Sessions, targets, failures ---------------------------------------------


def test_a_session_that_is_there_is_used_and_left(spark: SparkSession, target: Target) -> None:
    with session("test", target) as found:
        assert found is spark
    assert spark.range(3).count() == 3


def test_logs_that_killed_runs_left_are_removed_after_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    now = time.time()
    for name, age_s in (("left", 2), ("used", 2), ("new", 0)):
        (tmp_path / f"magnetar-{name}-x.log").touch()
        os.utime(tmp_path / f"magnetar-{name}-x.log", (now, now - age_s * LOG_KEPT_S))
    with (tmp_path / "magnetar-used-x.log").open() as used:
        fcntl.flock(used, fcntl.LOCK_EX)
        with _log("mine", wanted=True):
            there = sorted(path.name.rpartition("-")[0] for path in tmp_path.iterdir())
    assert there == ["magnetar-mine", "magnetar-new", "magnetar-used"]
    assert not list(tmp_path.glob("magnetar-mine-*"))


def test_errors_of_workers_come_back_as_they_were(spark: SparkSession, target: Target) -> None:
    options = Target("pulsar://127.0.0.1:1").options(topic="t", operationTimeoutSeconds=1)
    with pytest.raises(errors.ConnectError, match="cannot connect"), session("test", target) as s:
        s.read.format("magnetar").options(**options).load().count()
    with (
        pytest.raises(PipelineError, match=r"Spark failed: .*nowhere"),
        session("test", target) as s,
    ):
        s.table("nowhere").count()


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("x\nmagnetar.errors.TopicNotFound: no topic t\n SQL", errors.TopicNotFound, "no topic t"),
        (
            "magnetar.errors.SettingsError: mode: bad: worse",
            errors.SettingsError,
            "mode: bad: worse",
        ),
        (
            "Caused by: a.b: magnetar.arrow.loss.DataLossError: t lost it\n",
            DataLossError,
            "t lost it",
        ),
        ("magnetar.errors.UsageError: hm", PipelineError, "UsageError: hm"),
        ("Traceback\nValueError: seven", PipelineError, "Spark failed: ValueError: seven"),
        ("only this", PipelineError, "Spark failed: only this"),
    ],
)
def test_failures_have_names(text: str, kind: type[Exception], said: str) -> None:
    found = failure_of(RuntimeError(text))
    assert type(found) is kind or kind in type(found).__mro__
    assert str(found) == said


def test_java_that_is_missing_or_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "java-11" / "bin" / "java"
    old.parent.mkdir(parents=True)
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    old.chmod(0o755)
    monkeypatch.setattr(java, "_HOMES", ())
    monkeypatch.setenv("PATH", "/nowhere:/bin")
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java-11"))
    with pytest.raises(errors.SettingsError, match=r"java-11 is 11\): install it .*openjdk-17"):
        java.find_java()
    monkeypatch.delenv("JAVA_HOME")
    with pytest.raises(errors.SettingsError, match="there is none: install it"):
        java.find_java()


def test_the_command_line_does_without_spark() -> None:
    program = (
        "import sys, magnetar.cli.app\n"
        "print([m for m in ('pyspark', 'pyarrow', 'matplotlib', 'deltalake') if m in sys.modules])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "[]"


def test_a_target_becomes_options() -> None:
    target: Any = Target("pulsar+ssl://a:1", "https://a:2", token="t", tls_trust_certs="/ca.pem")
    assert target.options(topic="x", dryRun=True, mode=None) == {
        "serviceUrl": "pulsar+ssl://a:1",
        "adminUrl": "https://a:2",
        "authToken": "t",
        "tlsTrustCertsFilePath": "/ca.pem",
        "topic": "x",
        "dryRun": "true",
    }
    assert target.connection().auth_token == "t"
