"""One run of everything under a seed: the real broker, the real client, trouble, then peace.

While there is trouble, programs publish and consume. Then trouble ends and nobody publishes
any more, so that everything can be counted: first with some messages kept unacked, once more
after a power cut, and at last when nothing is left. Checkers judge the history; `search.py`
runs seeds.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any

from sim.compaction import THRESHOLD, compact_some, read_views, view_some
from sim.crew_program import CrewProgram
from sim.rates import judge_rates, rated
from sim.readers import desert, read_to_the_end, seek_about
from sim.rush import rush, rush_in_peace
from sim.scenario import (
    TOPIC,
    Extras,
    Scenario,
    SubscriptionPlan,
    TransactionPlan,
    draw,
    draw_edges,
    draw_rush,
    draw_transactions,
    sharpen,
    vary,
)
from sim.swarm import draw_swarm
from sim.transacting import (
    SUBSCRIPTION,
    Ledger,
    Transformer,
    all_done,
    check_all_were_done,
    find_outcomes,
    look_on,
    outputs_of,
    prepare_outputs,
    read_outputs,
)
from sim.vandal import vandalise
from sim.workload import (
    CLIENT,
    HOLDING,
    Book,
    Publisher,
    Worker,
    crew_name,
    fail_now_and_then,
    reset_some,
    skip_large,
    skip_queued,
    skip_some,
)

from magnetar.broker.setting.settings import BrokerSettings
from magnetar.broker.topic.dispatch.shared import SharedDispatcher
from magnetar.model import ConsumerType, InitialPosition
from magnetar.testing.checker.checkers import (
    CHECKERS,
    check,
    sent_once,
    stored_once,
    undelivered,
    unreturned,
)
from magnetar.testing.checker.history import Counted, Fact, Quiet
from magnetar.testing.sim.disk import DiskFaults, SimDisk
from magnetar.testing.sim.loop import SimLoop
from magnetar.testing.sim.simulation import Simulation
from magnetar.testing.sim.trace import Trace
from magnetar.testing.sim.trouble import Trouble

# What the time of peace has for each thing that must happen, in virtual seconds.
PATIENCE_S = 400
# How long nothing must have changed before it is counted.
QUIET_S = 3
# How many are in a rush at the same time, and what may wait for them and for all then.
RUSHES = 3
RUSH_BYTES = 8 * 1024
RUSH_BYTES_ALL = 64 * 1024
# In so many lives of the swarm topics are compacted.
COMPACTION_SHARE = 0.2
# And in so many the broker has rates.
RATE_SHARE = 0.15


class Stuck(AssertionError):
    """I3: something that must happen did not, with all the time of the world."""


async def live(simulation: Simulation, scenario: Scenario) -> None:
    broker, book = simulation.broker, Book(skips_large=scenario.skips_large)
    await broker.start()
    await _prepare(simulation, scenario)
    victims = _start(simulation, scenario, book)
    ledger, topics = (
        Ledger(lambda: book.publishing, lambda: book.ending, book.txns),
        scenario.topics,
    )
    transactions = scenario.extras.transactions
    if transactions is not None:
        victims += _start_transactions(simulation, ledger, transactions)
        topics = [*topics, *outputs_of(transactions)]
    trouble = Trouble(simulation, kinds=scenario.kinds, topics=topics, victims=victims)
    if scenario.extras.slow_disk_s:
        broker.faults = DiskFaults(stall_share=0.5, stall_s_max=scenario.extras.slow_disk_s)
        broker.disk.faults = broker.faults
    if scenario.extras.script is not None:
        await trouble.repeat(scenario.extras.script, seconds=scenario.seconds)
    elif scenario.kinds:
        await trouble.make(scenario.seconds, gap_s=scenario.gap_s)
    else:
        await asyncio.sleep(scenario.seconds)
    await trouble.end()
    book.publishing = False
    await _until(simulation, lambda: _publishers_ended(simulation), "publishers to end")
    if transactions is not None:
        await _until(simulation, lambda: _none_open(simulation), "transactions to end")
        find_outcomes(simulation, ledger)
    if scenario.rush:
        await rush_in_peace(simulation)
    if scenario.deserter:
        await desert(simulation, scenario)
    if scenario.reader:
        await read_to_the_end(simulation, scenario)
        await seek_about(simulation, scenario)
    if scenario.extras.compacts:
        await read_views(simulation, scenario)
    await _first_peace(simulation, scenario, book)
    if transactions is not None:
        done = partial(all_done, simulation, scenario)
        await _until(simulation, done, "what transactions gave back to be done")
    # Acks without a receipt may have been lost where nobody saw it; this brings them back.
    await broker.stop()
    await broker.start()
    await _count(simulation, scenario, book)
    broker.crash(power_loss=True)
    await broker.start()
    await _count(simulation, scenario, book)
    book.released = True
    for plan in scenario.subscriptions:
        book.withheld[plan.name] = {}
    await _count(simulation, scenario, book)
    if transactions is not None:
        await _until(simulation, done, "transformers to have done everything")
        find_outcomes(simulation, ledger)
        await read_outputs(simulation, transactions)
        check_all_were_done(simulation.history)
    book.ending = True
    await _until(simulation, lambda: _all_ended(simulation), "programs to end")
    await broker.stop()


def _start_transactions(simulation: Simulation, ledger: Ledger, plan: TransactionPlan) -> list[str]:
    """Starts those that transact; returns those that may be killed."""
    simulation.program("onlooker-c", lambda: look_on(simulation, ledger))
    victims: list[str] = []
    for number in range(plan.workers):
        name = f"{SUBSCRIPTION}-c{number}"
        victims.append(
            simulation.program(name, Transformer(simulation, ledger, plan, name).main).name
        )
    return victims


def _none_open(simulation: Simulation) -> bool:
    """Whether all that publishers began has ended: what they left is aborted in time."""
    broker = simulation.broker.present()
    return broker is not None and not any(
        one.topics and not one.subscriptions for one in broker.transactions.open.values()
    )


async def _first_peace(simulation: Simulation, scenario: Scenario, book: Book) -> None:
    """I3: everything is delivered once and no permit is lost, without anybody coming anew."""
    waits = [plan.name for plan in scenario.subscriptions if _may_wait(scenario, plan)]

    def is_delivered() -> bool:
        return all(name in waits for name, _ in undelivered(simulation.history))

    def is_returned() -> bool:
        return all(fact.subscription in waits for fact in unreturned(simulation.history))

    def has_permits() -> bool:
        return not any(_lost_permits(simulation, scenario, book))

    await _until(simulation, is_delivered, "what has a receipt to arrive")
    await _until(simulation, is_returned, "what was refused to come again")
    await _until(simulation, has_permits, "permits to be even")
    for plan in scenario.subscriptions:
        # Who asks for answers, or has acks retried, need not come anew for anything.
        reliable = plan.receipts or plan.retries
        if reliable and not scenario.skips:
            await _rest(simulation, scenario, book, plan)
    await _quiet(simulation)


def _may_wait(scenario: Scenario, plan: SubscriptionPlan) -> bool:
    """Whether an ack that was lost, where nobody asked for an answer, holds others up for ever.

    A key waits for an ack of an earlier message, and a consumer that has as many unacked
    messages as it may have for any.
    """
    if plan.receipts or plan.retries:
        return False
    limited = any(name.startswith("max_unacked_") for name, _ in scenario.extras.limits)
    return plan.type == "KeyShared" or (limited and plan.type in HOLDING)


async def _quiet(simulation: Simulation) -> None:
    """Waits until nothing has happened for a while."""
    for _ in range(PATIENCE_S // QUIET_S):
        known = len(simulation.history)
        await asyncio.sleep(QUIET_S)
        if len(simulation.history) == known:
            simulation.history.add(Quiet())
            return
    raise Stuck(f"I3: waited {PATIENCE_S} s in vain for quiet")


def _lost_permits(simulation: Simulation, scenario: Scenario, book: Book) -> Iterator[str]:
    """Consumers whose broker counts other permits than they do."""
    for plan in scenario.subscriptions:
        for topic in scenario.topics:
            if not simulation.broker.is_loaded(topic):
                yield topic
                continue
            for consumer in simulation.broker.subscription(topic, plan.name).consumers:
                known = book.consumers.get(consumer.name)
                part = None if known is None else known._consumer.parts.get(topic)
                # One that the program does not have yet is still subscribing.
                if part is None or int(consumer.permits) != part.core.available_permits:
                    yield consumer.name


async def _prepare(simulation: Simulation, scenario: Scenario) -> None:
    """The topic and its subscriptions are there before the first message."""
    if scenario.partitions:
        await simulation.broker.create_partitioned(TOPIC, scenario.partitions)
    client = simulation.client(**CLIENT)
    plans = {plan.name: plan.type for plan in scenario.subscriptions}
    if scenario.extras.transactions is not None:
        plans[SUBSCRIPTION] = scenario.extras.transactions.type
    for name, type in plans.items():
        consumer = await client.subscribe(
            TOPIC,
            name,
            consumer_type=ConsumerType[type],
            initial_position=InitialPosition.Earliest,
        )
        await consumer.close()
    if scenario.extras.transactions is not None:
        await prepare_outputs(client, scenario.extras.transactions)
    await client.close()


def _start(simulation: Simulation, scenario: Scenario, book: Book) -> list[str]:
    """Starts all programs; returns those that may be killed."""
    victims: list[str] = []
    publishers = {
        plan.name: Publisher(simulation, book, plan, scenario.extras) for plan in scenario.producers
    }
    if scenario.extras.crews:
        crew = CrewProgram(simulation, list(publishers.values()))
        publishers = {}
        victims.append(simulation.program("publishers", crew.main).name)
    for name, publisher in publishers.items():
        victims.append(simulation.program(name, publisher.main).name)
    for plan in scenario.subscriptions:
        names = [f"{plan.name}-c{number}" for number in range(plan.consumers)]
        workers = {name: Worker(simulation, book, plan, name, scenario.edges) for name in names}
        if scenario.extras.crews:
            crew = CrewProgram(simulation, list(workers.values()))
            workers = {}
            victims.append(simulation.program(crew_name(plan), crew.main).name)
        for name, worker in workers.items():
            victims.append(simulation.program(name, worker.main).name)
    if scenario.skips:
        simulation.program("operator", lambda: skip_some(simulation, book, scenario))
    if scenario.skips_large:
        simulation.program("large", lambda: skip_large(simulation, book, scenario))
    # A broker that deduplicates may not say where a message is, and so nobody could say which
    # one was skipped before it was received.
    if scenario.skips and not scenario.splits and not scenario.deduplication:
        simulation.program("queues", lambda: skip_queued(simulation, book, scenario))
    if scenario.edges.outages:
        simulation.program("outage", lambda: fail_now_and_then(simulation, book))
    if scenario.edges.resets:
        simulation.program("resetter", lambda: reset_some(simulation, book, scenario))
    if scenario.extras.compacts:
        simulation.program("compactor", lambda: compact_some(simulation, book, scenario))
        simulation.program("viewer", lambda: view_some(simulation, book, scenario))
    if scenario.vandal:
        simulation.program("vandal", lambda: vandalise(simulation, book))
    if scenario.rush:
        for number in range(RUSHES):
            name = f"rush{number}"
            simulation.program(name, partial(rush, simulation, book, name))
    return victims


def _publishers_ended(simulation: Simulation) -> bool:
    others = [p for p in simulation.programs.values() if "-c" not in p.name]
    return all(not program.running for program in others)


def _all_ended(simulation: Simulation) -> bool:
    return all(not program.running for program in simulation.programs.values())


async def _until(simulation: Simulation, done: Callable[[], bool], what: str) -> None:
    for _ in range(PATIENCE_S * 2):
        simulation.check_programs()
        _check_dispatchers(simulation)
        if done():
            return
        await asyncio.sleep(0.5)
    waits = simulation.loop.who_waits()
    raise Stuck(f"I3: waited {PATIENCE_S} s in vain for {what}; tasks:\n{waits}\n")


def _check_dispatchers(simulation: Simulation) -> None:
    """I3, I7: what dispatchers remember agrees, and nothing waits that somebody could have."""
    for topic in simulation.broker.loaded():
        for subscription in topic.subscriptions.values():
            dispatcher = subscription.dispatcher
            if isinstance(dispatcher, SharedDispatcher) and not subscription.closed:
                dispatcher.check()


# ---- Counting ----------------------------------------------------------------


async def _count(simulation: Simulation, scenario: Scenario, book: Book) -> None:
    """I3, I7: waits until only what is kept unacked is left, then counts everything."""
    for plan in scenario.subscriptions:
        await _rest(simulation, scenario, book, plan)
    await _quiet(simulation)
    for plan in scenario.subscriptions:
        for topic in scenario.topics:
            _count_one(simulation, book, plan, topic)


async def _rest(
    simulation: Simulation, scenario: Scenario, book: Book, plan: SubscriptionPlan
) -> None:
    for topic in scenario.topics:
        at_rest = partial(_is_at_rest, simulation, book, plan, topic)
        try:
            await _until(simulation, at_rest, f"{plan.name} of {topic}")
        except Stuck as stuck:
            raise Stuck(f"{stuck}{_state(simulation, book, plan, topic)}") from None


def _is_at_rest(simulation: Simulation, book: Book, plan: SubscriptionPlan, topic: str) -> bool:
    if not simulation.broker.is_loaded(topic):
        return False
    subscription = simulation.broker.subscription(topic, plan.name)
    if len(subscription.consumers) != plan.consumers:
        return False
    withheld = book.kept_on(plan, topic)
    if subscription.cursor.unacked_messages() != len(withheld):
        return False
    # What is unacked is with consumers, all of it.
    dispatcher = subscription.dispatcher
    assert dispatcher is not None
    return plan.type not in HOLDING or dispatcher.unacked_count() == len(withheld)


def _count_one(simulation: Simulation, book: Book, plan: SubscriptionPlan, topic: str) -> None:
    subscription = simulation.broker.subscription(topic, plan.name)
    withheld = book.kept_on(plan, topic)
    entries = {(place.ledger, place.entry) for place in withheld}
    cursor, dispatcher = subscription.cursor, subscription.dispatcher
    assert dispatcher is not None
    found = {
        "msgBacklogMessages": (cursor.unacked_messages(), len(withheld)),
        "msgBacklog": (cursor.unacked_entries(), len(entries)),
        "msgDelayed": (dispatcher.delayed_count(), 0),
        "msgInReplay": (dispatcher.replay_count(), 0),
    }
    if plan.type in HOLDING:
        found["unackedMessages"] = (dispatcher.unacked_count(), len(withheld))
    for consumer in subscription.consumers:
        core = book.consumers[consumer.name]._consumer.parts[topic].core
        found[f"permits of {consumer.name}"] = (int(consumer.permits), core.available_permits)
        if core.has_queue:
            whole = core.available_permits + core.queue_length() + core.unreturned_permits
            found[f"permits in {consumer.name}"] = (whole, plan.queue_size)
    for what, (counted, expected) in found.items():
        simulation.history.add(Counted(topic, plan.name, what, counted, expected))


def _state(simulation: Simulation, book: Book, plan: SubscriptionPlan, topic: str) -> str:
    """Why it does not go on, as far as that can be seen."""
    if not simulation.broker.is_loaded(topic):
        return "the topic is not loaded"
    subscription = simulation.broker.subscription(topic, plan.name)
    withheld = book.kept_on(plan, topic)
    consumers = [(c.name, int(c.permits), int(c.unacked)) for c in subscription.consumers]
    run = subscription.cursor.next_run(subscription.cursor.mark_delete, 1)
    return (
        f"{subscription.cursor.unacked_messages()} messages left, {len(withheld)} withheld, "
        f"consumers (name, permits, unacked) {consumers} of {plan.consumers}, first left "
        f"{None if run is None else (run.ledger_id, run.first)}"
    )


# ---- A seed ------------------------------------------------------------------


def scenario_of(seed: int) -> Scenario:
    """What a seed draws; each part from a stream of its own."""
    random_for = SimLoop(seed).random_for
    scenario = draw(random_for("scenario"))
    scenario = sharpen(scenario, random_for("keys that nearly stick"))
    scenario = vary(scenario, random_for("scenario of chunks"))
    edges = draw_edges(random_for("ack edges"))
    # Where programs seek, their seeks are the edge.
    if not any(plan.seek_share for plan in scenario.subscriptions):
        scenario = replace(scenario, edges=edges)
    return replace(scenario, rush=draw_rush(random_for("rush")))


def swarm_of(seed: int) -> Scenario:
    """What a seed draws for its life in the swarm."""
    scenario = draw_swarm(SimLoop(seed).random_for("swarm"))
    # From a stream of its own, so that seeds that are known stay what they were.
    random = SimLoop(seed).random_for("compaction of the swarm")
    if random.random() < COMPACTION_SHARE:
        scenario = compacted(scenario)
    random = SimLoop(seed).random_for("rates of the swarm")
    return rated(scenario, random) if random.random() < RATE_SHARE else scenario


def compacted(scenario: Scenario) -> Scenario:
    """The same, with topics that are compacted."""
    extras = scenario.extras
    limits = tuple((dict(extras.limits) | dict([THRESHOLD])).items())
    return replace(scenario, extras=replace(extras, compacts=True, limits=limits))


def run_swarm_seed(seed: int, **options: Any) -> Simulation:
    """The other life of a seed. Raises what went wrong."""
    return run_scenario(seed, swarm_of(seed), **options)


def transactions_of(seed: int) -> Scenario:
    """What a seed draws for its life with transactions: a mix of features, and these in it."""
    random = SimLoop(seed).random_for("swarm with transactions")
    scenario = draw_swarm(random)
    plan = draw_transactions(random)
    return replace(scenario, extras=replace(scenario.extras, transactions=plan))


def settings_of(scenario: Scenario) -> BrokerSettings:
    limits: dict[str, Any] = {}
    if scenario.rush:
        limits = {
            "max_outbound_bytes_per_connection": RUSH_BYTES,
            "max_outbound_bytes": RUSH_BYTES_ALL,
        }
    limits |= dict(scenario.extras.limits)
    return BrokerSettings(
        segment_bytes=1 << 20,
        watermark_bytes=0,
        ledger_entries_max=scenario.ledger_entries_max,
        deduplication=scenario.deduplication,
        keep_alive_ms=5000,
        delayed_delivery_tick_ms=100,
        transactions=scenario.extras.transactions is not None,
        **limits,
    )


def run_seed(seed: int, disk_class: type[SimDisk] = SimDisk, **options: Any) -> Simulation:
    """Runs a seed and judges it. Raises what went wrong."""
    return run_scenario(seed, scenario_of(seed), disk_class, **options)


def run_scenario(
    seed: int,
    scenario: Scenario,
    disk_class: type[SimDisk] = SimDisk,
    *,
    trace: Trace | None = None,
    watch: Callable[[Simulation], None] | None = None,
) -> Simulation:
    """Runs a scenario with the chance of a seed, and judges it; `watch` is handed it before."""
    settings = settings_of(scenario)
    with Simulation(seed, settings=settings, disk_class=disk_class, trace=trace) as simulation:
        if watch is not None:
            watch(simulation)
        simulation.loop.note("scenario", repr(scenario))
        if scenario.extras != Extras():
            simulation.loop.note("extras", repr(scenario.extras))
        simulation.run(live(simulation, scenario))
    check(simulation.history, CHECKERS)
    judge_rates(simulation, settings, scenario)
    if scenario.deduplication:
        check(simulation.history, [stored_once, sent_once])
    return simulation


@cache
def count_facts(seed: int) -> Counter[type[Fact]]:
    """What a seed brought, kind by kind; it is run once. Raises as `run_seed` does."""
    return Counter(type(fact) for fact in run_seed(seed).history.facts)
