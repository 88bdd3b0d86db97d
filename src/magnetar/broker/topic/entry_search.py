"""A search through entries that may have to be read: what to read next, until it is over.

| state     | next_plan           | take          |
|-----------|---------------------|---------------|
| searching | what to read next   | looks at it   |
| done      | None                | -             |

A search decides and reads nothing itself. `run_search` has the host read for it.
"""

from magnetar.broker.promise import Promise
from magnetar.broker.topic.topic import Topic
from magnetar.storage.ledger.read_plan import ReadPlan

__all__ = ["EntrySearch", "run_search"]


class EntrySearch:
    """Base of searches; see the module."""

    def next_plan(self) -> ReadPlan | None:
        """What is to be read next; whoever has read it calls `take`."""
        raise NotImplementedError

    def take(self, plan: ReadPlan) -> None:
        """Looks at what was read."""
        raise NotImplementedError


def run_search(topic: Topic, search: EntrySearch) -> Promise[None]:
    """Reads for a search until it is done. Breaks the promise with StorageError.

    `topic` is any topic of the broker. What is in the cache is looked at without waiting.
    """
    promise: Promise[None] = Promise()
    store, host = topic.store, topic.host

    def go_on() -> None:
        while (plan := search.next_plan()) is not None:
            if not plan.complete:
                read(plan)
                return
            store.finish_read(plan)
            search.take(plan)
        promise.keep(None)

    def read(plan: ReadPlan) -> None:
        def done(error: Exception | None) -> None:
            store.finish_read(plan)
            if error is not None:
                promise.fail(error)
                return
            search.take(plan)
            go_on()

        host.read(plan).when_done(done)

    go_on()
    return promise
