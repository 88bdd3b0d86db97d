"""What reads and writes can be told, checked once, with one error for all that is wrong.

Spark hands option names over in lower case, so names are compared without case and shown
as documented. An option that does not exist is refused: a typo in `maxRowsPerTrigger` must
not mean that there is no limit.

| position            | written as                                                           |
|---------------------|----------------------------------------------------------------------|
| the first, the last | `earliest`, `latest`                                                 |
| a message           | `ledger:entry` or `ledger:entry:index`, for a single topic partition |
| several             | JSON: `{"topic": "ledger:entry", ...}`, others are `earliest`        |
| a time              | startingTimestamp, endingTimestamp: ms, or ISO 8601 with a zone      |
"""

import json
import re
from typing import Final, final

from magnetar.arrow.plan.connection import Connection
from magnetar.arrow.plan.range_end import Place, parse_place
from magnetar.arrow.plan.settings import SPARK, ReadSettings
from magnetar.errors import SettingsError
from magnetar.model.enums import CompressionType
from magnetar.model.topic_name import TopicName
from magnetar.spark.plan.admission import Limits
from magnetar.spark.plan.hint import hint_for

__all__ = [
    "CONNECTION",
    "READ",
    "SKIP",
    "WRITE",
    "Position",
    "ReadOptions",
    "SkipOptions",
    "WriteOptions",
    "is_skip",
]

_COMPRESSIONS: Final = [kind.name.lower() for kind in CompressionType]

# What there is to tell, and what it means: docs/reference/spark.md is made of it.
CONNECTION: Final[dict[str, str]] = {
    "serviceUrl": "required: URL of the broker, `pulsar://` or `pulsar+ssl://`",
    "adminUrl": "URL of admin REST, e.g. `http://localhost:8080`; required for backlogs, "
    "skipping and writing exactly once. It tells where ledgers end, so that ranges over several "
    "are split well",
    "authToken": "authentication token, for broker and admin REST",
    "authParams": "not supported: use authToken, or TLS certificates",
    "authPlugin": "not supported: use authToken, or TLS certificates",
    "tlsTrustCertsFilePath": "CA certificates (PEM file); each machine needs the file",
    "tlsCertificateFilePath": "client certificate (PEM file); each machine needs the file",
    "tlsPrivateKeyFilePath": "private key of that certificate (PEM file); each machine needs it",
    "tlsAllowInsecureConnection": "accept any certificate: false",
    "tlsValidateHostname": "check that the certificate is of the host that was asked for: true",
    "operationTimeoutSeconds": "longest time that a request to the broker may take: 30",
}
READ: Final[dict[str, str]] = {
    "mode": "`topic`, or `backlog`: what a subscription has not acknowledged",
    "topic": "topic to read; give one of topic, topics and topicsPattern",
    "topics": "topics to read, separated by commas",
    "topicsPattern": "regular expression: read all topics that match",
    "startingOffsets": "where to start: `earliest` (default of a batch), `latest` (default of a "
    "stream), `ledger:entry[:index]`, or JSON with one of these for each topic partition",
    "startingTimestamp": "time to start at: ms since 1970, or `2026-01-31T12:00:00Z`",
    "endingOffsets": "where to end, exclusive; for a batch only",
    "endingTimestamp": "time to end at, exclusive; for a batch only",
    "subscription": "durable subscription that a stream acknowledges on, or whose backlog is read",
    "minPartitions": "smallest number of tasks, if there are as many entries",
    "maxRowsPerPartition": "rows per task, estimated from the first entries",
    "maxBytesPerPartition": "bytes per task, estimated from the first entries",
    "maxRowsPerTrigger": "messages per micro-batch, exactly: batches are divided",
    "maxBytesPerTrigger": "bytes of entries per micro-batch; at least one entry is read",
    "maxEntriesPerTrigger": "entries per micro-batch",
    "minRowsPerTrigger": "wait until there are this many messages",
    "maxTriggerDelay": "longest wait for minRowsPerTrigger: `15m`",
    "valueSchema": "type of the values: `bytes`, `string` (checked UTF-8), or `topic`: "
    "by the topic's schema",
    "badRecords": "what becomes of values that cannot be decoded, and of entries that are damaged "
    "or encrypted: `fail`, `null` or `column`",
    "onDataLoss": "what to do when messages are gone: `fail` or `warn`; both name the lost range",
    "pollTimeoutMs": "longest time that a broker may have more and send nothing: 60000",
    "discoveryIntervalMs": "time between two looks for new partitions and topics: 1000",
    "rowsPerBatch": "rows of an Arrow record batch: 32768",
}
WRITE: Final[dict[str, str]] = {
    "operation": "`publish`, or `skip`: see below",
    "topic": "topic of rows that name none",
    "delivery": "`exactlyOnce`, `atLeastOnce` or `transaction`: a micro-batch is one transaction",
    "transactionTimeout": "longest time that a micro-batch may take in a transaction: `10m`",
    "transactionTopic": "topic that remembers the last micro-batch in a transaction: "
    "`magnetar-sink-` and the query's id, beside `topic`",
    "deduplication": "`set` enables it for each topic; `verify` refuses topics without it",
    "checkpointLocation": "directory for digests of what was sent; a batch needs it so that "
    "tasks can be retried",
    "compression": "one of " + ", ".join([f"`{name}`" for name in _COMPRESSIONS]),
    "chunking": "send messages that are too large in chunks: true",
    "producerName": "first part of the producers' names: `spark`",
    "batchingMaxMessages": "messages per batch: 1000",
    "batchingMaxBytes": "bytes per batch: 131072",
}
SKIP: Final[dict[str, str]] = {
    "operation": "`skip`",
    "subscription": "required: subscription whose messages are skipped",
    "dryRun": "count the messages, and skip nothing: false",
}
# What Spark itself adds to the options of a source or sink.
_SPARKS: Final = ["path", "checkpointLocation", "queryName"]

