"""Where a worker is: one value, and what each event makes of it.

| state      | means                                                                            |
|------------|----------------------------------------------------------------------------------|
| IDLE       | it was never started                                                             |
| CONNECTING | it subscribes                                                                    |
| WAITING    | the broker is away, and the time of the next attempt has not come                |
| RUNNING    | it receives messages and handles them                                            |
| DRAINING   | it was told to stop: it receives no more, and finishes what it has in hand       |
| FAILING    | likewise, because of an error that another attempt would not help                |
| STOPPED    | it has ended as it was told to                                                   |
| FAILED     | it has ended with an error                                                       |

| event      | means                                                                            |
|------------|----------------------------------------------------------------------------------|
| START      | somebody runs it                                                                 |
| SUBSCRIBED | it has a consumer                                                                |
| LOST       | the broker is away: no consumer, or one that gets no more messages               |
| DUE        | the time of the next attempt has come                                            |
| STOP       | it was told to stop, or there will be no more messages                           |
| BREAK      | an error that another attempt would not help                                     |
| DRAINED    | nothing is in hand any more                                                      |

`TABLE` has the moves. To stop what does not run is no move; any other cell that is not there
is a mistake of ours, and raises.
"""

from enum import IntEnum
from typing import Final

from magnetar.errors import ConnectError, ConsumerBusy, MagnetarError, NotConnected, ReadError

__all__ = ["ENDED", "TABLE", "WorkerEvent", "WorkerState", "may_pass", "next_state"]


class WorkerState(IntEnum):
    """Where a worker is; `magnetar.client.worker.state` says what each means."""

    IDLE = 0
    CONNECTING = 1
    WAITING = 2
    RUNNING = 3
    DRAINING = 4
    FAILING = 5
    STOPPED = 6
    FAILED = 7


class WorkerEvent(IntEnum):
    """What happens to a worker."""

    START = 0
    SUBSCRIBED = 1
    LOST = 2
    DUE = 3
    STOP = 4
    BREAK = 5
    DRAINED = 6


# In these nobody runs it.
ENDED: Final = frozenset({WorkerState.IDLE, WorkerState.STOPPED, WorkerState.FAILED})

TABLE: Final[dict[tuple[WorkerState, WorkerEvent], WorkerState]] = {
    (WorkerState.IDLE, WorkerEvent.START): WorkerState.CONNECTING,
    (WorkerState.STOPPED, WorkerEvent.START): WorkerState.CONNECTING,
    (WorkerState.FAILED, WorkerEvent.START): WorkerState.CONNECTING,
    (WorkerState.CONNECTING, WorkerEvent.SUBSCRIBED): WorkerState.RUNNING,
    (WorkerState.CONNECTING, WorkerEvent.LOST): WorkerState.WAITING,
    (WorkerState.CONNECTING, WorkerEvent.STOP): WorkerState.DRAINING,
    (WorkerState.CONNECTING, WorkerEvent.BREAK): WorkerState.FAILING,
    (WorkerState.WAITING, WorkerEvent.DUE): WorkerState.CONNECTING,
    (WorkerState.WAITING, WorkerEvent.STOP): WorkerState.DRAINING,
    (WorkerState.RUNNING, WorkerEvent.LOST): WorkerState.WAITING,
    (WorkerState.RUNNING, WorkerEvent.STOP): WorkerState.DRAINING,
    (WorkerState.RUNNING, WorkerEvent.BREAK): WorkerState.FAILING,
    # Told twice, or told while a subscription that cannot be had is given up.
    (WorkerState.DRAINING, WorkerEvent.STOP): WorkerState.DRAINING,
    (WorkerState.DRAINING, WorkerEvent.SUBSCRIBED): WorkerState.DRAINING,
    (WorkerState.DRAINING, WorkerEvent.LOST): WorkerState.DRAINING,
    (WorkerState.DRAINING, WorkerEvent.BREAK): WorkerState.DRAINING,
    (WorkerState.DRAINING, WorkerEvent.DRAINED): WorkerState.STOPPED,
    (WorkerState.FAILING, WorkerEvent.STOP): WorkerState.FAILING,
    (WorkerState.FAILING, WorkerEvent.DRAINED): WorkerState.FAILED,
}


def next_state(state: WorkerState, event: WorkerEvent) -> WorkerState:
    """Returns the state that an event leads to.

    >>> next_state(WorkerState.IDLE, WorkerEvent.START) == WorkerState.CONNECTING
    True
    """
    if event == WorkerEvent.STOP and state in ENDED:
        return state
    following = TABLE.get((state, event))
    assert following is not None, f"a worker in state {state.name} had event {event.name}"
    return following


def may_pass(error: Exception) -> bool:
    """Says whether a worker that met this error may succeed later, as it is.

    That is so when the broker is out of reach, and when another consumer holds the
    subscription: in a rollout the old process goes while the new one starts.
    """
    if isinstance(error, (ConnectError, ConsumerBusy, NotConnected, ReadError)):
        return True
    return isinstance(error, MagnetarError) and error.retry_connect
