"""What a seed draws: a topic, who publishes how, who consumes how, and what goes wrong."""

from dataclasses import dataclass, field, replace
from random import Random

from magnetar.testing.sim.trouble import KINDS, TroubleEvent

TOPIC = "persistent://public/default/t"
# What one producer publishes in a run, about: more takes long and shows no more.
MESSAGES_MAX = 150
TYPES = ("Exclusive", "Failover", "Shared", "KeyShared")


@dataclass(frozen=True)
class ProducerPlan:
    name: str
    batching: str  # "none", "default" or "key"; "chunks" splits large messages
    keys: int
    burst: int
    delayed_share: float
    pause_s: float


@dataclass(frozen=True)
class SubscriptionPlan:
    name: str
    type: str
    consumers: int
    acks: str  # "single", "list" or "cumulative"
    receipts: bool
    retries: bool
    group_ms: int
    queue_size: int
    think_s: float
    nack_share: float
    seek_share: float
    withhold: bool
    # Of Key_Shared: whether keys may come out of order.
    any_order: bool = False
    # Seeks lead behind a message, not to it.
    exclusive: bool = False
    # How much is acked by its id through another consumer of the subscription.
    elsewhere_share: float = 0.0


@dataclass(frozen=True)
class AckEdges:
    """What makes acks meet their edges: programs that change their minds, and operators."""

    # After an ack that failed the program refuses its messages.
    rolls_back: bool = False
    # How often a program refuses what it has just acked.
    regret_share: float = 0.0
    # An operator resets cursors.
    resets: bool = False
    # The disk is full again and again, and connections break meanwhile.
    outages: bool = False
    retries_max: int = 16


@dataclass(frozen=True)
class TransactionPlan:
    """Programs that consume the topic, and send and acknowledge in transactions."""

    type: str
    workers: int
    acks: str  # "single", "list" or "cumulative"
    receipts: bool
    queue_size: int
    # How many messages one transaction does at most, and over how many topics its outputs go.
    messages_max: int
    targets: int
    batching: bool
    timeout_s: float
    # How many transactions are given up on purpose, and how many are left to their timeouts.
    abort_share: float
    leave_share: float
    # How much of what publishers send is in transactions too.
    publish_share: float
    think_s: float


@dataclass(frozen=True)
class Extras:
    """What only scenarios of a swarm have; by default nothing."""

    # The names of what was drawn.
    features: tuple[str, ...] = ()
    # Settings of the broker.
    limits: tuple[tuple[str, int], ...] = ()
    # Whether programs that do the same share a client.
    crews: bool = False
    # How long a write takes at most; 0 leaves it as it is.
    slow_disk_s: float = 0.0
    messages_max: int = MESSAGES_MAX
    # Payloads are padded up to so many bytes.
    payload_max: int = 0
    transactions: TransactionPlan | None = None
    # Topics are compacted all the time, and their views are read.
    compacts: bool = False
    # For those who look for the cause of a failure: the trouble that is left of what was drawn,
    # and which sends are not done.
    script: tuple[TroubleEvent, ...] | None = field(default=None, repr=False)
    muted: frozenset[str] = field(default=frozenset(), repr=False)


@dataclass(frozen=True)
class Scenario:
    partitions: int
    deduplication: bool
    ledger_entries_max: int
    producers: tuple[ProducerPlan, ...]
    subscriptions: tuple[SubscriptionPlan, ...]
    skips: bool
    vandal: bool
    kinds: tuple[str, ...]
    seconds: float
    gap_s: float
    # Whether messages in chunks are skipped while they are on their way.
    skips_large: bool = False
    # A reader goes over everything when all is published; before that a producer dies in the
    # middle of a message.
    reader: bool = False
    deserter: bool = False
    edges: AckEdges = AckEdges()
    # Somebody asks for more than it reads, and everything that waits for peers is little.
    rush: bool = False
    # Not in the trace of those that have none, which stays what it was.
    extras: Extras = field(default=Extras(), repr=False)

    @property
    def splits(self) -> bool:
        """Whether some messages are in chunks."""
        return any(producer.batching == "chunks" for producer in self.producers)

    @property
    def topics(self) -> list[str]:
        if self.partitions == 0:
            return [TOPIC]
        return [f"{TOPIC}-partition-{number}" for number in range(self.partitions)]


