"""A client that says anything, beside one that is honest (I8).

The input is a series of commands and of things that happen to the broker in between: time
passes, the disk or the client is slow, topics are unloaded, the broker is killed. The honest
client sends, receives and acks before and after; nothing is raised that the session does not
deal with itself, no event takes long, no input takes much memory, and `check` finds the log
in order. `run.py` has the command.
"""

from contextlib import suppress
from typing import Final

from fuzz.commands import TOPICS, Commands
from fuzz.draw import Draw
from fuzz.judge import bounded, timed
from support.wire_client import Exclusive, KeyShared, Shared, WireClient, WireConsumer, WireProducer
from support.wire_transaction import WireTransaction
from support.world import World

from magnetar.broker.peer import Peer
from magnetar.errors import MagnetarError
from magnetar.model import TopicName
from magnetar.protocol import CommandFlow, CommandMessage, CommandSendReceipt
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.storage import check

# The honest client's, which no command ever names.
HONEST: Final = "honest-7d1f"
SALT: Final = 1
COMMANDS_MAX: Final = 200
REPEATS_MAX: Final = 64
WAITS_MS: Final = (1, 100, 6000, 60_000)
GARBAGE_MAX: Final = 200


class FuzzWorld(World):
    """A world whose events are timed one by one."""

    def _step(self) -> bool:
        with timed("an event"):
            return super()._step()


class FuzzClient(WireClient):
    """A client whose bytes are fed piece by piece, each in an event of its own."""

    def feed(self, data: bytes) -> None:
        self._unsent.append(data)

    def _feed(self) -> bool:
        fed = False
        while self._unsent and self.port.reading:
            data = self._unsent.pop(0)
            with timed(f"a receive of {len(data)} bytes"):
                self.session.receive(data)
            fed = True
        return fed


class Honest:
    """A client that everything works for, whatever others do."""

    _consumer: WireConsumer
    _producer: WireProducer

    def __init__(self, world: World) -> None:
        self._world = world
        self._sent = 0
        self.come()

    def come(self) -> None:
        """Connects, for the first time or because the broker was started anew."""
        self._client = self._world.connect()
        self._consumer = self._client.subscribe(HONEST, "sub", Shared)
        self._producer = self._client.producer(HONEST)

    def work(self) -> None:
        self._sent += 1
        text = f"message {self._sent}"
        self._producer.send(text)
        self._consumer.flow(1)
        delivery = self._consumer.one()
        assert delivery.payloads == {0: text}
        self._consumer.acked(delivery)
        assert not self._client.hung_up


