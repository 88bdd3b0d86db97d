"""The console's modules that decide, called by themselves: numbers, routes, payloads, maps."""

import json
import re
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import fastavro
import pytest
from browser.visit import PICTURES, Visit
from support.served import Served


@pytest.fixture(scope="module")
def at(broker: Served, chromium: Any) -> Iterator[Visit]:
    """A page of the console, whose modules are called."""
    found = Visit(chromium.new_context(), broker.http_url, PICTURES)
    found.go("overview")
    yield found
    assert found.close() == []


# ---- Routes ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "names",
    [
        ["persistent", "a", "b", "c", "d"],
        ["persistent", "a", "b", "c/d?e#f", "<b>&%2F ü"],
        ["persistent", "a", "b", "..", "100%"],
    ],
)
def test_an_address_leads_back_to_the_names_that_it_was_made_of(
    at: Visit, names: list[str]
) -> None:
    found = at.module(
        "logic/route.js",
        "m.parseRoute(m.routeTo('subscription', a[0], 'messages', {from: '1:2', x: ''}))",
        names,
    )
    assert found == {
        "page": "subscription",
        "names": names,
        "tab": "messages",
        "query": {"from": "1:2"},
    }


@pytest.mark.parametrize("text", ["", "#", "#/nothing", "#/topic/a/b", "#/%E0%A4%A", "#/topics/x"])
def test_an_address_that_leads_nowhere_is_the_nearest_page(at: Visit, text: str) -> None:
    found = at.module("logic/route.js", "m.parseRoute(a[0])", text)
    assert found["page"] in ("overview", "topics")


# ---- Numbers and times -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("m.short(99999)", "99,999"),
        ("m.short(123456)", "123.5 k"),
        ("m.short(1000000)", "1 M"),
        ("m.bytes(1023)", "1,023 B"),
        ("m.bytes(1536)", "1.5 KiB"),
        ("m.rate(0)", "0"),
        ("m.rate(0.25)", "0.3"),
        ("m.age(59999)", "59 s"),
        ("m.age(3600000)", "1 h 0 min"),
        ("m.age(90000000)", "1 d 1 h"),
        ("m.age(-5)", "0 s"),
        ("m.time(0)", ""),
        ("m.time(1e300)", ""),
        ("m.plural(1, 'entry', 'entries')", "1 entry"),
        ("m.percent(1, 1000)", "< 1 %"),
        ("m.ago(0, 5)", "never"),
    ],
)
def test_numbers_are_written_as_people_read_them(at: Visit, expression: str, text: str) -> None:
    assert at.module("logic/format.js", expression) == text


# ---- Charts ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "top"),
    [([], 1), ([0, 0], 1), ([1], 1), ([1.5], 2), ([21, 3], 50), ([50], 50), ([501], 1000)],
)
def test_a_chart_ends_at_a_round_number(at: Visit, values: list[float], top: float) -> None:
    assert at.module("logic/chart.js", "m.scaleTop(a[0])", values) == top


BOX = {"from": 100, "to": 200, "top": 10, "width": 50, "height": 20}


@pytest.mark.parametrize(
    ("values", "times", "points"),
    [
        ([10, 0], [100, 200], "0.0,0.0 50.0,20.0"),
        # What comes from before begins at the edge; what was over before is left out.
        ([9, 0, 10, 5], [10, 50, 150, 200], "0.0,10.0 25.0,0.0 50.0,10.0"),
        ([5], [50], ""),
        ([], [], ""),
    ],
)
def test_points_lie_where_their_time_and_number_are(
    at: Visit, values: list[float], times: list[int], points: str
) -> None:
    assert at.module("logic/chart.js", "m.chartPoints(...a)", values, times, BOX) == points


# ---- Payloads --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        '{"a":[1,2,{"b":null}],"c":{}}',
        '{"id":12345678901234567890,"id":0.10,"t":"a,b:{c}[d]\\"e"}',
        "[]",
        '["\\u0000\\\\"]',
    ],
)
def test_json_is_indented_and_nothing_else_becomes_of_it(at: Visit, text: str) -> None:
    found = at.module("logic/payload.js", "m.indentJson(a[0])", text)
    assert "".join(json_tokens(found)) == "".join(json_tokens(text))
    if text == '{"a":[1,2,{"b":null}],"c":{}}':
        assert found == json.dumps(json.loads(text), indent=2)


def json_tokens(text: str) -> list[str]:
    return re.findall(r'"(?:[^"\\]|\\.)*"|[^\s"]', text)


