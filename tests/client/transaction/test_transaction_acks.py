"""Acks in transactions: what an ACK names, what becomes of it, and what comes again."""

from pathlib import Path

import pytest
from client.transaction.transaction_model import Bench

from magnetar.client.ack.entry_acks import Cumulative
from magnetar.client.ack.settings import AckSettings
from magnetar.client.ack.transaction_acks import EVENTS, TABLE, Named, TransactionAcks
from magnetar.errors import Interrupted, Timeout, TransactionConflict
from magnetar.model import ServerError
from magnetar.model.enums import AckType
from magnetar.model.position_key import wide_key
from magnetar.model.txn_id import TxnId
from magnetar.protocol import Command, CommandAck, CommandAckResponse

SOURCE = Path(__file__).parents[3] / "src/magnetar/client/ack/transaction_acks.py"


class Wire:
    """The acks of one consumer, and what was written of them."""

    def __init__(self, *, connected: bool = True, group_time_ms: int = 100) -> None:
        self.now = 10_000
        self.written: list[CommandAck] = []
        self.results: list[Exception | None] = []
        settings = AckSettings(
            group_time_ms=group_time_ms,
            group_size_max=4,
            receipts=False,
            receipt_timeout_ms=5_000,
        )
        self.acks = TransactionAcks(3, settings, now_ms=lambda: self.now, write=self._write)
        if connected:
            self.acks.connected()

    def _write(self, commands: list[Command]) -> None:
        for command in commands:
            assert isinstance(command, CommandAck)
            assert command.request_id is not None
            assert command.in_transaction
            self.written.append(command)

    def ack(self, bench: Bench, *places: tuple[int, int, int], waits: bool = False) -> None:
        """Acks (entry, index, size of the batch); size 0 is no batch."""
        named = [Named(wide_key(7, e), size, 1 << max(i, 0)) for e, i, size in places]
        self.acks.check(named, bench.core)
        self.acks.acknowledge(bench.enlist("t", "s"), named, self.results.append if waits else None)

    def sent(self) -> list[tuple[int, int, list[tuple[int, int | None]]]]:
        """Transaction, type, and entries with their bits, of each ACK since the last call."""
        written, self.written = self.written, []
        return [
            (one.txnid_least_bits, one.ack_type, [(i.entry_id, i.ack_set) for i in one.message_ids])
            for one in written
        ]

    def answer_all(self, error: ServerError | None = None) -> None:
        for request_id in list(self.acks._flights):
            code = None if error is None else int(error)
            assert self.acks.answered(CommandAckResponse(3, request_id, code, "no"))


def begun(least: int = 5) -> Bench:
    bench = Bench(TxnId(0, least))
    bench.enlist("t", "s")
    bench.answer()
    return bench


ONE = AckType.Individual.value


def test_the_table_has_a_row_for_each_state_and_a_cell_for_each_event() -> None:
    assert [row[0] for row in TABLE] == [0, 1, 2, 3]
    assert {len(row) for row in TABLE} == {EVENTS + 1}
    text = SOURCE.read_text()  # a compiled module has no docstring
    for name in ("gathered", "in flight", "recorded", "ended", "sent", "kept", "lost", "failed"):
        assert f"| {name} " in text


def test_an_ack_names_one_transaction_and_only_what_was_acked_in_it() -> None:
    wire, first, second = Wire(), begun(1), begun(2)
    wire.ack(first, (4, 0, 8), (5, -1, 0))
    wire.ack(second, (4, 3, 8))
    wire.ack(first, (4, 1, 8))
    wire.acks.flush()
    assert wire.sent() == [
        (1, ONE, [(4, 0b11111110), (5, None), (4, 0b11111101)]),
        (2, ONE, [(4, 0b11110111)]),
    ]
    assert (first.core.under_way, second.core.under_way) == (2, 1)
    wire.answer_all()
    assert (first.core.under_way, second.core.under_way) == (0, 0)
    assert wire.acks.unanswered == 0


def test_acks_gather_until_their_time_their_number_or_somebody_who_waits() -> None:
    wire, bench = Wire(), begun()
    wire.ack(bench, (1, -1, 0))
    assert wire.sent() == []
    assert wire.acks.next_ms() == wire.now + 100
    wire.now += 100
    wire.acks.tick(wire.now)
    assert len(wire.sent()) == 1
    for entry in range(2, 6):
        wire.ack(bench, (entry, -1, 0))
    assert [len(ids) for _, _, ids in wire.sent()] == [4]
    wire.ack(bench, (9, -1, 0), waits=True)
    assert len(wire.sent()) == 1
    assert wire.results == []
    wire.answer_all()
    assert wire.results == [None]


def test_nothing_is_sent_before_the_coordinator_knows_the_subscription() -> None:
    wire, bench = Wire(), Bench()
    wire.ack(bench, (1, -1, 0), waits=True)
    assert wire.sent() == []
    bench.answer()
    wire.acks.flush()
    assert len(wire.sent()) == 1


def test_what_the_transaction_has_already_is_not_sent_twice() -> None:
    wire, bench = Wire(), begun()
    wire.ack(bench, (1, -1, 0), waits=True)
    wire.ack(bench, (1, -1, 0), waits=True)
    assert len(wire.sent()) == 1
    assert wire.results == [None]  # of the second; the first is the broker's to answer
    assert bench.core.under_way == 1


