"""The programs of a run: producers, consumers, and an operator who skips.

They behave as programs of users do, and know nothing of checks. What outlives them is in
the `Book`, which stands for the users' own database: whether to go on publishing, and which
messages are kept unacked for now (so that counters have something to count).
"""

import asyncio
import contextlib
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from sim.scenario import (
    TOPIC,
    AckEdges,
    Extras,
    ProducerPlan,
    Scenario,
    SubscriptionPlan,
)
from sim.transacting import end

from magnetar.client.consumer.message import Message
from magnetar.client.door.aio import Client
from magnetar.client.door.transaction import Transaction
from magnetar.client.option.options import BatchingType, ConsumerKeySharedPolicy
from magnetar.errors import AlreadyClosed, BrokerError, Interrupted, MagnetarError, Timeout
from magnetar.model import ChunkMessageId, ConsumerType, InitialPosition, MessageId, ServerError
from magnetar.model.position_key import wide_key_entry, wide_key_ledger
from magnetar.testing.checker.history import (
    Place,
    Recalled,
    Received,
    ResetCame,
    ResetEnded,
    SkipAsked,
    Skipped,
    place_of,
)
from magnetar.testing.checker.recorded import RecordedConsumer, RecordedProducer
from magnetar.testing.sim.simulation import Program, Simulation

# Where the broker knows which consumer holds what.
HOLDING = ("Shared", "KeyShared")
CLIENT = {"operation_timeout_seconds": 10, "connection_timeout_ms": 3000}
CLIENT |= {"keep_alive_interval_seconds": 5}
# One message of so many is kept unacked until the end.
WITHHELD = 9
UNACKED_LIST = 5
# How much of a split message is in one entry.
CHUNK_BYTES = 300
# Of so many messages in chunks, the last ones, one is skipped: it may be on its way.
LARGE_LAST = 3
KEYS_IN_ANY_ORDER = ConsumerKeySharedPolicy(allow_out_of_order_delivery=True)
# How long a worker waits for another one's ack, in virtual time.
ANSWER_S = 30
# Each brings everything again that is still there.
SEEKS_MAX = 2
RESETS_MAX = 2
OUTAGES_MAX = 15


@dataclass
class Book:
    """What the programs know together, and keep when one of them dies."""

    publishing: bool = True
    released: bool = False
    ending: bool = False
    numbers: dict[str, int] = field(default_factory=dict)
    # By subscription: what is kept unacked, and where it is.
    withheld: dict[str, dict[Place, str]] = field(default_factory=dict)
    # Skips that were asked for and may have been done.
    doubtful: dict[str, dict[Place, None]] = field(default_factory=dict)
    consumers: dict[str, RecordedConsumer] = field(default_factory=dict)
    # All transactions that a program began.
    txns: dict[str, None] = field(default_factory=dict)
    # Messages in chunks that were stored, the last at the end, if somebody skips such.
    skips_large: bool = False
    large: list[ChunkMessageId] = field(default_factory=list)
    # Of messages in chunks that are kept unacked: where their chunks are.
    chunks: dict[Place, list[Place]] = field(default_factory=dict)

    def kept_on(self, plan: SubscriptionPlan, topic: str) -> list[Place]:
        """The entries and messages of a topic that are kept unacked, chunks one by one."""
        withheld = self.withheld.get(plan.name, {})
        places = [place for place, where in withheld.items() if where == topic]
        return [one for place in places for one in self.chunks.get(place, [place])]

    def withholds(self, plan: SubscriptionPlan, message: Message) -> bool:
        if not plan.withhold or self.released:
            return False
        place = place_of(message.message_id())
        chosen = zlib.crc32(message.data()) % WITHHELD == 0
        return chosen and place not in self.doubtful.setdefault(plan.name, {})


def crew_name(plan: SubscriptionPlan) -> str:
    """What the one program of all consumers of a subscription is called."""
    return f"{plan.name}-crew"


