"""Pulsar's `broker.conf`, read into settings of this broker.

What each key means is in `broker_conf_keys`. A key that is in none of its tables is an error,
since a key with a slip in it would be passed over too. A key without a value is as good as
one left out, and of two lines with the same key the later one counts.
"""

from difflib import get_close_matches
from typing import Final, final

from magnetar.broker.setting.broker_conf_keys import (
    FAMILIES,
    FORMER,
    HONOURED,
    OPTIONS,
    REFUSED,
    WITHOUT_EFFECT,
)
from magnetar.broker.setting.java_properties import Line, read_lines
from magnetar.broker.setting.setting import BOOL, COUNT_MAX, NAMES, TEXT, Value
from magnetar.broker.setting.settings import SETTINGS
from magnetar.errors import SettingsError

__all__ = ["BrokerConf", "read_broker_conf"]


@final
class BrokerConf:
    """What a `broker.conf` said: values by setting, options, one notice per reason passed over."""

    def __init__(
        self, values: dict[str, Value], options: dict[str, str], notices: list[str]
    ) -> None:
        self.values: Final = values
        self.options: Final = options
        self.notices: Final = notices


def read_broker_conf(text: str) -> BrokerConf:
    """Read the text of a `broker.conf`; raises SettingsError for the first thing wrong."""
    lines: dict[str, Line] = {}
    for line in read_lines(text):
        _check_known(line)
        lines[line.key] = line
    given = [line for line in lines.values() if line.value]
    options = {OPTIONS[line.key]: _option(line) for line in given if line.key in OPTIONS}
    return BrokerConf(_values(given), options, _notices(given))


def _check_known(line: Line) -> None:
    """The value of an unknown key may be a secret, and stays out of the error."""
    known = [*HONOURED, *OPTIONS, *REFUSED, *WITHOUT_EFFECT]
    if line.key in known or _reason(line.key):
        return
    meant = get_close_matches(line.key, known, n=1, cutoff=0.8)
    advice = f"did you mean {meant[0]}?" if meant else "remove the line"
    raise SettingsError(
        line.key, f"line {line.number} has a key that Apache Pulsar does not have: {advice}"
    )


def _reason(key: str) -> str:
    """Returns why a key has no effect; empty if nobody knows it."""
    reason = WITHOUT_EFFECT.get(key, "") or FORMER.get(key, "")
    if reason:
        return reason
    for beginning, shared in FAMILIES:
        if key.startswith(beginning):
            return shared
    return ""


def _notices(lines: list[Line]) -> list[str]:
    """Returns one sentence for each reason, with all the keys that it holds for."""
    keys: dict[str, list[str]] = {}
    for line in lines:
        if line.key in REFUSED:
            _check_off(line)
        elif line.key not in HONOURED and line.key not in OPTIONS:
            keys.setdefault(_reason(line.key), []).append(line.key)
    return [f"without effect, since {why}: {', '.join(keys[why])}" for why in keys]


def _option(line: Line) -> str:
    if OPTIONS[line.key] != "advertised_host" and not 0 <= _number(line) <= 65535:
        raise line.error("is not a port: give 0 to 65535")
    return line.value


def _check_off(line: Line) -> None:
    if _bool(line):
        raise line.error(f"cannot be had in this version: {REFUSED[line.key]}; set it to false")


def _values(lines: list[Line]) -> dict[str, Value]:
    values: dict[str, Value] = {}
    by_key: dict[str, Value] = {}
    for line in lines:
        if line.key in HONOURED:
            attribute, factor = HONOURED[line.key]
            by_key[line.key] = _value(line, attribute, factor)
            values[attribute] = by_key[line.key]
    _join_keys(values, by_key)
    return values


def _join_keys(values: dict[str, Value], by_key: dict[str, Value]) -> None:
    """Where two keys speak of one setting, or one key has a meaning of its own."""
    values.pop("auto_create_partitions", None)
    kind = by_key.get("allowAutoTopicCreationType")
    if kind is not None:
        count = by_key.get("defaultNumPartitions", 1)
        values["auto_create_partitions"] = count if kind == "partitioned" else 0

    gigabytes = by_key.get("backlogQuotaDefaultLimitGB", -1)
    if "backlogQuotaDefaultLimitBytes" in by_key and gigabytes == -1:
        values["backlog_quota_bytes"] = by_key["backlogQuotaDefaultLimitBytes"]
    elif gigabytes != -1:
        values["backlog_quota_bytes"] = gigabytes

    duration = by_key.get("brokerDeleteInactiveTopicsMaxInactiveDurationSeconds")
    if duration is not None:
        values["inactive_topic_ms"] = duration

    if by_key.get("enableBrokerSideSubscriptionPatternEvaluation") is False:
        values["topic_watchers"] = False

    if by_key.get("authorizationEnabled") is True and not by_key.get("authenticationEnabled"):
        raise SettingsError(
            "authorizationEnabled",
            "nobody would have to say who they are: set authenticationEnabled too",
        )


def _value(line: Line, name: str, factor: int) -> Value:
    setting = SETTINGS[name]
    value: Value
    if line.key == "allowAutoTopicCreationType":
        return _topic_type(line)
    if line.key == "backlogQuotaDefaultLimitGB":
        value = _gigabytes(line, factor)
    elif setting.kind == BOOL:
        value = _bool(line)
    elif setting.kind == TEXT:
        value = line.value
    elif setting.kind == NAMES:
        value = tuple([name for name in _split(line.value) if name])
    else:
        value = _number(line) * factor
    if line.key == "maxMessagePublishBufferSizeInMB" and isinstance(value, int) and value <= 0:
        return COUNT_MAX  # Pulsar's "no limit"
    if line.key == "defaultNumPartitions" and value == 0:
        raise line.error("is too little: give 1 or more")
    try:
        setting.check(name, value)
    except SettingsError as error:
        raise line.error(f"cannot be {name}: {error.reason}") from None
    return value


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]


def _bool(line: Line) -> bool:
    word = line.value.lower()
    if word not in ("true", "false"):
        raise line.error("is neither true nor false: give one of them")
    return word == "true"


def _number(line: Line) -> int:
    try:
        return int(line.value)
    except ValueError:
        raise line.error("is not a whole number: give one") from None


def _gigabytes(line: Line, factor: int) -> int:
    """May be a fraction; what is not more than 0 is as if it were not there."""
    try:
        size = float(line.value) * factor
    except ValueError:
        raise line.error("is not a number: give one") from None
    if not size < COUNT_MAX:
        raise line.error("is too much: give less")
    return int(size) if size > 0 else -1


def _topic_type(line: Line) -> str:
    if line.value not in ("partitioned", "non-partitioned"):
        raise line.error("is not a type of topics: give partitioned or non-partitioned")
    return line.value