def forms(at: Visit, payload: bytes, **options: Any) -> dict[str, str]:
    found = at.module(
        "logic/payload.js", "m.formsOf(Uint8Array.from(a[0]), a[1])", list(payload), options
    )
    return {one["name"]: one["text"] for one in found}


def test_a_payload_has_the_forms_that_fit_it(at: Visit) -> None:
    assert list(forms(at, b'{"a": 1}')) == ["JSON", "Text", "Hex"]
    assert list(forms(at, b"plain")) == ["Text", "Hex"]
    assert list(forms(at, b"\xff\x00")) == ["Hex"]
    assert list(forms(at, b"")) == ["Text", "Hex"]
    assert list(forms(at, "ü".encode()[:1], whole=False)) == ["Text", "Hex"]
    assert forms(at, bytes(range(20)))["Hex"].splitlines()[0] == (
        "000000  00 01 02 03 04 05 06 07  08 09 0a 0b 0c 0d 0e 0f  ................"
    )


SCHEMA = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "price", "type": "double"},
        {"name": "paid", "type": "boolean"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "lines", "type": {"type": "array", "items": "int"}},
        {"name": "tags", "type": {"type": "map", "values": "string"}},
        {"name": "raw", "type": "bytes"},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}},
        {"name": "next", "type": ["null", "Order"]},
    ],
}
ORDER = {
    "id": 2**62,
    "price": 0.5,
    "paid": True,
    "note": "<b>",
    "kind": "B",
    "lines": [1, -2, 3],
    "tags": {"__proto__": "x", "a": "ü"},
    "raw": b"\x00\xff",
    "hash": b"ab",
    "next": None,
}


def test_avro_is_read_by_its_schema(at: Visit) -> None:
    out = BytesIO()
    fastavro.schemaless_writer(out, SCHEMA, ORDER | {"next": ORDER})
    schema = {"type": "AVRO", "data": json.dumps(SCHEMA)}
    found = forms(at, out.getvalue(), schema=schema)
    assert next(iter(found)) == "Avro"
    wanted = ORDER | {"raw": "00ff", "hash": "6162"}
    assert json.loads(found["Avro"]) == wanted | {"next": wanted}
    cut = forms(at, out.getvalue()[:-1], schema=schema)
    assert "does not fit" in cut["Avro"]
    assert "does not fit" in forms(at, b"\xff" * 40, schema=schema)["Avro"]


# ---- The map ---------------------------------------------------------------------------

LEDGERS = [
    {"ledgerId": 5, "first": 0},
    {"ledgerId": 9, "first": 100},
    {"ledgerId": 12, "first": 100},
]


@pytest.mark.parametrize(
    ("number", "position"), [(0, "5:0"), (99, "5:99"), (100, "12:0"), (149, "12:49")]
)
def test_a_number_leads_to_a_position_and_back(at: Visit, number: int, position: str) -> None:
    assert at.module("logic/ackmap.js", "m.positionAt(a[0], a[1])", LEDGERS, number) == position
    assert at.module("logic/ackmap.js", "m.numberOf(a[0], 150, a[1])", LEDGERS, position) == number


@pytest.mark.parametrize(("position", "number"), [("5:500", 100), ("1:0", 0), ("13:0", 150)])
def test_a_position_that_is_not_there_leads_to_what_follows(
    at: Visit, position: str, number: int
) -> None:
    assert at.module("logic/ackmap.js", "m.numberOf(a[0], 150, a[1])", LEDGERS, position) == number


@pytest.mark.parametrize("cells", [0, 1, 7, 900, 8000])
@pytest.mark.parametrize(("width", "height"), [(1100, 336), (330, 336), (200, 336)])
def test_all_cells_have_room(at: Visit, width: int, height: int, cells: int) -> None:
    room = at.module("logic/ackmap.js", "m.capacity(...a)", width, height)
    cells = min(cells, room)
    grid = at.module("logic/ackmap.js", "m.gridOf(...a)", width, height, cells)
    assert grid["columns"] * grid["rows"] >= cells
    assert grid["columns"] * grid["size"] <= width
    assert grid["rows"] * grid["size"] <= max(height, grid["size"])


