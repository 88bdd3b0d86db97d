"""Entries in memory: whose they are, how many, and which leave first."""

from magnetar.storage.ledger.cache import NUMBERS_MIN, OVERHEAD_BYTES, EntryCache

# As wide as ids are.
LEDGER = 392_940_748_801_933


def test_an_entry_is_found_by_its_ledger_and_number_and_by_no_other() -> None:
    cache = EntryCache(10_000)
    # In one machine word with an entry's number, all of these would be the same ledger.
    ledgers = [LEDGER + (n << 32) for n in range(3)]
    for ledger in ledgers[:2]:
        cache.put(ledger, 5, b"%d" % ledger)
    assert [cache.get(ledger, 5) for ledger in ledgers] == [
        b"%d" % ledgers[0],
        b"%d" % ledgers[1],
        None,
    ]
    assert cache.get(LEDGER, 6) is None
    assert cache.count() == 2


def test_the_oldest_leaves_first_and_what_is_there_stays_where_it_is() -> None:
    cache = EntryCache(3 * (OVERHEAD_BYTES + 1))
    for entry in (0, 1, 2):
        cache.put(LEDGER, entry, b"x")
    cache.put(LEDGER, 0, b"y")
    assert cache.get(LEDGER, 0) == b"x"
    cache.put(LEDGER + 1, 0, b"z")
    assert [cache.get(LEDGER, entry) for entry in (0, 1, 2)] == [None, b"x", b"x"]
    assert cache.get(LEDGER + 1, 0) == b"z"
    assert cache.size_bytes == 3 * (OVERHEAD_BYTES + 1)


def test_what_is_larger_than_all_of_it_is_not_kept() -> None:
    cache = EntryCache(OVERHEAD_BYTES)
    cache.put(LEDGER, 0, b"x")
    assert (cache.count(), cache.get(LEDGER, 0)) == (0, None)


def test_ledgers_without_entries_are_forgotten_and_those_with_some_are_not() -> None:
    cache = EntryCache(2 * (OVERHEAD_BYTES + 1))
    for n in range(3 * NUMBERS_MIN):
        cache.put(LEDGER + n, 7, b"%d" % (n % 10))
        assert cache.get(LEDGER + n, 7) == b"%d" % (n % 10)
        if n > 0:
            assert cache.get(LEDGER + n - 1, 7) == b"%d" % ((n - 1) % 10)
        if n > 1:
            assert cache.get(LEDGER + n - 2, 7) is None
    assert cache.count() == 2
    assert len(cache._numbers) <= NUMBERS_MIN + 5
