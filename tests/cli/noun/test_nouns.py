"""Every verb of every noun, against a real broker; the last test finds those left out."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.broker_cli import BrokerCli
from typer.models import CommandInfo

import magnetar
from magnetar.broker.setting.settings import BrokerSettings
from magnetar.cli.app import app
from magnetar.cli.noun.policies import POLICIES, Policy
from magnetar.testing.embedded import EmbeddedBroker

NAMESPACE = "public/default"
# They are tested elsewhere.
OTHERS = frozenset(
    {
        "backup",
        "check",
        "consume",
        "dump",
        "migrate",
        "peek",
        "produce",
        "restore",
        "serve",
        "status",
        "subscriptions skip-messages",
        "top",
        "topics skip-messages",
    }
)
# test_rates.py runs these.
RATES = ("publish-rate", "dispatch-rate", "subscription-dispatch-rate", "subscribe-rate")
ELSEWHERE = {
    *(
        f"{n} {v}-{r}"
        for n in ("topics", "namespaces")
        for v in ("get", "set", "remove")
        for r in RATES
    ),
    *(f"namespaces {v}-resource-group" for v in ("get", "set", "remove")),
}
OTHER_NOUNS = ("resourcegroups", "pipeline", "profiles", "tokens")


@pytest.fixture(scope="module")
def cli() -> Iterator[BrokerCli]:
    """Of a broker of its own: it changes the policies of everybody's namespace."""
    with EmbeddedBroker(BrokerSettings(transactions=True)) as broker:
        yield BrokerCli(broker.url, broker.http_url)


def test_tenants(cli: BrokerCli) -> None:
    assert cli.ok("tenants", "create", "shop", "-r", "boss,clerk") == "created tenant shop\n"
    assert "shop" in cli.ok("tenants", "list").splitlines()
    assert "shop" in json.loads(cli.ok("tenants", "list", "--json"))
    found = json.loads(cli.ok("tenants", "get", "shop", "--json"))
    assert sorted(found["adminRoles"]) == ["boss", "clerk"]
    assert found["allowedClusters"] == ["standalone"]
    cli.ok("tenants", "update", "shop", "-r", "owner")
    assert "owner" in cli.ok("tenants", "get", "shop")
    assert json.loads(cli.ok("tenants", "get", "shop", "--json"))["allowedClusters"]
    cli.ok("tenants", "delete", "shop")
    ran = cli.run("tenants", "get", "shop")
    assert (ran.code, ran.out) == (5, "")
    assert ran.err.startswith("magnetar: ")
    assert ran.err.endswith("(HTTP 404)\n")


def test_clusters_and_brokers(cli: BrokerCli) -> None:
    address = cli.admin_url.partition("://")[2]
    assert cli.ok("clusters", "list") == "standalone\n"
    assert cli.url in cli.ok("clusters", "get", "standalone")
    assert cli.ok("brokers", "list") == f"{address}\n"
    assert cli.ok("brokers", "list", "standalone") == f"{address}\n"
    assert cli.ok("brokers", "healthcheck") == "ok\n"
    assert cli.ok("brokers", "version").strip()
    assert address in cli.ok("brokers", "leader-broker")
    assert "clusterName" in json.loads(cli.ok("brokers", "get-runtime-config", "--json"))


def test_namespaces(cli: BrokerCli) -> None:
    cli.ok("namespaces", "create", "public/more")
    assert "public/more" in cli.ok("namespaces", "list", "public").splitlines()
    cli.ok("topics", "create", "persistent://public/more/t")
    assert cli.ok("namespaces", "topics", "public/more") == "persistent://public/more/t\n"
    assert isinstance(json.loads(cli.ok("namespaces", "policies", "public/more", "--json")), dict)
    cli.ok("topics", "create-subscription", "persistent://public/more/t", "-s", "sub")
    cli.ok("produce", "persistent://public/more/t", "-m", "a")
    assert cli.run("namespaces", "clear-backlog", "public/more", input="n\n").code == 1
    assert cli.ok("peek", "persistent://public/more/t", "-s", "sub")
    cli.ok("namespaces", "clear-backlog", "public/more", "-f")
    cli.ok("namespaces", "clear-backlog", "public/more", "-s", "sub", input="y\n")
    assert cli.ok("peek", "persistent://public/more/t", "-s", "sub") == ""
    cli.ok("namespaces", "unload", "public/more")
    cli.ok("namespaces", "unsubscribe", "public/more", "-s", "sub")
    assert cli.ok("subscriptions", "list", "persistent://public/more/t") == ""
    assert cli.run("namespaces", "delete", "public/more").code == 6
    cli.ok("namespaces", "delete", "public/more", "--force")
    assert cli.run("namespaces", "policies", "public/more").code == 5
    for command in (["namespaces", "create"], ["topics", "list"]):
        ran = cli.run(*command, "more")
        assert (ran.code, ran.err) == (
            2,
            "magnetar: namespace: 'more' is not a namespace: write it as tenant/namespace\n",
        )