_DURATION: Final = re.compile(r"(\d+)\s*(ms|s|m|min|h|d)?")
_UNITS: Final = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_TRIGGER_DELAY_MS: Final = 15 * 60_000
_DELIVERIES: Final = ["exactlyOnce", "atLeastOnce", "transaction"]
_TRANSACTION_MS: Final = 10 * 60_000
_NUMBER_MAX: Final = (1 << 62) - 1


@final
class _Given:
    """Options as they were given, by lower case names."""

    def __init__(self, given: dict[str, str], known: list[str]) -> None:
        self._given: Final[dict[str, str]] = {}
        for name, value in given.items():
            self._given[name.lower()] = value
        names = {name.lower(): name for name in known}
        for name in _SPARKS:
            names.setdefault(name.lower(), name)
        unknown = sorted([name for name in given if name.lower() not in names])
        if unknown:
            hints = [f"{name}: no such option; {hint_for(name, known)}" for name in unknown]
            raise SettingsError(unknown[0], "; ".join(hints).removeprefix(f"{unknown[0]}: "))

    def text(self, name: str, default: str = "") -> str:
        return self._given.get(name.lower(), default)

    def has(self, name: str) -> bool:
        return name.lower() in self._given

    def number(self, name: str, default: int, least: int = 0) -> int:
        text = self.text(name)
        if not self.has(name):
            return default
        plain = text.strip().replace("_", "")
        if not plain.isascii() or not plain.isdigit() or not least <= int(plain) <= _NUMBER_MAX:
            raise SettingsError(name, f"{text!r:.40} is not a whole number of {least} or more")
        return int(plain)

    def choice(self, name: str, choices: list[str]) -> str:
        """Returns the choice that an option names, whatever its case; the first is the default."""
        text = self.text(name, choices[0])
        for choice in choices:
            if text.lower() == choice.lower():
                return choice
        raise SettingsError(name, f"{text!r:.40} is not one of {', '.join(choices)}")

    def flag(self, name: str, default: bool) -> bool:
        text = self.text(name, "true" if default else "false").lower()
        if text not in ("true", "false"):
            raise SettingsError(name, f"{text!r:.40} is neither true nor false")
        return text == "true"

    def duration_ms(self, name: str, default: int) -> int:
        if not self.has(name):
            return default
        text = self.text(name).strip().lower()
        match = _DURATION.fullmatch(text)
        if match is None:
            raise SettingsError(
                name, f"{text!r:.40} is not a time: write 500ms, 10s, 15m, 1h or 1d"
            )
        return int(match[1]) * _UNITS[match[2] or "ms"]


