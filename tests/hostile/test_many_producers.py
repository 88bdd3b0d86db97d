"""Thousands of producers of one topic, that come and leave, hold nobody up."""

from pathlib import Path

from hostile.asker import LONG, Asker
from hostile.limited import limited
from hostile.probe import MEMORY_BYTES, Probe
from support.broker_process import BrokerProcess

from magnetar.model import ProducerAccessMode
from magnetar.protocol import pulsar_pb2 as pb

PRODUCERS = 20_000 if LONG else 2000
TOPIC = "persistent://public/default/crowd"


def producer(number: int, mode: ProducerAccessMode) -> pb.CommandProducer:
    return pb.CommandProducer(
        topic=TOPIC,
        producer_id=number,
        request_id=number,
        producer_name=f"p{number}",
        producer_access_mode=mode.value,
    )


def test_producers_that_come_and_leave_together(tmp_path: Path) -> None:
    command = limited(memory_bytes=MEMORY_BYTES)
    with BrokerProcess(tmp_path, command=command) as broker, Probe(broker) as probe:
        with Asker(broker.url) as asker:
            shared = [producer(n, ProducerAccessMode.Shared) for n in range(PRODUCERS)]
            answers = asker.ask(shared)
            assert all(isinstance(answer, pb.CommandProducerSuccess) for answer in answers)
        with Asker(broker.url) as after:
            alone = producer(0, ProducerAccessMode.Exclusive)
            (answer,) = after.ask([alone])
            while isinstance(answer, pb.CommandError):
                (answer,) = after.ask([alone])
            assert isinstance(answer, pb.CommandProducerSuccess)
    probe.check()


def test_producers_that_wait_in_line_leave_together(tmp_path: Path) -> None:
    command = limited(memory_bytes=MEMORY_BYTES)
    with BrokerProcess(tmp_path, command=command) as broker, Probe(broker) as probe:
        with Asker(broker.url) as asker:
            line = [producer(n, ProducerAccessMode.WaitForExclusive) for n in range(PRODUCERS)]
            asker.ask(line)
        with Asker(broker.url) as after:
            alone = producer(0, ProducerAccessMode.Exclusive)
            (answer,) = after.ask([alone])
            while isinstance(answer, pb.CommandError):
                (answer,) = after.ask([alone])
            assert isinstance(answer, pb.CommandProducerSuccess)
    probe.check()
