"""The real broker and the real client under a seed: no invariant is violated.

MAGNETAR_SIM_SEEDS says how many seeds; a failing one is repeated by `make sim SEED=n`.
"""

import os

import pytest
from sim.life import count_facts, run_seed
from sim.lying_disk import is_found
from sim.scenario import draw
from sim.vandal import HELLO, rubbish

from magnetar.errors import ProtocolError
from magnetar.protocol import Connection
from magnetar.testing import KINDS, SimLoop
from magnetar.testing.checker.history import Received, Stored

SEEDS = int(os.environ.get("MAGNETAR_SIM_SEEDS", "50"))
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


# What these found is mended, and each stays what it was as long as the workload does:
# 519  a subscribe of several partitions failed, and left one behind that was reconnecting
# 566  an ack of a message in chunks failed, and the next one named only its first and last
# 1664 a cumulative ack that was given again spared a message in chunks that had been taken
# 1969 an entry was shown that another ack of the same group of the journal had acked
MENDED = [519, 566, 1664, 1969]


@pytest.mark.parametrize("seed", sorted({*range(SEEDS), *MENDED}))
def test_no_invariant_is_violated(seed: int) -> None:
    count = count_facts(seed)
    assert count[Stored] > 3
    assert count[Received] > 3


def test_a_broker_that_answers_before_its_data_are_durable_is_found() -> None:
    assert is_found(run_seed, range(40))


def test_the_seeds_bring_every_kind_of_trouble_and_of_program() -> None:
    scenarios = [draw(SimLoop(seed).random_for("scenario")) for seed in range(200)]
    assert {kind for scenario in scenarios for kind in scenario.kinds} == set(KINDS)
    plans = [plan for scenario in scenarios for plan in scenario.subscriptions]
    assert len({(plan.type, plan.acks, plan.receipts) for plan in plans}) == 20
    producers = [plan for scenario in scenarios for plan in scenario.producers]
    assert {plan.batching for plan in producers} == {"none", "default", "key", "chunks"}
    assert any(scenario.skips for scenario in scenarios)
    assert any(scenario.vandal for scenario in scenarios)


def test_a_vandal_says_no_protocol_nearly_one_and_half_of_one() -> None:
    random = SimLoop(1).random_for("vandal")
    endings: set[tuple[bool, str]] = set()
    for _ in range(200):
        connection = Connection()
        said = rubbish(random)
        greeted = said.startswith(HELLO)
        try:
            connection.receive_data(said)
            while connection.next_command() is not None:
                pass
            endings.add((greeted, "waits"))
        except ProtocolError:
            endings.add((greeted, "wrong"))
    assert endings == {(True, "waits"), (True, "wrong"), (False, "waits"), (False, "wrong")}
