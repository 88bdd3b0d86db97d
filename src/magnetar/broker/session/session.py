"""A session: the conversation with one client, command by command.

| state     | CONNECT   | anything else | becomes                                             |
|-----------|-----------|---------------|-----------------------------------------------------|
| new       | answered  | hang up       | connected; closed, if the client may not come in or |
|           |           |               | says nothing for a keep-alive interval              |
| connected | hang up   | see below     | closed: the peer went, said something invalid, or   |
|           |           |               | did not answer a PING                               |
| closed    | -         | -             |                                                     |

A new session is a stranger's: its frames are small (`STRANGER_FRAME`), and of many that are
turned away the log tells of one in a while. A connected one may send frames of any size that
messages have.

What a session has heard and not handled yet is its *input*:

| input  | is left                   | socket is read | goes on when                             |
|--------|---------------------------|----------------|------------------------------------------|
| open   | a part of a command       | yes            | more comes: it has a turn at once, or is |
|        |                           |                | queued if others have filled this round  |
| queued | commands, a long answer   | no             | it is its turn again (`turns.py`)        |
| full   | commands, a long answer   | no             | its peer has read some of what waits for |
|        |                           |                | it (its own limit), or all of it (while  |
|        |                           |                | the budget of all peers is spent), or    |
|        |                           |                | acks of it are written, of which too     |
|        |                           |                | much is on its way, or it has proved who |
|        |                           |                | it is, which is being looked at, or      |
|        |                           |                | there is something left of a rate that   |
|        |                           |                | it published beyond; then it is queued   |

A turn begins in any of these and leads to any: open if everything is handled, queued if the
turn has cost enough, full if too much waits for the peer. Commands are handled in the order
in which they came. So what one peer may cost is bounded: of the loop's time one turn after
the other, each behind those of others, and of memory one read, one command and one outbox.

Bytes that are no command end the session and nothing else; the reason is logged once. A
request that cannot be served is answered with an error, and nothing has changed. Requests
are answered in the order in which their work is done, which need not be that of asking.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias, final

from google.protobuf.message import Message
from mypy_extensions import i64

from magnetar.broker.broker import Broker
from magnetar.broker.host import Timer
from magnetar.broker.peer import Peer, Port, unsigned
from magnetar.broker.promise import Promise, kept
from magnetar.broker.rate.throttle import Throttle
from magnetar.broker.session.session_auth import SessionAuth
from magnetar.broker.session.session_consumers import SessionConsumers
from magnetar.broker.session.session_lookups import SessionLookups
from magnetar.broker.session.session_producers import SessionProducers
from magnetar.broker.session.session_schemas import get_or_create_schema, get_schema
from magnetar.broker.session.session_texts import check_connect
from magnetar.broker.session.session_topics import SessionTopics
from magnetar.broker.session.session_transactions import SessionTransactions
from magnetar.broker.setting.listeners import Listener
from magnetar.broker.setting.text_limits import STRANGER_FRAME
from magnetar.broker.topic.producer import Producer
from magnetar.broker.turn.long_answer import LongAnswer
from magnetar.broker.turn.slices import in_slices
from magnetar.broker.turn.turns import (
    ANSWER_SHIFT,
    COLD_COST,
    FIRST_TURN_COST,
    FIRST_TURN_MS,
    LOOK_COST,
    TURN_COST,
    TURN_MS,
)
from magnetar.errors import BrokerError, RemoteProtocolError
from magnetar.protocol import (
    PROTOCOL_VERSION,
    Command,
    CommandAck,
    CommandFlow,
    CommandSend,
    Connection,
    UnknownCommand,
)
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.protocol.limit import FRAME_OVERHEAD_MAX

__all__ = ["Session"]

# Each takes the class of its command.
Handler: TypeAlias = Callable[..., None]

# So many wait at once for a peer to read something.
READERS_MAX: Final = 1000
PROBE_MS: Final = 5000
# What a connection counts as the largest message, so that no frame is larger than a stranger's.
STRANGER_MESSAGE_MAX: Final = STRANGER_FRAME.bytes_max - FRAME_OVERHEAD_MAX

# About so many fields of a long command are decoded in the time of one unit of a turn.
UNIT_FIELDS: Final = 8

# So much may be on its way to the disk of one peer's acks. Thirty bytes of an ACK can stand for a
# bitset of 128 KiB, and whoever publishes waits behind all that is written before.
ACK_BYTES_MAX: Final = 1024 * 1024
# And of all peers together, but for the first ACK of each.
ACK_BYTES_ALL_MAX: Final = 4 * ACK_BYTES_MAX

# States of the input.
OPEN: Final = 0
QUEUED: Final = 1
FULL: Final = 2


@final
class Session(Peer):
    """See the module. The shell feeds it bytes and carries away its outbox."""

    def __init__(
        self,
        broker: Broker,
        port: Port,
        address: str,
        service_url: str,
        server_version: str,
        *,
        service_url_tls: str = "",
        certificate_role: str = "",
    ) -> None:
        super().__init__(port, address, broker.outbound)
        self.broker: Final = broker
        self._outbound_max: Final[i64] = broker.settings.max_outbound_bytes_per_connection
        self.outbox_max = min(self.outbox_max, self._outbound_max)
        self._input: int = OPEN
        self._answer: LongAnswer | None = None
        # What the present turn has cost and may cost, when it must end, and after what cost
        # that is looked at again.
        self._spent: i64 = 0
        self._spend_max: i64 = 0
        self._turn_end_ms: int = 0
        self._look_at: i64 = 0
        self._server_version: Final = server_version
        message_size_max = min(STRANGER_MESSAGE_MAX, broker.settings.message_size_max)
        self._command_fields: Final[i64] = broker.pieces.command_fields
        self._connection: Final = Connection(
            message_size_max,
            step_bytes=broker.pieces.command_bytes,
            step_fields=self._command_fields,
        )
        self._connected: bool = False
        self._begun_ms: Final = broker.host.ticks_ms()
        self._auth: Final = SessionAuth(broker, self, certificate_role, server_version)
        own = Listener({"pulsar": service_url, "pulsar+ssl": service_url_tls})
        self._lookups: Final = SessionLookups(broker, self, self._auth, own)
        self._producers: Final = SessionProducers(broker, self)
        self._consumers: Final = SessionConsumers(broker, self)
        self._topics: Final = SessionTopics(broker, self)
        self._transactions: Final = SessionTransactions(broker, self)
        self._probes: list[Promise[bool]] = []
        # How many PINGs it was sent, and PONGs came; and who is told of which PONG.
        self._pings: int = 0
        self._pongs: int = 0
        self._readers: Final[deque[tuple[int, Promise[None]]]] = deque()
        self._probe_timer: Timer | None = None
        self._asked_alive: bool = False
        # Whether it is closed, and what it held is not free yet.
        self._leaving: bool = False
        self._handlers: Final[dict[str, Handler]] = self._table()

    def _table(self) -> dict[str, Handler]:
        producers, consumers, topics = self._producers, self._consumers, self._topics
        return {
            "CommandPing": self._on_ping,
            "CommandPong": self._on_pong,
            "CommandLookupTopic": self._lookups.on_lookup,
            "CommandPartitionedTopicMetadata": self._lookups.on_partitions,
            "CommandProducer": producers.on_producer,
            "CommandCloseProducer": producers.on_close_producer,
            "CommandSubscribe": consumers.on_subscribe,
            "CommandCloseConsumer": consumers.on_close_consumer,
            "CommandUnsubscribe": consumers.on_unsubscribe,
            "CommandRedeliverUnacknowledgedMessages": consumers.on_redeliver,
            "CommandSeek": consumers.on_seek,
            "CommandGetLastMessageId": consumers.on_last_message_id,
            "CommandConsumerStats": consumers.on_consumer_stats,
            "CommandWithdrawn": consumers.on_withdrawn,
            "CommandGetTopicsOfNamespace": topics.on_topics,
            "CommandWatchTopicList": topics.on_watch,
            "CommandWatchTopicListClose": topics.on_watch_close,
            "CommandGetSchema": self._on_get_schema,
            "CommandGetOrCreateSchema": self._on_get_or_create_schema,
            "CommandAuthResponse": self._auth.on_response,
            **self._transactions.handlers(),
        }

    # ---- Bytes ---------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Takes what came from the peer, and does what it asks for, now or in a later turn."""
        if self.closed:
            return
        if self._probes:
            self._answer_probes(True)
        self._asked_alive = False
        self._connection.receive_data(data)
        if self._input != OPEN:
            self._count_held()
        else:
            turns = self.broker.turns
            if turns.full:
                self._become(QUEUED)
                turns.queue_first(self)
                self._count_held()
            elif turns.first_is_long:
                turns.had_first(self.take_turn(TURN_COST, TURN_MS))
            else:
                turns.had_first(self.take_turn(FIRST_TURN_COST, FIRST_TURN_MS))

    # ---- Turns ---------------------------------------------------------------

    def take_turn(self, cost: int, ms: int) -> int:
        """Handles what came, as far as the turn may cost and take so much; what it has cost."""
        if self.closed:
            return 0
        self._spent = 0
        self._spend_max = cost
        self._turn_end_ms = self.broker.host.ticks_ms() + ms
        try:
            if self._may_go_on():
                self._handle_some()
        except RemoteProtocolError as error:
            self.fail(f"invalid bytes: {error}")
        watcher = self.broker.turns.watcher
        if watcher is not None:
            watcher(self.address, int(self._spent), int(self.waiting_bytes))
        self._count_held()
        return int(self._spent)

    def _count_held(self) -> None:
        """What is held of what the peer has said counts for the budget of all."""
        if not self.closed:
            self.broker.inbound.holds(self, self._connection.size)

    def _handle_some(self) -> None:
        """Handles commands until none is left, or the turn is over."""
        while self._answer is None or self._work_on(self._answer):
            command = self._connection.next_command()
            if command is not None:
                self._spent += 1
                self._handle(command)
                if self._is_closed():
                    return
            elif self._connection.unfinished:
                self._spent += self._command_fields // UNIT_FIELDS + 1
            else:
                self._become(OPEN)
                return
            if (self._spent >= self._look_at or self._acks_are_full()) and not self._may_go_on():
                return

    def _work_on(self, answer: LongAnswer) -> bool:
        """Goes on with a long answer; False if the turn is over before it is done."""
        while not answer.done:
            if self._spent >= self._look_at and not self._may_go_on():
                return False
            before = self.outbox_bytes
            self._spent += answer.step()
            self._charge_answer(before)
        self._answer = None
        return self._may_go_on()

    def _may_go_on(self) -> bool:
        """Whether the turn goes on; if not, what is left waits for another one."""
        if self._is_full():
            self._become(FULL)
            return False
        if self._spent >= self._spend_max or self.broker.host.ticks_ms() >= self._turn_end_ms:
            self._become(QUEUED)
            self.broker.turns.queue(self)
            return False
        self._look_at = self._spent + LOOK_COST
        return True

    def _is_full(self) -> bool:
        """Whether too much waits for the peer already, or of it for the disk.

        `_go_on` is called when that changes.
        """
        if self._acks_are_full() or self._auth.is_proving() or self.held_up is not None:
            return True
        waiting = self.outbox_bytes + self.unwritten
        if waiting == 0:
            return False
        if waiting >= self._outbound_max:
            return True
        if self.outbound.spent:
            self.outbound.wait(self)
            return True
        return False

    def _acks_are_full(self) -> bool:
        """Whether too much is on its way to the disk of this peer's acks, or of all peers'."""
        if self.ack_bytes == 0:
            return False
        writing = self.broker.ack_budget.writing
        return self.ack_bytes >= ACK_BYTES_MAX or writing >= ACK_BYTES_ALL_MAX

    def _become(self, state: int) -> None:
        self._input = state
        self.has_unhandled = state != OPEN
        self._set_reading()

    def _go_on(self) -> None:
        """There may be room: what waits for that waits for its turn now."""
        if self._input == FULL and not self.closed and not self._is_full():
            self._become(QUEUED)
            self.broker.turns.queue(self)

    def begin(self, answer: LongAnswer) -> None:
        """Makes a long answer, in this turn and later ones, before anything else is handled."""
        self._answer = answer

    def charge(self, cost: i64) -> None:
        self._spent += cost

    def _charge_answer(self, before: i64) -> None:
        if self.outbox_bytes > before:
            self._spent += (self.outbox_bytes - before) >> ANSWER_SHIFT

    # ---- Commands ------------------------------------------------------------

    def _is_closed(self) -> bool:
        # Asked by a call, for mypy does not see that handling a command may change it.
        return self.closed

    def _handle(self, command: Command | UnknownCommand) -> None:
        if isinstance(command, CommandSend):
            self._producers.on_send(command)
        elif isinstance(command, CommandAck):
            self._spent += len(command.message_ids)
            self._consumers.on_ack(command)
        elif isinstance(command, CommandFlow):
            self._on_flow(command)
        elif isinstance(command, UnknownCommand):
            self._require_connected(f"command {command.command_type}")
        elif isinstance(command, Message):
            self._on_cold(command)
        else:
            self.fail(f"{type(command).__name__} is a broker's to say")

    def _on_flow(self, command: CommandFlow) -> None:
        before = len(self.outbox)
        self._consumers.on_flow(command)
        if len(self.outbox) > before:
            self._spent += (len(self.outbox) - before) // 2

    def _on_cold(self, command: Message) -> None:
        self._spent += COLD_COST
        before = self.outbox_bytes
        self._answer_cold(command)
        self._charge_answer(before)

    def _answer_cold(self, command: Message) -> None:
        name = command.DESCRIPTOR.name
        if name == "CommandConnect":
            self._on_connect(command)
            return
        if not self._require_connected(name):
            return
        handler = self._handlers.get(name)
        if handler is not None:
            handler(command)
        else:
            self.fail(f"{name} is a broker's to say")

    def _require_connected(self, what: str) -> bool:
        if not self._connected:
            self.fail(f"{what} before CONNECT")
        return self._connected

    def fail(self, reason: str) -> None:
        """Ends the session, and says why in the log."""
        if not self.closed:
            text = f"closing the connection of {self.address}: {reason}"
            if self._connected:
                self.broker.host.warn(text)
            else:
                self.broker.strangers.warn(text)
            self.shut()

    def shut(self) -> None:
        """Hangs up, after what is in the outbox."""
        if not self.closed:
            self.port.hang_up()
            self.lost()

    def lost(self) -> None:
        """The connection is gone: its producers and consumers are too."""
        if self.closed:
            return
        self.closed = True
        self._connection.forget()
        self.broker.inbound.forget(self)
        if self._answer is not None:
            self._answer.cancel()
        self._auth.lost()
        self._topics.lost()
        if self.held_up is not None:
            self.held_up.forget(self)
        self._leaving = True
        steps = self._producers.lost() + self._consumers.lost()
        in_slices(self.broker.host, steps).when_done(self._left)

    def _left(self, error: Exception | None) -> None:
        """All that it held is free."""
        self._leaving = False
        self._answer_probes(False)

    def gone(self) -> None:
        """The connection is closed on this side too: nothing waits for it any more."""
        self.lost()
        self.outbound.forget(self)

    def lag_ended(self) -> None:
        """The peer reads again: its consumers may be served."""
        self.writable = True
        self.have_room()

    def have_room(self) -> None:
        """Consumers that found no room may be served, and commands that waited for it."""
        self._go_on()
        if self.ready:
            self._consumers.lag_ended()

    def hold_up(self, throttle: Throttle) -> None:
        super().hold_up(throttle)
        self._look_at = 0  # nothing else is handled before

    def tokens_came(self) -> None:
        super().tokens_came()
        self._go_on()

    def have_written(self, unwritten: i64) -> None:
        """The socket has taken all but so many bytes of what it was given."""
        super().have_written(unwritten)
        self._go_on()

    def acks_began(self, size: i64) -> None:
        super().acks_began(size)
        self.broker.ack_budget.writing += size

    def acks_ended(self, size: i64) -> None:
        super().acks_ended(size)
        self.broker.ack_budget.writing -= size
        self._go_on()

    def producer_ready(self, producer_id: int, topic_epoch: int) -> None:
        self._producers.ready(producer_id, topic_epoch)

    def close_producer(self, producer: Producer) -> None:
        self._producers.close(producer)

    # ---- Life ----------------------------------------------------------------

    def check_revoked(self) -> None:
        """To be called when tokens were taken back."""
        self._auth.check_revoked()

    def check_alive(self) -> None:
        """To be called at every keep-alive interval."""
        if self.closed:
            return
        if not self._connected:
            self._check_begun()
        elif self.held_up is not None:
            self._ping()  # so that it hears of us, while its own PING is not read
        elif self.paused or self.is_held or self._input == QUEUED:
            pass  # it may have answered: nobody reads what it says now
        elif self._asked_alive:
            self.fail("no answer to PING within the keep-alive interval")
        else:
            self._asked_alive = True
            self._ping()

    def _check_begun(self) -> None:
        """Hangs up if CONNECT did not come within an interval of the session's own beginning."""
        age_ms = self.broker.host.ticks_ms() - self._begun_ms
        if age_ms >= self.broker.settings.keep_alive_ms:
            self.fail("no CONNECT within the keep-alive interval")

    def _ping(self) -> None:
        self._pings += 1
        self.send(pb.CommandPing())

    def has_read(self) -> Promise[None]:
        self._ping()
        read: Promise[None] = Promise()
        if len(self._readers) < READERS_MAX:
            self._readers.append((self._pings, read))
        return read

    def probe(self) -> Promise[bool]:
        """Finds out whether the peer is still there; hangs up if it is not."""
        if self.closed and not self._leaving:
            return kept(False)
        alive: Promise[bool] = Promise()
        self._probes.append(alive)
        if not self.closed and len(self._probes) == 1:
            self._ping()
            self._probe_timer = self.broker.host.call_later(PROBE_MS, self._probe_failed)
        return alive

    def _probe_failed(self) -> None:
        self._probe_timer = None
        if self.paused or self.is_held or self._input == QUEUED or self.held_up is not None:
            self._answer_probes(True)  # nobody reads what it says now, so it is not its fault
            return
        self.fail("no answer to PING, and another client wants what it holds")

    def _answer_probes(self, alive: bool) -> None:
        if self._probe_timer is not None:
            self._probe_timer.cancel()
            self._probe_timer = None
        probes = self._probes
        self._probes = []
        for probe in probes:
            probe.keep(alive)

    def _on_ping(self, command: pb.CommandPing) -> None:
        self.send(pb.CommandPong())

    def _on_pong(self, command: Message) -> None:
        self._pongs += 1
        while self._readers and self._readers[0][0] <= self._pongs:
            self._readers.popleft()[1].keep(None)

    # ---- Connect -------------------------------------------------------------

    def _on_connect(self, message: Message) -> None:
        if self._connected:
            self.fail("a second CONNECT")
            return
        command: pb.CommandConnect = message  # type: ignore[assignment]
        if self._auth.is_proving():
            self.fail("a second CONNECT")
            return
        try:
            check_connect(command)
            proved = self._auth.connect(command)
        except BrokerError as error:
            self._refuse_log_in(error)
            return
        proved.then(lambda _: self._welcome(command), self._refuse_log_in)
        if self._auth.is_proving():
            self._look_at = 0  # nothing else is handled before that is known

    def _welcome(self, command: pb.CommandConnect) -> None:
        if self.closed:
            return
        self._connected = True
        self._connection.message_size_max = self.broker.settings.message_size_max
        self.client_version = command.client_version
        self.protocol_version = min(command.protocol_version, PROTOCOL_VERSION)
        self.knows_magnetar = command.feature_flags.supports_magnetar
        self.send(
            pb.CommandConnected(
                server_version=self._server_version,
                protocol_version=self.protocol_version,
                max_message_size=self.broker.settings.message_size_max,
                feature_flags=pb.FeatureFlags(
                    supports_topic_watchers=self.broker.settings.topic_watchers,
                    supports_get_partitioned_metadata_without_auto_creation=True,
                    supports_topic_watcher_reconcile=self.broker.settings.topic_watchers,
                    supports_magnetar=True,
                ),
            )
        )
        self._go_on()

    def _refuse_log_in(self, error: Exception) -> None:
        if self.closed:
            return
        if not isinstance(error, BrokerError):
            self.broker.host.fault(f"the proof of {self.address} could not be looked at", error)
            self.shut()
            return
        self.refuse(unsigned(-1), error)
        self.broker.refused_log_ins.warn(f"refusing the log-in of {self.address}: {error.reason}")
        self.shut()

    # ---- Schemas -------------------------------------------------------------

    def _on_get_schema(self, command: pb.CommandGetSchema) -> None:
        get_schema(self.broker, self, command)

    def _on_get_or_create_schema(self, command: pb.CommandGetOrCreateSchema) -> None:
        get_or_create_schema(self.broker, self, command)