class Publisher:
    """Publishes in bursts; one that was killed goes on with new messages."""

    def __init__(
        self, simulation: Simulation, book: Book, plan: ProducerPlan, extras: Extras
    ) -> None:
        self._simulation = simulation
        self._extras = extras
        self._sizes = simulation.loop.random_for(f"sizes {plan.name}")
        self._book = book
        self._plan = plan
        self._random = simulation.loop.random_for(f"publisher {plan.name}")
        self._chance = simulation.loop.random_for(f"transactions of {plan.name}")

    async def main(self) -> None:
        client = self._simulation.client(**CLIENT)
        await self.work(client)
        await client.close()

    async def work(self, client: Client) -> None:
        """Publishes through a client as long as there is something to publish."""
        producer = await self._open(client.create_producer)
        while self._book.publishing:
            if self._book.numbers.get(self._plan.name, 0) >= self._extras.messages_max:
                await asyncio.sleep(0.5)
                continue
            if self._transacts():
                await self._burst_in_transaction(client, producer)
            else:
                for _ in range(1 + self._random.randrange(self._plan.burst)):
                    with contextlib.suppress(MagnetarError):
                        await self._send(producer)
            await asyncio.sleep(self._random.random() * self._plan.pause_s)
        with contextlib.suppress(MagnetarError):
            await producer.flush()

    def _transacts(self) -> bool:
        plan = self._extras.transactions
        return plan is not None and self._chance.random() < plan.publish_share

    async def _burst_in_transaction(self, client: Client, producer: RecordedProducer) -> None:
        plan = self._extras.transactions
        assert plan is not None
        try:
            txn = await client.transaction(timeout=plan.timeout_s)
        except MagnetarError:
            return
        self._book.txns[txn.id] = None
        for _ in range(1 + self._random.randrange(self._plan.burst)):
            with contextlib.suppress(MagnetarError):
                await self._send(producer, transaction=txn)
        if self._chance.random() < plan.leave_share:
            return  # its time will be over
        commit = self._chance.random() >= plan.abort_share
        await end(self._simulation.history, txn, commit=commit)

    async def _open(self, create: Callable[..., object]) -> RecordedProducer:
        plan = self._plan
        by_key = plan.batching == "key"
        while True:
            with contextlib.suppress(MagnetarError):
                made = await create(  # type: ignore[misc]
                    TOPIC,
                    producer_name=plan.name,
                    send_timeout_millis=0,
                    block_if_queue_full=True,
                    max_pending_messages=50,
                    batching_enabled=plan.batching in ("default", "key"),
                    chunking_enabled=plan.batching == "chunks",
                    chunk_max_message_size=CHUNK_BYTES if plan.batching == "chunks" else 0,
                    batching_max_messages=4 + self._random.randrange(6),
                    batching_max_publish_delay_ms=10,
                    batching_type=BatchingType.KeyBased if by_key else BatchingType.Default,
                )
                assert isinstance(made, RecordedProducer)
                return made
            await asyncio.sleep(0.3)

    async def _send(
        self, producer: RecordedProducer, transaction: Transaction | None = None
    ) -> None:
        plan, random = self._plan, self._random
        number = self._book.numbers.get(plan.name, 0)
        self._book.numbers[plan.name] = number + 1
        options: dict[str, object] = {}
        if plan.keys:
            options["partition_key"] = f"k{random.randrange(plan.keys)}"
        if random.random() < plan.delayed_share:
            options["deliver_after"] = timedelta(seconds=random.random() * 3)
        content = f"{plan.name} {number}".encode()
        if plan.batching == "chunks":
            content = content.ljust(random.randrange(4 * CHUNK_BYTES), b".")
        elif self._extras.payload_max:
            content = content.ljust(self._sizes.randrange(self._extras.payload_max), b".")
        if f"{plan.name} {number}" in self._extras.muted:
            return
        if transaction is not None:
            options["transaction"] = transaction
        sent = await producer.send_when_room(content, **options)
        if self._book.skips_large:
            sent.add_done_callback(self._note_large)

    def _note_large(self, sent: "asyncio.Future[MessageId]") -> None:
        if not sent.cancelled() and sent.exception() is None:
            id = sent.result()
            if isinstance(id, ChunkMessageId):
                self._book.large.append(id)


