"""Where a transaction is, as its client knows it: one value, and what each event makes of it.

| state      | means                                                                           |
|------------|---------------------------------------------------------------------------------|
| open       | it takes sends and acks                                                         |
| committing | `commit` was called: it takes nothing more, and what is on its way is waited    |
|            | for                                                                             |
| deciding   | everything is with the broker, which was asked to commit                        |
| aborting   | it is to be aborted: `abort` was called, or something failed that it needs      |
| committed  | all of it counts                                                                |
| aborted    | nothing of it counts                                                            |
| unknown    | the broker was asked to commit, and its answer did not come                     |
| left       | the broker was asked to abort, and its answer did not come: it does so, at the  |
|            | latest when the time of the transaction is over                                 |

| event   | means                                                                              |
|---------|------------------------------------------------------------------------------------|
| commit  | `commit` was called                                                                |
| abort   | `abort` was called                                                                 |
| quiet   | what was on its way has ended, all of it well                                      |
| failed  | likewise, but something failed                                                     |
| done    | the broker has done what it was asked for                                          |
| refused | the broker will not commit: the time was over, or somebody has aborted it          |
| lost    | no answer came                                                                     |

`TABLE` has the moves. A cell without a state is a call that is refused (commit, abort) or a
mistake of ours.
"""

from typing import Final

from mypy_extensions import i64

__all__ = [
    "ABORT",
    "ABORTED",
    "ABORTING",
    "COMMIT",
    "COMMITTED",
    "COMMITTING",
    "DECIDING",
    "DONE",
    "FAILED",
    "LEFT",
    "LOST",
    "NAMES",
    "NO",
    "OPEN",
    "QUIET",
    "REFUSED",
    "TABLE",
    "UNKNOWN",
    "next_state",
]

OPEN: Final = 0
COMMITTING: Final = 1
DECIDING: Final = 2
ABORTING: Final = 3
COMMITTED: Final = 4
ABORTED: Final = 5
UNKNOWN: Final = 6
LEFT: Final = 7

NAMES: Final = (
    "open",
    "committing",
    "deciding",
    "aborting",
    "committed",
    "aborted",
    "unknown",
    "left",
)

COMMIT: Final = 0
ABORT: Final = 1
QUIET: Final = 2
FAILED: Final = 3
DONE: Final = 4
REFUSED: Final = 5
LOST: Final = 6

EVENTS: Final = 7
NO: Final = 255

TABLE: Final[tuple[tuple[int, ...], ...]] = (
    #            commit      abort     quiet     failed    done       refused  lost
    (OPEN,       COMMITTING, ABORTING, NO,       NO,       NO,        NO,      NO),
    (COMMITTING, NO,         NO,       DECIDING, ABORTING, NO,        NO,      NO),
    (DECIDING,   NO,         NO,       NO,       NO,       COMMITTED, ABORTED, UNKNOWN),
    (ABORTING,   NO,         NO,       NO,       NO,       ABORTED,   ABORTED, LEFT),
    (COMMITTED,  NO,         NO,       NO,       NO,       NO,        NO,      NO),
    (ABORTED,    NO,         NO,       NO,       NO,       NO,        NO,      NO),
    (UNKNOWN,    DECIDING,   NO,       NO,       NO,       NO,        NO,      NO),
    (LEFT,       NO,         ABORTING, NO,       NO,       NO,        NO,      NO),
)  # fmt: skip


def next_state(state: i64, event: i64) -> i64:
    """The state that an event leads to, or `NO`.

    >>> next_state(OPEN, COMMIT) == COMMITTING, next_state(COMMITTED, ABORT) == NO
    (True, True)
    """
    following: i64 = TABLE[state][event + 1]
    return following
