"""Long lists of ids are cut before they are read, and nothing that is wrong gets through."""

import asyncio
import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.admin.backlog.id_list import PIECE_BYTES, cut_list, find_list
from magnetar.admin.backlog.skip import IDS_MAX, read_ids
from magnetar.admin.http.answer import Refusal

ID = {"ledgerId": 1234567890123, "entryId": 1}
MANY = 5 * PIECE_BYTES // len(json.dumps(ID))


def read(body: bytes) -> int:
    return len(asyncio.run(read_ids(body)))


def refusal(body: bytes) -> str:
    with pytest.raises(Refusal) as refused:
        read(body)
    return refused.value.reason


@pytest.mark.parametrize("separators", [(",", ":"), (" , ", " : "), ("\n,\t", ":")])
def test_long_lists_are_read_however_they_are_spaced(separators: tuple[str, str]) -> None:
    ids = [{"ledgerId": number, "entryId": 1} for number in range(MANY)]
    both = {"messageIds": ids, "type": "messageId"}
    body = json.dumps(both, separators=separators).encode()
    assert len(body) > 2 * PIECE_BYTES
    found = asyncio.run(read_ids(body))
    assert [id.ledger_id for id in found] == list(range(MANY))
    texts = [base64.b64encode(b"\x08\x05\x10\x02").decode()] * MANY
    assert read(json.dumps(texts, separators=separators).encode()) == MANY


@given(
    st.lists(st.integers(0, 10**12), min_size=1, max_size=3000),
    st.sampled_from(["", " ", "\n  "]),
)
def test_the_pieces_are_the_list(numbers: list[int], space: str) -> None:
    body = f"[{space}{f'{space},{space}'.join([json.dumps({'n': n}) for n in numbers])}]".encode()
    head, first, end = find_list(body)
    assert head == b"[]"
    pieces = list(cut_list(body, first, end, objects=True))
    assert max(map(len, pieces)) <= PIECE_BYTES + 2
    assert [one for piece in pieces for one in json.loads(piece)] == [{"n": n} for n in numbers]


def joined(elements: list[bytes], separator: bytes = b",") -> bytes:
    return b'{"type": "messageId", "messageIds": [%b]}' % separator.join(elements)


def test_what_is_no_list_of_ids_is_refused_before_all_of_it_is_read() -> None:
    one = json.dumps(ID).encode()
    assert "no message has an id of" in refusal(joined([b"0"] * PIECE_BYTES))
    assert "id 0 of the list" in refusal(joined([b"{}"] * PIECE_BYTES))
    assert "is not JSON" in refusal(joined([one] * MANY, b" "))
    assert "is not JSON" in refusal(joined([one] * MANY, b",,"))
    assert "is not JSON" in refusal(joined([*[one] * MANY, b""]))
    assert "no list of ids" in refusal(b" " * 2 * PIECE_BYTES)
    assert "no list of ids" in refusal(b"[" + b" " * 2 * PIECE_BYTES)
    assert "no message has an id" in refusal(b"[" + b" " * 2 * PIECE_BYTES + b"]")
    assert "type is 'other'" in refusal(joined([one] * MANY).replace(b'"messageId"', b'"other"'))


def test_the_number_of_ids_is_limited() -> None:
    text = b'"CAUQAg=="'
    assert "more than 200000 ids" in refusal(b"[%b]" % b",".join([text] * (2 * IDS_MAX)))
    assert read(b"[%b]" % b",".join([text] * IDS_MAX)) == IDS_MAX