def test_transactions(cli: BrokerCli) -> None:
    topic = "persistent://public/default/bills"
    assert cli.ok("transactions", "list") == "no transaction is open\n"
    with magnetar.Client(cli.url) as client:
        consumer = client.subscribe(topic, "audit")
        producer = client.create_producer(topic)
        at = producer.send(b"in")
        txn, other = client.transaction(timeout=90), client.transaction()
        producer.send(b"out", transaction=txn)
        consumer.acknowledge(consumer.receive(30_000), transaction=txn)
        most, least = txn.id.strip("()").split(",")
        names = ["-m", most, "-l", least]
        table = cli.ok("transactions", "list")
        (line,) = [line for line in table.splitlines() if txn.id in line]
        assert line.split()[1] == "OPEN"
        assert set(json.loads(cli.ok("transactions", "list", "--json"))) == {txn.id, other.id}
        assert cli.ok("transactions", "list", "--open-for", "1h") == "no transaction is open\n"
        for written in (txn.id, f"{most}:{least}"):
            shown = cli.ok("transactions", "show", written)
            assert "OPEN" in shown
            assert topic in shown
            assert f"{topic}, audit" in shown
        metadata = json.loads(cli.ok("transactions", "transaction-metadata", *names, "--json"))
        assert metadata == json.loads(cli.ok("transactions", "show", txn.id, "--json"))
        slow = json.loads(cli.ok("transactions", "slow-transactions", "-t", "0", "--json"))
        assert slow[txn.id] == metadata
        assert cli.url in cli.ok("transactions", "coordinators-list", "--json")
        stats = json.loads(cli.ok("transactions", "coordinator-stats", "-c", "0", "--json"))
        assert stats["ongoingTxnSize"] == 2
        verb = "transaction-buffer-stats"
        found = json.loads(cli.ok("transactions", verb, topic, "-l", "--json"))
        assert (found["ongoingTxnSize"], set(found["lowWaterMarks"])) == (1, {"0"})
        verb = "transaction-in-buffer-stats"
        found = json.loads(cli.ok("transactions", verb, topic, *names, "--json"))
        assert found["startPosition"] == f"{at.ledger_id()}:{at.entry_id() + 1}"
        of_sub = [topic, "-s", "audit"]
        found = json.loads(cli.ok("transactions", "pending-ack-stats", *of_sub, "--json"))
        assert found["ongoingTxnSize"] == 1
        verb = "transaction-in-pending-ack-stats"
        found = json.loads(cli.ok("transactions", verb, *of_sub, *names, "--json"))
        assert found == {"cumulativeAckPosition": None}
        verb = "position-stats-in-pending-ack"
        place = ["-l", str(at.ledger_id()), "-e", str(at.entry_id())]
        assert "PendingAck" in cli.ok("transactions", verb, *of_sub, *place)
        assert cli.ok("transactions", "abort", txn.id) == f"aborted transaction {txn.id}\n"
        assert "ABORTED" in cli.ok("transactions", "show", txn.id)
        most, least = other.id.strip("()").split(",")
        cli.ok("transactions", "abort-transaction", "-m", most, "-l", least, "-y")
    ran = cli.run("transactions", "show", "0:1")
    assert (ran.code, "no transaction (0,1)" in ran.err) == (5, True)
    for wrong in (["show", "17"], ["abort", "a:b"], ["list", "--open-for", "-1"]):
        ran = cli.run("transactions", *wrong)
        assert (ran.code, ran.out) == (2, ""), wrong


