"""Ids of transactions, and how people write them."""

import pickle

import pytest

from magnetar.errors import UsageError
from magnetar.model.txn_id import TxnId


def test_ids_are_values_with_pulsars_text() -> None:
    id = TxnId(-1, 7)
    assert str(id) == "(-1,7)"
    assert id == TxnId(-1, 7) == pickle.loads(pickle.dumps(id))
    assert len({id, TxnId(-1, 7), TxnId(7, -1)}) == 2
    assert id != (-1, 7)


@pytest.mark.parametrize("text", ["(0,17)", "0:17", " ( 0, 17 ) "])
def test_an_id_is_read_as_pulsar_and_as_people_write_it(text: str) -> None:
    assert TxnId.parse(text) == TxnId(0, 17)


@pytest.mark.parametrize("text", ["", "17", "0:17:3", "0:x", "0:1_7", "0:\u0661", f"0:{1 << 63}"])
def test_what_is_no_id_is_refused_with_how_to_write_one(text: str) -> None:
    with pytest.raises(UsageError, match=r"is not the id of a transaction: write it as 0:17"):
        TxnId.parse(text)
