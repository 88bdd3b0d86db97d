"""What waits for the journal is settled in order, each by an outcome of its own."""

from support.world import FULL

from magnetar.broker.commits import Commits
from magnetar.storage.log.journal import Outcome


def test_one_that_fails_when_it_is_settled_does_not_spoil_the_others() -> None:
    """I1: what is left in the queue would be told of an outcome that is not its own."""
    commits = Commits()
    told: list[Exception | None] = []

    def fail(error: Exception | None) -> None:
        raise ValueError("a mistake")

    commits.wait_for(0).when_done(fail)
    commits.wait_for(1).when_done(told.append)
    ((topic, fault),) = commits.take(Outcome(0, 2, FULL))
    assert topic is None
    assert str(fault) == "a mistake"
    assert told == [FULL]
    assert len(commits) == 0
