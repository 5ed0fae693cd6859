import pytest
from hypothesis import given
from hypothesis import strategies as st

from etagere.base.errors import Refused
from etagere.kernel.ranges import (
    RequestedRange,
    Slice,
    content_range,
    parse_range,
    parse_read_range,
    parse_write_range,
    range_not_satisfiable,
    require_pages,
    select,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bytes=0-0", (0, 0)),
        ("bytes=0-511", (0, 511)),
        ("bytes=5-", (5, None)),
        ("Bytes=5-9", (5, 9)),
        (" bytes=5-9 ", (5, 9)),
        ("bytes=0-9223372036854775807", (0, 2**63 - 1)),
        ("bytes=-5", None),
        ("bytes=9-5", None),
        ("bytes=0-1,4-5", None),
        ("bytes=-", None),
        ("bytes=", None),
        ("bytes 0-5", None),
        ("items=0-5", None),
        ("0-5", None),
        ("", None),
        ("bytes=\u0661-5", None),
        ("bytes=0x1-5", None),
        ("bytes=+1-5", None),
        ("bytes=1-5\n", None),
        (f"bytes={'9' * 5000}-", None),
    ],
)
def test_parse(text: str, expected: tuple[int, int | None] | None):
    assert parse_range(text) == (RequestedRange(*expected) if expected else None)


def test_the_services_own_header_goes_first():
    assert parse_read_range({"range": "bytes=0-1", "x-ms-range": "bytes=2-3"}) == (2, 3)
    assert parse_read_range({"range": "bytes=0-1"}) == (0, 1)
    assert parse_read_range({"x-ms-range": "", "range": "bytes=0-1"}) == (0, 1)
    assert parse_read_range({}) is None


def test_malformed_reads():
    assert parse_read_range({"range": "bytes=-5"}) is None
    with pytest.raises(Refused) as refusal:
        parse_read_range({"x-ms-range": "bytes=-5"})
    assert refusal.value.code == "InvalidHeaderValue"
    assert refusal.value.details == {"HeaderName": "x-ms-range", "HeaderValue": "bytes=-5"}


def test_writes_name_a_closed_range():
    assert parse_write_range({"range": "bytes=0-511"}) == Slice(0, 512)
    assert parse_write_range({"x-ms-range": "bytes=512-1023", "range": "x"}) == Slice(512, 1024)
    with pytest.raises(Refused, match="MissingRequiredHeader"):
        parse_write_range({})
    for headers in ({"range": "bytes=0-"}, {"range": "bytes=-5"}, {"x-ms-range": "pages=0-511"}):
        with pytest.raises(Refused, match="InvalidHeaderValue"):
            parse_write_range(headers)


@given(st.integers(0, 50), st.one_of(st.none(), st.integers(0, 60)), st.integers(0, 50))
def test_select_is_a_slice_of_the_bytes(first: int, extra: int | None, size: int):
    content = bytes(range(size))
    requested = RequestedRange(first, None if extra is None else first + extra)
    wanted = content[first:] if extra is None else content[first : first + extra + 1]
    part = select(requested, size)
    if part is None:
        assert not wanted
        return
    assert content[part.start : part.end] == wanted
    assert part.length == len(wanted) > 0
    assert content_range(part, size) == f"bytes {first}-{first + len(wanted) - 1}/{size}"


def test_beyond_the_end():
    assert select(RequestedRange(0, None), 0) is None
    assert select(RequestedRange(10, 20), 10) is None
    refusal = range_not_satisfiable(10)
    assert refusal.code == "InvalidRange"
    assert refusal.headers == {"Content-Range": "bytes */10"}


@pytest.mark.parametrize(
    ("part", "fits"),
    [
        (Slice(0, 512), True),
        (Slice(512, 2048), True),
        (Slice(1, 512), False),
        (Slice(0, 511), False),
        (Slice(0, 513), False),
        (Slice(1536, 2560), False),
        (Slice(2048, 2560), False),
    ],
)
def test_pages(part: Slice, fits: bool):
    if fits:
        require_pages(part, 2048)
    else:
        with pytest.raises(Refused, match="InvalidPageRange"):
            require_pages(part, 2048)


@given(st.text(max_size=60))
def test_any_text_is_read(text: str):
    parse_range(text)
    parse_range(f"bytes={text}")
