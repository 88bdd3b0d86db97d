"""Topics on their way from the store into memory, a few subscriptions in each event (I10).

A topic is loaded when somebody asks for it. It may have thousands of subscriptions, and a
subscription thousands of acks behind its last snapshot. So whoever is able to wait asks with
`Broker.prepare` first, and goes on when that is done; others have the rest of it at once.

| a topic is    | `Broker.prepare` | a step        | `Broker.topic`       | becomes           |
|---------------|------------------|---------------|----------------------|-------------------|
| soon loaded   | None             | -             | loads it             | loaded            |
| long to load  | its loading      | -             | loads it             | loading; loaded   |
| loading       | the same loading | loads a piece | loads the rest of it | loaded, or failed |
| failed        | a new loading    | raises        | tries again          | loading; loaded   |
| loaded        | None             | -             | the topic            | -                 |

What the store has of a topic stays as it is while nobody has it loaded, but for one thing: the end
of a transaction that it is part of. Its loading begins anew then, once for each that was open.
Policies may change; the topic follows them when it is there.
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from magnetar.broker.promise import Promise
from magnetar.broker.topic.persistent_topic import PersistentTopic
from magnetar.broker.turn.long_answer import LongAnswer
from magnetar.broker.turn.work import Work
from magnetar.errors import BrokerError, StorageError
from magnetar.model import ServerError, TopicName
from magnetar.storage.cursor.cursor_load import load_ledgers

if TYPE_CHECKING:
    from magnetar.broker.broker import Broker

__all__ = ["LoadFirst", "TopicLoading"]

# What a session is charged for a piece: a third of a turn.
PIECE_COST: Final = 100


@final
class TopicLoading:
    """See the module."""

    def __init__(self, broker: "Broker", name: TopicName, id: int) -> None:
        self._broker: Final = broker
        self._name: Final = name
        self._id: Final = id
        self._steps: Work[PersistentTopic] = self._load()
        # Kept or broken when the topic is there, or cannot be.
        self.promise: Final[Promise[PersistentTopic]] = Promise()
        self._alone: bool = False

    def _load(self) -> Work[PersistentTopic]:
        broker, note = self._broker, self._broker.directory.note(str(self._name))
        topic = PersistentTopic(
            broker,
            self._name,
            self._id,
            load_ledgers(broker.store, self._id),
            broker.directory.effective(self._name),
            terminated=note.terminated,
            epoch=note.epoch,
        )
        yield from topic.load_subscriptions()
        return topic

    def begin_anew(self) -> None:
        """What was loaded is not what the store has any more."""
        self._steps = self._load()

    def step(self) -> bool:
        """Loads a piece; whether there is more. Raises BrokerError if it cannot be loaded."""
        if self.promise.error is not None:
            raise self.promise.error
        if self.promise.done:
            return False
        try:
            topic = self._next()
        except StorageError as error:
            raise self._failed(error) from error
        if topic is None:
            return True
        self.promise.keep(topic)
        return False

    def _next(self) -> PersistentTopic | None:
        """The topic, if there are no more steps. Raises StorageError."""
        try:
            next(self._steps)
        except StopIteration as end:
            topic: PersistentTopic = end.value
            self._broker.have_loaded(topic)
            return topic
        return None

    def _failed(self, error: StorageError) -> BrokerError:
        self._broker.loadings.pop(str(self._name), None)
        failed = BrokerError(ServerError.PersistenceError, f"{self._name}: {error}")
        self.promise.fail(failed)
        return failed

    def finish(self) -> None:
        """Loads all that is left. Raises BrokerError."""
        while self.step():
            pass

    def go_on_alone(self) -> None:
        """Loads it in later events, though nobody waits for it."""
        if not self._alone:
            self._alone = True
            self._broker.host.call_soon(self._step_alone)

    def _step_alone(self) -> None:
        try:
            more = self.step()
        except BrokerError as error:
            self._broker.host.warn(str(error))
            return
        if more:
            self._broker.host.call_soon(self._step_alone)


@final
class LoadFirst(LongAnswer):
    """A command about a topic that is long to load: it is loaded first, in the session's turns."""

    def __init__(self, loading: TopicLoading) -> None:
        super().__init__()
        self._loading: Final = loading
        self.loaded: Final[Promise[None]] = Promise()

    def step(self) -> i64:
        try:
            if self._loading.step():
                return PIECE_COST
        except BrokerError as error:
            self.done = True
            self.loaded.fail(error)
            return 1
        self.done = True
        self.loaded.keep(None)
        return PIECE_COST
