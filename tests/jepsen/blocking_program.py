"""A program of the blocking API: of the official client, or of ours, which has the same one.

    python blocking_program.py pulsar|magnetar NAME URL FACT_FILE STOP_FILE ROLE...

The official client has no receipts of acks, so nothing that it acks counts as confirmed.
"""

import importlib
import sys
import threading
import time
from contextlib import suppress
from typing import Any

from jepsen.fact_file import FactFile
from jepsen.role import (
    MAX_BACKOFF_MS,
    NACK_DELAY_MS,
    NACK_SHARE,
    STRIDE,
    Consume,
    Payloads,
    Plan,
    Produce,
    full,
    parse,
)

from magnetar.testing.checker.history import (
    AckAsked,
    AckFailed,
    AckKept,
    Nacked,
    Opened,
    Place,
    Received,
    SendFailed,
    Sent,
    Stored,
)

IDLE_MS = 1000
AGAIN_S = 0.3


class Program:
    def __init__(self, library: str, plan: Plan) -> None:
        self._api: Any = importlib.import_module(library)
        self._ours = library == "magnetar"
        self._plan = plan
        self._facts = FactFile(plan.facts)
        options: dict[str, Any] = {"operation_timeout_seconds": 10}
        if self._ours:
            options |= {"max_backoff_ms": MAX_BACKOFF_MS, "wait_for_broker": True}
        else:
            options["logger"] = self._api.ConsoleLogger(self._api.LoggerLevel.Error)
        self._client = self._api.Client(plan.url, **options)

    def run(self) -> None:
        """Until it is killed."""
        threads = [threading.Thread(target=self._play, args=(role,)) for role in self._plan.roles]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _play(self, role: Produce | Consume) -> None:
        """What fails is done again, as another producer or consumer."""
        life = 0
        while isinstance(role, Consume) or not self._plan.stop.exists():
            name = f"{self._plan.called(role)}/{life}"
            life += 1
            try:
                if isinstance(role, Produce):
                    self._produce(role, name)
                else:
                    _Consumer(self._api, self._client, self._facts, role, name).run()
            except self._api.exceptions.PulsarException as error:
                print(f"{name}: {type(error).__name__} {error}", file=sys.stderr)
                time.sleep(AGAIN_S)

    # ---- Producers -----------------------------------------------------------

    def _produce(self, role: Produce, name: str) -> None:
        # The official client counts from its start again if it reconnects before the first receipt,
        # and a broker that deduplicates drops what then has a number for the second time. (The Java
        # client did so until upstream 2047.) Told where to begin, it counts on.
        first = {} if self._ours else {"initial_sequence_id": 1}
        producer = self._client.create_producer(
            full(role.topic),
            producer_name=name,
            send_timeout_millis=20_000,
            batching_enabled=True,
            batching_type=self._api.BatchingType.KeyBased,
            batching_max_publish_delay_ms=50,
            block_if_queue_full=True,
            **first,
        )
        payloads = Payloads(name, role.keys)
        failed = threading.Event()
        try:
            while not self._plan.stop.exists() and not failed.is_set():
                number, key, payload = payloads.next()
                self._facts.add(Sent(name, number, full(role.topic), payload, key, False))
                options = {"partition_key": key} if key else {}
                producer.send_async(payload, self._told(name, number, failed), **options)
                time.sleep(1 / role.rate)
            producer.flush()
        finally:
            with suppress(self._api.exceptions.PulsarException):
                producer.close()

    def _told(self, name: str, number: int, failed: threading.Event) -> Any:
        def told(result: Any, id: Any) -> None:
            if result == self._api.Result.Ok:
                place = Place(id.ledger_id(), id.entry_id(), id.batch_index())
                self._facts.add(Stored(name, number, place, -1))
            else:
                self._facts.add(SendFailed(name, number, str(result)))
                failed.set()

        return told


class _Consumer:
    """One consumer: it is handed messages, and acks or refuses them, until something fails."""

    def __init__(self, api: Any, client: Any, facts: FactFile, role: Consume, name: str) -> None:
        self._api = api
        self._facts = facts
        self._role = role
        self._name = name
        self._ours = api.__name__ == "magnetar"
        self._asked = 0
        options = {"ack_receipt_enabled" if self._ours else "batch_index_ack_enabled": True}
        self._consumer = client.subscribe(
            full(role.topic),
            role.subscription,
            consumer_type=api.ConsumerType[role.type]
            if self._ours
            else getattr(api.ConsumerType, role.type),
            consumer_name=name.partition(".")[0],
            initial_position=api.InitialPosition.Earliest,
            negative_ack_redelivery_delay_ms=NACK_DELAY_MS,
            # An ack without a receipt may be lost: then nobody but the consumer can tell.
            unacked_messages_timeout_ms=10_000,
            receiver_queue_size=100,
            **options,
        )
        facts.add(Opened(name, role.subscription, role.type, self._ours, False))

    def run(self) -> None:
        try:
            if self._role.cumulative:
                self._ack_cumulatively()
            else:
                self._ack_one_by_one()
        finally:
            with suppress(self._api.exceptions.PulsarException):
                self._consumer.close()

    def _receive(self) -> Any:
        """The next message, or None if none comes for a while."""
        try:
            message = self._consumer.receive(IDLE_MS)
        except self._api.exceptions.Timeout:
            return None
        place = _place(message)
        self._facts.add(
            Received(
                self._name,
                self._role.subscription,
                message.topic_name(),
                place,
                max(message.message_id().batch_size(), 0) if self._ours else 0,
                message.data(),
                message.partition_key(),
                message.redelivery_count(),
            )
        )
        return message

    def _ack_one_by_one(self) -> None:
        count = 0
        while True:
            message = self._receive()
            if message is None:
                continue
            count += 1
            refused = message.redelivery_count() == 0 and count % round(1 / NACK_SHARE) == 0
            if refused or not self._ack(message, cumulative=False):
                self._facts.add(Nacked(self._name, self._role.subscription, _place(message)))
                self._consumer.negative_acknowledge(message)

    def _ack_cumulatively(self) -> None:
        last, count = None, 0
        while True:
            message = self._receive()
            if message is not None:
                last, count = message, count + 1
            due = last is not None and (message is None or count % STRIDE == 0)
            if due and self._ack(last, cumulative=True):
                last = None

    def _ack(self, message: Any, *, cumulative: bool) -> bool:
        number = self._asked
        self._asked += 1
        topic = message.topic_name()
        subscription, places = self._role.subscription, (_place(message),)
        self._facts.add(AckAsked(self._name, subscription, number, places, cumulative, topic))
        try:
            if cumulative:
                self._consumer.acknowledge_cumulative(message)
            else:
                self._consumer.acknowledge(message)
        except self._api.exceptions.PulsarException as error:
            self._facts.add(AckFailed(self._name, number, type(error).__name__))
            return False
        if self._ours:
            self._facts.add(AckKept(self._name, number))
        return True


def _place(message: Any) -> Place:
    id = message.message_id()
    return Place(id.ledger_id(), id.entry_id(), id.batch_index())


if __name__ == "__main__":
    Program(sys.argv[1], parse(sys.argv[2:])).run()
