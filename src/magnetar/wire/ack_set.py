"""Bitsets of batch indexes: a Python int in memory, 64-bit words on the wire.

Bit i is set while index i of the batch is *unacked*. Word k holds bits 64k to 64k+63 as
a signed number; words that are zero to the end are left out, as Java's BitSet does. A
set without any bit is therefore written as no words at all, and that is right: in an
ACK it means the whole entry.

>>> bits_to_words((1 << 70) - (1 << 64)), words_to_bits([0, 63]) == 63 << 64
([0, 63], True)
"""

from typing import Final, final

from mypy_extensions import i64

from magnetar.wire.integer import INT64_MAX
from magnetar.wire.reader import Reader
from magnetar.wire.writer import BytesWriter, put_i64_le, put_int_field

WORD_BITS: Final = 64
# What a message in a batch takes at least: the size of its metadata, and metadata that
# names the payload's size.
MESSAGE_BYTES_MIN: Final = 6
# A message of 5 MiB has room for 873,813 of them. A size beyond this would have us build
# bitsets as large as a peer likes.
BATCH_SIZE_MAX: Final = 1 << 20
WORDS_MAX: Final = BATCH_SIZE_MAX // WORD_BITS


@final
class AckSetReader:
    """Gathers the words of one `ack_set` field, packed or not, as they are read."""

    def __init__(self) -> None:
        self._words = BytesWriter()

    def take(self, reader: Reader) -> None:
        """A word of the unpacked form."""
        if len(self._words) == WORDS_MAX * 8:
            reader.fail(f"more than {WORDS_MAX} words")
        put_i64_le(self._words, reader.varint())

    def take_packed(self, reader: Reader) -> None:
        inner = reader.packed()
        while inner.more():
            self.take(inner)

    def bits(self) -> int | None:
        """Returns the bitset, or None if there was not even one word: that is no ack_set."""
        words = self._words.getvalue()
        return int.from_bytes(words, "little") if words else None


def words_to_bits(words: list[int]) -> int:
    """Returns the bitset that signed 64-bit words spell."""
    out = BytesWriter()
    for word in words:
        put_i64_le(out, word)
    return int.from_bytes(out.getvalue(), "little")


def bits_to_words(bits: int) -> list[int]:
    """Returns the signed 64-bit words that spell a bitset, without trailing zero words."""
    count = (bits.bit_length() + WORD_BITS - 1) // WORD_BITS
    data = bits.to_bytes(count * 8, "little")
    return [int.from_bytes(data[i : i + 8], "little", signed=True) for i in range(0, len(data), 8)]


def put_ack_set_field(out: BytesWriter, tag: i64, bits: int) -> None:
    """Writes the words as an unpacked repeated field, which is how Pulsar's clients expect them."""
    if 0 < bits <= INT64_MAX:
        put_int_field(out, tag, bits)
        return
    for word in bits_to_words(bits):
        put_int_field(out, tag, word)


def all_unacked(batch_size: int) -> int:
    """Returns the set of a batch of which nothing is acked yet."""
    return (1 << batch_size) - 1
