"""The real broker on a simulated machine: it is started, stopped, killed and loses power.

| state   | becomes                                                                         |
|---------|---------------------------------------------------------------------------------|
| down    | up, by `start`                                                                  |
| up      | down, by `stop` (in order), `crash` (at once), or a power cut inside the disk   |

Everything of it is what runs in production, `BrokerServer` with its shells; the clock, the
disk, the writer's thread and the network are the simulation's. The catalog is SQLite in
memory: what it keeps is durable when it returns, so it outlives every crash.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from magnetar.broker.broker import Broker
from magnetar.broker.promise import Promise, broken
from magnetar.broker.setting.settings import BrokerSettings
from magnetar.broker.shell.server import BrokerServer
from magnetar.broker.topic.chunk.chunk_search import find_chunks
from magnetar.broker.topic.skip.skip import Skip
from magnetar.broker.topic.skip.skip_result import Takers
from magnetar.broker.topic.subscription import Subscription
from magnetar.broker.topic.topic import Topic
from magnetar.broker.turn.turns import TurnWatcher
from magnetar.errors import BrokerError, ConnectError, UsageError
from magnetar.model import ChunkMessageId, Position, TopicName
from magnetar.model.message_id_data import MessageIdData
from magnetar.storage import Catalog, check
from magnetar.testing.checker.history import Place
from magnetar.testing.sim.disk import DiskFaults, SimDisk
from magnetar.testing.sim.executor import SimExecutor
from magnetar.testing.sim.writer import SimWriter

if TYPE_CHECKING:
    from magnetar.testing.sim.loop import SimLoop
    from magnetar.testing.sim.process import SimProcess

__all__ = ["SimBroker"]

T = TypeVar("T")

PORT: Final = 6650


class SimBroker:
    """A broker in the simulation, which can be killed, cut off from power and started again."""

    def __init__(
        self,
        loop: "SimLoop",
        settings: BrokerSettings | None = None,
        *,
        port: int = PORT,
        disk_class: type[SimDisk] = SimDisk,
    ) -> None:
        self._loop: Final = loop
        self.settings: Final = settings or BrokerSettings(segment_bytes=1 << 20, watermark_bytes=0)
        self.port: Final = port
        self.url: Final = f"pulsar://127.0.0.1:{port}"
        # Brokers have disks of their own, and so does chance.
        self._disk_random: Final = loop.random_for("disk" if port == PORT else f"disk {port}")
        self._disk_class: Final = disk_class
        self.disk: SimDisk = self._new_disk()
        # What goes wrong with the disk while the broker runs.
        self.faults: DiskFaults = DiskFaults()
        self.process: SimProcess | None = None
        self._server: BrokerServer | None = None
        self.lives: int = 0
        # When each began, in nanoseconds of the loop.
        self.starts_ns: Final[list[int]] = []
        self._random: Final = loop.random_for("broker")
        self._catalog: Catalog = _LastingCatalog()
        # Is told of every turn of a session: whose it was, its cost, and what waits for it.
        self.turn_watcher: TurnWatcher | None = None
        self._asked: Final[dict[asyncio.Future[Any], None]] = {}

    @property
    def up(self) -> bool:
        return self._server is not None and self.process is not None and not self.process.dead

    async def start(self) -> None:
        """Opens the store and listens; a store that is damaged fails the run."""
        assert not self.up, "the broker runs already"
        process = self._loop.process("broker")
        server = BrokerServer(
            self.disk,
            lambda: self._catalog,
            self.settings,
            port=self.port,
            clock_ms=self._loop.clock_ms,
            ticks_ms=self._loop.steady_ms,
            writer=partial(SimWriter, loop=self._loop),
            reads=SimExecutor(self._loop),
        )
        self._loop.network.reset_silent()
        self.starts_ns.append(self._loop.now_ns)
        self.disk.faults = DiskFaults()
        self.disk.on_power_lost = self._power_went
        await process.start(server.start(), name="broker start")
        server.broker.turns.watcher = self.turn_watcher
        # Long work in the smallest steps there are, so that all else comes between them.
        server.broker.pieces.be_small()
        self.lives += 1
        self.process, self._server = process, server
        self.disk.faults = self.faults

    async def stop(self) -> None:
        """Ends it in order, as a signal would."""
        assert self._server is not None
        assert self.process is not None
        self.disk.faults = DiskFaults()
        server, process = self._server, self.process
        self._server = None
        await process.start(server.stop(), name="broker stop")
        self._loop.kill(process)
        self._fail_asked()

    def crash(self, *, power_loss: bool) -> None:
        """Ends it between two instructions; with `power_loss` its machine goes with it.

        Peers of a machine without power are told nothing until it is back, with `start`.
        """
        if self.process is None:
            return
        self._loop.kill(self.process, silent=power_loss)
        self._server = None
        self.disk = self.disk.crash(self._random, power_loss=power_loss)
        self.disk.faults = DiskFaults()
        problems = check(self.disk)
        assert problems == [], f"the store is damaged: {problems}"
        self._fail_asked()

    def wipe(self) -> None:
        """Loses the broker's directory, with all that was in it; it begins anew with the next
        start."""
        assert not self.up, "the broker runs"
        self.move_to(self._new_disk())
        self._catalog = _LastingCatalog()

    def move_to(self, disk: SimDisk) -> None:
        """Has the broker go on with another directory: a copy, a restored backup."""
        assert not self.up, "the broker runs"
        self._loop.note("broker", "moves to another disk")
        self.disk = disk

    def _new_disk(self) -> SimDisk:
        return self._disk_class(self._disk_random, note=partial(self._loop.note, "disk"))

    def _power_went(self) -> None:
        """In the middle of an operation of the disk; `crash` takes the machine away."""
        if self.process is not None:
            self._loop.kill(self.process, silent=True)

    # ---- Asking it -----------------------------------------------------------

    async def unload(self, topic: str) -> None:
        """Closes a topic; clients come back to it. Raises ConnectError if the broker goes."""
        name = TopicName.parse(topic)
        await self.ask(lambda server: server.broker.unload(name))

    async def create_partitioned(self, topic: str, partitions: int) -> None:
        """Makes a topic with partitions, as an operator would."""
        name = TopicName.parse(topic)
        await self.ask(lambda server: server.broker.create_partitioned(name, partitions))

    async def skip(self, topics: list[str], subscription: str, places: list[Place]) -> list[Place]:
        """Skips single messages of a topic, or of its partitions, all or none of them.

        Returns those that were not acked before, and that all consumers have given back, chunks
        one by one.
        Raises what the broker refuses with, and ConnectError if it is not known whether
        they were skipped.
        """
        told = await self.skip_told(topics, subscription, places)
        return [place for place, names in told.items() if not names]

    async def skip_told(
        self, topics: list[str], subscription: str, places: list[Place]
    ) -> dict[Place, list[str]]:
        """The same; of all that were not acked before, who may hand them out all the same."""
        ids = [MessageIdData(place.ledger, place.entry, -1, place.index) for place in places]
        skips: list[Skip] = []

        def ask(server: BrokerServer) -> Promise[None]:
            try:
                found = _topics(server, topics)
            except BrokerError as error:
                return broken(error)
            skipped: Promise[None] = Promise()

            def skip(whole: list[MessageIdData]) -> None:
                _carry_out(found, subscription, whole, skips).then(skipped.keep, skipped.fail)

            find_chunks(found, ids).then(skip, skipped.fail)
            return skipped

        await self.ask(ask)
        await self.ask(lambda server: skips[0].recalled(server.broker.settings.skip_recall_ms))
        recall = skips[0].recall
        assert recall is not None
        takers = Takers(recall)
        return {
            Place(int(result.id.ledger_id), int(result.id.entry_id), int(result.id.batch_index)): (
                takers.of(result).get("unconfirmed", [])
            )
            for result in skips[0].results
            if result.text == "skipped"
        }

    async def chunks_of(self, topics: list[str], id: ChunkMessageId) -> list[Place]:
        """Returns where the chunks of a message are. Raises as `skip` does."""
        first = id.first_chunk_message_id()
        named = MessageIdData(
            id.ledger_id(),
            id.entry_id(),
            first_chunk=MessageIdData(first.ledger_id(), first.entry_id()),
        )
        chunks = await self.ask(lambda server: find_chunks(_topics(server, topics), [named]))
        return [Place(int(found.ledger_id), int(found.entry_id)) for found in chunks]

    async def reset(
        self, topic: str, subscription: str, place: "Place", came: Callable[[], None]
    ) -> None:
        """Puts a cursor where `place` is next, as an operator would; `came` when it begins.

        Raises what the broker refuses with, and ConnectError if nobody knows.
        """

        def ask(server: BrokerServer) -> Promise[None]:
            found = server.broker.find(TopicName.parse(topic)).subscriptions[subscription]
            came()
            return found.reset(Position(place.ledger, place.entry))

        await self.ask(ask)

    async def ask(self, question: "Callable[[BrokerServer], Promise[T]]") -> T:
        """Asks the broker something in its own process, and waits for the answer."""
        if not self.up:
            raise ConnectError("the broker is down")
        server, process = self._server, self.process
        assert server is not None
        assert process is not None
        answer: asyncio.Future[T] = self._loop.create_future()
        self._asked[answer] = None

        def keep(value: T) -> None:
            if not answer.done():
                answer.set_result(value)

        def fail(error: Exception) -> None:
            if not answer.done():
                answer.set_exception(error)

        try:
            process.call(lambda: question(server).then(keep, fail))
            return await answer
        finally:
            self._asked.pop(answer, None)

    def present(self) -> Broker | None:
        """Returns the broker as it is now; None while it is down."""
        return None if self._server is None or not self.up else self._server.broker

    def is_loaded(self, topic: str) -> bool:
        """Returns whether the broker runs, and has the topic: somebody has come to it since it
        began, and it is not being unloaded."""
        return any(str(loaded.name) == topic and not loaded.closed for loaded in self.loaded())

    def loaded(self) -> list[Topic]:
        """Returns the topics that somebody has come to since it began; none if it is down."""
        if self._server is None or not self.up:
            return []
        return list(self._server.broker.topics.values())

    def subscription(self, topic: str, name: str) -> Subscription:
        """Returns a subscription as the broker has it now, for its counters."""
        assert self._server is not None
        return self._server.broker.find(TopicName.parse(topic)).subscriptions[name]

    def _fail_asked(self) -> None:
        for answer in list(self._asked):
            if not answer.done():
                answer.set_exception(ConnectError("the broker died"))
        self._asked.clear()


class _LastingCatalog(Catalog):
    """One that survives the brokers that close it."""

    def close(self) -> None:
        pass


def _topics(server: BrokerServer, names: list[str]) -> list[Topic]:
    return [server.broker.find(TopicName.parse(name)) for name in names]


def _carry_out(
    topics: list[Topic], subscription: str, ids: list[MessageIdData], skips: list[Skip]
) -> Promise[None]:
    try:
        skip = Skip(topics, subscription, ids, recall=True, details=True)
        skips.append(skip)
        while skip.plan_piece():
            pass
        return skip.carry_out()
    except (BrokerError, UsageError) as error:
        return broken(error)