def test_permissions(cli: BrokerCli) -> None:
    cli.ok("namespaces", "create", "public/guarded")
    topic = "persistent://public/guarded/t"
    cli.ok("topics", "create", topic)
    given = ["--role", "clerk", "--actions", "produce, consume"]
    cli.ok("namespaces", "grant-permission", "public/guarded", *given)
    found = json.loads(cli.ok("namespaces", "permissions", "public/guarded", "--json"))
    assert sorted(found["clerk"]) == ["consume", "produce"]
    cli.ok("topics", "grant-permission", topic, "--role", "boss", "--actions", "skip")
    assert "boss" in cli.ok("topics", "permissions", topic)
    cli.ok("topics", "revoke-permission", topic, "--role", "boss")
    assert "boss" not in cli.ok("topics", "permissions", topic)
    cli.ok("namespaces", "revoke-permission", "public/guarded", "--role", "clerk")
    assert json.loads(cli.ok("namespaces", "permissions", "public/guarded", "--json")) == {}
    of_one = ["public/guarded", "-s", "sub"]
    cli.ok("namespaces", "grant-subscription-permission", *of_one, "--roles", "clerk,boss")
    assert "sub" in cli.ok("namespaces", "subscription-permission", "public/guarded")
    cli.ok("namespaces", "revoke-subscription-permission", *of_one, "--role", "clerk")
    found = json.loads(cli.ok("namespaces", "subscription-permission", "public/guarded", "--json"))
    assert found == {"sub": ["boss"]}
    ran = cli.run("namespaces", "grant-permission", *given, "public/guarded", "--actions", "fly")
    assert ran.code == 2


def test_topics_come_and_go(cli: BrokerCli) -> None:
    cli.ok("topics", "create", "come", "-m", "owner=me")
    assert "persistent://public/default/come" in cli.ok("topics", "list", NAMESPACE).splitlines()
    assert json.loads(cli.ok("topics", "get-properties", "come", "--json")) == {"owner": "me"}
    assert cli.run("topics", "create", "come").code == 6
    assert cli.ok("topics", "lookup", "come").startswith("pulsar://")
    assert "brokerUrl" in json.loads(cli.ok("topics", "lookup", "come", "--json"))
    cli.ok("topics", "unload", "come")
    cli.ok("topics", "delete", "come")
    assert cli.run("topics", "stats", "come").code == 5
    assert cli.run("topics", "delete", "come").code == 5


def test_partitioned_topics(cli: BrokerCli) -> None:
    cli.ok("topics", "create-partitioned-topic", "parts", "-p", "2", "-m", "a=b")
    listed = cli.ok("topics", "list-partitioned-topics", NAMESPACE)
    assert listed == "persistent://public/default/parts\n"
    cli.ok("topics", "update-partitioned-topic", "parts", "-p", "3")
    found = cli.ok("topics", "get-partitioned-topic-metadata", "parts", "--json")
    assert json.loads(found)["partitions"] == 3
    cli.ok("topics", "create-subscription", "parts", "-s", "sub")
    cli.ok("produce", "parts", "-m", "x", "-n", "6", "-db")
    stats = json.loads(cli.ok("topics", "partitioned-stats", "parts", "--json"))
    assert stats["subscriptions"]["sub"]["msgBacklog"] == 6
    shown = cli.ok("topics", "partitioned-stats", "parts", "--per-partition")
    assert "parts-partition-2" in shown
    assert "persistent://public/default/parts-partition-1" in cli.ok(
        "topics", "partitioned-stats-internal", "parts"
    )
    assert "partition 2" in cli.ok("topics", "peek-messages", "parts", "-s", "sub", "-n", "9")
    assert cli.ok("topics", "partitioned-terminate", "parts").strip()
    cli.ok("topics", "delete-partitioned-topic", "parts")
    assert "parts" not in cli.ok("topics", "list", NAMESPACE)


