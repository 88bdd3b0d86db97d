"""pulsar-admin and Java clients with tokens, against a broker that asks who they are."""

from collections.abc import Iterator

import pytest
from apache.harness import AGAINST_APACHE, perf, require_artifacts
from apache.test_admin_verbs import run
from support.broker_process import BrokerProcess
from support.tokens import SECRET_SETTING, token

pytestmark = pytest.mark.skipif(AGAINST_APACHE, reason="about the settings of our broker")

N = "acme/n"
T = f"persistent://{N}/t"
PLUGIN = "org.apache.pulsar.client.impl.auth.AuthenticationToken"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    require_artifacts()
    settings = (
        "authentication=true",
        f"token_secret_key={SECRET_SETTING}",
        "super_user_roles=root",
    )
    options = [word for setting in settings for word in ("--set", setting)]
    with BrokerProcess(tmp_path_factory.mktemp("data"), options=options) as broker:
        yield broker


def as_role(role: str) -> tuple[str, ...]:
    return "--auth-plugin", PLUGIN, "--auth-params", f"token:{token(role)}"


def test_roles_and_permissions_with_apache_s_own_tools(broker: BrokerProcess) -> None:
    steps = [
        ("stranger", "tenants list", "not authorized"),
        ("root", "tenants create acme --admin-roles boss", None),
        ("boss", "tenants list", "not authorized"),
        ("boss", f"namespaces create {N}", None),
        (
            "boss",
            f"namespaces grant-permission {N} --role worker --actions produce,consume",
            None,
        ),
        ("boss", f"topics grant-permission {T} --role other --actions consume", None),
        (
            "boss",
            f"namespaces grant-subscription-permission {N} --subscription s --roles worker",
            None,
        ),
        ("worker", f"namespaces permissions {N}", "not authorized"),
        ("boss", f"namespaces policies {N}", None),
        ("boss", f"topics revoke-permission {T} --role other", None),
        ("boss", f"topics permissions {T}", None),
    ]
    commands = [" ".join([*as_role(role), command]) for role, command, _ in steps]
    results = run(broker, commands)
    for (role, command, refusal), (well, said) in zip(steps, results, strict=True):
        assert well == (refusal is None), f"{role}: {command}: {said}"
        assert refusal is None or refusal in said
    policies, permissions = results[8][1], results[10][1]
    for granted in ("worker", "other", "produce", "consume", T):
        assert granted in policies
    assert "worker" in permissions
    assert "other" not in permissions
    sent = perf(broker, "produce", T, "-m", "1000", "-r", "10000", *as_role("worker"))
    assert sent.total >= 1000
