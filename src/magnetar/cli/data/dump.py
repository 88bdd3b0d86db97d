"""`magnetar dump DIR`: what is in this data directory?

For people as tables, for programs as one JSON document, and each cursor in a file of
Apache Pulsar's own format, which `--load` reads back.
"""

import contextlib
import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from magnetar.cli.console import output, refuse, status
from magnetar.errors import InvalidTopicNameError
from magnetar.model import TopicName
from magnetar.model.enums import COMPRESSION_NAMES

if TYPE_CHECKING:
    from magnetar.ack.cursor_info import CursorInfo
    from magnetar.cli.data.directory import DataDirectory
    from magnetar.storage.state import TopicState

__all__ = ["Format", "dump"]


class Format(StrEnum):
    table = "table"
    json = "json"
    pulsar = "pulsar"


def _known_compression(value: str | None) -> str | None:
    """Returns the name of a compression. Raises BadParameter if it is none."""
    if value is None or value.upper() in COMPRESSION_NAMES:
        return value and value.upper()
    raise typer.BadParameter(f"{value!r} is not one of {', '.join(map(repr, COMPRESSION_NAMES))}.")


def dump(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="The data directory.", show_default=False)
    ],
    topic: Annotated[
        str | None, typer.Option(help="Show this topic only.", metavar="NAME", show_default=False)
    ] = None,
    format: Annotated[Format, typer.Option(help="Output format.")] = Format.table,
    target: Annotated[
        Path | None,
        typer.Option(
            "--output",
            metavar="DIR2",
            help="Directory for `--format pulsar`; new or empty.",
            show_default=False,
        ),
    ] = None,
    compression: Annotated[
        str | None,
        typer.Option(
            metavar="COMPRESSION",
            callback=_known_compression,
            autocompletion=lambda: list(COMPRESSION_NAMES),
            help="Write ManagedCursorInfo with this compression instead of PositionInfo: "
            f"{', '.join(COMPRESSION_NAMES)}.",
            show_default=False,
        ),
    ] = None,
    as_long_array: Annotated[
        bool,
        typer.Option(
            "--as-long-array", help="Write the ranges of PositionInfo as Pulsar 4.1 and later do."
        ),
    ] = False,
    load: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Show the cursor in a file of Pulsar's format, over the topic's ledgers.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Show a data directory: topics, ledgers, cursors. Nothing in it is changed."""
    if format != Format.pulsar and (target or compression or as_long_array):
        raise refuse("--output, --compression and --as-long-array go with --format pulsar")
    if format == Format.pulsar and load:
        raise refuse("--load shows a cursor as a table or as json, not as pulsar")
    if format == Format.pulsar and target is None:
        raise refuse("--format pulsar writes files: say where with --output")
    if compression and as_long_array:
        raise refuse("ManagedCursorInfo has no long array: leave --compression or --as-long-array")
    if load is not None:
        _show_file(directory, load, topic, format)
    elif target is not None:
        _write_files(directory, target, topic, compression, as_long_array=as_long_array)
    else:
        _show_directory(directory, topic, format)


def _show_directory(path: Path, topic: str | None, format: Format) -> None:
    from magnetar.cli.data.directory import open_directory
    from magnetar.cli.data.table import print_directory
    from magnetar.cli.data.view import view_directory

    with status("reading"), open_directory(path) as directory:
        view = view_directory(directory, _topics(directory, topic))
    if format == Format.json:
        typer.echo(json.dumps(view, indent=2))
    else:
        print_directory(output(), view)


def _topics(directory: "DataDirectory", name: str | None) -> "list[TopicState]":
    """Returns the topics to show: all, or those of that name, of which there should be one."""
    topics = directory.topics()
    if name is None:
        return topics
    names = {name}
    # Storage takes any name, so one that Pulsar would refuse may be there all the same.
    with contextlib.suppress(InvalidTopicNameError):
        names.add(str(TopicName.parse(name)))
    found = [topic for topic in topics if topic.name in names]
    if not found:
        raise refuse(
            f"there is no topic {name} in {directory.disk.directory}: "
            "without --topic all of them are shown"
        )
    return found


# ---- Pulsar's files ----------------------------------------------------------


def _write_files(
    path: Path,
    target: Path,
    topic_name: str | None,
    compression: str | None,
    *,
    as_long_array: bool,
) -> None:
    from magnetar.ack.cursor_info import cursor_to_info
    from magnetar.ack.encoding.cursor_info_codec import encode_position_info
    from magnetar.cli.data.cursor_file import encode_compressed, file_name
    from magnetar.cli.data.directory import open_directory
    from magnetar.cli.data.table import print_files

    rows: list[tuple[str, str, str, int]] = []
    with open_directory(path) as directory:
        _require_elsewhere(path, target)
        topics = _topics(directory, topic_name)
        try:
            target.mkdir(parents=True, exist_ok=True)
            for topic in topics:
                ledgers = directory.ledgers(topic)
                for cursor_id in topic.cursor_ids:
                    name = directory.state.cursors[cursor_id].name
                    info = cursor_to_info(directory.cursor(cursor_id, ledgers))
                    if compression is None:
                        data = encode_position_info(info, as_long_array=as_long_array)
                    else:
                        data = encode_compressed(info, COMPRESSION_NAMES[compression])
                    file = file_name(cursor_id, name, managed=compression is not None)
                    (target / file).write_bytes(data)
                    rows.append((file, topic.name, name, len(data)))
        except OSError as error:
            raise refuse(f"cannot write to {target}: {error.strerror or error}") from None
    print_files(output(), rows)


def _require_elsewhere(path: Path, target: Path) -> None:
    if target.resolve().is_relative_to(path.resolve()):
        raise refuse(f"{target} is in the data directory, which is not written to")
    try:
        free = not target.exists() or not any(target.iterdir())
    except OSError as error:
        raise refuse(f"cannot use {target}: {error.strerror or error}") from None
    if not free:
        raise refuse(f"{target} is not empty: name a directory that is new or empty")


def _show_file(path: Path, file: Path, topic_name: str | None, format: Format) -> None:
    from magnetar.ack.cursor_info import info_to_cursor
    from magnetar.cli.data.cursor_file import decode_cursor_file
    from magnetar.cli.data.directory import open_directory
    from magnetar.cli.data.table import print_cursor
    from magnetar.cli.data.view import view_cursor

    try:
        data = file.read_bytes()
    except OSError as error:
        raise refuse(f"cannot read {file}: {error.strerror or error}") from None
    info = decode_cursor_file(data)
    with open_directory(path) as directory:
        topic = _topic_of(directory, info, file, topic_name)
        cursor = info_to_cursor(info, directory.ledgers(topic))
        view = view_cursor(file.name, cursor)
    if format == Format.json:
        typer.echo(json.dumps({"topic": topic.name, "cursor": view}, indent=2))
    else:
        print_cursor(output(), topic.name, view)


def _topic_of(
    directory: "DataDirectory", info: "CursorInfo", file: Path, name: str | None
) -> "TopicState":
    """Returns the topic that a cursor is of. The file does not say, but ledgers have one topic."""
    topics = _topics(directory, name)
    if name is None:
        named = {info.mark_delete.ledger_id}
        named |= {upper.ledger_id for _, upper in info.ranges}
        named |= {position.ledger_id for position, _ in info.batches}
        topics = [topic for topic in topics if named & set(topic.ledger_ids)]
    if len(topics) != 1:
        raise refuse(
            f"{len(topics)} topics of {directory.disk.directory} have the ledgers that are "
            f"named in {file}: say which is meant with --topic"
        )
    return topics[0]