class Worker:
    """Consumes: acks, refuses, seeks, keeps some messages for later."""

    def __init__(
        self,
        simulation: Simulation,
        book: Book,
        plan: SubscriptionPlan,
        name: str,
        edges: AckEdges,
    ) -> None:
        self._edges = edges
        self._whims = simulation.loop.random_for(f"whims {name}")
        self._simulation = simulation
        self._book = book
        self._plan = plan
        self._name = name
        self._random = simulation.loop.random_for(f"worker {name}")
        self._elsewhere = simulation.loop.random_for(f"elsewhere {name}")
        self._seeks_left = SEEKS_MAX
        # Where it was: some seeks lead back there.
        self._been: list[MessageId] = []

    async def main(self) -> None:
        client = self._simulation.client(**CLIENT)
        client._engine._pool.extended = not self._is_old()
        await self.work(client)
        await client.close()

    async def work(self, client: Client) -> None:
        """Consumes through a client until everything ends."""
        consumer = await self._subscribe(client.subscribe)
        self._book.consumers[self._name] = consumer
        kept: list[Message] = []
        gathered: list[Message] = []
        async with asyncio.TaskGroup() as tasks:
            while not self._book.ending:
                if self._book.released and kept:
                    tasks.create_task(self._ack(consumer, kept))
                    kept = []
                try:
                    message = await consumer.receive(timeout_millis=500)
                except Timeout:
                    if gathered:
                        tasks.create_task(self._ack(consumer, gathered))
                        gathered = []
                    continue
                if self._plan.think_s:
                    await asyncio.sleep(self._random.random() * self._plan.think_s)
                gathered = await self._handle(consumer, message, kept, gathered, tasks)

    def _is_old(self) -> bool:
        """Some do not know WITHDRAW, as clients of other makers do not.

        Nor do they hear that others moved the subscription, so nobody does with those.
        """
        moved = self._plan.seek_share > 0 or self._edges.resets
        return not moved and self._simulation.loop.random_for(f"age of {self._name}").random() < 0.3

    async def _subscribe(self, subscribe: Callable[..., object]) -> RecordedConsumer:
        plan = self._plan
        while True:
            with contextlib.suppress(MagnetarError):
                made = await subscribe(  # type: ignore[misc]
                    TOPIC,
                    plan.name,
                    consumer_type=ConsumerType[plan.type],
                    consumer_name=self._name,
                    initial_position=InitialPosition.Earliest,
                    receiver_queue_size=plan.queue_size,
                    ack_receipt_enabled=plan.receipts,
                    acknowledgement_group_time_ms=plan.group_ms,
                    negative_ack_redelivery_delay_ms=200,
                    expire_time_of_incomplete_chunked_message_ms=60_000,
                    start_message_id_inclusive=not plan.exclusive,
                    auto_retry_acknowledgement=plan.retries,
                    key_shared_policy=KEYS_IN_ANY_ORDER if plan.any_order else None,
                    max_acknowledgement_retries=self._edges.retries_max,
                    on_acknowledgement_failed=self._refuse_failed if plan.retries else None,
                )
                assert isinstance(made, RecordedConsumer)
                return made
            await asyncio.sleep(0.3)

    def _refuse_failed(self, ids: list[MessageId], error: Exception) -> None:
        """Acks were given up: their messages are to come again, if that means anything."""
        consumer = self._book.consumers.get(self._name)
        if consumer is None or isinstance(error, (AlreadyClosed, Interrupted)):
            return
        for id in ids:
            with contextlib.suppress(AlreadyClosed):
                consumer.negative_acknowledge(id)

    async def _regret(self, consumer: RecordedConsumer, message: Message) -> None:
        """Acks a message and refuses it, often before the ack is sent."""
        acking = asyncio.ensure_future(consumer.acknowledge(message))
        await asyncio.sleep(0)
        with contextlib.suppress(MagnetarError):
            consumer.negative_acknowledge(message)
            await acking
        await asyncio.gather(acking, return_exceptions=True)

    async def _handle(
        self,
        consumer: RecordedConsumer,
        message: Message,
        kept: list[Message],
        gathered: list[Message],
        tasks: asyncio.TaskGroup,
    ) -> list[Message]:
        """What becomes of one message; returns those that are acked together later."""
        plan, random, book = self._plan, self._random, self._book
        if book.publishing and self._seeks_left and random.random() < plan.seek_share:
            self._seeks_left -= 1
            left = await self._seek(consumer, message.topic_name(), gathered)
            if left is not None:
                return left
        self._been.append(message.message_id())
        if book.withholds(plan, message):
            place = place_of(message.message_id())
            book.withheld.setdefault(plan.name, {})[place] = message.topic_name()
            if message._delivery.chunks is not None:
                book.chunks[place] = [
                    Place(wide_key_ledger(key), wide_key_entry(key))
                    for key in message._delivery.chunks
                ]
            kept.append(message)
        elif book.publishing and random.random() < plan.nack_share:
            consumer.negative_acknowledge(message)
        elif plan.acks == "single" and book.publishing and self._regrets():
            tasks.create_task(self._regret(consumer, message))
        elif plan.acks == "single":
            await self._ack_now_or_later(consumer, [message], tasks)
        else:
            gathered.append(message)
            if len(gathered) >= 1 + random.randrange(UNACKED_LIST):
                await self._ack_now_or_later(consumer, gathered, tasks)
                return []
        return gathered

    def _regrets(self) -> bool:
        return self._edges.regret_share > 0 and self._whims.random() < self._edges.regret_share

    def _rolls_back(self) -> bool:
        return self._edges.rolls_back and self._book.publishing and self._whims.random() < 0.7

    async def _seek(
        self, consumer: RecordedConsumer, topic: str, gathered: list[Message]
    ) -> list[Message] | None:
        """To the beginning, or to where it was on one topic.

        Returns what is still to be acked; None if it failed, and nothing comes again.
        """
        been = [id for id in self._been if id.topic_name() == topic]
        # What is kept unacked must come again.
        everything = self._plan.withhold or not been or self._random.random() < 0.5
        try:
            await consumer.seek(MessageId.earliest if everything else self._random.choice(been))
        except MagnetarError:
            return None
        return [] if everything else [one for one in gathered if one.topic_name() != topic]

    async def _ack_now_or_later(
        self, consumer: RecordedConsumer, messages: list[Message], tasks: asyncio.TaskGroup
    ) -> None:
        if self._random.random() < 0.5:
            await self._ack(consumer, messages)
        else:
            tasks.create_task(self._ack(consumer, messages))

    async def _ack(self, consumer: RecordedConsumer, messages: list[Message]) -> None:
        """Acks until that has worked, or the consumer is gone."""
        if self._elsewhere.random() < self._plan.elsewhere_share:
            messages = await self._ack_elsewhere(messages)
        while messages:
            try:
                if self._plan.acks == "cumulative":
                    last = {message.topic_name(): message for message in messages}
                    for message in last.values():
                        # A seek came in between: what is behind it now was never received.
                        with contextlib.suppress(Interrupted):
                            await consumer.acknowledge_cumulative(message)
                elif len(messages) == 1:
                    await consumer.acknowledge(messages[0])
                else:
                    await consumer.acknowledge(messages)
                return
            except AlreadyClosed:
                return
            except MagnetarError:
                if not self._rolls_back():
                    await asyncio.sleep(0.2)
                    continue
                # One of them was to blame; the others are acked at once.
                blamed = len(messages) if self._plan.acks == "cumulative" else 1
                for message in messages[:blamed]:
                    with contextlib.suppress(AlreadyClosed):
                        consumer.negative_acknowledge(message)
                messages = messages[blamed:]
                if not messages:
                    return

    def _program_of(self, name: str) -> Program:
        programs = self._simulation.programs
        return programs.get(name) or programs[crew_name(self._plan)]

    async def _ack_elsewhere(self, messages: list[Message]) -> list[Message]:
        """Acks by the ids, through another consumer; what is still to be acked here."""
        others = [
            consumer
            for name, consumer in self._book.consumers.items()
            if name.startswith(f"{self._plan.name}-c") and name != self._name
            if self._program_of(name).running
        ]
        if not others:
            return messages
        other = self._elsewhere.choice(others)
        left: list[Message] = []
        for message in messages:
            id = message.message_id()
            try:
                # The other may be killed meanwhile, and then never answers.
                async with asyncio.timeout(ANSWER_S):
                    await other.acknowledge(MessageId.deserialize(id.serialize(), id.topic_name()))
            except (MagnetarError, TimeoutError):
                left.append(message)
        return left


