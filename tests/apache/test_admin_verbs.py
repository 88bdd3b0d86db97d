"""The verbs of pulsar-admin that operators use, each run by Apache's own tool.

One JVM does them all, for to start one takes longer than a dozen verbs.
"""

import base64
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulsar
from apache.artifacts import HERE
from apache.harness import Broker, java

ADMIN = HERE / "java" / "Admin.java"

Check = Callable[[str], object]
# A command, and what must be true of what it says; None if it must be refused.
Verb = tuple[str, Check | None]


def run(broker: Broker, commands: list[str]) -> list[tuple[bool, str]]:
    """Runs commands in order: whether each went well, and what it said."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("".join("\t".join(command.split()) + "\n" for command in commands))
        file.flush()
        output = java(ADMIN, broker.http_url, broker.url, file.name)
    results: list[tuple[bool, str]] = []
    for line in output.splitlines():
        well, _, said = line.partition(" ")
        if well in ("true", "false"):
            results.append((well == "true", base64.b64decode(said).decode()))
    assert len(results) == len(commands), output[-2000:]
    return results


def parsed(said: str) -> Any:
    return json.loads(said[min(i for i in (said.find("{"), said.find("[")) if i >= 0) :])


def well(said: str) -> bool:
    """Whatever it says, as long as it is done."""
    return True


def says(text: str) -> Check:
    return lambda said: text in said


def says_not(text: str) -> Check:
    return lambda said: text not in said


def has(**fields: object) -> Check:
    """JSON with these fields, among others."""
    return lambda said: parsed(said).items() >= fields.items()


def backlog(count: int, subscription: str = "s") -> Check:
    return lambda said: parsed(said)["subscriptions"][subscription]["msgBacklog"] == count


def tenants_and_namespaces() -> list[Verb]:
    return [
        ("clusters list", says("standalone")),
        ("brokers healthcheck", says("ok")),
        ("brokers version", well),
        ("brokers leader-broker", says("127.0.0.1")),
        ("brokers get-runtime-config", says("maxMessageSize")),
        ("tenants create acme -c standalone -r boss", well),
        ("tenants get acme", has(adminRoles=["boss"])),
        ("tenants update acme -r chief", well),
        ("tenants list", says("acme")),
        ("tenants get missing", None),
        ("namespaces create acme/orders", well),
        ("namespaces create acme/orders", None),
        ("namespaces list acme", says("acme/orders")),
        ("namespaces set-message-ttl acme/orders --messageTTL 60", well),
        ("namespaces get-message-ttl acme/orders", lambda said: said.strip() == "60"),
        ("namespaces set-retention acme/orders --time 10m --size 1G", well),
        ("namespaces get-retention acme/orders", has(retentionTimeInMinutes=10)),
        ("namespaces set-deduplication acme/orders --enable", well),
        ("namespaces get-deduplication acme/orders", says("true")),
        ("namespaces policies acme/orders", has(message_ttl_in_seconds=60)),
        ("namespaces topics acme/orders", says_not("acme")),
        ("namespaces unload acme/orders", well),
        ("namespaces clear-backlog acme/orders --force", well),
        ("namespaces delete acme/orders", well),
        ("tenants delete acme", well),
        ("tenants list", says_not("acme")),
    ]


def topics(topic: str, ledger: int, url: str) -> list[Verb]:
    """On a topic with ten messages that `s` has not acked, nor `other` any."""
    stats = f"topics stats {topic}"
    return [
        ("topics list public/default", says(topic)),
        (f"topics create {topic}", None),
        (f"topics create {topic}-new", well),
        (f"topics delete {topic}-new", well),
        (f"topics lookup {topic}", says(url)),
        (f"topics create-subscription {topic} -s other -m latest", well),
        (f"topics create-subscription {topic} -s s", None),
        (f"topics subscriptions {topic}", lambda said: sorted(said.split()) == ["other", "s"]),
        (f"topics peek-messages {topic} -s s -n 2", says("message 1")),
        (f"topics skip {topic} -s s -n 3", well),
        (f"topics skip {topic} -s missing -n 3", None),
        (f"{stats} -gpb -etb", backlog(7)),
        (stats, backlog(0, "other")),
        (f"topics reset-cursor {topic} -s s -m {ledger}:5", well),
        (stats, backlog(5)),
        (f"topics analyze-backlog {topic} -s s", has(entries=5, messages=5)),
        (f"topics get-message-by-id {topic} -l {ledger} -e 4", says("message 4")),
        (f"topics get-message-by-id {topic} -l {ledger} -e 99", None),
        (f"topics examine-messages {topic} -i earliest -m 1", says("message 0")),
        (f"topics last-message-id {topic}", has(ledgerId=ledger, entryId=9)),
        (f"topics stats-internal {topic} -m", says(f'"{ledger}:4"')),
        (f"topics expire-messages {topic} -s s -p {ledger}:6", well),
        (stats, backlog(3)),
        (f"topics expire-messages {topic} -s s -t 100000", well),
        (stats, backlog(3)),
        (f"topics clear-backlog {topic} -s s", well),
        (stats, backlog(0)),
        (f"topics reset-cursor {topic} -s s -t 1h", well),
        (stats, backlog(10)),
        (f"topics unload {topic}", well),
        (f"topics terminate {topic}", says(f"{ledger}:9")),
        (f"topics unsubscribe {topic} -s other", well),
        (f"topics unsubscribe {topic} -s s -f", well),
        (f"topics subscriptions {topic}", lambda said: not said.split()),
        (f"topics delete {topic} -f", well),
        (stats, None),
    ]


def partitions_policies_and_schemas(topic: str, schema: Path) -> list[Verb]:
    of = f"{topic} "
    return [
        (f"topics create-partitioned-topic {of} -p 2", well),
        (f"topics update-partitioned-topic {of} -p 3", well),
        (f"topics get-partitioned-topic-metadata {of}", has(partitions=3)),
        (f"topics create-subscription {of} -s s -m earliest", well),
        (f"topics partitioned-stats {of} --per-partition", backlog(0)),
        (f"topics clear-backlog {of} -s s", well),
        (f"topics skip {of} -s s -n 1", None),
        (f"topicPolicies set-message-ttl {of} -t 30", well),
        (f"topicPolicies get-message-ttl {of}", says("30")),
        (f"topicPolicies remove-message-ttl {of}", well),
        (f"topicPolicies get-message-ttl {of}", says_not("30")),
        (f"topicPolicies set-max-unacked-messages-per-subscription {of} -m 99", well),
        (f"topicPolicies get-max-unacked-messages-per-subscription {of}", says("99")),
        (f"topicPolicies set-deduplication {of} --enable", well),
        (f"topicPolicies get-deduplication {of}", says("true")),
        (f"topicPolicies set-retention {of} -t 5m -s 10M", well),
        (f"topicPolicies get-retention {of}", has(retentionSizeInMB=10)),
        (f"schemas upload {of} -f {schema}", well),
        (f"schemas get {of}", lambda said: parsed(said)["schemaInfo"]["type"] == "STRING"),
        (f"schemas delete {of}", well),
        (f"schemas get {of}", None),
        (f"topics delete-partitioned-topic {of} -f", well),
        ("topics list-partitioned-topics public/default", says_not(topic)),
    ]


def what_one_machine_keeps(topic: str) -> list[Verb]:
    """Policies that change nothing, properties, bundles, and what there is none of."""
    ns = "public/kept"
    return [
        (f"namespaces create {ns} -b 2", well),
        (f"namespaces set-persistence {ns} -a 1 -e 1 -w 1 -r 0.5", well),
        (f"namespaces get-persistence {ns}", has(bookkeeperEnsemble=1)),
        (f"namespaces remove-persistence {ns}", well),
        (f"namespaces set-clusters {ns} -c standalone", well),
        (f"namespaces set-clusters {ns} -c moon", None),
        (f"namespaces get-clusters {ns}", says("standalone")),
        (f"namespaces set-subscription-expiration-time {ns} -t 0", well),
        (f"namespaces get-subscription-expiration-time {ns}", says("0")),
        (f"namespaces set-encryption-required {ns} -d", well),
        (f"namespaces get-encryption-required {ns}", says("false")),
        (f"namespaces set-is-allow-auto-update-schema {ns} --disable", well),
        (f"namespaces get-is-allow-auto-update-schema {ns}", says("false")),
        (f"namespaces set-subscription-auth-mode {ns} -m Prefix", well),
        (f"namespaces get-subscription-auth-mode {ns}", says("Prefix")),
        (f"namespaces set-anti-affinity-group {ns} -g apart", well),
        (f"namespaces get-anti-affinity-group {ns}", says("apart")),
        (f"namespaces set-property {ns} -k team -v shop", well),
        (f"namespaces get-property {ns} -k team", says("shop")),
        (f"namespaces set-properties {ns} -p a=1", well),
        (f"namespaces get-properties {ns}", has(team="shop", a="1")),
        (f"namespaces remove-property {ns} -k a", well),
        (f"namespaces clear-properties {ns}", well),
        (f"namespaces bundles {ns}", has(numBundles=2)),
        (f"namespaces split-bundle {ns} -b 0x00000000_0x80000000", well),
        (f"namespaces bundles {ns}", has(numBundles=3)),
        (f"namespaces unload {ns} -b 0x80000000_0xffffffff", well),
        (f"namespaces delete {ns}", well),
        (f"topics create {topic}", well),
        (f"topics update-properties {topic} -p a=1 -p b=2", well),
        (f"topics get-properties {topic}", says("b")),
        (f"topics remove-properties {topic} -k a", well),
        (f"topics create-subscription {topic} -s s", well),
        (f"topics get-replicated-subscription-status {topic} -s s", says("false")),
        (f"topics offload-status {topic}", well),
        (f"topics expire-messages {topic} -s s -t 100", None),
        (f"topicPolicies set-persistence {topic} -e 1 -w 1 -a 1 -r 0.5", well),
        (f"topicPolicies get-persistence {topic}", has(bookkeeperEnsemble=1)),
        (f"topicPolicies remove-persistence {topic}", well),
        (f"topics delete {topic}", well),
        (f"topics create-partitioned-topic {topic} -p 2", well),
        (f"topics create-missed-partitions {topic}", well),
        (f"topics create-subscription {topic} -s s", well),
        (f"topics delete-partitioned-topic {topic}", well),
        ("brokers backlog-quota-check", says("ok")),
        ("resourcegroups list", well),
        ("resource-quotas get", says("msgRateIn")),
        ("bookies list-bookies", says("bookies")),
        ("bookies racks-placement", well),
        ("clusters list-failure-domains standalone", well),
        ("broker-stats monitoring-metrics", says("brk_topics_count")),
        ("broker-stats mbeans", well),
        ("brokers update-dynamic-config -c ttlDurationDefaultInSeconds -v 1", None),
        ("brokers get-all-dynamic-config", well),
    ]


def test_every_verb_does_what_it_says(broker: Broker, tmp_path: Path) -> None:
    topic = "persistent://public/default/verbs"
    client = pulsar.Client(broker.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    client.subscribe(topic, "s")
    producer = client.create_producer(topic, batching_enabled=False)
    ids = [producer.send(b"message %d" % i) for i in range(10)]
    client.close()
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps({"type": "STRING", "schema": "", "properties": {}}))
    verbs = [
        *tenants_and_namespaces(),
        *topics(topic, ids[0].ledger_id(), broker.url),
        *partitions_policies_and_schemas(f"{topic}-of-parts", schema),
        *what_one_machine_keeps(f"{topic}-kept"),
    ]
    results = run(broker, [command for command, _ in verbs])
    for (command, check), (went_well, said) in zip(verbs, results, strict=True):
        assert went_well == (check is not None), (command, said[-1000:])
        assert check is None or check(said), (command, said[-1000:])
