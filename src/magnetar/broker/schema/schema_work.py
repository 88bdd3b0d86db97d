"""Schemas that clients bring, looked at a little at a time, while others are served.

| a topic has   | new work for it                          | a turn                              |
|---------------|------------------------------------------|-------------------------------------|
| no work       | begins at once: most is done by then     | -                                   |
| work          | waits, for versions are added in order   | some steps of the first; then the   |
|               |                                          | topics behind it have theirs        |

All definitions that wait share a limit of bytes; beyond it clients are told to try again.
"""

from collections import deque
from collections.abc import Callable, Generator
from typing import Final, TypeVar, final

from magnetar.broker.host import Host
from magnetar.broker.promise import Promise, broken
from magnetar.errors import BrokerError
from magnetar.model import ServerError

__all__ = ["SchemaWork"]

# Of the first and of every turn. A step is a hundred types, or as many comparisons.
STEPS_AT_ONCE: Final = 4
WAITING_BYTES_MAX: Final = 16 << 20

T = TypeVar("T")


@final
class _Task:
    """One work: `step` takes one step of it, and says whether there are more."""

    def __init__(self, step: Callable[[], bool], size: int) -> None:
        self.step: Final = step
        self.size: Final = size


@final
class SchemaWork:
    """See the module."""

    def __init__(self, host: Host) -> None:
        self._host: Final = host
        # By topic, in the order of their turns: what is to be done, the first of it under way.
        self._tasks: Final[dict[str, deque[_Task]]] = {}
        self._waiting_bytes: int = 0

    def __len__(self) -> int:
        """Returns how many topics have work."""
        return len(self._tasks)

    def run(self, topic: str, work: Generator[None, None, T], size: int) -> Promise[T]:
        """Returns what comes of work on a definition of so many bytes, now or later."""
        promise: Promise[T] = Promise()

        def step() -> bool:
            try:
                next(work)
            except StopIteration as end:
                promise.keep(end.value)
                return False
            except Exception as error:
                promise.fail(error)
                return False
            return True

        if topic not in self._tasks and not _take_steps(step):
            return promise
        if self._waiting_bytes + size > WAITING_BYTES_MAX:
            work.close()
            return broken(
                BrokerError(
                    ServerError.TooManyRequests,
                    "too many large schemas are being looked at: try again in a moment",
                )
            )
        self._wait(topic, _Task(step, size))
        return promise

    def _wait(self, topic: str, task: _Task) -> None:
        if not self._tasks:
            self._host.call_soon(self._turn)
        self._tasks.setdefault(topic, deque()).append(task)
        self._waiting_bytes += task.size

    def _turn(self) -> None:
        topic = next(iter(self._tasks))
        tasks = self._tasks.pop(topic)
        # Behind the others, before it goes on: it may bring more work.
        self._tasks[topic] = tasks
        more = False
        try:
            more = _take_steps(tasks[0].step)
        except Exception as error:  # of whoever waited for it
            self._host.fault(f"after the schema of {topic} was looked at", error)
        if not more:
            self._waiting_bytes -= tasks.popleft().size
            if not tasks:
                del self._tasks[topic]
        if self._tasks:
            self._host.call_soon(self._turn)


def _take_steps(step: Callable[[], bool]) -> bool:
    """Takes some steps; returns whether there are more."""
    for _ in range(STEPS_AT_ONCE):
        if not step():
            return False
    return True
