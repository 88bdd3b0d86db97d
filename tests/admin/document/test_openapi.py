"""The OpenAPI document, and what schemathesis makes of it: nothing is ever a 5xx.

MAGNETAR_SCHEMA_EXAMPLES says how many requests are made up for each operation. Where it is
given, the long form, schemathesis goes through the edges of every schema too.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.broker_process import BrokerProcess
from support.served import Served

from magnetar.admin.document.openapi import describe
from magnetar.admin.http.routes import ROUTES

LONG = os.environ.get("MAGNETAR_SCHEMA_EXAMPLES", "")
EXAMPLES = LONG or "3"
PHASES = "coverage,fuzzing" if LONG else "fuzzing"
RUN_S = 600
NAMES = ("domain", "tenant", "namespace", "topic", "subscription", "cluster")


def document(http_url: str) -> Any:
    return httpx.get(f"{http_url}/openapi.json").raise_for_status().json()


def test_every_route_is_described(served: Served) -> None:
    found = document(served.http_url)
    assert found == json.loads(json.dumps(describe(ROUTES)))
    described = {(method.upper(), path) for path, one in found["paths"].items() for method in one}
    routes = {(one.method, re.sub(r"{(\w+):[^}]*}", r"{\1}", one.path)) for one in ROUTES}
    assert described == routes
    ids = [one["operationId"] for path in found["paths"].values() for one in path.values()]
    assert len(set(ids)) == len(ids) == len(ROUTES)


def test_names_in_paths_are_their_parameters(served: Served) -> None:
    for path, operations in document(served.http_url)["paths"].items():
        for operation in operations.values():
            named = {one["name"] for one in operation["parameters"] if one["in"] == "path"}
            assert named == set(re.findall(r"{(\w+)}", path)), path
            assert operation["summary"]


# Without them what is asked about them is answered with 503, as by Pulsar.
TRANSACTIONS = ("--set", "transactions=true")


def test_every_operation_says_what_it_answers(served: Served) -> None:
    for path, operations in document(served.http_url)["paths"].items():
        for operation in operations.values():
            answers = {s: one for s, one in operation["responses"].items() if s[0] == "2"}
            assert set(answers) <= {"200", "202", "204"}, path
            for status, answer in answers.items():
                assert answer["description"]
                assert ("content" in answer) == (status in ("200", "202"))


def test_every_operation_says_in_a_sentence_what_it_does() -> None:
    silent = [route.key for route in ROUTES if not (route.handler.__doc__ or "").strip()]
    assert silent == []


def configured(directory: Path, **names: str) -> Path:
    """A configuration that gives names in paths, where they shall not be made up."""
    lines = [f'"path.{name}" = "{value}"' for name, value in names.items()]
    file = directory / "schemathesis.toml"
    file.write_text("\n".join(["[parameters]", *lines, ""]))
    return file


def ask_everything(broker: BrokerProcess, config: Path, *options: str) -> None:
    """Has schemathesis ask; asserts that it was never answered with a 5xx."""
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(config), "run"]
    command += [f"{broker.http_url}/openapi.json", "--checks", "not_a_server_error", "--no-color"]
    command += ["--max-examples", EXAMPLES, "--seed", "1", "--continue-on-failure", *options]
    command += ["--generation-database", "none", "--phases", PHASES]
    command += ["--suppress-health-check", "all"]  # how hard it is to make something up
    ran = subprocess.run(
        command, capture_output=True, text=True, timeout=RUN_S, cwd=config.parent, check=False
    )
    found = re.search(r"=+ (ERRORS|FAILURES) =+", ran.stdout)
    at = found.start() if found else 0
    assert ran.returncode == 0, ran.stdout[at : at + 4000] + ran.stderr[-2000:]
    made = re.search(r"(\d+) generated, (\d+) passed", ran.stdout)
    assert made is not None, ran.stdout[-2000:]
    assert int(made[1]) == int(made[2]) > 100
    assert "unexpected error" not in broker.stderr


def test_requests_with_made_up_names_are_never_answered_with_5xx(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", options=TRANSACTIONS) as broker:
        ask_everything(broker, configured(tmp_path))


@pytest.mark.parametrize("domain", ["persistent", "non-persistent"] if LONG else ["persistent"])
def test_requests_about_a_topic_that_is_there_are_never_answered_with_5xx(
    tmp_path: Path, domain: str
) -> None:
    """All but those that would delete it, or the namespace that it is in."""
    values = (domain, "public", "default", "t", "s", "standalone")
    with BrokerProcess(tmp_path / "data", options=TRANSACTIONS) as broker:
        topic = f"{broker.http_url}/admin/v2/{domain}/public/default/t"
        assert httpx.put(topic).status_code == 204
        httpx.put(f"{topic}/subscription/s")
        keep = ["--exclude-operation-id", "topics.delete.delete"]
        keep += ["--exclude-path-regex", "^/admin/v2/(tenants|namespaces)/"]
        config = configured(tmp_path, **dict(zip(NAMES, values, strict=True)))
        ask_everything(broker, config, *keep)
        # What is not persistent is gone when it is unloaded.
        there = domain == "persistent"
        assert httpx.get(f"{topic}/stats").status_code == (200 if there else 404)
