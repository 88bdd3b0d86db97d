"""The log of `magnetar serve`: its levels and formats."""

import json
import logging
import sys
from datetime import datetime
from pathlib import Path

import pytest
from cli.conftest import Refused
from cli.serving import clean_environment, end, started

from magnetar.cli.serve_log import JsonLines

FREE = ("--memory", "--port", "0", "--http-port", "0")
# A notice that every start gives: a variable that is no setting.
NOTICE = "the variable MAGNETAR_NOTHING is not a setting, and has no effect"


def logged(tmp_path: Path, *options: str, **variables: str) -> list[str]:
    environment = clean_environment(MAGNETAR_NOTHING="1", **variables)
    with started(*FREE, *options, cwd=tmp_path, environment=environment) as (process, line):
        assert line.startswith("ready ")
        code, err = end(process)
    assert code == 0
    return err.splitlines()


def test_as_text_for_people(tmp_path: Path) -> None:
    lines = logged(tmp_path)
    assert any(line.endswith(f" INFO {NOTICE}") for line in lines)


def test_as_json_for_programs(tmp_path: Path) -> None:
    lines = [json.loads(line) for line in logged(tmp_path, "--log-format", "json")]
    (found,) = [line for line in lines if line["message"] == NOTICE]
    assert (found["level"], found["logger"]) == ("INFO", "magnetar.serve")
    assert datetime.fromisoformat(found["time"]).tzinfo is not None
    for line in lines:
        assert set(line) == {"time", "level", "logger", "message"}


def test_levels(tmp_path: Path) -> None:
    assert logged(tmp_path, "--log-level", "error") == []
    assert any(NOTICE in line for line in logged(tmp_path, "--log-level", "DEBUG"))


def test_variables_and_files_say_it_too(tmp_path: Path) -> None:
    assert logged(tmp_path, MAGNETAR_LOG_LEVEL="critical") == []
    (tmp_path / "magnetar.toml").write_text('log_format = "json"\n')
    assert NOTICE in [json.loads(line)["message"] for line in logged(tmp_path)]


@pytest.mark.usefixtures("unserved")
@pytest.mark.parametrize(
    ("option", "why"),
    [
        ("--log-level", "log_level: 'loud' is not a level: give debug, info, warning, error, crit"),
        ("--log-format", "log_format: 'loud' is not a format: give text or json"),
    ],
)
def test_what_is_neither_is_refused(refused: Refused, option: str, why: str) -> None:
    assert why in refused(option, "loud")


def test_a_record_is_one_line_with_its_traceback() -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError:
        record = logging.LogRecord(
            "magnetar.x", logging.ERROR, "", 0, "it %s\nand ü", ("failed",), sys.exc_info()
        )
    text = JsonLines().format(record)
    assert "\n" not in text
    found = json.loads(text)
    assert (found["message"], found["level"]) == ("it failed\nand ü", "ERROR")
    assert found["exception"].endswith("ValueError: two\nlines")
