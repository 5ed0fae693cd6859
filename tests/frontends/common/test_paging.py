"""Markers: opaque, URL-safe, and read back to where they lead."""

import re

from hypothesis import given
from hypothesis import strategies as st

from etagere.frontends.common.paging import decode_marker, encode_marker

positions = st.lists(
    st.one_of(st.text(st.characters(exclude_categories=["Cs"])), st.integers(0, 2**63)),
    min_size=1,
    max_size=3,
)


@given(positions)
def test_a_marker_leads_back(position: list[str | int]) -> None:
    marker = encode_marker(*position)
    assert re.fullmatch(r"2![0-9]+![A-Za-z0-9_-]*", marker)
    assert decode_marker(marker) == tuple(position)


@given(st.text(max_size=60))
def test_another_marker_is_a_name(text: str) -> None:
    assert decode_marker(text)


def test_markers_that_were_changed_are_names() -> None:
    marker = encode_marker("name", 5)
    for changed in (marker[:-1], marker + "A", "2!x!" + marker[4:], marker.replace("!", "!é", 1)):
        assert decode_marker(changed) == (changed,)