async def reset_some(simulation: Simulation, book: Book, scenario: Scenario) -> None:
    """An operator who puts cursors back to the beginning, or to a message in between."""
    random = simulation.loop.random_for("resets")
    history = simulation.history
    for number in range(RESETS_MAX):
        await asyncio.sleep(random.random() * scenario.seconds)
        if not book.publishing:
            return
        plan, topic = random.choice(scenario.subscriptions), random.choice(scenario.topics)
        places = [fact.place for fact in history.of(Received) if fact.topic == topic]
        target = Place(-1, -1)
        # What is kept unacked must come again, and so must a message in chunks, all of it.
        if places and not plan.withhold and not scenario.splits and random.random() < 0.5:
            place = random.choice(places)
            target = Place(place.ledger, place.entry)
        came = ResetCame(number, topic, plan.name, target)
        outcome = "done"
        try:
            await simulation.broker.reset(topic, plan.name, target, partial(history.add, came))
        except (MagnetarError, KeyError) as error:
            refused = isinstance(error, BrokerError) and error.code == ServerError.ServiceNotReady
            outcome = "refused" if refused else "unknown"
        history.add(ResetEnded(number, outcome))


async def fail_now_and_then(simulation: Simulation, book: Book) -> None:
    """Acks are refused, since the disk is full, and connections break in between."""
    random = simulation.loop.random_for("outages")
    for _ in range(OUTAGES_MAX):
        await asyncio.sleep(random.random() * 1.5)
        if not book.publishing:
            return
        if simulation.broker.up:
            simulation.broker.disk.fill(1 + random.randrange(12))
        await asyncio.sleep(random.random() * 0.2)
        connections = list(simulation.loop.network.connections.values())
        if connections and random.random() < 0.5:
            random.choice(connections).cut()


