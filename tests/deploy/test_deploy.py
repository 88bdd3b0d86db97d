"""What `deploy/` offers is taken by the programs that it is for, as far as they are here."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from deploy.dashboard import DASHBOARD, queries
from support.broker_process import SERVE, BrokerProcess
from support.requirement import need

from magnetar.admin.metric.declaration import HISTOGRAMS, METRICS
from magnetar.cli.exit_code import REFUSED
from magnetar.cli.serve import READY, STOPPING, notify, plan_of

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
UNIT = DEPLOY / "systemd" / "magnetar.service"
PROMETHEUS = DEPLOY / "prometheus"
POD = list(yaml.safe_load_all((DEPLOY / "kubernetes" / "magnetar.yaml").read_text()))
COMPOSE = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())
# Of systemd-analyze security: 10 is a service without any hardening.
EXPOSURE_MAX = 15  # tenths
PROMTOOL = "install Debian's package: apt-get install prometheus"
METRIC = re.compile(r"\b(?:magnetar|pulsar|process)_[a-z0-9_]+\b")


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """What a command prints; it must end well."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}:\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def program(name: str, how: str) -> str:
    found = shutil.which(name)
    need(name, found is not None, how)
    assert found is not None
    return found


def known_metrics() -> set[str]:
    parts = [f"{name}_{part}" for name, _, _ in HISTOGRAMS for part in ("bucket", "sum", "count")]
    return {*METRICS, *parts}


def test_every_file_is_named_in_the_readme() -> None:
    readme = (DEPLOY / "README.md").read_text()
    files = {p.relative_to(DEPLOY).as_posix() for p in DEPLOY.rglob("*") if p.is_file()}
    named = set(re.findall(r"^\| `([^`]+)`", readme, re.MULTILINE))
    assert named <= files
    helpers = {"README.md", "compose/grafana-source.yaml", "compose/grafana-dashboards.yaml"}
    assert files - named - helpers == {"prometheus/alerts_test.yml"}


# ---- systemd ---------------------------------------------------------------------------


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    analyze = program("systemd-analyze", "install systemd")
    text = UNIT.read_text()
    # Where it is installed is somebody else's machine.
    assert "/opt/magnetar/bin/magnetar serve" in text
    here = tmp_path / UNIT.name
    here.write_text(text.replace("/opt/magnetar/bin/magnetar", shutil.which("true") or "/bin/true"))
    assert run(analyze, "verify", "--man=no", here) == ""


def test_the_unit_is_hardened() -> None:
    analyze = program("systemd-analyze", "install systemd")
    run(analyze, "security", "--offline=true", f"--threshold={EXPOSURE_MAX}", UNIT)


def test_the_unit_and_its_settings_agree() -> None:
    unit = UNIT.read_text()
    settings = (DEPLOY / "systemd" / "magnetar.toml").read_text()
    handed = re.findall(r"^(?:# )?LoadCredential=([\w.]+):", unit, re.MULTILINE)
    read = re.findall(r'"/run/credentials/magnetar.service/([\w.]+)"', settings)
    assert sorted(handed) == sorted(read) != []
    assert f"RestartPreventExitStatus={REFUSED}" in unit
    plan = plan_of(["--config", str(DEPLOY / "systemd" / "magnetar.toml")])
    assert plan.log_format == "json"
    assert plan.settings.authentication


def test_the_service_manager_is_told_of_start_and_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        with BrokerProcess(tmp_path / "data"):
            assert manager.recv(100).decode() == READY
        assert manager.recv(100).decode() == STOPPING


def test_a_socket_without_a_file_is_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("\0magnetar-test-notify")
        manager.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", "@magnetar-test-notify")
        notify(READY)
        assert manager.recv(100).decode() == READY


def test_a_service_manager_that_is_gone_is_no_reason_to_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    notify(READY)
    assert "was not told READY=1" in caplog.text


def test_no_memory_is_both_written_and_run(tmp_path: Path) -> None:
    """What `MemoryDenyWriteExecute` forbids, where the kernel can forbid it here."""
    assert "MemoryDenyWriteExecute=yes" in UNIT.read_text()
    # PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN; it goes on to what is executed.
    forbid = "import ctypes, os, sys; sys.exit(ctypes.CDLL(None).prctl(65, 1, 0, 0, 0) != 0)"
    able = subprocess.run([sys.executable, "-c", forbid], check=False).returncode == 0
    need("MDWE", able, "a Linux of 6.3 or newer")
    start = (
        "import ctypes, os, sys; assert ctypes.CDLL(None).prctl(65, 1, 0, 0, 0) == 0; "
        "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    )
    command = (sys.executable, "-c", start, *SERVE[1:])
    with BrokerProcess(tmp_path / "data", command=command) as broker:
        assert broker.url


# ---- Logs ------------------------------------------------------------------------------


def test_a_log_is_rotated_under_a_broker_that_writes_it(tmp_path: Path) -> None:
    logrotate = program("logrotate", "install Debian's package: apt-get install logrotate")
    text = (DEPLOY / "logrotate" / "magnetar").read_text()
    assert text.count("/var/log/magnetar/*.log") == 1
    log, rules = tmp_path / "magnetar.log", tmp_path / "rules"
    rules.write_text(text.replace("/var/log/magnetar/*.log", str(log)))
    rules.chmod(0o600)
    with log.open("a") as writer:
        writer.write('{"message": "before"}\n')
        writer.flush()
        run(logrotate, "--force", "--state", tmp_path / "state", rules)
        writer.write('{"message": "after"}\n')
    assert log.read_text() == '{"message": "after"}\n'
    assert (tmp_path / "magnetar.log.1").read_text() == '{"message": "before"}\n'


# ---- Prometheus ------------------------------------------------------------------------


def test_promtool_takes_the_rules_and_their_cases() -> None:
    promtool = program("promtool", PROMTOOL)
    run(promtool, "check", "config", "prometheus.yml", cwd=PROMETHEUS)
    run(promtool, "test", "rules", "alerts_test.yml", cwd=PROMETHEUS)


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def test_every_alert_has_a_case_in_which_it_comes_and_one_in_which_it_does_not() -> None:
    tests = yaml.safe_load((PROMETHEUS / "alerts_test.yml").read_text())["tests"]
    cases = [
        (one["alertname"], bool(one["exp_alerts"])) for t in tests for one in t["alert_rule_test"]
    ]
    names = [rule["alert"] for rule in rules()]
    assert sorted(cases) == sorted([(name, comes) for name in names for comes in (True, False)])


def test_alerts_and_panels_ask_for_metrics_that_there_are() -> None:
    asked = [rule["expr"] for rule in rules()] + queries()
    named = {name for text in asked for name in METRIC.findall(text)}
    assert len(named) > 30
    assert named - known_metrics() == set()


# ---- Grafana ---------------------------------------------------------------------------


def test_panels_lie_side_by_side_and_say_what_they_show() -> None:
    cells: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        mine = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not mine & cells, panel["title"]
        assert at["x"] + at["w"] <= 24
        cells |= mine
        assert panel["type"] == "row" or panel["description"].endswith(".")
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    asked = {one["name"] for one in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]\w*)", json.dumps(DASHBOARD["panels"])))
    assert used <= asked


