"""Thousands of consumers that leave at once with their connection hold nobody up."""

from pathlib import Path

import pytest
from hostile.asker import LONG, Asker
from hostile.limited import limited
from hostile.probe import MEMORY_BYTES, Probe
from support.broker_process import BrokerProcess

from magnetar.model import ConsumerType
from magnetar.protocol import CommandFlow
from magnetar.protocol import pulsar_pb2 as pb

CONSUMERS = 5000 if LONG else 500
TOPIC = "persistent://public/default/crowd"


def subscribe(number: int, type: ConsumerType) -> pb.CommandSubscribe:
    return pb.CommandSubscribe(
        topic=TOPIC,
        subscription="s",
        subType=type.value,
        consumer_id=number,
        request_id=number,
        consumer_name=f"c{number}",
        force_topic_creation=True,
    )


@pytest.mark.parametrize(
    "type", [ConsumerType.Shared, ConsumerType.KeyShared, ConsumerType.Failover]
)
def test_consumers_that_leave_together(tmp_path: Path, type: ConsumerType) -> None:
    command = limited(memory_bytes=MEMORY_BYTES)
    with BrokerProcess(tmp_path, command=command) as broker, Probe(broker) as probe:
        with Asker(broker.url) as asker:
            answers = asker.ask([subscribe(number, type) for number in range(CONSUMERS)])
            assert all(isinstance(answer, pb.CommandSuccess) for answer in answers), answers[-1]
            for number in range(CONSUMERS):
                asker.send(CommandFlow(number, 1))
        with Asker(broker.url) as after:
            # It is answered when all of them are gone.
            (answer,) = after.ask([subscribe(1, ConsumerType.Exclusive)])
            while isinstance(answer, pb.CommandError):
                (answer,) = after.ask([subscribe(1, ConsumerType.Exclusive)])
            assert isinstance(answer, pb.CommandSuccess)
    probe.check()
