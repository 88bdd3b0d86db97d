"""The transaction of a micro-batch, or of a batch write, from its beginning to its end.

| step   | where          | what happens                                                           |
|--------|----------------|------------------------------------------------------------------------|
| begin  | driver, plans  | what an earlier run left open is aborted; a transaction begins, and    |
|        |                | its id is written to the checkpoint                                    |
| claim  | each task      | it writes down that it is about to send, so that no second run of it   |
|        |                | sends into the same transaction                                        |
| send   | each task      | its rows are published in the transaction, and stored                  |
| commit | driver         | the last marker is read. If it is of this micro-batch, that was        |
|        |                | committed before: the transaction is aborted. Else it acks the marker, |
|        |                | publishes the next, and is committed                                   |
| forget | driver         | the checkpoint forgets the transaction                                 |

`markers.py` says why a micro-batch is committed once, whoever is killed when. A batch write has no
markers: run again, it is another one.

Beside the checkpoint lie

    <checkpointLocation>/magnetar-sink/transaction              the id of the one that is open
    <checkpointLocation>/magnetar-sink/claims<id>/<task>        which of its tasks send
    <checkpointLocation>/magnetar-sink/markers-<query>          that there are markers
"""

from magnetar.client.door.bulk import BulkClient
from magnetar.client.door.transaction import Transaction
from magnetar.client.engine.transaction import EngineTransaction
from magnetar.errors import MagnetarError, SettingsError, TransactionNotFound
from magnetar.model import TopicName
from magnetar.model.txn_id import TxnId
from magnetar.spark.checkpoint_files import CheckpointFiles
from magnetar.spark.connect import client_of
from magnetar.spark.plan.options import WriteOptions
from magnetar.spark.transaction.markers import Markers

__all__ = ["BatchTransaction", "RowsSentError"]

FOLDER = "magnetar-sink"
OPEN = "transaction"


class RowsSentError(MagnetarError):
    """A task is run again, of whose rows its transaction has some already."""


class BatchTransaction:
    """See the module. It travels from the driver to tasks, and by their messages back."""

    def __init__(self, id: TxnId, checkpoint: str) -> None:
        self.id = id
        self._checkpoint = checkpoint

    @property
    def _files(self) -> CheckpointFiles | None:
        return CheckpointFiles(self._checkpoint, FOLDER) if self._checkpoint else None

    @classmethod
    def begin(cls, options: WriteOptions) -> "BatchTransaction":
        """Begins one, after an end to what an earlier run left open."""
        files = CheckpointFiles(options.checkpoint, FOLDER) if options.checkpoint else None
        client = client_of(options.connection)
        if files is not None and files.has(OPEN):
            cls(TxnId.parse(files.read(OPEN)), options.checkpoint).abort(options)
        begun = client.call(client.begin_transaction(options.transaction_timeout_ms))
        if files is not None:
            files.write(OPEN, str(begun.id))
        return cls(begun.id, options.checkpoint)

    # ---- In a task -----------------------------------------------------------

    def claim(self, task: int, attempt: int) -> None:
        """This task is about to send. Raises RowsSentError, SettingsError."""
        files = self._files
        if files is None:
            if attempt > 0:
                raise SettingsError(
                    "checkpointLocation",
                    "missing: this task is run again, and without a place to write that down "
                    "nobody can tell whether it has sent rows before; give one",
                )
            return
        path = f"claims{self.id}/{task}"
        if files.has(path):
            raise RowsSentError(
                f"task {task} was run before and may have sent rows in transaction {self.id}, "
                "where they would be twice now: nothing of it will be seen; run the query again, "
                "and it does the whole micro-batch in another one"
            )
        files.write(path, str(attempt))

    # ---- In the driver -------------------------------------------------------

    def commit(self, options: WriteOptions, query: str, batch_id: int) -> None:
        """Commits a micro-batch, unless it was committed before. Raises what keeps it from that."""
        client = client_of(options.connection)
        client.call(self._commit(client, options, query, batch_id))
        self._forget()

    def commit_alone(self, options: WriteOptions) -> None:
        """Commits a batch write."""
        client = client_of(options.connection)
        client.call(self._commit_alone(client, options))
        self._forget()

    def abort(self, options: WriteOptions) -> None:
        """Aborts it, unless it has ended. Raises what keeps it from that."""
        client = client_of(options.connection)
        client.call(self._abort(client, options))
        self._forget()

    async def _commit(
        self, client: BulkClient, options: WriteOptions, query: str, batch_id: int
    ) -> None:
        files = CheckpointFiles(options.checkpoint, FOLDER)
        timeout_s = options.connection.operation_timeout_s
        markers = Markers(client, _marker_topic(options, query), files, query, timeout_s)
        await markers.open()
        try:
            if markers.last >= batch_id:
                await self._abort(client, options)
                return
            joined = await self._join(client, options)
            await markers.replace(batch_id, Transaction(joined))
            await joined.commit()
        finally:
            await markers.close()

    async def _commit_alone(self, client: BulkClient, options: WriteOptions) -> None:
        await (await self._join(client, options)).commit()

    async def _abort(self, client: BulkClient, options: WriteOptions) -> None:
        try:
            joined = await self._join(client, options)
        except TransactionNotFound:
            return  # of a cluster that had more coordinators
        await joined.abort()

    async def _join(self, client: BulkClient, options: WriteOptions) -> EngineTransaction:
        return await client.join_transaction(self.id, options.transaction_timeout_ms)

    def _forget(self) -> None:
        files = self._files
        if files is not None:
            files.delete_folder(f"claims{self.id}")
            # Another driver may have begun one meanwhile.
            if files.has(OPEN) and files.read(OPEN) == str(self.id):
                files.delete(OPEN)


def _marker_topic(options: WriteOptions, query: str) -> str:
    if options.transaction_topic:
        return options.transaction_topic
    if not options.topic:
        return f"persistent://public/default/magnetar-sink-{query}"
    space = TopicName.parse(options.topic).namespace
    return f"persistent://{space}/magnetar-sink-{query}"
