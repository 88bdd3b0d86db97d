"""Bytes of the log and of the index files: round trips, and what damage does to them."""

from hypothesis import given
from hypothesis import strategies as st

from magnetar.storage.ledger.ledger_index import (
    HeapIndex,
    IndexColumns,
    IndexRewrite,
    Moves,
    decode_index,
)
from magnetar.storage.log.heads import decode_heads, encode_heads, heads_length
from magnetar.storage.log.record import HEAD_BYTES, Record, address_of
from magnetar.storage.log.record_kind import ENTRY
from magnetar.storage.log.scan import Scan
from magnetar.storage.log.segment import (
    FORMAT_VERSION,
    GroupHeader,
    SegmentHeader,
    segment_id_of,
    segment_path,
)

SALT = 0xFEDCBA98
SEGMENT = 5
I64 = st.integers(-(1 << 63), (1 << 63) - 1)

records = st.builds(
    lambda kind, id, sub_id, time_ms, batch_size, body: Record(
        kind, id, sub_id, time_ms=time_ms, batch_size=batch_size, body=body
    ),
    st.integers(1, 11),
    I64,
    I64,
    I64,
    st.integers(0, (1 << 31) - 1),
    st.binary(max_size=60),
)
groups = st.lists(st.lists(records, min_size=1, max_size=4), max_size=5)


def facts(record: Record) -> tuple[int, ...]:
    return (
        record.kind,
        record.id,
        record.sub_id,
        record.time_ms,
        record.batch_size,
        record.length,
    )


def segment_bytes(written: list[list[Record]]) -> tuple[bytes, list[int]]:
    """A segment with these groups, and where each of them ends."""
    data = SegmentHeader(SEGMENT, 0, 0, 1, FORMAT_VERSION).encode(SALT)
    ends = [len(data)]
    for number, group in enumerate(written):
        body = b"".join(record.head(SALT) + record.body for record in group)
        address = address_of(SEGMENT, len(data))
        header = GroupHeader(address, len(body), len(group), address, number)
        data += header.encode(SALT) + body
        ends.append(len(data))
    return data, ends


def scanned(scan: Scan, *, bodies: bool = True) -> list[list[Record]]:
    out = []
    while (group := scan.next_group(bodies=bodies)) is not None:
        out.append(group)
    return out


@given(groups)
def test_what_is_written_is_scanned(written: list[list[Record]]) -> None:
    data, ends = segment_bytes(written)
    scan = Scan(data + bytes(100), SEGMENT, SALT)
    found = scanned(scan)
    assert [[facts(r) for r in g] for g in found] == [[facts(r) for r in g] for g in written]
    assert [[r.body for r in g] for g in found] == [[r.body for r in g] for g in written]
    assert scan.end == ends[-1]
    assert scan.tail().bytes_lost == 0
    for group in found:
        for record in group:
            at = record.address - address_of(SEGMENT, 0)
            assert data[at : at + HEAD_BYTES] == record.head(SALT)


@given(groups, st.data())
def test_any_cut_leaves_whole_groups(written: list[list[Record]], data: st.DataObject) -> None:
    whole, ends = segment_bytes(written)
    cut = data.draw(st.integers(0, len(whole)))
    scan = Scan(whole[:cut] + bytes(64), SEGMENT, SALT)
    found = scanned(scan)
    # Bytes that were zero anyway are not missed.
    assert len(found) in {
        len([end for end in ends[1:] if len(whole[:end].rstrip(b"\0")) <= cut]),
        len([end for end in ends[1:] if end <= cut]),
    }
    assert scan.end in (*ends, 0)


@given(groups, st.data())
def test_any_flipped_bit_stops_the_scan_in_front_of_its_group(
    written: list[list[Record]], data: st.DataObject
) -> None:
    whole, ends = segment_bytes(written)
    at = data.draw(st.integers(0, len(whole) - 1))
    damaged = bytearray(whole)
    damaged[at] ^= 1 << data.draw(st.integers(0, 7))
    scan = Scan(bytes(damaged), SEGMENT, SALT)
    found = scanned(scan)
    assert len(found) == len([end for end in ends[1:] if end <= at and at >= ends[0]])
    later = [end for end in ends[:-1] if end > at]
    tail = scan.tail()
    assert tail.bytes_lost == len(bytes(damaged[scan.end :]).rstrip(b"\0"))
    # Later groups bear witness to what was durable when they were written.
    assert tail.evidence == (address_of(SEGMENT, later[-1]) if later else tail.evidence)


@given(groups)
def test_heads_tell_all_but_the_bodies(written: list[list[Record]]) -> None:
    data, ends = segment_bytes(written)
    scan = Scan(data, SEGMENT, SALT)
    full = scanned(scan)
    file = encode_heads(scan.heads_bytes(), ends[-1], SALT)
    assert heads_length(file, SALT) == ends[-1]
    heads = decode_heads(file, SEGMENT, SALT)
    found = scanned(heads)
    assert [[(*facts(r), r.address) for r in g] for g in found] == [
        [(*facts(r), r.address) for r in g] for g in full
    ]
    assert heads.end == ends[-1]
    assert heads_length(file[:-1], SALT) == -1
    assert heads_length(file, SALT + 1) == -1