def test_another_transaction_cannot_ack_what_an_open_one_has() -> None:
    wire, first, second = Wire(), begun(1), begun(2)
    wire.ack(first, (1, 2, 4))
    wire.ack(second, (1, 3, 4))
    with pytest.raises(TransactionConflict, match=r"entry 7:1 was .* \(0,1\), which is open"):
        wire.ack(second, (1, 2, 4))
    with pytest.raises(TransactionConflict):
        wire.acks.check([Named(wide_key(7, 1), 4, 1 << 3)], None)
    assert (first.core.under_way, second.core.under_way) == (1, 1)


def test_a_refusal_dooms_the_transaction_and_tells_who_waits() -> None:
    wire, bench = Wire(), begun()
    wire.ack(bench, (1, -1, 0), (2, -1, 0), waits=True)
    wire.answer_all(ServerError.TransactionConflict)
    assert isinstance(wire.results[0], TransactionConflict)
    assert bench.core.failure is wire.results[0]
    end = wire.acks.end(bench.core)
    assert end is not None
    assert end.again == [wide_key(7, 1), wide_key(7, 2)]
    assert not wire.acks.parts


def test_an_answer_that_is_lost_with_its_connection_is_asked_for_again() -> None:
    wire, bench = Wire(), begun()
    wire.ack(bench, (1, -1, 0))
    wire.ack(bench, (2, 0, 2))
    wire.acks.flush()
    before = wire.sent()
    wire.acks.disconnected()
    wire.ack(bench, (3, -1, 0))
    assert wire.sent() == []
    wire.acks.connected()
    ((_, _, ids),) = wire.sent()
    assert ids == [(3, None), *before[0][2]] or ids == [*before[0][2], (3, None)]
    wire.answer_all()
    assert bench.core.under_way == 0
    assert bench.core.failure is None


def test_an_answer_that_does_not_come_in_time_dooms_the_transaction() -> None:
    for online in (True, False):
        wire, bench = Wire(), begun()
        wire.ack(bench, (1, -1, 0), waits=True)
        if not online:
            wire.acks.disconnected()
        assert wire.acks.next_ms() == wire.now + 5_000
        wire.now += 5_000
        wire.acks.tick(wire.now)
        assert isinstance(wire.results[0], Timeout)
        assert isinstance(bench.core.failure, Timeout)
        assert bench.core.under_way == 0


def test_a_copy_of_what_was_acked_is_held_back_and_asked_for_after_an_abort() -> None:
    wire, bench = Wire(), begun()
    wire.ack(bench, (1, 1, 4), (2, -1, 0), waits=True)
    wire.answer_all()
    assert wire.acks.hold_back(wide_key(7, 1), 0b1111) == 0b1101
    assert wire.acks.hold_back(wide_key(7, 3), 1) == 1
    end = wire.acks.end(bench.core)
    assert end is not None
    assert end.again == [wide_key(7, 1)]
    assert [piece.key for piece in end.recorded] == [wide_key(7, 1), wide_key(7, 2)]
    assert wire.acks.hold_back(wide_key(7, 1), 0b1111) == 0b1111


def test_a_cumulative_ack_goes_by_itself_and_holds_back_all_before_it() -> None:
    wire, bench = Wire(), begun()
    cumulative = Cumulative(7, 5, 1, 4)
    wire.acks.acknowledge_cumulative(bench.enlist("t", "s"), cumulative, wire.results.append)
    assert wire.sent() == [(5, AckType.Cumulative.value, [(5, 0b1100)])]
    assert wire.acks.hold_back(wide_key(7, 4), 0b11) == 0
    assert wire.acks.hold_back(wide_key(7, 5), 0b1111) == 0b1100
    wire.answer_all()
    assert wire.results == [None]
    assert bench.core.under_way == 0


def test_a_negative_ack_dooms_the_transaction_that_has_the_message_and_no_other() -> None:
    wire, first, second = Wire(), begun(1), begun(2)
    wire.ack(first, (1, 0, 4), waits=True)
    wire.ack(second, (1, 1, 4))
    wire.acks.take_back(wide_key(7, 1), 0b0001)
    assert isinstance(first.core.failure, Interrupted)
    assert second.core.failure is None
    assert isinstance(wire.results[0], Interrupted)


def test_a_seek_dooms_every_open_transaction_that_acked_here() -> None:
    wire, first, second = Wire(), begun(1), begun(2)
    wire.ack(first, (1, -1, 0), waits=True)
    wire.answer_all()
    wire.ack(second, (2, -1, 0))
    problem = Interrupted("sought")
    wire.acks.fail_all(problem)
    assert first.core.failure is second.core.failure is problem
    assert (first.core.under_way, second.core.under_way) == (0, 0)
    assert not wire.acks.parts
    assert wire.acks.end(first.core) is None


def test_a_consumer_that_is_closed_keeps_what_the_broker_has_and_fails_the_rest() -> None:
    wire, first, second = Wire(), begun(1), begun(2)
    wire.ack(first, (1, -1, 0), waits=True)
    wire.answer_all()
    wire.ack(second, (2, -1, 0))
    problem = Interrupted("closed")
    wire.acks.close(problem)
    assert first.core.failure is None
    assert second.core.failure is problem


def test_answers_that_are_not_of_transactions_are_left_to_others() -> None:
    wire = Wire()
    assert not wire.acks.answered(CommandAckResponse(3, 1))
    assert not wire.acks.answered(CommandAckResponse(3))
    assert wire.acks.answered(CommandAckResponse(3, (1 << 40) + 7))  # of one that has ended