def test_what_is_in_a_topic(cli: BrokerCli) -> None:
    cli.ok("topics", "create", "stock")
    cli.ok("topics", "create-subscription", "stock", "-s", "sub")
    cli.ok("produce", "stock", "-m", "a", "-m", "b", "-m", "c")
    cli.ok("produce", "stock", "-m", "d", "-db", "-k", "key", "-p", "p=q")
    stats = cli.ok("topics", "stats", "stock", "-gpb", "-sbs", "-etb")
    assert "sub" in stats
    assert json.loads(cli.ok("topics", "stats", "stock", "--json"))["msgInCounter"] == 4
    last = cli.ok("topics", "last-message-id", "stock").strip()
    ledger = last.partition(":")[0]
    assert last == f"{ledger}:1"
    assert json.loads(cli.ok("topics", "last-message-id", "stock", "--json"))["entryId"] == 1
    internal = cli.ok("topics", "stats-internal", "stock")
    assert ledger in internal
    assert "sub" in internal
    assert json.loads(cli.ok("topics", "stats-internal", "stock", "--json"))["numberOfEntries"] == 2
    assert json.loads(cli.ok("topics", "info-internal", "stock"))
    assert cli.ok("topics", "get-message-id", "stock", "-d", "0").strip() == f"{ledger}:0"
    assert cli.run("topics", "get-message-id", "stock", "-d", "soon").code == 2
    whole = int(cli.ok("topics", "get-backlog-size", "stock", "-m", "earliest"))
    assert 0 < int(cli.ok("topics", "get-backlog-size", "stock", "-m", f"{ledger}:1")) < whole
    found = cli.ok("topics", "get-message-by-id", "stock", "-l", ledger, "-e", "0").splitlines()
    assert found[1::2] == ["a", "b", "c"]
    assert found[0].startswith(f"----- {ledger}:0:0  ")
    shown = cli.ok("topics", "examine-messages", "stock", "-i", "latest", "-m", "1")
    assert "key key  p=q\nd\n" in shown
    assert cli.run("topics", "examine-messages", "stock", "-m", "9").code == 5
    assert cli.ok("topics", "compaction-status", "stock") == "not compacted yet\n"
    assert cli.ok("topics", "compact", "stock") == "compacting stock\n"
    assert cli.ok("topics", "compaction-status", "-w", "stock") == "compacted\n"
    status = json.loads(cli.ok("topics", "compaction-status", "stock", "--json"))
    assert status == {"status": "SUCCESS", "lastError": ""}
    cli.ok("topics", "delete-compacted-view", "stock")
    assert cli.ok("topics", "compaction-status", "stock") == "not compacted yet\n"
    assert cli.ok("topics", "terminate", "stock").strip() == last
    assert cli.run("produce", "stock", "-m", "late").code == 6
    cli.ok("topics", "trim-topic", "stock")
    cli.ok("topics", "truncate", "stock")
    assert cli.ok("topics", "peek-messages", "stock", "-s", "sub") == ""