def _connection(given: _Given) -> Connection:
    """Returns how to reach the broker."""
    service_url = given.text("serviceUrl")
    if not service_url:
        raise SettingsError(
            "serviceUrl", "missing: give the URL of the broker, e.g. pulsar://host:6650"
        )
    found = Connection(
        service_url,
        admin_url=given.text("adminUrl"),
        auth_token=given.text("authToken"),
        tls_trust_certs_file_path=given.text("tlsTrustCertsFilePath"),
        tls_certificate_file_path=given.text("tlsCertificateFilePath"),
        tls_private_key_file_path=given.text("tlsPrivateKeyFilePath"),
        tls_allow_insecure_connection=given.flag("tlsAllowInsecureConnection", False),
        tls_validate_hostname=given.flag("tlsValidateHostname", True),
        operation_timeout_s=given.number("operationTimeoutSeconds", 30, 1),
    )
    for name in ("authPlugin", "authParams"):
        if given.has(name):
            raise SettingsError(name, "not supported yet: use authToken, or TLS certificates")
    return found


@final
class Position:
    """Where to begin or end: a word, a time in ms, one id, or one of these for each topic."""

    def __init__(
        self, word: str = "", time_ms: int = -1, by_topic: dict[str, str] | None = None
    ) -> None:
        self.word: Final = word
        self.time_ms: Final[int] = time_ms
        self.by_topic: Final[dict[str, str] | None] = by_topic

    def of(self, option: str, topic: str, default: str) -> "str | Place":
        """Returns `earliest`, `latest` or a place for a topic partition."""
        text = self.word
        if self.by_topic is not None:
            text = default
            for name, place in self.by_topic.items():
                if str(TopicName.parse(name)) == topic:
                    text = place
        return text if text in ("earliest", "latest") else parse_place(option, text)