async def skip_some(simulation: Simulation, book: Book, scenario: Scenario) -> None:
    """An operator who skips messages that consumers keep unacked."""
    random = simulation.loop.random_for("operator")
    chunk = simulation.loop.random_for("operator's chunks")
    while book.publishing:
        await asyncio.sleep(random.random() * 2)
        plan = random.choice(scenario.subscriptions)
        withheld = book.withheld.get(plan.name, {})
        if not withheld or not simulation.broker.up:
            continue
        places = random.sample(list(withheld), min(len(withheld), 1 + random.randrange(3)))
        if random.random() < 0.2:
            await _skip_wrongly(simulation, scenario, plan, places)
            continue
        topics = [withheld.pop(place) for place in places]
        # Until we are told, it may be skipped or not; if it comes again it is acked.
        book.doubtful.setdefault(plan.name, {}).update(dict.fromkeys(places))
        # Any chunk stands for its message.
        named = [chunk.choice(book.chunks.get(place, [place])) for place in places]
        where = dict(zip(places, topics, strict=True))
        await _skip(simulation, book, scenario, plan, where, named)


async def skip_queued(simulation: Simulation, book: Book, scenario: Scenario) -> None:
    """An operator who skips messages that wait in the queues of consumers."""
    random = simulation.loop.random_for("operator of queues")
    while book.publishing:
        await asyncio.sleep(random.random() * 0.2)
        plan = random.choice(scenario.subscriptions)
        topic = random.choice(scenario.topics)
        if plan.type not in HOLDING or not simulation.broker.is_loaded(topic):
            continue
        held: list[Place] = []
        with contextlib.suppress(MagnetarError):  # it may be unloading
            held = _held(simulation, book, plan, topic)
        if held:
            places = random.sample(held, min(len(held), 1 + random.randrange(3)))
            doubtful = book.doubtful.setdefault(plan.name, {})
            doubtful.update((name, None) for place in places for name in _names(place))
            if "unload" in scenario.kinds and random.random() < 0.5:
                # Then nobody knows any more who has them, and they are still handed out.
                with contextlib.suppress(MagnetarError):
                    await simulation.broker.unload(topic)
            where = dict.fromkeys(places, topic)
            await _skip(simulation, book, scenario, plan, where, places)


