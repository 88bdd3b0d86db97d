"""A transaction as a client on the wire has it; see `wire_client.py`."""

from collections.abc import Iterator
from contextlib import contextmanager

from magnetar.protocol import pulsar_pb2 as pb
from support.wire_client import WireClient, WireConsumer, WireProducer

COMMIT = 0
ABORT = 1


class WireTransaction:
    """Opened as it is made, by NEW_TXN."""

    def __init__(self, client: WireClient, timeout_ms: int = 60_000) -> None:
        self.client = client
        answer = client.request(pb.CommandNewTxn(txn_ttl_millis=timeout_ms, tc_id=0))
        self.number = int(answer.txnid_least_bits)
        assert answer.txnid_most_bits == 0

    @contextmanager
    def within(self, *who: WireProducer | WireConsumer) -> Iterator[None]:
        """What these publish and acknowledge inside is part of it."""
        for one in who:
            one.transaction = self.number
        try:
            yield
        finally:
            for one in who:
                one.transaction = 0

    def send(self, producer: WireProducer, *payloads: str, **fields: object) -> object:
        with self.within(producer):
            return producer.send(*payloads, **fields)

    def acked(self, consumer: WireConsumer, *ids: object, cumulative: bool = False) -> None:
        """ACK and its receipt. Raises `Refused`."""
        with self.within(consumer):
            consumer.acked(*ids, cumulative=cumulative)  # type: ignore[arg-type]

    def end_command(self, action: int) -> pb.CommandEndTxn:
        return pb.CommandEndTxn(txnid_least_bits=self.number, txnid_most_bits=0, txn_action=action)

    def commit(self, client: WireClient | None = None) -> None:
        (client or self.client).request(self.end_command(COMMIT))

    def abort(self, client: WireClient | None = None) -> None:
        (client or self.client).request(self.end_command(ABORT))
