"""Programs that send and acknowledge in transactions, and who looks on.

Transformers consume the topic that all others use, on a subscription of their own, and for each
message send one to a topic of outputs, in one transaction with its ack. They are killed like all
others. At the end every message of the topic must be done, and each by exactly one transaction that
was committed; a reader of the outputs tells.

Publishers send some of their bursts in transactions, so that everybody who consumes the topic has
something hidden, shown at once, or void.

The onlooker compares, again and again, what topics show with what the log says: of an open
transaction nothing, of one that ended all or nothing, on all topics in the same moment.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field

from sim.scenario import TOPIC, Scenario, TransactionPlan

from magnetar.broker.broker import Broker
from magnetar.broker.topic.persistent_topic import PersistentTopic
from magnetar.client.consumer.message import Message
from magnetar.client.door.aio import Client, Consumer, Producer
from magnetar.client.door.transaction import Transaction
from magnetar.errors import (
    AlreadyClosed,
    MagnetarError,
    NotAllowedError,
    Timeout,
    TransactionOutcomeUnknownError,
)
from magnetar.model import ConsumerType, InitialPosition, MessageId, Position
from magnetar.storage.transaction.transaction_state import COMMITTED
from magnetar.testing.checker.history import (
    History,
    Stored,
    TxnAckAsked,
    TxnEndAsked,
    TxnEndTold,
    TxnFound,
    TxnOutput,
    TxnRead,
    place_of,
)
from magnetar.testing.checker.recorded import RecordedConsumer
from magnetar.testing.checker.transaction_checkers import Transactions
from magnetar.testing.sim.simulation import Simulation

CLIENT = {"operation_timeout_seconds": 10, "connection_timeout_ms": 3000}
CLIENT |= {"keep_alive_interval_seconds": 5}
SUBSCRIPTION = "transformed"
OUTPUT = "persistent://public/default/out"
# Whoever does not know how a commit ended asks again, so often.
ASKS_MAX = 100
LOOK_S = 0.05
READ_MS = 3000


def outputs_of(plan: TransactionPlan) -> list[str]:
    return [f"{OUTPUT}-{number}" for number in range(plan.targets)]


@dataclass
class Ledger:
    """What the transacting programs of a run know together."""

    publishing: Callable[[], bool]
    ending: Callable[[], bool]
    # All transactions that a program was told of.
    txns: dict[str, None] = field(default_factory=dict)
    # By number: what each sent, as the log had it while it was open.
    sent: dict[int, dict[int, list[int]]] = field(default_factory=dict)


async def end(history: History, txn: Transaction, *, commit: bool) -> str:
    """Commits or aborts; returns how it ended, as far as anybody could say."""
    history.add(TxnEndAsked(txn.id, commit))
    outcome = "unknown"
    for _ in range(ASKS_MAX):
        try:
            await (txn.commit() if commit else txn.abort())
            outcome = "committed" if commit else "aborted"
        except TransactionOutcomeUnknownError:
            await asyncio.sleep(0.5)
            continue
        except MagnetarError:
            # It failed in between, its time was over, or nobody could be reached.
            outcome = "aborted" if commit else "unknown"
        break
    history.add(TxnEndTold(txn.id, outcome))
    return outcome


class Transformer:
    """Consumes, sends and acknowledges, again and again; one that was killed begins anew."""

    def __init__(
        self, simulation: Simulation, ledger: Ledger, plan: TransactionPlan, name: str
    ) -> None:
        self._simulation = simulation
        self._history = simulation.history
        self._ledger = ledger
        self._plan = plan
        self._name = name
        self._random = simulation.loop.random_for(f"transformer {name}")

    async def main(self) -> None:
        client = self._simulation.client(**CLIENT)
        producers = [await self._producer(client, topic) for topic in outputs_of(self._plan)]
        consumer = await self._consumer(client)
        while not self._ledger.ending():
            messages = await self._gather(consumer)
            if messages:
                with contextlib.suppress(AlreadyClosed):
                    await self._transact(client, consumer, producers, messages)
        await client.close()

    async def _producer(self, client: Client, topic: str) -> Producer:
        while True:
            with contextlib.suppress(MagnetarError):
                # Not recorded: the outputs are judged by facts of their own.
                return await Client.create_producer(
                    client,
                    topic,
                    send_timeout_millis=0,
                    batching_enabled=self._plan.batching,
                    batching_max_publish_delay_ms=10,
                )
            await asyncio.sleep(0.3)

    async def _consumer(self, client: Client) -> RecordedConsumer:
        while True:
            with contextlib.suppress(MagnetarError):
                made = await client.subscribe(
                    TOPIC,
                    SUBSCRIPTION,
                    consumer_type=ConsumerType[self._plan.type],
                    consumer_name=self._name,
                    initial_position=InitialPosition.Earliest,
                    receiver_queue_size=self._plan.queue_size,
                    ack_receipt_enabled=self._plan.receipts,
                    expire_time_of_incomplete_chunked_message_ms=60_000,
                )
                assert isinstance(made, RecordedConsumer)
                return made
            await asyncio.sleep(0.3)

    async def _gather(self, consumer: RecordedConsumer) -> list[Message]:
        wanted = 1 + self._random.randrange(self._plan.messages_max)
        found: list[Message] = []
        with contextlib.suppress(Timeout):
            found.append(await consumer.receive(timeout_millis=500))
            while len(found) < wanted:
                found.append(await consumer.receive(timeout_millis=20))
        return found

    async def _transact(
        self,
        client: Client,
        consumer: RecordedConsumer,
        producers: list[Producer],
        messages: list[Message],
    ) -> None:
        txn = await self._begin(client)
        plan, random = self._plan, self._random
        commit = True
        # What is not part of the transaction does not come again with its end.
        refused = messages
        try:
            for number, message in enumerate(messages):
                target = random.randrange(len(producers))
                payload = f"{txn.id} {number} of {place_of(message.message_id())}".encode()
                self._history.add(TxnOutput(txn.id, outputs_of(plan)[target], payload))
                sent = producers[target].send(payload, transaction=txn)
                sent.add_done_callback(_heard)
                if plan.think_s:
                    await asyncio.sleep(random.random() * plan.think_s)
                if plan.acks == "single":
                    await consumer.acknowledge(message, transaction=txn)
                    refused = messages[number + 1 :]
            if plan.acks == "list":
                await consumer.acknowledge(messages, transaction=txn)
            elif plan.acks == "cumulative":
                await self._ack_cumulatively(consumer, txn, messages)
            refused = []
        except AlreadyClosed:
            raise
        except MagnetarError:
            commit = False
        drawn = random.random()
        if self._ledger.publishing() and drawn < plan.leave_share:
            # A program that hangs: its time is over, and the coordinator aborts it.
            await asyncio.sleep(plan.timeout_s * 2)
        elif self._ledger.publishing() and drawn < plan.leave_share + plan.abort_share:
            commit = False
        await end(self._history, txn, commit=commit)
        self._refuse(consumer, refused)

    def _refuse(self, consumer: RecordedConsumer, messages: list[Message]) -> None:
        """Not recorded: whether they come again is judged by whether everything gets done."""
        if self._plan.acks == "cumulative" and messages:
            # At once, for the next ack is about these as well.
            Consumer.redeliver_unacknowledged_messages(consumer)
            return
        for message in messages:
            Consumer.negative_acknowledge(consumer, message)

    async def _ack_cumulatively(
        self, consumer: RecordedConsumer, txn: Transaction, messages: list[Message]
    ) -> None:
        by_topic: dict[str, list[Message]] = {}
        for message in messages:
            by_topic.setdefault(message.topic_name(), []).append(message)
        for several in by_topic.values():
            places = tuple(place_of(message.message_id()) for message in several)
            name, subscription = consumer.name, consumer.subscription_name()
            self._history.add(TxnAckAsked(txn.id, name, subscription, places, True))
            # After a broken connection the last that came may be a copy of an earlier one.
            furthest = max(several, key=lambda message: place_of(message.message_id()))
            try:
                await Consumer.acknowledge_cumulative(consumer, furthest, transaction=txn)
            except NotAllowedError:  # a message in chunks reaches over the last of them
                await consumer.acknowledge(several, transaction=txn)

    async def _begin(self, client: Client) -> Transaction:
        while True:
            with contextlib.suppress(MagnetarError):
                txn = await client.transaction(timeout=self._plan.timeout_s)
                self._ledger.txns[txn.id] = None
                return txn
            await asyncio.sleep(0.3)


def _heard(sent: "asyncio.Future[MessageId]") -> None:
    """What failed dooms its transaction, which says so."""
    if not sent.cancelled():
        sent.exception()


# ---- Those who look on -------------------------------------------------------------


async def look_on(simulation: Simulation, ledger: Ledger) -> None:
    """I11: what topics show of a transaction is all of it or nothing, at every moment."""
    while not ledger.ending():
        look(simulation, ledger)
        await asyncio.sleep(LOOK_S)


def look(simulation: Simulation, ledger: Ledger) -> None:
    broker = simulation.broker.present()
    if broker is None:
        return
    state = broker.store.transactions.state
    topics = {
        topic.id: topic
        for topic in broker.topics.values()
        if isinstance(topic, PersistentTopic) and not topic.closed
    }
    for number, found in state.open.items():
        ledger.sent[number] = {id: list(entries) for id, entries in found.sent.items()}
        for ledger_id, entries in found.sent.items():
            topic = _topic_of(broker, topics, ledger_id)
            if topic is not None:
                count = topic.ledgers.entry_count(ledger_id)
                assert count <= entries[0], f"I11: (0,{number}) is open and seen in {topic.name}"
    for number, sent in ledger.sent.items():
        ended = state.ended.get(number)
        if ended is None:
            continue
        for ledger_id, numbers in sent.items():
            topic = _topic_of(broker, topics, ledger_id)
            if topic is None or topic.ledgers.entry_count(ledger_id) < 0:
                continue
            for entry_id in numbers:
                position = Position(ledger_id, entry_id)
                if ended.outcome == COMMITTED:
                    hidden = topic.horizon.position
                    behind = hidden is not None and hidden <= position
                    seen = entry_id < topic.ledgers.entry_count(ledger_id)
                    void = topic.ledgers.is_void(position)
                    what = f"{position} of (0,{number}), which was committed,"
                    assert seen or behind, f"I11: {what} is not seen"
                    assert not void, f"I11: {what} is void"
                else:
                    assert topic.ledgers.is_void(position), (
                        f"I11: {position} of (0,{number}), which was aborted, is not void"
                    )


def _topic_of(
    broker: Broker, topics: dict[int, PersistentTopic], ledger_id: int
) -> PersistentTopic | None:
    found = broker.store.log.state.ledgers.get(ledger_id)
    return None if found is None else topics.get(found.topic_id)


# ---- Peace -------------------------------------------------------------------------


def all_done(simulation: Simulation, scenario: Scenario) -> bool:
    """Whether all transactions have ended, and the transformers have done everything."""
    broker = simulation.broker.present()
    if broker is None or broker.transactions.open:
        return False
    for topic in scenario.topics:
        if not simulation.broker.is_loaded(topic):
            return False
        if simulation.broker.subscription(topic, SUBSCRIPTION).cursor.unacked_entries():
            return False
    return True


def find_outcomes(simulation: Simulation, ledger: Ledger) -> None:
    """Notes how each transaction ended, by the log."""
    broker = simulation.broker.present()
    assert broker is not None
    for txn in ledger.txns:
        ended = broker.transactions.ended(int(txn.strip("()").partition(",")[2]))
        outcome = "unknown"
        if ended is not None:
            outcome = "committed" if ended.outcome == COMMITTED else "aborted"
        simulation.history.add(TxnFound(txn, outcome))


async def prepare_outputs(client: Client, plan: TransactionPlan) -> None:
    """Somebody reads the outputs at the end, and until then they are kept."""
    for topic in outputs_of(plan):
        consumer = await _reader_of(client, topic)
        await consumer.close()


async def _reader_of(client: Client, topic: str) -> Consumer:
    return await Client.subscribe(client, topic, "audit", initial_position=InitialPosition.Earliest)


async def read_outputs(simulation: Simulation, plan: TransactionPlan) -> None:
    """Reads all that there is of the outputs, from the beginning."""
    client = simulation.client(**CLIENT)
    for topic in outputs_of(plan):
        consumer = await _reader_of(client, topic)
        with contextlib.suppress(Timeout):
            while True:
                message = await consumer.receive(READ_MS)
                place = place_of(message.message_id())
                simulation.history.add(TxnRead(topic, message.data(), place))
        await consumer.close()
    await client.close()


def check_all_were_done(history: History) -> None:
    """I11: every message that counts was done by a transaction that was committed."""
    transactions = history.view(Transactions)
    done = {
        place
        for fact in history.of(TxnAckAsked)
        if transactions.outcome.get(fact.txn) == "committed"
        for place in fact.places
    }
    for stored in history.of(Stored):
        # Consumers may name a message in chunks, or one that was sent twice, by another place.
        if stored.split or stored.place.ledger < 0 or not transactions.counts(stored):
            continue
        assert stored.place in done, f"I11: {stored} was done by no transaction"
