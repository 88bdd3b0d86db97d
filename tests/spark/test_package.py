"""What Spark looks for: a package whose import never raises, and what makes up its name."""

import subprocess
import sys

import pytest
from pyspark.sql.datasource import DataSource


def test_the_format_is_found() -> None:
    import pyspark_magnetar

    assert issubclass(pyspark_magnetar.DefaultSource, DataSource)
    assert pyspark_magnetar.DefaultSource.name() == "magnetar"


@pytest.mark.parametrize("missing", ["pyspark", "pyarrow", "magnetar"])
def test_importing_it_never_raises(missing: str) -> None:
    """An error here would break the lookup of every Python data source."""
    program = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        "import pyspark_magnetar; print(hasattr(pyspark_magnetar, 'DefaultSource'))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "False"


def test_the_plan_needs_no_spark() -> None:
    program = (
        "import sys, magnetar.spark, magnetar.spark.plan.options, magnetar.spark.plan.splits\n"
        "print([m for m in ('pyspark', 'pyarrow', 'asyncio') if m in sys.modules])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "[]"
