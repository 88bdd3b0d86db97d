"""What all tests share: hypothesis profiles, and the certainty of which build is tested."""

import os
import signal
from collections.abc import Iterator
from typing import Any

import coverage
import pytest
from hypothesis import HealthCheck, settings
from support.untraced import untraced

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
# `make test`: the compiled build in short form, and the interpreted one, which is slow, in shorter.
settings.register_profile("brief", settings.get_profile("ci"), max_examples=50)
settings.register_profile("terse", settings.get_profile("ci"), max_examples=10)
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

    config.option.loadscopereorder = False  # in our order
    return ByFile(config, log)


def group_of(nodeid: str) -> str:
    """What one worker runs: a file, or all that shares Spark, Apache Pulsar or a cluster of it."""
    file = nodeid.partition("::")[0]
    if "[apache" in nodeid:
        return "apache"
    if file.startswith("tests/cluster/") or "[cluster" in nodeid:
        return "cluster"
    shares = file.startswith("tests/spark/") and not file.startswith("tests/spark/plan/")
    return "spark" if shares and not file.endswith("_kills.py") else file


# The longest first, so that no worker has one left when the others are done; a worker takes a
# second group along at once, so a short one comes between.
ORDER = [
    "spark",
    "tests/docs/",
    "tests/wire/",
    "tests/model/",
    "apache",
    "tests/apache/",
    "tests/spark/",
    "tests/sim/",
    "tests/chaos/",
    "tests/demo/",
    "tests/storage/",
]


def turn_of(item: pytest.Item) -> int:
    """When a test's group has its turn."""
    group = group_of(item.nodeid)
    return next((n for n, begin in enumerate(ORDER) if group.startswith(begin)), len(ORDER))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Puts the longest first, and leaves out what compiled tests show where these run too."""
    items.sort(key=turn_of)
    if not os.environ.get("MAGNETAR_ONCE"):
        return
    twice = [item for item in items if item.get_closest_marker("once") is None]
    if len(twice) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if item not in set(twice)])
        items[:] = twice


@pytest.fixture
def without_coverage() -> Iterator[None]:
    """For what is slow under coverage, and whose branches other tests take."""
    with untraced():
        yield


def pytest_report_header() -> str:
    return f"magnetar: {BUILD}, {magnetar.__file__}"


def pytest_configure(config: pytest.Config) -> None:
    """`make` says which build it means; tests of the other one would prove nothing."""
    # Coverage measures the workers; the programs that tests start there are not its matter.
    if hasattr(config, "workerinput"):
        os.environ.pop("COVERAGE_PROCESS_START", None)
    # In the background of a shell Ctrl-C is ignored, and it would be in every process that a test
    # starts and then interrupts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    wanted = os.environ.get("MAGNETAR_BUILD", BUILD)
    if wanted != BUILD:
        raise pytest.UsageError(f"the {wanted} build was to be tested, this is the {BUILD} one")


def pytest_unconfigure(config: pytest.Config) -> None:
    """A worker of xdist is gone before its process would save what coverage saw."""
    measured = coverage.Coverage.current()
    if measured is not None and hasattr(config, "workerinput"):
        measured.stop()
        measured.save()
