"""Java for Spark, as pipelines find it, and settings for a Spark that lives for seconds."""

import sys
from pathlib import Path

from magnetar.errors import SettingsError
from magnetar.spark.pipelines import java
from support.requirement import need


def find_java() -> Path | None:
    try:
        return java.find_java()
    except SettingsError:
        return None


# A JVM that lives for seconds has no time to optimize what it runs, and nobody looks at its pages.
BRIEF = """
spark.driver.extraJavaOptions  -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
spark.sql.shuffle.partitions   2
spark.ui.enabled               false
"""


def spark_environment(place: Path) -> dict[str, str]:
    """Variables for programs that start a Spark of their own; skips as `need_java` does."""
    (place / "spark-defaults.conf").write_text(BRIEF)
    return {
        "JAVA_HOME": str(need_java()),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_CONF_DIR": str(place),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def need_java() -> Path:
    """Where Java is; without it the test is skipped, or fails where it may not be missing."""
    home = find_java()
    need("spark", home is not None, "Spark needs Java 17: python tools/find_java.py --install")
    assert home is not None
    return home
