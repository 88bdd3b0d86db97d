"""What is missing is said in one line, whatever it is; no Java is needed to see that."""

from pathlib import Path

import pytest
from apache import artifacts
from apache.artifacts import ArtifactsMissing
from apache.harness import PerfRun
from support.ports import free_ports

# What pulsar-perf printed, shortened.
PERF_OUTPUT = """
INFO  PerformanceProducer - Throughput produced:  1160 msg ---    115.9 msg/s ---  0.9 Mbit/s
INFO  PerformanceProducer - Throughput produced: 91160 msg ---   9000.5 msg/s ---  7.1 Mbit/s
INFO  PerformanceProducer - Aggregated throughput stats --- 91234 records sent --- 4497.5 msg/s
"""


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a directory with all the commands that there are."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", str(directory))
    monkeypatch.setattr(artifacts, "CACHE", tmp_path / "cache")
    artifacts.java_version.cache_clear()
    monkeypatch.setattr(artifacts, "java_version", artifacts.java_version.__wrapped__)
    return directory


def add(directory: Path, name: str, script: str) -> None:
    path = directory / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_no_java(commands: Path) -> None:
    with pytest.raises(ArtifactsMissing, match="no java command"):
        artifacts.fetch()


def test_an_old_java(commands: Path) -> None:
    add(commands, "java", """echo 'openjdk version "11.0.2" 2019' >&2""")
    with pytest.raises(ArtifactsMissing, match="Java 11 found"):
        artifacts.fetch()


def test_no_maven(commands: Path) -> None:
    add(commands, "java", """echo 'openjdk version "21.0.2" 2024' >&2""")
    with pytest.raises(ArtifactsMissing, match="no mvn command"):
        artifacts.fetch()
    assert not artifacts.cached()


def test_maven_cannot_resolve(commands: Path) -> None:
    add(commands, "java", """echo 'openjdk version "21.0.2" 2024' >&2""")
    add(commands, "mvn", "echo '[ERROR] no such host'; echo '[ERROR] more'; exit 1")
    with pytest.raises(ArtifactsMissing, match="cannot resolve the server: no such host"):
        artifacts.fetch()
    assert not artifacts.cached()


def test_what_maven_finds_is_kept_and_what_an_older_pom_named_is_not(commands: Path) -> None:
    add(commands, "java", """echo 'openjdk version "21.0.2" 2024' >&2""")
    find = 'for a; do case $a in -Dmdep.outputFile=*) printf %s "$found" > "${a#*=}";; esac; done'
    repository = artifacts.directory() / "repository"
    add(commands, "mvn", f"found={repository}/a/b.jar:{repository}/c.jar\n{find}")
    older = artifacts.CACHE / "0123456789ab"
    older.mkdir(parents=True)
    artifacts.fetch()
    assert artifacts.cached()
    assert artifacts.classpath("tools") == [repository / "a" / "b.jar", repository / "c.jar"]
    assert not older.exists()


def test_what_pulsar_perf_prints_is_understood() -> None:
    run = PerfRun(PERF_OUTPUT)
    assert run.rates == [115.9, 9000.5]
    assert run.total == 91234


def test_free_ports_are_different() -> None:
    assert len(set(free_ports(3))) == 3