def _names(place: Place) -> tuple[Place, ...]:
    """What consumers may call it: an entry of one message may be a batch of one."""
    return (place, Place(place.ledger, place.entry, 0)) if place.index < 0 else (place,)


def _held(simulation: Simulation, book: Book, plan: SubscriptionPlan, topic: str) -> list[Place]:
    """What consumers hold and do not keep unacked on purpose, as an operator would see it."""
    subscription = simulation.broker.subscription(topic, plan.name)
    withheld = book.withheld.get(plan.name, {})
    found: list[Place] = []
    for consumer in subscription.consumers:
        for key in consumer.pending:
            position = subscription.topic.ledgers.position(key)
            ledger, entry = int(position.ledger_id), int(position.entry_id)
            size = subscription.batch_size(position)
            left = subscription.cursor.remaining(position)
            for index in range(size):
                place = Place(ledger, entry, index if size > 1 else -1)
                unacked = left is None or left >> index & 1
                if unacked and not any(name in withheld for name in _names(place)):
                    found.append(place)
    return found


async def _skip(
    simulation: Simulation,
    book: Book,
    scenario: Scenario,
    plan: SubscriptionPlan,
    topics: dict[Place, str],
    named: list[Place],
) -> None:
    """Skips messages, of each of which the topic is known, and writes down what was told."""
    history = simulation.history
    for place, topic in topics.items():
        history.add(SkipAsked(topic, plan.name, _names(place)))
    with contextlib.suppress(MagnetarError):
        taken_back = await simulation.broker.skip(scenario.topics, plan.name, named)
        for place, topic in topics.items():
            history.add(Skipped(topic, plan.name, _names(place)))
            if all(chunk in taken_back for chunk in book.chunks.get(place, [place])):
                history.add(Recalled(topic, plan.name, _names(place)))


async def skip_large(simulation: Simulation, book: Book, scenario: Scenario) -> None:
    """An operator who skips messages in chunks, some of them half delivered."""
    random = simulation.loop.random_for("operator of large messages")
    while book.publishing:
        await asyncio.sleep(random.random())
        plan = random.choice(scenario.subscriptions)
        if not book.large or plan.type not in HOLDING:
            continue
        id = random.choice(book.large[-LARGE_LAST:])
        topic = scenario.topics[max(id.partition(), 0)]
        with contextlib.suppress(MagnetarError):
            places = await simulation.broker.chunks_of([topic], id)
            simulation.history.add(SkipAsked(topic, plan.name, tuple(places)))
            await simulation.broker.skip([topic], plan.name, places)
            simulation.history.add(Skipped(topic, plan.name, tuple(places)))


async def _skip_wrongly(
    simulation: Simulation, scenario: Scenario, plan: SubscriptionPlan, places: list[Place]
) -> None:
    """I5: a list with one bad id changes nothing."""
    wrong = [*places, Place(places[0].ledger, places[0].entry, 10_000)]
    with contextlib.suppress(MagnetarError):
        await simulation.broker.skip(scenario.topics, plan.name, wrong)
        raise AssertionError(f"I5: {wrong} was skipped")