class Play:
    """One input, played out."""

    def __init__(self, data: bytes) -> None:
        self.draw: Final = Draw(data)
        # One input in many, for it takes as long as all else.
        self.checked: Final = self.draw.rarely(16)
        self.world: Final = FuzzWorld(salt=SALT, transactions=True)
        # Long work in the smallest steps there are: what comes next comes in between.
        self.world.broker.pieces.be_small()
        self.honest: Final = Honest(self.world)
        self.ids: Final[list[tuple[int, int]]] = []
        self.numbers: Final[list[int]] = []
        self.commands: Final = Commands(self.draw, self.ids, self.numbers)
        self.peer: FuzzClient = self.come()
        self.unsent: bytes = b""
        # Where topics are looked at, for what the peer left there.
        self.peers: Final[list[Peer]] = []

    def run(self) -> None:
        self.fill()
        self.honest.work()
        for _ in range(COMMANDS_MAX):
            if not self.draw.left:
                break
            self.act()
        self.end()

    def fill(self) -> None:
        """Something to consume: messages, a batch, one in chunks, on subscriptions of two kinds."""
        client = self.world.connect()
        client.subscribe("t", "s", Shared)
        client.subscribe("t", "k", KeyShared)
        producer = client.producer("t")
        ids = [producer.send("a"), producer.send("b", "c", "d")]
        ids += producer.send_chunks("uuid", "e", "f")
        ids.append(client.producer("u").send("g"))
        # One that is open, with an entry and an ack: nobody says yet how it ends.
        transaction = WireTransaction(client, timeout_ms=1000)
        with transaction.within(producer):
            ids.append(producer.send("h"))
        self.numbers.append(transaction.number)
        self.ids.extend((int(id.ledger_id), int(id.entry_id)) for id in ids)
        client.drop()

    def come(self) -> FuzzClient:
        peer = FuzzClient(self.world, len(self.world.clients) + 1)
        self.world.clients.append(peer)
        if not self.draw.rarely():
            self.greet(peer)
        return peer

    def greet(self, peer: FuzzClient) -> None:
        """CONNECT, and mostly a producer or a consumer to go on with."""
        parts = self.draw.byte()
        flags = pb.FeatureFlags(supports_magnetar=parts & 1 == 1)
        peer.say(pb.CommandConnect(client_version="x", protocol_version=21, feature_flags=flags))
        if parts & 2:
            peer.say(pb.CommandProducer(topic="t", producer_id=0, request_id=1))
        if parts & 4:
            peer.say(pb.CommandProducer(topic="u", producer_id=1, request_id=2))
        for id, name, type in ((0, "s", Shared), (1, "k", KeyShared), (2, "e", Exclusive)):
            if parts & 8 << id:
                request = pb.CommandSubscribe(consumer_id=id, request_id=3 + id, subType=type)
                request.topic, request.subscription = "t", name
                peer.say(request)
                peer.say(CommandFlow(id, 100))

    # ---- What happens ----------------------------------------------------------

    def act(self) -> None:
        kind = self.draw.below(32)
        if kind < 22:
            self.unsent += self.commands.one()
        elif kind == 22:
            self.unsent += self.commands.one() * (1 + self.draw.below(REPEATS_MAX))
        elif kind == 23:
            self.unsent += self.draw.some(GARBAGE_MAX)
        elif kind == 24:
            self.damage()
        else:
            self.deliver()
            self.happen(kind - 25)
            return
        if not self.draw.rarely(4):
            self.deliver()

    def damage(self) -> None:
        """Changes or cuts a command."""
        command = bytearray(self.commands.one())
        at = self.draw.below(len(command))
        if self.draw.below(2):
            command[at] = self.draw.byte()
        else:
            del command[at:]
        self.unsent += bytes(command)

    def deliver(self) -> None:
        """Has the broker read what was said, at once or in two pieces."""
        data, self.unsent = self.unsent, b""
        if not data:
            return
        cut = self.draw.below(len(data)) if self.draw.rarely(8) else 0
        for piece in (data[:cut], data[cut:]):
            if piece:
                self.peer.feed(piece)
                self.world.settle()
        self.learn()
        if self.peer.hung_up:
            self.come_again()

    def learn(self) -> None:
        """Remembers the ids that the broker told."""
        for command in self.peer.received:
            id = None
            if isinstance(command, CommandMessage | CommandSendReceipt):
                id = command.message_id
            if isinstance(command, pb.CommandNewTxnResponse) and len(self.numbers) < 20:
                self.numbers.append(int(command.txnid_least_bits))
            if id is not None and len(self.ids) < 200:
                self.ids.append((int(id.ledger_id), int(id.entry_id) & (1 << 64) - 1))
        self.peer.received.clear()

    def come_again(self) -> None:
        self.peers.append(self.peer.session)
        self.peer = self.come()

    def happen(self, kind: int) -> None:
        world = self.world
        if kind == 0:
            world.advance(self.draw.pick(WAITS_MS))
        elif kind == 1:
            self.peer.drop()
            self.come_again()
        elif kind == 2:
            self.slow_down()
        elif kind == 3:
            with suppress(MagnetarError):
                world.broker.unload(TopicName.parse(self.draw.pick(TOPICS)))
        elif kind == 4:
            with suppress(MagnetarError):
                name = TopicName.parse(self.draw.pick(TOPICS))
                forced = self.draw.below(2) == 1
                world.broker.delete_topic(name, force=forced, delete_schema=True)
        elif kind == 5:
            self.start_anew()
        else:
            self.peer.session.check_alive()
        world.settle()

    def slow_down(self) -> None:
        """The disk or the client holds up what is to come, or goes on."""
        kind = self.draw.below(5)
        if kind == 0:
            self.world.hold_disk()
        elif kind == 1:
            self.world.hold_reads()
        elif kind == 2:
            self.peer.lag()
        else:
            self.go_on()

    def go_on(self) -> None:
        self.world.release_disk()
        self.world.release_reads()
        if self.peer.lags:
            self.peer.catch_up()

    def start_anew(self) -> None:
        if self.draw.below(2):
            self.go_on()
            self.world.restart()
        else:
            self.world.crash()
        self.peers.clear()
        self.honest.come()
        self.peer = self.come()

    # ---- The end ---------------------------------------------------------------

    def end(self) -> None:
        self.deliver()
        self.go_on()
        self.honest.work()
        self.peer.drop()
        self.peers.append(self.peer.session)
        self.world.advance(1000)
        self.honest.work()
        self.check_left()
        if self.checked:
            found = check(self.world.disk)
            assert not found, found
        self.world.close()

    def check_left(self) -> None:
        """Nothing of those who went is left in any topic."""
        for topic in self.world.broker.topics.values():
            for producer in topic.producers.values():
                assert producer.peer not in self.peers, f"{producer.name} stayed"
            for subscription in topic.subscriptions.values():
                for consumer in subscription.consumers:
                    assert consumer.peer not in self.peers, f"{consumer.name} stayed"


def one_input(data: bytes) -> None:
    with bounded("the input"):
        Play(data).run()
