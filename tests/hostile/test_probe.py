"""The probe itself: it sees a broker that stops, and one that does not."""

import os
import signal
import threading
from pathlib import Path

import pytest
from hostile.limited import limited
from hostile.probe import Probe
from support.broker_process import BrokerProcess


def test_a_broker_that_nobody_attacks_is_quick_and_fits_into_the_limit(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, command=limited(memory_bytes=256 << 20)) as broker:
        with Probe(broker) as probe:
            threading.Event().wait(1.0)
        probe.check()


def test_a_broker_that_stops_is_noticed(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        with Probe(broker) as probe:
            os.kill(broker.pid, signal.SIGSTOP)
            # Far longer than what is taken off when the machine is busy with other things.
            threading.Event().wait(4.0)
            os.kill(broker.pid, signal.SIGCONT)
        with pytest.raises(AssertionError, match="longest gap"):
            probe.check()
