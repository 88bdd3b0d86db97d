"""Pulsar's broker.conf: each key is honoured or explained, and a slip is named."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.broker.setting.broker_conf import BrokerConf, read_broker_conf
from magnetar.broker.setting.broker_conf_keys import (
    FAMILIES,
    FORMER,
    HONOURED,
    OPTIONS,
    REFUSED,
    WITHOUT_EFFECT,
)
from magnetar.broker.setting.setting import COUNT_MAX, Value
from magnetar.broker.setting.settings import SETTINGS
from magnetar.broker.setting.settings_load import RESERVED, load_settings
from magnetar.errors import SettingsError

# Every key of broker.conf, standalone.conf and ServiceConfiguration in Apache Pulsar 4.0.8,
# 4.2.4, 5.0.0-M1 and its main branch of August 2026.
PULSAR_KEYS = (Path(__file__).parent / "pulsar_keys.txt").read_text().split()
# Those that its provider of OpenID Connect asks for, and that stand in no file of Pulsar's.
OPENID_KEYS = {
    "openIDAllowedTokenIssuers",
    "openIDAllowedAudiences",
    "openIDTokenIssuerTrustCertsFilePath",
    "openIDRoleClaim",
    "openIDAcceptedTimeLeewaySeconds",
    "openIDCacheSize",
    "openIDCacheRefreshAfterWriteSeconds",
    "openIDCacheExpirationSeconds",
    "openIDHttpConnectionTimeoutMillis",
    "openIDHttpReadTimeoutMillis",
    "openIDKeyIdCacheMissRefreshSeconds",
    "openIDRequireIssuersUseHttps",
    "openIDFallbackDiscoveryMode",
}

# What the broker.conf of 4.2.4 says of the keys that we honour, and the defaults of those that it
# does not have.
PULSAR_4_2 = """
basicAuthConf=
webSocketServiceEnabled=false
advertisedListeners=
internalListenerName=
proxyRoles=
authenticateOriginalAuthData=false
openIDAllowedTokenIssuers=
openIDAllowedAudiences=
openIDTokenIssuerTrustCertsFilePath=
openIDRoleClaim=sub
openIDAcceptedTimeLeewaySeconds=0
openIDCacheRefreshAfterWriteSeconds=64800
openIDCacheExpirationSeconds=86400
openIDHttpConnectionTimeoutMillis=10000
openIDKeyIdCacheMissRefreshSeconds=300
openIDRequireIssuersUseHttps=true
clusterName=
maxMessageSize=5242880
keepAliveIntervalSeconds=30
brokerMaxConnections=0
brokerMaxConnectionsPerIp=0
maxPendingPublishRequestsPerConnection=1000
maxMessagePublishBufferSizeInMB=
enablePersistentTopics=true
enableNonPersistentTopics=true
allowAutoTopicCreation=true
defaultNumPartitions=1
allowAutoTopicCreationType=non-partitioned
allowAutoSubscriptionCreation=true
subscriptionExpirationTimeMinutes=0
isAllowAutoUpdateSchemaEnabled=true
encryptionRequireOnProducer=false
brokerDeleteInactiveTopicsEnabled=true
brokerDeleteInactiveTopicsMode=delete_when_no_subscriptions
brokerDeleteInactiveTopicsFrequencySeconds=60
brokerDeleteInactiveTopicsMaxInactiveDurationSeconds=
maxTopicsPerNamespace=0
maxNumPartitionsPerPartitionedTopic=0
maxProducersPerTopic=0
maxConsumersPerTopic=0
maxConsumersPerSubscription=0
maxSubscriptionsPerTopic=0
enableBrokerSideSubscriptionPatternEvaluation=true
enableBrokerTopicListWatcher=true
subscriptionPatternMaxLength=50
defaultRetentionTimeInMinutes=0
defaultRetentionSizeInMB=0
ttlDurationDefaultInSeconds=0
messageExpiryCheckIntervalInMinutes=5
autoSkipNonRecoverableData=false
backlogQuotaDefaultLimitBytes=-1
backlogQuotaDefaultLimitGB=-1
backlogQuotaDefaultLimitSecond=-1
backlogQuotaDefaultRetentionPolicy=producer_request_hold
backlogQuotaCheckIntervalInSeconds=60
brokerServiceCompactionThresholdInBytes=0
brokerServiceCompactionMonitorIntervalInSeconds=60
topicCompactionRetainNullKey=false
brokerDeduplicationEnabled=false
brokerDeduplicationEntriesInterval=1000
brokerDeduplicationMaxNumberOfProducers=10000
schemaCompatibilityStrategy=FULL
isSchemaValidationEnforced=false
subscriptionTypesEnabled=Exclusive,Shared,Failover,Key_Shared
acknowledgmentAtBatchIndexLevelEnabled=true
maxUnackedMessagesPerConsumer=50000
brokerPublisherThrottlingMaxMessageRate=0
brokerPublisherThrottlingMaxByteRate=0
maxPublishRatePerTopicInMessages=0
maxPublishRatePerTopicInBytes=0
dispatchThrottlingRateInMsg=0
dispatchThrottlingRateInByte=0
dispatchThrottlingRatePerTopicInMsg=0
dispatchThrottlingRatePerTopicInByte=0
dispatchThrottlingRatePerSubscriptionInMsg=0
dispatchThrottlingRatePerSubscriptionInByte=0
dispatchThrottlingRateRelativeToPublishRate=false
dispatchThrottlingOnBatchMessageEnabled=false
dispatchThrottlingOnNonBacklogConsumerEnabled=true
subscribeThrottlingRatePerConsumer=0
subscribeRatePeriodPerConsumerInSecond=30
maxUnackedMessagesPerSubscription=200000
delayedDeliveryEnabled=true
delayedDeliveryTickTimeMillis=1000
delayedDeliveryMaxDelayInMillis=0
dispatcherMaxRoundRobinBatchSize=20
dispatcherMaxReadBatchSize=100
dispatcherMaxReadSizeBytes=5242880
activeConsumerFailoverDelayTimeMillis=1000
subscriptionKeySharedUseConsistentHashing=true
subscriptionKeySharedConsistentHashingReplicaPoints=100
keySharedLookAheadMsgInReplayThresholdPerConsumer=2000
keySharedLookAheadMsgInReplayThresholdPerSubscription=20000
managedLedgerCacheSizeMB=
managedLedgerMaxEntriesPerLedger=50000
managedLedgerMaxSizePerLedgerMbytes=2048
managedLedgerMaxLedgerRolloverTimeMinutes=240
authenticationEnabled=false
authorizationEnabled=false
superUserRoles=
anonymousUserRole=
authenticateMetricsEndpoint=false
authenticationRefreshCheckSeconds=60
tokenSecretKey=
tokenPublicKey=
tokenAuthClaim=
tokenAudienceClaim=
tokenAudience=
tlsCertificateFilePath=
tlsKeyFilePath=
tlsTrustCertsFilePath=
tlsRequireTrustedClientCertOnConnect=false
tlsCertRefreshCheckDurationSec=300
transactionCoordinatorEnabled=false
maxActiveTransactionsPerCoordinator=0
"""

# Where an unchanged file says something else than our defaults do.
DIFFERENT = {
    "max_connections": 0,
    "max_open_transactions": 0,
    "ledger_bytes_max": 2048 << 20,
    "authorization": False,
}


def refusal(text: str) -> SettingsError:
    with pytest.raises(SettingsError) as caught:
        read_broker_conf(text)
    return caught.value


def values(text: str) -> dict[str, Value]:
    return read_broker_conf(text).values


# ---- The keys ---------------------------------------------------------------------------


def test_an_unchanged_file_gives_the_defaults() -> None:
    """Not a connection limit of our own, which Pulsar's file lifts, nor of a ledger's size.

    Nor is whoever was let in restricted, of which Pulsar's file says that they are not.
    """
    keys = [line.partition("=")[0] for line in PULSAR_4_2.split()]
    assert sorted(keys) == sorted(HONOURED)
    conf = read_broker_conf(PULSAR_4_2)
    assert conf.notices == []
    settings = load_settings(None, {}, PULSAR_4_2, {}).settings
    defaults = load_settings(None, {}, None, {}).settings
    for name in SETTINGS:
        assert settings.value_of(name) == DIFFERENT.get(name, defaults.value_of(name)), name


def test_every_key_of_pulsar_is_honoured_or_explained_once() -> None:
    lines = [f"{key}=false" for key in PULSAR_KEYS if key not in {*HONOURED, *OPTIONS}]
    conf = read_broker_conf("\n".join(lines))
    assert conf.values == {}
    told = [key for notice in conf.notices for key in notice.rpartition(": ")[2].split(", ")]
    assert len(told) == len(set(told))
    assert set(told) == set(PULSAR_KEYS) - {*HONOURED, *OPTIONS, *REFUSED}


def test_the_tables_name_only_what_pulsar_has() -> None:
    known = {*PULSAR_KEYS, *OPENID_KEYS, "managedLedgerPassword"}
    assert {*HONOURED, *OPTIONS, *REFUSED, *WITHOUT_EFFECT} <= known
    for beginning, _ in FAMILIES:
        assert any(key.startswith(beginning) for key in known), beginning
    assert not {*HONOURED, *OPTIONS} & {*WITHOUT_EFFECT}
    assert set(OPTIONS.values()) <= set(RESERVED)
    assert {attribute for attribute, _ in HONOURED.values()} <= set(SETTINGS)


def test_a_key_of_an_older_release_is_passed_over() -> None:
    conf = read_broker_conf("clientLibraryVersionCheckAllowUnversioned=true")
    assert conf.values == {}
    (notice,) = conf.notices
    assert notice.endswith("are welcome: clientLibraryVersionCheckAllowUnversioned")
    assert not {*FORMER} & {*PULSAR_KEYS}


def test_ports_are_options_of_the_command_and_no_settings() -> None:
    text = (
        "brokerServicePort=7650\nbrokerServicePortTls=7651\nwebServicePort=\n"
        "webServicePortTls=9443\nadvertisedAddress=broker.example.com\n"
    )
    conf = read_broker_conf(text)
    assert conf.options == {
        "port": "7650",
        "tls_port": "7651",
        "https_port": "9443",
        "advertised_host": "broker.example.com",
    }
    assert (conf.values, conf.notices) == ({}, [])
    assert load_settings(None, {}, text, {}).options == conf.options


@pytest.mark.parametrize("port", ["65536", "-1", "pulsar", "6650,6651"])
def test_what_is_no_port_is_refused(port: str) -> None:
    error = refusal(f"brokerServicePortTls={port}\n")
    assert error.key == "brokerServicePortTls"
    assert port in error.reason


def test_reasons_are_one_sentence() -> None:
    for reason in [*WITHOUT_EFFECT.values(), *[reason for _, reason in FAMILIES]]:
        assert reason
        assert not reason.endswith(".")
        assert "\n" not in reason


def test_keys_with_one_reason_are_told_together() -> None:
    conf = read_broker_conf("numIOThreads=1\nbindAddress=0.0.0.0\nnumAcceptorThreads=2")
    assert conf.notices == [
        "without effect, since one thread serves all peers, and one writes: "
        "numIOThreads, numAcceptorThreads",
        "without effect, since the address to listen on is given with --host, and the one to "
        "tell with --advertised-host: bindAddress",
    ]


@pytest.mark.parametrize(
    "key",
    [
        "managedLedgerMaxUnackedRangesToPersist",
        "managedLedgerMaxBatchDeletedIndexToPersist",
        "managedLedgerMaxUnackedRangesToPersistInMetadataStore",
        "dispatcherPauseOnAckStatePersistentEnabled",
    ],
)
def test_there_is_no_limit_on_holes_to_raise(key: str) -> None:
    assert "no limit on holes to raise" in read_broker_conf(f"{key}=200000").notices[0]


def test_a_key_without_a_value_says_nothing() -> None:
    conf = read_broker_conf("numIOThreads=\nmaxMessageSize=\nauthenticationEnabled=")
    assert (conf.values, conf.notices) == ({}, [])


def test_the_later_of_two_lines_counts() -> None:
    assert values("maxProducersPerTopic=1\nmaxProducersPerTopic=2") == {
        "max_producers_per_topic": 2
    }


def test_an_unknown_key_is_named_with_its_line_and_the_key_meant() -> None:
    error = refusal("# a comment\n\nmaxMessagesSize=1")
    assert str(error) == (
        "maxMessagesSize: line 3 has a key that Apache Pulsar does not have: "
        "did you mean maxMessageSize?"
    )
    assert refusal("nothingLikeIt=1").reason.endswith("remove the line")


def test_the_value_of_an_unknown_key_stays_out_of_the_error() -> None:
    assert "hunter2" not in str(refusal("mySecret=hunter2"))


@pytest.mark.parametrize("key", REFUSED)
def test_a_promise_of_safety_is_not_passed_over(key: str) -> None:
    assert read_broker_conf(f"{key}=false").notices == []
    assert "cannot be had in this version" in refusal(f"{key}=true").reason


def test_authorization_needs_authentication() -> None:
    assert refusal("authorizationEnabled=true").key == "authorizationEnabled"
    both = "authorizationEnabled=true\nauthenticationEnabled=true"
    assert values(both) == {"authentication": True, "authorization": True}


# ---- The values -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("keepAliveIntervalSeconds=soon", "'soon' in line 2 is not a whole number"),
        ("keepAliveIntervalSeconds=0", "'0' in line 2 cannot be keep_alive_ms: 0 is too little"),
        ("brokerDeduplicationEnabled=1", "'1' in line 2 is neither true nor false"),
        ("authorizationEnabled=perhaps", "'perhaps' in line 2 is neither true nor false"),
        ("subscriptionTypesEnabled=Solo", "'Solo' is not one of Exclusive"),
        ("subscriptionTypesEnabled=,", "the list is empty"),
        ("backlogQuotaDefaultLimitGB=much", "'much' in line 2 is not a number"),
        ("backlogQuotaDefaultLimitGB=1e30", "is too much"),
        ("backlogQuotaDefaultLimitGB=nan", "is too much"),
        ("allowAutoTopicCreationType=round", "give partitioned or non-partitioned"),
        ("defaultNumPartitions=0", "is too little: give 1 or more"),
        ("defaultNumPartitions=-1", "-1 is too little"),
        ("brokerDeleteInactiveTopicsMode=never", "'never' is not one of"),
    ],
)
def test_a_bad_value_is_named_with_its_key_and_line(line: str, said: str) -> None:
    error = refusal(f"\n{line}")
    assert error.key == line.partition("=")[0]
    assert said in error.reason


def test_units_are_converted() -> None:
    assert values("keepAliveIntervalSeconds=3") == {"keep_alive_ms": 3000}
    assert values("messageExpiryCheckIntervalInMinutes=2") == {"ttl_check_ms": 120_000}
    assert values("managedLedgerCacheSizeMB=3") == {"cache_bytes": 3 << 20}
    assert values("subscriptionTypesEnabled=Shared, Failover") == {
        "subscription_types": ("Shared", "Failover")
    }
    assert values("brokerDeduplicationEnabled=TRUE") == {"deduplication": True}


def test_partitions_count_for_partitioned_topics_only() -> None:
    partitioned = "allowAutoTopicCreationType=partitioned\n"
    assert values(partitioned) == {"auto_create_partitions": 1}
    assert values(f"{partitioned}defaultNumPartitions=4") == {"auto_create_partitions": 4}
    assert values("defaultNumPartitions=4") == {}
    plain = "allowAutoTopicCreationType=non-partitioned\ndefaultNumPartitions=4"
    assert values(plain) == {"auto_create_partitions": 0}


@pytest.mark.parametrize(
    ("size", "gigabytes", "result"),
    [
        ("7", "", 7),
        ("7", "-1", 7),
        ("7", "0", 7),
        ("7", "1.5", 3 << 29),
        ("", "2", 2 << 30),
        ("", "-1", -1),
    ],
)
def test_gigabytes_count_before_bytes(size: str, gigabytes: str, result: int) -> None:
    lines = [f"backlogQuotaDefaultLimitBytes={size}", f"backlogQuotaDefaultLimitGB={gigabytes}"]
    for text in ("\n".join(lines), "\n".join(reversed(lines))):
        assert values(text) == {"backlog_quota_bytes": result}


def test_the_pace_of_deletion_stands_in_for_the_time_of_silence() -> None:
    pace = "brokerDeleteInactiveTopicsFrequencySeconds=5"
    silence = "brokerDeleteInactiveTopicsMaxInactiveDurationSeconds=7"
    assert values(pace) == {"inactive_topic_ms": 5000}
    assert values(f"{pace}\n{silence}") == {"inactive_topic_ms": 7000}
    assert values(f"{silence}\n{pace}") == {"inactive_topic_ms": 7000}


def test_watchers_are_off_if_either_key_says_so() -> None:
    old, new = "enableBrokerSideSubscriptionPatternEvaluation", "enableBrokerTopicListWatcher"
    assert values(f"{old}=false\n{new}=true") == {"topic_watchers": False}
    assert values(f"{old}=true\n{new}=false") == {"topic_watchers": False}
    assert values(f"{old}=true") == {"topic_watchers": True}


def test_no_limit_on_what_is_published_is_the_largest_number() -> None:
    assert values("maxMessagePublishBufferSizeInMB=-1") == {"max_pending_publish_bytes": COUNT_MAX}
    assert values("maxMessagePublishBufferSizeInMB=2") == {"max_pending_publish_bytes": 2 << 20}


# ---- The format -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "clusterName=my one",
        "  clusterName = my one  ",
        "clusterName:my one",
        "clusterName my one",
        "clusterName\t=\tmy one",
        "cluster\\\n   Name=my \\\n   one",
        "clusterName=my\\u0020one",
        "\\u0063lusterName=my\\ one",
        "! said\r\n# said\r\nclusterName=my one\r\n",
        "clusterName=my one\\",
    ],
)
def test_java_s_properties_are_read(text: str) -> None:
    assert values(text) == {"cluster_name": "my one"}


def test_escapes_are_read() -> None:
    assert values(r"clusterName=a\tb\nc\rd\fe\\\=f") == {"cluster_name": "a\tb\nc\rd\fe\\=f"}
    assert values("clusterName=a\\\\\nmaxProducersPerTopic=1") == {
        "cluster_name": "a\\",
        "max_producers_per_topic": 1,
    }


@pytest.mark.parametrize("digits", ["00", "00zz", ""])
def test_a_bad_escape_is_named(digits: str) -> None:
    error = refusal(f"clusterName=x\\u{digits}")
    assert str(error).startswith(f"broker.conf: line 1 has '\\u{digits}'")


def test_a_line_that_goes_on_has_the_number_of_its_first() -> None:
    assert "line 2" in refusal("clusterName=a\nmaxMessage\\\nSize=many").reason


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(SettingsError):
        assert isinstance(read_broker_conf(text), BrokerConf)


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1))
def test_any_name_can_be_written_with_escapes(name: str) -> None:
    if ord(max(name)) > 0xFFFF:
        return
    escaped = "".join(f"\\u{ord(letter):04x}" for letter in name)
    assert values(f"clusterName={escaped}") == {"cluster_name": name}
