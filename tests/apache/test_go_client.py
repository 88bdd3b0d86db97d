"""The Go client's own tests of transactions, against our broker.

Go's modules come with their tests. They are compiled in a copy of the module, whose addresses are
made those of our broker, and run one by one. In the long form alone: to fetch and compile takes
minutes.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from apache.go_client import COMPILE_S, fetch_module, require_go, run
from support.broker_process import BrokerProcess

# What they are run with upstream.
SETTINGS = ("transactions=true", "message_size_max=1048576")
# Some of them wait for the client's own timeouts, of 30 s each.
TEST_S = 150.0

PASS = (
    "TestTxn_RegisterOpAndEndOp",
    "TestTxn_NoTransactionCoordinator",
    "TestTxn_ConsumeAndProduce",
    "TestTxn_AckAndSend",
    "TestTxn_TransactionAbort",
    "TestTxn_AckChunkMessage",
    "TestTxn_ConnReconnect",
    "TestTxn_txnStateErrorMessage",
)
# What they ask for and our broker does not do, and why.
DIFFERENCES = {
    "TestTxn_ImplCommitOrAbort": "an end that is asked for again has the same answer",
    "TestTxn_TCClient": "REST tells of topics by their whole names",
    "TestTxn_RegisterTopic": "REST tells of topics by their whole names",
}


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require_go()
    return tmp_path_factory.mktemp("go")


@pytest.fixture(scope="module")
def fetched(scratch: Path) -> Path:
    """A copy of the module that may be changed."""
    return fetch_module(scratch)


@pytest.fixture(scope="module")
def program(fetched: Path, broker: BrokerProcess) -> Path:
    """Its tests, compiled."""
    helper = fetched / "pulsar" / "helper_for_test.go"
    text = helper.read_text()
    for name, url in (("webServiceURL", broker.http_url), ("webServiceURLTLS", broker.url)):
        text, count = re.subn(rf'(\b{name} *= )"[^"]*"', rf'\1"{url}"', text)
        assert count == 1, f"there is no {name}"
    helper.write_text(text)
    made = fetched / "transactions.test"
    run(["go", "test", "-c", "-vet=off", "-o", str(made), "./pulsar"], COMPILE_S, fetched)
    return made


@pytest.fixture(scope="module")
def broker(scratch: Path) -> Iterator[BrokerProcess]:
    options = [word for setting in SETTINGS for word in ("--set", setting)]
    with BrokerProcess(scratch / "data", options=options) as broker:
        yield broker


def passes(program: Path, name: str) -> bool:
    command = [str(program), "-test.run", f"^{name}$", "-test.v"]
    folder = program.parent / "pulsar"
    ran = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=TEST_S, check=False
    )
    assert name in ran.stdout, f"there is no test {name}:\n{ran.stderr[-2000:]}"
    return ran.returncode == 0


def test_all_of_its_tests_of_transactions_are_named_here(fetched: Path) -> None:
    text = (fetched / "pulsar" / "transaction_test.go").read_text()
    assert set(re.findall(r"^func (Test\w+)", text, re.MULTILINE)) == {*PASS, *DIFFERENCES}


@pytest.mark.parametrize("name", PASS)
def test_a_test_of_the_go_client_passes(program: Path, name: str) -> None:
    assert passes(program, name)


@pytest.mark.parametrize("name", DIFFERENCES)
def test_what_differs_is_known(program: Path, name: str) -> None:
    assert not passes(program, name), f"{DIFFERENCES[name]}: no longer so, it seems"
