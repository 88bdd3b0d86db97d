"""What all tests share: hypothesis profiles, and the certainty of which build is tested."""

import os

import pytest
from hypothesis import HealthCheck, settings

import magnetar

settings.register_profile("dev", max_examples=50, deadline=None)
# The same examples every time: a change fails for what it did, not for its luck.
settings.register_profile(
    "ci",
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("brief", settings.get_profile("ci"), max_examples=25)
settings.register_profile(
    "long", max_examples=5000, deadline=None, suppress_health_check=list(HealthCheck)
)
settings.load_profile("ci" if os.environ.get("CI") else "dev")

# The fuzzer is a program of its own, with an interpreter that has atheris.
collect_ignore = ["fuzz"]

BUILD = "compiled" if magnetar.COMPILED else "interpreted"


def pytest_report_header() -> str:
    return f"magnetar: {BUILD}, {magnetar.__file__}"


def pytest_configure() -> None:
    """`make` says which build it means; tests of the other one would prove nothing."""
    wanted = os.environ.get("MAGNETAR_BUILD", BUILD)
    if wanted != BUILD:
        raise pytest.UsageError(f"the {wanted} build was to be tested, this is the {BUILD} one")
