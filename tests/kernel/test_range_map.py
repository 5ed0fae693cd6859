"""Range maps against a list that says of every byte what it carries."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from etagere.kernel.range_map import (
    Change,
    Piece,
    Placed,
    RangeMap,
    Run,
    clear,
    clip,
    diff,
    overwrite,
    runs,
    with_clears,
)

universe = 40

positions = st.integers(0, universe)
edits = st.tuples(positions, positions, st.sampled_from([None, "a", "b", "c"]))


def flat(pieces: Any) -> list[Any]:
    cells: list[Any] = [None] * universe
    for piece in pieces:
        for position in range(piece.start, piece.end):
            assert cells[position] is None
            cells[position] = piece.value
    return cells


def build(changes: list[tuple[int, int, str | None]]) -> tuple[RangeMap[str], list[str | None]]:
    ranges: RangeMap[str] = RangeMap()
    cells: list[str | None] = [None] * universe
    for one, two, value in changes:
        start, end = min(one, two), max(one, two)
        if value is None:
            ranges.clear(start, end)
        else:
            ranges.write(start, end, value)
        cells[start:end] = [value] * (end - start)
    return ranges, cells


def assert_tidy(ranges: RangeMap[Any]) -> None:
    """In order, none empty, none overlapping, no equal neighbours."""
    pieces = list(ranges)
    assert all(piece.start < piece.end for piece in pieces)
    for left, right in pairwise(pieces):
        assert left.end <= right.start
        assert left.end < right.start or left.value != right.value
    assert [piece.start for piece in pieces] == ranges._starts


class RangeMapMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.map: RangeMap[str] = RangeMap()
        self.cells: list[str | None] = [None] * universe

    @rule(one=positions, two=positions, value=st.sampled_from("abc"))
    def write(self, one: int, two: int, value: str) -> None:
        start, end = min(one, two), max(one, two)
        before = list(self.map)
        splice = self.map.write(start, end, value)
        self.cells[start:end] = [value] * (end - start)
        self.assert_spliced(before, splice)

    @rule(one=positions, two=positions)
    def clear(self, one: int, two: int) -> None:
        start, end = min(one, two), max(one, two)
        before = list(self.map)
        splice = self.map.clear(start, end)
        self.cells[start:end] = [None] * (end - start)
        self.assert_spliced(before, splice)

    @rule(size=positions)
    def truncate(self, size: int) -> None:
        before = list(self.map)
        splice = self.map.truncate(size)
        self.cells[size:] = [None] * (universe - size)
        self.assert_spliced(before, splice)

    def assert_spliced(self, before: list[Piece[str]], splice: Any) -> None:
        """A splice says exactly what changed, so that it can be applied to rows of a store."""
        assert not set(splice.removed) & set(splice.added), "a row written as it was"
        rows = {piece.start: piece for piece in before}
        for piece in splice.removed:
            assert rows.pop(piece.start) == piece
        for piece in splice.added:
            assert piece.start not in rows
            rows[piece.start] = piece
        assert [rows[start] for start in sorted(rows)] == list(self.map)

    @rule(one=positions, two=positions)
    def look(self, one: int, two: int) -> None:
        start, end = min(one, two), max(one, two)
        seen = flat(self.map.pieces(start, end))
        expected = [
            cell if start <= position < end else None for position, cell in enumerate(self.cells)
        ]
        assert seen == expected

    @invariant()
    def same_bytes(self) -> None:
        assert_tidy(self.map)
        assert flat(self.map) == self.cells
        ends = [position + 1 for position, cell in enumerate(self.cells) if cell is not None]
        assert self.map.end == max(ends, default=0)


TestRangeMap = RangeMapMachine.TestCase
TestRangeMap.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)


@given(st.lists(edits, max_size=12))
def test_runs_join_what_touches(changes: list[tuple[int, int, str | None]]):
    ranges, cells = build(changes)
    covered = [False] * universe
    found = list(runs(ranges))
    for run in found:
        assert run.start < run.end
        covered[run.start : run.end] = [True] * (run.end - run.start)
    assert covered == [cell is not None for cell in cells]
    for left, right in pairwise(found):
        assert left.end < right.start


@given(st.lists(edits, max_size=10), st.lists(edits, max_size=6))
def test_diff_finds_what_changed(
    first: list[tuple[int, int, str | None]], then: list[tuple[int, int, str | None]]
):
    old, old_cells = build(first)
    new, new_cells = build(first + then)
    told: list[str | None] = [None] * universe
    changes = list(diff(old, new))
    for change in changes:
        assert change.start < change.end
        for position in range(change.start, change.end):
            told[position] = "cleared" if change.cleared else "written"
    for position, (before, after) in enumerate(zip(old_cells, new_cells, strict=True)):
        expected = None if before == after else ("cleared" if after is None else "written")
        assert told[position] == expected
    for left, right in pairwise(changes):
        assert left.end <= right.start
        assert left.end < right.start or left.cleared != right.cleared


spans = st.tuples(positions, positions).map(lambda two: Run(min(two), max(two)))


@given(
    st.lists(edits, max_size=12), st.lists(edits, max_size=12), st.lists(spans, max_size=8), spans
)
@settings(max_examples=200)
def test_clears_show_where_nothing_was_written_since(
    before: list[tuple[int, int, str | None]],
    later: list[tuple[int, int, str | None]],
    cleared: list[Run],
    part: Run,
):
    old, _ = build(before)
    new, _ = build(before + later)
    changes = list(diff(clip(old, *part), clip(new, *part)))
    marks = [""] * universe
    for run in cleared:
        marks[run.start : run.end] = ["cleared"] * (run.end - run.start)
    marks[: part.start] = [""] * part.start
    marks[part.end :] = [""] * (universe - part.end)
    for change in changes:
        name = "cleared" if change.cleared else "written"
        marks[change.start : change.end] = [name] * (change.end - change.start)
    found = with_clears(changes, sorted(cleared), *part)
    shown = [""] * universe
    for change in found:
        name = "cleared" if change.cleared else "written"
        shown[change.start : change.end] = [name] * (change.end - change.start)
    assert shown == marks
    assert all(change.start < change.end for change in found)
    for left, right in pairwise(found):
        assert left.end < right.start or (left.end == right.start and left.cleared != right.cleared)


def test_diff_of_equal_maps_is_empty():
    ranges, _ = build([(0, 10, "a"), (20, 30, "b")])
    assert not list(diff(ranges, ranges))
    assert list(diff([], ranges)) == [Change(0, 10, cleared=False), Change(20, 30, cleared=False)]
    assert list(diff(ranges, [])) == [Change(0, 10, cleared=True), Change(20, 30, cleared=True)]


def test_placed_content_survives_cutting_and_joins_again():
    """What a byte is read from does not depend on how its piece was cut."""
    ranges: RangeMap[Placed[str]] = RangeMap()
    ranges.write(100, 200, Placed("extent", -100))
    ranges.write(140, 150, Placed("patch", -140))
    sources = [
        (piece.value.source, piece.start + piece.value.shift, piece.end - piece.start)
        for piece in ranges
    ]
    assert sources == [("extent", 0, 40), ("patch", 0, 10), ("extent", 50, 50)]
    ranges.write(140, 150, Placed("extent", -100))
    assert list(ranges) == [Piece(100, 200, Placed("extent", -100))]


def test_content_at_another_place_of_the_same_source_stays_apart():
    ranges: RangeMap[Placed[str]] = RangeMap()
    ranges.write(0, 10, Placed("extent", 0))
    ranges.write(10, 20, Placed("extent", 90))
    assert len(ranges) == 2
    assert list(runs(ranges)) == [Run(0, 20)]


def test_writing_what_is_there_changes_no_row():
    near = [Piece(0, 100, "a")]
    for start, end in ((10, 20), (0, 20), (80, 100), (0, 100)):
        assert overwrite(near, start, end, "a") == ([], [])
    assert clear(near, 100, 200) == ([], [])
    assert overwrite(near, 100, 200, "b") == ([], [Piece(100, 200, "b")])
    assert overwrite(near, 100, 200, "a") == (near, [Piece(0, 200, "a")])


def test_clip():
    assert list(clip([Piece(0, 10, "a"), Piece(10, 20, "b")], 5, 15)) == [
        Piece(5, 10, "a"),
        Piece(10, 15, "b"),
    ]
    assert not list(clip([Piece(0, 10, "a")], 10, 20))


@pytest.mark.parametrize(
    "pieces", [[Piece(0, 0, "a")], [Piece(5, 10, "a"), Piece(9, 12, "b")], [Piece(-1, 3, "a")]]
)
def test_a_row_that_is_no_map_is_noticed(pieces: list[Piece[str]]):
    with pytest.raises(AssertionError):
        RangeMap(pieces)


def test_many_pages_are_found_by_bisection():
    """Each write looks at its neighbours only, however many pieces there are."""
    pages = 20_000
    ranges: RangeMap[int] = RangeMap(
        Piece(page * 1024, page * 1024 + 512, page) for page in range(pages)
    )
    splice = ranges.write(1024 * 777, 1024 * 777 + 512, -1)
    assert (len(splice.removed), len(splice.added)) == (1, 1)
    first, last = ranges._near(1024 * 12_345, 1024 * 12_345 + 512)
    assert last - first == 1
    assert len(list(ranges.pieces(0, 1024 * 10))) == 10
    assert len(ranges) == pages