# ---- Containers ------------------------------------------------------------------------


def test_compose_mounts_what_there_is_and_says_what_the_broker_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = DEPLOY / "compose"
    for service in COMPOSE["services"].values():
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            there = (folder / source).exists() if "/" in source else source in COMPOSE["volumes"]
            assert there, volume
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    broker = COMPOSE["services"]["magnetar"]
    assert (folder / broker["build"] / "Dockerfile").exists()
    # What tests are told by the environment is nothing to a container.
    for name in [name for name in os.environ if name.startswith("MAGNETAR_")]:
        monkeypatch.delenv(name)
    for name, value in broker["environment"].items():
        monkeypatch.setenv(name, value)
    plan = plan_of(["--host", "0.0.0.0"])
    assert plan.settings.http_allowed_hosts == ("magnetar",)
    assert plan.notices == []
    scraped = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())["scrape_configs"]
    assert scraped[0]["static_configs"][0]["targets"] == ["magnetar:8080"]


def of_kind(kind: str) -> dict[str, Any]:
    [found] = [one for one in POD if one["kind"] == kind]
    return dict(found)


def test_kubernetes_names_fit_each_other() -> None:
    pod = of_kind("StatefulSet")["spec"]
    container = pod["template"]["spec"]["containers"][0]
    labels = pod["template"]["metadata"]["labels"]
    assert pod["selector"]["matchLabels"] == of_kind("Service")["spec"]["selector"] == labels
    assert pod["serviceName"] == of_kind("Service")["metadata"]["name"]
    assert pod["replicas"] == 1
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    for port in of_kind("Service")["spec"]["ports"]:
        assert ports[port["targetPort"]] == port["port"]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["port"] in ports
    volumes = {volume["name"] for volume in pod["template"]["spec"]["volumes"]}
    volumes |= {claim["metadata"]["name"] for claim in pod["volumeClaimTemplates"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes
    context = container["securityContext"]
    assert context["readOnlyRootFilesystem"]
    assert not context["allowPrivilegeEscalation"]
    # Where the image has its home, and the only place that it may write.
    assert "VOLUME /magnetar" in (ROOT / "Dockerfile").read_text()


def test_kubernetes_schemas_take_the_pod_strictly() -> None:
    validate = program("kubernetes-validate", "pip install kubernetes-validate")
    run(validate, "--strict", DEPLOY / "kubernetes" / "magnetar.yaml")


def test_a_broker_comes_up_with_what_the_pod_is_told_and_is_ready(tmp_path: Path) -> None:
    """Its own settings and arguments, with its volumes here."""
    (tmp_path / "token.key").write_bytes(bytes(range(32)))
    text = of_kind("ConfigMap")["data"]["magnetar.toml"]
    text = text.replace("/etc/magnetar/secret", str(tmp_path)).replace("0.0.0.0", "127.0.0.1")
    (tmp_path / "magnetar.toml").write_text(text)
    container = of_kind("StatefulSet")["spec"]["template"]["spec"]["containers"][0]
    args = [
        one.replace("/etc/magnetar", str(tmp_path)).replace(
            "/magnetar/data", str(tmp_path / "data")
        )
        for one in container["args"]
    ]
    assert args[0] == "serve"
    with BrokerProcess(tmp_path / "data", options=args[1:3]) as broker:
        port = broker.http_url.rpartition(":")[2]
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            answer = httpx.get(f"http://127.0.0.1:{port}{container[probe]['httpGet']['path']}")
            assert answer.status_code == 200
        lines = [line for line in broker.stderr.splitlines() if line]
        assert lines
        assert all({"time", "level", "message"} <= set(json.loads(line)) for line in lines)


def test_kubectl_reads_it(tmp_path: Path) -> None:
    kubectl = program("kubectl", "install kubectl")
    (tmp_path / "kustomization.yaml").write_text("resources: [magnetar.yaml]\n")
    shutil.copy(DEPLOY / "kubernetes" / "magnetar.yaml", tmp_path)
    built = list(yaml.safe_load_all(run(kubectl, "kustomize", tmp_path)))
    assert {one["kind"] for one in built} == {one["kind"] for one in POD}
