"""Transactions in the log: open ones stay open, ended ones ended, and none ends by half (I11)."""

from random import Random

import pytest
from storage.by_hand import publish
from storage.conftest import House
from storage.faulty_disk import FaultyDisk, PowerCut
from storage.transaction.transaction_work import TransactionWorkload
from storage.workload import small_options

from magnetar.storage import MemoryDisk, Retention, Store, check, open_store
from magnetar.storage.transaction import transaction_state
from magnetar.storage.transaction.transaction_state import ABORTED, COMMITTED


def begin(store: Store) -> int:
    number = store.transactions.begin(60_000, "me")
    store.flush()
    return number


def send(store: Store, number: int, topic_id: int, count: int = 1) -> dict[int, list[int]]:
    sent: dict[int, list[int]] = {}
    for _ in range(count):
        position = publish(store, topic_id, 1)[0]
        store.transactions.sent(number, position)
        sent.setdefault(int(position.ledger_id), []).append(int(position.entry_id))
    store.flush()
    return sent


def has_delta_of(store: Store, cursor_id: int, number: int) -> bool:
    if cursor_id not in store.log.state.cursors:
        return False
    return any(delta.startswith(b"%d" % number) for delta in store.cursor_image(cursor_id).deltas)


def sent_by(store: Store, number: int) -> dict[int, list[int]]:
    open = store.transactions.state.open[number]
    return {ledger_id: list(entries) for ledger_id, entries in open.sent.items()}


@pytest.mark.parametrize("clean", [True, False])
def test_what_is_open_is_open_after_a_restart_with_all_that_it_did(
    house: House, clean: bool
) -> None:
    store = house.store
    topic_id = store.create_topic("t")
    cursor_id = store.create_cursor(topic_id, "s", b"")
    store.flush()
    number = begin(store)
    sent = send(store, number, topic_id, 15)
    store.transactions.ack(number, cursor_id, b"delta")
    store.flush()
    store = house.reopen(clean=clean)
    found = store.transactions.state.open[number]
    assert sent_by(store, number) == sent
    assert store.transactions.deltas(found) == [(cursor_id, b"delta")]
    assert store.transactions.owner(found) == "me"
    assert found.timeout_ms == 60_000
    assert store.cursor_image(cursor_id).deltas == []


@pytest.mark.parametrize("clean", [True, False])
def test_a_commit_writes_the_deltas_of_all_cursors(house: House, clean: bool) -> None:
    store = house.store
    topic_id = store.create_topic("t")
    cursors = [store.create_cursor(topic_id, f"s{i}", b"") for i in range(3)]
    store.flush()
    number = begin(store)
    send(store, number, topic_id, 2)
    store.transactions.commit(number, [(cursor, 0, b"delta") for cursor in cursors])
    store.flush()
    for _ in range(2):
        assert [store.cursor_image(cursor).deltas for cursor in cursors] == [[b"delta"]] * 3
        assert number not in store.transactions.state.open
        assert store.transactions.state.ended[number].outcome == COMMITTED
        assert not any(store.transactions.aborted(id.id) for id in store.ledgers(topic_id))
        store = house.reopen(clean=clean)


@pytest.mark.parametrize("clean", [True, False])
def test_what_aborted_of_a_ledger_is_kept_as_long_as_the_ledger(house: House, clean: bool) -> None:
    store = house.store
    topic_id = store.create_topic("t")
    store.flush()
    one, other = begin(store), begin(store)
    first = send(store, one, topic_id, 3)
    publish(store, topic_id, 2)
    second = send(store, other, topic_id, 3)
    # Both at once: the second must know of the first, which is not durable yet.
    store.transactions.abort(one)
    store.transactions.abort(other)
    store.flush()
    wanted = {id: first.get(id, []) + second.get(id, []) for id in first | second}
    for _ in range(2):
        for ledger_id, entries in wanted.items():
            assert list(store.transactions.aborted(ledger_id)) == entries
        assert store.transactions.state.ended[one].outcome == ABORTED
        store = house.reopen(clean=clean)
    store.seal_topic(topic_id)
    store.flush()
    store.trim(topic_id, None, Retention())
    store.flush()
    assert not any(store.transactions.aborted(ledger_id) for ledger_id in wanted)


def test_numbers_ascend_and_are_never_given_twice_whatever_the_clock(house: House) -> None:
    numbers = [begin(house.store) for _ in range(5)]
    house.clock.now_ms -= 10_000_000_000
    store = house.reopen(clean=False)
    numbers += [begin(store) for _ in range(5)]
    house.clock.now_ms += 20_000_000_000
    numbers.append(begin(house.reopen()))
    assert numbers == sorted(set(numbers))
    assert numbers[-1] < 1 << 53  # JavaScript's


