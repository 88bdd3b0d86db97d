"""A producer's core and transactions: what is held, what shares an entry, and who is told."""

from client.producer_model import Fixture, connected
from client.transaction.transaction_model import Bench

from magnetar.client.option.options import BatchingType
from magnetar.client.producer.outgoing import Outgoing
from magnetar.errors import AuthorizationError, Interrupted, InvalidTxnStatusError, Timeout
from magnetar.model.txn_id import TxnId


def send(fixture: Fixture, bench: Bench | None, payload: bytes, **fields: object) -> None:
    if bench is None:
        fixture.send(payload, **fields)
        return
    message = Outgoing(
        payload,
        fixture.told(payload),
        transaction=bench.core,
        **fields,  # type: ignore[arg-type]
    )
    bench.core.join()
    message.enlistment = bench.enlist()
    fixture.core.send(message)


def begun(id: TxnId) -> Bench:
    """A transaction that has the topic."""
    bench = Bench(id)
    bench.enlist()
    bench.answer()
    return bench


def entries(fixture: Fixture) -> list[tuple[list[bytes], tuple[int | None, int | None]]]:
    return [
        (
            [message.payload for message in one.messages],
            (one.metadata.txnid_most_bits, one.metadata.txnid_least_bits),
        )
        for one in fixture.broker.stored
    ]


def test_the_first_transaction_of_a_cluster_is_named_though_its_bits_are_zero() -> None:
    fixture = connected()
    send(fixture, begun(TxnId(0, 0)), b"a")
    send(fixture, None, b"b")
    fixture.answer_all()
    first, second = fixture.broker.stored
    assert first.send.in_transaction
    assert not second.send.in_transaction
    assert entries(fixture) == [([b"a"], (0, 0)), ([b"b"], (None, None))]


def test_entries_hold_messages_of_one_transaction_or_of_none() -> None:
    for kind in BatchingType:
        fixture = connected(batching_enabled=True, batching_type=kind)
        first, second = begun(TxnId(1, 1)), begun(TxnId(1, 2))
        its = [None, None, first, first, second, None, first]
        for number, bench in enumerate(its):
            send(fixture, bench, b"%d" % number)
        fixture.core.flush()
        fixture.answer_all()
        assert entries(fixture) == [
            ([b"0", b"1"], (None, None)),
            ([b"2", b"3"], (1, 1)),
            ([b"4"], (1, 2)),
            ([b"5"], (None, None)),
            ([b"6"], (1, 1)),
        ]
        assert (first.core.under_way, second.core.under_way) == (0, 0)


def test_a_message_waits_for_the_coordinator_and_all_behind_it_wait_too() -> None:
    fixture = connected(batching_enabled=True)
    bench = Bench()
    send(fixture, None, b"before")
    send(fixture, bench, b"in")
    send(fixture, None, b"behind", sequence_id=77)
    idle: list[bool] = []
    fixture.core.when_idle(lambda: idle.append(True))
    fixture.answer_all()
    assert [payloads for payloads, _ in entries(fixture)] == [[b"before"]]
    assert idle == []
    bench.answer()
    fixture.core.enlisted()
    fixture.answer_all()
    assert [payloads for payloads, _ in entries(fixture)] == [[b"before"], [b"in"], [b"behind"]]
    assert idle == [True]
    assert fixture.core.pending_messages == 0


def test_a_second_transaction_that_waits_keeps_its_place_behind_the_first() -> None:
    fixture = connected(batching_enabled=True)
    first, second = Bench(TxnId(1, 1)), Bench(TxnId(1, 2))
    send(fixture, first, b"1")
    send(fixture, second, b"2")
    send(fixture, first, b"3")
    second.answer()
    fixture.core.enlisted()
    assert fixture.broker.inbox == b""
    first.answer()
    fixture.core.enlisted()
    fixture.answer_all()
    assert [payloads for payloads, _ in entries(fixture)] == [[b"1"], [b"2"], [b"3"]]


def test_what_the_coordinator_refuses_fails_and_the_rest_goes_on() -> None:
    fixture = connected()
    bench = Bench()
    send(fixture, bench, b"in")
    send(fixture, None, b"behind")
    problem = AuthorizationError("not you")
    bench.answer(problem)
    fixture.core.enlisted()
    fixture.answer_all()
    assert fixture.done[b"in"] == (problem, None)
    assert fixture.done[b"behind"][0] is None
    assert bench.core.failure is problem
    assert fixture.core.pending_messages == 0


