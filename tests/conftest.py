"""What all tests share: hypothesis profiles, and the certainty of which build is tested."""

import os
import signal
from typing import Any

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

BUILD = "compiled" if magnetar.COMPILED else "interpreted"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Workers share files, not tests: a file's broker is started once, and Spark for all files."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):  # type: ignore[misc, unused-ignore]
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    return ByFile(config, log)


def group_of(nodeid: str) -> str:
    """What one worker runs: a file, or all that shares the session of Spark."""
    file = nodeid.partition("::")[0]
    shares = file.startswith("tests/spark/") and not file.startswith("tests/spark/plan/")
    return "spark" if shares and not file.endswith("_kills.py") else file


def pytest_report_header() -> str:
    return f"magnetar: {BUILD}, {magnetar.__file__}"


def pytest_configure() -> None:
    """`make` says which build it means; tests of the other one would prove nothing."""
    # In the background of a shell Ctrl-C is ignored, and it would be in every process that a test
    # starts and then interrupts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    wanted = os.environ.get("MAGNETAR_BUILD", BUILD)
    if wanted != BUILD:
        raise pytest.UsageError(f"the {wanted} build was to be tested, this is the {BUILD} one")
