"""A project of `spark-pipelines`: what the configuration of its spec says, and frames of it.

    configuration:
      magnetar.serviceUrl: pulsar://127.0.0.1:6650
      magnetar.topic: orders

Names are those of the connector's options, all with `magnetar.` before;
docs/pipelines/declarative.md lists them. Spark runs a project by Connect, and lets functions of
datasets neither look at a frame nor run it: whatever asks the broker or Spark does so before, when
a project is loaded. That one dataset is made of another Spark sees only through projections,
filters and groups: behind `withColumns` and its kin it would take the table as the run before left
it.
"""

from typing import TYPE_CHECKING

from magnetar.errors import SettingsError
from magnetar.spark.pipelines.letter.target import Target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Project"]

_PREFIX = "magnetar."
_TARGET = {
    "adminUrl": "admin_url",
    "authToken": "token",
    "tlsTrustCertsFilePath": "tls_trust_certs",
    "tlsCertificateFilePath": "tls_certificate",
    "tlsPrivateKeyFilePath": "tls_key",
}


class Project:
    """What a spec says, with the names that this project knows; others are refused."""

    def __init__(self, spark: "SparkSession", *names: str) -> None:
        known = {"serviceUrl", *_TARGET, *names}
        self._given = {
            name.removeprefix(_PREFIX): value
            for name, value in spark.conf.getAll.items()
            if name.startswith(_PREFIX)
        }
        for name in self._given:
            if name not in known:
                raise SettingsError(f"{_PREFIX}{name}", f"there are {', '.join(sorted(known))}")
        self.spark = spark
        more = {field: self._given.get(name, "") for name, field in _TARGET.items()}
        self.target: Target = Target(self.text("serviceUrl"), **more)

    def text(self, name: str, default: str | None = None) -> str:
        """Raises SettingsError if it is missing, and there is no default."""
        found = self._given.get(name, default)
        if found is None:
            raise SettingsError(f"{_PREFIX}{name}", "missing in the configuration of the spec")
        return found

    def number(self, name: str, default: int) -> int:
        text = self.text(name, str(default))
        if not (text.isascii() and text.isdigit()):
            raise SettingsError(f"{_PREFIX}{name}", f"{text!r:.40} is not a number")
        return int(text)

    @property
    def dry_run(self) -> bool:
        """Whether nothing is to be changed, which it is unless the spec says otherwise."""
        text = self.text("dryRun", "true").lower()
        if text not in ("true", "false"):
            raise SettingsError(f"{_PREFIX}dryRun", f'{text!r:.40} is neither "true" nor "false"')
        return text == "true"
