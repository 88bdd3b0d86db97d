"""Clients between two brokers: nothing is lost, and no id names two messages."""

import pytest
from sim.failover_life import count_facts, run_seed

from magnetar.testing.checker.history import AckKept, Received, Stored

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.mark.parametrize("seed", range(6))
def test_what_has_a_receipt_of_either_broker_is_handed_out(seed: int) -> None:
    count = count_facts(seed)
    assert count[Stored] > 20
    assert count[Received] > 20
    assert count[AckKept] > 20


def test_clients_go_to_both_brokers_and_come_back() -> None:
    trace = run_seed(0).loop.trace.text()
    ports = [line.split()[-1] for line in trace.splitlines() if " connects to " in line]
    moves = [port for port, before in zip(ports[1:], ports, strict=False) if port != before]
    assert {"6650", "6651"} == set(moves)
    assert len(moves) > 3