@final
class ReadOptions:
    """Everything that a read can be told."""

    def __init__(self, options: dict[str, str], *, streaming: bool) -> None:
        given = _Given(options, [*CONNECTION, *READ])
        self.connection: Final = _connection(given)
        self.topics: Final[list[str]] = _topics(given)
        self.topics_pattern: Final = given.text("topicsPattern")
        self.starting: Final[Position] = _position(
            given, "starting", "latest" if streaming else "earliest"
        )
        self.ending: Final[Position] = _position(given, "ending", "latest")
        if streaming and (given.has("endingOffsets") or given.has("endingTimestamp")):
            raise SettingsError(
                "endingOffsets",
                "a stream has no end: use trigger(availableNow=True), or a batch read",
            )
        self.subscription: Final = given.text("subscription")
        self.backlog: Final[bool] = given.choice("mode", ["topic", "backlog"]) == "backlog"
        if self.backlog:
            _check_backlog(given, streaming)
        elif self.subscription and not streaming:
            raise SettingsError(
                "subscription", "acks go with a stream: a batch read acknowledges nothing"
            )
        self.partitions_min: Final[int] = given.number("minPartitions", 0)
        self.split_rows_max: Final[int] = given.number("maxRowsPerPartition", 0)
        self.split_bytes_max: Final[int] = given.number("maxBytesPerPartition", 0)
        self.limits: Final = Limits(
            given.number("maxRowsPerTrigger", 0),
            given.number("maxBytesPerTrigger", 0),
            given.number("maxEntriesPerTrigger", 0),
            given.number("minRowsPerTrigger", 0),
            given.duration_ms("maxTriggerDelay", _TRIGGER_DELAY_MS),
        )
        limits = self.limits
        if 0 < limits.rows_max < limits.rows_min:
            raise SettingsError(
                "minRowsPerTrigger",
                f"{limits.rows_min} is more than maxRowsPerTrigger, {limits.rows_max}",
            )
        self.value_schema: Final = given.choice("valueSchema", ["bytes", "string", "topic"])
        self.bad_records: Final = given.choice("badRecords", ["fail", "null", "column"])
        self.on_data_loss: Final = given.choice("onDataLoss", ["fail", "warn"])
        self.poll_timeout_ms: Final[int] = given.number("pollTimeoutMs", 60_000, 1)
        self.discovery_ms: Final[int] = given.number("discoveryIntervalMs", 1000)
        self.rows_per_batch: Final[int] = given.number("rowsPerBatch", 32_768, 1)

    def settings(self) -> ReadSettings:
        """Returns what decides how entries become rows."""
        return ReadSettings(
            SPARK,
            bad_records=self.bad_records,
            warns_of_loss=self.on_data_loss == "warn",
            protected=bool(self.subscription),
            rows_per_batch=self.rows_per_batch,
            timeout_s=self.poll_timeout_ms / 1000,
            connection=self.connection,
        )

    @property
    def splits_by_weight(self) -> bool:
        """Whether entries must be looked at to plan splits."""
        return self.split_rows_max > 0 or self.split_bytes_max > 0


@final
class WriteOptions:
    """Everything that a write can be told."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options: Final = options
        given = _Given(options, [*CONNECTION, *WRITE])
        self.connection: Final = _connection(given)
        self.topic: Final = given.text("topic")
        self.delivery: Final = given.choice(
            "delivery", ["exactlyOnce", "atLeastOnce", "transaction"]
        )
        self.deduplication: Final = given.choice("deduplication", ["set", "verify"])
        self.checkpoint: Final = given.text("checkpointLocation")
        self.compression: Final = given.choice("compression", _COMPRESSIONS)
        self.chunking: Final[bool] = given.flag("chunking", True)
        self.producer_name: Final = given.text("producerName")
        self.batch_messages: Final[int] = given.number("batchingMaxMessages", 1000, 1)
        self.batch_bytes: Final[int] = given.number("batchingMaxBytes", 128 * 1024, 1)
        self.transaction_timeout_ms: Final[int] = given.duration_ms(
            "transactionTimeout", _TRANSACTION_MS
        )
        self.transaction_topic: Final = given.text("transactionTopic")
        for name in ("transactionTimeout", "transactionTopic"):
            if given.has(name) and not self.transactional:
                raise SettingsError(name, "is for delivery=transaction")
        if self.transaction_timeout_ms == 0:
            raise SettingsError("transactionTimeout", "0 is no time that a transaction could take")
        if self.exactly_once and not self.connection.admin_url:
            raise SettingsError(
                "adminUrl",
                "missing: exactly once needs deduplication on each topic, which is set and "
                "verified there; or give delivery=transaction or delivery=atLeastOnce",
            )

    def __reduce__(self) -> "tuple[type[WriteOptions], tuple[dict[str, str]]]":
        # Writers go to executors; what is compiled does not know how by itself.
        return (WriteOptions, (self._options,))

    @property
    def exactly_once(self) -> bool:
        return self.delivery == "exactlyOnce"

    @property
    def transactional(self) -> bool:
        return self.delivery == "transaction"


@final
class SkipOptions:
    """Everything that a skip can be told."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options: Final = options
        given = _Given(options, [*CONNECTION, *SKIP])
        self.connection: Final = _connection(given)
        self.subscription: Final = given.text("subscription")
        self.dry_run: Final[bool] = given.flag("dryRun", False)
        if not self.subscription:
            raise SettingsError(
                "subscription", "missing: give the subscription whose messages are skipped"
            )
        if not self.connection.admin_url:
            raise SettingsError("adminUrl", "missing: messages are skipped by admin REST")

    def __reduce__(self) -> "tuple[type[SkipOptions], tuple[dict[str, str]]]":
        return (SkipOptions, (self._options,))


