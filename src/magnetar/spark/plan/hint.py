"""Hints for options by the names that they have elsewhere: at Kafka, at Apache Pulsar's connector.

Who has written Spark jobs for Kafka tries Kafka's names first. An unknown name gets one line: the
name that it has here, or the nearest one, or what does its work.
"""

import difflib
from typing import Final

__all__ = ["ELSEWHERE", "hint_for"]

# By lower case names, as Spark hands them over: what to write here. docs/spark.md has the table.
ELSEWHERE: Final[dict[str, str]] = {
    # Kafka
    "kafka.bootstrap.servers": "use serviceUrl, as pulsar://host:6650",
    "bootstrap.servers": "use serviceUrl, as pulsar://host:6650",
    "subscribe": "use topic, or topics for several with commas between",
    "subscribepattern": "use topicsPattern",
    "assign": "name the partition as a topic: topic=orders-partition-0",
    "startingoffsetsbytimestamp": "use startingTimestamp, one for all partitions",
    "startingoffsetsbytimestampstrategy": "leave it out: a time behind the last message is the end",
    "endingoffsetsbytimestamp": "use endingTimestamp, one for all partitions",
    "failondataloss": "use onDataLoss, fail or warn",
    "maxoffsetspertrigger": "use maxRowsPerTrigger, which is exact",
    "minoffsetspertrigger": "use minRowsPerTrigger",
    "maxrecordsperpartition": "use maxRowsPerPartition",
    "groupidprefix": "use subscription, which is acknowledged behind the stream",
    "kafka.group.id": "use subscription, which is acknowledged behind the stream",
    "group.id": "use subscription, which is acknowledged behind the stream",
    "includeheaders": "leave it out: the column properties is always there",
    "kafkaconsumer.polltimeoutms": "use pollTimeoutMs",
    "fetchoffset.numretries": "leave it out: requests are tried again for operationTimeoutSeconds",
    "fetchoffset.retryintervalms": "leave it out: requests are tried again with a backoff",
    # Apache Pulsar's connector
    "service.url": "use serviceUrl",
    "admin.url": "use adminUrl",
    "subscriptionname": "use subscription",
    "predefinedsubscription": "use subscription",
    "subscriptionprefix": "use subscription, whose whole name you choose",
    "startingtime": "use startingTimestamp",
    "endingtime": "use endingTimestamp",
    "allowdifferenttopicschemas": "read bytes, and decode them by schema_version",
    "pulsar.client.serviceurl": "use serviceUrl",
    "pulsar.client.authparams": "use authToken, or TLS certificates",
    "pulsar.client.authpluginclassname": "use authToken, or TLS certificates",
    "pulsar.client.tlstrustcertsfilepath": "use tlsTrustCertsFilePath",
    "pulsar.client.tlsallowinsecureconnection": "use tlsAllowInsecureConnection",
    "pulsar.client.tlshostnameverificationenable": "use tlsValidateHostname",
    "pulsar.producer.batchingmaxmessages": "use batchingMaxMessages",
    "pulsar.producer.producername": "use producerName",
}
# By how such names begin.
_BEGINS: Final[list[tuple[str, str]]] = [
    ("kafka.ssl.", "use the options that begin with tls"),
    ("kafka.sasl.", "use authToken"),
    ("kafka.security.", "use serviceUrl with pulsar+ssl://, and authToken"),
    ("kafka.", "Kafka's own settings have no meaning here"),
    ("pulsar.", "the settings of Pulsar's Java client have no meaning here"),
]


def hint_for(name: str, known: list[str]) -> str:
    """Returns what to write instead of an option that does not exist.

    >>> hint_for("failOnDataLoss", ["onDataLoss"])
    'use onDataLoss, fail or warn'
    >>> hint_for("maxRowPerTrigger", ["maxRowsPerTrigger", "topic"])
    'did you mean maxRowsPerTrigger?'
    >>> hint_for("colour", ["topic"])
    'docs/reference/spark.md lists all options'
    """
    said = ELSEWHERE.get(name.lower())
    if said is not None:
        return said
    for begins, meaning in _BEGINS:
        if name.lower().startswith(begins):
            return meaning
    by_lower = {one.lower(): one for one in known}
    near = difflib.get_close_matches(name.lower(), list(by_lower), 1)
    if near:
        return f"did you mean {by_lower[near[0]]}?"
    return "docs/reference/spark.md lists all options"
