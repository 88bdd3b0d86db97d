"""How entries become rows, and by which names errors call the options that decide it.

Spark's options and Python's arguments have different names, and an error that tells what to set
must use the name that its reader knows.
"""

from typing import Final, final

from magnetar.arrow.plan.connection import Connection

__all__ = ["PYTHON", "SPARK", "OptionNames", "ReadSettings"]


@final
class OptionNames:
    """What the options are called."""

    def __init__(self, *, values: str, bad_records: str, data_loss: str, admin_url: str) -> None:
        self.values: Final = values
        self.bad_records: Final = bad_records
        self.data_loss: Final = data_loss
        self.admin_url: Final = admin_url


SPARK: Final = OptionNames(
    values="valueSchema",
    bad_records="badRecords",
    data_loss="onDataLoss",
    admin_url="adminUrl",
)
PYTHON: Final = OptionNames(
    values="values",
    bad_records="bad_records",
    data_loss="on_data_loss",
    admin_url="admin_url",
)


@final
class ReadSettings:
    """See the module. `protected` says that a subscription keeps what is read."""

    def __init__(
        self,
        names: OptionNames,
        *,
        bad_records: str = "fail",
        warns_of_loss: bool = False,
        protected: bool = False,
        rows_per_batch: int = 32_768,
        timeout_s: float = 60.0,
        connection: Connection | None = None,
    ) -> None:
        self.names: Final = names
        self.bad_records: Final = bad_records
        self.warns_of_loss: Final[bool] = warns_of_loss
        self.protected: Final[bool] = protected
        self.rows_per_batch: Final[int] = rows_per_batch
        self.timeout_s: Final[float] = timeout_s
        # Where admin REST can tell what was aborted, if it can be asked.
        self.connection: Final = connection