@pytest.mark.parametrize("noun", ["topics", "subscriptions"])
def test_subscriptions(cli: BrokerCli, noun: str) -> None:
    """The same verbs, under the names that pulsar-admin has and by themselves."""
    topic = f"on-{noun}"
    own = noun == "subscriptions"

    def verb(name: str, topics_name: str, *arguments: str) -> str:
        return cli.ok(noun, name if own else topics_name, topic, *arguments)

    cli.ok("topics", "create", topic)
    verb("create", "create-subscription", "-s", "a/b", "-m", "earliest", "-p", "who=me")
    assert verb("list", "subscriptions") == "a/b\n"
    assert "who" in verb("get-properties", "get-subscription-properties", "-s", "a/b")
    verb("update-properties", "update-subscription-properties", "-s", "a/b", "-p", "x=y")
    found = verb("get-properties", "get-subscription-properties", "-s", "a/b", "--json")
    assert json.loads(found) == {"x": "y"}
    update = "update-properties" if own else "update-subscription-properties"
    assert cli.run(noun, update, topic, "-s", "a/b").code == 2
    verb("update-properties", "update-subscription-properties", "-s", "a/b", "--clear")

    cli.ok("produce", topic, "-m", "0", "-m", "1", "-m", "2", "-m", "3", "-m", "4", "-db")

    def left() -> list[str]:
        return verb("peek", "peek-messages", "-s", "a/b", "-n", "9").splitlines()[1::2]

    assert left() == ["0", "1", "2", "3", "4"]
    refused = cli.run(noun, "skip-damaged", topic, "-s", "a/b")
    assert (refused.code, "not stuck at a damaged entry" in refused.err) == (6, True)
    verb("skip", "skip", "-s", "a/b", "-n", "2")
    assert left() == ["2", "3", "4"]
    ledger = cli.ok("topics", "last-message-id", topic).partition(":")[0]
    verb("expire-messages", "expire-messages", "-s", "a/b", "-p", f"{ledger}:3", "-e")
    assert left() == ["3", "4"]
    verb("reset-cursor", "reset-cursor", "-s", "a/b", "-m", f"{ledger}:1")
    assert left() == ["1", "2", "3", "4"]
    verb("reset-cursor", "reset-cursor", "-s", "a/b", "-m", f"{ledger}:1", "-e")
    assert left() == ["2", "3", "4"]
    verb("reset-cursor", "reset-cursor", "-s", "a/b", "-t", "1h")
    assert left() == ["0", "1", "2", "3", "4"]
    verb("expire-messages", "expire-messages", "-s", "a/b", "-t", "1h")
    assert left() == ["0", "1", "2", "3", "4"]
    if not own:
        cli.ok("topics", "expire-messages-all-subscriptions", topic, "-t", "1h")
    assert f"acked up to {ledger}:-1" in verb("ack-state", "ack-state", "-s", "a/b")
    verb("clear-backlog", "clear-backlog", "-s", "a/b")
    found = json.loads(verb("ack-state", "ack-state", "-s", "a/b", "--json"))
    assert (found["msgBacklog"], found["holes"], found["batches"]) == (0, [], [])
    assert left() == []
    verb("delete", "unsubscribe", "-s", "a/b")
    assert verb("list", "subscriptions") == ""
    for both in (["-t", "1", "-m", "1:1"], []):
        assert cli.run(noun, "reset-cursor", topic, "-s", "a/b", *both).code == 2
    for both in (["-t", "1", "-p", "1:1"], []):
        assert cli.run(noun, "expire-messages", topic, "-s", "a/b", *both).code == 2


def test_peek_makes_no_subscription(cli: BrokerCli) -> None:
    cli.ok("topics", "create", "peeked")
    ran = cli.run("subscriptions", "peek", "peeked", "-s", "nobody")
    assert (ran.code, ran.out) == (5, "")
    assert cli.ok("subscriptions", "list", "peeked") == ""


def test_schemas(cli: BrokerCli, tmp_path: Path) -> None:
    cli.ok("topics", "create", "typed")
    file = tmp_path / "schema.json"

    def write(*fields: dict[str, object]) -> None:
        schema = {"type": "record", "name": "R", "fields": list(fields)}
        file.write_text(json.dumps({"type": "AVRO", "schema": schema}))

    write({"name": "a", "type": "string"})
    assert "version 0" in cli.ok("schemas", "upload", "typed", "-f", file)
    write({"name": "a", "type": "string"}, {"name": "b", "type": "int", "default": 0})
    assert cli.run("schemas", "compatibility", "typed", "-f", file).code == 0
    assert json.loads(cli.ok("schemas", "upload", "typed", "-f", file, "--json"))
    assert json.loads(cli.ok("schemas", "get", "typed", "--json"))["version"] == 1
    assert json.loads(cli.ok("schemas", "get", "typed", "-v", "0", "--json"))["version"] == 0
    assert cli.ok("schemas", "get", "typed", "-a").count("AVRO") == 2
    write({"name": "a", "type": "int"})
    assert cli.run("schemas", "compatibility", "typed", "-f", file).code == 1
    assert cli.run("schemas", "upload", "typed", "-f", file).code == 6
    assert cli.run("schemas", "upload", "typed", "-f", tmp_path / "none").code == 2
    file.write_text("[1]")
    ran = cli.run("schemas", "upload", "typed", "-f", file)
    assert (ran.code, 'it is not a JSON object with "type" and "schema"' in ran.err) == (2, True)
    cli.ok("schemas", "delete", "typed")
    assert cli.run("schemas", "get", "typed").code == 5