def test_no_segment_goes_that_an_open_transaction_may_need(house: House) -> None:
    store = house.store
    topic_id = store.create_topic("t")
    store.flush()
    number = begin(store)
    held = store.transactions.state.segment_held()
    for _ in range(10):
        publish(store, topic_id, 40, 400)
        store.flush()
    store.seal_topic(topic_id)
    store.flush()
    store.trim(topic_id, None, Retention())
    house.work_off()
    assert held in store.log.lengths
    assert len(store.log.lengths) > 3
    store.transactions.abort(number)
    house.work_off()
    assert len(house.store.log.lengths) <= 3
    store = house.reopen(clean=False)
    assert number not in store.transactions.state.open
    assert store.transactions.state.ended[number].outcome == ABORTED


def test_what_is_forgotten_is_not_open_again(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """The segment with the end may go before the one with the beginning does."""
    if not transaction_state.__file__.endswith(".py"):
        pytest.skip("compiled, a constant cannot be replaced")
    monkeypatch.setattr(transaction_state, "ENDED_MAX", 2)
    store = house.store
    quiet, busy = store.create_topic("quiet"), store.create_topic("busy")
    store.flush()
    number = begin(store)
    kept = publish(store, quiet, 30, 400)  # keeps the segment of the beginning
    store.flush()
    for _ in range(5):
        publish(store, busy, 40, 400)
        store.flush()
    store.transactions.commit(number, [])
    store.flush()
    for _ in range(3):
        store.transactions.commit(begin(store), [])
        store.flush()
    for _ in range(5):
        publish(store, busy, 40, 400)
        store.flush()
    store.seal_topic(busy)
    store.flush()
    store.trim(busy, None, Retention())
    house.work_off()
    assert number not in store.transactions.state.ended
    store = house.reopen(clean=False)
    assert sum(ledger.entries for ledger in store.ledgers(quiet)) == len(kept)
    assert not store.transactions.state.open
    assert len(store.transactions.state.ended) == 2


def test_a_power_cut_leaves_all_of_a_commit_or_nothing() -> None:
    seen: set[int] = set()
    for seed in range(80):
        random = Random(seed)
        disk = FaultyDisk()
        store = open_store(disk, lambda: 0, small_options("interval", fsync_interval_ms=50))
        topics = [store.create_topic(f"t{i}") for i in range(6)]
        cursors = [store.create_cursor(topic, "s", b"") for topic in topics]
        store.flush()
        disk.cut_at = disk.operations + random.randrange(1, 16)
        committed = 0
        try:
            for _ in range(4):
                number = store.transactions.begin(1, "")
                for topic_id in topics:
                    position = publish(store, topic_id, 1, 900)[0]
                    store.transactions.sent(number, position)
                store.flush()
                body = b"%d" % number + bytes(random.randrange(900))
                store.transactions.commit(number, [(cursor, 0, body) for cursor in cursors])
                store.flush()
                committed += 1
        except PowerCut:
            pass
        store = open_store(disk.crash(random), lambda: 0, small_options())
        found = store.transactions.state
        for number in found.ended:
            assert all(has_delta_of(store, cursor, number) for cursor in cursors)
        for number in found.open:
            assert not any(has_delta_of(store, cursor, number) for cursor in cursors)
        seen.add(len(found.ended))
        store.close()
    assert len(seen) > 2, "the power was never cut in between"


@pytest.mark.parametrize("clean", [True, False])
def test_a_random_life_with_restarts_keeps_every_transaction_whole(clean: bool) -> None:
    ended = 0
    for seed in range(25):
        random = Random(f"{seed} {clean}")
        work = TransactionWorkload(small_options("always"))
        disk = MemoryDisk()
        work.open(disk)
        for _ in range(4):
            for _ in range(60):
                work.step(random)
            work.flush()
            if clean:
                work.store.close()
            else:
                work.store.log.disk.close()
            assert check(disk) == []
            work.open(disk)
            work.verify()
        ended += sum(one.ended == COMMITTED for one in work.work.values())
        work.store.close()
        assert check(disk) == []
    assert ended > 50


def test_a_power_cut_at_any_operation_keeps_every_transaction_whole() -> None:
    for seed in range(60):
        random = Random(seed)
        work = TransactionWorkload(small_options("always"))
        disk = FaultyDisk()
        work.open(disk)
        for _ in range(3):
            disk.cut_at = disk.operations + random.randrange(20, 120)
            try:
                for _ in range(200):
                    work.step(random)
            except PowerCut:
                pass
            disk = disk.crash(random)
            work.open(disk)
            work.verify()
        work.store.close()
        assert check(disk) == []
