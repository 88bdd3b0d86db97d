"""What to do about an error, in the words of the command line.

A broker speaks of requests, and Apache Pulsar's in its own words. Here it is told which command
or option does what was meant:

| the error is                                   | the advice                                    |
|------------------------------------------------|-----------------------------------------------|
| a verb for one topic, and a partitioned topic  | the verb for partitioned topics, or to name a |
| or the other way round                         | partition                                     |
| it is in use or not empty                      | `--force`, where the command has it           |
| something is not there                         | names like it (`near`)                        |
"""

from contextlib import suppress
from typing import Final

from magnetar.cli.exit_code import MISSING, NOT_TAKEN, exit_code_of
from magnetar.cli.name import given, near
from magnetar.cli.target import current
from magnetar.errors import MagnetarError
from magnetar.model.topic_name import PARTITION_SUFFIX
from magnetar.rest.admin_error import AdminError
from magnetar.rest.path import topic_path

__all__ = ["advised"]

# Verbs for a topic, and their twins for a partitioned one.
TWINS: Final = {
    "topics delete": "topics delete-partitioned-topic",
    "topics stats": "topics partitioned-stats",
    "topics stats-internal": "topics partitioned-stats-internal",
    "topics terminate": "topics partitioned-terminate",
}
WHOLES: Final = {twin: verb for verb, twin in TWINS.items()}
ANOTHER: Final = "make another one with magnetar topics create-partitioned-topic"
# Gives a partitioned topic more partitions.
UPDATE: Final = "topics update-partitioned-topic"
# Which make partitions, or are for topics of both kinds.
EITHER: Final = (
    "topics create",
    "topics create-partitioned-topic",
    "topics get-partitioned-topic-metadata",
)


def advised(error: MagnetarError) -> str:
    """Returns the error, and what to do about it if that can be told."""
    found = given.current()
    code = exit_code_of(error)
    if isinstance(error, AdminError) and code in (MISSING, NOT_TAKEN):
        if found.topic and found.command not in EITHER and (text := _of_partitions(found)):
            return text
        if code == NOT_TAKEN and found.unused("force"):
            return f"{error}; --force does it all the same"
    hint = near.advice(found) if code == MISSING else ""
    return f"{error}; {hint}" if hint else str(error)


def _of_partitions(found: given.Given) -> str:
    """Returns what to say if the topic is not of the kind that the command is for."""
    topic, command = found.topic, found.command
    whole, separator, number = topic.rpartition(PARTITION_SUFFIX)
    if command == "topics delete" and separator and number.isdecimal() and _partitions(whole):
        return f"{topic} is a partition: magnetar {TWINS[command]} {whole} deletes all of them"
    count = _partitions(topic)
    if count is None:
        return ""
    if command == UPDATE:
        return "" if count else f"{topic} is not partitioned, and cannot be any more: " + ANOTHER
    if count and command in TWINS:
        return f"{topic} is partitioned: magnetar {TWINS[command]} {topic}"
    if count and not found.subscription:
        return f"{topic} is partitioned: name one of its {count:,} partitions, {topic}-partition-0"
    if not count and command in WHOLES:
        return f"{topic} is not partitioned: magnetar {WHOLES[command]} {topic}"
    return ""


def _partitions(topic: str) -> int | None:
    """Returns how many it has; 0 if it is not partitioned, None if it is not there or nobody
    tells."""
    with suppress(MagnetarError), current().admin(near.LIMIT_S) as admin:
        found = admin.get(topic_path(topic, "partitions"), checkAllowAutoCreation=False)
        count = found.get("partitions") if isinstance(found, dict) else None
        if count == 0:
            # Some say 0 of one that is not there, too.
            admin.get(topic_path(topic, "stats"))
        return count if isinstance(count, int) else None
    return None
