"""The Dockerfile names what is there, and its commands and settings are ones that the broker takes.

No image is built here: what the base image and the package index do is not tested.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest
from support.broker_process import BrokerProcess

from magnetar.cli import serve
from magnetar.cli.exit_code import REFUSED

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "Dockerfile").read_text()
COMMENTS = "\n".join(re.findall(r"^#(.*)$", TEXT, re.MULTILINE))
# Instructions, with what is broken over lines put together again.
LINES = re.sub(r"^#.*\n", "", TEXT, flags=re.MULTILINE).replace("\\\n", " ").splitlines()
INSTRUCTIONS = [tuple(line.split(maxsplit=1)) for line in LINES if line.strip()]


def of(kind: str) -> list[str]:
    return [rest for name, rest in INSTRUCTIONS if name == kind]


def variables() -> dict[str, str]:
    return dict(pair.split("=", 1) for line in of("ENV") for pair in shlex.split(line))


def advised() -> dict[str, str]:
    """The settings that the comment gives to `docker run`."""
    return dict(re.findall(r"-e (MAGNETAR_\w+)=(\S+)", COMMENTS))


def test_it_has_instructions_of_a_dockerfile_only() -> None:
    known = "FROM RUN WORKDIR COPY USER VOLUME ENV EXPOSE STOPSIGNAL HEALTHCHECK ENTRYPOINT CMD"
    assert {name for name, _ in INSTRUCTIONS} == set(known.split())
    assert [line.split()[0] for line in of("FROM")] == ["python:3.12-slim"] * 2


# What the build of a wheel reads besides src/.
READ = ("pyproject.toml", "README.md", "LICENSE", "tools/hatch_build.py")


def test_everything_that_is_copied_is_there_and_sent_to_the_build() -> None:
    allowed = [
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[0] == "!"
    ]
    sources = [
        source for line in of("COPY") if "--from" not in line for source in line.split()[:-1]
    ]
    assert sources
    for source in sources:
        assert (ROOT / source).exists(), source
        assert any(fnmatch(source, pattern) for pattern in allowed), source
    assert set(READ) <= set(sources)


def test_nobody_serves_as_root_and_ports_are_the_defaults() -> None:
    kinds = [name for name, _ in INSTRUCTIONS]
    assert of("USER") == ["magnetar"]
    assert kinds.index("USER") < kinds.index("ENTRYPOINT")
    assert of("EXPOSE") == ["6650 8080"]
    assert of("VOLUME") == of("WORKDIR")[-1:]


def test_without_authentication_the_command_refuses_and_says_why() -> None:
    command = [*json.loads(of("ENTRYPOINT")[0]), *json.loads(of("CMD")[0])]
    assert command[0] == "magnetar"
    ran = subprocess.run(
        [sys.executable, "-m", *command],
        env=os.environ | variables(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == REFUSED
    assert "authentication" in ran.stderr


def test_with_the_settings_of_the_comment_it_may_be_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (variables() | advised()).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    plan = serve.plan_of([])
    assert (plan.host, plan.port, plan.http_port) == ("0.0.0.0", 6650, 8080)
    assert plan.settings.super_user_roles == ("admin",)


def test_it_serves_with_the_key_that_tokens_init_made_and_is_found_healthy(
    tmp_path: Path,
) -> None:
    made = subprocess.run(
        [sys.executable, "-m", "magnetar", "tokens", "init"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stderr
    key = tmp_path / Path(advised()["MAGNETAR_TOKEN_SECRET_KEY"]).name
    assert key.exists()
    settings = advised() | {"MAGNETAR_TOKEN_SECRET_KEY": str(key)}
    options = [
        f"--set={name.removeprefix('MAGNETAR_').lower()}={value}"
        for name, value in settings.items()
        if name not in ("MAGNETAR_INSECURE", "MAGNETAR_ADVERTISED_HOST")
    ]
    health = re.search(r"CMD (\[.*\])$", of("HEALTHCHECK")[0])
    assert health is not None
    check = [sys.executable, *json.loads(health[1])[1:]]
    with BrokerProcess(tmp_path / "data", options=options) as broker:
        url = variables()["HEALTH_URL"].replace("http://127.0.0.1:8080", broker.http_url)
        healthy = subprocess.run(check, env=os.environ | {"HEALTH_URL": url})
        anonymous = subprocess.run(
            [sys.executable, "-m", "magnetar", "--admin-url", broker.http_url, "tenants", "list"],
            capture_output=True,
        )
    sick = subprocess.run(check, env=os.environ | {"HEALTH_URL": url}, capture_output=True)
    assert (healthy.returncode, sick.returncode) == (0, 1)
    assert anonymous.returncode != 0