def is_skip(options: dict[str, str]) -> bool:
    """Returns whether a write is a skip. Raises SettingsError."""
    known = [*CONNECTION, *WRITE, *SKIP]
    return _Given(options, known).choice("operation", ["publish", "skip"]) == "skip"


def _check_backlog(given: _Given, streaming: bool) -> None:
    if streaming:
        raise SettingsError("mode", "a backlog is read as a batch: use spark.read")
    if not given.has("subscription"):
        raise SettingsError("subscription", "missing: give the subscription whose backlog is read")
    if not given.text("adminUrl"):
        raise SettingsError("adminUrl", "missing: admin REST tells what is acknowledged")
    for name in ("startingOffsets", "startingTimestamp", "endingOffsets", "endingTimestamp"):
        if given.has(name):
            raise SettingsError(name, "a backlog has its own positions: leave it out")


def _topics(given: _Given) -> list[str]:
    ways = [name for name in ("topic", "topics", "topicsPattern", "path") if given.has(name)]
    if len(ways) != 1:
        said = " and ".join(ways) or "none"
        raise SettingsError("topic", f"give one of topic, topics and topicsPattern, not {said}")
    if ways[0] == "topicsPattern":
        return []
    topics = [topic.strip() for topic in given.text(ways[0]).split(",")]
    if "" in topics:
        raise SettingsError(ways[0], "a topic name is empty")
    return topics


def _position(given: _Given, side: str, default: str) -> Position:
    offsets, timestamp = f"{side}Offsets", f"{side}Timestamp"
    if given.has(offsets) and given.has(timestamp):
        raise SettingsError(offsets, f"give {offsets} or {timestamp}, not both")
    if given.has(timestamp):
        return Position(time_ms=_time_ms(timestamp, given.text(timestamp).strip()))
    text = given.text(offsets, default).strip()
    if text.lower() in ("earliest", "latest"):
        return Position(word=text.lower())
    if text.startswith("{"):
        return Position(by_topic=_by_topic(offsets, text))
    parse_place(offsets, text)
    return Position(word=text)


def _by_topic(option: str, text: str) -> dict[str, str]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise SettingsError(option, f"not JSON: {error}") from None
    found: dict[str, str] = {}
    for topic, place in value.items():
        if not isinstance(place, str):
            raise SettingsError(option, f'{topic}: write "earliest", "latest" or "ledger:entry"')
        if place not in ("earliest", "latest"):
            parse_place(option, place)
        found[topic] = place
    return found


_ISO: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?(Z|[+-]\d\d:?\d\d)"
)


def _time_ms(option: str, text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) < 19:
        return int(text)
    match = _ISO.fullmatch(text)
    if match is None:
        raise SettingsError(
            option, f"{text!r:.40} is not a time: give ms since 1970, or 2026-01-31T12:00:00Z"
        )
    days = _days(int(match[1]), int(match[2]), int(match[3]))
    seconds = int(match[4]) * 3600 + int(match[5]) * 60 + int(match[6] or 0)
    millis = int(((match[7] or "") + "000")[:3])
    zone = 0
    if match[8] != "Z":
        digits = match[8][1:].replace(":", "")
        zone = (int(digits[:2]) * 60 + int(digits[2:])) * 60
        if match[8][0] == "-":
            zone = -zone
    return (days * 86_400 + seconds - zone) * 1000 + millis


def _days(year: int, month: int, day: int) -> int:
    """Days from 1970 on; years begin in March, so that leap days stand last."""
    if month <= 2:
        year -= 1
        month += 12
    leaps = year // 4 - year // 100 + year // 400
    return year * 365 + leaps + (month * 153 - 457) // 5 + day - 719_469
