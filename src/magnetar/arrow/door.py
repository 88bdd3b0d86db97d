"""`magnetar.read_arrow` and `magnetar.scan_arrow`: a topic or a backlog as a table, without Spark.

pyarrow is loaded when one of them is called, and need not be installed until then.
"""

import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Literal

from magnetar.arrow.bound import Bound
from magnetar.arrow.plan.connection import Connection
from magnetar.arrow.plan.settings import PYTHON, ReadSettings
from magnetar.errors import OperationNotSupported, SettingsError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["read_arrow", "scan_arrow"]

_CHOICES = {
    "values": ("bytes", "string", "topic"),
    "bad_records": ("fail", "null", "column"),
    "on_data_loss": ("fail", "warn"),
}


def read_arrow(
    topic: "str | Sequence[str] | re.Pattern[str]",
    service_url: str = "pulsar://localhost:6650",
    *,
    admin_url: str = "",
    subscription: str = "",
    start: "Bound | Mapping[str, Bound]" = "earliest",
    end: "Bound | Mapping[str, Bound]" = "latest",
    columns: Sequence[str] | None = None,
    values: Literal["bytes", "string", "topic"] = "bytes",
    bad_records: Literal["fail", "null", "column"] = "fail",
    on_data_loss: Literal["fail", "warn"] = "fail",
    rows_per_batch: int = 32_768,
    token: str = "",
    tls_trust_certs_file_path: str = "",
    tls_certificate_file_path: str = "",
    tls_private_key_file_path: str = "",
    tls_allow_insecure_connection: bool = False,
    tls_validate_hostname: bool = True,
    operation_timeout_seconds: int = 30,
) -> "pa.Table":
    """Returns the messages of a topic, or of a subscription's backlog, as a pyarrow Table.

    The table has what was there when the call began, and nothing is acknowledged. pandas, polars
    and DuckDB take the table as it is. `topic` may be several names, or a compiled pattern;
    partitions come one after the other, each in its order.

    - `service_url`: where the broker is, `pulsar://` or `pulsar+ssl://`.
    - `admin_url`: the broker's REST, as `http://localhost:8080`; a backlog needs it.
    - `subscription`: read what this subscription has not acknowledged, down to single messages of
      batches, instead of everything. Not with `start` or `end`, and not from Apache Pulsar, whose
      brokers do not tell.
    - `start`: the first message: `"earliest"`, `"latest"`, a `MessageId`, its text
      `"ledger:entry[:index]"`, a publish time (an aware datetime, or milliseconds since 1970), or a
      dict with one of these for each topic partition.
    - `end`: where to stop, said in the same way; the message at the end is not included.
    - `columns`: the columns to build, in this order; all of them if None.
    - `values`: what the column `value` is: `bytes`, `string` (checked UTF-8), or `topic`, which is
      a struct by the topic's JSON or Avro schema.
    - `bad_records`: `fail`, `null`, or `column` for a column `bad_record` with the reason: what
      becomes of values that cannot be decoded, and of entries that are damaged or encrypted.
    - `on_data_loss`: `fail` or `warn`: what becomes of a read whose messages are gone.
    - `token`: for the broker and for REST.

    Raises OperationNotSupported if pyarrow is not installed or the broker cannot tell a backlog,
    TopicNotFound if there is no such topic, and SettingsError, which names the wrong argument.
    """
    given = locals()  # all arguments, and they alone
    return scan_arrow(**given).read_all()


def scan_arrow(
    topic: "str | Sequence[str] | re.Pattern[str]",
    service_url: str = "pulsar://localhost:6650",
    *,
    admin_url: str = "",
    subscription: str = "",
    start: "Bound | Mapping[str, Bound]" = "earliest",
    end: "Bound | Mapping[str, Bound]" = "latest",
    columns: Sequence[str] | None = None,
    values: Literal["bytes", "string", "topic"] = "bytes",
    bad_records: Literal["fail", "null", "column"] = "fail",
    on_data_loss: Literal["fail", "warn"] = "fail",
    rows_per_batch: int = 32_768,
    token: str = "",
    tls_trust_certs_file_path: str = "",
    tls_certificate_file_path: str = "",
    tls_private_key_file_path: str = "",
    tls_allow_insecure_connection: bool = False,
    tls_validate_hostname: bool = True,
    operation_timeout_seconds: int = 30,
) -> "pa.RecordBatchReader":
    """Returns the same as `read_arrow`, as a RecordBatchReader: for what does not fit in memory.

    What is to be read is decided when this returns; the rows come from the broker as the reader
    is read. A reader that was read to its end, has failed or is dropped (`del reader`) ends its
    connection; its own `close` does not, for Arrow tells nobody of it. The arguments and errors are
    those of `read_arrow`; what goes wrong later is raised by the reader.
    """
    chosen = {"values": values, "bad_records": bad_records, "on_data_loss": on_data_loss}
    for name, choice in chosen.items():
        if choice not in _CHOICES[name]:
            raise SettingsError(name, f"{choice!r:.40} is not one of {', '.join(_CHOICES[name])}")
    if rows_per_batch < 1:
        raise SettingsError("rows_per_batch", f"{rows_per_batch} is less than 1")
    if subscription:
        _check_backlog(admin_url, start, end)
    connection = Connection(
        service_url,
        admin_url=admin_url,
        auth_token=token,
        tls_trust_certs_file_path=tls_trust_certs_file_path,
        tls_certificate_file_path=tls_certificate_file_path,
        tls_private_key_file_path=tls_private_key_file_path,
        tls_allow_insecure_connection=tls_allow_insecure_connection,
        tls_validate_hostname=tls_validate_hostname,
        operation_timeout_s=operation_timeout_seconds,
    )
    settings = ReadSettings(
        PYTHON,
        bad_records=bad_records,
        warns_of_loss=on_data_loss == "warn",
        protected=bool(subscription),
        rows_per_batch=rows_per_batch,
        connection=connection,
    )
    return _scan_module().open_reader(
        connection,
        settings,
        lambda scan: scan.plan(
            topic,
            start=start,
            end=end,
            subscription=subscription,
            columns=columns,
            values=values,
        ),
    )


def _check_backlog(
    admin_url: str, start: "Bound | Mapping[str, Bound]", end: "Bound | Mapping[str, Bound]"
) -> None:
    if not admin_url:
        raise SettingsError("admin_url", "missing: admin REST tells what is acknowledged")
    for name, bound, default in (("start", start, "earliest"), ("end", end, "latest")):
        if bound != default:
            raise SettingsError(name, "a backlog has its own positions: leave it out")


def _scan_module() -> ModuleType:
    try:
        return import_module("magnetar.arrow.scan")
    except ImportError as missing:
        raise OperationNotSupported(
            f"tables need pyarrow ({missing}): pip install 'pyarrow>=18'"
        ) from missing