@pytest.mark.parametrize("total", [1, 15, 1_000_000])
def test_zooming_stays_inside_the_topic_and_comes_down_to_single_entries(
    at: Visit, total: int
) -> None:
    window = {"first": 0, "entries": total}
    for _ in range(10):
        width = -(-window["entries"] // 2000)
        window = at.module("logic/ackmap.js", "m.zoomInto(...a)", window, total, width, 3)
        assert 0 <= window["first"] <= total - window["entries"]
    assert window["entries"] == min(16, total)
    for _ in range(10):
        window = at.module("logic/ackmap.js", "m.zoom(...a)", window, total, 16, window["first"])
        window = at.module("logic/ackmap.js", "m.pan(...a)", window, total, 0.5)
        assert 0 <= window["first"] <= total - window["entries"]
    assert window == {"first": 0, "entries": total}


def test_bits_say_which_messages_of_a_batch_are_left(at: Visit) -> None:
    remaining = 1 | 1 << 7 | 1 << 70
    found = at.module("logic/ackmap.js", "[...m.leftOf(a[0], a[1])]", f"{remaining:x}", 100)
    assert [i for i, left in enumerate(found) if left] == [0, 7, 70]


# ---- Ids and properties ----------------------------------------------------------------


def test_ids_are_read_as_people_write_them(at: Visit) -> None:
    read = "m.parseId(a[0])"
    assert at.module("logic/message.js", read, " 5:2 ") == {
        "ledgerId": 5,
        "entryId": 2,
        "batchIndex": -1,
    }
    assert at.module("logic/message.js", read, "5:2:0")["batchIndex"] == 0
    for wrong in ("", "5", "5:", "a:b", "5:2:1:0", "-1:0", "5:2.5"):
        assert at.module("logic/message.js", read, wrong) is None


def test_properties_are_read_line_by_line(at: Visit) -> None:
    found = at.module(
        "logic/message.js", "JSON.stringify(m.parseProperties(a[0]))", "a=1\n\n__proto__=x=y\n"
    )
    assert json.loads(found) == {"a": "1", "__proto__": "x=y"}


def test_a_map_is_counted_by_state(at: Visit) -> None:
    """What stands behind all that was touched is the rest, and no hole."""
    map = {
        "first": 4,
        "end": 20,
        "lastTouched": 14,
        "acked": [4, 1, 0, 0],
        "partial": [0, 2, 0, 0],
        "held": [0, 1, 1, 0],
        "delayed": None,
    }
    found = at.module("logic/ackmap.js", "m.tally(a[0])", map)
    assert found == {"acked": 5, "partial": 2, "rest": 6, "left": 3, "held": 2, "delayed": 0}


@pytest.mark.parametrize(
    ("values", "heights"),
    [
        # Two looks say nothing yet.
        ([1, 2, 3], []),
        ([0, 0, 0, 0], [17, 17, 17, 17]),
        ([5, 5, 5, 5], [9, 9, 9, 9]),
        ([0, 0, 2, 4], [17, 17, 9, 1]),
        # A thousandth more is no mountain.
        ([1000, 1000, 1000, 1001], [9.1, 9.1, 9.1, 8.9]),
    ],
)
def test_a_line_of_the_last_looks_moves_as_much_as_its_figure(
    at: Visit, values: list[int], heights: list[float]
) -> None:
    points = at.module("logic/history.js", "m.linePoints(a[0], 64, 18)", values)
    found = [float(point.split(",")[1]) for point in points.split()]
    assert found == pytest.approx(heights, abs=0.05)


def test_what_lies_below_a_line_is_closed_at_the_bottom(at: Visit) -> None:
    area = "m.areaPoints(a[0], 20)"
    found = at.module("logic/chart.js", area, "0.0,3.0 50.0,7.0")
    assert found == "0.0,20 0.0,3.0 50.0,7.0 50.0,20"
    assert at.module("logic/chart.js", area, "") == ""


def test_lines_of_the_last_looks_stay_in_their_box(at: Visit) -> None:
    for values in ([1, 1, 1, 1], [0, 5, 3, 1], list(range(60))):
        points = at.module("logic/history.js", "m.linePoints(a[0], 64, 18)", values)
        for point in points.split():
            x, y = map(float, point.split(","))
            assert 0 <= x <= 64
            assert 0 < y < 18


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ü \U0001f600\n\ttext", "plain ü \U0001f600\n\ttext"),
        ("a\u202eb", "a\\u202eb"),
        ("\x00\x1b[31m\u200b\u2066\ufeff\r", "\\u0000\\u001b[31m\\u200b\\u2066\\ufeff\\u000d"),
    ],
)
def test_what_nobody_sees_is_shown_by_its_number(at: Visit, text: str, shown: str) -> None:
    assert at.module("logic/visible.js", "m.visible(a[0])", text) == shown
