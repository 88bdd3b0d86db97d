"""Messages that wait for their time: which entries are delayed, until when, who is next.

An entry is delayed from `add` until `due` returns it, at its millisecond or later, or until
it is discarded since it was acked or skipped. Adding it again changes its time, if that is
another one, and nothing else. Counts are exact at any time.

How it works. Entries are grouped in pages of 16,384 neighbours, a few to a ledger. A page
has a table, entry to time, sorted by entry, and a heap of (time, entry). The table is the
truth: what the heap says counts only if the table says the same. So discarding is a mark in
the table, and when marks or stale items outnumber what is alive the page is *untidy* and
gets written anew. No call does that for more than one page, so no call takes long.

Above the pages stands a heap of *heads*. Each page has posted one item there, which is at
most its next message; `_true_head` brings the first item up to date, until it is true.

Why so: a heap and a table by Python's own means, of tuples and a dict, would take 250 bytes
per message. Here a heap item is an integer of 60 bits (14 for the entry in its page and 46
for the time, good until the year 4199), which is 40 bytes with its place in the list. A row
of the table takes 10.
"""

from array import array
from bisect import bisect_left, bisect_right, insort
from heapq import heapify, heappop, heappush, heapreplace
from itertools import compress
from typing import Final, final

__all__ = ["DelayedMessages"]

PAGE_BITS: Final = 14
PAGE_MASK: Final = (1 << PAGE_BITS) - 1
# A ledger of 64 bits and an entry of 32.
KEY_BITS: Final = 96
KEY_MASK: Final = (1 << KEY_BITS) - 1

# What stands in a table in place of a time when the entry is not delayed any more.
GONE: Final = -1

# Waste below this is not worth the work of clearing it away.
WASTE_MIN: Final = 64

# What things take, for the estimate in stats: a list's item with its integer of 60 bits
# or, for heads, 140; a row of a table; an empty page.
HEAP_ITEM_BYTES: Final = 8 + 32
HEAD_BYTES: Final = 8 + 48
ROW_BYTES: Final = 2 + 8
PAGE_BYTES: Final = 640


@final
class DelayedMessages:
    """The delayed entries of a subscription, as position keys (see `ack/ledgers.py`)."""

    def __init__(self) -> None:
        self._pages: Final[dict[int, _Page]] = {}
        self._page_ids: Final[list[int]] = []
        self._heads: list[int] = []
        # Pages to be written anew. A dict, for its order.
        self._untidy: Final[dict[int, None]] = {}
        self._count: int = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, key: int) -> bool:
        page = self._pages.get(key >> PAGE_BITS)
        return page is not None and page.find(key & PAGE_MASK) >= 0

    def add(self, key: int, deliver_at_ms: int) -> None:
        """Delays an entry until a time; before 1970 counts as 1970."""
        page_id = key >> PAGE_BITS
        page = self._pages.get(page_id)
        if page is None:
            page = _Page()
            self._pages[page_id] = page
            insort(self._page_ids, page_id)
        time = max(deliver_at_ms, 0)
        if page.put(key & PAGE_MASK, time):
            self._count += 1
        head = time << KEY_BITS | key
        if page.posted < 0 or head < page.posted:
            self._post(page, head)
        self._changed(page_id, page)
        self._tidy()

    def discard(self, key: int) -> None:
        """Forgets an entry, if it is delayed: it was acked or skipped."""
        self._forget(key)
        self._tidy()

    def discard_through(self, key: int) -> None:
        """Forgets all entries up to `key`, and it too: mark-delete covers them."""
        page_id = key >> PAGE_BITS
        while self._page_ids and self._page_ids[0] < page_id:
            self._count -= self._pages[self._page_ids[0]].live
            self._drop(self._page_ids[0])
        page = self._pages.get(page_id)
        if page is not None:
            self._count -= page.discard_through(key & PAGE_MASK)
            self._changed(page_id, page)
        self._tidy()

    def due(self, now_ms: int, n: int) -> list[int]:
        """Removes and returns at most `n` entries whose time has come, by time and position."""
        keys: list[int] = []
        while len(keys) < n:
            head = self._true_head()
            if head < 0 or head >> KEY_BITS > now_ms:
                break
            key = head & KEY_MASK
            keys.append(key)
            self._forget(key)
        self._tidy()
        return keys

    def next_ms(self) -> int | None:
        """Returns when the next entry is due, or None if there is none."""
        head = self._true_head()
        return head >> KEY_BITS if head >= 0 else None

    def page_after(self, page_id: int) -> tuple[int, list[tuple[int, int]]] | None:
        """Returns the delayed entries of the next page and their times, with its number; None at
        the end.

        For those who look at all of them, a page in each event: begin with -1.
        """
        at = bisect_right(self._page_ids, page_id)
        if at == len(self._page_ids):
            return None
        found = self._page_ids[at]
        first = found << PAGE_BITS
        page = self._pages[found]
        return found, [
            (first + low, time)
            for low, time in zip(page.lows, page.times, strict=True)
            if time != GONE
        ]

    def clear(self) -> None:
        self._pages.clear()
        self._page_ids.clear()
        self._heads.clear()
        self._untidy.clear()
        self._count = 0

    def memory_bytes(self) -> int:
        """About how much memory all this takes."""
        total = len(self._heads) * HEAD_BYTES
        for page in self._pages.values():
            total += PAGE_BYTES + len(page.heap) * HEAP_ITEM_BYTES + len(page.times) * ROW_BYTES
        return total

    def check(self) -> None:
        """Asserts that the parts agree with each other, and that no waste goes unseen."""
        assert self._page_ids == sorted(self._pages), "pages and their order differ"
        assert self._count == sum(page.live for page in self._pages.values()), "miscounted"
        heads = set(self._heads)
        for page_id, page in self._pages.items():
            page.check()
            assert page_id in self._untidy or not page.untidy, "waste that nobody clears away"
            low, time = page.next()
            assert page.posted in heads, "a page without a head"
            assert page.posted <= time << KEY_BITS | page_id << PAGE_BITS | low, "a late head"

    def _true_head(self) -> int:
        """Returns the next message, time and key in one, which is then the first head; -1 if
        none."""
        heads = self._heads
        while heads:
            head = heads[0]
            page_id = (head & KEY_MASK) >> PAGE_BITS
            page = self._pages.get(page_id)
            if page is None or page.posted != head:
                heappop(heads)
                continue
            low, time = page.next()
            true_head = time << KEY_BITS | page_id << PAGE_BITS | low
            if true_head == head:
                return head
            page.posted = true_head
            heapreplace(heads, true_head)
        return -1

    def _post(self, page: "_Page", head: int) -> None:
        page.posted = head
        if len(self._heads) >= 2 * len(self._pages) + WASTE_MIN:
            self._heads = [each.posted for each in self._pages.values()]
            heapify(self._heads)
        else:
            heappush(self._heads, head)

    def _forget(self, key: int) -> None:
        page_id = key >> PAGE_BITS
        page = self._pages.get(page_id)
        if page is not None and page.discard(key & PAGE_MASK):
            self._count -= 1
            self._changed(page_id, page)

    def _changed(self, page_id: int, page: "_Page") -> None:
        if page.live == 0:
            self._drop(page_id)
        elif page.untidy:
            self._untidy[page_id] = None

    def _tidy(self) -> None:
        """Writes one untidy page anew, if there is any."""
        if self._untidy:
            page_id = next(iter(self._untidy))
            del self._untidy[page_id]
            self._pages[page_id].tidy()

    def _drop(self, page_id: int) -> None:
        """Forgets a page; what it posted is found out later."""
        self._untidy.pop(page_id, None)
        del self._pages[page_id]
        del self._page_ids[bisect_left(self._page_ids, page_id)]


