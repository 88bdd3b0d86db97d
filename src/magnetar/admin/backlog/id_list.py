"""A long list in the body of a request, cut into pieces before anything of it is read.

A JSON decoder takes all of a text at once, and 14 MB may be seven million small things. What is
asked for here is a list of short things, so the list can be found and cut by its bytes:

    {"type": "messageId", "messageIds": [{...}, {...}, ... {...}]}
    <------------- head --------------> <------ pieces ------->  head

A cut is behind a brace where ids are objects, and at a comma where they are texts. No id has
either of these inside it, so a cut in a wrong place means that the body is wrong anyway; it is
refused by whoever reads the piece, or here.
"""

import re
from collections.abc import Iterator
from typing import Final

from magnetar.admin.http.answer import BAD_REQUEST, Refusal

__all__ = ["PIECE_BYTES", "cut_list", "find_list"]

# About what is read in a millisecond or two.
PIECE_BYTES: Final = 16 << 10

_SPACE: Final = re.compile(rb"[ \t\r\n]*")


def find_list(raw: bytes) -> tuple[bytes, int, int]:
    """Returns the body with an empty list, and where its list begins and ends. Raises Refusal.

    >>> find_list(b'{"a": [1, 2]}')
    (b'{"a": []}', 7, 11)
    """
    first, last = raw.find(b"["), raw.rfind(b"]")
    if first < 0 or last < first or len(raw) - (last - first) > PIECE_BYTES:
        raise Refusal(BAD_REQUEST, "the body has no list of ids, or much else beside it")
    return raw[: first + 1] + raw[last:], first + 1, last


def cut_list(raw: bytes, first: int, end: int, *, objects: bool) -> Iterator[bytes]:
    """Yields the elements between two places in lists of about PIECE_BYTES. Raises Refusal.

    >>> list(cut_list(b'"a","b"', 0, 7, objects=False))
    [b'["a","b"]']
    """
    mark = b"}" if objects else b","
    while end - first > PIECE_BYTES:
        cut = raw.find(mark, first + PIECE_BYTES // 2, first + PIECE_BYTES)
        if cut < 0:
            raise Refusal(BAD_REQUEST, f"no message has an id of {PIECE_BYTES // 2} bytes")
        comma = cut
        if objects:
            cut += 1
            comma = _skip_space(raw, cut, end)
        if raw[comma : comma + 1] != b",":
            raise Refusal(BAD_REQUEST, f"the body is not JSON: a comma is missing at {comma}")
        yield b"[%b]" % raw[first:cut]
        first = comma + 1
    yield b"[%b]" % raw[first:end]


def _skip_space(raw: bytes, at: int, end: int) -> int:
    found = _SPACE.match(raw, at, min(end, at + PIECE_BYTES))
    assert found is not None  # it matches nothing, too
    return found.end()