def test_no_limit_is_minus_one_alone(cli: BrokerCli) -> None:
    """The broker takes any number below 0 for it, so that a slip would keep everything for ever."""
    for words in (["-t", "-5", "-s", "1M"], ["-t", "1h", "-s", "-1000"]):
        ran = cli.run("namespaces", "set-retention", "public/default", *words)
        assert (ran.code, " is not a " in ran.err) == (2, True)
    cli.ok("namespaces", "set-retention", "public/default", "-t", "-1", "-s", "-1")
    cli.ok("namespaces", "remove-retention", "public/default")


VALUES: dict[str, list[str]] = {
    "retention": ["-t", "2h", "-s", "10M"],
    "backlog-quota": ["-p", "producer_exception", "-l", "1G"],
    "delayed-delivery": ["--enable", "-t", "1s"],
    "subscription-types-enabled": ["-t", "Shared,Key_Shared"],
    "inactive-topic-policies": ["-e", "-t", "60s", "-m", "delete_when_no_subscriptions"],
    "auto-topic-creation": ["--enable", "-t", "partitioned", "-n", "2"],
    "auto-subscription-creation": ["--disable"],
    "schema-compatibility-strategy": ["-c", "FORWARD"],
    "message-ttl": ["-ttl", "60"],
    "compaction-threshold": ["-t", "100M"],
}
SHOWN: dict[str, object] = {
    "retention": {"retentionTimeInMinutes": 120, "retentionSizeInMB": 10},
    "message-ttl": 60,
    "subscription-types-enabled": ["Shared", "Key_Shared"],
    "schema-compatibility-strategy": "FORWARD",
    "deduplication": True,
    "max-producers": 7,
    "compaction-threshold": 100 << 20,
}


OF_TOPICS = [("topics", policy) for policy in POLICIES if policy.topic]
OF_NAMESPACES = [("namespaces", policy) for policy in POLICIES if policy.namespace]


@pytest.mark.parametrize(
    ("noun", "found"),
    OF_TOPICS + OF_NAMESPACES,
    ids=lambda value: value.name if isinstance(value, Policy) else value,
)
def test_policies(cli: BrokerCli, noun: str, found: Policy) -> None:
    of_topics = noun == "topics"
    name = found.name if of_topics else found.namespace_name or found.name
    if of_topics:
        target = f"policy-{found.name}"
        cli.ok("topics", "create", target)
    else:
        target = f"public/{found.name}"
        cli.ok("namespaces", "create", target)
    default = {"number": [found.options[-1], "7"] if found.options else [], "flag": ["--enable"]}
    cli.ok(noun, f"set-{name}", target, *(VALUES.get(found.name) or default[found.kind]))
    shown = json.loads(cli.ok(noun, f"get-{name}", target, "--json"))
    assert shown is not None
    if found.name in SHOWN:
        expected = SHOWN[found.name]
        assert (
            sorted(shown) == sorted(expected) if isinstance(expected, list) else shown == expected
        )
    assert cli.ok(noun, f"get-{name}", target, "--applied").strip()
    cli.ok(noun, f"remove-{name}", target)
    left = json.loads(cli.ok(noun, f"get-{name}", target, "--json"))
    # Some Apache Pulsar tells though nobody told them, and so does the broker.
    assert left in (None, {}, [], False, "UNDEFINED")


def test_a_flag_is_on_or_off(cli: BrokerCli) -> None:
    cli.ok("topics", "create", "flag")
    for given in ([], ["--enable", "--disable"]):
        ran = cli.run("topics", "set-deduplication", "flag", *given)
        assert (ran.code, "either" in ran.err) == (2, True)


def _name(command: CommandInfo) -> str:
    assert command.callback is not None
    return command.name or command.callback.__name__


def test_every_verb_was_run(cli: BrokerCli) -> None:
    """Comes last; run by itself it has nothing to say."""
    if len(cli.seen) < 20:
        pytest.skip("the other tests of this file were not run")
    verbs = {_name(command) for command in app.registered_commands}
    for group in app.registered_groups:
        assert group.typer_instance is not None
        if group.name in OTHER_NOUNS:
            continue
        for command in group.typer_instance.registered_commands:
            verbs.add(f"{group.name} {_name(command)}")
    assert verbs - cli.seen - OTHERS - ELSEWHERE == set()
