"""A search through entries that may have to be read: what to read next, until it is over.

| state     | next_plan                          | take          |
|-----------|------------------------------------|---------------|
| searching | what to read next                  | looks at it   |
| resting   | None: the looks of all are over    | -             |
| done      | None, and there are looks          | -             |

A search decides and reads nothing itself. `run_search` has the host read for it. What it passes
without reading counts too: it stops wherever it is when `looks.is_over()`, and goes on from there.
"""

from magnetar.broker.promise import Promise
from magnetar.broker.topic.topic import Topic
from magnetar.errors import UsageError
from magnetar.storage.ledger.read_plan import ReadPlan

__all__ = ["EntrySearch", "run_search"]


class EntrySearch:
    """Base of searches; see the module."""

    def next_plan(self) -> ReadPlan | None:
        """Returns what is to be read next; whoever has read it calls `take`. Raises UsageError."""
        raise NotImplementedError

    def take(self, plan: ReadPlan) -> None:
        """Looks at what was read."""
        raise NotImplementedError


def run_search(topic: Topic, search: EntrySearch) -> Promise[None]:
    """Reads for a search until it is done. Breaks the promise with UsageError, StorageError.

    `topic` is any topic of the broker. What is in the cache is looked at without waiting.
    """
    promise: Promise[None] = Promise()
    store, host, looks = topic.store, topic.host, topic.broker.looks

    def go_on() -> None:
        while not looks.is_over():
            try:
                plan = search.next_plan()
            except UsageError as error:
                promise.fail(error)
                return
            if plan is None:
                break
            if not plan.complete:
                read(plan)
                return
            store.finish_read(plan)
            looks.take(len(plan.entries))
            search.take(plan)
        if looks.is_over():
            looks.wait(go_on)
        else:
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
