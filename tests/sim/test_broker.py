"""The real broker under crashes and cut connections keeps what it promised its clients."""

import pytest
from sim.broker_life import run_seed
from sim.lying_disk import is_found


@pytest.mark.parametrize("seed", range(20))
def test_a_broker_keeps_its_promises_through_crashes(seed: int) -> None:
    _, oracle = run_seed(seed)
    assert len(oracle.receipted) > 20
    assert len(oracle.acked) > 20


def test_a_broker_that_answers_before_its_data_are_durable_is_found() -> None:
    assert is_found(run_seed, range(10))