def test_a_group_inside_a_message_is_not_taken_for_one_of_the_log() -> None:
    inner, _ = segment_bytes([[Record(ENTRY, 1, 2, body=b"x")]])
    data, ends = segment_bytes([[Record(ENTRY, 1, 0, body=inner * 3)]])
    damaged = bytearray(data)
    damaged[ends[0] + 50] ^= 1
    scan = Scan(bytes(damaged), SEGMENT, SALT)
    assert scan.next_group() is None
    tail = scan.tail()
    assert (tail.records_lost, tail.evidence) == (1, address_of(SEGMENT, ends[0]))


def test_names_of_segments_are_read_back_and_others_are_not() -> None:
    for segment_id in (1, 255, 0x7FFFFFFF):
        assert segment_id_of(segment_path(segment_id).removeprefix("journal/")) == segment_id
    for name in ("1.log", "0000000g.log", "00000001.heads", "00000001.log.tmp", "0001.spare"):
        assert segment_id_of(name) == -1


entries = st.lists(
    st.tuples(
        st.integers(1 << 32, (1 << 34) - 1),
        st.integers(0, 1 << 31),
        st.integers(0, 1 << 31),
        st.one_of(st.integers(1_800_000_000_000, 1_800_000_100_000), I64),
    ),
    max_size=30,
)


@given(entries, st.randoms(use_true_random=False))
def test_an_index_says_what_was_put_in_any_order_on_the_heap_and_in_its_file(
    facts_of: list[tuple[int, int, int, int]], random: object
) -> None:
    index = HeapIndex()
    order = list(range(len(facts_of)))
    random.shuffle(order)  # type: ignore[attr-defined]
    for i in order:
        address, length, batch_size, time_ms = facts_of[i]
        index.put(i, address, length=length, batch_size=batch_size, publish_time_ms=time_ms)
    assert index.missing() == -1
    mapped = decode_index(memoryview(index.encode(7, SALT)), 7, SALT)
    assert mapped is not None
    assert mapped.intact(SALT)
    usage: dict[int, int] = {}
    for address, length, _, _ in facts_of:
        usage[address >> 32] = usage.get(address >> 32, 0) + HEAD_BYTES + length
    for one in (index, mapped):
        found = [
            (one.address(i), one.length(i), one.batch_size(i), one.publish_time_ms(i))
            for i in range(one.count())
        ]
        assert found == facts_of
        assert one.size_bytes() == sum(fact[1] for fact in facts_of)
        assert one.usage() == usage


@given(entries.filter(bool), st.data())
def test_moved_entries_are_found_where_they_went(
    facts_of: list[tuple[int, int, int, int]], data: st.DataObject
) -> None:
    index = HeapIndex()
    for i, (address, length, batch_size, time_ms) in enumerate(facts_of):
        index.put(i, address, length=length, batch_size=batch_size, publish_time_ms=time_ms)
    ids = st.integers(0, len(facts_of) - 1)
    moves = data.draw(st.dictionaries(ids, st.integers(9 << 32, (9 << 32) + 99)))
    mapped = decode_index(memoryview(index.encode(7, SALT)), 7, SALT)
    assert mapped is not None
    went = Moves()
    for i, address in moves.items():
        went.add(i, address)
    rewrite = IndexRewrite(mapped, 7, went)
    entered = [rewrite.enter(3) for _ in range(len(moves) // 3 + 2)]
    assert (sum(entered), entered[-1]) == (len(moves), 0)
    moved = decode_index(memoryview(rewrite.encode(SALT)), 7, SALT)
    assert isinstance(moved, IndexColumns)
    for i, (address, length, batch_size, time_ms) in enumerate(facts_of):
        before = index.put(
            i,
            moves.get(i, address),
            length=length,
            batch_size=batch_size,
            publish_time_ms=time_ms,
        )
        assert before == address
        assert moved.address(i) == index.address(i) == moves.get(i, address)
        assert (moved.length(i), moved.publish_time_ms(i)) == (length, time_ms)
    assert moved.usage() == index.usage()


@given(entries.filter(bool), st.data())
def test_a_damaged_index_is_not_taken_or_not_intact(
    facts_of: list[tuple[int, int, int, int]], data: st.DataObject
) -> None:
    index = HeapIndex()
    for i, (address, length, batch_size, time_ms) in enumerate(facts_of):
        index.put(i, address, length=length, batch_size=batch_size, publish_time_ms=time_ms)
    file = bytearray(index.encode(7, SALT))
    file[data.draw(st.integers(0, len(file) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    found = decode_index(memoryview(bytes(file)), 7, SALT)
    assert found is None or not found.intact(SALT)
    whole = memoryview(index.encode(7, SALT))
    assert decode_index(whole[:-1], 7, SALT) is None
    assert decode_index(whole[:10], 7, SALT) is None
    assert decode_index(whole, 8, SALT) is None


def test_gaps_are_seen_until_they_are_filled() -> None:
    index = HeapIndex()
    index.put(2, 1 << 32, length=1, batch_size=1, publish_time_ms=5)
    assert (index.count(), index.missing()) == (3, 0)
    index.put(0, 2 << 32, length=1, batch_size=1, publish_time_ms=4)
    assert index.missing() == 1
    index.put(1, 3 << 32, length=1, batch_size=1, publish_time_ms=3)
    assert index.missing() == -1
    assert [index.publish_time_ms(i) for i in range(3)] == [4, 3, 5]