def draw(random: Random) -> Scenario:
    """One scenario; most runs have a few kinds of trouble, some have all, some none."""
    kinds: tuple[str, ...] = KINDS
    if random.random() < 0.8:
        kinds = tuple(sorted(random.sample(KINDS, random.randrange(0, 5))))
    producers = tuple(
        draw_producer(random, f"p{number}") for number in range(random.choice((1, 2)))
    )
    chunks = any(producer.batching == "chunks" for producer in producers)
    subscriptions = tuple(
        draw_subscription(random, f"s{number}", chunks=chunks)
        for number in range(1 if random.random() < 0.6 else 2)
    )
    return Scenario(
        partitions=random.choice((0, 0, 0, 2, 3)),
        deduplication=random.random() < 0.4,
        ledger_entries_max=random.choice((5, 20, 1000)),
        producers=producers,
        subscriptions=subscriptions,
        skips=random.random() < 0.25,
        vandal=random.random() < 0.15,
        kinds=kinds,
        seconds=random.choice((3.0, 8.0, 20.0)),
        gap_s=random.choice((0.1, 0.5, 1.0)),
    )


def draw_edges(random: Random) -> AckEdges:
    """From a stream of its own; most runs have none of them."""
    if random.random() < 0.6:
        return AckEdges()
    return AckEdges(
        rolls_back=random.random() < 0.7,
        regret_share=random.choice((0.0, 0.1)),
        resets=random.random() < 0.5,
        outages=random.random() < 0.7,
        retries_max=random.choice((2, 1)),
    )


def draw_transactions(random: Random) -> TransactionPlan:
    """What transacts in a scenario that has it."""
    type = random.choice(TYPES)
    single = type in ("Exclusive", "Failover")
    return TransactionPlan(
        type,
        workers=1 if type == "Exclusive" else random.choice((1, 2, 3)),
        acks=random.choice(("single", "list", "cumulative") if single else ("single", "list")),
        receipts=random.random() < 0.5,
        queue_size=random.choice((1, 3, 10, 100)),
        messages_max=random.choice((1, 3, 8)),
        targets=random.choice((1, 2, 3)),
        batching=random.random() < 0.5,
        timeout_s=random.choice((2.0, 5.0, 20.0)),
        abort_share=random.choice((0.0, 0.1, 0.3)),
        leave_share=random.choice((0.0, 0.0, 0.05)),
        publish_share=random.choice((0.0, 0.2, 0.6)),
        think_s=random.choice((0.0, 0.01, 0.1)),
    )


def draw_rush(random: Random) -> bool:
    """From a stream of its own."""
    return random.random() < 0.3


def draw_producer(random: Random, name: str) -> ProducerPlan:
    """Somebody who publishes."""
    return ProducerPlan(
        name,
        batching=random.choice(("none", "default", "default", "key", "chunks")),
        keys=random.choice((0, 1, 5)),
        burst=random.choice((1, 5, 12)),
        delayed_share=0.2 if random.random() < 0.2 else 0.0,
        pause_s=random.choice((0.1, 0.5, 1.0)),
    )


def draw_subscription(random: Random, name: str, *, chunks: bool) -> SubscriptionPlan:
    """A subscription and its consumers; `chunks` says that some messages are split."""
    type = random.choice(TYPES)
    single = type in ("Exclusive", "Failover")
    consumers = 1 if type == "Exclusive" else random.choice((1, 2, 3))
    acks = random.choice(("single", "list", "cumulative") if single else ("single", "list"))
    return SubscriptionPlan(
        name,
        type,
        consumers=consumers,
        acks=acks,
        receipts=random.random() < 0.6,
        retries=random.random() < 0.6,
        group_ms=random.choice((0, 20, 100)),
        queue_size=random.choice((0, 1, 3, 10, 100)),
        think_s=random.choice((0.0, 0.01, 0.2)),
        nack_share=random.choice((0.0, 0.0, 0.1)),
        seek_share=0.01 if random.random() < 0.15 else 0.0,
        # What one consumer of a key keeps to itself, the others of Key_Shared wait for.
        # Of a split message the broker counts the chunks, and nobody here knows how many.
        withhold=acks != "cumulative"
        and not chunks
        and not (type == "KeyShared" and consumers > 1)
        and random.random() < 0.5,
    )