@final
class _Page:
    """The delayed entries among 16,384 neighbours, each by its low bits."""

    def __init__(self) -> None:
        # The table: two columns, sorted by the first. Messages are read, and therefore
        # added, in order, but for those that are read again.
        self.lows: array[int] = array("H")
        self.times: array[int] = array("q")
        # Rows before this one are gone.
        self.row_first: int = 0
        self.heap: list[int] = []
        self.live: int = 0
        # What stands for this page among the heads; -1 at first.
        self.posted: int = -1

    def find(self, low: int) -> int:
        """Returns the row of an entry that is delayed, or -1."""
        row = bisect_left(self.lows, low)
        if row < len(self.lows) and self.lows[row] == low and self.times[row] != GONE:
            return row
        return -1

    def put(self, low: int, time: int) -> bool:
        """Sets an entry's time. Says whether the entry was not delayed before."""
        before = self._set(low, time)
        if before != time:
            heappush(self.heap, time << PAGE_BITS | low)
            if before == GONE:
                self.live += 1
        return before == GONE

    def discard(self, low: int) -> bool:
        """Forgets an entry. Says whether it was delayed."""
        row = self.find(low)
        if row < 0:
            return False
        self.times[row] = GONE
        self.live -= 1
        return True

    def discard_through(self, low: int) -> int:
        """Forgets entries up to one, and it too. Returns how many were delayed."""
        end = bisect_right(self.lows, low)
        before = self.live
        for row in range(self.row_first, end):
            if self.times[row] != GONE:
                self.times[row] = GONE
                self.live -= 1
        self.row_first = max(self.row_first, end)
        return before - self.live

    def next(self) -> tuple[int, int]:
        """Returns the entry that is due next, and its time. There must be one."""
        heap = self.heap
        while True:
            low = heap[0] & PAGE_MASK
            time = heap[0] >> PAGE_BITS
            row = self.find(low)
            if row >= 0 and self.times[row] == time:
                return (low, time)
            heappop(heap)

    @property
    def untidy(self) -> bool:
        """Whether most of the page is waste."""
        return max(len(self.lows), len(self.heap)) > 2 * self.live + WASTE_MIN

    def tidy(self) -> None:
        """Writes the page anew, without waste."""
        alive = [time != GONE for time in self.times]
        self.lows = array("H", compress(self.lows, alive))
        self.times = array("q", compress(self.times, alive))
        self.row_first = 0
        # Messages that were due have left the heap, as a rule, but not the table.
        if len(self.heap) > 2 * self.live + WASTE_MIN:
            lows = self.lows
            self.heap = [time << PAGE_BITS | lows[row] for row, time in enumerate(self.times)]
            heapify(self.heap)

    def check(self) -> None:
        """Asserts that the table is in order, and that every live row is in the heap."""
        assert len(self.lows) == len(self.times), "columns of different lengths"
        assert list(self.lows) == sorted(set(self.lows)), "a table out of order"
        items = set(self.heap)
        live = 0
        for row in range(len(self.lows)):
            if self.times[row] != GONE:
                live += 1
                assert row >= self.row_first, "a row before the first"
                assert self.times[row] << PAGE_BITS | self.lows[row] in items, "not in the heap"
        assert live == self.live, "miscounted"
        assert live > 0, "an empty page"

    def _set(self, low: int, time: int) -> int:
        """Writes an entry's row. Returns its time before, or GONE."""
        if not self.lows or low > self.lows[-1]:
            self.lows.append(low)
            self.times.append(time)
            return GONE
        row = bisect_left(self.lows, low)
        self.row_first = min(self.row_first, row)
        if self.lows[row] == low:
            before = self.times[row]
            self.times[row] = time
            return before
        self.lows.insert(row, low)
        self.times.insert(row, time)
        return GONE
