"""kill -9 of a real broker at every step of a transaction: nothing is done by half (I11).

A program consumes, sends to three topics and acknowledges in a transaction, through a proxy that
sees each command. When the one comes that a test is about, the broker is killed, before the
command reaches it or its answer the program, and started again. The program goes on as a program
would: what failed it does again. At the end every input was done exactly once.

MAGNETAR_TRANSACTION_KILLS says how many more kills there are, each at a moment of its own while
the end of a transaction is under way.
"""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest
from support.broker_process import BrokerProcess
from support.proxy import Proxy

from magnetar import ConsumerType, InitialPosition, MessageId, Timeout
from magnetar.client.consumer.message import Message
from magnetar.client.door import aio
from magnetar.errors import MagnetarError, TransactionOutcomeUnknownError
from magnetar.protocol import pulsar_pb2 as pb

OPTIONS = ("--set", "transactions=true", "--set", "deduplication=true")
ASKED = ("newTxn", "addPartitionToTxn", "addSubscriptionToTxn", "send", "ack", "endTxn")
ANSWERED = (
    *("newTxnResponse", "addPartitionToTxnResponse", "addSubscriptionToTxnResponse"),
    *("send_receipt", "ackResponse", "endTxnResponse"),
)
INPUTS = 6
TARGETS = 3
RANDOM_KILLS = int(os.environ.get("MAGNETAR_TRANSACTION_KILLS", "2"))
# The longest that an end takes here, about.
END_S = 0.02
TRIES_MAX = 30


class Killer:
    """Kills the broker at a command, once, and starts it again."""

    def __init__(self, broker: BrokerProcess, proxy: Proxy) -> None:
        self._broker = broker
        self._proxy = proxy
        self.step = ""
        self.kills = 0
        self.later_s = 0.0
        proxy.passes = self._answered
        proxy.heard = self  # type: ignore[assignment]

    def append(self, command: pb.BaseCommand) -> None:
        """A command came that the broker has not seen yet."""
        if self.step and command.HasField(self.step):
            self.step = ""
            if self.later_s:
                asyncio.get_running_loop().call_later(self.later_s, self._kill)
            else:
                self._kill()

    def _answered(self, command: pb.BaseCommand) -> bool:
        if self.step and command.HasField(self.step):
            self.step = ""
            self._kill()
            return False
        return True

    def _kill(self) -> None:
        # The next step may be set already, if it was to be a little later.
        self.kills += 1
        self._broker.kill()
        self._proxy.cut()
        self._broker.start()


@asynccontextmanager
async def killed(tmp_path: Path) -> AsyncIterator[tuple[Killer, aio.Client]]:
    with BrokerProcess(tmp_path / "data", options=OPTIONS) as broker:
        async with Proxy(broker.url) as proxy:
            options = {"initial_backoff_ms": 5, "max_backoff_ms": 100}
            async with aio.Client(proxy.url, **options) as client:  # type: ignore[arg-type]
                yield Killer(broker, proxy), client


async def work(client: aio.Client, killer: Killer, steps: list[tuple[str, float]]) -> None:
    """Does all inputs, each in a transaction; the n-th of them meets the n-th step."""
    source = await client.create_producer("in")
    targets = [await client.create_producer(f"out-{n}") for n in range(TARGETS)]
    consumer = await client.subscribe(
        "in", "s", ConsumerType.Shared, initial_position=InitialPosition.Earliest
    )
    inputs = len(steps) + INPUTS
    for number in range(inputs):
        await source.send(b"%d" % number)
    done = tries = 0
    while done < inputs:
        tries += 1
        assert tries < inputs + TRIES_MAX
        message = await consumer.receive(60_000)
        if steps:
            killer.step, killer.later_s = steps.pop(0)
        done += await one(client, targets, consumer, message)
    with pytest.raises(Timeout):
        await consumer.receive(200)


async def one(
    client: aio.Client, targets: list[aio.Producer], consumer: aio.Consumer, message: Message
) -> bool:
    """Does one input; returns whether that was committed."""
    try:
        txn = await client.transaction(timeout=30)
    except MagnetarError:
        consumer.negative_acknowledge(message)
        return False
    for target in targets:
        target.send(message.data(), transaction=txn).add_done_callback(asyncio.Future.exception)
    try:
        await consumer.acknowledge(message, transaction=txn)
    except MagnetarError:
        await txn.abort()
        return False
    for _ in range(TRIES_MAX):
        try:
            await txn.commit()
            return True
        except TransactionOutcomeUnknownError:
            continue
        except MagnetarError:
            return False  # it was aborted, and the input comes again
    raise AssertionError("nobody knows how it ended")


async def outputs(client: aio.Client) -> list[Counter[bytes]]:
    found: list[Counter[bytes]] = []
    for number in range(TARGETS):
        reader = await client.create_reader(f"out-{number}", MessageId.earliest)
        got: Counter[bytes] = Counter()
        while await reader.has_message_available():
            got[(await reader.read_next(60_000)).data()] += 1
        found.append(got)
    return found


@pytest.mark.parametrize("when", ["asked", "answered"])
async def test_a_kill_at_any_command_leaves_all_or_nothing(tmp_path: Path, when: str) -> None:
    await go_through(tmp_path, [(step, 0.0) for step in (ASKED if when == "asked" else ANSWERED)])


async def test_a_kill_at_any_moment_of_an_end_leaves_all_or_nothing(tmp_path: Path) -> None:
    random = Random(RANDOM_KILLS)
    await go_through(tmp_path, [("endTxn", random.random() * END_S) for _ in range(RANDOM_KILLS)])


async def go_through(tmp_path: Path, steps: list[tuple[str, float]]) -> None:
    wanted = Counter([b"%d" % number for number in range(len(steps) + INPUTS)])
    kills = len(steps)
    async with killed(tmp_path) as (killer, client):
        await keep_outputs(client)
        await work(client, killer, steps)
        assert killer.kills == kills
        assert await outputs(client) == [wanted] * TARGETS


async def keep_outputs(client: aio.Client) -> None:
    """Without a subscription they would go as soon as their ledgers are full."""
    for number in range(TARGETS):
        await (await client.subscribe(f"out-{number}", "keep")).close()