def test_an_abort_fails_what_is_held_for_its_transaction() -> None:
    fixture = connected()
    bench = Bench()
    send(fixture, bench, b"in")
    bench.core.begin_abort()
    fixture.core.enlisted()
    assert isinstance(fixture.done[b"in"][0], InvalidTxnStatusError)
    assert bench.core.under_way == 0


def test_what_was_sent_before_the_first_connection_waits_for_both() -> None:
    fixture = Fixture(batching_enabled=True)
    bench = Bench()
    send(fixture, bench, b"in")
    send(fixture, None, b"behind")
    fixture.connect()
    assert fixture.broker.inbox == b""
    bench.answer()
    fixture.core.enlisted()
    fixture.core.flush()
    fixture.answer_all()
    assert [payloads for payloads, _ in entries(fixture)] == [[b"in"], [b"behind"]]


def test_what_waits_too_long_fails_and_so_does_its_transaction() -> None:
    fixture = connected(send_timeout_millis=500)
    bench = Bench()
    send(fixture, bench, b"in")
    fixture.advance(500)
    assert isinstance(fixture.done[b"in"][0], Timeout)
    assert isinstance(bench.core.failure, Timeout)
    assert fixture.core.pending_messages == 0


def test_a_producer_that_is_closed_tells_the_transactions_of_all_it_had() -> None:
    fixture = connected(batching_enabled=True)
    ready, waiting = begun(TxnId(1, 1)), Bench(TxnId(1, 2))
    send(fixture, ready, b"written")
    fixture.core.flush()
    send(fixture, ready, b"open")
    send(fixture, waiting, b"held")
    problem = Timeout("the end")
    fixture.core.close(problem)
    assert (ready.core.under_way, waiting.core.under_way) == (0, 0)
    assert ready.core.failure is waiting.core.failure is problem


def test_what_is_sent_again_on_another_connection_names_its_transaction_still() -> None:
    fixture = connected(deduplicates=True)
    send(fixture, None, b"before")
    fixture.answer_all()
    bench = begun(TxnId(4, 2))
    send(fixture, bench, b"in")
    fixture.disconnect()
    fixture.connect()
    fixture.answer_all()
    assert entries(fixture) == [([b"before"], (None, None)), ([b"in"], (4, 2))]
    assert (bench.core.under_way, bench.core.failure) == (0, None)


def test_what_may_be_stored_already_dooms_its_transaction_instead_of_being_there_twice() -> None:
    for options in ({}, {"batching_enabled": True}):
        fixture = connected(**options)
        bench, other = begun(TxnId(4, 2)), begun(TxnId(4, 3))
        send(fixture, bench, b"doubtful")
        fixture.core.flush()
        send(fixture, None, b"plain")
        fixture.core.flush()
        fixture.disconnect()
        send(fixture, other, b"never written")
        fixture.core.flush()
        fixture.connect()
        fixture.answer_all()
        assert entries(fixture)[-2:] == [([b"plain"], (None, None)), ([b"never written"], (4, 3))]
        assert [len(messages) for messages, id in entries(fixture) if id == (4, 2)] == []
        assert isinstance(bench.core.failure, Interrupted)
        assert (bench.core.under_way, other.core.under_way, other.core.failure) == (0, 0, None)


def test_a_message_in_chunks_of_which_some_may_be_stored_dooms_its_transaction() -> None:
    fixture = connected(chunking_enabled=True, chunk_max_message_size=100)
    bench = begun(TxnId(4, 2))
    send(fixture, bench, bytes(1000))
    fixture.disconnect()
    fixture.connect()
    fixture.answer_all()
    assert isinstance(bench.core.failure, Interrupted)
    assert bench.core.under_way == 0


def test_what_a_broker_says_it_has_not_stored_is_sent_again_in_its_transaction() -> None:
    for options in ({}, {"batching_enabled": True}):
        fixture = connected(**options)
        bench = begun(TxnId(4, 2))
        send(fixture, bench, b"unstored")
        fixture.core.flush()
        fixture.disconnect(answered=True)
        fixture.connect()
        fixture.answer_all()
        assert entries(fixture) == [([b"unstored"], (4, 2))]
        assert (bench.core.under_way, bench.core.failure) == (0, None)


def test_what_is_written_again_after_that_may_be_stored_again() -> None:
    fixture = connected()
    bench = begun(TxnId(4, 2))
    send(fixture, bench, b"doubtful")
    fixture.disconnect(answered=True)
    fixture.connect()
    fixture.disconnect()
    fixture.connect()
    fixture.answer_all()
    assert entries(fixture) == []
    assert isinstance(bench.core.failure, Interrupted)
