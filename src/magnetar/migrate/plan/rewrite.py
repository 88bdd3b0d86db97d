"""An entry as the target gets it: byte for byte, but for what names things of the source.

| field of the metadata   | becomes                                                             |
|-------------------------|---------------------------------------------------------------------|
| txnid_least, txnid_most | nothing: the transaction was committed, and is not known there      |
| schema_version          | the version that the same schema has there                          |
| all others              | what they were: names, sequence ids, times, keys, properties, chunks |

Where nothing changes the entry keeps its very bytes, its checksum among them.
"""

from collections.abc import Mapping
from typing import Final

from magnetar.protocol.entry import Entry, encode_entry
from magnetar.protocol.metadata import SHAPE, MessageMetadata
from magnetar.wire.reader import Reader
from magnetar.wire.writer import BytesWriter, put_bytes_field

__all__ = ["rewritten"]

SCHEMA_VERSION: Final = 16
TXN_LEAST: Final = 22
TXN_MOST: Final = 23
# Of the version's field: its number, and that bytes follow.
VERSION_TAG: Final = 0x82


def rewritten(entry: Entry, metadata: MessageMetadata, versions: "Mapping[bytes, bytes]") -> bytes:
    """Returns the entry's bytes for the target; `versions` has the schemas that have other names.

    `metadata` is the entry's own. Raises RemoteProtocolError for metadata that is damaged.
    """
    version = metadata.schema_version
    fresh = None if version is None else versions.get(version, version)
    if metadata.txnid_least_bits is None and metadata.txnid_most_bits is None and fresh == version:
        return entry.without_broker_metadata()
    return encode_entry(_without(entry, fresh), entry.payload())


def _without(entry: Entry, version: bytes | None) -> bytes:
    """Returns the metadata without its transaction, and with this version of the schema."""
    reader = Reader(entry.data, entry.body_first + 4, entry.metadata_end, SHAPE)
    parts: list[bytes] = []
    start = reader.pos
    while (tag := reader.tag()) != 0:
        reader.skip()
        if tag >> 3 not in (SCHEMA_VERSION, TXN_LEAST, TXN_MOST):
            parts.append(entry.data[start : reader.pos])
        start = reader.pos
    if version is not None:
        out = BytesWriter()
        put_bytes_field(out, VERSION_TAG, version)
        parts.append(out.getvalue())
    return b"".join(parts)