# How many scenarios are about keys that nearly stick.
KEYS_SHARE = 0.25


def sharpen(scenario: Scenario, random: Random) -> Scenario:
    """Makes some scenarios a close call for keys, and leaves the others as they are.

    Several consumers with few permits share keys, and what takes a key from one of them is
    frequent: chunks that are skipped half delivered, seeks that wait for the disk while
    ledgers become free, consumers that come and go.
    """
    if random.random() >= KEYS_SHARE:
        return scenario
    producers = tuple(
        replace(
            producer,
            keys=random.choice((1, 5)),
            batching="chunks" if random.random() < 0.6 else producer.batching,
        )
        for producer in scenario.producers
    )
    chunks = any(producer.batching == "chunks" for producer in producers)
    seeks = random.random() < 0.4
    first = replace(
        scenario.subscriptions[0],
        type="KeyShared",
        consumers=random.choice((2, 3)),
        acks=random.choice(("single", "list")),
        queue_size=random.choice((1, 2, 3)),
        seek_share=0.02 if seeks else 0.0,
        withhold=False,
        any_order=random.random() < 0.4,
    )
    others = [
        replace(plan, withhold=plan.withhold and not chunks) for plan in scenario.subscriptions
    ]
    kinds = {*scenario.kinds, *(["stall"] if seeks else [])}
    return replace(
        scenario,
        producers=producers,
        subscriptions=(first, *others[1:]),
        ledger_entries_max=random.choice((5, 20)),
        kinds=tuple(sorted(kinds)),
        skips_large=chunks and random.random() < 0.6,
    )


def vary(scenario: Scenario, random: Random) -> Scenario:
    """The same with more about chunks, readers and seeks, drawn by itself."""
    chunks = any(producer.batching == "chunks" for producer in scenario.producers)
    subscriptions = tuple(_vary(plan, random, chunks=chunks) for plan in scenario.subscriptions)
    if scenario.skips_large:
        # Nobody could say which of those that are kept were skipped.
        subscriptions = tuple(replace(plan, withhold=False) for plan in subscriptions)
    if "program" in scenario.kinds:
        # Who acks through another's consumer would take its timers along when it dies.
        subscriptions = tuple(replace(plan, elsewhere_share=0.0) for plan in subscriptions)
    skips = chunks and any(plan.withhold for plan in subscriptions) and random.random() < 0.5
    return replace(
        scenario,
        subscriptions=subscriptions,
        skips=scenario.skips or skips,
        reader=random.random() < (0.5 if chunks else 0.1),
        deserter=random.random() < (0.3 if chunks else 0.05),
    )


def _vary(plan: SubscriptionPlan, random: Random, *, chunks: bool) -> SubscriptionPlan:
    waits = plan.type == "KeyShared" and plan.consumers > 1
    withhold = chunks and plan.acks != "cumulative" and not waits and random.random() < 0.5
    seeks = chunks and random.random() < 0.25
    elsewhere = plan.acks != "cumulative" and random.random() < 0.3
    return replace(
        plan,
        # Who keeps messages unacked seeks to the beginning only.
        withhold=(plan.withhold or withhold) and not seeks,
        seek_share=max(plan.seek_share, 0.04 if seeks else 0.0),
        exclusive=random.random() < 0.5,
        # Who acks through another's consumer must hear that it came to nothing.
        elsewhere_share=0.2 if elsewhere and plan.receipts else 0.0,
    )
